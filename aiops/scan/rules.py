"""Rules of a scanner: the catalog's patterns in the form in which engines want them."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache

from aiops.catalog.model import Signal
from aiops.scan.literals import Literals, choose, literal_sets
from aiops.scan.ordinary import LINES, TEXT
from aiops.scan.syntax import GROUP, least, parts_of

_NON_FINITE = re.compile(r"\bnan\b", re.I)
_TELLING = 5
"""Characters that a literal needs to be looked for alone."""
_RARE = 8
"""Characters that make a literal rare enough even if it saves only a gap."""
_GAP = re.compile(r"[\])\w.][*+]|\{\d*,\d*\}")


@dataclass(frozen=True, slots=True)
class Rule:
    """One pattern of one signal."""

    id: int
    signal: Signal
    pattern: int
    """Index into ``signal.match``."""
    scan: str
    """The pattern without its open end: the engine only has to find the line."""
    core: Literals | None
    """If set, the engine looks for these literals, and ``scan`` is asked about the lines that have one."""


@dataclass(frozen=True)
class Program:
    """What a scanner needs of its rules; small enough to send to another process."""

    size: int
    """Number of rules; their ids run from 0."""
    finds: tuple[tuple[str, int], ...]
    """(expression, rule id) for the engine; a rule may have several."""
    confirm: dict[int, str]
    """Rules whose expressions find too much: the pattern that decides about a line."""
    anchored: frozenset[int]
    """Rules that look at the beginning of the line."""
    ordinary: frozenset[int]
    """Rules that hit ordinary progress lines; the storm guard thins them out by count alone."""
    names: dict[int, str]
    """For messages: file, signal and pattern of each rule."""

    @property
    def fingerprint(self) -> str:
        """Names compiled databases."""
        text = "\x00".join(f"{rule}:{expression}" for expression, rule in self.finds)
        return hashlib.sha256(text.encode()).hexdigest()[:24]


class RuleSet:
    """All rules of a run."""

    def __init__(self, signals: Iterable[Signal]) -> None:
        self.rules: list[Rule] = []
        for signal in signals:
            for number, pattern in enumerate(signal.match):
                scan = trim_tail(pattern)
                self.rules.append(Rule(len(self.rules), signal, number, scan, core_of(scan)))
        self.ordinary = frozenset(rule.id for rule in self.rules if _is_ordinary(rule))

    def __len__(self) -> int:
        return len(self.rules)

    @property
    def program(self) -> Program:
        """The rules without the catalog's words."""
        return Program(
            size=len(self.rules),
            finds=tuple(
                (expression, rule.id)
                for rule in self.rules
                for expression in ([re.escape(text) for text in rule.core] if rule.core else [rule.scan])
            ),
            confirm={rule.id: rule.scan for rule in self.rules if rule.core},
            anchored=frozenset(rule.id for rule in self.rules if not rule.core and "^" in rule.scan),
            ordinary=self.ordinary,
            names={
                rule.id: f"{rule.signal.file}: signal {rule.signal.id!r}: {rule.signal.match[rule.pattern]!r}"
                for rule in self.rules
            },
        )


def _is_ordinary(rule: Rule) -> bool:
    """True if lines of healthy runs hit it, such as progress lines."""
    if rule.core or _NON_FINITE.search(rule.scan):
        return False
    # without a word of ordinary lines it cannot hit one
    if all(sets and not _seen(choose(sets, _cost) or ()) for sets in literal_sets(rule.scan)):
        return False
    regex = re.compile(rule.scan)
    return any(regex.search(line) for line in LINES)


def core_of(pattern: str) -> Literals | None:
    """The literals to look for instead of the whole pattern, if that is cheaper.

    An engine that begins with a word of ordinary lines (``rank ``, ``loss``) wakes up on each of them. If every match
    also contains a word that ordinary lines do not have, looking for that one costs next to nothing, and only the
    few lines that have it are asked for the rest. The same goes for gaps (``[^\\n]{0,80}``), which an engine follows
    byte by byte and compiles slowly.
    """
    core: list[str] = []
    costly = False
    shortest = _RARE
    for sets in literal_sets(pattern):
        chosen = choose(sets, _cost)
        if chosen is None or _seen(chosen) or min(map(len, chosen)) < _TELLING:
            return None
        costly = costly or any(_seen(literals) for literals in sets)
        shortest = min(shortest, *map(len, chosen))
        core += chosen
    if costly or (shortest >= _RARE and _GAP.search(pattern)):
        return tuple(dict.fromkeys(core))
    return None


@lru_cache(maxsize=1 << 14)
def _times(text: str) -> int:
    return TEXT.count(text)


def _seen(literals: Literals) -> int:
    return sum(map(_times, literals))


def _cost(literals: Literals) -> tuple[int, int, int]:
    return (_seen(literals), -min(*map(len, literals), 12), len(literals))


def trim_tail(pattern: str) -> str:
    """Drop what a pattern may match beyond the first point where it has matched.

    Engines report every end of a match, so ``error: [^\\n]{0,80}`` would cost 80 reports a line.
    The lines that match stay the same.
    """
    parts = parts_of(pattern)
    if any(atom == "|" for atom, _ in parts):
        return pattern
    while parts:
        atom, quantifier = parts[-1]
        times = least(quantifier)
        if atom in ("$", "^") or atom.startswith("\\b"):
            break
        if times == 0:
            parts.pop()
            continue
        if quantifier:
            parts[-1] = (atom, "" if times == 1 else f"{{{times}}}")
            if times > 1:
                break
            continue
        opened = GROUP.match(atom)
        if opened is None:
            break
        inner = atom[opened.end() : -1]
        if any(a == "|" for a, _ in parts_of(inner)):
            break
        parts[-1:] = parts_of(inner)
    return "".join(atom + quantifier for atom, quantifier in parts) or pattern
