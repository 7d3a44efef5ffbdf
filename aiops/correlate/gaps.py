"""What was collected of others and not of the suspect: the answer may stand in what is missing."""

from __future__ import annotations

from aiops.correlate.hypotheses import NODE_STATE
from aiops.correlate.model import Hypothesis, JobScope
from aiops.correlate.scope import in_scope
from aiops.model.case import Case
from aiops.model.finding import Finding, Role

UNSEEN_AT_MOST = 0.7
"""Confidence of an answer whose suspect was not looked at as closely as its peers."""


def unseen(case: Case, best: Hypothesis, findings: list[Finding], scope: JobScope) -> list[str]:
    """Observations that would decide and are missing, although the same was collected of the suspect's peers; in words."""
    return [*_kernel_logs(case, best, findings, scope), *_sender(case, best), *_dump(best), *_members(case, best)]


def _kernel_logs(case: Case, best: Hypothesis, findings: list[Finding], scope: JobScope) -> list[str]:
    """The suspect's node, or one that went down, has no kernel log while other nodes of the job have one.

    A sign that stands in the suspect's own kernel log needs no other.
    """
    kinds = {source.name: source.kind for source in case.sources}
    told = any(kinds.get(ref.source) == "kernel" for ref in best.causes[0].evidence)
    suspects = {f.node for f in findings if f.sign in NODE_STATE and f.role == Role.ROOT and in_scope(f, scope)}
    if not told:
        suspects.add(best.suspect.node)
    elif best.suspect.node in suspects:
        return []
    seen = case.coverage.nodes_with_kernel_log
    members = set(scope.nodes) | {place.node for place in case.topology.ranks.values() if place.node}
    return [
        f"The kernel log of {node}: those of other nodes are here, its own is not"
        for node in sorted(n for n in suspects if n and n not in seen and (members - {n}) & seen)[:4]
    ]


def _sender(case: Case, best: Hypothesis) -> list[str]:
    """A signal from outside says that somebody stopped the run, and not who; a cancel by its user says not why."""
    head = best.causes[0]
    if best.failure.id == "usr.cancel" and not case.coverage.sources.get("training"):
        return ["The output of the job: it may show why somebody cancelled it"]
    if head.sign != "launcher.stopped" or len({f.sign for f in best.causes}) > 1:
        return []
    return ["Who sent the signal: the output of the job's other members, and the scheduler's record of a cancel"]


def _dump(best: Hypothesis) -> list[str]:
    head = best.causes[0]
    if head.sign != "collective.missing_rank" or "left no dump" not in head.text:
        return []
    return [
        f"The flight-recorder dump and the output of rank {head.rank}: it may have written a dump that was not collected"
    ]


def _members(case: Case, best: Hypothesis) -> list[str]:
    """Pods wait or do not come, and of the pods or of their events, which would show why, nothing was collected."""
    kinds = {item.kind for item in case.objects}
    sign = best.causes[0].sign
    if sign == "sched.unschedulable" and kinds and "Pod" not in kinds:
        return ["The pods of the job and of its rivals: which of them run already and hold GPUs"]
    if sign == "net.rendezvous_timeout" and "Pod" in kinds and "Event" not in kinds:
        return ["The events of the job's pods: did every member start?"]
    return []
