"""How processes ended, as launchers tell it: torchrun, srun, mpirun, signals from outside."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime

from aiops.catalog.model import Catalog
from aiops.detect.evidence import evidence_rows, in_time, known, quote, quotes, span
from aiops.ingest.identity import tasks_are_launchers
from aiops.model.case import Case
from aiops.model.event import NO_TIME, Event, Severity
from aiops.model.finding import EvidenceRef, Finding, Role

_BLOCK = re.compile(
    r"time +: (?P<time>\d{4}-\d\d-\d\d_\d\d:\d\d:\d\d)[^\n]*\n[^\n]*?host +: (?P<host>[\w.-]+)[^\n]*\n"
    r"[^\n]*?rank +: (?P<rank>\d{1,9}) \(local_rank: (?P<local>\d{1,9})\)"
)
_SIGNALS = {
    1: "SIGHUP",
    2: "SIGINT",
    4: "SIGILL",
    6: "SIGABRT",
    7: "SIGBUS",
    8: "SIGFPE",
    9: "SIGKILL",
    10: "SIGUSR1",
    11: "SIGSEGV",
    15: "SIGTERM",
}
_WORDS = {"Killed": -9, "Terminated": -15, "Segmentation fault": -11, "Bus error": -7, "Aborted": -6}


@dataclass(slots=True)
class Exit:
    """The end of one process."""

    code: int
    """Exit code; negative = signal."""
    rank: int | None
    host: str | None
    ts: int
    event: Event
    root: bool = False
    """The launcher calls it the first observed failure (of its node)."""


def detect(case: Case, catalog: Catalog) -> list[Finding]:
    """Findings about process ends.

    ``proc.sigkill``, ``proc.segv``, ``proc.sigbus``, ``proc.abort`` (ROOT: nobody else explains the signal),
    ``proc.early_exit`` (ROOT: an exit code without any traceback of that rank), ``proc.exit`` (CONTEXT: explained by
    another finding of the rank), ``launcher.stopped`` (a signal to the launcher from outside, fields ``signal``),
    ``slurm.cancelled`` (fields ``why``, ``job``), ``job.restarted`` (CONTEXT).
    """
    exits = _exits(case)
    findings = [_finding(case, group) for group in _by_rank(exits).values() if group[0].code not in (0, -15)]
    return [*findings, *_outside(case, exits), *_slurm(case), *_restarts(case)]


def recorded_exits(case: Case) -> list[tuple[str, int, int]]:
    """(host, process id, rank) of each failed process in the launcher's summaries."""
    return [
        (exit.host, int(exit.event.fields["pid"]), exit.rank)
        for exit in _exits(case)
        if exit.event.signal == "launcher.exit_record" and exit.host and exit.rank is not None
    ]


def _exits(case: Case) -> list[Exit]:
    exits: list[Exit] = []
    for event in evidence_rows(case, "launcher.exit_record"):
        window = case.read(event.source, max(0, event.offset - 600), min(600, event.offset)).decode("utf-8", "replace")
        blocks = list(_BLOCK.finditer(window))
        block = blocks[-1] if blocks else None
        stamp = NO_TIME
        if block:
            moment = datetime.strptime(block["time"], "%Y-%m-%d_%H:%M:%S").replace(tzinfo=UTC)
            stamp = int(moment.timestamp()) * 1_000_000_000
        exits.append(
            Exit(
                int(event.fields["code"]),
                int(block["rank"]) if block else None,
                block["host"] if block else event.node,
                stamp,
                event,
                root="Root Cause" in window[-420:],
            )
        )
    known_pids = {str(e.event.fields.get("pid")) for e in exits}
    exits += [
        Exit(int(event.fields["code"]), event.rank, event.node, event.ts if known(event) else NO_TIME, event)
        for event in evidence_rows(case, "launcher.failed")
        if event.fields["pid"] not in known_pids
    ]
    agents = tasks_are_launchers(case)
    for event in evidence_rows(case, "srun.task_exit"):
        code = int(event.fields["code"]) if "code" in event.fields else _WORDS.get(str(event.fields["how"]), 1)
        tasks = re.findall(r"\d{1,9}(?:-\d{1,9})?", str(event.fields["tasks"]))
        rank = int(tasks[0]) if len(tasks) == 1 and tasks[0].isdigit() and not agents else None
        exits.append(Exit(code, rank, str(event.fields["host"]), event.ts if known(event) else NO_TIME, event))
    for event in evidence_rows(case, "mpirun.exit"):
        how = str(event.fields.get("how", ""))
        exits.append(
            Exit(
                int(event.fields["code"]) if "code" in event.fields else -int(how) if how.isdigit() else 1,
                int(event.fields["rank"]) if event.fields.get("rank") else None,
                event.fields.get("host"),
                event.ts if known(event) else NO_TIME,
                event,
            )
        )
    return exits


def _by_rank(exits: list[Exit]) -> dict[object, list[Exit]]:
    groups: dict[object, list[Exit]] = {}
    for record in exits:
        key = (
            record.rank
            if record.rank is not None
            else (record.host, record.code, str(record.event.fields.get("tasks", "")))
        )
        groups.setdefault(key, []).append(record)
    return groups


def _finding(case: Case, group: list[Exit]) -> Finding:
    record = group[0]
    code, rank = record.code, record.rank
    noisy = _ranks_with_errors(case)
    watchdog = {e.rank for e in evidence_rows(case, "nccl.watchdog_timeout", "nccl.aftermath")}
    sign, role = "proc.exit", Role.CONTEXT
    if code == -9:
        sign, role = "proc.sigkill", Role.ROOT
    elif code == -11:
        sign, role = "proc.segv", Role.ROOT
    elif code == -7:
        sign, role = "proc.sigbus", Role.ROOT
    elif code in (-6, -4, -8):
        unheard = rank is not None and not _has_log(case, rank)
        explained = (rank in watchdog) or bool(watchdog and (rank is None or unheard)) or rank in noisy
        sign, role = ("proc.exit", Role.ECHO) if explained else ("proc.abort", Role.ROOT)
    elif code > 128 and code - 128 in _SIGNALS:
        signal = code - 128
        sign = {9: "proc.sigkill", 11: "proc.segv", 7: "proc.sigbus"}.get(signal, "proc.exit")
        role = Role.CONTEXT if sign == "proc.exit" else Role.ROOT
    elif code > 0 and rank is not None and rank not in noisy and _has_log(case, rank) and not _aborted(record):
        sign, role = "proc.early_exit", Role.ROOT
    how = f"signal {_SIGNALS.get(-code, -code)}" if code < 0 else f"exit code {code}"
    who = f"rank {rank}" if rank is not None else f"a process on {record.host}" if record.host else "a process"
    place = case.topology.ranks.get(rank) if rank is not None else None
    stamps = [r.ts for r in group if r.ts != NO_TIME]
    node = (place.node if place else None) or record.host
    return Finding(
        sign=sign,
        text=f"{who} ended with {how}" + (" (the launcher saw it first)" if any(r.root for r in group) else ""),
        role=role,
        severity=Severity.ERROR if role == Role.ROOT else Severity.WARNING,
        first=min(stamps, default=NO_TIME),
        last=max(stamps, default=NO_TIME),
        node=node,
        rank=rank,
        ranks=() if rank is None else (rank,),
        nodes=(node,) if node else (),
        count=len(group),
        gpu=place.gpu if place else None,
        fields={"code": code, "signal": -code if code < 0 else 0, "launcher_first": any(r.root for r in group)},
        evidence=[quote(case, record.event) for record in group[:2]],
    )


def _ranks_with_errors(case: Case) -> set[int | None]:
    """Ranks whose own log shows an error of any kind."""
    found: set[int | None] = set()
    for event in case.events:
        loud = event.severity >= Severity.WARNING and not event.quoted
        if event.rank is not None and (loud or event.signal == "py.traceback"):
            found.add(event.rank)
    return found


def _aborted(record: Exit) -> bool:
    """An MPI program that calls MPI_Abort does so for a reason that it knows; it does not leave silently."""
    return "MPI_ABORT" in record.event.text


def _has_log(case: Case, rank: int) -> bool:
    """Whether anything that this rank printed was collected; silence of an unseen rank proves nothing."""
    return rank in case.coverage.ranks_with_log


def _outside(case: Case, exits: list[Exit]) -> list[Finding]:
    """A signal to the launcher itself: somebody outside the job ended it."""
    events = evidence_rows(case, "launcher.signal")
    if not events:
        return []
    event = events[0]
    number = _signal_number(str(event.fields.get("signum", "15")))
    earlier = [e for e in exits if e.code not in (0, -15, -number)]
    first, last = span(events)
    heard = [e for e in evidence_rows(case, *_HEARD) if _well_before(e, event)]
    return [
        Finding(
            sign="launcher.stopped",
            text=f"The launcher was stopped from outside by {_SIGNALS.get(number, number)}",
            role=Role.ECHO if earlier or heard else Role.ROOT,
            severity=Severity.WARNING,
            first=first,
            last=last,
            node=event.node,
            count=len(events),
            fields={"signal": number},
            evidence=quotes(case, events),
        )
    ]


_HEARD = ("net.peer_closed", "nccl.watchdog_timeout", "nccl.error", "net.connect_refused")
"""What a rank says when another one has died: a launcher that is stopped after it is stopped because of it."""
_HEARD_S = 1.0


def _well_before(early: Event, late: Event) -> bool:
    """By place within a file; across files by time, and only beyond what clocks may differ."""
    if early.source == late.source:
        return early.line < late.line
    return known(early) and known(late) and early.ts < late.ts - _HEARD_S * 1e9


def _signal_number(text: str) -> int:
    """``15`` of ``15``, ``SIGTERM``, ``TERM`` and ``Signals.SIGTERM``."""
    if text.isdigit():
        return int(text[:4])
    name = "SIG" + text.removeprefix("Signals.").removeprefix("SIG")
    return next((number for number, known_name in _SIGNALS.items() if known_name == name), 15)


def _slurm(case: Case) -> list[Finding]:
    groups: dict[tuple[str, str], list[Event]] = {}
    accused = evidence_rows(case, "slurm.node_not_responding")
    for event in evidence_rows(case, "slurm.step_cancelled"):
        why = str(event.fields.get("why") or "").strip()
        groups.setdefault((str(event.fields["job"]), why), []).append(event)
    findings = []
    for (job, why), events in groups.items():
        first, last = span(events)
        root = why in ("TIME LIMIT", "PREEMPTION", "NODE FAILURE", "USER REQUEST")
        nodes = tuple(dict.fromkeys(str(e.fields["host"]) for e in events))
        findings.append(
            Finding(
                sign="slurm.cancelled",
                text=f"Slurm ended job {job}" + (f" due to {why.lower()}" if why else ""),
                role=Role.ROOT if root else Role.ECHO,
                severity=Severity.WARNING,
                first=first,
                last=last,
                nodes=nodes,
                node=nodes[0]
                if len(nodes) == 1 and why == "NODE FAILURE" and not accused and _alone(case, job)
                else None,
                job=job,
                count=sum(e.count for e in events),
                fields={"why": why, "job": job},
                evidence=quotes(case, sorted(events, key=in_time)),
            )
        )
    return findings


def _alone(case: Case, job: str) -> bool:
    """True if the job is known to have this node only: a node that failed does not print why its job is cancelled."""
    known_nodes = {node for one in case.jobs if one.id == job for node in one.nodes}
    known_nodes |= {place.node for place in case.topology.ranks.values() if place.node}
    return len(known_nodes) == 1


def _restarts(case: Case) -> list[Finding]:
    events = [e for e in evidence_rows(case, "launcher.restart") if "left" in e.fields or "FAILED" in e.text]
    if not events:
        return []
    first, last = span(events)
    refs: list[EvidenceRef] = quotes(case, events)
    return [
        Finding(
            sign="job.restarted",
            text=f"The elastic agent restarted the workers ({len(events)} messages)",
            role=Role.CONTEXT,
            severity=Severity.WARNING,
            first=first,
            last=last,
            count=len(events),
            evidence=refs,
        )
    ]
