"""From a file to its hit lines: blocks cut at newlines, exact line numbers, storms counted instead of stored."""

from __future__ import annotations

import mmap
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from aiops.scan.engine import Engine
from aiops.scan.rules import RuleSet
from aiops.scan.storm import StormGuard

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
        guard = StormGuard(self._keep)
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
        yield from guard.rest()

    def _hits(self, block: bytes, base: int, line: int, line_start: int, data: bytes | mmap.mmap, size: int,
              guard: StormGuard) -> Iterator[HitLine]:
        """``line`` and ``line_start`` belong to the first byte of the block."""
        counted = 0
        begin = -1
        finish = -1
        current: HitLine | None = None
        seen: set[int] = set()
        for rule, end in self._engine.scan(block):
            if end > finish or current is None:
                if current is not None and current.rules:
                    yield current
                # a match may end behind the newline when the rule ends with one; look from its last byte
                begin = block.rfind(b"\n", 0, max(0, end - 1)) + 1
                finish = block.find(b"\n", max(begin, end - 1))
                finish = len(block) if finish < 0 else finish
                line += block.count(b"\n", counted, begin)
                counted = begin
                begin_in_file = line_start if begin == 0 else base + begin
                current = HitLine(begin_in_file, line, b"", [])
                seen = set()
            if rule in seen:
                continue
            seen.add(rule)
            weight = guard.weigh(rule, line, block[max(begin, end - 48):end])
            if weight:
                if not current.text:
                    current.offset, current.text = _shown(data, size, current.offset, base + end, base + finish)
                current.rules.append((rule, weight))
            elif guard.wants_last(rule):
                offset, text = _shown(data, size, current.offset, base + end, base + finish)
                guard.keep_last(rule, HitLine(offset, line, text, [(rule, 1)]))
        if current is not None and current.rules:
            yield current


def _shown(data: bytes | mmap.mmap, size: int, begin: int, hit: int, known_end: int) -> tuple[int, bytes]:
    """The part of a line that is handed out: all of it, or a window around the hit."""
    stop = data.find(b"\n", known_end, min(size, known_end + SHOWN)) if known_end < size else size
    stop = min(size, known_end + SHOWN) if stop < 0 else stop
    if stop - begin > SHOWN:
        begin = max(begin, hit - SHOWN // 2)
        stop = min(stop, begin + SHOWN)
    return begin, data[begin:stop].rstrip(b"\r")
