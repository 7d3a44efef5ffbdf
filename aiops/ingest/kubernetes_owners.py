"""To which gang (workload) an object belongs, as told by its own labels, owner references, or, at last, its name."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from aiops.ingest.kubernetes_fields import mapping, mappings, text

WORKLOAD_KINDS = frozenset(
    {
        "Job",
        "JobSet",
        "TrainJob",
        "PyTorchJob",
        "MPIJob",
        "TFJob",
        "JAXJob",
        "PaddleJob",
        "XGBoostJob",
        "RayJob",
        "RayCluster",
        "RayService",
        "Workload",
        "PodGroup",
        "AppWrapper",
        "LeaderWorkerSet",
        "StatefulSet",
        "Deployment",
        "ReplicaSet",
        "DaemonSet",
        "CronJob",
    }
)

_LABELS = (
    # Outermost owner first: a pod of a JobSet also carries the name of its Job.
    ("jobset.sigs.k8s.io/jobset-name", "JobSet"),
    ("training.kubeflow.org/job-name", "PyTorchJob"),
    ("ray.io/originated-from-cr-name", "RayJob"),
    ("ray.io/cluster", "RayCluster"),
    ("volcano.sh/job-name", "Job"),
    ("leaderworkerset.sigs.k8s.io/name", "LeaderWorkerSet"),
    ("batch.kubernetes.io/job-name", "Job"),
    ("job-name", "Job"),
    ("kueue.x-k8s.io/pod-group-name", "Workload"),
)

# Kubernetes draws suffixes from consonants and digits; a digit tells other generated suffixes from words.
_HASH = r"(?:[bcdfghjklmnpqrstvwxz2456789]{5}|(?=[a-z]{0,4}\d)[a-z0-9]{5})"
_POD_NAMES = (
    re.compile(r"(.+?)-(?:master|worker|launcher|chief|ps|evaluator)-\d{1,5}"),
    re.compile(rf"(.+)-\d{{1,5}}-{_HASH}"),
    re.compile(rf"(.+)-[0-9a-f]{{8,10}}-{_HASH}"),
    re.compile(rf"(.+)-{_HASH}"),
    re.compile(r"(.+)-\d{1,5}"),
)
_KUEUE_NAME = re.compile(
    r"(?:job|jobset|trainjob|pytorchjob|mpijob|tfjob|jaxjob|paddlejob|xgboostjob|rayjob|raycluster|pod|appwrapper|"
    r"statefulset|leaderworkerset|deployment)-(.+)-[0-9a-f]{5}"
)


@dataclass(frozen=True, slots=True)
class Gang:
    """The workload as a whole: what starts, waits and fails together."""

    namespace: str
    name: str
    kind: str = ""
    """Kind of the owner, ``""`` if only a name tells of it."""

    @property
    def id(self) -> str:
        return f"{self.namespace}/{self.name}" if self.namespace else self.name


def direct_gang(body: Mapping[str, Any], kind: str) -> Gang | None:
    """The gang that the object's own metadata names; ``None`` if it names none."""
    meta = mapping(body, "metadata")
    namespace = text(meta, "namespace")
    labels = mapping(meta, "labels")
    if kind == "Pod":
        owner = controller(meta)
        for label, owner_kind in _LABELS:
            if name := text(labels, label):
                if owner is not None and owner[1] == name:
                    owner_kind = owner[0]
                return Gang(namespace, name, owner_kind)
        if name := text(meta, "annotations", "scheduling.k8s.io/group-name"):
            return Gang(namespace, name, "PodGroup")
        spec = mapping(body, "spec")
        if owner is None and (name := text(spec, "schedulingGroup", "podGroupName")):
            return Gang(namespace, name, "PodGroup")
        if owner is None and (name := text(spec, "workloadRef", "name")):
            return Gang(namespace, name, "Workload")
    owner = controller(meta)
    if owner is not None and owner[0] != "Node":
        return Gang(namespace, owner[1], owner[0])
    if kind == "PodGroup" and (name := text(body, "spec", "workloadRef", "workloadName")):
        # Kubernetes 1.36 on: the pod group was made from a template of this Workload.
        return Gang(namespace, name, "Workload")
    if kind == "Workload" and (name := text(body, "spec", "controllerRef", "name")):
        return Gang(namespace, name, text(body, "spec", "controllerRef", "kind"))
    if kind == "Workload" and (match := _KUEUE_NAME.fullmatch(text(meta, "name"))):
        return Gang(namespace, match[1])
    return None


def controller(meta: Mapping[str, Any]) -> tuple[str, str] | None:
    """(kind, name) of the controlling owner reference, else of the first one."""
    best: tuple[str, str] | None = None
    for owner in mappings(meta, "ownerReferences"):
        pair = (text(owner, "kind"), text(owner, "name"))
        if owner.get("controller") is True:
            return pair
        best = best or pair
    return best


def gang_from_pod_name(namespace: str, name: str) -> Gang:
    """A guess for pods of which only the name is known, by the naming of the common controllers."""
    for pattern in _POD_NAMES:
        if match := pattern.fullmatch(name):
            return Gang(namespace, match[1])
    return Gang(namespace, name, "Pod")


def gang_from_workload_name(namespace: str, name: str) -> Gang:
    """The owner of a Kueue Workload of which only the name is known (``<kind>-<owner>-<hash>``)."""
    match = _KUEUE_NAME.fullmatch(name)
    return Gang(namespace, match[1]) if match else Gang(namespace, name, "Workload")
