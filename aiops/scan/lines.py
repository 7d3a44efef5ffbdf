"""Where the lines of a block begin, as one bit for each byte: counting needs no list of them."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]

_WORD = 64


class LineIndex:
    """Counts newlines of one block after the other; its buffers are made once, since fresh pages cost more than the work."""

    def __init__(self, most: int) -> None:
        """``most`` bytes of the largest block."""
        self._newline = np.zeros(-(-most // _WORD) * _WORD, dtype=bool)
        self._size = 0
        self._words: NDArray[np.uint64] | None = None
        self._before: Ints | None = None

    def read(self, buffer: bytes | bytearray, size: int) -> int:
        """Look at a block; returns its newlines."""
        self._newline[size:] = False
        np.equal(np.frombuffer(buffer, dtype=np.uint8, count=size), 10, out=self._newline[:size])
        self._size, self._words, self._before = size, None, None
        return int(np.count_nonzero(self._newline[:size]))

    def cut(self) -> int:
        """Bytes up to the last newline, which becomes the end of the block; all if it has none."""
        self._size = self._behind_last() or self._size
        return self._size

    def ends_with_newline(self) -> bool:
        """True if the block's last byte is a newline."""
        return bool(self._size and self._newline[self._size - 1])

    def newlines_before(self, places: Ints) -> Ints:
        """How many newlines of the block stand before each index."""
        if self._words is None or self._before is None:
            self._words = np.packbits(self._newline, bitorder="little").view(np.uint64)
            counts = np.bitwise_count(self._words)
            self._before = np.cumsum(counts, dtype=np.int64) - counts
        word = places >> 6
        below = (np.uint64(1) << (places & 63).astype(np.uint64)) - np.uint64(1)
        here: Ints = self._before[word] + np.bitwise_count(self._words[word] & below)
        return here

    def _behind_last(self) -> int:
        span = 512
        while True:
            begin = max(0, self._size - span)
            tail = np.flatnonzero(self._newline[begin : self._size])
            if len(tail):
                return begin + int(tail[-1]) + 1
            if not begin:
                return 0
            span *= 8
