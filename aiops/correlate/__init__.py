"""Findings → incidents: scope, hypotheses, ranking, and knowing when to be silent."""

from __future__ import annotations

import math

from aiops.catalog.model import Catalog, Confidence
from aiops.correlate.gaps import UNSEEN_AT_MOST, unseen
from aiops.correlate.hypotheses import AFTERMATH_MARGIN_S, NODE_STATE, build_hypotheses
from aiops.correlate.model import Hypothesis, IncidentDraft, JobScope, Suspect, Term
from aiops.correlate.scope import find_scope, in_scope, scope_of_cause, shows_failure
from aiops.model.case import Case
from aiops.model.event import NO_TIME, Severity
from aiops.model.finding import Finding, Role

__all__ = ["Hypothesis", "IncidentDraft", "JobScope", "Suspect", "confidence_features", "correlate"]

ENOUGH = 2.5
"""Score below which a hypothesis is no incident on its own."""
DOMAIN_S = 60.0
OTHERS = 2
"""So many other nodes that go down within `DOMAIN_S` speak for what they share."""
SPECIFIC = 2.0
"""Weight of a sign that says something by itself; 1 is nearly nothing."""
TOGETHER_S = 600.0
"""The same fault on two machines within this time is one incident."""
MOST_OTHERS = 5
UNDECIDED = frozenset({"unk.none", "nccl.timeout_unattributed"})
"""Classes that say that the evidence does not tell."""

LAST_ERROR = "log.last_error"
TWICE = 2.0
"""Steps that take so many times as long as before, until the log ends, are more than a busy hour."""


def correlate(case: Case, findings: list[Finding], catalog: Catalog) -> list[IncidentDraft]:
    """The incidents of a case, most important first; empty if nothing went wrong."""
    scope = find_scope(case)
    failed = _job_failed(findings, scope)
    succeeded = _job_succeeded(case, findings, scope)
    hypotheses = build_hypotheses(case, findings, scope, catalog, succeeded=succeeded)
    if succeeded:
        hypotheses = [h for h in hypotheses if h.score >= ENOUGH]
        failed = False
    elif not failed:
        hypotheses = [h for h in hypotheses if h.score >= ENOUGH and h.failure.id not in UNDECIDED]
    if not hypotheses and (failed or (not succeeded and any(map(_unhealthy, findings)))):
        hypotheses = _nobody_knows(findings, scope, catalog)
    if not hypotheses:
        return []
    _set_confidence(hypotheses, catalog.confidence)
    best = hypotheses[0]
    best.unseen = unseen(case, best, findings, scope)
    if best.unseen:
        for hypothesis in hypotheses:
            hypothesis.confidence = min(hypothesis.confidence, UNSEEN_AT_MOST)
    twins = _twins(best, hypotheses)
    verdict = "incident"
    if best.failure.id in UNDECIDED or best.score < 1.5 or _rests_on_hints(best):
        verdict = "inconclusive"
    unanswered = _unanswered(best, findings, scope, catalog) or _down_with_others(best, twins, findings, scope)
    if unanswered:
        verdict = "inconclusive"
        best.against += [f"does not explain: {f.text}" for f in unanswered[:3]]
        best.unseen += [f"What brought this about: {f.text}" for f in unanswered[:3]]
        best.confidence = min(best.confidence, UNSEEN_AT_MOST)
    in_job = [f for f in findings if in_scope(f, scope)]
    scope = scope_of_cause(case, scope, best.causes[0])
    best.suspect.job = scope.job
    first = IncidentDraft(
        [h for h in hypotheses if h is best or h not in twins][:6],
        in_job,
        scope,
        [*_suspects(best, case), *(twin.suspect for twin in twins)],
        verdict,
        job_failed=failed or best.failure.explains_death,
    )
    return [first, *_others(hypotheses, [best, *twins], in_job, scope, case)]


def _unhealthy(finding: Finding) -> bool:
    """No cause, but a run that shows it and that nobody saw succeed is not called healthy: an unknown error at the end of its
    log, or steps that stay far slower than before."""
    slow = finding.sign == "train.slow" and float(finding.fields.get("ratio", 0.0)) >= TWICE
    return slow or finding.sign == LAST_ERROR


def _nobody_knows(findings: list[Finding], scope: JobScope, catalog: Catalog) -> list[Hypothesis]:
    """The job failed or cannot start, and no sign of a cause is there: say so, with what shows it."""
    failure = catalog.failures.get("unk.none")
    shown = [f for f in findings if in_scope(f, scope) and (shows_failure(f) or _unhealthy(f))]
    if failure is None or not shown:
        return []
    shown.sort(
        key=lambda f: (f.sign not in ("py.exception", "job.died", "sched.job_failed"), f.first == NO_TIME, f.first)
    )
    hypothesis = Hypothesis(failure, Suspect("unknown", job=scope.job), shown[:3], explained=shown[3:])
    waits = all(f.sign == "sched.unschedulable" for f in shown)
    what = "the job does not start" if waits else "the job failed"
    if all(map(_unhealthy, shown)):
        what = "the run may have failed" if any(f.sign == LAST_ERROR for f in shown) else "the run became slow"
    hypothesis.terms.append(Term("sign", 1.0, f"{what} and nothing says why: {shown[0].text}", (shown[0].id,)))
    return [hypothesis]


def _rests_on_hints(best: Hypothesis) -> bool:
    """A machine is not blamed for a hint: one of its signs must be specific by itself."""
    strongest = max((term.value for term in best.terms if term.name == "sign"), default=0.0)
    return best.hardware and strongest < SPECIFIC


def _unanswered(best: Hypothesis, findings: list[Finding], scope: JobScope, catalog: Catalog) -> list[Finding]:
    """Errors at least as grave as the sign of the winner that no class knows well and that the winner does not explain.

    They may be the real cause: a trouble that merely lies beside them must not be blamed. What began clearly after the
    winner's first sign may be its consequence.
    """
    if not best.hardware:
        return []
    told = {f.id for f in (*best.causes, *best.explained)}
    gravest = max(f.severity for f in best.causes)
    found = []
    for f in findings:
        if f.role != Role.ROOT or f.id in told or _specific(f, catalog) or not in_scope(f, scope):
            continue
        late = 0.0 if NO_TIME in (f.first, best.began) else (f.first - best.began) / 1e9
        after = late > (TOGETHER_S if f.severity > gravest else AFTERMATH_MARGIN_S)
        if f.severity >= max(Severity.ERROR, gravest) and not (after and best.failure.explains_death):
            found.append(f)
    return found


def _specific(finding: Finding, catalog: Catalog) -> bool:
    """Some class takes the finding for more than a hint."""
    return any(
        cause.weight >= SPECIFIC and cause.matches(finding.sign, finding.fields)
        for _, cause in catalog.causes_by_sign.get(finding.sign, ())
    )


def _down_with_others(
    best: Hypothesis, twins: list[Hypothesis], findings: list[Finding], scope: JobScope
) -> list[Finding]:
    """Other nodes of the job that went down within a minute: what they share may be at fault, not the node that is named
    (TAXONOMY, decision rule 2)."""
    if best.failure.culprit not in ("gpu", "node") or best.began == NO_TIME:
        return []
    named = {best.suspect.node, *(twin.suspect.node for twin in twins)}
    own = [f.first for f in findings if f.node == best.suspect.node and f.sign in NODE_STATE and f.first != NO_TIME]
    if not own:
        return []
    others = [
        f
        for f in findings
        if f.sign in NODE_STATE
        and f.role == Role.ROOT
        and f.node
        and f.node not in named
        and in_scope(f, scope)
        and f.first != NO_TIME
        and min(abs(f.first - at) for at in own) <= DOMAIN_S * 1e9
    ]
    return others if len({f.node for f in others}) >= OTHERS else []


def _twins(best: Hypothesis, hypotheses: list[Hypothesis]) -> list[Hypothesis]:
    """The same fault at the same time on another node or GPU: one incident with several culprits."""
    if best.failure.culprit not in ("gpu", "node", "link"):
        return []
    strongest = max((term.value for term in best.terms if term.name == "sign"), default=0.0)
    return [
        h
        for h in hypotheses
        if h is not best
        and h.failure.id == best.failure.id
        and h.suspect.node
        and (h.suspect.node, h.suspect.pci) != (best.suspect.node, best.suspect.pci)
        and any(term.name == "sign" and term.value >= strongest - 1.0 for term in h.terms)
        and (NO_TIME in (h.began, best.began) or abs(h.began - best.began) <= TOGETHER_S * 1e9)
    ]


def _others(
    hypotheses: list[Hypothesis], taken: list[Hypothesis], findings: list[Finding], scope: JobScope, case: Case
) -> list[IncidentDraft]:
    """Further incidents: another machine's own fatal record that the first incident does not explain."""
    used = {f.id for h in taken for f in (*h.causes, *h.explained)}
    places = {h.suspect.node for h in taken}
    found: list[IncidentDraft] = []
    for h in hypotheses:
        own = h.failure.hardware and h.suspect.node and h.suspect.node not in places and h.causes[0].id not in used
        if not own or h.outlived or h.causes[0].severity < Severity.FATAL:
            continue
        places.add(h.suspect.node)
        rivals = [o for o in hypotheses if o is not h and o.suspect.node == h.suspect.node and o not in taken]
        about = [f for f in findings if f.node == h.suspect.node]
        found.append(IncidentDraft([h, *rivals][:4], about, scope, _suspects(h, case), "incident", job_failed=False))
    return found[:MOST_OTHERS]


def _job_succeeded(case: Case, findings: list[Finding], scope: JobScope) -> bool:
    """The scheduler or the run itself says that it reached its end, and no failure of processes contradicts it."""
    signs = {f.sign for f in findings if in_scope(f, scope)}
    if "sched.job_completed" in signs and not signs & {"sched.job_failed", "sched.node_fail"}:
        return True
    return "job.succeeded" in signs and "sched.job_failed" not in signs


def _job_failed(findings: list[Finding], scope: JobScope) -> bool:
    return any(shows_failure(f) for f in findings if in_scope(f, scope))


def confidence_features(hypotheses: list[Hypothesis]) -> tuple[float, float]:
    """(score of the winner, distance to the best rival of another class); both cut off at 12."""
    best = hypotheses[0]
    rival = max((h.score for h in hypotheses[1:] if h.failure.id != best.failure.id), default=0.0)
    return min(12.0, best.score), min(12.0, best.score - max(0.0, rival))


def _set_confidence(hypotheses: list[Hypothesis], scale: Confidence) -> None:
    """The probability that the class is right, fitted on labelled cases (docs/calibration.md); rivals share what is left."""
    score, gap = confidence_features(hypotheses)
    best = min(0.99, _sigmoid(scale.intercept + scale.score * score + scale.gap * gap)) * hypotheses[0].coverage
    hypotheses[0].confidence = round(best, 2)
    rivals = hypotheses[1:]
    shares = [math.exp(min(0.0, h.score - hypotheses[0].score) / 2) for h in rivals]
    left = 1.0 - best
    for hypothesis, share in zip(rivals, shares, strict=True):
        hypothesis.confidence = round(min(left * share / max(1.0, sum(shares)), max(0.0, best - 0.01)), 2)


def _sigmoid(x: float) -> float:
    return 1.0 / (1.0 + math.exp(-x))


def _of_rank(best: Hypothesis, case: Case, rank: int) -> Suspect:
    place = case.topology.ranks.get(rank)
    suspect = Suspect(best.suspect.kind, rank=rank, job=best.suspect.job)
    if place is not None:
        suspect.node, suspect.gpu, suspect.pci, suspect.uuid = place.node, place.gpu, place.pci, place.uuid
    return suspect


def _suspects(best: Hypothesis, case: Case) -> list[Suspect]:
    """All culprits of the winning class, the main one first."""
    found = [best.suspect]
    seen = {(best.suspect.node, best.suspect.pci, best.suspect.rank)}
    for finding in best.causes:
        if finding.sign in ("collective.missing_rank", "collective.desync"):
            for rank in finding.ranks if best.suspect.rank is not None else ():
                if all(suspect.rank != rank for suspect in found):
                    found.append(_of_rank(best, case, rank))
            continue
        if (
            finding.node is None
            or finding.sign != best.causes[0].sign
            or best.failure.culprit not in ("gpu", "node", "link")
        ):
            continue
        key2 = (finding.node, finding.pci, finding.rank)
        same = any(s.node == finding.node and (s.pci == finding.pci or finding.pci is None) for s in found)
        if key2 not in seen and not same:
            seen.add(key2)
            found.append(
                Suspect(
                    best.suspect.kind,
                    node=finding.node,
                    gpu=finding.gpu,
                    pci=finding.pci,
                    uuid=finding.uuid,
                    rank=finding.rank,
                    job=best.suspect.job,
                    name=finding.name,
                )
            )
    return found
