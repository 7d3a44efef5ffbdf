"""Where pods and ranks run, and the jobs that they belong to, whatever the order in which files are read."""

from __future__ import annotations

from typing import Any

from aiops.ingest.kubernetes_fields import gpu_request, mapping, text
from aiops.ingest.kubernetes_jobs import job_of
from aiops.ingest.kubernetes_owners import Gang, direct_gang
from aiops.ingest.kubernetes_ranks import rank_claim
from aiops.model.case import Case, Job, KubernetesObject, RankPlace, Source
from aiops.model.entity import is_host_name

SCHEDULER = "kubernetes"
_SURE = "kubernetes pod spec: "


class Placement:
    """Collects nodes, pods and jobs of one source into the case."""

    def __init__(self, case: Case, source: Source) -> None:
        self._case = case
        self._source = source
        self._jobs: dict[str, list[Job]] = {}
        for job in case.jobs:
            if job.scheduler == SCHEDULER:
                self._jobs.setdefault(job.id, []).append(job)
        self._bare = {(job.kind, job.name) for jobs in self._jobs.values() for job in jobs if job.namespace is None}
        self._spaced = {(job.kind, job.name) for jobs in self._jobs.values() for job in jobs if job.namespace}
        self._touched: set[int] = set()

    def add(self, item: KubernetesObject) -> None:
        if item.kind == "Node":
            self.add_node(item.name)
        elif item.kind == "Pod":
            self._pod(item)
        elif (job := job_of(item)) is not None:
            self._job(job)

    def add_node(self, name: str) -> bool:
        """Note a node; False if the name is none that a host can have."""
        if not is_host_name(name):
            return False
        self._case.topology.nodes.setdefault(name, set()).add(self._source.name)
        self._case.topology.node_kinds.setdefault(name, set()).add(SCHEDULER)
        return True

    def _job(self, job: Job) -> None:
        if self._told_without_namespace(job):
            return
        known = self._jobs.setdefault(job.id, [])
        for index, old in enumerate(known):
            implied = bool(old.fields.get("implied"))
            if old.kind != job.kind and not implied:
                continue
            # What pods have told so far stays with the job; of two dumps of it the later state counts.
            if not implied and _version(old) > _version(job):
                return
            job.nodes = old.nodes
            job.fields = {**job.fields, **{key: old.fields[key] for key in _FROM_PODS if key in old.fields}}
            known[index] = job
            self._case.jobs[_position(self._case.jobs, old)] = job
            return
        sibling = known[0] if known else None
        if sibling is not None:
            job.nodes = sibling.nodes
            job.fields = {**job.fields, **{key: sibling.fields[key] for key in _FROM_PODS if key in sibling.fields}}
        known.append(job)
        self._case.jobs.append(job)

    def _told_without_namespace(self, job: Job) -> bool:
        """True for a row of a table that does not name the namespace, if the job is known with one.

        If it is the other way round, the row's job makes way.
        """
        key = (job.kind, job.name)
        if job.namespace is None:
            self._bare.add(key)
            return key in self._spaced
        self._spaced.add(key)
        if key in self._bare:
            self._bare.remove(key)
            for old in self._jobs.get(job.name or "", [])[:]:
                if old.namespace is None and old.kind == job.kind and not old.fields.get("implied"):
                    del self._case.jobs[_position(self._case.jobs, old)]
                    self._jobs[old.id].remove(old)
        return False

    def _pod(self, item: KubernetesObject) -> None:
        gang = direct_gang(item.body, "Pod") or Gang(item.namespace or "", item.name, "Pod")
        node = text(item.body, "spec", "nodeName") or None
        if node is not None and not self.add_node(node):
            node = None
        claim = rank_claim(item.body)
        jobs = self._jobs.setdefault(gang.id, [])
        if not jobs:
            if claim is None and gang.kind in _SERVICE_KINDS and not gpu_request(mapping(item.body, "spec")):
                return
            jobs.append(
                Job(
                    id=gang.id,
                    name=gang.name,
                    scheduler=SCHEDULER,
                    namespace=gang.namespace or None,
                    kind=gang.kind or None,
                    source=item.source,
                    line=item.line,
                    text=f"{gang.kind or 'workload'} {gang.name}, known by its pods",
                    fields={"implied": True},
                )
            )
            self._case.jobs.append(jobs[0])
        places = (
            []
            if claim is None
            else [
                RankPlace(claim.first + local, node=node, local_rank=local, pod=item.name, sure=_SURE + claim.sure)
                for local in range(claim.count)
            ]
        )
        for job in jobs:
            if node is not None and node not in job.nodes:
                job.nodes = tuple(sorted((*job.nodes, node)))
            _remember(job, item.name, node, places, claim.world_size if claim else None)
            if job.fields.get("implied") and claim is not None and claim.world_size:
                job.gpus = claim.world_size // claim.count * gpu_request(mapping(item.body, "spec")) or None
        self._touched.update(place.rank for place in places)

    def settle(self) -> None:
        """Write the ranks that were touched into the topology, where all pods agree on the node.

        Two gangs, or two incarnations of one, may claim the same rank for different nodes; then the pods alone
        cannot tell, and the claims stay in ``fields["ranks"]`` of the jobs (rank → pod → place).
        """
        topology = self._case.topology
        gangs = {job.id: job for jobs in self._jobs.values() for job in jobs if job.fields.get("ranks")}
        for rank in sorted(self._touched):
            places = [place for job in gangs.values() for place in job.fields["ranks"].get(rank, {}).values()]
            old = topology.ranks.get(rank)
            ours = old is not None and old.sure.startswith(_SURE)
            agreed = places[0] if len({place.node for place in places}) == 1 else None
            if old is None or ours:
                if agreed is not None:
                    topology.ranks[rank] = RankPlace(
                        rank, agreed.node, agreed.local_rank, pod=agreed.pod, sure=agreed.sure
                    )
                elif ours:
                    del topology.ranks[rank]
            elif agreed is not None:
                old.pod = old.pod or agreed.pod
                old.node = old.node or agreed.node
                if old.local_rank is None:
                    old.local_rank = agreed.local_rank
        sizes = {job.fields["world_size"] for job in gangs.values() if "world_size" in job.fields}
        if topology.world_size is None and len(sizes) == 1 and len(gangs) == 1:
            topology.world_size = sizes.pop()


def _remember(job: Job, pod: str, node: str | None, places: list[RankPlace], world_size: int | None) -> None:
    """Note on the job what one of its pods tells: ``pods`` (pod → node), ``ranks`` (rank → pod → place)."""
    fields: dict[str, Any] = dict(job.fields)
    fields.setdefault("pods", {})[pod] = node
    if places:
        ranks: dict[int, dict[str, RankPlace]] = fields.setdefault("ranks", {})
        for place in places:
            ranks.setdefault(place.rank, {})[pod] = place
    if world_size is not None:
        fields["world_size"] = world_size
    job.fields = fields


_FROM_PODS = ("pods", "ranks", "world_size")
_SERVICE_KINDS = frozenset({"", "Pod", "DaemonSet", "ReplicaSet", "Deployment", "StatefulSet"})
"""Owners of pods that are jobs only if they use GPUs."""


def _version(job: Job) -> tuple[int, int]:
    return (job.fields.get("version") or 0, job.ended)


def _position(jobs: list[Job], wanted: Job) -> int:
    return next(index for index, job in enumerate(jobs) if job is wanted)


def pod_nodes(case: Case) -> dict[str, str]:
    """Node of each pod, under the pod's name, its host name and its IP; names that mean two nodes are left out.

    Training logs call a host by its pod: this joins them to the machines that kernel logs and schedulers know.
    """
    nodes: dict[str, str | None] = {}
    for item in case.objects:
        if item.kind != "Pod":
            continue
        node = text(item.body, "spec", "nodeName")
        if not is_host_name(node):
            continue
        spec, status = mapping(item.body, "spec"), mapping(item.body, "status")
        names = {item.name, text(spec, "hostname")}
        if spec.get("hostNetwork") is not True:
            names.add(text(status, "podIP"))
        for name in names - {""}:
            nodes[name] = node if nodes.get(name, node) == node else None
    return {name: node for name, node in nodes.items() if node is not None}
