"""Listings of files as `ls`, `find`, `du`, `stat`, `tree` and object stores print them, read into entries.

Forms are those of GNU coreutils and findutils, BSD ``ls``, ``tree``, ``aws s3 ls``, ``gsutil ls -l`` and ``rclone lsl``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from aiops.ingest.stamps import YEARLESS, to_ns, zone_ns
from aiops.model.event import NO_TIME

NS = 1_000_000_000
_DAY_S = 86_400.0
_MONTHS = {
    name: n
    for n, name in enumerate(["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"], 1)
}
_UNITS = {unit: 1024**n for n, unit in enumerate("BKMGTPE")}

_ISO = r"\d{4}-\d\d-\d\d(?:[T +]\d\d:\d\d(?::\d\d(?:\.\d{1,12})?)?(?:Z| ?[+-]\d\d:?\d\d| UTC| GMT)?)?"  # all --time-style=…iso
_DATED = (
    rf"(?:{_ISO}|\d\d-\d\d \d\d:\d\d|[A-Z][a-z]{{2}} +\d{{1,2}} +(?:\d\d:\d\d:\d\d \d{{4}}|\d\d:\d\d|\d{{4}})"
    r"|\d{1,2} [A-Z][a-z]{2} +(?:\d\d:\d\d|\d{4}))"
)
_WHEN = rf"(?:{_DATED}|\d{{10}}(?:\.\d{{1,10}})?)"
_SIZE = r"(?:\d[\d,]{0,24}|\d{1,4}(?:[.,]\d)?[KMGTPE]i?B?)"
_MODE = r"[-dlbcps][rwxsStT-]{9}[.+@]?"
_LONG = re.compile(
    rf"(?: *\d+ +\d+ +)?(?P<mode>{_MODE}) +\d+ +\S+(?: +\S+)? +(?P<size>{_SIZE}) +(?P<when>{_WHEN}) (?P<name>\S.*)$"
)
"""``ls -l`` in all its time styles and ``find -ls`` (with inode and blocks in front)."""
_COLUMNS = re.compile(
    rf" *(?:(?P<size>{_SIZE})[ \t]+(?P<when>{_WHEN})|(?P<when2>{_WHEN})[ \t]+(?P<size2>{_SIZE}))[ \t]+(?P<name>\S.*)$"
)
"""``aws s3 ls``, ``rclone lsl``, ``gsutil ls -l``, ``find -printf`` with size and time in front of the path."""
_NAME_FIRST = re.compile(rf"(?P<name>\S*/\S*|\S+\.\w+)[ \t]+(?P<size>\d+)[ \t]+(?P<when>{_ISO}|\d{{10}}(?:\.\d+)?)$")
"""``stat -c '%n %s %y'``."""
_SIZE_NAME = re.compile(rf"(?P<size>{_SIZE})(?:\t| +)(?P<name>(?:\.{{0,2}}/|[a-z0-9]+://)?[\w.].*)$")
"""``du`` and ``find -printf '%s %p'``."""
_PREFIX = re.compile(r" +PRE (?P<name>\S.*)/$")
_HEADER = re.compile(r"(?P<name>[^\s:][^:\n]{0,1000}|[a-z0-9]+://[^:\n]{1,1000}):$")
_TREE = re.compile(
    r"(?P<depth>(?:[│|\xa0 ]{4})*)(?:├──|└──|\|--|`--|\+--)[ \xa0](?:\[(?P<facts>[^\]]{1,120})\] +)?(?P<name>\S.*)$"
)
_TREE_END = re.compile(r"(?:\d[\d.]*[KMGTPE]? bytes used in )?\d+ director(?:y|ies)(?:, \d+ files?)?$")
_TREE_SIZE = re.compile(rf"(?:^| )({_SIZE})(?= |$)(?! *\d\d:\d\d)")
_STAT = re.compile(r" *(?P<key>File|Size|Modify):[ ‘'`\"]*(?P<value>[^‘’'`\"\s][^’'\"\n]*?)(?:[’'\"].*)?$")
_PROMPT = re.compile(r"(?:\[[^\]\n]{1,80}\]|[\w.@~:/-]{1,80})? ?[$#%>+] +(?P<command>\S.*)$")
_LISTS = re.compile(
    r"(?:^|[;&|] *)(?:ls|find|du|stat|tree|aws s3 ls|gsutil ls|rclone ls\w*|lfs find)\b(?P<rest>[^;&|]*)"
)
_NEUTRAL = re.compile(
    r"total \d[\d.,]*[KMGTPE]?$|TOTAL: \d+ objects?\b.*|Total (?:Objects|Size): .*|\s*$|\s*(?:Blocks|Device|Access|Change| Birth):.*"
)


@dataclass(slots=True)
class Entry:
    """One line of a listing, or one file that lies in the case itself."""

    path: str
    size: int | None
    """Bytes; ``None`` if not printed."""
    mtime: int = NO_TIME
    """UTC ns; in `YEARLESS` if ``yearless``."""
    within_s: float = 0.0
    """The stamp is cut off to this precision, seconds."""
    folder: bool = False
    yearless: bool = False
    zoned: bool = False
    rounded: bool = False
    """The size is rounded (``ls -h``) or counts blocks (``du``)."""
    line: int = 0
    offset: int = 0
    text: str = ""
    file: Path | None = None
    """Where the bytes lie, if the file itself is in the case; may hold only its beginning."""


def read_listing(data: bytes) -> tuple[list[Entry], int]:
    """The entries of a listing in their order, and how many lines are nothing that a listing has."""
    entries: list[Entry] = []
    other = 0
    top = base = ""
    stack: list[str] = []
    stat: Entry | None = None
    entry: Entry | None
    for number, offset, text in _lines(data):
        tree = _TREE.match(text)
        if tree:
            entry = _tree_entry(tree, stack, base)
        elif (found := _STAT.match(text)) is not None:
            stat = _stat_entry(found, stat, entries)
            if stat is not None and found["key"] == "File":
                stat.line, stat.offset, stat.text = number, offset, text
            continue
        elif (found := _PREFIX.match(text)) is not None:
            entry = Entry(_join(base, found["name"]), None, folder=True)
        else:
            entry = _row(text, base)
        if entry is not None:
            entry.line, entry.offset, entry.text = number, offset, text
            entries.append(entry)
            continue
        command = _PROMPT.match(text)
        header = _HEADER.fullmatch(text)
        if command and (lists := _LISTS.search(command["command"])):
            words = [w for w in lists["rest"].split() if not w.startswith(("-", "+", "'", '"'))]
            top = base = words[0].rstrip("/") if len(words) == 1 and "/" in words[0] else ""
        elif header:
            name = header["name"].strip("'\"").rstrip("/")
            base = top if name in (".", "") else _join(top, name)
        elif text.startswith(("/", "./", "../", ".")) and " " not in text and len(text) < 1000:
            base, stack = text.rstrip("/").removeprefix("./"), []  # the root line of `tree`
        elif not _NEUTRAL.match(text) and not _TREE_END.fullmatch(text):
            other += 1
    return _without_links(entries), other


def _lines(data: bytes) -> Iterator[tuple[int, int, str]]:
    offset = 0
    for number, raw in enumerate(data.split(b"\n"), 1):
        yield number, offset, raw[:4096].decode("utf-8", "replace").rstrip("\r")
        offset += len(raw) + 1


def _row(text: str, base: str) -> Entry | None:
    for pattern in (_LONG, _COLUMNS, _NAME_FIRST, _SIZE_NAME):
        match = pattern.match(text)
        if match is None:
            continue
        groups = match.groupdict()
        name = match["name"].rstrip()
        if pattern is _LONG and match["mode"][0] == "l":
            return Entry("", None)  # a link names another entry
        if pattern is _LONG and match["mode"][0] not in "-d":
            return Entry("", None)
        size, rounded = _bytes(groups.get("size") or groups.get("size2") or "")
        entry = Entry(_join(base, name), size, rounded=rounded or pattern is _SIZE_NAME)
        _set_time(entry, groups.get("when") or groups.get("when2") or "")
        entry.folder = (pattern is _LONG and match["mode"][0] == "d") or name.endswith("/")
        entry.path = entry.path.rstrip("/")
        if name in (".", "..", "./"):
            entry.path = ""
        return entry
    return None


def _tree_entry(match: re.Match[str], stack: list[str], base: str) -> Entry:
    depth = len(match["depth"]) // 4
    name = match["name"].split(" -> ")[0].rstrip()
    facts = match["facts"] or ""
    del stack[depth:]
    path = (
        name.rstrip("/")
        if "/" in name.rstrip("/")
        else _join("/".join([base, *stack]) if base else "/".join(stack), name)
    )
    stack.append(name.rstrip("/").rsplit("/", 1)[-1])
    size, rounded = None, False
    when = re.search(_DATED, facts)
    sizes = _TREE_SIZE.findall(facts[: when.start()] if when else facts)
    if sizes:
        size, rounded = _bytes(sizes[-1])
    entry = Entry(path.rstrip("/"), size, rounded=rounded, folder=facts.startswith("d") or name.endswith("/"))
    _set_time(entry, when[0] if when else "")
    return entry


def _stat_entry(match: re.Match[str], last: Entry | None, entries: list[Entry]) -> Entry | None:
    key, value = match["key"], match["value"]
    if key == "File":
        entry = Entry(value.split(" -> ")[0].rstrip("/"), None)
        entries.append(entry)
        return entry
    if last is not None and key == "Size":
        words = value.split()
        last.size = int(words[0]) if words[0].isdecimal() and len(words[0]) < 20 else None
        last.folder = "directory" in value
    elif last is not None:
        _set_time(last, value)
    return last


def _bytes(text: str) -> tuple[int | None, bool]:
    text = text.strip()
    unit = re.search(r"[KMGTPE]", text)
    if unit is None:
        digits = text.replace(",", "")
        return (int(digits), False) if digits.isdecimal() else (None, False)
    return int(float(text[: unit.start()].replace(",", ".")) * _UNITS[unit[0]]), True


_ISO_PARTS = re.compile(
    r"(\d{4})-(\d\d)-(\d\d)(?:[T +](\d\d):(\d\d)(?::(\d\d)(?:\.(\d{1,12}))?)? ?(Z|UTC|GMT|[+-]\d\d:?\d\d)?)?"
)


def _set_time(entry: Entry, when: str) -> None:
    iso = _ISO_PARTS.match(when)
    if iso:
        year, month, day, hour, minute, second, fraction, zone = iso.groups()
        entry.within_s = _DAY_S if hour is None else 60.0 if second is None else 1.0 if fraction is None else 0.0
        ts = to_ns(
            int(year), int(month), int(day), int(hour or 0), int(minute or 0), int(second or 0), (fraction or "")[:9]
        )
        if ts != NO_TIME:
            entry.mtime = ts - (zone_ns(zone) if zone else 0)
            entry.zoned = zone is not None
        return
    if re.fullmatch(r"\d{10}(?:\.\d{1,10})?", when):
        whole, _, part = when.partition(".")
        entry.mtime, entry.zoned = int(whole) * NS + int(part.ljust(9, "0")[:9] or 0), True
        return
    words = re.findall(r"[A-Z][a-z]{2}|\d\d:\d\d(?::\d\d)?|\d+", when)
    names = [w for w in words if w in _MONTHS]
    clocks = [w for w in words if ":" in w]
    numbers = [int(w) for w in words if w.isdecimal()]
    if not names:
        if len(numbers) == 2 and clocks:  # --time-style=iso: 06-11 03:35
            month, day, years = numbers[0], numbers[1], []
        else:
            return
    else:
        month, day, years = _MONTHS[names[0]], min(numbers, default=0), [n for n in numbers if n > 1900]
    hour, minute, second = ([*map(int, clocks[0].split(":")), 0] if clocks else [0, 0, 0])[:3]
    ts = to_ns(years[0] if years else YEARLESS, month, day, hour, minute, second, None)
    if ts != NO_TIME:
        entry.mtime, entry.yearless = ts, not years
        entry.within_s = _DAY_S if not clocks else 60.0 if clocks[0].count(":") == 1 else 1.0


def _join(base: str, name: str) -> str:
    if not base or base == "." or name.startswith("/") or "://" in name:
        return name.removeprefix("./")
    if name.startswith(f"{base}/"):
        return name
    return f"{base}/{name.removeprefix('./')}"


def _without_links(entries: list[Entry]) -> list[Entry]:
    """Only named entries; one that others lie below is a folder (``du`` and ``tree`` do not say so)."""
    named = [entry for entry in entries if entry.path and len(entry.path) < 1024]
    folders = {parent for entry in named for parent in _parents(entry.path)}
    for entry in named:
        entry.folder = entry.folder or entry.path in folders
    return named


def _parents(path: str) -> Iterator[str]:
    while "/" in path:
        path = path.rsplit("/", 1)[0]
        if path:
            yield path
