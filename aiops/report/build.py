"""Put a report together: incidents, timeline, evidence with its surroundings, coverage."""

from __future__ import annotations

import hashlib
import re
from typing import Literal

from aiops.config import Settings
from aiops.correlate.model import Hypothesis, IncidentDraft, Suspect
from aiops.detect.checkpoints import listed_at
from aiops.detect.evidence import quote
from aiops.ingest.prefix import ANSI
from aiops.model import report as r
from aiops.model.case import Case
from aiops.model.clock import iso
from aiops.model.event import NO_TIME, Severity
from aiops.model.finding import EvidenceRef, Finding, Role
from aiops.recommend.checkpoint import pass_as
from aiops.recommend.plan import Plan, PlannedAction, describe_suspect
from aiops.report.coverage import build_coverage
from aiops.report.impact import build_impact
from aiops.report.story import narrative, summary, why_no_incident

_CONTEXT_LINES = 3
_MOST_TIMELINE = 40
_ON_DISK = ("ckpt.listed", "ckpt.incomplete")
"""A list of files tells nothing of how the job fared."""
_CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f]")


def build_report(
    case: Case, findings: list[Finding], incidents: list[IncidentDraft], plans: list[Plan], settings: Settings
) -> r.Report:
    """The report of a case. ``plans`` belongs to ``incidents`` one by one."""
    built = [
        _incident(case, number, draft, plan, settings)
        for number, (draft, plan) in enumerate(zip(incidents, plans, strict=True), 1)
    ]
    if not built:
        # silence is no proof of health: where nothing at all was recognised, nobody can tell
        told = any(not f.sign.startswith(_ON_DISK) for f in findings)
        verdict: r.Verdict = "no_incident" if told or case.objects or case.series else "inconclusive"
    else:
        verdict = "inconclusive" if incidents[0].verdict == "inconclusive" else "incident"
    coverage = build_coverage(case, findings, incidents)
    if verdict == "no_incident":
        coverage.notes = [*why_no_incident(findings), *coverage.notes]
    report = r.Report(verdict=verdict, coverage=coverage, incidents=built)
    report.summary = summary(report, findings)
    return report


class _EvidenceBook:
    """Numbers the quotations of one incident and reads the lines around them."""

    def __init__(self, case: Case) -> None:
        self._case = case
        self._paths = {source.name: source for source in case.sources}
        self._ids: dict[tuple[str, int, int, str], str] = {}
        self.items: list[r.Evidence] = []

    def cite(self, refs: list[EvidenceRef]) -> list[str]:
        return list(dict.fromkeys(self._id(ref) for ref in refs))

    def _id(self, ref: EvidenceRef) -> str:
        key = (ref.source, ref.line, ref.offset, ref.text if not ref.line else "")
        known = self._ids.get(key)
        if known is not None:
            return known
        number = f"e{len(self.items) + 1}"
        self._ids[key] = number
        before, after = self._around(ref)
        locator = f"offset {ref.offset}" if ref.offset else "sample"
        locator = ref.place or (f"line {ref.line}" if ref.line else locator)
        self.items.append(
            r.Evidence(
                id=number,
                source=ref.source,
                locator=locator,
                ts=iso(ref.ts),
                text=_clean(ref.text),
                line=ref.line or None,
                offset=ref.offset,
                before=before,
                after=after,
            )
        )
        return number

    def _around(self, ref: EvidenceRef) -> tuple[list[str], list[str]]:
        source = self._paths.get(ref.source)
        if source is None or not ref.line or source.kind in ("kubernetes", "metrics", "flight_recorder"):
            return [], []
        window = 4096
        begin = max(0, ref.offset - window)
        data = self._case.read(source.index, begin, ref.offset - begin + 2 * window)
        head, tail = data[: ref.offset - begin], data[ref.offset - begin :]
        above = head.split(b"\n")[:-1][-_CONTEXT_LINES:]
        if begin and len(above) < _CONTEXT_LINES:
            above = above[1:]
        below = tail.split(b"\n")[1 : _CONTEXT_LINES + 1]
        return [_line(b) for b in above if b.strip()], [_line(b) for b in below if b.strip()]


def _line(raw: bytes) -> str:
    return _clean(ANSI.sub(b"", raw[:600]).decode("utf-8", "replace"))


def _clean(text: str) -> str:
    return _CONTROL.sub(" ", text.replace("\t", "    "))[:1000].rstrip()


def _incident(case: Case, number: int, draft: IncidentDraft, plan: Plan, settings: Settings) -> r.Incident:
    book = _EvidenceBook(case)
    best = draft.best
    shown = _shown_findings(draft)
    cause_ids = book.cite([ref for finding in best.causes[:4] for ref in finding.evidence])
    items = [_finding_item(finding, book) for finding in shown]
    timeline = _timeline(draft, shown, book)
    saved_ids = _checkpoint_evidence(case, plan, book)
    failure = best.failure
    title = f"{failure.title}: {describe_suspect(best.suspect)}"
    incident = r.Incident(
        id=_fingerprint(draft, number),
        title=title,
        failure_class=failure.id,
        confidence=best.confidence,
        hardware=best.hardware,
        culprit=_culprit(best.suspect),
        culprits=[_culprit(s) for s in draft.suspects],
        hypotheses=[_hypothesis(h) for h in _distinct(draft.hypotheses)],
        requeue=r.Requeue(verdict=plan.requeue, exclude=plan.exclude, why=plan.requeue_why),
        checkpoint=_checkpoint(plan),
        actions=[_action(a, saved_ids or cause_ids if a.action in _RESTORE else cause_ids) for a in plan.actions],
        impact=build_impact(case, draft, plan, settings),
        timeline=timeline,
        findings=items,
        evidence=book.items,
    )
    incident.narrative = r.Narrative(text=narrative(incident, draft), by="rules")
    return incident


def _fingerprint(draft: IncidentDraft, number: int) -> str:
    """Stable for the same evidence: class, culprit and the first sign's time."""
    best = draft.best
    text = f"{best.failure.id}|{best.suspect.node}|{best.suspect.pci}|{best.suspect.rank}|{draft.scope.job}|{best.began}|{number}"
    return "inc-" + hashlib.sha256(text.encode()).hexdigest()[:10]


def _distinct(hypotheses: list[Hypothesis]) -> list[Hypothesis]:
    seen: set[str] = set()
    kept = []
    for hypothesis in hypotheses:
        if hypothesis.failure.id not in seen:
            seen.add(hypothesis.failure.id)
            kept.append(hypothesis)
    return kept[:5]


def _shown_findings(draft: IncidentDraft) -> list[Finding]:
    """Causes and followers of the winner, other roots, and the context that matters."""
    best = draft.best
    used = {f.id for h in draft.hypotheses for f in (*h.causes, *h.explained)}
    context = ("train.progress", "ckpt.", "job.", "sched.", "metric.", "slurm.")
    shown = [
        f
        for f in draft.findings
        if f.id in used
        or f.role == Role.ROOT
        or f.sign.startswith(context)
        or (f.role == Role.ECHO)
        or f.severity >= Severity.WARNING
    ]
    first = {f.id: i for i, f in enumerate(best.causes)}
    return sorted(shown, key=lambda f: (first.get(f.id, 99), int(f.id[1:])))[:60]


def _culprit(suspect: Suspect) -> r.Culprit:
    return r.Culprit(
        kind=suspect.kind,
        node=suspect.node,
        gpu=suspect.gpu,
        gpu_uuid=suspect.uuid,
        pci=suspect.pci,
        rank=suspect.rank,
        job=suspect.job,
        name=suspect.name,
    )


def _hypothesis(h: Hypothesis) -> r.Hypothesis:
    return r.Hypothesis(
        failure_class=h.failure.id,
        confidence=h.confidence,
        culprit=_culprit(h.suspect),
        explains=[f.id for f in (*h.causes, *h.explained)][:40],
        against=h.against,
        would_decide=h.open_questions,
        score=round(h.score, 3),
        terms=[
            r.ScoreTerm(term=t.name, value=round(t.value, 3), why=_clean(t.why), findings=list(t.findings))
            for t in h.terms
        ],
    )


def _finding_item(finding: Finding, book: _EvidenceBook) -> r.FindingItem:
    return r.FindingItem(
        id=finding.id,
        sign=finding.sign,
        text=_clean(finding.text),
        role=finding.role.value,
        severity=finding.severity.name.lower(),
        entity=entity_of(finding),
        first=iso(finding.first),
        last=iso(finding.last),
        count=finding.count,
        evidence=book.cite(finding.evidence),
    )


def entity_of(finding: Finding) -> str:
    """The lane a finding belongs to."""
    several = len(finding.ranks) > 1  # of which the finding names only the first
    if finding.pci and finding.node and not several:
        return f"{finding.node} GPU {finding.gpu if finding.gpu is not None else finding.pci}"
    if finding.rank is not None and not several:
        return f"rank {finding.rank}"
    if finding.fields.get("domain"):
        return str(finding.fields["domain"])
    if finding.sign.startswith(("sched.", "slurm.")):
        return "scheduler"
    if finding.node and not finding.ranks:
        return finding.node
    if finding.sign.startswith(("ckpt.", "sto.")):
        return "storage"
    return "job"


def _timeline(draft: IncidentDraft, shown: list[Finding], book: _EvidenceBook) -> list[r.TimelineEntry]:
    began = draft.best.began
    # a cause whose time nobody wrote down stands before the first of its effects
    first_effect = min((f.first for f in draft.best.explained if f.first != NO_TIME), default=NO_TIME)
    causes = {f.id for f in draft.best.causes}
    effects = {f.id for f in draft.best.explained}
    entries: list[tuple[int, r.TimelineEntry]] = []
    summed_up = _summed_up(shown, effects)
    for finding in shown:
        if finding.id in summed_up:
            continue
        if finding.first == NO_TIME and finding.id not in causes:
            continue
        unknown = finding.first == NO_TIME or (finding.id in causes and finding.inexact and first_effect != NO_TIME)
        when = finding.last if finding.sign in ("train.progress",) else finding.first
        if finding.inexact and began != NO_TIME and finding.id in causes | effects:
            when = max(when, began)  # its own time is not known, only that of a line above it
        early = when != NO_TIME and began != NO_TIME and when < began
        role: r.TimelineRole = (
            "cause" if finding.id in causes else "effect" if finding.id in effects and not early else "context"
        )
        entries.append(
            (
                first_effect if unknown else when,
                r.TimelineEntry(
                    ts=iso(when),
                    entity=entity_of(finding),
                    text=_clean(finding.text),
                    evidence=book.cite(finding.evidence[:2]),
                    role=role,
                ),
            )
        )
    order = {"cause": 0, "context": 1, "effect": 2}
    entries.sort(key=lambda pair: (pair[0] == NO_TIME, pair[0] // 1_000_000_000, order[pair[1].role], pair[0]))
    entries = _folded(entries)
    if len(entries) > _MOST_TIMELINE:
        entries = [*entries[: _MOST_TIMELINE - 1], entries[-1]]
    return [entry for _, entry in entries]


_SUMS = frozenset({"collective.all_entered", "job.died"})
"""Signs that only sum up what others say."""


def _summed_up(shown: list[Finding], effects: set[str]) -> set[str]:
    """Effects that sum up others of the same lines: the timeline tells those."""
    told = [(f.first, {(ref.source, ref.offset) for ref in f.evidence}) for f in shown if f.sign not in _SUMS]
    return {
        f.id
        for f in shown
        if f.sign in _SUMS
        and f.id in effects
        and any(first == f.first and lines >= {(ref.source, ref.offset) for ref in f.evidence} for first, lines in told)
    }


_SAME = re.compile(r"^(?:rank \d+|a process(?: on \S+)?|Xid \d+) ")


def _folded(entries: list[tuple[int, r.TimelineEntry]]) -> list[tuple[int, r.TimelineEntry]]:
    """Many ranks that end alike within some seconds are one row; causes are never folded."""
    kept: list[tuple[int, r.TimelineEntry]] = []
    heads: dict[str, tuple[int, int]] = {}
    for when, entry in entries:
        pattern = _SAME.sub("", re.sub(r"\d+|\(.*?\)", "#", entry.text)) if entry.role == "effect" else ""
        if pattern and pattern in heads and _SAME.match(entry.text):
            place, count = heads[pattern]
            first = kept[place][1]
            more = re.sub(r" \(and \d+ more like it\)$", "", first.text)
            kept[place] = (kept[place][0], first.model_copy(update={"text": f"{more} (and {count} more like it)"}))
            heads[pattern] = (place, count + 1)
            continue
        if pattern and _SAME.match(entry.text):
            heads[pattern] = (len(kept), 1)
        kept.append((when, entry))
    return kept


_RESTORE = (r.ActionName.RESTORE_CHECKPOINT, r.ActionName.RESTORE_EARLIER_CHECKPOINT)


def _checkpoint_evidence(case: Case, plan: Plan, book: _EvidenceBook) -> list[str]:
    """The lines that report the checkpoint to restore as saved, and that list it."""
    point = plan.checkpoint.checkpoint
    if point is None:
        return []
    logged = [quote(case, case.events[point.event])] if point.event is not None else []
    return book.cite([*logged, *([listed_at(point)] if point.source else [])])


_MOST_REFUSED = 10
_SAVED_FROM: dict[str, Literal["log", "listing", "archive", "copy"]] = {
    "log": "log",
    "listing": "listing",
    "archive": "archive",
    "copy": "copy",
}


def _checkpoint(plan: Plan) -> r.CheckpointChoice:
    choice = plan.checkpoint
    point = choice.checkpoint
    return r.CheckpointChoice(
        rule=choice.rule,
        restore=point.name if point else None,
        step=point.step if point else None,
        saved_at=iso(point.saved_at) if point else None,
        age_s=round(choice.age_s, 1) if choice.age_s is not None else None,
        lost_steps=choice.lost_steps,
        why=_clean(choice.why),
        saved_from=_SAVED_FROM.get(point.timed_by) if point and point.saved_at != NO_TIME else None,
        pass_as=pass_as(point) if point else None,
        size_bytes=point.size if point else None,
        files=(point.files or None) if point else None,
        lost_minutes=choice.lost_minutes,
        lost_gpu_hours=choice.lost_gpu_hours,
        refused=[
            r.RefusedCheckpoint(
                name=_clean(refusal.checkpoint.name),
                step=refusal.checkpoint.step,
                saved_at=iso(refusal.checkpoint.saved_at),
                why=_clean(refusal.why),
            )
            for refusal in choice.refused[:_MOST_REFUSED]
        ],
        known=choice.known,
    )


def _action(action: PlannedAction, evidence: list[str]) -> r.Action:
    target = action.target
    return r.Action(
        action=action.action,
        target=r.ActionTarget(
            node=target.node, gpu=target.gpu, pci=target.pci if target.gpu is None else None, job=target.job
        ),
        scheduler=action.scheduler,
        commands=[*action.commands, *action.checks],
        undo=action.undo,
        why=_clean(action.why),
        evidence=list(dict.fromkeys(evidence))[:4],
        risk=action.risk,
        requires_approval=action.approval,
        blocked_by=action.blocked_by,
        done=action.done,
        blast_radius=r.BlastRadius(
            nodes=1 if action.target.node and action.action in r.DISRUPTIVE else None,
            gpus=action.gpus_hit,
            jobs=action.jobs_hit,
        ),
    )
