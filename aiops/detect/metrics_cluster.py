"""What kube-state-metrics measured of nodes and pods, where the objects and events of Kubernetes were not collected.

Events expire after an hour and objects show only today's state, but these series stay: a condition of a node, or why a
container ended (docs of kube-state-metrics: node-metrics.md, pod-metrics.md).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from aiops.detect.metrics_evidence import Proof
from aiops.detect.metrics_frame import Frame
from aiops.model import NO_TIME, Case, Finding, Role, SeriesBlock, SeriesEntity, Severity

if TYPE_CHECKING:
    import numpy as np

_CONDITION = "kube_node_status_condition"
_HELD_NS = 300 * 10**9
"""Default toleration of the not-ready taint: pods of a node that is back by then were never touched."""
_ALL_S = 120.0
"""Most nodes not ready within this time: their reports were lost on the way, or what they share failed."""
_REASONS = {
    "kube_pod_container_status_terminated_reason": {"OOMKilled": "sched.oom_killed"},
    "kube_pod_container_status_last_terminated_reason": {"OOMKilled": "sched.oom_killed"},
    "kube_pod_status_reason": {"Evicted": "sched.evicted"},
    "kube_pod_container_status_waiting_reason": {
        "ErrImagePull": "sched.image_pull",
        "ImagePullBackOff": "sched.image_pull",
        "InvalidImageName": "sched.image_pull",
        "CreateContainerConfigError": "sched.container_setup",
        "CreateContainerError": "sched.container_setup",
    },
}
_SAYS = {
    "sched.oom_killed": "was killed for exceeding its memory limit",
    "sched.evicted": "was evicted by the kubelet",
    "sched.image_pull": "waits for an image that cannot be pulled",
    "sched.container_setup": "could not be set up",
}
_OWNERS = ("kube_pod_info", "kube_pod_owner")
_WANTS = ("kube_pod_container_resource_limits", "kube_pod_container_resource_requests")

Pod = tuple[str, str]
"""Namespace and name."""


@dataclass(slots=True)
class _Pods:
    """What the series tell of each pod, and which pods are the job's."""

    node: dict[Pod, str] = field(default_factory=dict)
    owner: dict[Pod, str] = field(default_factory=dict)
    gpus: set[Pod] = field(default_factory=set)
    holders: set[tuple[Pod, str]] = field(default_factory=set)
    """Containers that hold GPUs; one beside them that ends, such as a log shipper, ends no training."""
    seen: set[Pod] = field(default_factory=set)
    stated: frozenset[str] = frozenset()
    """Pods that the rest of the case names as those of a job."""
    objects: frozenset[Pod] = frozenset()

    def of_job(self, pod: Pod) -> bool:
        """True for pods that are known to be the job's, else for those that hold GPUs, else if there is but one workload."""
        if self.stated:
            return pod[1] in self.stated
        if self.gpus:
            return pod in self.gpus
        return len({self.workload(other) for other in self.seen}) == 1

    def workload(self, pod: Pod) -> str:
        return f"{pod[0]}/{self.owner.get(pod) or pod[1].rpartition('-')[0] or pod[1]}"


def cluster_states(case: Case, proof: Proof) -> list[Finding]:
    """``sched.node_fail``, and ``sched.oom_killed``, ``sched.evicted``, ``sched.image_pull``, ``sched.container_setup``
    of the job's pods, as series show them. What objects of the case tell themselves is left to these."""
    blocks = [block for block in case.series if any(name.startswith("kube_") for name in block.fields)]
    if not blocks:
        return []
    pods = _pods(case, blocks)
    nodes = frozenset(item.name for item in case.objects if item.kind == "Node")
    return [
        *(finding for block in blocks for finding in _not_ready(case, block, proof, nodes)),
        *(finding for block in blocks for finding in _ended(case, block, proof, pods)),
    ]


def _label(entity: SeriesEntity, name: str) -> str:
    labels = dict(entity.labels)
    return labels.get(f"exported_{name}") or labels.get(name) or ""


def _pod(entity: SeriesEntity) -> Pod | None:
    name = entity.pod or _label(entity, "pod")
    return (_label(entity, "namespace"), name) if name else None


def _pods(case: Case, blocks: list[SeriesBlock]) -> _Pods:
    import numpy as np

    stated = {place.pod for place in case.topology.ranks.values() if place.pod}
    stated |= {source.pod for source in case.sources if source.pod}
    for job in case.jobs:
        stated |= set(job.fields.get("pods") or ())
    found = _Pods(
        stated=frozenset(filter(None, stated)),
        objects=frozenset((item.namespace or "", item.name) for item in case.objects if item.kind == "Pod"),
    )
    for block in blocks:
        for index, name in enumerate(block.fields):
            if not name.startswith("kube_pod_"):
                continue
            for row, entity in enumerate(block.entities):
                pod = _pod(entity)
                if pod is None or np.isnan(block.values[index, row]).all():
                    continue
                found.seen.add(pod)
                if entity.node:
                    found.node.setdefault(pod, entity.node)
                owner = _label(entity, "created_by_name") or _label(entity, "owner_name")
                if name in _OWNERS and owner not in ("", "<none>"):
                    found.owner.setdefault(pod, owner)
                if name in _WANTS and "gpu" in _label(entity, "resource"):
                    found.gpus.add(pod)
                    found.holders.add((pod, _label(entity, "container")))
    return found


def _frame(case: Case, block: SeriesBlock) -> Frame:
    import numpy as np

    return Frame(case, block.times, block.entities, {}, [(block, np.arange(len(block.entities)))])


def _not_ready(case: Case, block: SeriesBlock, proof: Proof, known: frozenset[str]) -> Iterator[Finding]:
    """One finding for each node that was ready and then was not; context if it was soon back."""
    if _CONDITION not in block.fields or block.times[0] == NO_TIME:
        return
    plane = block.values[block.fields.index(_CONDITION)]
    rows: dict[str, dict[str, int]] = {}
    for row, entity in enumerate(block.entities):
        if entity.node and _label(entity, "condition") == "Ready":
            rows.setdefault(entity.node, {})[_label(entity, "status").lower()] = row
    frame = _frame(case, block)
    found = []
    for node, by_status in rows.items():
        lost = _lost(plane, by_status) if node not in known else None
        if lost is None:
            continue
        status, row, start, end = lost
        since, until = int(block.times[start]), int(block.times[end])
        back = end + 1 < len(block.times)
        short = back and int(block.times[end + 1]) - since < _HELD_NS
        found.append(
            Finding(
                sign="sched.node_fail",
                text=f"Node {node} was not ready{' and came back' if back else ''}: its condition Ready was {status}",
                role=Role.CONTEXT if short else Role.ROOT,
                severity=Severity.WARNING if short else Severity.ERROR,
                first=since,
                last=until,
                node=node,
                nodes=(node,),
                name=node,
                count=end - start + 1,
                fields={"ready": status, "recovered": back, "of_job": None},
                evidence=[proof.quote(frame, _CONDITION, row, column) for column in sorted({max(0, start - 1), start})],
            )
        )
    yield from _unless_all(found, len(rows))


def _unless_all(found: list[Finding], nodes: int) -> list[Finding]:
    """Most nodes of a cluster that fall silent within minutes tell of the control plane, not of each machine."""
    lost = [finding for finding in found if finding.role == Role.ROOT]
    if len(lost) >= 3 and len(lost) * 3 > nodes * 2:
        begun = sorted(finding.first for finding in lost)
        if (begun[-1] - begun[0]) / 1e9 <= _ALL_S:
            for finding in lost:
                finding.role = Role.CONTEXT
    return found


def _lost(plane: np.ndarray, rows: Mapping[str, int]) -> tuple[str, int, int, int] | None:
    """Status, its row, and first and last column of the longest time that a node was not ready after it had been."""
    import numpy as np

    columns = plane.shape[1]
    ready: np.ndarray = np.full(columns, np.nan)
    if "true" in rows:
        ready = plane[rows["true"]].astype(np.float64)
    bad: np.ndarray = np.zeros(columns, dtype=bool)
    for status in ("false", "unknown"):
        if status in rows:
            bad |= plane[rows[status]] == 1
            if "true" not in rows:
                ready = np.where(np.isnan(plane[rows[status]]), ready, 1 - plane[rows[status]])
    bad |= ready == 0
    was = np.flatnonzero(ready == 1)
    if not len(was):
        return None
    bad[: int(was[0])] = False
    # a scrape that is missing between two bad ones changes nothing
    held = np.where(np.isnan(ready) & ~bad, 0, np.where(bad, 1, -1))
    for column in range(1, columns):
        if held[column] == 0:
            held[column] = held[column - 1]
    edges = np.flatnonzero(np.diff(np.concatenate(([0], (held == 1).astype(int), [0]))))
    spans = [(int(a), int(b) - 1) for a, b in zip(edges[::2], edges[1::2], strict=True)]
    if not spans:
        return None
    start, end = max(spans, key=lambda span: span[1] - span[0])
    for status in ("unknown", "false"):
        if status in rows and plane[rows[status], start] == 1:
            return status.capitalize(), rows[status], start, end
    return "not True", rows.get("true", next(iter(rows.values()))), start, end


def _ended(case: Case, block: SeriesBlock, proof: Proof, pods: _Pods) -> Iterator[Finding]:
    """What happened to containers within the window. What the first sample shows already is from before it."""
    import numpy as np

    frame = _frame(case, block)
    told: set[tuple[str, Pod]] = set()
    timed = bool(block.times[0] != NO_TIME)
    for name, reasons in _REASONS.items():
        plane = block.values[block.fields.index(name)] if name in block.fields else None
        for row, entity in enumerate(block.entities) if plane is not None else ():
            pod, sign = _pod(entity), reasons.get(_label(entity, "reason"))
            assert plane is not None
            held = np.flatnonzero(plane[row] == 1)
            if pod is None or sign is None or not len(held) or pod in pods.objects or (sign, pod) in told:
                continue
            start = int(held[0])
            past = start == 0 and (timed or "last_terminated" in name)
            waits = sign in ("sched.image_pull", "sched.container_setup")
            if waits and timed and (len(held) < 3 or held[-1] < len(block.times) - 2):
                continue  # it was pulled or set up in the end
            told.add((sign, pod))
            node = pods.node.get(pod) or entity.node
            container = _label(entity, "container")
            beside = bool(container) and pod in pods.gpus and (pod, container) not in pods.holders
            ours = pods.of_job(pod) and (not past or waits) and not (beside and sign == "sched.oom_killed")
            who = f"Container {container} of pod {pod[0]}/{pod[1]}" if container else f"Pod {pod[0]}/{pod[1]}"
            yield Finding(
                sign=sign,
                text=f"{who}{f' on {node}' if node else ''} {_SAYS[sign]}",
                role=Role.ROOT if ours else Role.CONTEXT,
                severity=Severity.ERROR if ours else Severity.WARNING,
                first=int(block.times[start]) if timed else NO_TIME,
                last=int(block.times[held[-1]]) if timed else NO_TIME,
                node=node,
                nodes=(node,) if node else (),
                count=len(held),
                fields={
                    "workload": pods.workload(pod),
                    "by": "kubelet",
                    "reason": _label(entity, "reason"),
                    "pod": pod[1],
                    "container": container or None,
                },
                evidence=[proof.quote(frame, name, row, start)],
            )
