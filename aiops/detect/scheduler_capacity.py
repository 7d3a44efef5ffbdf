"""GPUs that are there but cannot be had: scattered, hidden by the device plugin, or advertised by no Ray group."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from aiops.detect.evidence import evidence_rows, quote
from aiops.detect.scheduler_cluster import Cluster, Pod
from aiops.detect.scheduler_evidence import Quotes
from aiops.detect.scheduler_findings import Group, amount, listing
from aiops.ingest.kubernetes_fields import conditions, gpu_request, integer, is_false, mapping, mappings, quantity, text
from aiops.model.case import Case, KubernetesObject
from aiops.model.event import NO_TIME
from aiops.model.finding import Finding

_RAY_KINDS = ("RayCluster", "RayJob", "RayService")


def detect_capacity(case: Case, cluster: Cluster, quotes: Quotes) -> list[Finding]:
    """``sched.fragmentation`` (enough free GPUs, but on no single node), ``sched.plugin_stale`` (a ready node offers fewer
    GPUs than it has while pods lack just those) and ``sched.ray_group`` (no worker group advertises GPUs); all ROOT."""
    waiting = [pod for pod in cluster.pods.values() if _lacks_gpus(pod)]
    found = [*_scattered(cluster, waiting, quotes), *_hidden(cluster, waiting, quotes)] if waiting else []
    return [*found, *_ray(case, cluster, quotes)]


def _lacks_gpus(pod: Pod) -> bool:
    if pod.node is not None or pod.ended or not pod.gpus:
        return False
    said = [seen.event.message for seen in pod.events]
    said += [text(condition, "message") for condition in conditions(pod.body).values()]
    return any("Insufficient" in message and "/gpu" in message for message in said)


def _usable(item: KubernetesObject) -> bool:
    return not mapping(item.body, "spec").get("unschedulable") and not is_false(conditions(item.body).get("Ready"))


def _gpus(item: KubernetesObject, kind: str) -> int:
    numbers = mapping(item.body, "status", kind)
    return sum(int(quantity(number) or 0) for key, number in numbers.items() if str(key).endswith("/gpu"))


def _scattered(cluster: Cluster, waiting: list[Pod], quotes: Quotes) -> Iterator[Finding]:
    used: dict[str, int] = {}
    for pod in cluster.pods.values():
        if pod.node is not None and not pod.ended:
            used[pod.node] = used.get(pod.node, 0) + pod.gpus
    free = {
        item.name: max(0, _gpus(item, "allocatable") - used.get(item.name, 0))
        for item in cluster.objects.get("Node", ())
        if _usable(item)
    }
    block = max((pod.gpus for pod in waiting), default=0)
    asked = sum(pod.gpus for pod in waiting if pod.gang.id == waiting[0].gang.id)
    if not free or max(free.values()) >= block or sum(free.values()) < asked:
        return
    some = {name: number for name, number in free.items() if number}
    group = Group(
        "sched.fragmentation",
        job=waiting[0].gang.id,
        fields={"workload": f"{waiting[0].gang.kind or 'workload'} {waiting[0].gang.id}", "free": some, "block": block},
    )
    for pod in waiting[:3]:
        if pod.item is not None:
            group.note(quotes.object(pod.item, "pending", NO_TIME, "Insufficient"), pod=pod.name)
        elif pod.events:
            group.note(quotes.event(pod.events[-1].item, pod.events[-1].event), pod=pod.name)
    yield group.finding(
        f"{amount(sum(some.values()), 'GPU')} are free on {amount(len(some), 'node')}, "
        f"at most {max(some.values())} on one; a pod of {waiting[0].gang.id} needs {block} on one node"
    )


def _hidden(cluster: Cluster, waiting: list[Pod], quotes: Quotes) -> Iterator[Finding]:
    for item in cluster.objects.get("Node", ()):
        have, usable = _gpus(item, "capacity"), _gpus(item, "allocatable")
        if not _usable(item) or usable >= have:
            continue
        group = Group(
            "sched.plugin_stale",
            job=waiting[0].gang.id,
            name=item.name,
            fields={"capacity": have, "allocatable": usable, "workload": waiting[0].gang.id},
        )
        group.note(quotes.object(item, f"{usable} of {have} GPUs allocatable", NO_TIME, "allocatable"), node=item.name)
        yield group.finding(
            f"Node {item.name} is ready but offers only {usable} of its {have} GPUs, while pods wait for GPUs"
        )
        return


def _ray(case: Case, cluster: Cluster, quotes: Quotes) -> Iterator[Finding]:
    asked = [event for event in evidence_rows(case, "sched.ray_no_node_type") if "GPU" in event.text]
    if not asked:
        return
    for kind in _RAY_KINDS:
        for item in cluster.objects.get(kind, ()):
            spec = mapping(item.body, "spec")
            spec = mapping(spec, "rayClusterSpec") or mapping(spec, "rayClusterConfig") or spec
            groups = list(mappings(spec, "workerGroupSpecs"))
            if not groups or any(_advertises(group) for group in groups):
                continue
            names = [text(group, "groupName") or "?" for group in groups]
            found = Group("sched.ray_group", job=cluster.gang(kind, item.namespace or "", item.name).id, name=names[0])
            found.note(quotes.object(item, f"worker groups {listing(names)} without GPUs", NO_TIME, "workerGroupSpecs"))
            found.evidence.append(quote(case, asked[0]))
            yield found.finding(f"No worker group of {kind} {item.name} advertises GPUs (groups: {listing(names)})")
            return


def _advertises(group: Mapping[str, Any]) -> bool:
    """Ray takes ``num-gpus`` of the start parameters, else the GPU limit of the container."""
    started = mapping(group, "rayStartParams").get("num-gpus")
    if started is not None:
        return str(started).strip("\"' ") not in ("", "0")
    if integer(group, "maxReplicas") == 0:
        return False
    return gpu_request(mapping(group, "template", "spec")) > 0
