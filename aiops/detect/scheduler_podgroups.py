"""Pod groups of Volcano, KAI and Kubernetes itself: what refuses them, and groups that outlive their pods."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from aiops.detect.scheduler_cluster import Cluster
from aiops.detect.scheduler_evidence import Quotes, condition_text
from aiops.detect.scheduler_findings import Group, Groups, listing
from aiops.detect.scheduler_messages import PLACEMENT_WORDS, placement_reasons, placement_why
from aiops.ingest.kubernetes_fields import condition_ns, integer, is_false, mapping, mappings, quantity, text
from aiops.model.case import KubernetesObject
from aiops.model.event import NO_TIME
from aiops.model.finding import Finding

_NATIVE = frozenset({"PodGroupInitiallyScheduled", "CompositePodGroupInitiallyScheduled"})


def detect_pod_groups(
    cluster: Cluster, quotes: Quotes, stuck: set[str | None], told: set[str | None]
) -> Iterator[Finding]:
    """``sched.quota``, ``sched.gang_infeasible`` and ``sched.unschedulable`` of pod groups, ``sched.stale_podgroup``,
    ``sched.preempted`` of gangs whose last pods the scheduler evicts.

    Gangs in ``stuck`` are left out: a finding already says what they wait for. For gangs in ``told`` the pods
    themselves say why they have no node, which is more than their group says.
    """
    groups = Groups()
    started: set[str] = set()
    for item in [*cluster.objects.get("PodGroup", ()), *cluster.objects.get("CompositePodGroup", ())]:
        gang = cluster.gang(item.kind, item.namespace or "", item.name)
        if _started(item):
            started.add(gang.id)
        if gang.id in stuck or gang.id in started:
            continue
        for condition in mappings(item.body, "status", "conditions"):
            if (
                text(condition, "type") == "Unschedulable"
                and text(condition, "status") == "True"
                or (text(condition, "type") in _NATIVE and is_false(condition))
            ):
                group = _refused(groups, cluster, item, text(condition, "message"))
                ts = condition_ns(condition)
                group.note(quotes.object(item, condition_text(condition), ts, text(condition, "message")), ts=ts)
        for condition in mappings(item.body, "status", "schedulingConditions"):
            for reason in mappings(condition, "reasons"):
                _kai(groups, cluster, item, reason, quotes)
    placed = {
        seen.event.name: seen.when
        for seen in cluster.events
        if seen.event.kind == "PodGroup" and seen.event.reason == "Scheduled"
    }
    for seen in cluster.events:
        event = seen.event
        if event.kind == "PodGroup" and event.reason in ("Unschedulable", "NotReady"):
            gang = cluster.gang("PodGroup", event.namespace, event.name)
            # events tell of the wait that is over, and stay for an hour
            if gang.id in stuck or gang.id in started or placed.get(event.name, float("-inf")) >= seen.when:
                continue
            group = _refused(groups, cluster, seen.item, event.message, gang.id)
            group.note(quotes.event(seen.item, event), ts=event.last, first=event.first, count=event.count)
    for group in [*groups.of("sched.quota"), *groups.of("sched.gang_infeasible"), *groups.of("sched.unschedulable")]:
        if group.sign != "sched.unschedulable" or group.job not in told or group.fields["why"] == "overused":
            yield group.finding(_refusal_text(group))
    yield from _stale(cluster, groups, quotes)
    yield from _dissolved(cluster, quotes)


def _started(item: KubernetesObject) -> bool:
    """The group runs or ran: Volcano's phase, or the condition of Kubernetes that never goes back once it is true."""
    if text(item.body, "status", "phase") in ("Running", "Completed"):
        return True
    return any(
        text(condition, "type") in _NATIVE and text(condition, "status") == "True"
        for condition in mappings(item.body, "status", "conditions")
    )


def _refused(
    groups: Groups, cluster: Cluster, item: KubernetesObject, message: str, gang_id: str | None = None
) -> Group:
    gang_id = gang_id or cluster.gang("PodGroup", item.namespace or "", item.name).id
    queue = text(item.body, "spec", "queue") or None
    if "queue resource quota insufficient" in message or "exceeded quota" in message:
        return _group(groups, "sched.quota", gang_id, queue, reason=message[:200])
    if message.startswith("0/0 tasks in gang"):
        # No pod may be created: the queue cannot take the gang as a whole.
        return _group(
            groups,
            "sched.gang_infeasible",
            gang_id,
            queue,
            requested=None,
            limit=None,
            scope="queue",
            needed=integer(item.body, "spec", "minMember"),
        )
    why = "overused" if "overused" in message else placement_why(message)
    if why == "gang" and any(group.job == gang_id for group in groups.of("sched.unschedulable")):
        return next(group for group in groups.of("sched.unschedulable") if group.job == gang_id)
    group = _group(groups, "sched.unschedulable", gang_id, queue, why=why, reasons=placement_reasons(message))
    if group.fields["why"] == "gang":
        # "The gang is not complete" is the consequence; a message that says why takes its place.
        group.fields.update(why=why, reasons=placement_reasons(message))
    return group


def _group(groups: Groups, sign: str, gang_id: str, queue: str | None, **fields: Any) -> Group:
    return groups.get(
        sign,
        gang_id,
        make=lambda: Group(sign, job=gang_id, name=queue, fields={"workload": f"PodGroup {gang_id}", **fields}),
    )


def _kai(groups: Groups, cluster: Cluster, item: KubernetesObject, reason: Any, quotes: Quotes) -> None:
    gang_id = cluster.gang("PodGroup", item.namespace or "", item.name).id
    code, message = text(reason, "reason"), text(reason, "message")
    details = mapping(reason, "details", "queueDetails")
    queue = text(details, "name") or text(item.body, "spec", "queue") or None
    if code in ("NonPreemptibleOverQuota", "OverLimit"):
        group = _group(
            groups,
            "sched.quota",
            gang_id,
            queue,
            reason=code,
            requested=_gpus(details, "podGroupRequestedResources"),
            used=_gpus(details, "queueAllocatedResources"),
            limit=_gpus(details, "queueResourceLimits" if code == "OverLimit" else "queueDeservedResources"),
        )
    elif code == "QueueDoesNotExist":
        group = _group(groups, "sched.unschedulable", gang_id, queue, why="queue", reasons={})
    else:
        group = _group(groups, "sched.unschedulable", gang_id, queue, why=placement_why(message), reasons={})
    group.note(quotes.object(item, f"{code}: {message}", NO_TIME, message, code))


def _gpus(details: Any, key: str) -> float | None:
    resources = mapping(details, key)
    return next((quantity(n) for name, n in resources.items() if "gpu" in str(name).lower()), None)


def _refusal_text(group: Group) -> str:
    queue = f" of queue {group.name}" if group.name else ""
    if group.sign == "sched.quota":
        return f"{group.job} waits: the quota{queue} does not allow it"
    if group.sign == "sched.gang_infeasible":
        return f"{group.job} can never start: the gang{queue} is refused as a whole"
    return f"{group.job} cannot be scheduled: {PLACEMENT_WORDS[group.fields['why']]}"


def _stale(cluster: Cluster, groups: Groups, quotes: Quotes) -> Iterator[Finding]:
    """Pod groups that keep their reservation (Inqueue) without any pod left that could use it."""
    refused = [group for group in groups.of("sched.unschedulable") if group.fields["why"] == "overused"]
    reserved = [
        item
        for item in cluster.objects.get("PodGroup", ())
        if text(item.body, "status", "phase") == "Inqueue" and not integer(item.body, "status", "running")
    ]
    waiting = [pod for pod in cluster.pods.values() if pod.phase == "Pending"]
    if not refused or not cluster.objects.get("Pod") or len(reserved) <= max(2, len(waiting)):
        return
    group = Group(
        "sched.stale_podgroup",
        fields={
            "podgroups": len(reserved),
            "pending_pods": len(waiting),
            "refused": tuple(sorted(g.job or "" for g in refused)),
        },
    )
    for item in reserved:
        group.note(quotes.object(item, "phase Inqueue, no pod runs"))
    for other in refused:
        group.evidence += other.evidence
    yield group.finding(
        f"{len(reserved)} pod groups are still Inqueue with no pod running, while the scheduler "
        f"refuses {listing(group.fields['refused'])} because the cluster is overused"
    )


def _dissolved(cluster: Cluster, quotes: Quotes) -> Iterator[Finding]:
    """Gangs whose last pods KAI evicted because it counted fewer running ones than the gang needs to start.

    Pods that had ended well are not counted either (KAI-Scheduler issue 1968): that is the scheduler's doing.
    """
    groups = Groups()
    for seen in cluster.events:
        event = seen.event
        if event.kind == "PodGroup" and event.reason == "Evict" and "minimum required number of pods" in event.message:
            gang = cluster.gang("PodGroup", event.namespace, event.name).id
            group = groups.get("sched.preempted", gang)
            group.job = gang
            group.fields.setdefault("by", "the scheduler's own rule for incomplete gangs")
            group.note(quotes.event(seen.item, event), ts=event.last, first=event.first, count=event.count)
    for group in groups.of("sched.preempted"):
        yield group.finding(
            f"The scheduler evicted the last pods of {group.job}: fewer run than the gang needs to start"
        )
