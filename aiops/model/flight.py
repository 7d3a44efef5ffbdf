"""Flight-recorder dumps of collective operations: one per rank, in columns."""

from __future__ import annotations

from array import array
from dataclasses import dataclass, field
from enum import IntEnum

NO_SEQ = -1
"""Sequence number that a dump does not tell."""


class OpState(IntEnum):
    """How far an operation came on the device of one rank; the order is that of time."""

    SCHEDULED = 0
    STARTED = 1
    COMPLETED = 2


@dataclass(frozen=True, slots=True)
class ProcessGroup:
    """A process group. Equal names with different members are different groups."""

    name: str
    ranks: tuple[int, ...]
    """Global ranks of its members, ascending; empty if the dumps do not tell."""
    desc: str = ""


@dataclass(frozen=True, slots=True)
class Signature:
    """Shapes and types of the tensors of an operation, as recorded."""

    inputs: tuple[tuple[int, ...], ...] = ()
    outputs: tuple[tuple[int, ...], ...] = ()
    dtypes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class GroupStatus:
    """The counters that a rank keeps for one of its groups; `NO_SEQ` if it used none yet."""

    enqueued: int = NO_SEQ
    completed: int = NO_SEQ


@dataclass(slots=True)
class FlightDump:
    """What one rank recorded. All columns have the same length; times are UTC nanoseconds, 0 = not recorded."""

    source: int
    """Index into `Case.sources`."""
    rank: int | None = None
    sure: str = ""
    """How the rank is known, in words."""
    version: str = ""
    readable: bool = True
    """False if nothing of it could be read: then it proves only that the rank wrote something."""
    complete: bool = True
    """False if its end is missing: its newest operations are then unknown."""
    groups: dict[int, GroupStatus | None] = field(default_factory=dict)
    """Index into `FlightRecords.groups` -> counters, or ``None`` if they cannot be told for certain."""
    status_offset: int = 0
    record: array[int] = field(default_factory=lambda: array("q"))
    offset: array[int] = field(default_factory=lambda: array("q"))
    """Byte offset of the record in its file."""
    created: array[int] = field(default_factory=lambda: array("q"))
    seq: array[int] = field(default_factory=lambda: array("q"))
    """Number of a collective within its group; for point-to-point operations their own count."""
    group: array[int] = field(default_factory=lambda: array("i"))
    op: array[int] = field(default_factory=lambda: array("i"))
    signature: array[int] = field(default_factory=lambda: array("i"))
    stack: array[int] = field(default_factory=lambda: array("i"))
    state: array[int] = field(default_factory=lambda: array("b"))
    p2p: array[int] = field(default_factory=lambda: array("b"))
    retired: array[int] = field(default_factory=lambda: array("b"))
    """1 = the watchdog has given it up; retired and not completed means timed out."""

    def __len__(self) -> int:
        return len(self.record)


@dataclass(slots=True)
class FlightRecords:
    """All dumps of a case; what many records share is kept once."""

    dumps: list[FlightDump] = field(default_factory=list)
    groups: list[ProcessGroup] = field(default_factory=list)
    ops: list[str] = field(default_factory=list)
    """Names such as ``all_reduce`` or ``send 0->3``."""
    signatures: list[Signature] = field(default_factory=list)
    stacks: list[tuple[str, ...]] = field(default_factory=list)
    """Frames ``function (file:line)``, innermost first; the first stack is the empty one."""
