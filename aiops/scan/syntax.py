"""The syntax of patterns, as far as the scanner has to know it."""

from __future__ import annotations

import re
from functools import lru_cache

from aiops.errors import CatalogError

QUANTIFIER = re.compile(r"(?:[*+?]|\{\d*,?\d*\})\??")
GROUP = re.compile(r"\((?:\?P<\w+>|\?:|(?!\?))")
"""How a group opens whose content is a pattern like any other; ``(?i:`` is not one."""


def parts_of(pattern: str) -> list[tuple[str, str]]:
    """The top level of a pattern as (atom, quantifier) pairs."""
    return list(_parts_of(pattern))


@lru_cache(maxsize=1 << 15)
def _parts_of(pattern: str) -> tuple[tuple[str, str], ...]:
    parts: list[tuple[str, str]] = []
    i = 0
    while i < len(pattern):
        end = _atom_end(pattern, i)
        match = QUANTIFIER.match(pattern, end)
        quantifier = match[0] if match else ""
        parts.append((pattern[i:end], quantifier))
        i = end + len(quantifier)
    return tuple(parts)


def alternatives(pattern: str) -> list[list[tuple[str, str]]]:
    """The branches of a pattern at its top level, each as (atom, quantifier) pairs."""
    found: list[list[tuple[str, str]]] = [[]]
    for atom, quantifier in parts_of(pattern):
        if atom == "|":
            found.append([])
        else:
            found[-1].append((atom, quantifier))
    return found


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


def least(quantifier: str) -> int:
    """How often a quantified atom must stand at least."""
    if not quantifier:
        return 1
    if quantifier[0] in "*?":
        return 0
    if quantifier[0] == "+":
        return 1
    return int(quantifier[1:].rstrip("?}").split(",")[0] or 0)


def begins_line(pattern: str) -> bool:
    """True if a ``^`` anywhere in the pattern asks for the beginning of the line."""
    return "^" in pattern and any(
        atom == "^" or (opened is not None and begins_line(atom[opened.end() : -1]))
        for atom, _ in parts_of(pattern)
        for opened in [GROUP.match(atom)]
    )
