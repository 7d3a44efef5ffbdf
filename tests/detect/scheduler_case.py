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


def event(reason: str, kind: str, name: str, message: str, at: str = "2026-08-01T08:00:00Z", *, namespace: str = "ml",
          type: str = "Warning", count: int = 1, **more: Any) -> dict[str, Any]:
    """A core/v1 event."""
    about = {"kind": kind, "name": name} | ({} if kind == "Node" else {"namespace": namespace})
    return {"apiVersion": "v1", "kind": "Event", "metadata": {"name": f"{name}.{abs(hash((reason, message, at))):x}",
                                                              "namespace": namespace},
            "involvedObject": about, "reason": reason, "message": message, "type": type, "count": count,
            "firstTimestamp": at, "lastTimestamp": at, "source": {"component": "test"}, **more}


def pod(name: str, job: str, *, index: int = 0, node: str | None = None, phase: str = "Running", gpus: int = 8,
        namespace: str = "ml", pods: int = 2, status: dict[str, Any] | None = None,
        command: list[str] | None = None) -> dict[str, Any]:
    """A pod of an Indexed Job that runs torchrun with one process per GPU."""
    command = command if command is not None else [
        "torchrun", f"--nnodes={pods}", f"--nproc-per-node={gpus}", "--node-rank=$(JOB_COMPLETION_INDEX)", "train.py"]
    spec: dict[str, Any] = {"containers": [{"name": "main", "image": "r.example/t:1", "command": command,
                                            "resources": {"limits": {"nvidia.com/gpu": str(gpus)}}}]}
    if node:
        spec["nodeName"] = node
    return {"apiVersion": "v1", "kind": "Pod",
            "metadata": {"name": name, "namespace": namespace, "uid": f"uid-{name}",
                         "labels": {"batch.kubernetes.io/job-name": job,
                                    "batch.kubernetes.io/job-completion-index": str(index)},
                         "ownerReferences": [{"kind": "Job", "name": job, "controller": True}]},
            "spec": spec, "status": {"phase": phase, **(status or {})}}


def job(name: str, *, pods: int = 2, gpus: int = 8, namespace: str = "ml", status: dict[str, Any] | None = None,
        labels: dict[str, str] | None = None) -> dict[str, Any]:
    """A batch/v1 Job."""
    template = {"spec": {"containers": [{"resources": {"limits": {"nvidia.com/gpu": str(gpus)}}}]}}
    return {"apiVersion": "batch/v1", "kind": "Job",
            "metadata": {"name": name, "namespace": namespace, "uid": f"uid-{name}", "labels": labels or {},
                         "creationTimestamp": "2026-08-01T07:00:00Z"},
            "spec": {"parallelism": pods, "completions": pods, "template": template}, "status": status or {}}


def listing(*items: dict[str, Any]) -> dict[str, Any]:
    """A List as ``kubectl get -o json`` prints it."""
    return {"apiVersion": "v1", "kind": "List", "items": list(items)}
