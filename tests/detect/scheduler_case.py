"""Real files, sniffed and read as the product does it, as a case."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from aiops.detect.scheduler import detect
from aiops.ingest.kubernetes import read_objects, sniff_kubernetes
from aiops.ingest.slurm import read_slurm, sniff_slurm
from aiops.model import Case, Finding, Source


def load(folder: Path, *contents: str | bytes | dict[str, Any] | list[Any]) -> Case:
    """Write each content to a file and read it; objects become JSON. Fails if a file is not recognised."""
    case = Case(root=str(folder))
    for index, content in enumerate(contents):
        if isinstance(content, (dict, list)):
            content = json.dumps(content, indent=1)
        data = content.encode() if isinstance(content, str) else content
        path = folder / f"f{index}"
        path.write_bytes(data)
        kubernetes, slurm = sniff_kubernetes(data[:65_536]), sniff_slurm(data[:65_536])
        assert (kubernetes is None) != (slurm is None), (kubernetes, slurm, data[:80])
        kind = "kubernetes" if kubernetes else "slurm"
        source = Source(index, path.name, path, len(data), kind, kubernetes or slurm or "")
        case.sources.append(source)
        (read_objects if kubernetes else read_slurm)(source, data, case)
    return case


def find(case: Case) -> dict[str, list[Finding]]:
    """Findings by sign."""
    found: dict[str, list[Finding]] = {}
    for finding in detect(case, None):  # type: ignore[arg-type]
        assert finding.evidence, finding
        found.setdefault(finding.sign, []).append(finding)
    return found


def one(case: Case, sign: str) -> Finding:
    """The only finding of a sign."""
    found = find(case)
    assert len(found.get(sign, [])) == 1, {name: [f.text for f in items] for name, items in found.items()}
    return found[sign][0]


def event(
    reason: str,
    kind: str,
    name: str,
    message: str,
    at: str = "2026-08-01T08:00:00Z",
    *,
    namespace: str = "ml",
    type: str = "Warning",
    count: int = 1,
    **more: Any,
) -> dict[str, Any]:
    """A core/v1 event."""
    about = {"kind": kind, "name": name} | ({} if kind == "Node" else {"namespace": namespace})
    return {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": f"{name}.{abs(hash((reason, message, at))):x}", "namespace": namespace},
        "involvedObject": about,
        "reason": reason,
        "message": message,
        "type": type,
        "count": count,
        "firstTimestamp": at,
        "lastTimestamp": at,
        "source": {"component": "test"},
        **more,
    }


def pod(
    name: str,
    job: str,
    *,
    index: int = 0,
    node: str | None = None,
    phase: str = "Running",
    gpus: int = 8,
    namespace: str = "ml",
    pods: int = 2,
    status: dict[str, Any] | None = None,
    command: list[str] | None = None,
) -> dict[str, Any]:
    """A pod of an Indexed Job that runs torchrun with one process per GPU."""
    command = (
        command
        if command is not None
        else [
            "torchrun",
            f"--nnodes={pods}",
            f"--nproc-per-node={gpus}",
            "--node-rank=$(JOB_COMPLETION_INDEX)",
            "train.py",
        ]
    )
    spec: dict[str, Any] = {
        "containers": [
            {
                "name": "main",
                "image": "r.example/t:1",
                "command": command,
                "resources": {"limits": {"nvidia.com/gpu": str(gpus)}},
            }
        ]
    }
    if node:
        spec["nodeName"] = node
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name,
            "namespace": namespace,
            "uid": f"uid-{name}",
            "labels": {"batch.kubernetes.io/job-name": job, "batch.kubernetes.io/job-completion-index": str(index)},
            "ownerReferences": [{"kind": "Job", "name": job, "controller": True}],
        },
        "spec": spec,
        "status": {"phase": phase, **(status or {})},
    }


def job(
    name: str,
    *,
    pods: int = 2,
    gpus: int = 8,
    namespace: str = "ml",
    status: dict[str, Any] | None = None,
    labels: dict[str, str] | None = None,
) -> dict[str, Any]:
    """A batch/v1 Job."""
    template = {"spec": {"containers": [{"resources": {"limits": {"nvidia.com/gpu": str(gpus)}}}]}}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {
            "name": name,
            "namespace": namespace,
            "uid": f"uid-{name}",
            "labels": labels or {},
            "creationTimestamp": "2026-08-01T07:00:00Z",
        },
        "spec": {"parallelism": pods, "completions": pods, "template": template},
        "status": status or {},
    }


def listing(*items: dict[str, Any]) -> dict[str, Any]:
    """A List as ``kubectl get -o json`` prints it."""
    return {"apiVersion": "v1", "kind": "List", "items": list(items)}


NO_GPU = (
    "0/8 nodes are available: 2 node(s) were unschedulable, 6 Insufficient nvidia.com/gpu. "
    "preemption: 0/8 nodes are available"
)


def condition(
    kind: str, status: str, reason: str, message: str = "", at: str = "2026-08-01T08:00:00Z"
) -> dict[str, Any]:
    return {"type": kind, "status": status, "reason": reason, "message": message, "lastTransitionTime": at}


def pending(message: str = NO_GPU) -> dict[str, Any]:
    return {"conditions": [condition("PodScheduled", "False", "Unschedulable", message)]}


def ended(code: int, reason: str = "Error", at: str = "2026-08-01T08:00:00Z") -> dict[str, Any]:
    return {
        "containerStatuses": [
            {
                "name": "main",
                "restartCount": 0,
                "state": {"terminated": {"exitCode": code, "reason": reason, "finishedAt": at}},
            }
        ]
    }


def waiting(reason: str, message: str = "") -> dict[str, Any]:
    return {
        "containerStatuses": [
            {"name": "main", "image": "r.example/t:1", "state": {"waiting": {"reason": reason, "message": message}}}
        ]
    }


def node(name: str, ready: str = "True", **status: Any) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name},
        "spec": {},
        "status": {"conditions": [condition("Ready", ready, "Kubelet")], **status},
    }


def workload(
    name: str, *conditions: dict[str, Any], owner: str = "a", gpus: int = 8, count: int = 4, uid: str = ""
) -> dict[str, Any]:
    template = {"spec": {"containers": [{"resources": {"requests": {"nvidia.com/gpu": str(gpus)}}}]}}
    return {
        "apiVersion": "kueue.x-k8s.io/v1beta2",
        "kind": "Workload",
        "metadata": {
            "name": name,
            "namespace": "ml",
            "uid": uid or f"uid-{name}",
            "ownerReferences": [{"kind": "Job", "name": owner, "controller": True}],
        },
        "spec": {"queueName": "lq", "podSets": [{"name": "main", "count": count, "template": template}]},
        "status": {"conditions": list(conditions)},
    }


QUOTA = (
    "couldn't assign flavors to pod set main: insufficient unused quota for nvidia.com/gpu in flavor h100, "
    "24 more needed"
)
TOO_MUCH = (
    "couldn't assign flavors to pod set main: insufficient quota for nvidia.com/gpu in flavor h100, previously "
    "considered podsets requests (8) + current podset request (64) > maximum capacity (48)"
)
CLUSTER_QUEUE = {
    "apiVersion": "kueue.x-k8s.io/v1beta2",
    "kind": "ClusterQueue",
    "metadata": {"name": "cq"},
    "spec": {
        "resourceGroups": [
            {"flavors": [{"name": "h100", "resources": [{"name": "nvidia.com/gpu", "nominalQuota": "64"}]}]}
        ]
    },
    "status": {"flavorsReservation": [{"name": "h100", "resources": [{"name": "nvidia.com/gpu", "total": "56"}]}]},
}
