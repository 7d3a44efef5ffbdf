"""The grammar that a name must match before it may stand in a command."""

from __future__ import annotations

import re

# `fullmatch` throughout: ``$`` would let a newline pass behind the name
_HOST = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._-]{0,251}[A-Za-z0-9])?")
_JOB = re.compile(r"[0-9]{1,12}(?:_[0-9]{1,9})?")
_KUBE = re.compile(r"[a-z0-9](?:[a-z0-9.-]{0,251}[a-z0-9])?")
_KIND = re.compile(r"[A-Za-z]{2,40}")
_PCI = re.compile(r"[0-9a-f]{4}:[0-9a-f]{2}:[0-9a-f]{2}")
_CHECKPOINT = re.compile(r"(?:[a-z][a-z0-9]{1,9}://)?[A-Za-z0-9_./][A-Za-z0-9_.,=+@/:-]{0,511}|step \d{1,12}")
_NO_NODE = frozenset({"all", "default", "localhost", "localhost.localdomain", "asap", "none", "null"})
"""``ALL`` is every node for scontrol (``update NodeName=ALL``, ``reboot ALL``); the others are words of its grammar, or
what a machine without a name calls itself."""


def host(name: str | None) -> str | None:
    """The name, if it is the name of one host and nothing else."""
    return name if name and _HOST.fullmatch(name) and name.lower() not in _NO_NODE else None


def slurm_job(job: str | None) -> str | None:
    """The id, if it is a Slurm job id (array tasks included)."""
    return job if job and _JOB.fullmatch(job) else None


def kube_name(name: str | None) -> str | None:
    """The name, if it is a Kubernetes object name."""
    return name if name and _KUBE.fullmatch(name) else None


def kube_kind(kind: str | None) -> str | None:
    """The kind, if it is a word."""
    return kind if kind and _KIND.fullmatch(kind) else None


def checkpoint(name: str | None) -> str | None:
    """The name, if it is a path, an address in an object store or a tag, with no sign that a shell would act on."""
    return name if name and _CHECKPOINT.fullmatch(name) and ".." not in name.split("/") else None


def pci(address: str | None) -> str | None:
    """The address as ``nvidia-smi -i`` wants it (with function 0), if it is one."""
    return f"{address}.0" if address and _PCI.fullmatch(address) else None
