"""Rows of Slurm's tables and ``scontrol show`` records as statements about jobs and nodes."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from aiops.ingest.hostlist import HostlistError
from aiops.ingest.slurm_records import JobRecord, NodeRecord
from aiops.ingest.slurm_tables import Row
from aiops.ingest.slurm_values import (
    cancelled_by,
    exit_pair,
    gpu_count,
    job_state,
    node_names,
    present,
    reason_text,
    size_bytes,
    span_seconds,
    time_ns,
)
from aiops.model.event import NO_TIME

_JOB = re.compile(r"\s*JobId=(\d+)\b")
_NODE = re.compile(r"\s*NodeName=(\S+) ")
_PAIR = re.compile(r"(?:^|\s)([A-Z][\w/:]*)=")
_REASON = re.compile(r"(.*?)\s*\[([^@\[\]]+)@([^\]]+)\]\s*", re.DOTALL)
_STEP = re.compile(r"([^.]+)\.(.+)")
# Free text: holds whatever a user wrote, so nothing behind it on its line is trusted.
_FREE = frozenset(
    {
        "JobName",
        "Comment",
        "AdminComment",
        "SystemComment",
        "Command",
        "WorkDir",
        "Reason",
        "OS",
        "Extra",
        "Features",
        "StdErr",
        "StdOut",
        "StdIn",
        "SubmitLine",
    }
)
_TEXT_LIMIT = 400

NODE_FLAGS = {
    "*": "NOT_RESPONDING",
    "$": "MAINTENANCE",
    "@": "REBOOT_REQUESTED",
    "^": "REBOOT_ISSUED",
    "~": "POWERED_DOWN",
    "#": "POWERING_UP",
    "%": "POWERING_DOWN",
    "!": "POWER_DOWN",
    "-": "PLANNED",
    "+": "COMPLETING",
}


def starts_record(line: str) -> str | None:
    """``job``, ``node`` or ``reservation`` if the line begins a record of ``scontrol show``, which slurm.conf lines do not."""
    if line.startswith("ReservationName=") and " StartTime=" in line:
        return "reservation"
    if _JOB.match(line) and ("JobName=" in line or "ArrayJobId=" in line or "UserId=" in line):
        return "job"
    return "node" if _NODE.match(line) and re.search(r" (?:Arch|CPUAlloc|CoresPerSocket)=", line) else None


def pairs(lines: list[str]) -> dict[str, str]:
    """``Key=value`` of a record, of one line (``-o``) or many. The first of equal keys counts.

    A free text reaches to the next key that Slurm itself prints there, or to the end of its line.
    """
    found: dict[str, str] = {}
    one_line = len(lines) == 1
    for line in lines:
        marks = [(match[1], match.end()) for match in _PAIR.finditer(line)]
        at = 0
        while at < len(marks):
            key, start = marks[at]
            after = at + 1
            if key in _FREE:
                after = _next_key(marks, at, one_line)
            end = marks[after][1] - len(marks[after][0]) - 1 if after < len(marks) else len(line)
            found.setdefault(key, line[start:end].strip())
            at = after
    return found


# What scontrol prints after a free text on the same line, by the order of its output.
_FOLLOWERS = {
    "JobName": ("UserId",),
    "Reason": ("Dependency", "Comment", "JobId", "FailedNode", "Extra"),
    "Comment": ("StdErr", "AdminComment", "SystemComment", "Extra"),
    "Command": ("WorkDir",),
    "WorkDir": ("Comment", "AdminComment", "SystemComment", "StdErr"),
    "OS": ("RealMemory",),
    "AdminComment": ("SystemComment", "StdErr", "Comment"),
    "SystemComment": ("StdErr", "Comment"),
    "StdErr": ("StdIn",),
    "StdIn": ("StdOut",),
    "StdOut": ("Power", "TresPerNode", "MailUser", "TresPerTask"),
    "Features": ("DelayBoot", "PartitionName"),
    "Extra": ("Reason", "Comment", "InstanceId"),
    "SubmitLine": (),
}


def _next_key(marks: list[tuple[str, int]], at: int, one_line: bool) -> int:
    """Index of the mark that ends the free text at ``at``."""
    key = marks[at][0]
    if not one_line and key not in ("Reason", "Features"):
        return len(marks)
    followers = _FOLLOWERS.get(key, ())
    return next((index for index in range(at + 1, len(marks)) if marks[index][0] in followers), len(marks))


def job_from_pairs(given: Mapping[str, str], line: int, text: str) -> JobRecord:
    raw = given["JobId"].split()[0]
    array, task = given.get("ArrayJobId"), given.get("ArrayTaskId")
    code, signal = exit_pair(given.get("ExitCode", ""))
    gpus = gpu_count(given.get("AllocTRES") or "") or gpu_count(given.get("TRES") or given.get("ReqTRES") or "")
    waits = job_state(given.get("JobState", "")) == "PENDING"
    more: dict[str, Any] = {}
    for name, key in (
        ("ExcNodeList", "excluded"),
        ("ReqNodeList", "required"),
        ("Dependency", "dependency"),
        ("StdOut", "stdout"),
    ):
        if (value := present(given.get(name, ""))) is not None:
            more[key] = value
    if (per_node := gpu_count(given.get("TresPerNode", ""))) is not None:
        more["gpus_per_node"] = per_node
    return JobRecord(
        id=f"{array}_{task}" if array and task and task.isdecimal() else raw,
        raw_id=raw,
        tool="scontrol",
        name=present(given.get("JobName", "")),
        user=(present(given.get("UserId", "")) or "").split("(")[0] or None,
        account=present(given.get("Account", "")),
        partition=present(given.get("Partition", "")),
        qos=present(given.get("QOS", "")),
        state=job_state(given.get("JobState", "")),
        reason=reason_text(given.get("Reason", "")),
        exit_code=code,
        exit_signal=signal,
        submitted=time_ns(given.get("SubmitTime", "")),
        # For a waiting job these are the scheduler's guess.
        started=NO_TIME if waits else time_ns(given.get("StartTime", "")),
        ended=NO_TIME if waits else time_ns(given.get("EndTime", "")),
        elapsed=span_seconds(given.get("RunTime", "")),
        limit=span_seconds(given.get("TimeLimit", "")),
        nodes=node_names(given.get("NodeList", "")),
        node_count=_count(given.get("NumNodes", "").split("-")[0]),
        gpus=gpus,
        restarts=_count(given.get("Restarts", "")),
        failed_node=present(given.get("FailedNode", "")),
        more=more,
        line=line,
        text=text,
    )


def nodes_from_pairs(given: Mapping[str, str], line: int, text: str) -> Iterator[NodeRecord]:
    match = _REASON.fullmatch(given.get("Reason", ""))
    reason = present(match[1]) if match else present(given.get("Reason", ""))
    more: dict[str, Any] = {}
    for name, key in (
        ("BootTime", "boot_time"),
        ("SlurmdStartTime", "slurmd_start_time"),
        ("LastBusyTime", "last_busy"),
    ):
        if (ts := time_ns(given.get(name, ""))) != NO_TIME:
            more[key] = ts
    for name, key in (("Gres", "gres"), ("GresUsed", "gres_used"), ("GresDrain", "gres_drained")):
        if (value := present(given.get(name, ""))) is not None:
            more[key] = value
    more.update(
        _node_place(given.get("Partitions", ""), given.get("CfgTRES") or given.get("Gres", ""), given.get("AllocTRES"))
    )
    for node in node_names(given["NodeName"]):
        yield NodeRecord(
            node,
            given.get("State", "").upper(),
            reason,
            user=match[2] if match else None,
            since=time_ns(match[3]) if match else NO_TIME,
            more=dict(more),
            line=line,
            text=text,
        )


def reservation_from_pairs(given: Mapping[str, str]) -> dict[str, Any]:
    """``name``, ``nodes``, ``flags``, ``state``, ``start`` and ``end`` (UTC ns) of ``scontrol show reservation``."""
    return {
        "name": given["ReservationName"],
        "nodes": node_names(given.get("Nodes", "")),
        "flags": tuple(given.get("Flags", "").split(",")),
        "state": given.get("State", ""),
        "start": time_ns(given.get("StartTime", "")),
        "end": time_ns(given.get("EndTime", "")),
    }


def _node_place(partitions: str, gpus: str, used: str | None) -> dict[str, Any]:
    """``partitions`` of a node, and how many ``gpus`` it has and ``gpus_used`` jobs hold, as far as they are told."""
    more: dict[str, Any] = {}
    if (told := present(partitions)) is not None:
        more["partitions"] = tuple(sorted(name.strip().rstrip("*") for name in told.split(",")))
    if (count := gpu_count(gpus)) is not None:
        more["gpus"] = count
    if used is not None:
        more["gpus_used"] = gpu_count(used) or 0
    return more


def job_from_row(row: Row) -> JobRecord | None:
    """A row of ``sacct`` or ``squeue``; ``None`` if it names no job."""
    cells = row.cells
    shown = (cells.get("jobid") or cells.get("jobidraw") or "").strip()
    if not shown or not shown[0].isdigit():
        return None
    match = _STEP.fullmatch(shown)
    state_text = cells.get("state") or cells.get("st") or ""
    nodes_text = cells.get("nodelist") or cells.get("nodelist(reason)") or ""
    reason = reason_text(cells.get("reason", ""))
    if nodes_text.startswith("("):
        reason, nodes_text = reason or reason_text(nodes_text[1:-1]), ""
    code, signal = exit_pair(cells.get("exitcode", ""))
    raw = (cells.get("jobidraw") or "").split(".")[0] or None
    rss = cells.get("maxrss", "")
    gpus = gpu_count(cells.get("alloctres", "")) or gpu_count(cells.get("reqtres", "")) or _gres_total(cells)
    more: dict[str, Any] = {}
    if present(cells.get("derivedexitcode", "")):
        more["derived_exit_code"] = cells["derivedexitcode"]
    if (depends := present(cells.get("dependency", ""))) is not None:
        more["dependency"] = depends
    if (per_node := gpu_count(cells.get("tres_per_node", ""))) is not None:
        more["gpus_per_node"] = per_node
    return JobRecord(
        id=match[1] if match else shown.rstrip("+"),
        step=_step_name(match[2]) if match else None,
        raw_id=raw,
        tool=row.tool,
        name=present(cells.get("jobname") or cells.get("name") or ""),
        user=present(cells.get("user", "")),
        account=present(cells.get("account", "")),
        partition=present(cells.get("partition", "")),
        qos=present(cells.get("qos", "")),
        state=job_state(state_text),
        cancelled_by=cancelled_by(state_text),
        reason=reason,
        exit_code=code,
        exit_signal=signal,
        submitted=time_ns(cells.get("submit") or cells.get("submit_time") or ""),
        started=_started(row),
        ended=time_ns(cells.get("end", "")),
        elapsed=span_seconds(cells.get("elapsed") or (cells.get("time", "") if row.tool == "squeue" else "")),
        limit=span_seconds(cells.get("timelimit") or cells.get("time_limit") or ""),
        nodes=node_names(nodes_text),
        node_count=_count(cells.get("nnodes") or cells.get("nodes") or ""),
        gpus=gpus,
        max_rss=size_bytes(rss),
        max_rss_node=present(cells.get("maxrssnode", "")),
        failed_node=present(cells.get("failednode", "")),
        more=more,
        line=row.line,
        text=row.text[:_TEXT_LIMIT],
    )


def _started(row: Row) -> int:
    # squeue --start tells when a pending job may start, which is no fact.
    if row.tool == "squeue" and job_state(row.cells.get("state") or row.cells.get("st") or "") == "PENDING":
        return NO_TIME
    return time_ns(row.cells.get("start") or row.cells.get("start_time") or "")


def _gres_total(cells: Mapping[str, str]) -> int | None:
    per_node = gpu_count(cells.get("tres_per_node", ""))
    count = _count(cells.get("nodes", ""))
    return per_node * count if per_node and count else None


def _step_name(text: str) -> str:
    for name in ("batch", "extern", "interactive"):
        if text == name or (text.endswith("+") and name.startswith(text[:-1])):
            return name
    return text


def nodes_from_row(row: Row) -> Iterator[NodeRecord]:
    """A row of ``sinfo`` gives one statement per node.

    ``sinfo -R`` lists nodes that are down, drained or failing without saying which: their state stays empty.
    """
    cells = row.cells
    reason = present(cells.get("reason", ""))
    for node in node_names(cells.get("nodelist") or cells.get("hostnames") or ""):
        yield NodeRecord(
            node,
            node_state(cells.get("state", "")),
            reason,
            user=present(cells.get("user", "")),
            since=time_ns(cells.get("timestamp", "")),
            more=_node_place(cells.get("partition", ""), cells.get("gres", ""), cells.get("gres_used")),
            line=row.line,
            text=row.text[:_TEXT_LIMIT],
        )


def node_state(text: str) -> str:
    """``DOWN+NOT_RESPONDING`` of ``down*``; ``+`` joins base state and flags as in ``scontrol``."""
    word = text.strip()
    flags = []
    while word and word[-1] in NODE_FLAGS:
        flags.append(NODE_FLAGS[word[-1]])
        word = word[:-1]
    return "+".join(
        [
            {
                "ALLOC": "ALLOCATED",
                "MIX": "MIXED",
                "DRNG": "DRAINING",
                "COMP": "COMPLETING",
                "MAINT": "MAINTENANCE",
                "RESV": "RESERVED",
                "UNK": "UNKNOWN",
                "FAILG": "FAILING",
                "INVAL": "INVALID_REG",
            }.get(word.upper(), word.upper()),
            *reversed(flags),
        ]
    ).strip("+")


def _count(text: str) -> int | None:
    return int(text) if text.isdecimal() and len(text) < 10 else None


__all__ = [
    "HostlistError",
    "job_from_pairs",
    "job_from_row",
    "node_state",
    "nodes_from_pairs",
    "nodes_from_row",
    "pairs",
    "reservation_from_pairs",
    "starts_record",
]
