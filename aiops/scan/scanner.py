"""From a file to its hit lines: blocks cut at newlines, exact line numbers, storms counted instead of stored."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple, Protocol

import numpy as np

from aiops.scan.confirm import Confirmation
from aiops.scan.engine import Ends, Engine, Finds
from aiops.scan.lines import LineIndex
from aiops.scan.ranges import Range, ranges_of
from aiops.scan.rules import Program, RuleSet
from aiops.scan.storm import ORDINARY, Ints, StormGuard

BLOCK = 1 << 20
"""Bytes looked at in one go: few enough to stay in the processor's cache, enough to make the work on a block's arrays cheap."""
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
class Block:
    """Some bytes of a file, valid until the next block is asked for."""

    buffer: bytes | bytearray
    """May be longer than the block."""
    size: int
    base: int
    """Offset of its first byte in the file."""


@dataclass(slots=True)
class Pairs:
    """All (line, rule) pairs of one block, in order of line and rule."""

    rules: Ints
    lines: Ints
    """Line numbers, from 1."""
    ends: Ints
    """Where each hit ends in its block: index of the byte behind it."""
    block: Block


class _Bytes(Protocol):
    """Where blocks come from."""

    size: int

    def block(self, start: int, size: int) -> Block:
        """At most ``size`` bytes."""

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
        counts = [len(rules) for _, rules in self.program.finds]
        self._speakers = np.array(counts, dtype=np.int64)
        self._owners = np.array([rule for _, rules in self.program.finds for rule in rules], dtype=np.int64)
        self._first_owner = np.cumsum(self._speakers) - self._speakers
        self._confirm = Confirmation(self.program.confirm)
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
                weights = guard.weigh(found)
                handed = np.flatnonzero(weights)
                if len(handed) < len(weights):
                    found.rules, found.lines, found.ends = found.rules[handed], found.lines[handed], found.ends[handed]
                    weights = weights[handed]
            yield from _lines_of(source, found, weights)
        if guard is not None:
            for rule, weight, line, end in guard.rest():
                yield _far_line(source, line, end, [(rule, weight)])

    def _pairs(self, source: _Bytes, start: int, stop: int) -> Iterator[Pairs]:
        at, line, whole = start, 0, True
        carried: frozenset[int] = frozenset()
        index = LineIndex(min(self._block, max(1, stop - start)))
        self._confirm.forget()
        while at < stop:
            block = source.block(at, min(self._block, stop - at))
            if not block.size:  # the file became shorter while it was read
                break
            last = at + block.size >= stop
            newlines = index.read(block.buffer, block.size)
            if not last and newlines:
                block.size = index.cut()
            partial, whole = not whole, last or bool(newlines)
            ends, finds = self.engine.scan(memoryview(block.buffer)[: block.size])
            if ends:
                found = self._settle(block, index, ends, finds, line, partial, carried)
                if len(found.rules):
                    yield found
                if whole:
                    carried = frozenset()
                else:
                    carried |= frozenset(found.rules.tolist())
            elif whole:
                carried = frozenset()
            line += newlines
            at += block.size if whole else max(1, block.size - OVERLAP)
        self.lines = line + (at > start and not index.ends_with_newline())

    def _settle(
        self,
        block: Block,
        index: LineIndex,
        ends: Ends,
        finds: Finds,
        line: int,
        partial: bool,
        carried: frozenset[int],
    ) -> Pairs:
        """Sort matches into lines, each (line, rule) once, and ask the rules that looked for less than they want.

        ``line`` newlines stand before the block. If it is ``partial``, its first line begins in an earlier block, where
        the rules of ``carried`` have hit it.
        """
        end = np.frombuffer(ends, dtype=np.int64)
        find = np.frombuffer(finds, dtype=np.int64)
        count = self._speakers[find]
        rule = self._owners[self._first_owner[find]]
        if (count > 1).any():
            rule = self._owners[
                np.repeat(self._first_owner[find] - np.cumsum(count) + count, count) + np.arange(count.sum())
            ]
            end = np.repeat(end, count)
        # a match may end behind the newline if the rule ends with one: its last byte decides
        row = index.newlines_before(end - 1)
        first = _firsts(row * self.program.size + rule)
        if first is not None:
            row, rule, end = row[first], rule[first], end[first]
        keep = np.ones(len(row), dtype=bool)
        if partial:
            keep &= (row > 0) | ~(self._anchored[rule] | np.isin(rule, list(carried)))
        asked = np.flatnonzero(self._asked[rule] & keep)
        if len(asked):
            end[asked] = self._confirm.ends(block.buffer, block.size, rule[asked], end[asked])
            keep &= end > 0
        row += line + 1
        return Pairs(rule, row, end, block) if keep.all() else Pairs(rule[keep], row[keep], end[keep], block)


def _firsts(keys: Ints) -> Ints | None:
    """Where each key stands first, in the order of the keys; ``None`` if they are in order and differ."""
    if (keys[1:] > keys[:-1]).all():
        return None
    if len(keys) < 1 << 20 and int(keys.max()) < 1 << 42:
        # one sort of plain numbers costs a third of one that returns places
        packed = np.sort((keys << 20) | np.arange(len(keys)))
        keys = packed >> 20
        first: Ints = packed[np.r_[True, keys[1:] != keys[:-1]]] & ((1 << 20) - 1)
        return first
    return np.unique(keys, return_index=True)[1]


def _lines_of(source: _Bytes, found: Pairs, weights: Ints | None) -> Iterator[HitLine]:
    counts = [1] * len(found.rules) if weights is None else weights.tolist()
    block = found.block
    buffer, base, size = block.buffer, block.base, block.size
    rules, lines, ends = found.rules.tolist(), found.lines.tolist(), found.ends.tolist()
    begin = 0
    while begin < len(rules):
        line, at = lines[begin], ends[begin]
        end = begin + 1
        while end < len(rules) and lines[end] == line:
            end += 1
        hits = list(zip(rules[begin:end], counts[begin:end], strict=True))
        first = buffer.rfind(b"\n", max(0, at - 1 - SHOWN), at - 1) + 1
        stop = buffer.find(b"\n", at - 1, min(size, at + SHOWN))
        if (first == 0 and base) or stop < 0 or stop - first > SHOWN:
            yield _far_line(source, line, base + at, hits)
        else:
            yield HitLine(base + first, line, bytes(buffer[first:stop]).rstrip(b"\r"), hits)
        begin = end


class _File:
    """Blocks of a file in one buffer, so that memory does not grow and a file that shrinks does no harm."""

    def __init__(self, descriptor: int, size: int, block: int) -> None:
        self.size = size
        self._descriptor = descriptor
        self._buffer = bytearray(min(block, max(1, size)))

    def block(self, start: int, size: int) -> Block:
        read = os.preadv(self._descriptor, [memoryview(self._buffer)[:size]], start)
        return Block(self._buffer, read, start)

    def copy(self, start: int, stop: int) -> bytes:
        return os.pread(self._descriptor, max(0, stop - start), start)


class _Text:
    """Blocks of bytes in memory."""

    def __init__(self, data: bytes) -> None:
        self.size = len(data)
        self._data = data

    def block(self, start: int, size: int) -> Block:
        data = self._data[start : start + size]
        return Block(data, len(data), start)

    def copy(self, start: int, stop: int) -> bytes:
        return self._data[start:stop]


def _far_line(source: _Bytes, line: int, end: int, rules: list[tuple[int, int]]) -> HitLine:
    """A line that does not stand in the block at hand, or not all of it: all of it, or a window around the hit that ends
    behind the byte before ``end``."""
    last = end - 1
    before = source.copy(max(0, last - SHOWN), last)
    after = source.copy(last, min(source.size, last + SHOWN))
    begin = last - len(before) + before.rfind(b"\n") + 1
    cut = after.find(b"\n")
    stop = last + (len(after) if cut < 0 else cut)
    if stop - begin > SHOWN:
        begin = max(begin, end - SHOWN // 2)
        stop = min(stop, begin + SHOWN)
    return HitLine(begin, line, source.copy(begin, stop).rstrip(b"\r"), rules)
