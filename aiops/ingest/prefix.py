"""What stands before the message of a log line: wrappers, time stamp, host, rank, process."""

from __future__ import annotations

import re
from dataclasses import dataclass

from aiops.ingest.stamps import NS, YEARLESS, Moment, days_from_civil, parse_stamp, to_ns
from aiops.model.entity import is_host_name
from aiops.model.event import NO_TIME, TimeQuality

__all__ = ["ANSI", "NS", "YEARLESS", "Prefix", "days_from_civil", "parse_prefix", "parse_stamp", "to_ns"]

ANSI = re.compile(rb"\x1b(?:\[[0-9;:?]*[ -/]*[@-~]|\][^\x07\x1b]{0,512}(?:\x07|\x1b\\)|[@-_])")

_WRAPPER = re.compile(
    r"""(?:\[default(?P<local>\d{1,5})\]:
      |\[(?P<rank>rank\d{1,6})\]:[ ]?
      |\[\d+,(?P<mpi>\d{1,6})\]<std(?:out|err)>:[ ]?
      |\[pod/(?P<pod>[\w.-]{1,253})/[\w.-]{1,253}\][ ]
      |\[node/(?P<node>[\w.-]{1,253})\][ ]
      |\((?:[\w.:-]{1,80}[ ])?pid=(?P<pid>\d{1,10})(?:,[ ]ip=(?P<ip>[\w.:]{2,64}))?\)[ ]
      |(?P<kmsg>\d{1,4},\d{1,19},(?P<micros>\d{1,19}),[^;\n]{0,80};)
      |(?P<task>\d{1,5}):[ ]
      |<(?P<pri>\d{1,3})>(?:1[ ])?
      |(?P<facility>[a-z]{3,8}[ ]*:[a-z]{3,6}[ ]*:[ ])
      |(?P<cri>\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d{1,9})?(?:Z|[+-]\d\d:\d\d))[ ]std(?:out|err)[ ][FP][\w:,=]{0,40}[ ]
      )""",
    re.X,
)

LEVELS = (
    "trace debug info information notice warn warning error err fatal critical crit alert emerg emergency panic severe fine "
    "verbose"
)
"""Words that stand where a system log has the host, in logs of programs that write their level there."""
_LEVEL_WORDS = frozenset(LEVELS.split())
_HOST = re.compile(r" ?([A-Za-z0-9][\w.-]{0,252}) ((?:[\w.@/()-]{1,64})(?:\[\d+\])?):[ ]")
_RFC5424_HOST = re.compile(
    r" ([A-Za-z0-9][\w.-]{0,252}) ([\w.-]{1,48}) (?:[\w-]{1,20}) (?:[\w-]{1,32}) (?:-|(?:\[[^\]\n]{0,400}\]){1,8}) ?"
)
_GLOG_PLACE = re.compile(r" {1,8}(?:\d{1,20} )?[\w./<>-]{1,120}:\d{1,6}\] ?")
_NCCL = re.compile(r"([A-Za-z][\w.-]{0,252}):(\d{1,10}):(\d{1,10}) \[(-?\d{1,9})\] ")
_LEAD = re.compile(
    r"\[NeMo [A-Z] |(?:\[[\w|.:/ -]{1,60}\][ ]?){1,2}|\[?(?:INFO|WARNING|WARN|ERROR|DEBUG|CRITICAL|NOTICE)\]?[ :|]{1,9}"
    r"|(?:\S{1,64} ){3}(?=\[\d\d/[A-Z])|(?:time|ts|t|timestamp|@timestamp|date)[=:] ?[\"']?|\S{1,64} \| |\d{1,6}:[A-Z] "
)
_LABELLED = re.compile(r"([A-Za-z][\w.-]{0,100}): (?=[\[<]? {0,9}\d|\[?[A-Z][a-z]{2} )")
_NO_HOST = re.compile(
    r"(?:global|local)?[-_]?(?:rank|worker|task|gpu|cuda|step|epoch|stage|iter|iteration|line|ip|node)?[-_ ]?\d*$", re.I
)
_LEVEL = re.compile(
    r"[ \t]*(?:[|:-][ \t]*)?\[?(?:INFO|WARNING|WARN|ERROR|DEBUG|CRITICAL|FATAL|NOTICE)\]?[ \t]*[|:-]?[ \t]*"
)
_RANK = re.compile(
    r"\[(?:[Rr]ank|RANK)[ :=_]{0,2}(\d{1,6})\]|(?:^|[|\s])rank(\d{1,6})(?=[\s|:\]]|$)|\(rank (\d{1,6})\)"
    r"|(?:Rank|RANK) (\d{1,6})\]"
)


@dataclass(slots=True)
class Prefix(Moment):
    """The parsed head of a line."""

    host: str | None = None
    rank: int | None = None
    local_rank: int | None = None
    task: int | None = None
    pod: str | None = None
    pid: int | None = None
    process: str = ""
    start: int = 0
    """Index of the message in the line."""


def parse_prefix(text: str, *, task_labels: bool = False) -> Prefix:
    """Parse the head of one line (without ANSI codes).

    ``task_labels`` says that the file was written with ``srun -l``: each line begins with ``task: ``.
    """
    prefix = Prefix()
    at = _wrappers(text, prefix, task_labels)
    at = _skip_blank(text, at)
    after = _stamp(text, at, prefix)
    if after == at and prefix.ts == NO_TIME:
        after = _labelled_host(text, at, prefix)
    if after == at:
        lead = _LEAD.match(text, at)
        after = parse_stamp(text, lead.end(), prefix) if lead else at
        after = after if lead and after != lead.end() else at
    if after != at:
        after += text[after : after + 1] in ('"', "'")
        at = _behind_stamp(text, after, prefix)
        # a collector's stamp or label before the program's own
        at = _skip_blank(text, at)
        if text[at : at + 1] in ("[", "(", "<"):
            at = _skip_blank(text, _wrappers(text, prefix, False, at))
        at = _stamp(text, at, prefix)
    _nccl_head(text, at, prefix)
    level = _LEVEL.match(text, at)
    if level:
        at = level.end()
    if prefix.rank is None and (text.find("ank", 0, at + 120) >= 0 or text.find("ANK", 0, at + 120) >= 0):
        rank = _RANK.search(text, 0, min(len(text), at + 120))
        if rank:
            prefix.rank = int(next(group for group in rank.groups() if group is not None))
    prefix.start = _skip_blank(text, at)
    return prefix


def _stamp(text: str, at: int, prefix: Prefix) -> int:
    """Read a stamp; one that follows an outer stamp only adds what that did not say."""
    if prefix.ts == NO_TIME:
        return parse_stamp(text, at, prefix)
    inner = Moment()
    after = parse_stamp(text, at, inner)
    if inner.uptime != NO_TIME:
        prefix.uptime, prefix.kernel = inner.uptime, True
    if inner.quality > prefix.quality:
        prefix.ts, prefix.quality, prefix.yearless, prefix.zoned = inner.ts, inner.quality, inner.yearless, inner.zoned
    return after


def _labelled_host(text: str, at: int, prefix: Prefix) -> int:
    """``host: `` as pdsh, clush and Ansible write it, if a time stamp follows."""
    label = _LABELLED.match(text, at)
    if label is None:
        return at
    after = parse_stamp(text, label.end(), prefix)
    if after == label.end():
        return at
    if any(c.isdigit() for c in label[1]) and not _NO_HOST.match(label[1]) and is_host_name(label[1]):
        prefix.host = label[1]
    return after


def _wrappers(text: str, prefix: Prefix, task_labels: bool, at: int = 0) -> int:
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
        elif match["node"]:
            prefix.host = match["node"]
        elif match["cri"]:
            parse_stamp(match["cri"], 0, prefix)
        elif match["pid"]:
            prefix.pid = int(match["pid"])
            if match["ip"] and is_host_name(match["ip"]):
                prefix.host = match["ip"]
        elif match["kmsg"]:
            prefix.uptime, prefix.kernel = int(match["micros"]) * 1000, True
            prefix.ts, prefix.quality = prefix.uptime, TimeQuality.UPTIME
        elif match["facility"] or match["pri"]:
            prefix.kernel = True
        at = match.end()
    return at


def _behind_stamp(text: str, at: int, prefix: Prefix) -> int:
    """Host and process of a system log, a second stamp of the kernel, or nothing."""
    match = _HOST.match(text, at)
    if match and not match[2].startswith("[") and match[1].lower() not in _LEVEL_WORDS:
        process = match[2].split("[", 1)[0]
        if prefix.syslog or process in _SYSTEM or "[" in match[2]:
            prefix.host, prefix.process, prefix.kernel = match[1], process, True
            at = match.end()
            inner = Prefix()
            after = parse_stamp(text, at, inner)
            if inner.uptime != NO_TIME:
                prefix.uptime = inner.uptime
                at = after
            return at
    match = _GLOG_PLACE.match(text, at)
    if match:
        return match.end()
    match = _RFC5424_HOST.match(text, at)
    if match and prefix.kernel and match[1].lower() not in _LEVEL_WORDS:
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
    match = _NCCL.match(text, _skip_blank(text, at))
    if match:
        prefix.host, prefix.pid = match[1], int(match[2])


def _skip_blank(text: str, at: int) -> int:
    while at < len(text) and text[at] in " \t":
        at += 1
    return at
