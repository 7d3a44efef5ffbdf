"""Thin out rules that hit again and again, without losing a count or anything new."""

from __future__ import annotations

import mmap
from collections.abc import Iterator

_NOVEL = 2_000
"""Different texts of a rule that are kept although the rule is being thinned out."""
_ORDINARY = 256
"""Hits kept one by one for a rule that hits ordinary lines, such as progress lines."""
Place = tuple[int, int, int, int]
"""(offset of the line, line number, end of the hit, end of the line as far as known), offsets in the file."""


class StormGuard:
    """Decides which hits of a rule are handed out.

    The first ``keep`` hits of a rule pass. After that every second one, then every fourth, and so on, so that a
    long run keeps its shape; a text not seen before passes as well, so that one odd line in a storm is not lost.
    Every hit handed out stands for itself and the ones held back before it, so counts add up; the last one is never lost.
    """

    def __init__(self, keep: int | None, ordinary: frozenset[int]) -> None:
        """``ordinary`` are rules whose text differs on every line anyway (numbers), so that novelty says nothing."""
        self._keep = keep
        self._ordinary = ordinary
        self._passed: dict[int, int] = {}
        self._held: dict[int, int] = {}
        self._texts: dict[int, set[bytes]] = {}
        self._last: dict[int, Place] = {}
        self._tail: dict[int, tuple[int, int, int]] = {}

    def skip(self, rule: int, base: int, line: int, end: int) -> bool:
        """True if a hit of an ordinary rule is held back; decided before anybody looks for its line.

        ``base`` and ``line`` belong to the block, ``end`` counts from ``base``.
        """
        if self._keep is None:
            return False
        keep = min(self._keep, _ORDINARY)
        passed = self._passed.get(rule, 0)
        if passed < keep:
            return False
        held = self._held.get(rule, 0) + 1
        if held >= 2 << min(40, (passed - keep) * 2 // keep):
            return False
        self._held[rule] = held
        self._tail[rule] = (base, line, end)
        return True

    def weigh(self, rule: int, block: bytes, end: int, place: Place) -> int:
        """Lines that this hit stands for, or 0 if it is held back."""
        if self._keep is None:
            return 1
        passed = self._passed.get(rule, 0)
        ordinary = rule in self._ordinary
        keep = min(self._keep, _ORDINARY) if ordinary else self._keep
        if passed < keep:
            self._passed[rule] = passed + 1
            if not ordinary:
                self._texts.setdefault(rule, set()).add(block[max(0, end - 48) : end])
            return 1
        held = self._held.get(rule, 0) + 1
        if held >= 2 << min(40, (passed - keep) * 2 // keep) or (
            not ordinary and self._is_new(rule, block[max(0, end - 48) : end])
        ):
            self._passed[rule] = passed + 1
            self._held[rule] = 0
            return held
        self._held[rule] = held
        self._last[rule] = place
        return 0

    def _is_new(self, rule: int, text: bytes) -> bool:
        texts = self._texts[rule]
        if text in texts or len(texts) >= _NOVEL:
            return False
        texts.add(text)
        return True

    def rest(self, data: bytes | mmap.mmap) -> Iterator[tuple[int, int, Place]]:
        """At the end of a file: (rule, lines it stands for, place) of the last hit of each rule that still holds some back."""
        for rule, (base, line, end) in self._tail.items():
            begin = data.rfind(b"\n", base, base + end - 1) + 1 or base
            stop = data.find(b"\n", base + end)
            self._last[rule] = (
                begin,
                line + data[base:begin].count(b"\n"),
                base + end,
                len(data) if stop < 0 else stop,
            )
        for rule in sorted(self._last):
            held = self._held.get(rule, 0)
            if held:
                yield rule, held, self._last[rule]
