"""Which literal text must stand in every line that a pattern matches."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import product
from typing import TypeVar

from aiops.scan.syntax import GROUP, alternatives, least

_MOST = 32
"""Literals that one place of a pattern may branch into."""
_SHORTEST = 3
_TELLING = 6
"""Characters that a text shared by several literals needs to stand for all of them."""
Part = tuple[str, str]
Literals = tuple[str, ...]
_T = TypeVar("_T")


def literal_sets(pattern: str) -> list[list[Literals]]:
    """For each alternative at the top of ``pattern``: sets of literals, each of which a match must contain one of.

    ``rank \\d+: (?:lost|gone) for good`` gives ``[[("rank ",), (": lost for good", ": gone for good")]]``. An alternative
    without literal text of three characters gives an empty list.
    """
    return [_sets(parts)[0] for parts in alternatives(pattern)]


def is_literal(pattern: str) -> bool:
    """True if each line that contains one of `literal_sets` matches: the pattern is nothing but those texts."""
    return all(whole and sets for sets, whole in map(_sets, alternatives(pattern)))


def shortened(literals: Literals, allowed: Callable[[Literals], bool]) -> Literals:
    """Fewer texts that all of ``literals`` contain, if ``allowed`` takes them: ``failed to`` for ``[Ff]ailed to (read|open)``."""
    if len(literals) == 1:
        return literals
    common = _common(literals)
    if len(common) >= _TELLING and allowed((common,)):
        return (common,)
    tails = tuple(dict.fromkeys(text[1:] for text in literals))
    if len(tails) < len(literals) and min(map(len, tails)) >= _TELLING and allowed(tails):
        return tails
    return literals


def _common(literals: Literals) -> str:
    """The longest text that stands in all literals."""
    shortest = min(literals, key=len)
    for size in range(len(shortest), 0, -1):
        for start in range(len(shortest) - size + 1):
            text = shortest[start : start + size]
            if all(text in other for other in literals):
                return text
    return ""


def choose(sets: Iterable[Literals], cost: Callable[[Literals], _T]) -> Literals | None:
    """The cheapest set, or ``None`` if there is none."""
    return min(sets, key=lambda literals: (cost(literals), literals), default=None)


def _sets(parts: list[Part]) -> tuple[list[Literals], bool]:
    """The sets of an alternative, and whether it consists of one of them and nothing else."""
    found: list[Literals] = []
    run: list[list[str]] = []
    whole = True

    def close(kept: int = 0) -> None:
        nonlocal run, whole
        texts = _fewest(map("".join, product(*run)))
        if min(map(len, texts)) >= _SHORTEST:
            found.append(texts)
        # where the next text makes too many, the last ones before it may still go with it
        run, whole = run[len(run) - kept :], False

    for atom, quantifier in parts:
        if atom in ("^", "$") or atom in ("\\b", "\\B"):
            whole = False
            continue
        texts = _quantified(atom, quantifier)
        if texts is None:
            close()
            if atom.startswith("(") and least(quantifier):
                found += _in_group(atom)
            continue
        kept = _fitting(run, len(texts))
        if kept < len(run):
            close(kept)
        run.append(texts)
        if quantifier not in ("", "?"):
            close()
    still_whole = whole
    close()
    return found, still_whole


def _fitting(run: list[list[str]], branches: int) -> int:
    """How many of the last places of a run can go with one more that branches."""
    kept = 0
    for texts in reversed(run):
        branches *= len(texts)
        if branches > _MOST:
            break
        kept += 1
    return kept


def _in_group(atom: str) -> list[Literals]:
    """Literals that a group must contain: those of its one branch, or one set of each of its branches together."""
    branches = [_sets(parts)[0] for parts in alternatives(_inner(atom))]
    if len(branches) == 1:
        return branches[0]
    if not all(branches):
        return []
    longest = [max(sets, key=lambda literals: min(map(len, literals))) for sets in branches]
    return [_fewest(text for literals in longest for text in literals)]


def _fewest(texts: Iterable[str]) -> Literals:
    """Without the texts that contain another one: that one is found with them."""
    kept = tuple(dict.fromkeys(texts))
    return tuple(text for text in kept if not any(other in text for other in kept if other != text))


def _quantified(atom: str, quantifier: str) -> list[str] | None:
    """All texts that an atom with its quantifier begins with, ``None`` if they are many or may be missing."""
    if quantifier == "?":
        texts = _texts(atom)
        return None if texts is None or len(texts) >= _MOST else [*texts, ""]
    return _texts(atom) if least(quantifier) else None


def _texts(atom: str) -> list[str] | None:
    """All texts that an atom can stand for, if they are few and have no open end."""
    if len(atom) == 1:
        return None if atom in ".|^$" else [atom]
    if atom[0] == "\\":
        return ["\t"] if atom == "\\t" else None if atom[1].isalnum() else [atom[1]]
    if atom[0] == "[":
        body = atom[1:-1]
        plain = len(body) <= 4 and body[0] != "^" and "\\" not in body and "-" not in body[1:-1]
        return list(body) if plain else None
    texts: list[str] = []
    for parts in alternatives(_inner(atom)):
        run = [""]
        for inner, quantifier in parts:
            more = _quantified(inner, quantifier) if quantifier in ("", "?") else None
            if more is None or len(run) * len(more) > _MOST:
                return None
            run = [before + text for before in run for text in more]
        texts += run
    return texts if len(texts) <= _MOST else None


def _inner(atom: str) -> str:
    opened = GROUP.match(atom)
    return atom[opened.end() : -1] if opened else ""
