"""The grammar that a name must match before it may stand in a command."""

from __future__ import annotations

import re

from aiops.model.entity import is_host_name

_JOB = re.compile(r"^\d{1,12}(?:_\d{1,9})?$")
_KUBE = re.compile(r"^[a-z0-9](?:[a-z0-9.-]{0,251}[a-z0-9])?$")
_KIND = re.compile(r"^[A-Za-z]{2,40}$")
_PCI = re.compile(r"^[0-9a-f]{4}:[0-9a-f]{2}:[0-9a-f]{2}$")


def host(name: str | None) -> str | None:
    """The name, if it is a host name and nothing else."""
    return name if name and is_host_name(name) else None


def slurm_job(job: str | None) -> str | None:
    """The id, if it is a Slurm job id (array tasks included)."""
    return job if job and _JOB.match(job) else None


def kube_name(name: str | None) -> str | None:
    """The name, if it is a Kubernetes object name."""
    return name if name and _KUBE.match(name) else None


def kube_kind(kind: str | None) -> str | None:
    """The kind, if it is a word."""
    return kind if kind and _KIND.match(kind) else None


def pci(address: str | None) -> str | None:
    """The address as ``nvidia-smi -i`` wants it (with function 0), if it is one."""
    return f"{address}.0" if address and _PCI.match(address) else None
