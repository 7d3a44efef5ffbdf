"""Slurm host lists: ``gpu-r[01-04,07]-n[1-8],login1`` as names.

Grammar: items separated by commas outside brackets; an item is text and bracket groups; a group holds items or
numeric ranges ``lo-hi``, whose width (zero padding) is that of ``lo``. Groups may follow each other and may be nested.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

MAX_NAMES = 100_000
_MAX_DEPTH = 8
_LONGEST = 255
"""Characters of a name, as long as a host's may be: without an end, a long text and one range fill the memory."""
_RANGE = re.compile(r"^(\d{1,18})-(\d{1,18})$", re.ASCII)


class HostlistError(ValueError):
    """The text is no host list, or it names too many hosts."""


def expand_hostlist(text: str, limit: int = MAX_NAMES) -> list[str]:
    """Names of a host list in written order, without repetitions.

    Raises:
        HostlistError: brackets do not match, a range runs backwards, a name is longer than a host's may be, or there
            are more than ``limit`` names.
    """
    names: dict[str, None] = {}
    for item in _split(text):
        for name in _expand(item, limit, 0):
            names[name] = None
        if len(names) > limit:
            raise HostlistError(f"more than {limit} names")
    return list(names)


def hosts_in(text: str, limit: int = MAX_NAMES) -> list[str]:
    """As `expand_hostlist`, for text of a log, which may be cut off or forged: nothing where that would fail."""
    try:
        return expand_hostlist(text, limit)
    except HostlistError:
        return []


def _split(text: str) -> Iterator[str]:
    """Parts between the commas that stand outside brackets."""
    depth = start = 0
    for at, char in enumerate(text):
        if char == "[":
            depth += 1
        elif char == "]":
            depth -= 1
            if depth < 0:
                raise HostlistError("unexpected ']'")
        elif char == "," and depth == 0:
            if part := text[start:at].strip():
                yield part
            start = at + 1
    if depth:
        raise HostlistError("missing ']'")
    if part := text[start:].strip():
        yield part


def _expand(item: str, limit: int, depth: int) -> list[str]:
    if depth > _MAX_DEPTH:
        raise HostlistError("brackets are nested too deeply")
    names = [""]
    at = 0
    while at < len(item):
        opening = item.find("[", at)
        if opening < 0:
            return _joined(names, item[at:], [""])
        closing = _closing(item, opening)
        head = item[at:opening]
        choices = _group(item[opening + 1 : closing], limit, depth)
        # Checked before the product is built, so that hostile text costs nothing.
        if len(names) * len(choices) > limit:
            raise HostlistError(f"more than {limit} names")
        names = _joined(names, head, choices)
        at = closing + 1
    return names


def _joined(names: list[str], middle: str, ends: list[str]) -> list[str]:
    if len(middle) + max(map(len, names)) + max(map(len, ends)) > _LONGEST:
        raise HostlistError(f"a name of more than {_LONGEST} characters")
    return [name + middle + end for name in names for end in ends]


def _closing(item: str, opening: int) -> int:
    depth = 0
    for at in range(opening, len(item)):
        if item[at] == "[":
            depth += 1
        elif item[at] == "]":
            depth -= 1
            if depth == 0:
                return at
    raise HostlistError("missing ']'")


def _group(text: str, limit: int, depth: int) -> list[str]:
    choices: list[str] = []
    for part in _split(text):
        match = _RANGE.match(part)
        if match is None:
            choices.extend(_expand(part, limit, depth + 1))
        else:
            low, high = int(match[1]), int(match[2])
            if high < low:
                raise HostlistError(f"range runs backwards: {part}")
            if high - low >= limit:
                raise HostlistError(f"more than {limit} names")
            width = len(match[1])
            choices.extend(f"{number:0{width}d}" for number in range(low, high + 1))
        if len(choices) > limit:
            raise HostlistError(f"more than {limit} names")
    if not choices:
        raise HostlistError("empty brackets")
    return choices
