"""What came back: the same failure at every attempt, and a faulty node that was given work again."""

from __future__ import annotations

from aiops.catalog.model import Catalog
from aiops.detect.evidence import evidence_rows, in_time, quotes, span
from aiops.detect.progress import progress_points
from aiops.ingest.hostlist import HostlistError, expand_hostlist
from aiops.model.case import Case
from aiops.model.event import Event, Severity
from aiops.model.finding import Finding, Role

ATTEMPTS = 3
"""Failures with the same root and no progress before the loop is stopped (TAXONOMY, retry budget)."""
_FAULTS = (
    "slurm.node_not_responding",
    "slurm.kill_task_failed",
    "gpu.xid",
    "gpu.lost_message",
    "host.mce",
    "slurm.gres_fatal",
)


def detect(case: Case, catalog: Catalog) -> list[Finding]:
    """``job.crash_loop`` (ROOT; field ``attempts``) and ``sched.node_reused`` (ROOT; ``node``)."""
    return [*_loop(case), *_reused(case)]


def _loop(case: Case) -> list[Finding]:
    told = [e for e in evidence_rows(case, "job.crash_loop") if str(e.fields.get("attempts", "")).isdigit()]
    restarts = [event for event in evidence_rows(case, "launcher.restart") if "left" in event.fields]
    left = list(dict.fromkeys(str(event.fields["left"]) for event in restarts))
    attempts = max([len(left) + 1 if left else 0, *(int(str(e.fields["attempts"])[:6]) for e in told)])
    if attempts < ATTEMPTS or _advanced(case, restarts):
        return []
    events = sorted([*restarts, *told], key=in_time)
    first, last = span(events)
    return [
        Finding(
            sign="job.crash_loop",
            text=f"{attempts} attempts of the job failed without any progress",
            role=Role.ROOT,
            severity=Severity.ERROR,
            first=first,
            last=last,
            count=attempts,
            fields={"attempts": attempts},
            inexact=True,
            evidence=quotes(case, events),
        )
    ]


def _advanced(case: Case, restarts: list[Event]) -> bool:
    """True if a later attempt came clearly further than the first one."""
    if not restarts:
        return False
    first = restarts[0]
    before = [p.step for p in progress_points(case) if p.step is not None and in_time(p.event) < in_time(first)]
    after = [p.step for p in progress_points(case) if p.step is not None and in_time(p.event) > in_time(first)]
    return bool(before) and bool(after) and max(after) > 1.5 * max(before) + 10


def _reused(case: Case) -> list[Finding]:
    resumed = evidence_rows(case, "sched.node_resumed")
    if not resumed:
        return []
    faults: dict[str, list[Event]] = {}
    for event in evidence_rows(case, *_FAULTS):
        for node in _names(event):
            faults.setdefault(node, []).append(event)
    findings = []
    for event in resumed:
        node = str(event.fields.get("host") or event.fields.get("node") or "")
        own = faults.get(node, [])
        before = [fault for fault in own if in_time(fault) < in_time(event)]
        after = [fault for fault in own if in_time(fault) > in_time(event)]
        given = [e for e in evidence_rows(case, "sched.allocated") if node in _names(e) and in_time(e) > in_time(event)]
        if not before or not after or (not given and evidence_rows(case, "sched.allocated")):
            continue
        proof = [before[-1], event, *given[:1], after[0]]
        first, last = span(proof)
        findings.append(
            Finding(
                sign="sched.node_reused",
                text=f"Node {node} failed, was given back to work without a repair on record, and failed again",
                role=Role.ROOT,
                severity=Severity.ERROR,
                first=first,
                last=last,
                node=node,
                nodes=(node,),
                count=len(own),
                fields={"failures": len(own)},
                evidence=quotes(case, proof, 4),
            )
        )
    return findings[:1]


def _names(event: Event) -> set[str]:
    listed = event.fields.get("nodes")
    if not isinstance(listed, str):
        return {event.node} if event.node else set()
    try:
        return set(expand_hostlist(listed))
    except HostlistError:
        return {listed}
