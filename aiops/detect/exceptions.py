"""Python exceptions: who raised what first, in whose code, and who only heard of it."""

from __future__ import annotations

import re

from aiops.catalog.model import Catalog
from aiops.detect.evidence import evidence_rows, in_time, inexact, known
from aiops.detect.traceback import Traceback, read_traceback
from aiops.model.case import Case
from aiops.model.event import NO_TIME, Event, Severity
from aiops.model.finding import EvidenceRef, Finding, Role

_MOST = 4_000
ECHO_TYPES = frozenset(
    {
        "DistBackendError",
        "ChildFailedError",
        "SignalException",
        "SystemExit",
        "BrokenPipeError",
        "ConnectionResetError",
        "ConnectionAbortedError",
        "CancelledError",
        "ProcessExitedException",
        "ProcessRaisedException",
        "RayActorError",
        "ActorDiedError",
        "WorkerCrashedError",
        "CalledProcessError",
    }
)
"""Raised where another process failed or a signal came: they report, they do not cause."""
_NUMBERS = re.compile(r"\d+(?:\.\d+)?|0x[0-9a-f]+")


def detect(case: Case, catalog: Catalog) -> list[Finding]:
    """``py.exception`` for each distinct exception.

    Fields: ``type``, ``message``, ``file``, ``line``, ``function`` (the user's frame), ``ranks``, ``in_loader``, ``signals``
    (signals that hit inside the traceback), ``survived`` (the rank went on training afterwards), ``all_ranks``, ``own`` (the program's
    own error: nothing in it tells of another fault).
    Role: ``echo`` for exceptions that only report another process' end, ``context`` if a signal names the cause more
    precisely or the run went on, else ``root``. An exception inside one rank's data loader is ``data.exception``.
    """
    events = evidence_rows(case, "py.traceback")[:_MOST]
    stacks = [stack for event in events if (stack := read_traceback(case, event)) is not None]
    hits = _hits_by_source(case)
    outer = _outer(stacks)
    progress = _progress(case)
    groups: dict[tuple[object, ...], list[Traceback]] = {}
    for stack in stacks:
        user = stack.user_frame
        key = (stack.short_type, _NUMBERS.sub("#", stack.message)[:200], user[:2] if user else None)
        groups.setdefault(key, []).append(stack)
    return [_finding(case, catalog, group, hits, progress, outer) for group in groups.values()]


def _finding(
    case: Case,
    catalog: Catalog,
    group: list[Traceback],
    hits: dict[int, list[Event]],
    progress: dict[tuple[int, int | None], tuple[int, int]],
    outer: set[int],
) -> Finding:
    group.sort(key=lambda stack: in_time(stack.event))
    head = next((stack for stack in group if stack.event.rank is not None), group[0])
    ranks = tuple(sorted({stack.event.rank for stack in group if stack.event.rank is not None}))
    inside = sorted(
        {
            event.signal
            for stack in group
            for event in hits.get(stack.event.source, ())
            if stack.event.line <= event.line <= stack.last_line + 3
            and event.rank in (None, stack.event.rank)
            and (event.line <= stack.last_line or event.rank is not None or stack.event.rank is None)
        }
    )
    by_id = catalog.by_id
    roles = {by_id[name].role for name in inside if name in by_id}
    survived = all(_goes_on(stack.event, progress) for stack in group)
    role = Role.ROOT
    if survived or Role.ROOT in roles or all(stack.event.index in outer for stack in group):
        role = Role.CONTEXT
    elif Role.ECHO in roles or head.short_type in ECHO_TYPES:
        role = Role.ECHO
    world = case.topology.world_size
    user = head.user_frame
    everywhere = bool(world and world > 1 and len(ranks) * 10 >= world * 8) or (world is None and len(ranks) > 3)
    loader = head.in_loader and len(ranks) <= 1 and not everywhere
    first = min((stack.event.ts for stack in group if known(stack.event)), default=NO_TIME)
    where = f" at {user[0]}:{user[1]} in {user[2]}" if user else ""
    who = f" on rank {ranks[0]}" if len(ranks) == 1 else f" on {len(ranks)} ranks" if ranks else ""
    message = f": {head.message[:200]}" if head.message else ""
    place = case.topology.ranks.get(ranks[0]) if ranks else None
    return Finding(
        sign="data.exception" if loader and role == Role.ROOT else "py.exception",
        text=f"{head.short_type}{message}{where}{who}",
        role=role,
        severity=Severity.ERROR,
        first=first,
        last=max((s.event.ts for s in group if known(s.event)), default=NO_TIME),
        node=head.event.node or (place.node if place else None),
        rank=head.event.rank if len(ranks) <= 1 else None,
        ranks=ranks,
        gpu=place.gpu if place and len(ranks) == 1 else None,
        count=len(group),
        name=f"{user[0]}:{user[1]}" if user else None,
        inexact=inexact(stack.event for stack in group),
        fields={
            "type": head.short_type,
            "message": head.message,
            "file": user[0] if user else "",
            "line": user[1] if user else 0,
            "function": user[2] if user else "",
            "in_loader": head.in_loader,
            "signals": inside,
            "survived": survived,
            "all_ranks": everywhere,
            "own": role == Role.ROOT,
            "ranks": len(ranks),
        },
        evidence=[_quote(case, stack) for stack in _distinct(group)[:3]],
    )


def _distinct(group: list[Traceback]) -> list[Traceback]:
    seen: dict[tuple[int | None, str], Traceback] = {}
    for stack in group:
        seen.setdefault((stack.event.rank, ""), stack)
    return list(seen.values())


def _quote(case: Case, stack: Traceback) -> EvidenceRef:
    return EvidenceRef(
        source=case.sources[stack.event.source].name,
        line=stack.last_line,
        offset=stack.raised_at,
        text=stack.raw,
        ts=stack.event.ts if known(stack.event) else NO_TIME,
    )


def _hits_by_source(case: Case) -> dict[int, list[Event]]:
    skip = {
        "py.traceback",
        "train.progress",
        "train.start",
        "ckpt.saved",
        "ckpt.loaded",
        "launcher.child_failed",
        "launcher.closing",
        "launcher.failed",
        "launcher.exit_record",
        "srun.task_exit",
        "slurm.job_stopped",
    }
    found: dict[int, list[Event]] = {}
    for event in case.events:
        if event.signal not in skip and not event.quoted:
            found.setdefault(event.source, []).append(event)
    return found


def _progress(case: Case) -> dict[tuple[int, int | None], tuple[int, int]]:
    """Last progress line of each (source, rank): (line, steps seen)."""
    last: dict[tuple[int, int | None], tuple[int, int]] = {}
    for event in evidence_rows(case, "train.progress", "train.step"):
        for key in ((event.source, event.rank), (event.source, None)):
            line, count = last.get(key, (0, 0))
            last[key] = (max(line, event.line), count + 1)
    return last


def _goes_on(event: Event, progress: dict[tuple[int, int | None], tuple[int, int]]) -> bool:
    """True if the same rank (or, without rank, the same file) trained on after the traceback."""
    line, _ = progress.get((event.source, event.rank), (0, 0))
    return line > event.line


def _outer(stacks: list[Traceback]) -> set[int]:
    """Rows of exceptions raised while another one was handled: the other came first and is the cause."""
    found: set[int] = set()
    inner: dict[tuple[int, int | None], int] = {}
    for stack in sorted(stacks, key=lambda s: (s.event.source, s.event.line)):
        key = (stack.event.source, stack.event.rank)
        if key in inner and stack.event.line - inner[key] <= 12:
            found.add(stack.event.index)
        if stack.wraps:
            inner[key] = stack.last_line
        else:
            inner.pop(key, None)
    return found
