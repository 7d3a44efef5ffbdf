"""GPUs given out through claims (DRA), IMEX domains, and bindings that fail.

The scheduler says only "cannot allocate all claims"; which devices there are, are taken, or are tainted is counted here.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from aiops.detect.scheduler_cluster import Cluster, Pod
from aiops.detect.scheduler_evidence import Quotes
from aiops.detect.scheduler_findings import Group, amount, listing
from aiops.ingest.kubernetes_fields import api_group, integer, mapping, mappings, quantity, text
from aiops.model.case import KubernetesObject
from aiops.model.event import NO_TIME, Severity
from aiops.model.finding import Finding, Role

_DRIVER = re.compile(r"device\.driver\s*==\s*['\"]([\w./-]{1,120})['\"]")
_KEEPS_AWAY = ("NoSchedule", "NoExecute")
Device = tuple[str, str, str]
"""(driver, pool, name)"""


@dataclass(slots=True)
class _Stock:
    """What the drivers have published, and who has it."""

    devices: dict[Device, KubernetesObject] = field(default_factory=dict)
    tainted: dict[Device, str] = field(default_factory=dict)
    allocated: dict[Device, str] = field(default_factory=dict)


def detect_devices(cluster: Cluster, quotes: Quotes) -> list[Finding]:
    """``sched.claims`` (ROOT; field ``why``: ``no_slices``, ``no_class``, ``tainted``, ``busy``, ``too_many``, ``mixed`` or
    ``selector``),
    ``sched.device_tainted`` (CONTEXT), ``sched.compute_domain``, ``sched.clique_split`` and ``sched.bind_failed``."""
    stock = _stock(cluster)
    return [
        *_claims(cluster, stock, quotes),
        *_taints(cluster, stock, quotes),
        *_domains(cluster, quotes),
        *_bindings(cluster, quotes),
    ]


def _stock(cluster: Cluster) -> _Stock:
    stock = _Stock()
    slices = cluster.objects.get("ResourceSlice", ())
    newest: dict[tuple[str, str], int] = {}
    for item in slices:
        pool = (text(item.body, "spec", "driver"), text(item.body, "spec", "pool", "name"))
        newest[pool] = max(newest.get(pool, 0), integer(item.body, "spec", "pool", "generation") or 0)
    for item in slices:
        pool = (text(item.body, "spec", "driver"), text(item.body, "spec", "pool", "name"))
        if (integer(item.body, "spec", "pool", "generation") or 0) < newest[pool]:
            continue
        for device in mappings(item.body, "spec", "devices"):
            key = (*pool, text(device, "name"))
            stock.devices[key] = item
            for taint in [*mappings(device, "taints"), *mappings(device, "basic", "taints")]:
                if text(taint, "effect") in _KEEPS_AWAY:
                    stock.tainted[key] = _taint(taint)
    for rule in cluster.objects.get("DeviceTaintRule", ()):
        chosen, taint = mapping(rule.body, "spec", "deviceSelector"), mapping(rule.body, "spec", "taint")
        wanted = [text(chosen, name) for name in ("driver", "pool", "device")]
        if text(taint, "effect") in _KEEPS_AWAY and any(wanted):
            for key in stock.devices:
                if all(not want or want == have for want, have in zip(wanted, key, strict=True)):
                    stock.tainted[key] = f"{_taint(taint)} by rule {rule.name}"
    for claim in cluster.objects.get("ResourceClaim", ()):
        for result in mappings(claim.body, "status", "allocation", "devices", "results"):
            if result.get("adminAccess") is not True:
                key = (text(result, "driver"), text(result, "pool"), text(result, "device"))
                stock.allocated[key] = claim.name
    return stock


def _taint(taint: Mapping[str, Any]) -> str:
    value = f"={text(taint, 'value')}" if text(taint, "value") else ""
    return f"{text(taint, 'key')}{value}:{text(taint, 'effect')}"


def _claims(cluster: Cluster, stock: _Stock, quotes: Quotes) -> Iterator[Finding]:
    users = _users(cluster)
    told: set[tuple[str, str]] = set()
    for claim in cluster.objects.get("ResourceClaim", ()):
        waiting = [pod for pod in users.get((claim.namespace or "", claim.name), ()) if pod.unscheduled]
        if mapping(claim.body, "status", "allocation") or not waiting:
            continue
        why, numbers, said = _why(cluster, claim, stock, _closed_nodes(cluster, waiting[0]))
        if why == "selector" and _asks_twice(cluster, waiting[0], stock):
            why = "mixed"
            said += f". The pod also asks for {waiting[0].gpus} GPUs as nvidia.com/gpu, and no node offers GPUs in both ways"
        gang = waiting[0].gang
        if why is None or (gang.id, why) in told:
            continue
        told.add((gang.id, why))
        group = Group(
            "sched.claims",
            job=gang.id,
            fields={"workload": f"{gang.kind or 'workload'} {gang.id}", "why": why, "claim": claim.name, **numbers},
        )
        group.note(
            quotes.object(claim, "devices are asked for, none is allocated", NO_TIME, "deviceClassName", "Device Class")
        )
        yield group.finding(f"Claim {claim.name} of {gang.id} gets no device: {said}")


def _closed_nodes(cluster: Cluster, pod: Pod) -> set[str]:
    """Nodes that the pod may not use, whatever devices they have: cordoned, or of other labels than it selects."""
    selector = mapping(pod.body, "spec", "nodeSelector")
    return {
        item.name
        for item in cluster.objects.get("Node", ())
        if mapping(item.body, "spec").get("unschedulable") is True
        or any(mapping(item.body, "metadata", "labels").get(key, value) != value for key, value in selector.items())
    }


def _asks_twice(cluster: Cluster, pod: Pod, stock: _Stock) -> bool:
    """GPUs of the device plugin and by claim at once, where no node has both kinds."""
    if not pod.gpus:
        return False
    nodes = {text(item.body, "spec", "nodeName") for item in stock.devices.values()}
    offers = [
        quantity(number) or 0
        for item in cluster.objects.get("Node", ())
        if item.name in nodes
        for key, number in mapping(item.body, "status", "allocatable").items()
        if str(key).endswith("/gpu")
    ]
    return max(offers, default=0) < pod.gpus


def _users(cluster: Cluster) -> dict[tuple[str, str], list[Pod]]:
    """Pods of each claim."""
    found: dict[tuple[str, str], list[Pod]] = {}
    for pod in cluster.pods.values():
        names = {text(entry, "resourceClaimName") for entry in mappings(pod.body, "spec", "resourceClaims")}
        names |= {text(entry, "resourceClaimName") for entry in mappings(pod.body, "status", "resourceClaimStatuses")}
        for name in sorted(names - {""}):
            found.setdefault((pod.namespace, name), []).append(pod)
    # a described pod does not name its claims, but a claim made for a pod names it
    for claim in cluster.objects.get("ResourceClaim", ()):
        for owner in mappings(claim.body, "metadata", "ownerReferences"):
            maker = cluster.pods.get((claim.namespace or "", text(owner, "name")))
            using = found.setdefault((claim.namespace or "", claim.name), [])
            if text(owner, "kind") == "Pod" and maker is not None and maker not in using:
                using.append(maker)
    return found


def _why(
    cluster: Cluster, claim: KubernetesObject, stock: _Stock, closed: set[str]
) -> tuple[str | None, dict[str, int], str]:
    classes = {item.name: item for item in cluster.objects.get("DeviceClass", ())}
    for request in mappings(claim.body, "spec", "devices", "requests"):
        exact = mapping(request, "exactly") or request
        name, wanted = text(exact, "deviceClassName"), integer(exact, "count") or 1
        if not name:
            continue
        if classes and name not in classes:
            return "no_class", {}, f"device class {name} does not exist"
        driver = _driver_of(classes.get(name), name)
        devices = [key for key in stock.devices if key[0] == driver]
        if not devices:
            if not stock.devices and not classes:
                return None, {}, ""
            return "no_slices", {}, f"driver {driver} has published no device (no ResourceSlice)"
        devices = [key for key in devices if text(stock.devices[key].body, "spec", "nodeName") not in closed]
        if not devices:
            return None, {}, ""
        tainted = [key for key in devices if key in stock.tainted]
        taken = [key for key in devices if key in stock.allocated]
        free = [key for key in devices if key not in stock.tainted and key not in stock.allocated]
        numbers = {"devices": len(devices), "allocated": len(taken), "tainted": len(tainted), "requested": wanted}
        said = f"of {amount(len(devices), 'device')} of {driver} {len(taken)} are allocated and {len(tainted)} tainted"
        if len(free) >= wanted:
            return "selector", numbers, f"{said}; {len(free)} are free, but not for this claim"
        most = _most_together(stock, devices)
        if wanted > most:
            return "too_many", numbers, f"{wanted} are asked for, and no node has more than {most} of {driver}"
        why = "tainted" if len(free) + sum(key not in stock.allocated for key in tainted) >= wanted else "busy"
        return why, numbers, f"{said}; {wanted} are asked for"
    return None, {}, ""


def _most_together(stock: _Stock, devices: list[Device]) -> int:
    """Devices that one node offers at most; those that are bound to no node count together."""
    places = Counter(text(stock.devices[key].body, "spec", "nodeName") for key in devices)
    anywhere = places.pop("", 0)
    return max(places.values(), default=0) + anywhere


def _driver_of(device_class: KubernetesObject | None, name: str) -> str:
    if device_class is not None:
        for selector in mappings(device_class.body, "spec", "selectors"):
            if match := _DRIVER.search(text(selector, "cel", "expression")):
                return match[1]
    return name.removeprefix("mig.")


def _taints(cluster: Cluster, stock: _Stock, quotes: Quotes) -> Iterator[Finding]:
    nodes: dict[str, list[Device]] = {}
    for key in stock.tainted:
        nodes.setdefault(text(stock.devices[key].body, "spec", "nodeName") or key[1], []).append(key)
    for node, keys in nodes.items():
        group = Group("sched.device_tainted", role=Role.CONTEXT, severity=Severity.WARNING)
        group.fields = {
            "devices": tuple(key[2] for key in keys),
            "taints": tuple(sorted({stock.tainted[k] for k in keys})),
        }
        for key in keys[:3]:
            needles = (stock.tainted[key].partition("=")[0].partition(":")[0], key[2])
            group.note(
                quotes.object(stock.devices[key], f"{key[2]}: {stock.tainted[key]}", NO_TIME, *needles), node=node
            )
        yield group.finding(
            f"Node {node}: {listing(group.fields['devices'])} tainted ({listing(group.fields['taints'])})"
        )


def _domains(cluster: Cluster, quotes: Quotes) -> Iterator[Finding]:
    """NVIDIA ComputeDomains: IMEX between the nodes of one NVLink domain."""
    for item in cluster.objects.get("ComputeDomain", ()):
        nodes = list(mappings(item.body, "status", "nodes"))
        gang = cluster.gang("ComputeDomain", item.namespace or "", item.name).id
        waits = _domain_pods(cluster, item)
        late = [text(node, "name") for node in nodes if text(node, "status") not in ("", "Ready")]
        wanted = integer(item.body, "spec", "numNodes") or 0
        if text(item.body, "status", "status") == "NotReady" and (waits or late):
            group = Group("sched.compute_domain", job=waits[0].gang.id if waits else gang, name=item.name)
            group.fields = {"nodes_ready": len(nodes) - len(late), "nodes_wanted": wanted, "not_ready": tuple(late)}
            group.note(quotes.object(item, "status NotReady", NO_TIME, "NotReady"))
            group.nodes.update(dict.fromkeys(late))
            who = f": {listing(late)} not ready" if late else f": {len(nodes)} of {wanted} nodes have joined"
            yield group.finding(f"ComputeDomain {item.name} is not ready{who}")
        cliques = sorted({text(node, "cliqueID") for node in nodes} - {""})
        if len(cliques) > 1:
            group = Group("sched.clique_split", job=gang, name=item.name, fields={"cliques": tuple(cliques)})
            group.note(quotes.object(item, f"cliques {', '.join(cliques)}", NO_TIME, "cliqueID", "Clique ID"))
            yield group.finding(f"The nodes of ComputeDomain {item.name} lie in {len(cliques)} NVLink cliques")


def _domain_pods(cluster: Cluster, domain: KubernetesObject) -> list[Pod]:
    """Pods of the namespace that wait for the domain's channel."""
    channel = text(domain.body, "spec", "channel", "resourceClaimTemplate", "name")
    return [
        pod
        for pod in cluster.pods.values()
        if pod.namespace == (domain.namespace or "")
        and pod.phase == "Pending"
        and any(
            text(entry, "resourceClaimTemplateName") == channel
            for entry in mappings(pod.body, "spec", "resourceClaims")
        )
    ]


def _bindings(cluster: Cluster, quotes: Quotes) -> Iterator[Finding]:
    """KAI binds through BindRequests; why a binding fails stands on these and not on the pod."""
    for item in cluster.objects.get("BindRequest", ()):
        if api_group(item.body) != "scheduling.run.ai" or text(item.body, "status", "phase") != "Failed":
            continue
        name = text(item.body, "spec", "podName") or item.name
        gang = cluster.gang("Pod", item.namespace or "", name)
        node, reason = text(item.body, "spec", "selectedNode"), text(item.body, "status", "reason")
        tries = integer(item.body, "status", "failedAttempts") or 1
        group = Group("sched.bind_failed", job=gang.id, fields={"reason": reason, "attempts": tries})
        group.note(
            quotes.object(item, f"phase Failed: {reason}", NO_TIME, reason, "Failed"), node=node or None, pod=name
        )
        where = f" to {node}" if node else ""
        yield group.finding(
            f"Pod {name} could not be bound{where} ({amount(tries, 'attempt')}): {reason or 'no reason'}"
        )
