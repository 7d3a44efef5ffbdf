"""Rules of a scanner: the catalog's patterns in the form in which engines want them."""

from __future__ import annotations

import contextlib
import hashlib
import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import orjson

from aiops.catalog.model import Signal
from aiops.scan.cache import write_atomically
from aiops.scan.literals import Literals, choose, is_literal, literal_sets, shortened
from aiops.scan.ordinary import LINES, TEXT
from aiops.scan.syntax import GROUP, begins_line, least, parts_of

_NON_FINITE = re.compile(r"\bnan\b", re.I)
_VERSION = "4"
_SLACK = 2
"""Examples more that a shorter text may stand in, if it does the work of several literals."""


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
    """If set, the engine looks for these literals."""
    exact: bool
    """True if a line with such a literal matches; otherwise ``scan`` is asked about it."""


@dataclass(frozen=True)
class Program:
    """What a scanner needs of its rules; small enough to send to another process."""

    size: int
    """Number of rules; their ids run from 0."""
    finds: tuple[tuple[str, tuple[int, ...]], ...]
    """(expression, rule ids that it speaks for) for the engine; a rule may have several, and share them."""
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
        text = "\x00".join(expression for expression, _ in self.finds)
        return hashlib.sha256(text.encode()).hexdigest()[:24]


class RuleSet:
    """All rules of a run."""

    def __init__(self, signals: Iterable[Signal], cache_dir: Path | None = None) -> None:
        """``cache_dir`` keeps the choice of cores, which depends on all signals together."""
        signals = tuple(signals)
        forms, ordinary = _kept_forms(signals, cache_dir)
        patterns = [(signal, number) for signal in signals for number in range(len(signal.match))]
        self.rules: list[Rule] = [
            Rule(rule, signal, number, scan, tuple(core) if core else None, exact)
            for rule, ((signal, number), (scan, core, exact)) in enumerate(zip(patterns, forms, strict=True))
        ]
        self.ordinary = frozenset(ordinary)

    def __len__(self) -> int:
        return len(self.rules)

    @cached_property
    def program(self) -> Program:
        """The rules without the catalog's words."""
        speaks: dict[str, list[int]] = {}
        for rule in self.rules:
            for expression in [re.escape(text) for text in rule.core] if rule.core else [rule.scan]:
                speaks.setdefault(expression, []).append(rule.id)
        return Program(
            size=len(self.rules),
            finds=tuple((expression, tuple(owners)) for expression, owners in speaks.items()),
            confirm={rule.id: rule.scan for rule in self.rules if rule.core and not rule.exact},
            anchored=frozenset(rule.id for rule in self.rules if begins_line(rule.scan)),
            ordinary=self.ordinary,
            names={
                rule.id: f"{rule.signal.file}: signal {rule.signal.id!r}: {rule.signal.match[rule.pattern]!r}"
                for rule in self.rules
            },
        )


Forms = list[tuple[str, list[str] | None, bool]]
"""For each pattern what `Rule.scan`, `Rule.core` and `Rule.exact` say."""


def _kept_forms(signals: tuple[Signal, ...], cache_dir: Path | None) -> tuple[Forms, list[int]]:
    if cache_dir is None:
        return _forms(signals)
    text = "\x00".join((_VERSION, TEXT, *(part for s in signals for part in (*s.match, "\x01", *s.examples))))
    path = cache_dir / f"rules-{hashlib.sha256(text.encode()).hexdigest()[:24]}.json"
    with contextlib.suppress(OSError, ValueError, TypeError):
        forms, ordinary = orjson.loads(path.read_bytes())
        if len(forms) == sum(len(signal.match) for signal in signals):
            return forms, ordinary
    forms, ordinary = _forms(signals)
    write_atomically(path, orjson.dumps((forms, ordinary)))
    return forms, ordinary


def _forms(signals: tuple[Signal, ...]) -> tuple[Forms, list[int]]:
    scans = [trim_tail(pattern) for signal in signals for pattern in signal.match]
    words = _Words("\n".join(example for signal in signals for example in signal.examples))
    cores = [words.core_of(scan) for scan in scans]
    ordinary = [
        number
        for number, (scan, core) in enumerate(zip(scans, cores, strict=True))
        if not core and words.is_ordinary(scan)
    ]
    forms = [
        (scan, list(core) if core else None, core is not None and is_literal(scan))
        for scan, core in zip(scans, cores, strict=True)
    ]
    return forms, ordinary


class _Words:
    """How often texts stand in ordinary lines and in the lines that other rules are for."""

    def __init__(self, examples: str) -> None:
        self._examples = examples
        self._ordinary: dict[str, int] = {}
        self._failing: dict[str, int] = {}

    def core_of(self, pattern: str) -> Literals | None:
        """The literals to look for instead of the whole pattern, ``None`` if ordinary lines have each of them.

        An engine that knows nothing but literals passes over ordinary lines twice as fast as one that follows gaps
        (``[^\\n]{0,80}``) and begins of patterns (``rank ``, ``loss``). If every match contains a word that ordinary
        lines do not have, that word is looked for, and only the few lines that have it are asked for the rest.
        """
        core: list[str] = []
        exact = is_literal(pattern)
        for sets in literal_sets(pattern):
            chosen = choose(sets, self._cost)
            if chosen is None or self._seen(chosen):
                return None
            core += chosen if exact else self._shortened(chosen)
        return tuple(dict.fromkeys(core))

    def _shortened(self, literals: Literals) -> Literals:
        most = self._shared(literals) + _SLACK
        return shortened(literals, lambda fewer: not self._seen(fewer) and self._shared(fewer) <= most)

    def is_ordinary(self, pattern: str) -> bool:
        """True if lines of healthy runs match, such as progress lines."""
        if _NON_FINITE.search(pattern):
            return False
        # without a word of ordinary lines it cannot match one
        if all(sets and not min(map(self._seen, sets)) for sets in literal_sets(pattern)):
            return False
        regex = re.compile(pattern)
        return any(regex.search(line) for line in LINES)

    def _cost(self, literals: Literals) -> tuple[int, int, int, int]:
        return self._seen(literals), self._shared(literals), -min(*map(len, literals), 12), len(literals)

    def _seen(self, literals: Literals) -> int:
        return sum(_count(self._ordinary, TEXT, text) for text in literals)

    def _shared(self, literals: Literals) -> int:
        return sum(_count(self._failing, self._examples, text) for text in literals)


def _count(known: dict[str, int], where: str, text: str) -> int:
    if text not in known:
        known[text] = where.count(text)
    return known[text]


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
