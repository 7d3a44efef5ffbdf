"""Which literal text must stand in every line that a pattern matches."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeVar

from aiops.scan.syntax import GROUP, alternatives, least

_MOST = 16
"""Literals that one place of a pattern may branch into."""
_SHORTEST = 3
Part = tuple[str, str]
Literals = tuple[str, ...]
_T = TypeVar("_T")


def literal_sets(pattern: str) -> list[list[Literals]]:
    """For each alternative at the top of ``pattern``: sets of literals, each of which a match must contain one of.

    ``rank \\d+: (?:lost|gone) for good`` gives ``[[("rank ",), (": lost for good", ": gone for good")]]``. An alternative
    without literal text of three characters gives an empty list.
    """
    return [_sets(parts) for parts in alternatives(pattern)]


def choose(sets: Iterable[Literals], cost: Callable[[Literals], _T]) -> Literals | None:
    """The cheapest set, or ``None`` if there is none."""
    return min(sets, key=lambda literals: (cost(literals), literals), default=None)


def _sets(parts: list[Part]) -> list[Literals]:
    found: list[Literals] = []
    run = [""]

    def close() -> None:
        nonlocal run
        if all(len(text) >= _SHORTEST for text in run):
            found.append(tuple(dict.fromkeys(run)))
        run = [""]

    for atom, quantifier in parts:
        if atom in ("^", "$") or atom in ("\\b", "\\B"):
            continue
        if least(quantifier) == 0:
            close()
            continue
        texts = _texts(atom)
        if texts is None:
            close()
            if atom.startswith("("):
                found += _in_group(atom)
            continue
        if len(run) * len(texts) > _MOST:
            close()
        run = [before + text for before in run for text in texts]
        if quantifier:
            close()
    close()
    return found


def _in_group(atom: str) -> list[Literals]:
    """Literals that a group must contain: those of its one branch, or one set of each of its branches together."""
    branches = [_sets(parts) for parts in alternatives(_inner(atom))]
    if len(branches) == 1:
        return branches[0]
    if not all(branches):
        return []
    longest = [max(sets, key=lambda literals: min(map(len, literals))) for sets in branches]
    return [tuple(dict.fromkeys(text for literals in longest for text in literals))]


def _texts(atom: str) -> list[str] | None:
    """All texts that an atom can stand for, if they are few and have no open end."""
    if len(atom) == 1:
        return None if atom in ".|^$" else [atom]
    if atom[0] == "\\":
        return ["\t"] if atom == "\\t" else None if atom[1].isalnum() else [atom[1]]
    if atom[0] == "[":
        body = atom[1:-1]
        plain = len(body) <= 3 and body[0] != "^" and "\\" not in body and "-" not in body[1:-1]
        return list(body) if plain else None
    texts: list[str] = []
    for parts in alternatives(_inner(atom)):
        run = [""]
        for inner, quantifier in parts:
            more = None if quantifier else _texts(inner)
            if more is None or len(run) * len(more) > _MOST:
                return None
            run = [before + text for before in run for text in more]
        texts += run
    return texts if len(texts) <= _MOST else None


def _inner(atom: str) -> str:
    opened = GROUP.match(atom)
    return atom[opened.end() : -1] if opened else ""
