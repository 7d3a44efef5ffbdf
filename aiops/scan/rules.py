"""Rules of a scanner: the catalog's patterns in the form in which engines want them."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable
from dataclasses import dataclass

from aiops.catalog.model import Signal
from aiops.errors import CatalogError

_QUANTIFIER = re.compile(r"(?:[*+?]|\{\d*,?\d*\})\??")
_NON_FINITE = re.compile(r"\bnan\b", re.I)
_GROUP = re.compile(r"\((?:\?P<\w+>|\?:)?")


@dataclass(frozen=True, slots=True)
class Rule:
    """One pattern of one signal."""

    id: int
    signal: Signal
    pattern: int
    """Index into ``signal.match``."""
    scan: str
    """The pattern without its open end: the engine only has to find the line."""


class RuleSet:
    """All rules of a run, with a fingerprint that names compiled databases."""

    def __init__(self, signals: Iterable[Signal]) -> None:
        self.rules: list[Rule] = []
        for signal in signals:
            for number, pattern in enumerate(signal.match):
                self.rules.append(Rule(len(self.rules), signal, number, trim_tail(pattern)))
        self.ordinary = frozenset(
            rule.id for rule in self.rules if rule.signal.detector == "numerics" and not _NON_FINITE.search(rule.scan)
        )
        """Rules that hit ordinary progress lines; the storm guard thins them out by count alone."""
        text = "\x00".join(rule.scan for rule in self.rules)
        self.fingerprint = hashlib.sha256(text.encode()).hexdigest()[:24]

    def __len__(self) -> int:
        return len(self.rules)


def trim_tail(pattern: str) -> str:
    """Drop what a pattern may match beyond the first point where it has matched.

    Engines report every end of a match, so ``error: [^\\n]{0,80}`` would cost 80 reports a line.
    The lines that match stay the same.
    """
    parts = _parts(pattern)
    if any(atom == "|" for atom, _ in parts):
        return pattern
    while parts:
        atom, quantifier = parts[-1]
        least = _least(quantifier)
        if atom in ("$", "^") or atom.startswith("\\b"):
            break
        if least == 0:
            parts.pop()
            continue
        if quantifier:
            parts[-1] = (atom, "" if least == 1 else f"{{{least}}}")
            if least > 1:
                break
            continue
        opened = _GROUP.match(atom)
        if opened is None:
            break
        inner = atom[opened.end() : -1]
        if any(a == "|" for a, _ in _parts(inner)):
            break
        parts[-1:] = _parts(inner)
    return "".join(atom + quantifier for atom, quantifier in parts) or pattern


def _parts(pattern: str) -> list[tuple[str, str]]:
    """The top level of a pattern as (atom, quantifier) pairs."""
    parts = []
    i = 0
    while i < len(pattern):
        end = _atom_end(pattern, i)
        match = _QUANTIFIER.match(pattern, end)
        quantifier = match[0] if match else ""
        parts.append((pattern[i:end], quantifier))
        i = end + len(quantifier)
    return parts


def _atom_end(pattern: str, i: int) -> int:
    if pattern[i] == "\\":
        return i + 2
    if pattern[i] == "[":
        return _class_end(pattern, i)
    if pattern[i] != "(":
        return i + 1
    depth = 0
    while i < len(pattern):
        char = pattern[i]
        if char == "\\":
            i += 2
            continue
        if char == "[":
            i = _class_end(pattern, i)
            continue
        depth += (char == "(") - (char == ")")
        i += 1
        if depth == 0:
            return i
    raise CatalogError(f"unbalanced parenthesis in {pattern!r}")


def _class_end(pattern: str, i: int) -> int:
    j = i + 1
    if pattern[j : j + 1] == "^":
        j += 1
    if pattern[j : j + 1] == "]":
        j += 1
    while j < len(pattern):
        if pattern[j] == "\\":
            j += 2
            continue
        if pattern[j] == "]":
            return j + 1
        j += 1
    raise CatalogError(f"unbalanced bracket in {pattern!r}")


def _least(quantifier: str) -> int:
    if not quantifier:
        return 1
    if quantifier[0] in "*?":
        return 0
    if quantifier[0] == "+":
        return 1
    return int(quantifier[1:].rstrip("?}").split(",")[0] or 0)
