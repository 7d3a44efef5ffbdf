"""From a file to its hit lines: blocks cut at newlines, exact line numbers, storms counted instead of stored."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from aiops.scan.engine import Engine
from aiops.scan.ranges import Range, ranges_of
from aiops.scan.rules import Program, RuleSet
from aiops.scan.storm import ORDINARY, Ints, StormGuard

BLOCK = 1 << 19
"""Bytes looked at in one go; small enough to stay in the processor's cache between the passes over it."""
OVERLAP = 4096
"""Bytes of a line longer than a block that are looked at again with the next block."""
SHOWN = 8192
"""Bytes of a hit line that are handed out."""


class HitLine(NamedTuple):
    """A line that at least one rule matches."""

    offset: int
    """Byte offset of the line in the file (of the shown part, if the line is longer than `SHOWN`)."""
    line: int
    """Line number, from 1."""
    text: bytes
    """The line without its newline, at most `SHOWN` bytes around the hit."""
    rules: list[tuple[int, int]]
    """(rule id, lines that this one stands for): above 1 if the storm guard thinned the rule out."""


@dataclass(slots=True)
class Pairs:
    """All (line, rule) pairs of one block, in order of line and rule."""

    rules: Ints
    places: Ints
    """[pairs][4]: offset of the line, line number, end of the hit, end of the line as far as known; offsets in the file."""
    block: memoryview
    base: int
    """Offset of the block; its bytes are valid until the next one is asked for."""


class _Bytes(Protocol):
    """Where blocks come from."""

    size: int

    def block(self, start: int, size: int) -> memoryview:
        """At most ``size`` bytes, valid until the next call."""

    def copy(self, start: int, stop: int) -> bytes: ...


class Scanner:
    """Scans files with one rule set and one engine."""

    def __init__(
        self, rules: RuleSet | Program, engine: Engine, *, keep: int | None = 2_000, block: int = BLOCK
    ) -> None:
        """``keep`` bounds the hits handed out one by one for a rule in a file; ``None`` hands out all."""
        self._rules = rules if isinstance(rules, RuleSet) else None
        self.program = rules.program if isinstance(rules, RuleSet) else rules
        self.engine = engine
        self.keep = keep
        self._block = block
        self._asked = np.zeros(self.program.size, dtype=bool)
        self._asked[list(self.program.confirm)] = True
        self._anchored = np.zeros(self.program.size, dtype=bool)
        self._anchored[list(self.program.anchored)] = True
        self._regexes: dict[int, re.Pattern[bytes]] = {}
        self.lines = 0
        """Lines of the file or range scanned last, once its generator is exhausted."""

    @property
    def rules(self) -> RuleSet:
        """The rules with their signals."""
        if self._rules is None:
            raise ValueError("a scanner made of a program knows no signals")
        return self._rules

    def scan_file(self, path: Path) -> Iterator[HitLine]:
        """Hit lines of a file in order. Memory does not grow with the file.

        Raises:
            OSError: the file cannot be read.
        """
        lines = 0
        for part in ranges_of(path):
            for hit in self.scan_range(path, part):
                yield hit._replace(line=hit.line + lines) if lines else hit
            lines += self.lines
        self.lines = lines

    def scan_range(self, path: Path, part: Range, few: int = ORDINARY) -> Iterator[HitLine]:
        """Hit lines of a part of a file that begins at a line; lines are numbered from its beginning. ``few`` is the
        file's budget for rules of ordinary lines.

        Raises:
            OSError: the file cannot be read.
        """
        with open(path, "rb", buffering=0) as handle:
            source = _File(handle.fileno(), part.stop, self._block)
            yield from self._hit_lines(source, part.start, part.stop, part.of, few)

    def scan_bytes(self, data: bytes) -> Iterator[HitLine]:
        """Hit lines of text in memory."""
        yield from self._hit_lines(_Text(data), 0, len(data), 1)

    def pairs(self, path: Path) -> Iterator[Pairs]:
        """Exact (line, rule) pairs of a file as arrays, block by block, without the storm guard.

        Raises:
            OSError: the file cannot be read.
        """
        with open(path, "rb", buffering=0) as handle:
            size = os.fstat(handle.fileno()).st_size
            yield from self._pairs(_File(handle.fileno(), size, self._block), 0, size)

    def _hit_lines(self, source: _Bytes, start: int, stop: int, ranges: int, few: int = ORDINARY) -> Iterator[HitLine]:
        guard = None
        if self.keep is not None:
            guard = StormGuard(self.program.size, self.keep, self.program.ordinary, ranges, few)
        for found in self._pairs(source, start, stop):
            weights = None
            if guard is not None:
                block = np.frombuffer(found.block, dtype=np.uint8)
                weights = guard.weigh(found.rules, found.places, block, found.base)
                handed = np.flatnonzero(weights)
                if len(handed) < len(weights):
                    found.rules, found.places, weights = found.rules[handed], found.places[handed], weights[handed]
            yield from self._lines_of(source, found, weights)
        if guard is not None:
            for rule, weight, place in guard.rest():
                yield _far_line(source, place, [(rule, weight)])

    def _lines_of(self, source: _Bytes, found: Pairs, weights: Ints | None) -> Iterator[HitLine]:
        counts = [1] * len(found.rules) if weights is None else weights.tolist()
        block, base, size = found.block, found.base, len(found.block)
        rules, places = found.rules.tolist(), found.places.tolist()
        begin = 0
        while begin < len(rules):
            place = places[begin]
            offset, line, _, stop = place
            end = begin + 1
            while end < len(rules) and places[end][1] == line:
                end += 1
            hits = list(zip(rules[begin:end], counts[begin:end], strict=True))
            if offset < base or stop - offset > SHOWN or stop - base >= size:
                yield _far_line(source, place, hits)
            else:
                yield HitLine(offset, line, bytes(block[offset - base : stop - base]).rstrip(b"\r"), hits)
            begin = end

    def _pairs(self, source: _Bytes, start: int, stop: int) -> Iterator[Pairs]:
        at, line, line_start = start, 0, start
        carried: frozenset[int] = frozenset()
        flags = np.empty(
            min(self._block, max(1, stop - start)), dtype=bool
        )  # once: fresh pages for each block cost more
        while at < stop:
            block = source.block(at, min(self._block, stop - at))
            if not block:  # the file became shorter while it was read
                break
            data = np.frombuffer(block, dtype=np.uint8)
            newline = np.equal(data, 10, out=flags[: len(data)])
            last = at + len(block) >= stop
            size = len(block)
            if not last and not newline[-1]:
                size = _behind_last(newline) or size
                block, data, newline = block[:size], data[:size], newline[:size]
            ends, rules = self.engine.scan(block)
            whole = bool(newline[-1])
            if ends:
                breaks = np.flatnonzero(newline)
                found = self._settle(block, at, breaks, ends, rules, line, line_start, carried)
                if len(found.rules):
                    yield found
                carried = self._on_open_line(found, line + len(breaks) + 1, carried) if not whole else frozenset()
                newlines = len(breaks)
                if newlines:
                    line_start = at + int(breaks[-1]) + 1
            else:
                newlines = int(np.count_nonzero(newline))
                if newlines:
                    line_start = at + _behind_last(newline)
                if newlines or whole:
                    carried = frozenset()
            line += newlines
            at += size if whole or last else max(1, size - OVERLAP)
        self.lines = line + (line_start < min(at, stop))

    def _settle(
        self,
        block: memoryview,
        base: int,
        breaks: Ints,
        ends: list[int],
        rules: list[int],
        line: int,
        line_start: int,
        carried: frozenset[int],
    ) -> Pairs:
        """Sort matches into lines, each (line, rule) once, and ask the rules that looked for less than they want.

        ``line`` newlines stand before the block, whose first line begins at ``line_start``.
        """
        end = np.array(ends, dtype=np.int64)
        # a match may end behind the newline if the rule ends with one: its last byte decides
        row = np.searchsorted(breaks, end - 1)
        rule = np.array(rules, dtype=np.int64)
        key = row * self.program.size + rule
        if not (key[1:] > key[:-1]).all():
            key, first = np.unique(key, return_index=True)
            row, rule, end = row[first], rule[first], end[first]
        edges = np.empty(len(breaks) + 2, dtype=np.int64)
        edges[0], edges[1:-1], edges[-1] = line_start - base - 1, breaks, len(block)
        begin, finish = edges[row] + 1, edges[row + 1]
        keep = np.ones(len(row), dtype=bool)
        if line_start < base:
            keep &= (row > 0) | ~(self._anchored[rule] | np.isin(rule, list(carried)))
        asked = np.flatnonzero(self._asked[rule] & keep)
        if len(asked):
            matched = self._confirm(block, rule[asked], np.maximum(begin[asked], 0), finish[asked])
            keep[asked] = matched > 0
            end[asked] = matched
        places = np.empty((len(row), 4), dtype=np.int64)
        for column, values in enumerate((begin + base, row + (line + 1), end + base, finish + base)):
            places[:, column] = values
        return Pairs(rule, places, block, base) if keep.all() else Pairs(rule[keep], places[keep], block, base)

    def _confirm(self, block: memoryview, rules: Ints, begins: Ints, stops: Ints) -> Ints:
        """Where each rule's match in its line ends, 0 if it has none."""
        regexes = self._regexes
        ends = np.zeros(len(rules), dtype=np.int64)
        last, text = -1, b""
        for i, (rule, begin, stop) in enumerate(zip(rules.tolist(), begins.tolist(), stops.tolist(), strict=True)):
            regex = regexes.get(rule)
            if regex is None:
                regex = regexes[rule] = re.compile(self.program.confirm[rule].encode())
            if begin != last:
                last, text = begin, bytes(block[begin:stop])
            match = regex.search(text)
            if match:
                ends[i] = begin + match.end()
        return ends

    @staticmethod
    def _on_open_line(found: Pairs, line: int, carried: frozenset[int]) -> frozenset[int]:
        """Rules that have hit the line that goes on in the next block."""
        here = frozenset(found.rules[found.places[:, 1] == line].tolist())
        return here | carried if not len(found.places) or found.places[0, 1] == line else here


class _File:
    """Blocks of a file in one buffer, so that memory does not grow and a file that shrinks does no harm."""

    def __init__(self, descriptor: int, size: int, block: int) -> None:
        self.size = size
        self._descriptor = descriptor
        self._buffer = memoryview(bytearray(min(block, max(1, size))))

    def block(self, start: int, size: int) -> memoryview:
        view = self._buffer[:size]
        return view[: os.preadv(self._descriptor, [view], start)]

    def copy(self, start: int, stop: int) -> bytes:
        return os.pread(self._descriptor, max(0, stop - start), start)


class _Text:
    """Blocks of bytes in memory."""

    def __init__(self, data: bytes) -> None:
        self.size = len(data)
        self._data = memoryview(data)

    def block(self, start: int, size: int) -> memoryview:
        return self._data[start : start + size]

    def copy(self, start: int, stop: int) -> bytes:
        return bytes(self._data[start:stop])


def _behind_last(newline: NDArray[np.bool_]) -> int:
    """Index behind the last newline, 0 if there is none."""
    size = len(newline)
    span = 512
    while True:
        tail = np.flatnonzero(newline[max(0, size - span) :])
        if len(tail):
            return int(max(0, size - span) + tail[-1]) + 1
        if span >= size:
            return 0
        span *= 8


def _far_line(source: _Bytes, place: tuple[int, int, int, int] | list[int], rules: list[tuple[int, int]]) -> HitLine:
    """A line that does not stand in the block at hand, or not all of it: all of it, or a window around the hit."""
    begin, line, hit, end = place
    stop = end
    if stop < source.size:
        ahead = source.copy(stop, min(source.size, stop + SHOWN))
        cut = ahead.find(b"\n")
        stop += len(ahead) if cut < 0 else cut
    if stop - begin > SHOWN:
        begin = max(begin, hit - SHOWN // 2)
        stop = min(stop, begin + SHOWN)
    return HitLine(begin, line, source.copy(begin, stop).rstrip(b"\r"), rules)
