"""What a detector asserts about an entity in an interval."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from aiops.model.event import NO_TIME, Severity


class Role(StrEnum):
    """What a finding can be in a cascade."""

    ROOT = "root"
    """May be a cause (or an effect of an earlier one)."""
    ECHO = "echo"
    """Always follows something else; never a cause alone."""
    CONTEXT = "context"
    """Neither: background, progress, success."""


@dataclass(frozen=True, slots=True)
class EvidenceRef:
    """Where a piece of evidence stands; becomes an item of the report's ``evidence``."""

    source: str
    """Name of the source, see `case.Source.name`."""
    line: int
    offset: int
    text: str
    ts: int = NO_TIME
    place: str = ""
    """Where in a source without lines, in words; else line or offset are named."""


@dataclass(slots=True)
class Finding:
    """An assertion with its proof.

    ``sign`` is what failure classes refer to in ``causes``, ``effects`` and ``contradicts``: the id of a signal,
    or a name that a detector documents.
    """

    sign: str
    text: str
    """One sentence for people; plain text, may quote log text."""
    role: Role = Role.ROOT
    severity: Severity = Severity.ERROR
    first: int = NO_TIME
    last: int = NO_TIME
    node: str | None = None
    gpu: int | None = None
    pci: str | None = None
    uuid: str | None = None
    rank: int | None = None
    ranks: tuple[int, ...] = ()
    """All ranks that show it, ascending."""
    nodes: tuple[str, ...] = ()
    """All nodes that show it, in order of appearance."""
    job: str | None = None
    name: str | None = None
    """Name of the thing at fault where it is neither node nor rank: a queue, a path, a NIC."""
    count: int = 1
    """Lines or samples behind this finding."""
    fields: Mapping[str, Any] = field(default_factory=dict)
    evidence: list[EvidenceRef] = field(default_factory=list)
    inexact: bool = False
    """``first`` is only the last stamp above its lines: it may have happened later, never earlier."""
    detector: str = ""
    id: str = ""
    """``f1``, ``f2``, … given by `detect.run` in time order."""
