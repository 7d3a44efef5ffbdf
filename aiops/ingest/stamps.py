"""Time stamps as logs write them, read into UTC nanoseconds."""

from __future__ import annotations

import functools
import re
from dataclasses import dataclass

from aiops.model.event import NO_TIME, TimeQuality

NS = 1_000_000_000
YEARLESS = 1972
"""Year given to stamps without one until the case's year is known; a leap year."""

ZONES: dict[str, int] = {
    **dict.fromkeys(("Z", "UTC", "GMT", "WET"), 0),
    **dict.fromkeys(("CET", "WEST", "BST"), 60),
    **dict.fromkeys(("CEST", "EET", "SAST"), 120),
    **dict.fromkeys(("EEST", "MSK"), 180),
    "IST": 330,
    **dict.fromkeys(("SGT", "HKT", "AWST"), 480),
    **dict.fromkeys(("JST", "KST"), 540),
    "AEST": 600,
    "AEDT": 660,
    "NZST": 720,
    "NZDT": 780,
    "BRT": -180,
    "EDT": -240,
    **dict.fromkeys(("EST", "CDT"), -300),
    **dict.fromkeys(("CST", "MDT"), -360),
    **dict.fromkeys(("MST", "PDT"), -420),
    "PST": -480,
}
"""Minutes east of UTC of zone abbreviations. CST, IST and BST mean several zones: the usual reading in logs is taken."""

_MONTHS = {
    name: number
    for number, name in enumerate(
        ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"), 1
    )
}
_NAMED = frozenset((*_MONTHS, "Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"))
_NAMES = "|".join(sorted(ZONES, key=lambda name: (-len(name), name)))
_DAY = r"(?:(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun),?[ ])?"
_CLOCK = (
    r"(?P<h>\d\d?):(?P<mi>\d\d):(?P<s>\d\d)(?:[.,:](?P<f>\d{1,9})\d*)?(?:[ ]?(?P<half>[AaPp][Mm])\b)?"
    rf"(?P<zone>[ ]?(?:{_NAMES})(?![A-Za-z0-9_])|[ ]?[+-]\d\d:?\d\d(?!\d)|[+-]\d\d(?![\d:]))?[\])]?"
)
_OPEN = r"[\[(]?"
_MONTH = r"(?P<name>Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)[a-z]{0,6}\.?"

_ISO = re.compile(
    rf"{_OPEN}{_DAY}(?P<y>\d{{4}})(?P<sep>[-/.])(?P<mo>\d\d)(?P=sep)(?P<d>\d\d)(?:[T _:-]|[ ]{{2}}){_CLOCK}"
)
_COMPACT = re.compile(
    rf"{_OPEN}(?P<y>(?:19|20)\d\d)(?P<mo>\d\d)(?P<d>\d\d)(?:[ T_-]{_CLOCK}|T(?P<h2>\d\d)(?P<mi2>\d\d)(?P<s2>\d\d)(?P<zone2>Z|[+-]\d{{4}})?)"
)
_DAY_FIRST = re.compile(rf"{_OPEN}{_DAY}(?P<d>\d\d?)[ /-]{_MONTH}[ /-](?P<y>\d{{4}}|\d\d)[ :T]{_CLOCK}")
_MONTH_FIRST = re.compile(rf"{_OPEN}{_DAY}{_MONTH} (?P<d>\d\d?),? (?P<y>\d{{4}}),? {_CLOCK}")
_SLASHES = re.compile(rf"{_OPEN}(?P<a>\d\d?)/(?P<b>\d\d?)/(?P<c>\d{{4}}|\d\d),? {_CLOCK}")
_CTIME = re.compile(
    rf"{_OPEN}{_DAY}{_MONTH} (?P<d>[ \d]?\d) (?P<h>\d\d?):(?P<mi>\d\d):(?P<s>\d\d)(?:[.,](?P<f>\d{{1,9}}))?(?:[ ](?P<half>[AP]M))?"
    rf"(?:[ ](?P<zone>{_NAMES}))?[ ](?P<y>\d{{4}})\b[\])]?"
)
_SYSLOG = re.compile(
    rf"{_OPEN}{_MONTH} (?P<d>[ \d]?\d) (?P<h>\d\d?):(?P<mi>\d\d):(?P<s>\d\d)(?:[.,](?P<f>\d{{1,9}}))?(?:[ ](?P<half>[AP]M)\b)?"
    rf"(?P<zone>[ ](?:{_NAMES})(?=:?[ ]))?[\])]?(?=[ :]|$)"
)
_RELATIVE = re.compile(r"\[(?P<name>[A-Z][a-z]{2}) ?(?P<d>\d\d?) (?P<h>\d\d):(?P<mi>\d\d)\]|\[ *\+\d{1,9}\.\d{1,9}\]")
_UPTIME = re.compile(r"\[ *(\d{1,10})\.(\d{1,9})\]")
_EPOCH = re.compile(r"[\[(]?(\d{10})(?:\.(\d{1,9})|(\d{3}|\d{6}|\d{9}))?(?=[\s\]),:|;]|$)[\])]?")
_GLOG = re.compile(
    r"\[?[EWIFDVC](?P<mo>1[0-2]|0?[1-9])(?P<d>[0-3]\d) (?P<h>\d\d):(?P<mi>\d\d):(?P<s>\d\d)\.(?P<f>\d{1,9})"
)
_GLOG_YEAR = re.compile(
    r"\[?[EWIFDVC](?P<y>20\d\d)(?P<mo>\d\d)(?P<d>\d\d) (?P<h>\d\d):(?P<mi>\d\d):(?P<s>\d\d)\.(?P<f>\d{1,9})"
)
_ABSL_EARLY = re.compile(r"[EWIF]0000 00:00:(\d{10})\.(\d{1,9})")
_DASHED = re.compile(r"(?P<mo>\d\d)-(?P<d>\d\d) (?P<h>\d\d):(?P<mi>\d\d):(?P<s>\d\d)(?:[.,](?P<f>\d{1,9}))?(?=[\s\]|])")
_DMESG_ISO = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d,\d{6}[+-]\d\d:\d\d ")
_FIRST_EPOCH, _LAST_EPOCH = 1_262_304_000, 4_102_444_800
"""2010 and 2100: ten digits outside of these are numbers, not times."""


@dataclass(slots=True)
class Moment:
    """What a time stamp says. ``ts`` is UTC ns; stamps without a zone are read as UTC."""

    ts: int = NO_TIME
    quality: TimeQuality = TimeQuality.NONE
    yearless: bool = False
    zoned: bool = False
    """The stamp carries a zone, or counts from 1970."""
    uptime: int = NO_TIME
    """Nanoseconds since boot, if the line carries them."""
    kernel: bool = False
    """The line comes from a kernel ring buffer or a system log."""
    syslog: bool = False
    """The stamp is that of the traditional system log: host and process follow."""


@functools.lru_cache(maxsize=1024)
def days_from_civil(year: int, month: int, day: int) -> int:
    """Days since 1970-01-01 of a Gregorian date (algorithm of H. Hinnant, chrono-compatible)."""
    year -= month <= 2
    era = year // 400
    yoe = year - era * 400
    doy = (153 * (month + (-3 if month > 2 else 9)) + 2) // 5 + day - 1
    return era * 146097 + yoe * 365 + yoe // 4 - yoe // 100 + doy - 719468


def to_ns(year: int, month: int, day: int, hour: int, minute: int, second: int, fraction: str | None) -> int:
    """UTC nanoseconds of a civil time; `NO_TIME` if it is no valid time."""
    if not (1 <= month <= 12 and 1 <= day <= 31 and hour < 24 and minute < 60 and second < 61 and 1970 <= year < 2200):
        return NO_TIME
    seconds = ((days_from_civil(year, month, day) * 24 + hour) * 60 + minute) * 60 + second
    return seconds * NS + (int(fraction.ljust(9, "0")[:9]) if fraction else 0)


def zone_ns(zone: str) -> int:
    """Nanoseconds east of UTC of ``Z``, ``+02:00``, ``-0700``, ``+02`` or an abbreviation of `ZONES`."""
    zone = zone.strip()
    if zone in ZONES:
        return ZONES[zone] * 60 * NS
    digits = zone[1:].replace(":", "")
    minutes = int(digits[:2]) * 60 + int(digits[2:4] or 0)
    return (minutes if zone[0] == "+" else -minutes) * 60 * NS


def parse_stamp(text: str, at: int, into: Moment) -> int:
    """Read a time stamp that begins at ``at``; returns the index behind it, or ``at`` if there is none."""
    first = text[at : at + 1]
    second = text[at + 1 : at + 2] if first in ("[", "(") else first
    if not second:
        return at
    if second.isdigit() and second.isascii():
        return _numeric(text, at, into)
    if second.isalpha():
        return _named(text, at, into)
    if first == "[" and second in " +":
        return _since_boot(text, at, into)
    return at


def _numeric(text: str, at: int, into: Moment) -> int:
    match = _ISO.match(text, at)
    if match:
        if text[at + 19 : at + 20] == "," and _DMESG_ISO.match(text, at):
            into.kernel = True
        return _civil(match, into, at)
    match = _COMPACT.match(text, at)
    if match:
        if match["h2"]:
            return _set(into, match, at, int(match["h2"]), int(match["mi2"]), int(match["s2"]), None, match["zone2"])
        return _civil(match, into, at)
    if text[at] == "[":
        after = _since_boot(text, at, into)
        if after != at:
            return after
    match = _EPOCH.match(text, at)
    if match and _FIRST_EPOCH <= int(match[1]) < _LAST_EPOCH:
        return _epoch(into, match[1], match[2] or match[3], match.end())
    match = _DAY_FIRST.match(text, at)
    if match:
        return _civil(match, into, at)
    match = _SLASHES.match(text, at)
    if match:
        return _slashes(match, into, at)
    match = _DASHED.match(text, at)
    return _without_year(match, into, at) if match else at


def _named(text: str, at: int, into: Moment) -> int:
    word = at + (text[at] in "[(")
    if text[word + 1 : word + 2].isdigit():
        return _google(text, at, into)
    if text[word : word + 3] not in _NAMED:
        return at
    match = _CTIME.match(text, at)
    if match:
        into.kernel = into.kernel or text[at] == "["
        return _civil(match, into, at)
    match = _MONTH_FIRST.match(text, at) or _DAY_FIRST.match(text, at) or _ISO.match(text, at)
    if match:
        return _civil(match, into, at)
    match = _SYSLOG.match(text, at)
    if match:
        into.syslog = True
        return _without_year(match, into, at)
    return _relative(text, at, into)


def _google(text: str, at: int, into: Moment) -> int:
    match = _GLOG.match(text, at)
    if match:
        return _without_year(match, into, at)
    match = _GLOG_YEAR.match(text, at)
    if match:
        return _civil(match, into, at)
    match = _ABSL_EARLY.match(text, at)
    return _epoch(into, match[1], match[2], match.end()) if match else at


def _since_boot(text: str, at: int, into: Moment) -> int:
    match = _UPTIME.match(text, at)
    if match is None:
        return _relative(text, at, into)
    if _FIRST_EPOCH <= int(match[1]) < _LAST_EPOCH:
        return _epoch(into, match[1], match[2], match.end())
    into.uptime = int(match[1]) * NS + int(match[2].ljust(9, "0"))
    into.kernel = True
    if into.quality == TimeQuality.NONE:
        into.ts, into.quality = into.uptime, TimeQuality.UPTIME
    return match.end()


def _relative(text: str, at: int, into: Moment) -> int:
    """``dmesg --reltime``: minutes of a day, or the distance to the line above, which says nothing alone."""
    match = _RELATIVE.match(text, at)
    if match is None or (match["name"] and match["name"] not in _MONTHS):
        return at
    into.kernel = True
    if match["name"]:
        into.ts = to_ns(YEARLESS, _MONTHS[match["name"]], int(match["d"]), int(match["h"]), int(match["mi"]), 0, None)
        if into.ts != NO_TIME:
            into.quality, into.yearless = TimeQuality.PARTIAL, True
    return match.end()


def _civil(match: re.Match[str], into: Moment, at: int) -> int:
    zone = match["zone"] if "zone" in match.re.groupindex else None
    return _set(into, match, at, int(match["h"]), int(match["mi"]), int(match["s"]), match["f"], zone)


def _set(
    into: Moment,
    match: re.Match[str],
    at: int,
    hour: int,
    minute: int,
    second: int,
    fraction: str | None,
    zone: str | None,
) -> int:
    named = match.re.groupindex
    month = _MONTHS[match["name"]] if "name" in named and match["name"] else int(match["mo"])
    year = int(match["y"])
    if "half" in named:
        hour = _of_day(hour, match["half"])
    return _exact(
        into,
        match,
        at,
        to_ns(year + 2000 if year < 100 else year, month, int(match["d"]), hour, minute, second, fraction),
        zone,
    )


def _exact(into: Moment, match: re.Match[str], at: int, ts: int, zone: str | None) -> int:
    if ts == NO_TIME:
        return at
    into.ts = ts - (zone_ns(zone) if zone else 0)
    into.quality, into.zoned = TimeQuality.EXACT, bool(zone)
    return match.end()


def _slashes(match: re.Match[str], into: Moment, at: int) -> int:
    """``12/31/2026`` (United States, Hugging Face), ``31/12/2026`` where only that is possible, ``26/12/31`` (Spark)."""
    a, b, c = int(match["a"]), int(match["b"]), int(match["c"])
    if len(match["c"]) == 2 and a >= 20:
        year, month, day = 2000 + a, b, c
    else:
        year = c if c > 99 else 2000 + c
        month, day = (b, a) if a > 12 else (a, b)
    hour = _of_day(int(match["h"]), match["half"])
    ts = to_ns(year, month, day, hour, int(match["mi"]), int(match["s"]), match["f"])
    return _exact(into, match, at, ts, match["zone"])


def _without_year(match: re.Match[str], into: Moment, at: int) -> int:
    groups = match.groupdict()
    month = _MONTHS[match["name"]] if groups.get("name") else int(match["mo"])
    hour = _of_day(int(match["h"]), groups.get("half"))
    ts = to_ns(YEARLESS, month, int(match["d"]), hour, int(match["mi"]), int(match["s"]), match["f"])
    if ts == NO_TIME:
        return at
    zone = groups.get("zone")
    into.ts = ts - (zone_ns(zone) if zone else 0)
    into.quality, into.yearless, into.zoned = TimeQuality.PARTIAL, True, bool(zone)
    return match.end()


def _of_day(hour: int, half: str | None) -> int:
    if not half or hour > 12:
        return hour
    return hour % 12 + (12 if half[0] in "Pp" else 0)


def _epoch(into: Moment, seconds: str, fraction: str | None, end: int) -> int:
    into.ts = int(seconds) * NS + int((fraction or "").ljust(9, "0"))
    into.quality, into.zoned = TimeQuality.EXACT, True
    return end
