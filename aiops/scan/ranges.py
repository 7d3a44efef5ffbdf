"""Cut files into ranges of lines, the same for one process and for many."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

RANGE = 16 << 20
"""Most bytes of a range, up to the next newline; a file's ranges are about equal."""
_CHUNK = 1 << 16
_LONGEST = 8 << 20
"""How far the end of a line is looked for; a longer line's file is one range from there on."""


class Range(NamedTuple):
    """A part of a file that begins at a line and ends behind one."""

    start: int
    stop: int
    number: int
    of: int
    """Ranges of the whole file, by its size."""


def ranges_of(path: Path, span: int = RANGE) -> Iterator[Range]:
    """The ranges of a file in order; none if it is empty.

    Raises:
        OSError: the file cannot be read.
    """
    with open(path, "rb", buffering=0) as handle:
        size = os.fstat(handle.fileno()).st_size
        count = max(1, -(-size // span))
        start = number = 0
        while start < size:
            stop = _line_end(handle.fileno(), max(start + 1, size * (number + 1) // count), size)
            yield Range(start, stop, number, count)
            start = stop
            number += 1


def line_end(path: Path, at: int, stop: int) -> int:
    """Offset behind the first newline at or behind ``at - 1``, at most ``stop``.

    Raises:
        OSError: the file cannot be read.
    """
    with open(path, "rb", buffering=0) as handle:
        return min(stop, _line_end(handle.fileno(), at, stop))


def _line_end(descriptor: int, at: int, size: int) -> int:
    """Offset behind the first newline at or behind ``at - 1``, or the end of the file."""
    if at >= size:
        return size
    seen = at - 1
    while seen < min(size, at + _LONGEST):
        chunk = os.pread(descriptor, _CHUNK, seen)
        cut = chunk.find(b"\n")
        if cut >= 0:
            return seen + cut + 1
        if not chunk:
            break
        seen += len(chunk)
    return size
