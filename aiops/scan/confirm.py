"""Asks rules about lines that hold a word of theirs."""

from __future__ import annotations

import re
from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]

_TEXTS = 8
"""Texts of a rule that are remembered."""
_LONGEST = 400
"""Bytes of such a text."""


class Confirmation:
    """Rules that the engine finds by a literal alone, each with the pattern that decides.

    A storm repeats the same words with another time, so a text that matched is compared before its pattern is asked: the
    same bytes with the same neighbours match again, wherever in a line they stand.
    """

    def __init__(self, patterns: Mapping[int, str]) -> None:
        self._patterns = patterns
        self._regexes: dict[int, re.Pattern[bytes]] = {}
        self._texts: dict[int, list[tuple[int, bytes]]] = {}

    def forget(self) -> None:
        """Forget the texts: answers must not depend on what was scanned before a range."""
        self._texts.clear()

    def ends(self, buffer: bytes | bytearray, size: int, rules: Ints, ends: Ints) -> Ints:
        """Where each rule's match ends in the line whose byte before ``ends`` the engine has named; 0 if it has none.

        ``buffer`` holds ``size`` valid bytes.
        """
        known = self._texts
        answers = []
        for rule, end in zip(rules.tolist(), ends.tolist(), strict=True):
            for ahead, text in known.get(rule, ()):
                start = end - ahead
                if start >= 0 and buffer.startswith(text, start, size):
                    answers.append(start + len(text) - 1)
                    break
            else:
                answers.append(self._ask(buffer, size, rule, end))
        return np.array(answers, dtype=np.int64)

    def _ask(self, buffer: bytes | bytearray, size: int, rule: int, end: int) -> int:
        regex = self._regexes.get(rule)
        if regex is None:
            # MULTILINE lets ^ match behind the newline before the line, which is asked in place
            regex = self._regexes[rule] = re.compile(self._patterns[rule].encode(), re.MULTILINE)
        stop = buffer.find(b"\n", end - 1, size)
        match = regex.search(buffer, buffer.rfind(b"\n", 0, end - 1) + 1, size if stop < 0 else stop)
        if match is None:
            return 0
        first, last = match.span()
        if 0 < first < last < size and last - first < _LONGEST and first < end:
            texts = self._texts.setdefault(rule, [])
            if len(texts) < _TEXTS:
                texts.append((end - first + 1, bytes(buffer[first - 1 : last + 1])))
        return last
