"""Line numbers of the file that a person has, for offsets in the plain text that was made of it."""

from __future__ import annotations

from array import array
from bisect import bisect_right
from pathlib import Path

from aiops.model.case import Case

_STEP = 1 << 16
_KEY = "ingest.lines"


class LineMap:
    """Unwrapped text keeps every record at its byte offset, so only the line numbers differ.

    Either the newlines of the original are counted, or records that span several lines are noted one by one.
    """

    def __init__(self, original: Path) -> None:
        self._original = original
        self._counts = array("q", [0])
        self._starts = array("q")
        self._lines = array("q")
        self.total = 0
        """Lines of the original."""

    def count(self, chunk: bytes, position: int) -> None:
        """Note the newlines of the part of the original that begins at ``position``; parts come in order."""
        end = position + len(chunk)
        at = 0
        while len(self._counts) * _STEP <= end:
            cut = len(self._counts) * _STEP - position
            self.total += chunk.count(b"\n", at, cut)
            self._counts.append(self.total)
            at = cut
        self.total += chunk.count(b"\n", at)

    def note(self, offset: int, line: int) -> None:
        """The record that begins at ``offset`` is told by ``line``."""
        self._starts.append(offset)
        self._lines.append(line)

    def line_at(self, offset: int) -> int:
        """Line number, from 1, of the record at a byte offset."""
        if self._starts:
            return self._lines[max(0, bisect_right(self._starts, offset) - 1)]
        step = min(offset // _STEP, len(self._counts) - 1)
        with open(self._original, "rb") as handle:
            handle.seek(step * _STEP)
            return 1 + self._counts[step] + handle.read(offset - step * _STEP).count(b"\n")


def remember_lines(case: Case, source: int, lines: LineMap) -> None:
    """Keep the map of a source with its case."""
    case.memo.setdefault(_KEY, {})[source] = lines


def line_map(case: Case, source: int) -> LineMap | None:
    """The map of a source; ``None`` if its text is the file itself."""
    found = case.memo.get(_KEY, {}).get(source)
    return found if isinstance(found, LineMap) else None
