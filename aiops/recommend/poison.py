"""From when on the state of a run cannot be trusted: non-finite values, uncorrectable memory errors, wrong results."""

from __future__ import annotations

from dataclasses import dataclass, field

from aiops.correlate.model import IncidentDraft
from aiops.detect.evidence import evidence_rows, known
from aiops.model.case import Case, Checkpoint
from aiops.model.event import NO_TIME
from aiops.model.finding import Finding

_UNCORRECTABLE = frozenset({48, 94, 95, 140, 171, 172})
"""Xid codes of uncorrectable memory errors (NVIDIA XID catalog): 48 double bit, 94 contained, 95 uncontained, 140 and 171/172."""
_MEMORY = frozenset({"metric.ecc_dbe", "cuda.ecc_uncorrectable", "cuda.contained"})
_WRONG = frozenset({"gpu.rerun_fault", "gpu.wrong_result", "num.rerun_differs"})


@dataclass(slots=True)
class Poison:
    """Something after which saved state may be wrong. Times in UTC ns."""

    what: str
    step: int | None
    began: int
    last: int
    restarts: list[int] = field(default_factory=list)
    """Times at which the run was started anew from a checkpoint, after it."""

    def cleared(self, point: Checkpoint) -> bool:
        """True if the run had been started anew between the trouble and the save: the bad state was gone."""
        return point.saved_at != NO_TIME and any(self.last < start < point.saved_at for start in self.restarts)


def first_bad(case: Case, incident: IncidentDraft) -> list[Poison]:
    """What makes later checkpoints of the job untrustworthy, one entry for each kind of trouble."""
    loads = [event.ts for event in evidence_rows(case, "ckpt.loaded") if known(event)]
    found = []
    for finding in incident.findings:
        what = _what(finding, incident)
        if not what or not _of_the_job(finding, incident):
            continue
        step = finding.fields.get("step")
        began = finding.first if not finding.inexact else NO_TIME
        if began == NO_TIME and not isinstance(step, int):
            continue
        last = max(finding.first, finding.last)
        found.append(
            Poison(
                what,
                step if isinstance(step, int) else None,
                began,
                last,
                [ts for ts in loads if last != NO_TIME and ts > last],
            )
        )
    return sorted(found, key=lambda p: (p.began == NO_TIME, p.began, p.what))


def _what(finding: Finding, incident: IncidentDraft) -> str:
    if finding.sign == "num.nonfinite":
        # a value that overflowed once and was skipped leaves no trace in the state
        lasting = bool(finding.fields.get("lasting")) or finding in incident.best.causes
        return "the first non-finite value" if lasting else ""
    if finding.sign in ("gpu.xid", "metric.xid"):
        uncorrectable = finding.fields.get("xid") in _UNCORRECTABLE and not finding.fields.get("old")
        return "the first uncorrectable memory error" if uncorrectable else ""
    if finding.sign in _MEMORY:
        return "the first uncorrectable memory error"
    return "the first wrong result of a GPU" if finding.sign in _WRONG else ""


def _of_the_job(finding: Finding, incident: IncidentDraft) -> bool:
    nodes = incident.scope.nodes
    return not finding.fields.get("foreign") and (finding.node is None or not nodes or finding.node in nodes)
