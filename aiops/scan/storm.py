"""Thin out rules that hit again and again, without losing a count or anything new."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from aiops.scan.scanner import HitLine

_NOVEL = 2_000
"""Different texts of a rule that are kept although the rule is being thinned out."""


class StormGuard:
    """Decides which hits of a rule are handed out.

    The first ``keep`` hits of a rule pass. After that every second one, then every fourth, and so on, so that a
    long run keeps its shape; a text not seen before passes as well, so that one odd line in a storm is not lost.
    Every hit handed out stands for itself and the ones held back before it, so counts add up.
    """

    def __init__(self, keep: int | None) -> None:
        self._keep = keep
        self._passed: dict[int, int] = {}
        self._held: dict[int, int] = {}
        self._texts: dict[int, set[bytes]] = {}
        self._last: dict[int, HitLine] = {}

    def weigh(self, rule: int, _line: int, text: bytes) -> int:
        """Lines that this hit stands for, or 0 if it is held back."""
        if self._keep is None:
            return 1
        passed = self._passed.get(rule, 0)
        texts = self._texts.get(rule)
        if passed < self._keep:
            self._passed[rule] = passed + 1
            if texts is None:
                texts = self._texts[rule] = set()
            if len(texts) < _NOVEL:
                texts.add(text)
            return 1
        held = self._held.get(rule, 0) + 1
        stride = 2 << min(40, (passed - self._keep) * 2 // self._keep)
        novel = texts is not None and len(texts) < _NOVEL and text not in texts
        if novel and texts is not None:
            texts.add(text)
        if held >= stride or novel:
            self._passed[rule] = passed + 1
            self._held[rule] = 0
            self._last.pop(rule, None)
            return held
        self._held[rule] = held
        return 0

    def wants_last(self, rule: int) -> bool:
        """True now and then while hits are held back, so that the end of a storm is known without keeping all."""
        held = self._held.get(rule, 0)
        return held & (held - 1) == 0 or held % 64 == 0

    def keep_last(self, rule: int, hit: HitLine) -> None:
        """Remember a held-back hit in case it is the last one."""
        self._last[rule] = hit

    def rest(self) -> Iterator[HitLine]:
        """At the end of a file: the last hit of each rule that still holds some back."""
        for rule in sorted(self._last):
            held = self._held.get(rule, 0)
            if held:
                hit = self._last[rule]
                hit.rules = [(rule, held)]
                yield hit
