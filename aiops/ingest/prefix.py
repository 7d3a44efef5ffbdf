"""What stands before the message of a log line: wrappers, time stamp, host, rank, process."""

from __future__ import annotations

import re
from dataclasses import dataclass

from aiops.model.event import NO_TIME, TimeQuality

NS = 1_000_000_000
YEARLESS = 1972
"""Year given to stamps without one until the case's year is known; a leap year."""

ANSI = re.compile(rb"\x1b(?:\[[0-9;:?]*[ -/]*[@-~]|\][^\x07\x1b]{0,512}(?:\x07|\x1b\\)|[@-_])")

_MONTHS = {
    name: number
    for number, name in enumerate(
        ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"), 1
    )
}

_WRAPPER = re.compile(
    r"""(?:\[default(?P<local>\d{1,5})\]:
      |\[(?P<rank>rank\d{1,6})\]:[ ]?
      |\[\d+,(?P<mpi>\d{1,6})\]<std(?:out|err)>:[ ]?
      |\[pod/(?P<pod>[\w.-]{1,253})/[\w.-]{1,253}\][ ]
      |(?P<task>\d{1,5}):[ ]
      |<(?P<pri>\d{1,3})>(?:1[ ])?
      |(?P<facility>[a-z]{3,8}[ ]*:[a-z]{3,6}[ ]*:[ ])
      |(?P<cri>\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{1,9}(?:Z|[+-]\d\d:\d\d))[ ]std(?:out|err)[ ][FP][ ]
      )""",
    re.X,
)

_ISO = re.compile(
    r"[\[(]?(\d{4})[-/](\d\d)[-/](\d\d)[T _](\d\d):(\d\d):(\d\d)(?:[.,:](\d{1,9}))?[ ]?(Z|UTC|[+-]\d\d:?\d\d)?[\])]?"
)
_SYSLOG = re.compile(r"([A-Z][a-z]{2}) ([ \d]\d) (\d\d):(\d\d):(\d\d)(?:\.(\d{1,9}))? ")
_CTIME = re.compile(r"\[?(?:[A-Z][a-z]{2}) ([A-Z][a-z]{2}) ([ \d]\d) (\d\d):(\d\d):(\d\d)(?:\.(\d{1,9}))? (\d{4})\]?")
_UPTIME = re.compile(r"\[ *(\d{1,10})\.(\d{1,9})\]")
_GLOG = re.compile(r"\[?[EWIFD](1[0-2]|0?[1-9])([0-3]\d) (\d\d):(\d\d):(\d\d)\.(\d{1,9})")
_HOST = re.compile(r" ?([A-Za-z0-9][\w.-]{0,252}) ((?:[\w.@/()-]{1,64})(?:\[\d+\])?):[ ]")
_RFC5424_HOST = re.compile(
    r" ([A-Za-z0-9][\w.-]{0,252}) ([\w.-]{1,48}) (?:[\w-]{1,20}) (?:[\w-]{1,32}) (?:-|\[[^\]\n]{0,200}\]) ?"
)
_NCCL = re.compile(r"([A-Za-z][\w.-]{0,252}):(\d+):(\d+) \[(-?\d+)\] ")
_LEAD = re.compile(
    r"(?:\[[\w|.:/ -]{1,60}\][ ]?){1,2}|(?:INFO|WARNING|WARN|ERROR|DEBUG)[ :]{1,3}|\([\w-]{1,40} pid=\d+[^)\n]{0,60}\) "
)
_LEVEL = re.compile(
    r"[ \t]*(?:[|:-][ \t]*)?\[?(?:INFO|WARNING|WARN|ERROR|DEBUG|CRITICAL|FATAL|NOTICE)\]?[ \t]*[|:-]?[ \t]*"
)
_RANK = re.compile(
    r"\[(?:[Rr]ank|RANK)[ :=_]?(\d{1,6})\]|(?:^|[|\s])rank(\d{1,6})(?=[\s|:\]]|$)|\(rank (\d{1,6})\)"
    r"|(?:Rank|RANK) (\d{1,6})\]"
)


@dataclass(slots=True)
class Prefix:
    """The parsed head of a line. ``ts`` is UTC ns; stamps without a zone are read as UTC."""

    ts: int = NO_TIME
    quality: TimeQuality = TimeQuality.NONE
    yearless: bool = False
    zoned: bool = False
    host: str | None = None
    rank: int | None = None
    local_rank: int | None = None
    task: int | None = None
    pod: str | None = None
    pid: int | None = None
    process: str = ""
    uptime: int = NO_TIME
    """Nanoseconds since boot, if the line carries them."""
    kernel: bool = False
    """The line comes from a kernel ring buffer or a system log."""
    start: int = 0
    """Index of the message in the line."""


def days_from_civil(year: int, month: int, day: int) -> int:
    """Days since 1970-01-01 of a Gregorian date (algorithm of H. Hinnant, chrono-compatible)."""
    year -= month <= 2
    era = year // 400
    yoe = year - era * 400
    doy = (153 * (month + (-3 if month > 2 else 9)) + 2) // 5 + day - 1
    return era * 146097 + yoe * 365 + yoe // 4 - yoe // 100 + doy - 719468


def to_ns(year: int, month: int, day: int, hour: int, minute: int, second: int, fraction: str | None) -> int:
    """UTC nanoseconds of a civil time; `NO_TIME` if it is no valid time."""
    if not (1 <= month <= 12 and 1 <= day <= 31 and hour < 24 and minute < 60 and second < 61):
        return NO_TIME
    seconds = ((days_from_civil(year, month, day) * 24 + hour) * 60 + minute) * 60 + second
    return seconds * NS + (int(fraction.ljust(9, "0")[:9]) if fraction else 0)


def _zone_ns(zone: str | None) -> int:
    if not zone or zone in ("Z", "UTC"):
        return 0
    sign = 1 if zone[0] == "+" else -1
    digits = zone[1:].replace(":", "")
    return sign * (int(digits[:2]) * 60 + int(digits[2:4])) * 60 * NS


def parse_stamp(text: str, at: int, into: Prefix) -> int:
    """Read a time stamp that begins at ``at``; returns the index behind it, or ``at`` if there is none."""
    head = text[at : at + 1]
    if not head:
        return at
    match = _ISO.match(text, at)
    if match:
        year, month, day, hour, minute, second = (int(match[i]) for i in range(1, 7))
        into.ts = to_ns(year, month, day, hour, minute, second, match[7])
        if into.ts != NO_TIME:
            into.ts -= _zone_ns(match[8])
            into.quality = TimeQuality.EXACT
            into.zoned = match[8] is not None
            return match.end()
        return at
    match = _SYSLOG.match(text, at)
    if match and match[1] in _MONTHS:
        into.ts = to_ns(
            YEARLESS, _MONTHS[match[1]], int(match[2]), int(match[3]), int(match[4]), int(match[5]), match[6]
        )
        into.quality, into.yearless = TimeQuality.PARTIAL, True
        return match.end() - 1
    match = _UPTIME.match(text, at)
    if match:
        into.uptime = int(match[1]) * NS + int(match[2].ljust(9, "0"))
        into.kernel = True
        if into.quality == TimeQuality.NONE:
            into.ts, into.quality = into.uptime, TimeQuality.UPTIME
        return match.end()
    match = _CTIME.match(text, at)
    if match and match[1] in _MONTHS:
        into.ts = to_ns(
            int(match[7]), _MONTHS[match[1]], int(match[2]), int(match[3]), int(match[4]), int(match[5]), match[6]
        )
        into.quality, into.kernel = TimeQuality.EXACT, head == "["
        return match.end()
    match = _GLOG.match(text, at)
    if match:
        into.ts = to_ns(YEARLESS, int(match[1]), int(match[2]), int(match[3]), int(match[4]), int(match[5]), match[6])
        into.quality, into.yearless = TimeQuality.PARTIAL, True
        return match.end()
    return at


def parse_prefix(text: str, *, task_labels: bool = False) -> Prefix:
    """Parse the head of one line (without ANSI codes).

    ``task_labels`` says that the file was written with ``srun -l``: each line begins with ``task: ``.
    """
    prefix = Prefix()
    at = _wrappers(text, prefix, task_labels)
    at = _skip_blank(text, at)
    after = parse_stamp(text, at, prefix)
    if after == at:
        lead = _LEAD.match(text, at)
        after = parse_stamp(text, lead.end(), prefix) if lead else at
        after = after if lead and after != lead.end() else at
    if after != at:
        at = _behind_stamp(text, after, prefix)
    _nccl_head(text, at, prefix)
    level = _LEVEL.match(text, at)
    if level:
        at = level.end()
    if prefix.rank is None:
        rank = _RANK.search(text, 0, min(len(text), at + 120))
        if rank:
            prefix.rank = int(next(group for group in rank.groups() if group is not None))
    prefix.start = _skip_blank(text, at)
    return prefix


def _wrappers(text: str, prefix: Prefix, task_labels: bool) -> int:
    at = 0
    for _ in range(4):
        match = _WRAPPER.match(text, at)
        if match is None or (match["task"] is not None and not task_labels):
            break
        if match["rank"]:
            prefix.rank = int(match["rank"][4:])
        elif match["mpi"]:
            prefix.rank = int(match["mpi"])
        elif match["local"]:
            prefix.local_rank = int(match["local"])
        elif match["task"]:
            prefix.task = int(match["task"])
        elif match["pod"]:
            prefix.pod = match["pod"]
        elif match["cri"]:
            parse_stamp(match["cri"], 0, prefix)
        elif match["facility"] or match["pri"]:
            prefix.kernel = True
        at = match.end()
    return at


def _behind_stamp(text: str, at: int, prefix: Prefix) -> int:
    """Host and process of a system log, a second stamp of the kernel, or nothing."""
    match = _HOST.match(text, at)
    if match and not match[2].startswith("["):
        process = match[2].split("[", 1)[0]
        if prefix.yearless or process in _SYSTEM or "[" in match[2]:
            prefix.host, prefix.process, prefix.kernel = match[1], process, True
            at = match.end()
            inner = Prefix()
            after = parse_stamp(text, at, inner)
            if inner.uptime != NO_TIME:
                prefix.uptime = inner.uptime
                at = after
            return at
    match = _RFC5424_HOST.match(text, at)
    if match and prefix.kernel:
        prefix.host, prefix.process = match[1], match[2]
        return match.end()
    return at


_SYSTEM = frozenset(
    {
        "kernel",
        "systemd",
        "kubelet",
        "containerd",
        "dockerd",
        "sshd",
        "slurmd",
        "slurmctld",
        "CRON",
        "cron",
        "chronyd",
        "systemd-logind",
        "systemd-resolved",
        "nvidia-fabricmanager",
        "nv-fabricmanager",
        "dcgm-exporter",
        "nv-hostengine",
        "nvidia-persistenced",
        "rsyslogd",
        "NetworkManager",
        "dbus-daemon",
        "smartd",
        "ntpd",
        "rasdaemon",
        "mcelog",
        "multipathd",
        "automount",
        "rpc.statd",
        "munged",
        "auditd",
        "audit",
    }
)


def _nccl_head(text: str, at: int, prefix: Prefix) -> None:
    match = _NCCL.match(text, at) or _NCCL.match(text, _skip_blank(text, at))
    if match:
        prefix.host, prefix.pid = match[1], int(match[2])


def _skip_blank(text: str, at: int) -> int:
    while at < len(text) and text[at] in " \t":
        at += 1
    return at
