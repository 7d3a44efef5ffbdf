"""The Kubernetes side of a case as one picture: latest objects, pods with their gangs and nodes, events in order."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from aiops.ingest.kubernetes_events import KubernetesEvent, event_of
from aiops.ingest.kubernetes_fields import gpu_request, integer, mapping, mappings, rfc3339_ns, text
from aiops.ingest.kubernetes_owners import Gang, direct_gang, gang_from_pod_name, gang_from_workload_name
from aiops.ingest.kubernetes_ranks import RankClaim, rank_claim
from aiops.model.case import Case, Job, KubernetesObject
from aiops.model.event import NO_TIME

_CREATED_POD = re.compile(r"Created (?:worker |head )?pod:? (?:[\w.-]+/)?([\w.-]+)")
_CREATED_WORKLOAD = re.compile(r"Created Workload: (?:([\w.-]+)/)?([\w.-]+)")
_ASSIGNED = re.compile(r"Successfully assigned \S+ to (\S+)")
_DEPTH = 6
_QUEUE_KINDS = ("Workload", "PodGroup")
_CLUSTER_WIDE = frozenset(
    {
        "", "AdmissionCheck", "AuditEvent", "ClusterQueue", "Cohort", "CustomResourceDefinition", "DeviceClass", "DeviceTaintRule",
        "HyperNode", "MultiKueueCluster", "MultiKueueConfig", "Namespace", "Node", "PendingWorkloadsSummary", "PersistentVolume",
        "PriorityClass", "Queue", "ResourceFlavor", "ResourceSlice", "Topology", "WorkloadPriorityClass",
    }
)  # fmt: skip
SUCCESS = frozenset({"Complete", "Completed", "Succeeded", "SUCCEEDED", "SuccessCriteriaMet"})


@dataclass(slots=True)
class Seen:
    """An event and the object that it was read from."""

    event: KubernetesEvent
    item: KubernetesObject

    @property
    def when(self) -> float:
        """Orders events of one source: time, else minus the age that a table tells."""
        if self.event.last != NO_TIME:
            return float(self.event.last)
        return -(self.event.age or 0.0) * 1e9


@dataclass(slots=True)
class Pod:
    """What is known of a pod, from its object or only from events."""

    namespace: str
    name: str
    gang: Gang
    item: KubernetesObject | None = None
    node: str | None = None
    claim: RankClaim | None = None
    gpus: int = 0
    events: list[Seen] = field(default_factory=list)

    @property
    def body(self) -> Mapping[str, Any]:
        return self.item.body if self.item is not None else {}

    @property
    def phase(self) -> str:
        return text(self.body, "status", "phase")

    @property
    def id(self) -> str:
        return f"{self.namespace}/{self.name}" if self.namespace else self.name

    @property
    def ranks(self) -> range:
        return range(self.claim.first, self.claim.first + self.claim.count) if self.claim else range(0)

    @property
    def ended(self) -> bool:
        return self.phase in ("Succeeded", "Failed")

    def happened(self, *reasons: str, since: float = float("-inf")) -> bool:
        """True if an event of one of the reasons was seen at ``since`` or later."""
        return any(seen.event.reason in reasons and seen.when >= since for seen in self.events)

    @property
    def running(self) -> bool:
        """It holds its node's resources."""
        if self.item is not None:
            return self.phase == "Running"
        return self.happened("Started", "Scheduled") and not self.happened("Killing", "Evicted", "Preempted")

    @property
    def unscheduled(self) -> bool:
        """It waits for a node."""
        if self.item is not None:
            return self.phase == "Pending" and self.node is None
        failed = [seen.when for seen in self.events if seen.event.reason == "FailedScheduling"]
        return bool(failed) and not self.happened("Scheduled", "Started", "Pulled", "Created", since=max(failed))


class _Namespaces:
    """Tables of one namespace do not name it: it is that of the same object elsewhere, or the only one there is."""

    def __init__(self, objects: list[KubernetesObject]) -> None:
        self._known: dict[tuple[str, str], set[str]] = {}
        every: set[str] = set()
        for item in objects:
            if item.kind == "Event":
                about = event_of(item.body)
                kind, name, space = about.kind, about.name, about.namespace
            else:
                kind, name, space = item.kind, item.name, item.namespace or ""
            if space and kind not in _CLUSTER_WIDE:
                self._known.setdefault((kind, name), set()).add(space)
                every.add(space)
        self._only = next(iter(every)) if len(every) == 1 else ""

    def of(self, kind: str, name: str) -> str:
        if kind in _CLUSTER_WIDE:
            return ""
        known = self._known.get((kind, name), set())
        return next(iter(known)) if len(known) == 1 else "" if known else self._only

    def place(self, item: KubernetesObject) -> KubernetesObject:
        if item.namespace or item.kind == "Event":
            return item
        space = self.of(item.kind, item.name)
        if not space:
            return item
        body = {**item.body, "metadata": {**mapping(item.body, "metadata"), "namespace": space}}
        return replace(item, namespace=space, body=body)

    def place_event(self, event: KubernetesEvent) -> KubernetesEvent:
        space = event.namespace or self.of(event.kind, event.name)
        return event if space == event.namespace else replace(event, namespace=space)


class Cluster:
    """Built once per case; of several dumps of an object the latest counts."""

    def __init__(self, case: Case) -> None:
        self.objects: dict[str, list[KubernetesObject]] = {}
        self.events: list[Seen] = []
        self.pods: dict[tuple[str, str], Pod] = {}
        self.jobs: dict[str, list[Job]] = {}
        self._parents: dict[tuple[str, str], Gang] = {}
        self._pod_parents: dict[str, Gang] = {}
        self._by_uid: dict[str, Gang] = {}
        self._spaces = _Namespaces(case.objects)
        for item in _latest([self._spaces.place(item) for item in case.objects]):
            if item.kind == "Event":
                self.events.append(Seen(self._spaces.place_event(event_of(item.body)), item))
            else:
                self.objects.setdefault(item.kind, []).append(item)
        self.events.sort(key=lambda seen: (seen.when, seen.event.line))
        self._find_parents()
        for job in case.jobs:
            if job.scheduler == "kubernetes":
                space = job.namespace or self._spaces.of(job.kind or "", job.name or "")
                gang = self.gang(job.kind or "", space, job.name or "")
                self.jobs.setdefault(gang.id, []).append(job)
        self._find_pods()

    # who belongs to whom ----------------------------------------------------------------------------------------

    def _find_parents(self) -> None:
        for kind, items in self.objects.items():
            for item in items:
                if kind == "Pod":
                    continue
                owner = direct_gang(item.body, kind)
                if owner is not None and owner.id != _id(item):
                    self._parents[(item.namespace or "", item.name)] = owner
        for seen in self.events:
            about = seen.event
            if match := _CREATED_POD.match(about.message):
                self._pod_parents[match[1]] = Gang(about.namespace, about.name, about.kind)
            elif match := _CREATED_WORKLOAD.match(about.message):
                key = (match[1] or about.namespace, match[2])
                self._parents.setdefault(key, Gang(about.namespace, about.name, about.kind))
        for kind, items in self.objects.items():
            for item in items:
                if uid := text(item.body, "metadata", "uid"):
                    self._by_uid[uid] = self.gang(kind, item.namespace or "", item.name)

    def _root(self, gang: Gang) -> Gang:
        for _ in range(_DEPTH):
            above = self._parents.get((gang.namespace, gang.name))
            if above is None or above.id == gang.id:
                return gang
            gang = above
        return gang

    def gang(self, kind: str, namespace: str, name: str) -> Gang:
        """The gang of an object of which kind and name are known."""
        if kind == "Pod":
            pod = self.pods.get((namespace, name))
            if pod is not None:
                return pod.gang
            return self._root(self._pod_parents.get(name) or gang_from_pod_name(namespace, name))
        if kind == "Workload" and (namespace, name) not in self._parents:
            return self._root(gang_from_workload_name(namespace, name))
        return self._root(Gang(namespace, name, kind))

    def gang_of_uid(self, uid: str) -> Gang | None:
        """The gang of the object with this ``metadata.uid``."""
        return self._by_uid.get(uid)

    def root_jobs(self, gang_id: str) -> list[Job]:
        """Jobs of the case that stand for the gang as a whole; its parts or its queue entry if only they are known."""
        known = [job for job in self.jobs.get(gang_id, ()) if not job.fields.get("implied")]
        return (
            [job for job in known if job.id == gang_id and job.kind not in _QUEUE_KINDS]
            or [job for job in known if job.kind not in _QUEUE_KINDS]
            or known
        )

    # pods -------------------------------------------------------------------------------------------------------

    def _find_pods(self) -> None:
        spaces: dict[str, set[str]] = {}
        for seen in self.events:
            if seen.event.kind == "Pod" and seen.event.namespace:
                spaces.setdefault(seen.event.name, set()).add(seen.event.namespace)
        for item in self.objects.get("Pod", ()):
            namespace = item.namespace or ""
            if not namespace and len(spaces.get(item.name, ())) == 1:
                # A table for one namespace does not name it.
                namespace = next(iter(spaces[item.name]))
            own = direct_gang(item.body, "Pod")
            if own is None and "uid" not in mapping(item.body, "metadata"):
                own = self._pod_parents.get(item.name) or gang_from_pod_name(namespace, item.name)
            gang = self._root(own or Gang(namespace, item.name, "Pod"))
            spec = mapping(item.body, "spec")
            known = self.pods.get((namespace, item.name))
            if known is not None and "uid" not in mapping(item.body, "metadata"):
                known.node = known.node or text(spec, "nodeName") or None
                continue
            self.pods[(namespace, item.name)] = Pod(
                namespace,
                item.name,
                gang,
                item,
                text(spec, "nodeName") or None,
                rank_claim(item.body),
                gpu_request(spec),
            )
        for seen in self.events:
            about = seen.event
            if about.kind != "Pod":
                continue
            pod = self.pods.get((about.namespace, about.name)) or self.pods.get(("", about.name))
            if pod is None:
                pod = Pod(about.namespace, about.name, self.gang("Pod", about.namespace, about.name))
                self.pods[(about.namespace, about.name)] = pod
            pod.events.append(seen)
            match = _ASSIGNED.match(about.message) if about.reason == "Scheduled" else None
            pod.node = pod.node or (match[1] if match else None) or about.node

    def gangs(self) -> dict[str, list[Pod]]:
        """Pods of each gang, by the gang's id."""
        found: dict[str, list[Pod]] = {}
        for pod in self.pods.values():
            found.setdefault(pod.gang.id, []).append(pod)
        return found

    def node_gangs(self) -> dict[str, set[str]]:
        """Ids of the gangs that use GPUs (or ranks) on each node."""
        found: dict[str, set[str]] = {}
        for pod in self.pods.values():
            if pod.node is not None and (pod.gpus or pod.claim or self.jobs.get(pod.gang.id)):
                found.setdefault(pod.node, set()).add(pod.gang.id)
        return found

    def succeeded(self, gang_id: str) -> bool:
        """True if the gang's workload object says that it completed."""
        return any(
            job.state in SUCCESS or (job.state == "Finished" and job.reason in ("Succeeded", "JobFinished"))
            for job in self.root_jobs(gang_id)
        )


def _id(item: KubernetesObject) -> str:
    return f"{item.namespace}/{item.name}" if item.namespace else item.name


def _latest(objects: list[KubernetesObject]) -> list[KubernetesObject]:
    """One object per identity: the one with the highest resource version, else the richest one."""
    best: dict[tuple[str, str, str, str], KubernetesObject] = {}
    for item in objects:
        uid = text(item.body, "metadata", "uid")
        name = item.name or str(item.source) + ":" + str(item.line)
        if item.kind == "Event" and not item.name:
            # Tables and trimmed exports do not name the event itself.
            about = event_of(item.body)
            name = f"{about.line}|{about.last}|{about.age}"
        key = (item.kind, item.namespace or "", name, uid)
        old = best.get(key)
        if old is None or _freshness(item) > _freshness(old):
            best[key] = item
    whole = {key[:3] for key in best if key[3]}
    # A row of a table adds nothing to the object itself, but for the node of a pod and the present state of a node.
    return [item for key, item in best.items() if key[3] or key[0] in ("Pod", "Node") or key[:3] not in whole]


def _freshness(item: KubernetesObject) -> tuple[int, int, int, int]:
    meta = mapping(item.body, "metadata")
    latest = max(
        (rfc3339_ns(c.get("lastTransitionTime")) for c in mappings(item.body, "status", "conditions")), default=NO_TIME
    )
    return (
        integer(meta, "resourceVersion") or 0,
        max(latest, rfc3339_ns(item.body.get("lastTimestamp"))),
        integer(item.body, "count") or 0,
        # a description tells more than a row of a table
        len(mapping(item.body, "spec")) + len(mapping(item.body, "status")),
    )
