"""Which ranks a pod runs, where its specification really says so."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from aiops.ingest.kubernetes_fields import gpu_request, mapping, mappings, text

_REFERENCE = re.compile(r"\$(?:\(([A-Za-z_]\w*)\)|\{([A-Za-z_]\w*)\}|([A-Za-z_]\w*))")
_FIELD = re.compile(r"metadata\.(labels|annotations)\['([^']+)'\]")
_LAUNCHER = re.compile(r"(?:^|[/\s])torchrun(?:$|\s)|torch\.distributed\.(?:run|launch)")
_INDEX = "batch.kubernetes.io/job-completion-index"
_REPLICA_INDEX = "training.kubeflow.org/replica-index"
_REPLICA_TYPE = "training.kubeflow.org/replica-type"
_MAX_RANKS = 1 << 20


@dataclass(frozen=True, slots=True)
class RankClaim:
    """Ranks ``first`` to ``first + count - 1`` run in the pod, as local ranks 0 to ``count - 1``."""

    first: int
    count: int
    world_size: int | None
    sure: str
    """What the claim rests on."""


def rank_claim(pod: Mapping[str, Any]) -> RankClaim | None:
    """Read the claim from the command line, the environment and the labels of the pod's containers.

    ``None`` if the specification leaves the ranks open (rendezvous by c10d or etcd, MPI, no launcher at all).
    """
    for container in mappings(pod, "spec", "containers"):
        claim = _container_claim(pod, container)
        if claim is not None and claim.count > 0 and claim.first + claim.count <= _MAX_RANKS:
            return claim
    return None


def _container_claim(pod: Mapping[str, Any], container: Mapping[str, Any]) -> RankClaim | None:
    env = _environment(pod, container)
    words = " ".join(word for key in ("command", "args") for word in _words(container, key))
    launched = _LAUNCHER.search(words) is not None
    per_pod, per_pod_why = _number(
        env, words, pod, ("nproc-per-node", "nproc_per_node"), ("PET_NPROC_PER_NODE", "LOCAL_WORLD_SIZE")
    )
    if launched or per_pod is not None:
        index, index_why = _pod_index(env, words, pod)
        if index is None or per_pod is None:
            return None
        pods, _ = _number(env, words, pod, ("nnodes",), ("PET_NNODES", "NNODES"))
        if index and pods is not None and index >= pods:
            return None
        return RankClaim(index * per_pod, per_pod, pods * per_pod if pods else None, f"{index_why}, {per_pod_why}")
    # Without a launcher the process itself reads RANK.
    if (rank := _whole(env.get("RANK"))) is None:
        return None
    return RankClaim(rank, 1, _whole(env.get("WORLD_SIZE")), "env RANK")


def _pod_index(env: Mapping[str, str], words: str, pod: Mapping[str, Any]) -> tuple[int | None, str]:
    index, why = _number(
        env, words, pod, ("node-rank", "node_rank"), ("PET_NODE_RANK", "NODE_RANK", "GROUP_RANK", "RANK")
    )
    if index is not None:
        return index, why
    pods, _ = _number(env, words, pod, ("nnodes",), ("PET_NNODES", "NNODES"))
    if pods == 1 or (pods is None and "rdzv" not in words and "node-rank" not in words and "node_rank" not in words):
        return 0, "one node"
    labels = mapping(pod, "metadata", "labels")
    kind, number = text(labels, _REPLICA_TYPE), _whole(text(labels, _REPLICA_INDEX))
    if number is None or "rdzv" in words:
        return None, ""
    if kind == "master":
        return number, f"label {_REPLICA_INDEX}"
    # The operator numbers workers after the master, if the job has one.
    if kind == "worker" and "-master-0" in env.get("MASTER_ADDR", ""):
        return number + 1, f"label {_REPLICA_INDEX}"
    return None, ""


def _number(
    env: Mapping[str, str], words: str, pod: Mapping[str, Any], flags: tuple[str, ...], names: tuple[str, ...]
) -> tuple[int | None, str]:
    """A number from a flag (which wins) or from the environment, and where it stands."""
    for flag in flags:
        match = re.search(rf"--{flag}(?:=|\s+)(\S+)", words)
        if match is None:
            continue
        given = match[1].strip("\"'")
        value = _whole(_REFERENCE.sub(lambda m: env.get(m[1] or m[2] or m[3], m[0]), given))
        if value is None and flag.startswith("nproc") and given in ("gpu", "auto"):
            value = gpu_request(mapping(pod, "spec")) or None
        return value, f"--{flag}={given}"
    for name in names:
        if (value := _whole(env.get(name))) is not None:
            return value, f"env {name}"
    return None, ""


def _whole(value: str | None) -> int | None:
    return int(value) if value is not None and re.fullmatch(r"\d{1,7}", value.strip(), re.ASCII) else None


def _words(container: Mapping[str, Any], key: str) -> list[str]:
    value = container.get(key)
    return [word for word in value if isinstance(word, str)] if isinstance(value, list) else []


def _environment(pod: Mapping[str, Any], container: Mapping[str, Any]) -> dict[str, str]:
    meta = mapping(pod, "metadata")
    index = text(meta, "labels", _INDEX) or text(meta, "annotations", _INDEX)
    # The Job controller injects this variable into Indexed Jobs.
    env = {"JOB_COMPLETION_INDEX": index} if index else {}
    for item in mappings(container, "env"):
        name = text(item, "name")
        match = _FIELD.fullmatch(text(item, "valueFrom", "fieldRef", "fieldPath"))
        if match:
            env[name] = text(meta, match[1], match[2])
        elif "value" in item:
            env[name] = _REFERENCE.sub(lambda m: env.get(m[1], m[0]) if m[1] else m[0], text(item, "value"))
    return env
