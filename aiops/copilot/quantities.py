"""Numbers, clock times and dates of a sentence, so that a claim's can be looked for in its evidence.

A quantity with a unit needs the same amount, in whatever unit ("ten minutes" = "600000 ms"), and may be rounded as
coarsely as it is written, by 5 % at most. A bare number needs the same bare number: two minutes are not two GPUs.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

_UNITS: dict[str, tuple[str, float]] = {
    **dict.fromkeys(("ns",), ("time", 1e-9)),
    **dict.fromkeys(("us", "µs", "μs"), ("time", 1e-6)),
    **dict.fromkeys(("ms", "millisecond", "milliseconds", "msec"), ("time", 1e-3)),
    **dict.fromkeys(("s", "sec", "secs", "second", "seconds"), ("time", 1.0)),
    **dict.fromkeys(("min", "mins", "minute", "minutes"), ("time", 60.0)),
    **dict.fromkeys(("h", "hr", "hrs", "hour", "hours"), ("time", 3600.0)),
    **dict.fromkeys(("d", "day", "days"), ("time", 86400.0)),
    **dict.fromkeys(("week", "weeks"), ("time", 604800.0)),
    **dict.fromkeys(("b", "byte", "bytes"), ("bytes", 1.0)),
    **{name: ("bytes", 1000.0 ** (i + 1)) for i, name in enumerate(("kb", "mb", "gb", "tb", "pb"))},
    **{name: ("bytes", 1024.0 ** (i + 1)) for i, name in enumerate(("kib", "mib", "gib", "tib", "pib"))},
    **{name: ("bytes/s", 1000.0 ** (i + 1)) for i, name in enumerate(("kb/s", "mb/s", "gb/s", "tb/s"))},
    **{name: ("bit/s", 1000.0 ** (i + 2)) for i, name in enumerate(("mbps", "gbps", "tbps"))},
    **{name: ("bit/s", 1000.0 ** (i + 2)) for i, name in enumerate(("mbit/s", "gbit/s", "tbit/s"))},
    **dict.fromkeys(("gt/s",), ("transfers", 1e9)),
    **dict.fromkeys(("°c", "degc", "celsius", "c", "degrees", "degree"), ("temperature", 1.0)),
    **dict.fromkeys(("w", "watt", "watts"), ("power", 1.0)),
    **dict.fromkeys(("kw", "kilowatt", "kilowatts"), ("power", 1e3)),
    **dict.fromkeys(("mhz",), ("frequency", 1e6)),
    **dict.fromkeys(("ghz",), ("frequency", 1e9)),
    **dict.fromkeys(("%", "percent", "pct"), ("share", 1.0)),
    **dict.fromkeys(("gpu-hour", "gpu-hours", "gpu hour", "gpu hours"), ("gpu-hours", 1.0)),
}
_WORDS = {
    word: i
    for i, word in enumerate(
        (
            "two",
            "three",
            "four",
            "five",
            "six",
            "seven",
            "eight",
            "nine",
            "ten",
            "eleven",
            "twelve",
            "thirteen",
            "fourteen",
            "fifteen",
            "sixteen",
            "seventeen",
            "eighteen",
            "nineteen",
            "twenty",
        ),
        2,
    )
}
_WORDS |= {"zero": 0, "dozen": 12, "thirty": 30, "forty": 40, "fifty": 50, "sixty": 60}
VAGUE = re.compile(
    r"\b(dozens|hundreds?|thousands?|millions?|billions?|twice|double|triple|half|third|quarter)\b", re.IGNORECASE
)
"""Amounts that cannot be compared; a claim may use the word only if its evidence does."""

UNIT_PATTERN = "|".join(sorted(map(re.escape, _UNITS), key=len, reverse=True))
_NUMBER = (
    r"(?<![\w.])(?P<sign>(?<![^\s=:(\[,])[-−])?"
    r"(?P<number>\d{1,3}(?:,\d{3})+(?:\.\d+)?(?![\d,])|\d{1,40}(?:\.\d{1,40})*(?:e[+-]?\d{1,3})?)"
)
_QUANTITY = re.compile(rf"{_NUMBER}(?:[\s-]?(?P<unit>{UNIT_PATTERN})(?![\w/]))?(?!\w|\.\d)", re.IGNORECASE)
_NAMED_UNIT = re.compile(
    r"(?:\((?P<a>ms|us|s|w|c|mib|gib|mb|gb|%)\)|_(?P<b>ms|us|s|seconds|minutes|hours|bytes|mb|gb|"
    rf"mib|gib|pct|percent|watts|celsius|mhz))[\"']?\s?[=:]\s?\"?{_NUMBER}(?!\w|\.\d)",
    re.IGNORECASE,
)
_WORD = re.compile(r"\b(" + "|".join(_WORDS) + r")\b", re.IGNORECASE)
_CLOCK = re.compile(r"(?<![\d:.])([01]?\d|2[0-4]):([0-5]\d)(?::([0-5]\d)(?:[.,](\d{1,9}))?)?(?![\d:])")
_ISO_DATE = re.compile(r"(?<![\d-])((?:19|20)\d\d)[-/](\d\d)[-/](\d\d)(?!\d)")
_MONTHS = {
    name: i
    for i, name in enumerate(("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"), 1)
}
_MONTH = "(" + "|".join(_MONTHS) + r")[a-z]{0,6}\.?"
_NAMED_DATE = re.compile(
    rf"\b(?:{_MONTH}\s{{1,2}}(\d{{1,2}})|(\d{{1,2}})\s{_MONTH})(?!\w)"
    r"(?:,?\s((?:19|20)\d\d)(?!\w))?",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class Quantity:
    """``number`` as written, ``amount`` in the base unit of ``dimension`` (seconds, bytes, …)."""

    raw: str
    number: float
    amount: float
    dimension: str = ""
    slack: float = 0.0
    """Half of the last written digit, in the base unit."""
    version: bool = False
    """Several dots, such as ``2.19.3``: compared as text."""


@dataclass(frozen=True, slots=True)
class Measures:
    """What a text says in digits. Dates are (year or 0, month, day); clocks are tuples of digit groups."""

    quantities: tuple[Quantity, ...]
    clocks: frozenset[tuple[str, ...]]
    dates: frozenset[tuple[int, int, int]]
    unread: tuple[str, ...] = ()
    """Words that hold digits and are nothing of the above."""


def measure(text: str) -> Measures:
    """Find all quantities, clock times and dates. Names should be taken out before, see `mentions`."""
    dates: set[tuple[int, int, int]] = set()
    clocks: set[tuple[str, ...]] = set()

    def iso(match: re.Match[str]) -> str:
        dates.add((int(match[1]), int(match[2]), int(match[3])))
        return " "

    def named(match: re.Match[str]) -> str:
        month = _MONTHS[(match[1] or match[4]).lower()]
        dates.add((int(match[5] or 0), month, int(match[2] or match[3])))
        return " "

    def clock(match: re.Match[str]) -> str:
        clocks.add(tuple(group for group in (match[1].zfill(2), *match.groups()[1:]) if group))
        return " "

    text = _ISO_DATE.sub(iso, text)
    text = re.sub(r"(?<=\s)T(?=\d\d:\d\d)", " ", text)
    text = _CLOCK.sub(clock, text)
    text = re.sub(r"(?<=[\d\s])Z(?!\w)", " ", text)
    text = _NAMED_DATE.sub(named, text)
    text = digits(text)
    found = [_quantity(match, match["unit"]) for match in _QUANTITY.finditer(text)]
    unread = re.findall(r"[^\s()\[\]]*\d[^\s()\[\]]*", _QUANTITY.sub(" ", text))
    found += [_quantity(match, match["a"] or match["b"]) for match in _NAMED_UNIT.finditer(text)]
    return Measures(tuple(found), frozenset(clocks), frozenset(dates), tuple(unread))


def digits(text: str) -> str:
    """The text with number words as digits: ``fifteen ranks`` → ``15 ranks``."""
    return _WORD.sub(lambda match: str(_WORDS[match[1].lower()]), text)


def _quantity(match: re.Match[str], unit: str | None) -> Quantity:
    written = match["number"].replace(",", "")
    raw = f"{'-' if match['sign'] else ''}{written}"
    if written.count(".") > 1:
        return Quantity(raw, 0.0, 0.0, version=True)
    dimension, factor = _UNITS[unit.lower()] if unit else ("", 1.0)
    decimals = len(written.partition(".")[2]) if "e" not in written.lower() else 0
    number, slack = float(raw), 0.5 * 10.0**-decimals
    return Quantity(f"{raw} {unit}" if unit else raw, number, number * factor, dimension, slack * factor)


def unproven(claim: Measures, proof: Measures) -> list[str]:
    """What the claim says in digits and the proof does not."""
    missing = [quantity.raw for quantity in claim.quantities if not any(_same(quantity, q) for q in proof.quantities)]
    missing += [":".join(c) for c in claim.clocks if not any(_starts(c, p) for p in proof.clocks)]
    missing += [
        f"{y}-{m}-{d}"
        for y, m, d in claim.dates
        if not any((m, d) == p[1:] and 0 in (y - p[0], y, p[0]) for p in proof.dates)
    ]
    return missing


def _same(claim: Quantity, proof: Quantity) -> bool:
    if claim.version or proof.version:
        return claim.raw == proof.raw
    if claim.dimension != proof.dimension:
        return False
    if not claim.dimension:
        return claim.number in (proof.number, abs(proof.number))
    difference = abs(claim.amount - proof.amount)
    return difference <= 1e-9 * abs(proof.amount) or difference <= min(claim.slack, 0.05 * abs(proof.amount))


def _starts(claim: tuple[str, ...], proof: tuple[str, ...]) -> bool:
    """``03:14`` is proven by ``03:14:07``; fractions of a second may be cut short."""
    if len(claim) > len(proof) or claim[:3] != proof[: len(claim[:3])]:
        return False
    return len(claim) < 4 or proof[3].startswith(claim[3])
