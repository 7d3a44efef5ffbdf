"""Names in a sentence: GPUs, ranks, nodes, PCI ids, UUIDs, addresses, and any word that looks like an identifier."""

from __future__ import annotations

import re
from dataclasses import dataclass

from aiops.copilot.quantities import UNIT_PATTERN, digits
from aiops.model.entity import canonical_pci

_UUID = re.compile(
    r"\b(?:GPU|MIG)-[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}\b"
    r"|\b[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}\b"
)
_PCI = re.compile(
    r"(?<![\w:.])(?:PCI:)?((?:[0-9a-fA-F]{4,8}:)[0-9a-fA-F]{2}:[0-9a-fA-F]{2}(?:\.[0-7])?"
    r"|[0-9a-fA-F]{2}:[0-9a-fA-F]{2}\.[0-7])(?![\w:]|\.\w)"
)
_IPV4 = re.compile(r"(?<![\w.])\d{1,3}(?:\.\d{1,3}){3}(?!\w|\.\w)")
_DATE_TIME = re.compile(r"(?<!\w)(\d{4}-\d\d-\d\d)[T ](\d\d:\d\d(?::\d\d(?:[.,]\d{1,9})?)?)(?:Z|[+-]\d\d:?\d\d)?(?!\w)")
_KINDS = {
    "gpu": "GPU",
    "cuda": "GPU",
    "device": "GPU",
    "rank": "rank",
    "global rank": "rank",
    "local rank": "local rank",
    "node": "node",
    "node rank": "node",
}
_INDEX = re.compile(
    r"(?<![\w-])(?P<kind>(?:global|local|node)[ _]?rank|rank|gpu|cuda|device|node)(?P<plural>s)?"
    r"(?:[ _]?(?:id|index|idx|number|no\.?))?(?P<join>[\"']?\s{0,6}[:=#]{0,2}\s{0,2}[\[(]?[\"']?)"
    r"(?P<first>\d{1,6})(?P<more>(?:\s?(?:,|and|or|&|to|-|–|, and)\s?\d{1,6}(?![\w.:]\w))*)(?!\w|\.\d|:\d|-\w)",
    re.IGNORECASE,
)
_COUNT = re.compile(
    r"(?<![\w.,:-])(\d{1,3}(?:,\d{3})+|\d{1,9}) (?:other )?(ranks?|nodes?|hosts?|GPUs?|pods?|lines?)\b", re.IGNORECASE
)
_LABEL = re.compile(
    r"(?<![A-Za-z])(s?xid|exit[ _-]?code|step|epoch)\b(?: ?\(PCI[^()]{0,40}\))?"
    r"[\"']?\s{0,6}[:=]?\s{0,2}(\d{1,9})(?![\w.]*\w)",
    re.IGNORECASE,
)
_STEP = re.compile(r"(-|–|to)?\s?(\d{1,6})", re.IGNORECASE)
_TOKEN = re.compile(r"[A-Za-z0-9_/~](?:[\w./:@+-]*[A-Za-z0-9_/])?")
_WORD_SLASH = re.compile(r"[A-Za-z]+(?:/[A-Za-z]+)+\Z")
_ORDINAL = re.compile(r"\d+(?:st|nd|rd|th)\Z", re.IGNORECASE)
_ABBREVIATION = re.compile(r"(?:[A-Za-z]\.)+[A-Za-z]\Z")
_NUMBER_FIRST = re.compile(rf"\d[\d.,:]*(?:-?(?:{UNIT_PATTERN})|-[A-Za-z]+)?\Z", re.IGNORECASE)
_RANGE_LIMIT = 4_096


@dataclass(frozen=True, slots=True)
class Mentions:
    """``indices`` are (kind, number) such as ``("GPU", 5)``; ``rest`` is the text without all that was recognised."""

    pci: frozenset[str]
    indices: frozenset[tuple[str, int]]
    identifiers: frozenset[str]
    """Host names, UUIDs, addresses, paths, code names: lower case, as written."""
    rest: str


def mentions(text: str) -> Mentions:
    """Find the names. What is left in ``rest`` holds the numbers, see `quantities.measure`."""
    pci: set[str] = set()
    indices: set[tuple[str, int]] = set()
    identifiers: set[str] = set()

    def take_pci(match: re.Match[str]) -> str:
        pci.add(canonical_pci(match[1]) or match[1])
        return " "

    def take_identifier(match: re.Match[str]) -> str:
        identifiers.add(match[0].lower())
        return " "

    def take_index(match: re.Match[str]) -> str:
        if not match["join"] and not match["kind"].lower().endswith("rank"):
            return match[0]  # "node07" and "gpu3" are how hosts are called
        kind = _KINDS[re.sub(r"(?<=[a-z])[ _]?rank$", " rank", match["kind"].lower())]
        several = bool(match["plural"]) or "[" in match["join"] or "(" in match["join"]
        indices.update((kind, n) for n in _numbers(match["first"], match["more"] if several else ""))
        return " " if several else f" {match['more']} "

    def take_token(match: re.Match[str]) -> str:
        token = match[0]
        parts = token.split("/") if _WORD_SLASH.match(token) else [token]
        names = [part for part in parts if _is_identifier(part)]
        identifiers.update(name.lower() for name in names)
        return " " if names else token

    text = _UUID.sub(take_identifier, text)
    text = _DATE_TIME.sub(r" \1 \2 ", text)
    text = _PCI.sub(take_pci, text)
    text = _IPV4.sub(take_identifier, text)
    text = _INDEX.sub(take_index, text)
    text = _TOKEN.sub(take_token, text)
    return Mentions(frozenset(pci), frozenset(indices), frozenset(identifiers), text)


def labels(text: str) -> frozenset[tuple[str, int]]:
    """Numbers with what they count or name right beside them: ``("rank", 63)`` of ranks, ``("xid", 79)``."""
    text = digits(text)
    found = {(match[2].lower().rstrip("s"), int(match[1].replace(",", ""))) for match in _COUNT.finditer(text)}
    found |= {(re.sub(r"[ _-]", "", match[1].lower()), int(match[2])) for match in _LABEL.finditer(text)}
    return frozenset(found)


def _numbers(first: str, more: str) -> set[int]:
    found = {int(first)}
    last = int(first)
    for join, written in _STEP.findall(more):
        number = int(written)
        if join and 0 < number - last <= _RANGE_LIMIT:
            found.update(range(last, number + 1))
        found.add(number)
        last = number
    return found


def _is_identifier(token: str) -> bool:
    """Does the word look like a name that only the evidence can justify?"""
    if _NUMBER_FIRST.match(token) or _ORDINAL.match(token) or _ABBREVIATION.match(token):
        return False
    has_letter = any(c.isalpha() for c in token)
    if not has_letter:
        return "/" in token.strip("/")
    return any(c.isdigit() for c in token) or "_" in token or "@" in token or "/" in token or "." in token


def occurs(identifier: str, text: str) -> bool:
    """Does the identifier stand in the (lower-case) text as a whole word, not as part of a longer name?"""
    return re.search(rf"(?<![a-z0-9_-]){re.escape(identifier)}(?![a-z0-9_-])", text) is not None
