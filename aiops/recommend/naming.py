"""What Slurm calls a machine: where slurmd runs in pods (Slinky, SUNK), its node is the pod's host name, not the machine's.

Source: SCHEDULERS.md §1.10 (slurm-operator ``GetSlurmNodeName``): host name of the pod, else the pod's own name; the label
that slurm-bridge puts on machines.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from aiops.model.case import Case
from aiops.model.entity import is_host_name

_BRIDGE = "slinky.slurm.net/slurm-nodename"


def slurm_names(case: Case) -> dict[str, str | None]:
    """Machine → Slurm node, for machines that Slurm knows by another name; ``None`` if several Slurm nodes are on it."""
    kinds = case.topology.node_kinds
    found: dict[str, str | None] = {}
    for item in case.objects:
        if item.kind == "Node" and (told := _label(item.body)) is not None and told != item.name:
            found[item.name] = told if found.get(item.name, told) == told else None
        spec = item.body.get("spec")
        if item.kind != "Pod" or not isinstance(spec, dict):
            continue
        node, host = spec.get("nodeName"), spec.get("hostname")
        if not isinstance(node, str) or "slurm" in kinds.get(node, ()):
            continue
        name = next((n for n in (host, item.name) if isinstance(n, str) and "slurm" in kinds.get(n, ())), None)
        if name is not None:
            found[node] = name if found.get(node, name) == name else None
    return found


def _label(body: Mapping[str, Any]) -> str | None:
    """The machine's Slurm name by its label, if it can be one."""
    metadata = body.get("metadata")
    labels = metadata.get("labels") if isinstance(metadata, dict) else None
    told = labels.get(_BRIDGE) if isinstance(labels, dict) else None
    return told if isinstance(told, str) and is_host_name(told) else None


def named_for(case: Case, scheduler: str | None, nodes: list[str]) -> list[str]:
    """``nodes`` as the job's scheduler calls them; one that has no single name there is left out."""
    if scheduler != "slurm":
        return nodes
    other = slurm_names(case)
    return [name for node in nodes if (name := other.get(node, node)) is not None]
