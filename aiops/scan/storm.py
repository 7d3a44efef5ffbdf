"""Thin out rules that hit again and again, without losing a count or anything new."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from aiops.scan.scanner import Pairs

Ints = NDArray[np.int64]

_NOVEL = 2_000
"""Different texts of a rule that are kept although the rule is being thinned out."""
ORDINARY = 256
"""Hits of a file kept one by one for a rule that hits ordinary lines, such as progress lines."""
_LEAST = 32
_SPARSE = 16
"""At least so many lines of an ordinary rule are kept one by one in each range, before it is thinned out."""
_TEXT = 48
"""Bytes before the end of a hit that make its text."""
_MIX = np.random.Generator(np.random.PCG64(1)).integers(1, 1 << 63, _TEXT, dtype=np.uint64) | np.uint64(1)


class StormGuard:
    """Decides which hits of a rule are handed out in one range of a file.

    The first ``keep`` hits of a rule pass. Of the next ``keep`` every second one passes, of the ``2 * keep`` behind
    them every fourth, and so on, so that a long run keeps its shape; a text not seen before passes as well, so that one
    odd line in a storm is not lost. Every hit handed out stands for itself and the ones held back before it, so counts
    add up; the last one is never lost. All this depends on the hits alone, never on blocks or processes.
    """

    def __init__(self, size: int, keep: int, ordinary: frozenset[int], ranges: int = 1, few: int = ORDINARY) -> None:
        """``size`` rules; ``ordinary`` are rules whose text differs on every line anyway (numbers), so that novelty says
        nothing, and keep ``few``; both budgets are shared by the ``ranges`` of a file."""
        self._limit = np.full(size, max(min(keep, _LEAST), keep // ranges), dtype=np.int64)
        self._ordinary = np.zeros(size, dtype=bool)
        self._ordinary[list(ordinary)] = True
        few = max(_SPARSE, few // ranges)
        self._limit[self._ordinary] = np.minimum(self._limit[self._ordinary], few)
        self._novel = max(_LEAST, _NOVEL // ranges)
        self._seen = np.zeros(size, dtype=np.int64)
        self._stood = np.zeros(size, dtype=np.int64)
        self._lines = np.zeros(size, dtype=np.int64)
        self._ends = np.zeros(size, dtype=np.int64)
        self._texts: dict[int, set[int]] = {}

    def weigh(self, found: Pairs) -> Ints:
        """For each hit, in the order of their lines, the number of lines that it stands for, 0 if it is held back."""
        rules = found.rules
        counts = np.bincount(rules, minlength=len(self._seen))
        total = self._seen + counts
        if not (total > self._limit)[rules].any():
            self._seen = total
            self._stood += counts
            return np.ones(len(rules), dtype=np.int64)
        order = np.argsort(rules, kind="stable")
        rule = rules[order]
        first = np.flatnonzero(np.r_[True, rule[1:] != rule[:-1]])
        number = np.arange(len(rule)) - np.repeat(first, np.diff(np.r_[first, len(rule)])) + self._seen[rule]
        limit = self._limit[rule]
        over = np.maximum(number - limit, 0)
        step = np.left_shift(2, np.minimum(40, np.log2(over // limit + 1).astype(np.int64)))
        passes = (number < limit) | ((over + 1) % step == 0)
        odd = np.flatnonzero(~passes & ~self._ordinary[rule])
        if len(odd):
            block = np.frombuffer(found.block.buffer, dtype=np.uint8, count=found.block.size)
            passes[odd] = self._new(rule[odd], found.ends[order[odd]], block)
        chosen = np.flatnonzero(passes)
        weights = np.zeros(len(rules), dtype=np.int64)
        if len(chosen):
            upto = number[chosen] + 1
            owner = rule[chosen]
            same = np.r_[False, owner[1:] == owner[:-1]]
            weights[order[chosen]] = upto - np.where(same, np.r_[0, upto[:-1]], self._stood[owner])
            self._stood[owner] = upto  # of a rule's several values the last one stays
        self._seen = total
        self._lines[rule] = found.lines[order]
        self._ends[rule] = found.ends[order] + found.block.base
        return weights

    def _new(self, rules: Ints, ends: Ints, block: NDArray[np.uint8]) -> NDArray[np.bool_]:
        """True for hits whose text their rule has not had while it was thinned out."""
        at = np.maximum(ends[:, None] - np.arange(_TEXT, 0, -1), 0)
        keys = (block[at].astype(np.uint64) * _MIX).sum(axis=1, dtype=np.uint64) ^ rules.astype(np.uint64)
        found = np.zeros(len(rules), dtype=bool)
        _, firsts = np.unique(keys, return_index=True)
        for i, rule, key in zip(firsts.tolist(), rules[firsts].tolist(), keys[firsts].tolist(), strict=True):
            texts = self._texts.setdefault(rule, set())
            if key not in texts and len(texts) < self._novel:
                texts.add(key)
                found[i] = True
        return found

    def rest(self) -> Iterator[tuple[int, int, int, int]]:
        """At the end: (rule, lines it stands for, line number, end of the hit in the file) of the last hit of each rule that
        still holds some back."""
        for rule in np.flatnonzero(self._seen > self._stood).tolist():
            yield rule, int(self._seen[rule] - self._stood[rule]), int(self._lines[rule]), int(self._ends[rule])
