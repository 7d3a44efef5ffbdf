"""Kubernetes nodes: not ready, rebooted, cordoned, under pressure, or short of devices."""

from __future__ import annotations

import re
from collections.abc import Iterator

from aiops.detect.scheduler_cluster import Cluster, Pod, Seen
from aiops.detect.scheduler_evidence import Quotes, condition_text
from aiops.detect.scheduler_findings import Group, Groups, amount, listing
from aiops.detect.scheduler_messages import PRESSURE, oom_victim
from aiops.ingest.kubernetes_fields import (
    condition_ns,
    conditions,
    is_true,
    mapping,
    mappings,
    quantity,
    rfc3339_ns,
    text,
)
from aiops.model.case import KubernetesObject
from aiops.model.event import NO_TIME, Severity
from aiops.model.finding import Finding, Role

_GONE_TAINTS = ("node.kubernetes.io/unreachable", "node.kubernetes.io/not-ready")
_CORDON_TAINT = "node.kubernetes.io/unschedulable"
_LOSSES = frozenset({"NodeNotReady", "NodeControllerEviction", "TaintManagerEviction"})
_STANDARD = frozenset({"Ready", "NetworkUnavailable", *PRESSURE})
"""Conditions of the kubelet; others are set by health checkers, where True means trouble."""
_PRESSURE_EVENTS = {
    "NodeHasDiskPressure": "ephemeral-storage",
    "NodeHasInsufficientMemory": "memory",
    "NodeHasInsufficientPID": "pids",
    "EvictionThresholdMet": None,
    "FreeDiskSpaceFailed": None,
    "ImageGCFailed": None,
    "SystemOOM": "memory",
}
_RECLAIMED = ("SpotInterruption", "SpotInterrupted", "InstanceTerminating", "InstanceStopping", "PreemptScheduled")
"""Reasons of the events of aws-node-termination-handler, Karpenter and AKS for a machine that goes back to the cloud."""
_ILL = ("sched.node_fail", "sched.node_problem", "sched.node_pressure", "sched.device_missing", "sched.node_reboot")
_HEALTH = re.compile(r"xid|ecc|gpu|nvlink|fail|fault|error|health|broken|rma|hardware|hw\b|suspect", re.I)
_CORDON_MARGIN_NS = 5 * 1_000_000_000
_DRAIN_NS = 900 * 1_000_000_000
"""A drain gives pods their grace period and waits for disruption budgets."""
_HELD_NS = 300 * 1_000_000_000
"""Default toleration of the not-ready taint: pods of a node that is back by then were never touched."""


def detect_nodes(cluster: Cluster, quotes: Quotes) -> list[Finding]:
    """``sched.node_fail``, ``sched.node_reboot``, ``sched.node_drained``, ``sched.node_pressure``,
    ``sched.node_problem`` (what a health checker reports), ``sched.device_missing`` (allocatable below capacity) and
    ``sched.oom_killed`` told by nodes.

    ``fields["of_job"]`` is False for nodes on which no workload of the evidence runs; these are context.
    """
    groups = Groups()
    for item in cluster.objects.get("Node", ()):
        _object(item, groups, quotes)
    for seen in cluster.events:
        if seen.event.kind == "Node":
            _event(seen, groups, quotes)
        elif seen.event.kind == "Pod" and seen.event.reason == "NodeNotReady":
            _pod_event(cluster, seen, groups, quotes)
    return [*_failed(cluster, groups), *_simple(cluster, groups), *_drained(cluster, groups), *_ooms(cluster, groups)]


def _object(item: KubernetesObject, groups: Groups, quotes: Quotes) -> None:
    node = item.name
    state = conditions(item.body)
    ready = state.get("Ready")
    if ready is not None and not is_true(ready):
        ts = condition_ns(ready)
        group = groups.get("sched.node_fail", node)
        group.note(quotes.object(item, condition_text(ready), ts, text(ready, "reason"), "Ready"), ts=ts, node=node)
        group.fields["ready"] = text(ready, "status")
    elif ready is not None:
        # Only noted if something else says that the node was away.
        groups.get("ready", node).fields["since"] = condition_ns(ready)
    for taint in mappings(item.body, "spec", "taints"):
        if text(taint, "key") in _GONE_TAINTS and not is_true(ready):
            ts = rfc3339_ns(taint.get("timeAdded"))
            ref = quotes.object(item, f"taint {text(taint, 'key')}:{text(taint, 'effect')}", ts, text(taint, "key"))
            groups.get("sched.node_fail", node).note(ref, ts=ts, node=node)
    if mapping(item.body, "spec").get("unschedulable") is True:
        notes = mapping(item.body, "metadata", "annotations")
        reason = next(
            (
                str(value)
                for key, value in notes.items()
                if any(word in str(key) for word in ("cordon-reason", "drain"))
            ),
            None,
        )
        group = groups.get("sched.node_drained", reason or "")
        group.fields["reason"] = reason
        since = next(
            (
                rfc3339_ns(taint.get("timeAdded"))
                for taint in mappings(item.body, "spec", "taints")
                if text(taint, "key") == _CORDON_TAINT
            ),
            NO_TIME,
        )
        group.note(
            quotes.object(item, "cordoned" + (f": {reason}" if reason else ""), since, "unschedulable"),
            ts=since,
            node=node,
        )
    for kind, resource in PRESSURE.items():
        if is_true(state.get(kind)):
            ts = condition_ns(state[kind])
            group = groups.get("sched.node_pressure", node)
            group.fields["resource"] = resource
            group.note(quotes.object(item, condition_text(state[kind]), ts, kind), ts=ts, node=node)
    for kind, condition in state.items():
        if kind not in _STANDARD and is_true(condition):
            ts = condition_ns(condition)
            group = groups.get("sched.node_problem", node, text(condition, "reason") or kind)
            group.fields.update(condition=kind, reason=text(condition, "reason"), message=text(condition, "message"))
            group.note(
                quotes.object(item, condition_text(condition), ts, text(condition, "message"), kind), ts=ts, node=node
            )
    have, usable = (_gpus(item, kind) for kind in ("capacity", "allocatable"))
    if have is not None and usable is not None and usable < have:
        group = groups.get("sched.device_missing", node)
        group.fields.update(capacity=have, allocatable=usable)
        group.note(quotes.object(item, f"{usable} of {have} GPUs allocatable", NO_TIME, "allocatable"), node=node)


def _gpus(item: KubernetesObject, kind: str) -> int | None:
    numbers = mapping(item.body, "status", kind)
    found = [int(quantity(number) or 0) for key, number in numbers.items() if str(key).endswith("/gpu")]
    return sum(found) if found else None


def _event(seen: Seen, groups: Groups, quotes: Quotes) -> None:
    event = seen.event
    node, reason = event.name, event.reason
    if reason in _LOSSES:
        group = groups.get("sched.node_fail", node)
    elif reason == "NodeReady":
        returned = groups.get("ready", node).fields
        returned["event"] = max(returned.get("event", NO_TIME), event.last)
        return
    elif reason == "Rebooted":
        group = groups.get("sched.node_reboot", node)
    elif reason == "NodeNotSchedulable":
        if any(node in group.nodes for group in groups.of("sched.node_drained")):
            return
        group = groups.get("sched.node_drained", "")
        group.fields.setdefault("reason", None)
    elif reason in ("OOMKilling", "SystemOOM"):
        group = groups.get("sched.oom_killed", node)
        pid, process = oom_victim(event.message)
        group.fields.update({key: value for key, value in (("pid", pid), ("process", process)) if value is not None})
    elif reason in _PRESSURE_EVENTS:
        group = groups.get("sched.node_pressure", node)
        if (resource := _PRESSURE_EVENTS[reason]) is not None:
            group.fields["resource"] = resource
    elif reason in _RECLAIMED:
        group = groups.get("mnt.reclaim", node)
        group.fields.setdefault("message", event.message)
    elif event.type == "Warning":
        group = groups.get("sched.node_problem", node, reason)
        group.fields.setdefault("reason", reason)
        group.fields["message"] = event.message
    else:
        return
    group.note(quotes.event(seen.item, event), ts=event.last, first=event.first, node=node, count=event.count)


def _pod_event(cluster: Cluster, seen: Seen, groups: Groups, quotes: Quotes) -> None:
    """The node controller tells pods that their node is not ready."""
    pod = _pod(cluster, seen)
    if pod is not None and pod.node is not None:
        groups.get("sched.node_fail", pod.node).note(
            quotes.event(seen.item, seen.event), ts=seen.event.last, node=pod.node
        )


def _pod(cluster: Cluster, seen: Seen) -> Pod | None:
    return cluster.pods.get((seen.event.namespace, seen.event.name))


def _relate(cluster: Cluster, group: Group, gangs: dict[str, set[str]]) -> bool:
    """Name the workloads of the group's node; True if there are any, or if none is known at all."""
    node = next(iter(group.nodes), None)
    group.name = node
    here = sorted(gangs.get(node or "", ()))
    group.fields["of_job"] = bool(here) if gangs else None
    if here:
        group.fields["workloads"] = tuple(here)
        group.job = here[0] if len(here) == 1 else None
    return bool(here) or not gangs


def _failed(cluster: Cluster, groups: Groups) -> Iterator[Finding]:
    gangs = cluster.node_gangs()
    back = {str(key[0]): group for key, group in groups.items("ready")}
    for group in groups.of("sched.node_fail"):
        node = next(iter(group.nodes))
        ours = _relate(cluster, group, gangs)
        returned = back.get(node)
        known = returned is not None and group.fields.get("ready") is None
        group.fields["recovered"] = known
        if not ours or (known and returned is not None and _harmless(cluster, node, group, returned)):
            group.role, group.severity = Role.CONTEXT, Severity.WARNING
        again = " and came back" if known else ""
        whose = f" under {listing(group.fields['workloads'])}" if group.fields.get("workloads") else ""
        yield group.finding(f"Node {node} was not ready{again}{whose}")


def _harmless(cluster: Cluster, node: str, group: Group, returned: Group) -> bool:
    """It was back before its pods were given up, and none of them was lost."""
    since = max(returned.fields.get("event", NO_TIME), returned.fields.get("since", NO_TIME))
    short = since == NO_TIME or group.last == NO_TIME or since - group.last < _HELD_NS
    return short and not any(
        pod.node == node
        and (pod.phase in ("Failed", "Unknown") or "deletionTimestamp" in mapping(pod.body, "metadata"))
        for pod in cluster.pods.values()
    )


def _simple(cluster: Cluster, groups: Groups) -> Iterator[Finding]:
    gangs = cluster.node_gangs()
    for group in groups.of("sched.node_reboot"):
        if not _relate(cluster, group, gangs):
            group.role, group.severity = Role.CONTEXT, Severity.WARNING
        yield group.finding(f"Node {group.name} was rebooted")
    for group in groups.of("sched.node_pressure"):
        _relate(cluster, group, gangs)
        group.role, group.severity = Role.CONTEXT, Severity.WARNING
        short = f" of {group.fields['resource']}" if group.fields.get("resource") else ""
        yield group.finding(f"Node {group.name} was short{short}")
    for group in groups.of("mnt.reclaim"):
        ours = _relate(cluster, group, gangs)
        group.role, group.severity = (Role.ROOT, Severity.ERROR) if ours else (Role.CONTEXT, Severity.INFO)
        yield group.finding(f"The provider takes node {group.name} back: {group.fields['message']}")
    for group in groups.of("sched.node_problem"):
        _relate(cluster, group, gangs)
        group.role, group.severity = Role.CONTEXT, Severity.WARNING
        yield group.finding(f"Node {group.name} reports {group.fields['reason']}: {group.fields['message']}")
    for group in groups.of("sched.device_missing"):
        _relate(cluster, group, gangs)
        group.role, group.severity = Role.CONTEXT, Severity.WARNING
        fields = group.fields
        yield group.finding(f"Node {group.name} offers {fields['allocatable']} of {fields['capacity']} GPUs")


def _drained(cluster: Cluster, groups: Groups) -> Iterator[Finding]:
    ill = {name for sign in _ILL for group in groups.of(sign) for name in group.nodes}
    for group in groups.of("sched.node_drained"):
        group.role, group.severity = Role.CONTEXT, Severity.INFO
        why = f": {group.fields['reason']}" if group.fields.get("reason") else ""
        moved = [pod for pod in cluster.pods.values() if pod.node in group.nodes and _sent_away(cluster, pod, group)]
        # What was cordoned because it is ill, is no maintenance: the illness is the story.
        group.fields["emptied"] = bool(moved) and not ill & set(group.nodes) and not _HEALTH.search(why)
        if group.fields["emptied"]:
            group.role, group.severity = Role.ROOT, Severity.WARNING
            group.job = moved[0].gang.id if len({pod.gang.id for pod in moved}) == 1 else None
            group.pods.update({pod.name: None for pod in moved})
            gone = f", {amount(len(moved), 'pod')} sent away ({listing((pod.id for pod in moved), 2)})"
        else:
            gone = ""
        yield group.finding(f"{amount(len(group.nodes), 'node')} cordoned ({listing(group.nodes)}){gone}{why}")


def _sent_away(cluster: Cluster, pod: Pod, group: Group) -> bool:
    """Evicted through the API, or killed and gone within minutes after its node was cordoned."""
    disrupted = conditions(pod.body).get("DisruptionTarget")
    if is_true(disrupted) and disrupted is not None:
        return text(disrupted, "reason") in ("EvictionByEvictionAPI", "")
    if pod.item is not None or not cluster.jobs.get(pod.gang.id) or pod.happened("Preempted", "Evict", "Evicted"):
        return False
    ended = [seen.event.last for seen in pod.events if seen.event.reason == "Killing"]
    return any(NO_TIME in (ts, group.first) or -_CORDON_MARGIN_NS <= ts - group.first <= _DRAIN_NS for ts in ended)


def _ooms(cluster: Cluster, groups: Groups) -> Iterator[Finding]:
    gangs = cluster.node_gangs()
    for group in groups.of("sched.oom_killed"):
        _relate(cluster, group, gangs)
        process = f" ({group.fields['process']})" if group.fields.get("process") else ""
        yield group.finding(f"The kernel of {group.name} killed a process{process} for lack of memory")
