"""Kueue and quotas: workloads that are not admitted, or lost their admission."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from aiops.detect.scheduler_cluster import Cluster, Seen
from aiops.detect.scheduler_evidence import Quotes, condition_text
from aiops.detect.scheduler_findings import Group, Groups, listing
from aiops.detect.scheduler_messages import (
    PLACEMENT_WORDS,
    KueueRefusal,
    exceeded_quota,
    kueue_preemptor,
    kueue_refusal,
)
from aiops.ingest.kubernetes_fields import (
    api_group,
    condition_ns,
    conditions,
    integer,
    is_false,
    is_true,
    mapping,
    mappings,
    quantity,
    text,
)
from aiops.model.case import Job, KubernetesObject
from aiops.model.event import Severity
from aiops.model.finding import EvidenceRef, Finding, Role

GROUP = "kueue.x-k8s.io"

# Reasons of QuotaReserved=False since v0.18; before, the reason is only Pending, Waiting or Inadmissible.
_REFUSALS = {
    "WaitingForQuota": "quota",
    "ExceedsMaxQuota": "infeasible",
    "TopologyPlacementFailed": "topology",
    "NoMatchingFlavor": "selector",
    "Misconfigured": "queue",
}
_PATIENT = frozenset(
    {
        "WaitingForPreemptedWorkloads",
        "PendingEvaluation",
        "WaitingForPodsReady",
        "Suspended",
        "OnHold",
        "AdmissionGated",
    }
)
_REFUSED_EVENTS = frozenset({*_REFUSALS, *_PATIENT, "Pending", "Waiting", "Inadmissible"})
_ADMITTED_EVENTS = frozenset({"QuotaReserved", "Admitted", "Started", "FinishedWorkload"})
_DEACTIVATED = {
    "RequeuingLimitExceeded": "PodsReadyTimeout",
    "MaximumExecutionTimeExceeded": "Deadline",
    "AdmissionCheck": "AdmissionCheck",
}


def detect_queue(cluster: Cluster, quotes: Quotes) -> list[Finding]:
    """``sched.quota``, ``sched.gang_infeasible``, ``sched.unschedulable``, ``sched.pending``, ``sched.preempted``,
    ``sched.pods_ready_timeout``, ``sched.evicted``, ``sched.walltime``, ``sched.node_fail`` of workloads in queues,
    and ``sched.quota`` of namespaces (ResourceQuota)."""
    groups = Groups()
    known: set[str] = set()
    for item in cluster.objects.get("Workload", ()):
        if api_group(item.body) == GROUP:
            known.add(cluster.gang("Workload", item.namespace or "", item.name).id)
            _workload(cluster, item, groups, quotes)
    _events(cluster, known, groups, quotes)
    _namespace_quota(cluster, groups, quotes)
    for group in groups.of("sched.preempted"):
        _name_taker(cluster, groups, group)
    return [finding for sign in _TEXTS for finding in _finish(groups, sign)]


def _name_taker(cluster: Cluster, groups: Groups, group: Group) -> None:
    """What the preemptor has now, and whether it was itself displaced since: who took the GPUs in the end."""
    taker = group.fields["by"]
    pods = cluster.gangs().get(taker or "", [])
    running = [pod for pod in pods if pod.running]
    asked = next((job.gpus for job in cluster.jobs.get(taker or "", []) if job.gpus), None)
    if gpus := sum(pod.gpus for pod in running) or asked:
        group.fields["by_gpus"] = gpus
    if nodes := sorted({pod.node for pod in running if pod.node}):
        group.fields["by_nodes"] = tuple(nodes)
    lost = {other.job: other.fields["by"] for other in groups.of("sched.preempted")}
    chain = [taker] if taker else []
    while chain and (above := lost.get(chain[-1])) and above not in chain:
        chain.append(above)
    if len(chain) > 1:
        group.fields["chain"] = tuple(chain)


def _group(cluster: Cluster, groups: Groups, sign: str, gang_id: str, **fields: Any) -> Group:
    queue = next((job.queue for job in cluster.jobs.get(gang_id, []) if job.queue), None)
    return groups.get(
        sign,
        gang_id,
        make=lambda: Group(sign, job=gang_id, name=queue, fields={"workload": f"Workload {gang_id}", **fields}),
    )


# from objects ------------------------------------------------------------------------------------------------------


def _workload(cluster: Cluster, item: KubernetesObject, groups: Groups, quotes: Quotes) -> None:
    gang_id = cluster.gang("Workload", item.namespace or "", item.name).id
    state = conditions(item.body)
    if is_true(state.get("Finished")):
        return
    evicted = state.get("Evicted")
    lost = is_true(evicted) and evicted is not None
    if lost and evicted is not None:
        _evicted(cluster, item, gang_id, evicted, state, groups, quotes)
    waiting = state.get("QuotaReserved")
    if is_false(waiting) and waiting is not None:
        refusal = _refusal(text(waiting, "reason"), text(waiting, "message"))
        group = _refused(cluster, groups, gang_id, refusal, text(waiting, "reason"), item)
        if lost or is_true(state.get("Preempted")):
            # It waits because it lost its place: the loss is the story.
            group.role, group.severity = (Role.ECHO if group.role is Role.ROOT else group.role), Severity.INFO
        ts = condition_ns(waiting)
        group.note(quotes.object(item, condition_text(waiting), ts, text(waiting, "message"), "QuotaReserved"), ts=ts)
        group.name = group.name or text(item.body, "spec", "queueName") or None


def _refusal(reason: str, message: str) -> KueueRefusal:
    told = kueue_refusal(message)
    why = _REFUSALS.get(reason)
    if reason in _PATIENT:
        return KueueRefusal("patient")
    # The message adds numbers, and tells infeasible requests from busy queues where the reason does not.
    if why is None or why == told.why or (why == "quota" and told.why == "infeasible"):
        return told
    if why == "selector" and told.why in ("taint", "selector", "uncovered"):
        return told
    return replace(told, why=why)


def _refused(
    cluster: Cluster, groups: Groups, gang_id: str, refusal: KueueRefusal, reason: str, item: KubernetesObject | None
) -> Group:
    if refusal.why in ("quota", "infeasible"):
        sign = "sched.quota" if refusal.why == "quota" else "sched.gang_infeasible"
        group = _group(cluster, groups, sign, gang_id, reason=reason)
        group.fields.update(_numbers(cluster, gang_id, refusal, item))
        group.name = group.fields.get("cluster_queue") or group.name
    elif refusal.why in ("taint", "selector", "uncovered", "topology", "queue"):
        group = _group(cluster, groups, "sched.unschedulable", gang_id, why=refusal.why, reason=reason, reasons={})
        group.name = refusal.queue or group.name
        if refusal.why == "uncovered":
            group.fields.update(resource=refusal.resource, pod_set=refusal.pod_set)
    else:
        group = _group(cluster, groups, "sched.pending", gang_id, reason=reason)
        group.role, group.severity = Role.CONTEXT, Severity.INFO
    return group


def _numbers(cluster: Cluster, gang_id: str, refusal: KueueRefusal, item: KubernetesObject | None) -> dict[str, Any]:
    """What was asked for, and what the queue has, as far as message and ClusterQueue tell."""
    resource = refusal.resource or "nvidia.com/gpu"
    jobs = cluster.jobs.get(gang_id, [])
    asked = refusal.requested
    if asked is None and resource.endswith("/gpu"):
        asked = next((float(job.gpus) for job in jobs if job.gpus), None)
    queue = _cluster_queue(cluster, jobs, item)
    limit, used = _queue_numbers(queue, resource, refusal.flavor) if queue is not None else (None, None)
    numbers = {
        "resource": resource,
        "flavor": refusal.flavor,
        "pod_set": refusal.pod_set,
        "requested": asked,
        "limit": refusal.limit if refusal.limit is not None else limit,
        "used": used,
        "missing": refusal.missing,
        "cluster_queue": queue.name if queue is not None else None,
        "position": _position(cluster, item),
    }
    return {key: value for key, value in numbers.items() if value is not None}


def _cluster_queue(cluster: Cluster, jobs: list[Job], item: KubernetesObject | None) -> KubernetesObject | None:
    """The ClusterQueue of a workload: named by its LocalQueue, or the only one that was collected."""
    queues = {queue.name: queue for queue in cluster.objects.get("ClusterQueue", ())}
    local = text(item.body, "spec", "queueName") if item is not None else next((j.queue for j in jobs if j.queue), "")
    space = item.namespace if item is not None else next((j.namespace for j in jobs), None)
    for queue in cluster.objects.get("LocalQueue", ()):
        if queue.name == local and queue.namespace == space:
            return queues.get(text(queue.body, "spec", "clusterQueue"))
    return next(iter(queues.values())) if len(queues) == 1 else None


def _queue_numbers(queue: KubernetesObject, resource: str, flavor: str | None) -> tuple[float | None, float | None]:
    limit = used = None
    for group in mappings(queue.body, "spec", "resourceGroups"):
        limit = _sum(limit, group, "flavors", resource, flavor, "nominalQuota")
    used = _sum(used, mapping(queue.body, "status"), "flavorsReservation", resource, flavor, "total")
    if used is None:
        used = _sum(used, mapping(queue.body, "status"), "flavorsUsage", resource, flavor, "total")
    return limit, used


def _sum(
    total: float | None, body: Mapping[str, Any], key: str, resource: str, flavor: str | None, number: str
) -> float | None:
    for entry in mappings(body, key):
        if flavor is not None and text(entry, "name") != flavor:
            continue
        for found in mappings(entry, "resources"):
            if text(found, "name") == resource and (value := quantity(found.get(number))) is not None:
                total = (total or 0.0) + value
    return total


def _position(cluster: Cluster, item: KubernetesObject | None) -> int | None:
    """Place in the queue, from Kueue's visibility API (0 = next)."""
    if item is None:
        return None
    for summary in cluster.objects.get("PendingWorkloadsSummary", ()):
        for entry in mappings(summary.body, "items"):
            if text(entry, "metadata", "name") == item.name:
                return integer(entry, "positionInClusterQueue")
    return None


def _evicted(
    cluster: Cluster,
    item: KubernetesObject,
    gang_id: str,
    evicted: Mapping[str, Any],
    state: Mapping[str, Mapping[str, Any]],
    groups: Groups,
    quotes: Quotes,
) -> None:
    reason = text(evicted, "reason")
    if reason == "Deactivated":
        target = state.get("DeactivationTarget")
        reason = _DEACTIVATED.get(text(target, "reason") if target is not None else "", reason)
    elif reason.startswith("DeactivatedDueTo"):
        reason = _DEACTIVATED.get(reason.removeprefix("DeactivatedDueTo"), "Deactivated")
    ts = condition_ns(evicted)
    preempted = state.get("Preempted")
    _lost(
        cluster,
        groups,
        gang_id,
        reason,
        text(evicted, "message"),
        quotes.object(item, condition_text(evicted), ts, text(evicted, "message"), reason),
        ts,
        text(preempted, "reason") if is_true(preempted) and preempted is not None else None,
        [text(node, "name") for node in mappings(item.body, "status", "unhealthyNodes")],
    )


def _lost(
    cluster: Cluster,
    groups: Groups,
    gang_id: str,
    reason: str,
    message: str,
    ref: EvidenceRef,
    ts: int,
    path: str | None,
    nodes: list[str],
) -> None:
    """One loss of admission, whichever way it was told."""
    if reason == "Preempted":
        group = _group(cluster, groups, "sched.preempted", gang_id, by=None)
        workload, job, priority = kueue_preemptor(message)
        taker = next((gang for uid in (job, workload) if uid and (gang := cluster.gang_of_uid(uid))), None)
        group.fields["by"] = taker.id if taker is not None else group.fields["by"] or workload
        if priority is not None:
            group.fields["priority"] = priority
        if path is not None:
            group.fields["path"] = path
    elif reason == "PodsReadyTimeout":
        group = _group(cluster, groups, "sched.pods_ready_timeout", gang_id)
    elif reason == "Deadline":
        group = _group(cluster, groups, "sched.walltime", gang_id, by="maximumExecutionTimeSeconds")
    elif reason == "NodeFailures":
        group = _group(cluster, groups, "sched.node_fail", gang_id)
        group.nodes.update(dict.fromkeys(nodes or _named_nodes(message)))
    else:
        group = _group(cluster, groups, "sched.evicted", gang_id, resource=None, by=reason)
    group.note(ref, ts=ts)


def _named_nodes(message: str) -> list[str]:
    """Nodes at the end of ``… node failures, including: a, b``."""
    head, colon, tail = message.rpartition(": ")
    return [name.strip() for name in tail.split(",") if name.strip()] if colon and "node" in head else []


# from events -------------------------------------------------------------------------------------------------------


def _events(cluster: Cluster, known: set[str], groups: Groups, quotes: Quotes) -> None:
    """Events add to what conditions say; they speak alone only of workloads whose object was not collected."""
    ready = {
        cluster.gang("Workload", item.namespace or "", item.name).id
        for item in cluster.objects.get("Workload", ())
        if is_true(conditions(item.body).get("PodsReady")) or is_true(conditions(item.body).get("Finished"))
    }
    last_word: dict[str, tuple[float, str]] = {}
    refused: dict[str, Seen] = {}
    for seen in cluster.events:
        event = seen.event
        if event.kind != "Workload":
            continue
        gang_id = cluster.gang("Workload", event.namespace, event.name).id
        if event.reason in _ADMITTED_EVENTS or event.reason in _REFUSED_EVENTS:
            if gang_id not in last_word or seen.when >= last_word[gang_id][0]:
                last_word[gang_id] = (seen.when, event.reason)
            if event.reason in _REFUSED_EVENTS:
                refused[gang_id] = seen
        elif event.reason == "Preempted" or event.reason.startswith("EvictedDueTo"):
            reason = event.reason.removeprefix("EvictedDueTo")
            reason = _DEACTIVATED.get(reason.removeprefix("DeactivationDueTo").removeprefix("DeactivatedDueTo"), reason)
            sign = {"Preempted": "sched.preempted", "PodsReadyTimeout": "sched.pods_ready_timeout"}.get(reason)
            told = any(group.job == gang_id for group in groups.of(sign or "sched.evicted"))
            # Requeued, it may be admitted again when it is looked at, and still not be ready.
            again = reason == "PodsReadyTimeout" and gang_id not in ready
            if gang_id not in known or told or again:
                _lost(
                    cluster,
                    groups,
                    gang_id,
                    reason,
                    event.message,
                    quotes.event(seen.item, event),
                    event.last,
                    None,
                    [],
                )
    for gang_id, seen in refused.items():
        event = seen.event
        for sign in ("sched.quota", "sched.gang_infeasible", "sched.unschedulable"):
            for group in groups.of(sign):
                if group.job == gang_id:
                    group.note(quotes.event(seen.item, event), ts=event.last, first=event.first, count=event.count)
        if gang_id in known:
            continue
        group = _refused(cluster, groups, gang_id, _refusal(event.reason, event.message), event.reason, None)
        if last_word[gang_id][1] in _ADMITTED_EVENTS:
            group.role, group.severity = Role.CONTEXT, Severity.INFO
        elif any(lost.job == gang_id for lost in groups.of("sched.preempted")) and group.role is Role.ROOT:
            group.role = Role.ECHO
        group.note(quotes.event(seen.item, event), ts=event.last, first=event.first, count=event.count)


def _namespace_quota(cluster: Cluster, groups: Groups, quotes: Quotes) -> None:
    created = {
        (seen.event.kind, seen.event.namespace, seen.event.name): seen.when
        for seen in cluster.events
        if seen.event.reason == "SuccessfulCreate"
    }
    for seen in cluster.events:
        event = seen.event
        told = exceeded_quota(event.message) if event.reason == "FailedCreate" else None
        if told is None:
            continue
        gang_id = cluster.gang(event.kind, event.namespace, event.name).id
        group = groups.get(
            "sched.quota",
            gang_id,
            "namespace",
            make=lambda told=told, gang_id=gang_id: Group(  # type: ignore[misc]
                "sched.quota",
                job=gang_id,
                name=told["name"],
                fields={
                    "workload": f"workload {gang_id}",
                    "reason": "ResourceQuota",
                    "requested": told["requested"],
                    "used": told["used"],
                    "limit": told["limit"],
                },
            ),
        )
        if created.get((event.kind, event.namespace, event.name), float("-inf")) > seen.when:
            group.role, group.severity = Role.CONTEXT, Severity.INFO
        group.note(quotes.event(seen.item, event), ts=event.last, first=event.first, count=event.count)


# sentences ---------------------------------------------------------------------------------------------------------


def _quota_text(group: Group) -> str:
    fields = group.fields
    queue = f" of {group.name}" if group.name else ""
    asked = f", asks for {_plain(fields['requested'])}" if fields.get("requested") is not None else ""
    limit = f" of {_plain(fields['limit'])}" if fields.get("limit") is not None else ""
    used = f", {_plain(fields['used'])}{limit} in use" if fields.get("used") is not None else ""
    missing = f", {_plain(fields['missing'])} more needed" if fields.get("missing") is not None else ""
    resource = f" for {fields['resource']}" if fields.get("resource") else ""
    return f"{group.job} waits for quota{queue}{resource}{asked}{used}{missing}"


def _infeasible_text(group: Group) -> str:
    fields = group.fields
    part = f"pod set {fields['pod_set']} of " if fields.get("pod_set") else ""
    numbers = (
        f" ({_plain(fields['requested'])} > {_plain(fields['limit'])})"
        if fields.get("requested") is not None and fields.get("limit") is not None
        else ""
    )
    return f"{part}{group.job} asks for more {fields.get('resource', 'GPUs')} than any flavor can give{numbers}"


def _preempted_text(group: Group) -> str:
    fields = group.fields
    by = f" by {fields['by']}" if fields["by"] else ""
    rank = f" (priority {fields['priority']})" if by and fields.get("priority") is not None else ""
    gpus = f", which takes {fields['by_gpus']} GPUs" if by and fields.get("by_gpus") else ""
    chain = f"; that one was itself preempted by {fields['chain'][1]}" if fields.get("chain") else ""
    return f"{group.job} was preempted{by}{rank}{gpus}{chain}"


def _why(group: Group) -> str:
    if group.fields.get("resource"):
        asks = f", which its pod set {group.fields['pod_set']} asks for" if group.fields.get("pod_set") else ""
        return f"its queue has no quota for {group.fields['resource']}{asks}"
    return PLACEMENT_WORDS[group.fields["why"]]


def _plain(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)


_TEXTS: dict[str, Any] = {
    "sched.quota": _quota_text,
    "sched.gang_infeasible": _infeasible_text,
    "sched.unschedulable": lambda group: f"{group.job} is not admitted: {_why(group)}",
    "sched.pending": lambda group: f"{group.job} waits in its queue ({group.fields['reason'] or 'no reason given'})",
    "sched.preempted": lambda group: _preempted_text(group),
    "sched.pods_ready_timeout": lambda group: f"{group.job} was admitted, but its pods were not ready in time",
    "sched.walltime": lambda group: f"{group.job} reached its maximum execution time",
    "sched.node_fail": lambda group: f"{group.job} lost its place because of failed nodes ({listing(group.nodes)})",
    "sched.evicted": lambda group: f"{group.job} was evicted from its queue ({group.fields['by']})",
}


def _finish(groups: Groups, sign: str) -> Iterator[Finding]:
    infeasible = {group.job for group in groups.of("sched.gang_infeasible")}
    for group in groups.of(sign):
        # What can never fit needs no second finding about what is free at the moment.
        if sign != "sched.quota" or group.job not in infeasible or group.fields.get("reason") == "ResourceQuota":
            yield group.finding(_TEXTS[sign](group))
