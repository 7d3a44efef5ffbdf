"""Who or what an event is about, under one stable key."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum


class EntityKind(StrEnum):
    """Things of a training cluster that can be at fault or affected."""

    CLUSTER = "cluster"
    RACK = "rack"
    SWITCH = "switch"
    NVLINK_DOMAIN = "nvlink_domain"
    NODE = "node"
    GPU = "gpu"
    NIC = "nic"
    LINK = "link"
    JOB = "job"
    WORKLOAD = "workload"
    POD = "pod"
    RANK = "rank"
    STORAGE = "storage"
    QUEUE = "queue"


@dataclass(frozen=True, slots=True, order=True)
class Entity:
    """A kind and a key, for example ``(gpu, "n7/0000:a8:00")`` or ``(rank, "13")``."""

    kind: str
    key: str

    def __str__(self) -> str:
        return f"{self.kind}:{self.key}"


_PCI = re.compile(r"^(?:(?P<domain>[0-9a-fA-F]{4,8}):)?(?P<bus>[0-9a-fA-F]{2}):(?P<device>[0-9a-fA-F]{2})(?:\.[0-7])?$")


def canonical_pci(text: str) -> str | None:
    """One spelling of a PCI id: ``00000000:A8:00.0``, ``0000:a8:00`` and ``a8:00.0`` become ``0000:a8:00``.

    The function number is dropped, since a GPU has one; returns ``None`` if the text is no PCI id.
    """
    match = _PCI.match(text.strip().removeprefix("PCI:"))
    if match is None:
        return None
    domain = (match["domain"] or "0000").lower()[-4:]
    return f"{domain}:{match['bus'].lower()}:{match['device'].lower()}"


_HOST = re.compile(r"^[A-Za-z0-9](?:[A-Za-z0-9._-]{0,251}[A-Za-z0-9])?$")


def is_host_name(text: str) -> bool:
    """True if the text is a DNS name or a Slurm or Kubernetes node name, and nothing else.

    Names that reach a command line must pass here first.
    """
    return _HOST.fullmatch(text) is not None


NO_MACHINE = {
    "user_code": "user code",
    "config": "configuration",
    "data": "data",
    "storage": "storage",
    "network": "network",
    "scheduler": "scheduler",
    "facility": "facility",
}
"""Kinds of culprits that are no machine, in words."""
