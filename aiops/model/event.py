"""Events of a case, stored in columns so that a million of them stay cheap."""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import IntEnum
from typing import Any

NO_TIME = -(1 << 63)
"""Time stamp of an event whose time is not known."""


class Severity(IntEnum):
    """How bad a line is on its own, before any reasoning."""

    INFO = 0
    WARNING = 1
    ERROR = 2
    FATAL = 3


class TimeQuality(IntEnum):
    """How the time stamp of an event was obtained, best last."""

    NONE = 0
    INHERITED = 1
    """Taken from the last stamped line above."""
    UPTIME = 2
    """Seconds since boot with unknown boot time: order within one host only."""
    PARTIAL = 3
    """Year or zone are assumed."""
    EXACT = 4


@dataclass(frozen=True, slots=True)
class Event:
    """One row of an `EventTable`, as an object."""

    index: int
    ts: int
    """UTC nanoseconds since 1970, or `NO_TIME`."""
    quality: TimeQuality
    signal: str
    severity: Severity
    source: int
    """Index into `Case.sources`."""
    offset: int
    """Byte offset of the line in the (unpacked) file."""
    line: int
    """Line number, from 1; 0 if the source has no lines."""
    node: str | None
    rank: int | None
    count: int
    """Lines that this event stands for: 1, or more for a storm."""
    fields: Mapping[str, Any]
    text: str
    quoted: bool
    """The match stands inside a quotation: data, not evidence."""


_QUALITIES = tuple(TimeQuality)
_SEVERITIES = tuple(Severity)
_KEPT = 200_000
"""Rows whose object is kept once made: detectors ask for the same rows again and again."""


class EventTable:
    """Append-only columns. Strings are interned, so equal ones cost one reference."""

    __slots__ = (
        "_all",
        "_aside",
        "_by_signal",
        "_count",
        "_events",
        "_fields",
        "_line",
        "_node",
        "_offset",
        "_quality",
        "_quoted",
        "_rank",
        "_severity",
        "_signal",
        "_source",
        "_text",
        "_ts",
        "totals",
    )

    def __init__(self) -> None:
        self._ts = array("q")
        self._quality = array("b")
        self._signal: list[str] = []
        self._severity = array("b")
        self._source = array("i")
        self._offset = array("q")
        self._line = array("q")
        self._node: list[str | None] = []
        self._rank = array("i")
        self._count = array("q")
        self._fields: list[Mapping[str, Any]] = []
        self._text: list[str] = []
        self._quoted = array("b")
        self._events: dict[int, Event] = {}
        self._all: list[Event] | None = None
        self._by_signal: dict[str, list[int]] | None = None
        self._aside: frozenset[int] = frozenset()
        self.totals: dict[str, int] = {}
        """Lines hit per signal, storms included."""

    def __len__(self) -> int:
        return len(self._ts)

    def append(
        self,
        signal: str,
        *,
        source: int,
        ts: int = NO_TIME,
        quality: TimeQuality = TimeQuality.NONE,
        severity: Severity = Severity.INFO,
        offset: int = 0,
        line: int = 0,
        node: str | None = None,
        rank: int | None = None,
        count: int = 1,
        fields: Mapping[str, Any] | None = None,
        text: str = "",
        quoted: bool = False,
    ) -> int:
        """Add one event and return its index."""
        self._ts.append(ts)
        self._quality.append(quality)
        self._signal.append(signal)
        self._severity.append(severity)
        self._source.append(source)
        self._offset.append(offset)
        self._line.append(line)
        self._node.append(node)
        self._rank.append(-1 if rank is None else rank)
        self._count.append(count)
        self._fields.append(fields or {})
        self._text.append(text)
        self._quoted.append(quoted)
        self._by_signal = self._all = None
        self.totals[signal] = self.totals.get(signal, 0) + count
        return len(self._ts) - 1

    def __getitem__(self, index: int) -> Event:
        event = self._events.get(index)
        if event is None:
            rank = self._rank[index]
            event = Event(
                index=index,
                ts=self._ts[index],
                quality=_QUALITIES[self._quality[index]],
                signal=self._signal[index],
                severity=_SEVERITIES[self._severity[index]],
                source=self._source[index],
                offset=self._offset[index],
                line=self._line[index],
                node=self._node[index],
                rank=None if rank < 0 else rank,
                count=self._count[index],
                fields=self._fields[index],
                text=self._text[index],
                quoted=bool(self._quoted[index]),
            )
            if len(self._events) < _KEPT:
                self._events[index] = event
        return event

    def __iter__(self) -> Iterator[Event]:
        if len(self) > _KEPT:
            return (self[i] for i in range(len(self)) if self._source[i] not in self._aside)
        if self._all is None:
            self._all = [self[i] for i in range(len(self)) if self._source[i] not in self._aside]
        return iter(self._all)

    def set_aside(self, sources: frozenset[int]) -> None:
        """Leave the rows of some sources out of `by_signal` and of iteration: they are another job's. Indexes stay."""
        self._aside = sources
        self._by_signal = self._all = None

    def aside(self, *signals: str) -> list[Event]:
        """The rows of some signals that were set aside, for what compares jobs."""
        if not self._aside:
            return []
        wanted = frozenset(signals)
        return [
            self[i]
            for i, (signal, source) in enumerate(zip(self._signal, self._source, strict=True))
            if source in self._aside and signal in wanted
        ]

    def by_signal(self) -> dict[str, list[int]]:
        """Row numbers of each signal, in the order in which the rows were added."""
        if self._by_signal is None:
            self._by_signal = {}
            for i, signal in enumerate(self._signal):
                if self._source[i] not in self._aside:
                    self._by_signal.setdefault(signal, []).append(i)
        return self._by_signal

    def move(self, index: int, *, ts: int | None = None, node: str | None = None, rank: int | None = None) -> None:
        """Correct a row after the clocks or the names of the whole case are known."""
        self._events.pop(index, None)
        self._all = None
        if ts is not None:
            self._ts[index] = ts
        if node is not None:
            self._node[index] = node
        if rank is not None:
            self._rank[index] = rank
