"""Findings → incidents: scope, hypotheses, ranking, and knowing when to be silent."""

from __future__ import annotations

import math

from aiops.catalog.model import Catalog
from aiops.correlate.hypotheses import build_hypotheses
from aiops.correlate.model import Hypothesis, IncidentDraft, JobScope, Suspect
from aiops.correlate.scope import find_scope, in_scope
from aiops.model.case import Case
from aiops.model.event import Severity
from aiops.model.finding import Finding, Role

__all__ = ["Hypothesis", "IncidentDraft", "JobScope", "Suspect", "correlate"]

ENOUGH = 2.5
"""Score below which a hypothesis is no incident on its own."""
UNDECIDED = frozenset({"unk.none", "nccl.timeout_unattributed"})
"""Classes that say that the evidence does not tell."""


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
    if not hypotheses:
        return []
    _set_confidence(hypotheses)
    best = hypotheses[0]
    verdict = "inconclusive" if best.failure.id in UNDECIDED or best.score < 1.5 else "incident"
    return [
        IncidentDraft(
            hypotheses[:6],
            [f for f in findings if in_scope(f, scope)],
            scope,
            _suspects(best),
            verdict,
            job_failed=failed or best.failure.explains_death,
        )
    ]


def _job_succeeded(case: Case, findings: list[Finding], scope: JobScope) -> bool:
    """The scheduler or the run itself says that it reached its end, and no failure of processes contradicts it."""
    signs = {f.sign for f in findings if in_scope(f, scope)}
    if "sched.job_completed" in signs and not signs & {"sched.job_failed", "sched.node_fail"}:
        return True
    return "job.succeeded" in signs and "sched.job_failed" not in signs


def _job_failed(findings: list[Finding], scope: JobScope) -> bool:
    return any(
        f.sign in ("job.died", "sched.job_failed") or (f.role == Role.ECHO and f.severity >= Severity.ERROR)
        for f in findings
        if in_scope(f, scope)
    )


def _set_confidence(hypotheses: list[Hypothesis]) -> None:
    """A first, hand-set scale: strength of the evidence times distance to the next different class.

    Not yet fitted to labelled cases.
    """
    best = hypotheses[0]
    second = next((h.score for h in hypotheses[1:] if h.failure.id != best.failure.id), 0.0)
    for hypothesis in hypotheses:
        strength = _sigmoid(0.55 * (hypothesis.score - 3.2))
        gap = hypothesis.score - (second if hypothesis is best else best.score)
        hypothesis.confidence = round(min(0.99, strength * (0.5 + 0.5 * _sigmoid(1.2 * gap))), 2)
    for hypothesis in hypotheses[1:]:
        hypothesis.confidence = min(hypothesis.confidence, round(max(0.01, best.confidence - 0.01), 2))


def _sigmoid(x: float) -> float:
    return 1.0 / (1.0 + math.exp(-x))


def _suspects(best: Hypothesis) -> list[Suspect]:
    """All culprits of the winning class, the main one first."""
    found = [best.suspect]
    seen = {(best.suspect.node, best.suspect.pci, best.suspect.rank)}
    for finding in best.causes:
        if finding.sign == "collective.missing_rank":
            for rank in finding.ranks[1:]:
                key = (None, None, rank)
                if key not in seen:
                    seen.add(key)
                    found.append(Suspect("rank", rank=rank, job=best.suspect.job))
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
