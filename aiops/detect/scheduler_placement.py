"""Pods that got no place, and gangs that hold places while they wait for the rest."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from aiops.detect.scheduler_cluster import Cluster, Pod
from aiops.detect.scheduler_evidence import Quotes, condition_text
from aiops.detect.scheduler_findings import Group, Groups, amount, listing
from aiops.detect.scheduler_messages import PLACEMENT_WORDS, placement_reasons, placement_why
from aiops.detect.scheduler_podgroups import detect_pod_groups
from aiops.detect.scheduler_pods import group_for
from aiops.ingest.kubernetes_fields import (
    condition_ns,
    conditions,
    integer,
    is_false,
    mapping,
    mappings,
    quantity,
    text,
)
from aiops.model.case import Job
from aiops.model.event import NO_TIME, Severity
from aiops.model.finding import Finding, Role

_STUCK_NS = 600 * 1_000_000_000
"""A gang that was cut short for less than this may be made whole by its controller (SCHEDULERS §1.0)."""
_PROGRESS_NS = 60 * 1_000_000_000
"""A pod that was placed this shortly before the end of the evidence: the gangs are still starting."""


def detect_placement(cluster: Cluster, quotes: Quotes) -> list[Finding]:
    """``sched.gang_partial``, ``sched.gang_infeasible`` (a pod larger than any node), ``sched.unschedulable``,
    ``sched.pending`` (waited, then ran), and what `detect_pod_groups` finds."""
    partial = _partial_gangs(cluster, quotes)
    stuck: set[str | None] = {finding.job for finding in partial}
    groups = Groups()
    largest = _largest_node(cluster)
    for pod in cluster.pods.values():
        if pod.gang.id not in stuck:
            _unplaced(pod, groups, quotes, largest)
    told = {group.job for group in groups.of("sched.unschedulable")}
    lone = _lone_gangs(cluster, quotes, stuck | told)
    stuck |= {finding.job for finding in lone}
    return [
        *partial,
        *lone,
        *_infeasible(groups),
        *_unschedulable(groups),
        *_waited(groups),
        *detect_pod_groups(cluster, quotes, stuck, told),
    ]


def _unplaced(pod: Pod, groups: Groups, quotes: Quotes, largest: int | None) -> None:
    refused = [seen for seen in pod.events if seen.event.reason == "FailedScheduling"]
    condition = conditions(pod.body).get("PodScheduled")
    waits = is_false(condition) and pod.unscheduled
    if not refused and not waits:
        return
    message = text(condition, "message") if waits and condition is not None else ""
    if not message and refused:
        message = refused[-1].event.message
    why = placement_why(message)
    if not pod.unscheduled:
        group = group_for(pod, groups, "sched.pending", reason="FailedScheduling", why=why)
    elif largest is not None and pod.gpus > largest:
        group = group_for(
            pod,
            groups,
            "sched.gang_infeasible",
            requested=pod.gpus,
            limit=largest,
            resource="nvidia.com/gpu",
            scope="node",
        )
    else:
        group = group_for(pod, groups, "sched.unschedulable", why, why=why, reasons=placement_reasons(message))
    if waits and condition is not None and pod.item is not None:
        ts = condition_ns(condition)
        group.note(quotes.object(pod.item, condition_text(condition), ts, message, "PodScheduled"), ts=ts, pod=pod.name)
    for seen in refused:
        group.note(
            quotes.event(seen.item, seen.event),
            ts=seen.event.last,
            first=seen.event.first,
            pod=pod.name,
            count=seen.event.count,
        )


def _infeasible(groups: Groups) -> Iterator[Finding]:
    for group in groups.of("sched.gang_infeasible"):
        asked, most = group.fields["requested"], group.fields["limit"]
        yield group.finding(f"A pod of {group.job} asks for {asked} GPUs, but no node has more than {most}")


def _unschedulable(groups: Groups) -> Iterator[Finding]:
    for group in groups.of("sched.unschedulable"):
        who = f"{amount(len(group.pods), 'pod')} of {group.job} ({listing(group.pods, 2)})"
        yield group.finding(f"{who} cannot be scheduled: {PLACEMENT_WORDS[group.fields['why']]}")


def _waited(groups: Groups) -> Iterator[Finding]:
    for group in groups.of("sched.pending"):
        group.role, group.severity = Role.CONTEXT, Severity.INFO
        yield group.finding(f"{amount(len(group.pods), 'pod')} of {group.job} waited for a node before they ran")


def _largest_node(cluster: Cluster) -> int | None:
    """GPUs of the largest node, if the nodes are known."""
    largest = 0
    for item in cluster.objects.get("Node", ()):
        for kind in ("allocatable", "capacity"):
            for key, number in mapping(item.body, "status", kind).items():
                if str(key).endswith("/gpu"):
                    largest = max(largest, int(quantity(number) or 0))
    return largest or None


# gangs -------------------------------------------------------------------------------------------------------------


def _partial_gangs(cluster: Cluster, quotes: Quotes) -> list[Finding]:
    held: dict[str, Group] = {}
    for gang_id, pods in cluster.gangs().items():
        running = [pod for pod in pods if pod.running]
        waiting = [pod for pod in pods if pod.unscheduled]
        needed = _needed(cluster.jobs.get(gang_id, []), len(running) + len(waiting))
        if not running or not waiting or len(running) >= needed:
            continue
        gpus = sum(pod.gpus for pod in running)
        if not gpus and any(pod.item is not None for pod in running):
            continue
        group = Group(
            "sched.gang_partial",
            job=gang_id,
            fields={
                "workload": f"{pods[0].gang.kind or 'workload'} {gang_id}",
                "held": len(running),
                "needed": needed,
                "held_gpus": gpus or None,
                "missing_gpus": (needed - len(running)) * max((pod.gpus for pod in waiting), default=0) or None,
                "priority": _priority(cluster.jobs.get(gang_id, []), pods),
            },
        )
        for pod in running:
            group.nodes.update({pod.node: None} if pod.node else {})
        for pod in waiting:
            _note_waiting(group, pod, quotes)
        if group.evidence:
            held[gang_id] = group
    held.update({key: group for key, group in _partial_pod_groups(cluster, quotes).items() if key not in held})
    if len(held) < 2:
        return []
    starting = _still_starting(cluster, set(held)) and not _no_room(cluster, held)
    release = min(held, key=lambda gang_id: (_cost(held[gang_id]), gang_id))
    findings = []
    for gang_id, group in held.items():
        peers = tuple(sorted(other for other in held if other != gang_id))
        group.fields["peers"] = peers
        group.fields["peers_hold"] = {other: held[other].fields["held_gpus"] for other in peers}
        group.fields["release"] = release
        if starting:
            group.role, group.severity = Role.CONTEXT, Severity.WARNING
        some = f" and hold {group.fields['held_gpus']} GPUs" if group.fields["held_gpus"] else ""
        finding = group.finding(
            f"{group.fields['held']} of {group.fields['needed']} pods of {gang_id} run{some}; "
            f"{_rest(group)}, as with {listing(_holder(held[other], other) for other in peers)}"
        )
        finding.node = None
        findings.append(finding)
    return findings


def _lone_gangs(cluster: Cluster, quotes: Quotes, told: set[str | None]) -> list[Finding]:
    """A gang that Volcano counts as partly running and of which nobody says what the rest lacks: its GPUs are held idle."""
    now = max((seen.event.last for seen in cluster.events), default=NO_TIME)
    found = []
    for gang_id, group in _partial_pod_groups(cluster, quotes).items():
        since = group.first
        if gang_id in told or any(placement_why(ref.text) != "gang" for ref in group.evidence):
            continue
        if NO_TIME not in (now, since) and now - since < _STUCK_NS:
            continue
        group.fields["peers"] = ()
        finding = group.finding(
            f"{group.fields['held']} of {group.fields['needed']} pods of {gang_id} run and wait for the rest, "
            "which finds no place; the scheduler does not say what it lacks"
        )
        finding.node = None
        found.append(finding)
    return found


def _cost(group: Group) -> tuple[int, int]:
    """What it costs to let the gang go: its priority first, then the GPUs that it would have to find again."""
    return group.fields.get("priority") or 0, group.fields["held_gpus"] or group.fields["held"]


def _rest(group: Group) -> str:
    missing = group.fields.get("missing_gpus")
    return f"the rest, {missing} GPUs, finds no place" if missing else "the rest finds no place"


def _holder(group: Group, name: str) -> str:
    gpus = group.fields["held_gpus"]
    return f"{name} (holds {gpus} GPUs)" if gpus else name


def _priority(jobs: list[Job], pods: list[Pod]) -> int | None:
    told = [job.fields.get("priority") for job in jobs] + [integer(pod.body, "spec", "priority") for pod in pods]
    return max((value for value in told if isinstance(value, int)), default=None)


def _needed(jobs: list[Job], pods: int) -> int:
    """Pods that must run at once for the gang to start."""
    known = [least for job in jobs if (least := job.fields.get("min_member"))]
    return max(known) if known else pods


def _note_waiting(group: Group, pod: Pod, quotes: Quotes) -> None:
    condition = conditions(pod.body).get("PodScheduled")
    if is_false(condition) and condition is not None and pod.item is not None:
        ts = condition_ns(condition)
        group.note(
            quotes.object(pod.item, condition_text(condition), ts, text(condition, "message"), "PodScheduled"),
            ts=ts,
            pod=pod.name,
        )
        return
    for seen in pod.events:
        if seen.event.reason == "FailedScheduling":
            group.note(
                quotes.event(seen.item, seen.event),
                ts=seen.event.last,
                first=seen.event.first,
                pod=pod.name,
                count=seen.event.count,
            )


def _still_starting(cluster: Cluster, gangs: set[str]) -> bool:
    """A pod of these gangs was placed just before the evidence ends."""
    times = [seen.event.last for seen in cluster.events if seen.event.last != NO_TIME]
    placed = [
        seen.event.last
        for pod in cluster.pods.values()
        if pod.gang.id in gangs
        for seen in pod.events
        if seen.event.reason == "Scheduled" and seen.event.last != NO_TIME
    ]
    return (
        bool(times and placed)
        and max(times) - max(placed) < _PROGRESS_NS
        and max(times) > max(pod_event for pod_event in placed)
    )


def _no_room(cluster: Cluster, held: dict[str, Group]) -> bool:
    """The gangs hold all GPUs among themselves: whatever comes, none of them can complete."""
    size: dict[str, int] = {}
    for item in cluster.objects.get("Node", ()):
        found = mapping(item.body, "status", "allocatable")
        if found:  # a table does not tell
            size[item.name] = sum(int(quantity(n) or 0) for key, n in found.items() if str(key).endswith("/gpu"))
    for pod in cluster.pods.values():
        if pod.node is None or pod.ended or not pod.gpus:
            continue
        stays = pod.gang.id in held and not text(mapping(pod.body, "metadata"), "deletionTimestamp")
        if not stays or pod.node not in size:
            return False
        size[pod.node] -= pod.gpus
    smallest = min(
        (pod.gpus for pod in cluster.pods.values() if pod.gang.id in held and pod.unscheduled and pod.gpus), default=0
    )
    return bool(size) and max(size.values()) < smallest


def _partial_pod_groups(cluster: Cluster, quotes: Quotes) -> dict[str, Group]:
    """Volcano's phase ``Unknown``: a part of the gang runs, the rest cannot be placed."""
    found: dict[str, Group] = {}
    for item in cluster.objects.get("PodGroup", ()):
        running = integer(item.body, "status", "running") or 0
        needed = integer(item.body, "spec", "minMember") or 0
        if text(item.body, "status", "phase") != "Unknown" or not 0 < running < needed:
            continue
        gang = cluster.gang("PodGroup", item.namespace or "", item.name)
        group = Group(
            "sched.gang_partial",
            job=gang.id,
            fields={
                "workload": f"{gang.kind or 'workload'} {gang.id}",
                "held": running,
                "needed": needed,
                "held_gpus": None,
            },
        )
        last: list[Mapping[str, Any]] = list(mappings(item.body, "status", "conditions"))[-1:]
        for condition in last or [{"type": "phase", "status": "Unknown"}]:
            ts = condition_ns(condition)
            group.note(quotes.object(item, condition_text(condition), ts, text(condition, "message"), "Unknown"), ts=ts)
        found[gang.id] = group
    return found
