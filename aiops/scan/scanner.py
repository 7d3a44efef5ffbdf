"""From a file to its hit lines: blocks cut at newlines, exact line numbers, storms counted instead of stored."""

from __future__ import annotations

import mmap
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from aiops.scan.engine import Engine
from aiops.scan.rules import RuleSet
from aiops.scan.storm import Place, StormGuard

BLOCK = 1 << 20
"""Bytes looked at in one go; a longer line is cut there and goes on in the next block."""
SHOWN = 8192
"""Bytes of a hit line that are handed out."""


@dataclass(slots=True)
class HitLine:
    """A line that at least one rule matches."""

    offset: int
    """Byte offset of the line in the file (of the shown part, if the line is longer than `SHOWN`)."""
    line: int
    """Line number, from 1."""
    text: bytes
    """The line without its newline, at most `SHOWN` bytes around the hit."""
    rules: list[tuple[int, int]]
    """(rule id, lines that this one stands for): above 1 if the storm guard thinned the rule out."""


class Scanner:
    """Scans files with one rule set and one engine."""

    def __init__(self, rules: RuleSet, engine: Engine, *, keep: int | None = 2_000, block: int = BLOCK) -> None:
        """``keep`` bounds the hits handed out one by one for a rule in a file; ``None`` hands out all."""
        self.rules = rules
        self._engine = engine
        self._keep = keep
        self._block = block
        self.lines = 0
        """Lines of the file scanned last, once its generator is exhausted."""

    def scan_file(self, path: Path) -> Iterator[HitLine]:
        """Hit lines of a file in order. Memory does not grow with the file.

        Raises:
            OSError: the file cannot be read.
        """
        with open(path, "rb") as handle:
            handle.seek(0, 2)
            size = handle.tell()
            self.lines = 0
            if size == 0:
                return
            with mmap.mmap(handle.fileno(), 0, access=mmap.ACCESS_READ) as data:
                yield from self._scan(data, size)

    def scan_bytes(self, data: bytes) -> Iterator[HitLine]:
        """Hit lines of text in memory."""
        yield from self._scan(data, len(data))

    def _scan(self, data: bytes | mmap.mmap, size: int) -> Iterator[HitLine]:
        guard = StormGuard(self._keep, self.rules.ordinary)
        start, line, line_start = 0, 1, 0
        while start < size:
            stop = min(size, start + self._block)
            if stop < size:
                cut = data.rfind(b"\n", start, stop)
                stop = cut + 1 if cut >= 0 else stop
            block = data[start:stop]
            yield from self._hits(block, start, line, line_start, data, size, guard)
            newlines = block.count(b"\n")
            if newlines:
                line += newlines
                line_start = start + block.rfind(b"\n") + 1
            start = stop
        self.lines = line - (line_start >= size)
        for rule, weight, place in guard.rest(data):
            yield _hit_line(data, size, place, [(rule, weight)])

    def _hits(
        self, block: bytes, base: int, line: int, line_start: int, data: bytes | mmap.mmap, size: int, guard: StormGuard
    ) -> Iterator[HitLine]:
        """``line`` and ``line_start`` belong to the first byte of the block."""
        counted = 0
        finish = -1
        offset = line_start
        found: list[tuple[int, int]] = []
        first_end = 0
        seen: set[int] = set()
        weigh, skip, ordinary, first_line = guard.weigh, guard.skip, self.rules.ordinary, line
        for rule, end in self._engine.scan(block):
            if rule in ordinary and skip(rule, base, first_line, end):
                continue
            if end > finish:
                if found:
                    yield _hit_line(data, size, (offset, line, base + first_end, base + finish), found)
                    found = []
                # a match may end behind the newline when the rule ends with one; look from its last byte
                begin = block.rfind(b"\n", 0, max(0, end - 1)) + 1
                finish = block.find(b"\n", max(begin, end - 1))
                if finish < 0:
                    finish = len(block)
                line += block.count(b"\n", counted, begin)
                counted = begin
                offset = base + begin if begin else line_start
                seen.clear()
            elif rule in seen:
                continue
            seen.add(rule)
            weight = weigh(rule, block, end, (offset, line, base + end, base + finish))
            if weight:
                if not found:
                    first_end = end
                found.append((rule, weight))
        if found:
            yield _hit_line(data, size, (offset, line, base + first_end, base + finish), found)


def _hit_line(data: bytes | mmap.mmap, size: int, place: Place, rules: list[tuple[int, int]]) -> HitLine:
    """The part of a line that is handed out: all of it, or a window around the hit."""
    begin, line, hit, end = place
    stop = size
    if end < size:
        stop = data.find(b"\n", end, min(size, end + SHOWN))
        stop = min(size, end + SHOWN) if stop < 0 else stop
    if stop - begin > SHOWN:
        begin = max(begin, hit - SHOWN // 2)
        stop = min(stop, begin + SHOWN)
    return HitLine(begin, line, data[begin:stop].rstrip(b"\r"), rules)
