"""Queues that admit nothing, whatever is free: missing, stopped, closed, or set up wrongly; checks and clusters that refuse."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from aiops.detect.scheduler_cluster import Cluster
from aiops.detect.scheduler_evidence import Quotes, condition_text
from aiops.detect.scheduler_findings import Group, listing
from aiops.ingest.kubernetes_fields import (
    api_group,
    condition_ns,
    conditions,
    is_false,
    is_true,
    mapping,
    mappings,
    rfc3339_ns,
    text,
)
from aiops.model.case import KubernetesObject
from aiops.model.event import NO_TIME, Severity
from aiops.model.finding import Finding, Role

_KUEUE = "kueue.x-k8s.io"
_QUEUE_NAME = "kueue.x-k8s.io/queue-name"
_NO_FAULT = frozenset({"Ready", "Terminating"})
_FOLLOWS = frozenset({"ClusterQueueIsInactive"})
"""Reasons of a LocalQueue that only repeat what its ClusterQueue says."""
# ProvisioningRequest and cloud autoscalers, in the message of an admission check.
_CAPACITY = re.compile(r"out of resources|stockout|capacity|quota|ResourcesNotAvailable|not enough|insufficient", re.I)
_REMOTE = re.compile(r"remote|worker cluster|cluster .{0,80}(?:lost|not (?:active|connected|reachable))", re.I)
_WRONG_CLUSTER = frozenset({"BadConfig", "BadRestConfig", "BadKubeConfig", "BadClusterProfile", "KubeConfigNotFound"})


def detect_queue_setup(cluster: Cluster, quotes: Quotes) -> list[Finding]:
    """``sched.queue_broken`` (ROOT if workloads wait in it), ``sched.admission_check`` and ``sched.cluster_lost``
    (Kueue's admission checks and MultiKueue)."""
    waiting = _waiting(cluster)
    return [
        *_cluster_queues(cluster, quotes, waiting),
        *_local_queues(cluster, quotes, waiting),
        *_volcano_queues(cluster, quotes),
        *_checks(cluster, quotes),
        *_clusters(cluster, quotes),
    ]


def _waiting(cluster: Cluster) -> dict[tuple[str, str], list[str]]:
    """Gangs that wait in each queue, by (namespace, name of the LocalQueue)."""
    found: dict[tuple[str, str], list[str]] = {}
    placed: set[str] = set()
    for item in cluster.objects.get("Workload", ()):
        if api_group(item.body) != _KUEUE:
            continue
        gang = cluster.gang("Workload", item.namespace or "", item.name).id
        state = conditions(item.body)
        if is_true(state.get("Finished")) or is_true(state.get("Admitted")):
            placed.add(gang)
        elif queue := text(item.body, "spec", "queueName"):
            found.setdefault((item.namespace or "", queue), []).append(gang)
    for kind, items in cluster.objects.items():
        for item in items:
            queue = text(mapping(item.body, "metadata", "labels"), _QUEUE_NAME)
            state = conditions(item.body)
            if not queue or kind == "Pod" or not is_true(state.get("Suspended")):
                continue
            gang = cluster.gang(kind, item.namespace or "", item.name).id
            known = found.setdefault((item.namespace or "", queue), [])
            if gang not in known and gang not in placed:
                known.append(gang)
    return found


def _broken(item: KubernetesObject, kind: str, problem: str, said: str, jobs: list[str]) -> Group:
    group = Group(
        "sched.queue_broken",
        job=jobs[0] if len(set(jobs)) == 1 else None,
        name=item.name,
        fields={"kind": kind, "problem": problem, "waiting": tuple(sorted(set(jobs))), "said": said},
    )
    if not jobs:
        group.role, group.severity = Role.CONTEXT, Severity.WARNING
    return group


def _sentence(group: Group) -> str:
    who = listing(group.fields["waiting"])
    wait = f"; {who} can never start in it as it is" if who else ""
    return f"{group.fields['kind']} {group.name} admits nothing: {group.fields['said'].rstrip('.')}{wait}"


def _cluster_queues(
    cluster: Cluster, quotes: Quotes, waiting: Mapping[tuple[str, str], list[str]]
) -> Iterator[Finding]:
    for item in cluster.objects.get("ClusterQueue", ()):
        active = conditions(item.body).get("Active")
        stopped = text(item.body, "spec", "stopPolicy") in ("Hold", "HoldAndDrain")
        if not stopped and (active is None or not is_false(active) or text(active, "reason") in _NO_FAULT):
            continue
        jobs = [
            gang
            for local in cluster.objects.get("LocalQueue", ())
            if text(local.body, "spec", "clusterQueue") == item.name
            for gang in waiting.get((local.namespace or "", local.name), ())
        ]
        yield _finding(item, "ClusterQueue", active, stopped, jobs, quotes)


def _local_queues(cluster: Cluster, quotes: Quotes, waiting: Mapping[tuple[str, str], list[str]]) -> Iterator[Finding]:
    known = {item.name for item in cluster.objects.get("ClusterQueue", ())}
    for item in cluster.objects.get("LocalQueue", ()):
        jobs = waiting.get((item.namespace or "", item.name), [])
        active = conditions(item.body).get("Active")
        target = text(item.body, "spec", "clusterQueue")
        stopped = text(item.body, "spec", "stopPolicy") in ("Hold", "HoldAndDrain")
        if target and target not in known and (known or is_false(active)):
            said = f"its ClusterQueue {target} does not exist"
            group = _broken(item, "LocalQueue", "ClusterQueueMissing", said, jobs)
            group.fields["cluster_queue"] = target
            ts = condition_ns(active) if active is not None else NO_TIME
            group.note(quotes.object(item, f"clusterQueue: {target}, which is not there", ts, target), ts=ts)
            yield group.finding(_sentence(group))
        elif stopped or (
            is_false(active) and active is not None and text(active, "reason") not in _FOLLOWS | _NO_FAULT
        ):
            yield _finding(item, "LocalQueue", active, stopped, jobs, quotes)
    yield from _absent_queues(cluster, quotes, waiting)


def _absent_queues(cluster: Cluster, quotes: Quotes, waiting: Mapping[tuple[str, str], list[str]]) -> Iterator[Finding]:
    """Workloads that name a LocalQueue which is not among those of their namespace."""
    queues = {(item.namespace or "", item.name) for item in cluster.objects.get("LocalQueue", ())}
    if not queues:
        return
    for item in cluster.objects.get("Workload", ()):
        key = (item.namespace or "", text(item.body, "spec", "queueName"))
        if api_group(item.body) != _KUEUE or key not in waiting or key in queues:
            continue
        gang = cluster.gang("Workload", *(item.namespace or "", item.name)).id
        fields = {"kind": "LocalQueue", "problem": "LocalQueueMissing", "waiting": (gang,)}
        group = Group("sched.queue_broken", job=gang, name=key[1], fields=fields)
        group.note(quotes.object(item, f"queueName: {key[1]}, which is not there", NO_TIME, "queueName", "Queue Name"))
        yield group.finding(f"{gang} waits in LocalQueue {key[1]}, which does not exist in namespace {key[0]}")


def _finding(
    item: KubernetesObject,
    kind: str,
    active: Mapping[str, Any] | None,
    stopped: bool,
    jobs: list[str],
    quotes: Quotes,
) -> Finding:
    policy = text(item.body, "spec", "stopPolicy")
    known = active if active is not None and is_false(active) else None
    said = text(known, "message") if known is not None and not stopped else f"it is stopped (stopPolicy {policy})"
    problem = "Stopped" if stopped else text(known, "reason") or "Inactive"
    group = _broken(item, kind, problem, said or problem, jobs)
    ts = condition_ns(known) if known is not None else NO_TIME
    quoted = condition_text(known) if known is not None else f"stopPolicy: {policy}"
    needles = (text(known, "message"), text(known, "reason")) if known is not None else (policy,)
    group.note(quotes.object(item, quoted, ts, *needles), ts=ts)
    return group.finding(_sentence(group))


def _volcano_queues(cluster: Cluster, quotes: Quotes) -> Iterator[Finding]:
    for item in cluster.objects.get("Queue", ()):
        state = text(item.body, "status", "state")
        if api_group(item.body) != "scheduling.volcano.sh" or state not in ("Closed", "Closing"):
            continue
        jobs = [
            cluster.gang("PodGroup", group.namespace or "", group.name).id
            for group in cluster.objects.get("PodGroup", ())
            if text(group.body, "spec", "queue") == item.name
            and text(group.body, "status", "phase") in ("", "Pending", "Inqueue")
        ]
        group = _broken(item, "Volcano queue", state, f"its state is {state}", jobs)
        group.note(quotes.object(item, f"state {state}", NO_TIME, state))
        yield group.finding(_sentence(group))


def _checks(cluster: Cluster, quotes: Quotes) -> Iterator[Finding]:
    for item in cluster.objects.get("Workload", ()):
        if api_group(item.body) != _KUEUE or is_true(conditions(item.body).get("Finished")):
            continue
        for check in mappings(item.body, "status", "admissionChecks"):
            state, message = text(check, "state"), text(check, "message")
            if state not in ("Retry", "Rejected"):
                continue
            why = "remote" if _REMOTE.search(message) else "capacity" if _CAPACITY.search(message) else "refused"
            gang = cluster.gang("Workload", item.namespace or "", item.name)
            group = Group(
                "sched.admission_check",
                job=gang.id,
                name=text(check, "name") or None,
                fields={"workload": f"Workload {gang.id}", "state": state, "why": why, "message": message},
            )
            ts = rfc3339_ns(check.get("lastTransitionTime"))
            group.note(
                quotes.object(item, f"admission check {group.name}: {state} {message}", ts, message, state), ts=ts
            )
            word = "refuses" if state == "Rejected" else "holds back"
            yield group.finding(f"Admission check {group.name} {word} {gang.id}: {message or state}")


def _clusters(cluster: Cluster, quotes: Quotes) -> Iterator[Finding]:
    for item in cluster.objects.get("MultiKueueCluster", ()):
        active = conditions(item.body).get("Active")
        if active is None or not is_false(active):
            continue
        reason, message = text(active, "reason"), text(active, "message")
        there = [
            cluster.gang("Workload", work.namespace or "", work.name).id
            for work in cluster.objects.get("Workload", ())
            if text(work.body, "status", "clusterName") == item.name
            or item.name in (work.body.get("status") or {}).get("nominatedClusterNames", ())
        ]
        why = "config" if reason in _WRONG_CLUSTER else "connection"
        group = Group(
            "sched.cluster_lost",
            job=there[0] if len(there) == 1 else None,
            name=item.name,
            fields={"reason": reason, "why": why, "workloads": tuple(there)},
        )
        ts = condition_ns(active)
        group.note(quotes.object(item, condition_text(active), ts, message, reason), ts=ts)
        whose = f"; {listing(there)} runs or waits there" if there else ""
        yield group.finding(f"Worker cluster {item.name} is not connected ({reason}): {message}{whose}")
