"""Times and durations as people write them on a command line."""

from __future__ import annotations

import re
from datetime import UTC, datetime

from aiops.errors import InputError

_UNITS = {"ms": 10**6, "s": 10**9, "m": 60 * 10**9, "h": 3_600 * 10**9, "d": 86_400 * 10**9, "w": 604_800 * 10**9}
_PART = re.compile(r"(\d+(?:\.\d+)?)(ms|[smhdw])")
_RELATIVE = re.compile(r"(?:now)?\s*(?:([+-])\s*((?:\d+(?:\.\d+)?(?:ms|[smhdw]))+))?", re.IGNORECASE)
_UNIX = re.compile(r"\d{9,10}(?:\.\d{1,9})?")
_FRACTION = re.compile(r"[.,](\d+)")
_HELP = "use RFC 3339 (2026-08-01T08:00:00Z), seconds since 1970, or a time such as now-2h"


def parse_when(text: str, now: int) -> int:
    """A point in time, UTC.

    Args:
        text: RFC 3339 (UTC if it has no zone), seconds since 1970, or ``now``, ``now-2h``, ``-1h30m``.
        now: the present, UTC ns.

    Returns:
        UTC nanoseconds since 1970.

    Raises:
        InputError: the text is none of these.
    """
    text = text.strip()
    relative = _RELATIVE.fullmatch(text) if text else None
    if relative is not None:
        if relative[2] is None:
            return now
        delta = parse_duration(relative[2])
        return now - delta if relative[1] == "-" else now + delta
    if _UNIX.fullmatch(text):
        whole, _, part = text.partition(".")
        return int(whole) * 10**9 + int(part.ljust(9, "0") or 0)
    try:
        stamp = datetime.fromisoformat(_FRACTION.sub("", text, count=1))
    except ValueError:
        raise InputError(f"not a time: {text!r}; {_HELP}") from None
    stamp = stamp.replace(tzinfo=UTC) if stamp.tzinfo is None else stamp
    fraction = _FRACTION.search(text)
    delta_t = stamp - datetime(1970, 1, 1, tzinfo=UTC)
    return (delta_t.days * 86_400 + delta_t.seconds) * 10**9 + (int(fraction[1][:9].ljust(9, "0")) if fraction else 0)


def parse_duration(text: str) -> int:
    """``30s``, ``5m``, ``1h30m``, or seconds as a plain number, in ns.

    Raises:
        InputError: the text is no duration, or it is zero.
    """
    text = text.strip().lower()
    parts = _PART.findall(text)
    if text.replace(".", "", 1).isdecimal():
        parts = [(text, "s")]
    elif not parts or "".join(number + unit for number, unit in parts) != text:
        raise InputError(f"not a duration: {text!r}; use for example 30s, 5m or 1h30m")
    duration = sum(round(float(number) * _UNITS[unit]) for number, unit in parts)
    if duration <= 0:
        raise InputError(f"a duration must be more than zero: {text!r}")
    return duration


def rfc3339(ns: int) -> str:
    """UTC nanoseconds as ``2026-08-01T08:00:00Z``, with milliseconds only if there are any."""
    stamp = datetime.fromtimestamp(ns // 10**9, UTC).strftime("%Y-%m-%dT%H:%M:%S")
    fraction = ns % 10**9 // 10**6
    return f"{stamp}.{fraction:03d}Z" if fraction else f"{stamp}Z"
