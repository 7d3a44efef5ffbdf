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
    return [*_kernel_logs(case, best, findings, scope), *_sender(best), *_dump(best), *_pods(case, best)]


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


def _sender(best: Hypothesis) -> list[str]:
    """A signal from outside says that somebody stopped the run, and not who."""
    head = best.causes[0]
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


def _pods(case: Case, best: Hypothesis) -> list[str]:
    """Events tell that pods wait, and the pods themselves, which would show what the gang already holds, are missing."""
    if best.causes[0].sign != "sched.unschedulable" or not case.objects or any(o.kind == "Pod" for o in case.objects):
        return []
    return ["The pods of the job and of its rivals: which of them run already and hold GPUs"]
