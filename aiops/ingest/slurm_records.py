"""What Slurm's commands say about a job or a node, one statement at a time, and how statements about a job are joined.

Several commands, and several lines of one, speak of the same job: requeued incarnations, steps, a queue listing
beside the accounting. The result depends only on what is said, not on the order in which files are read.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from aiops.ingest.slurm_values import is_final
from aiops.model.case import Job
from aiops.model.event import NO_TIME

SCHEDULER = "slurm"

_TOOLS = ("sacct", "scontrol", "squeue")
"""Most trusted last word first."""
_VAGUE = frozenset({"Resources", "Priority", "BeginTime"})


@dataclass(slots=True)
class JobRecord:
    """One statement about a job, an incarnation of it, or a step. Times are UTC ns, sizes bytes, spans seconds."""

    id: str
    """Job id as users write it: ``123``, ``123_4`` for an array task."""
    tool: str
    step: str | None = None
    """``None`` for the job itself, else ``batch``, ``extern``, ``0``, …"""
    raw_id: str | None = None
    name: str | None = None
    user: str | None = None
    account: str | None = None
    partition: str | None = None
    qos: str | None = None
    state: str | None = None
    flags: tuple[str, ...] = ()
    reason: str | None = None
    cancelled_by: str | None = None
    exit_code: int | None = None
    exit_signal: int | None = None
    submitted: int = NO_TIME
    started: int = NO_TIME
    ended: int = NO_TIME
    elapsed: int | None = None
    limit: int | None = None
    nodes: tuple[str, ...] = ()
    node_count: int | None = None
    gpus: int | None = None
    max_rss: int | None = None
    max_rss_node: str | None = None
    restarts: int | None = None
    failed_node: str | None = None
    more: dict[str, Any] = field(default_factory=dict)
    source: int = -1
    line: int = 0
    text: str = ""


@dataclass(slots=True)
class NodeRecord:
    """One statement about a node."""

    node: str
    state: str
    reason: str | None = None
    user: str | None = None
    since: int = NO_TIME
    more: dict[str, Any] = field(default_factory=dict)
    line: int = 0
    text: str = ""


def join_job(records: Iterable[JobRecord]) -> Job:
    """One job from all statements about it.

    ``fields`` of the result: ``user``, ``account``, ``partition``, ``qos``, ``cancelled_by``, ``restarts``,
    ``failed_node``, ``time_limit`` and ``elapsed`` (s), ``steps`` and, if the job ran more than once,
    ``incarnations`` (oldest first, each with ``state``, ``reason``, ``exit_code``, ``exit_signal``, ``started``,
    ``ended``, ``nodes``, ``source``, ``line``, ``text``), ``raw_id``, ``records`` (the statements).
    """
    said = sorted(records, key=_order)
    of_job = [record for record in said if record.step is None]
    runs = _incarnations(of_job)
    last = runs[-1] if runs else said[-1:]
    best = _word(last)
    if best.state == "PENDING" and (waits := [r for r in last if r.state == "PENDING" and r.reason is not None]):
        # The line that tells why it waits is the one to quote.
        best = _telling(waits)
    job = Job(
        id=best.id,
        name=_first(last, "name") or _first(of_job, "name"),
        scheduler=SCHEDULER,
        queue=_first(last, "partition") or _first(of_job, "partition"),
        state=best.state,
        reason=_reason(last),
        exit_code=best.exit_code,
        exit_signal=best.exit_signal,
        nodes=_first(last, "nodes") or (),
        gpus=_first(last, "gpus") or _first(said, "gpus"),
        submitted=_time(last, "submitted"),
        started=_time(last, "started"),
        ended=_time(last, "ended"),
        source=best.source,
        line=best.line,
        text=best.text,
    )
    if not is_final(job.state):
        # scontrol shows the time at which the limit would end a running job.
        job.ended = NO_TIME
    fields: dict[str, Any] = {name: value for name in _PASSED if (value := _first(of_job or said, name)) is not None}
    fields["flags"] = tuple(sorted({flag for record in last for flag in record.flags}))
    fields["restarts"] = max((record.restarts or 0 for record in of_job), default=0) or max(0, len(runs) - 1)
    fields["time_limit"], fields["elapsed"] = _first(last, "limit"), _first(last, "elapsed")
    fields["steps"] = tuple(_step(record, runs) for record in said if record.step is not None)
    if len(runs) > 1:
        fields["incarnations"] = tuple(_incarnation(run) for run in runs)
    for record in of_job:
        fields.update(record.more)
    fields["records"] = tuple(said)
    job.fields = fields
    return job


_PASSED = ("user", "account", "partition", "qos", "cancelled_by", "failed_node", "raw_id")


def _order(record: JobRecord) -> tuple[Any, ...]:
    rank = _TOOLS.index(record.tool) if record.tool in _TOOLS else len(_TOOLS)
    return (
        record.started == NO_TIME,
        record.started,
        record.submitted,
        record.step or "",
        rank,
        record.line,
        record.state or "",
        record.text,
    )


def _incarnations(of_job: list[JobRecord]) -> list[list[JobRecord]]:
    """Statements grouped by the run they speak of, oldest run first.

    sacct tells runs apart by their start. A listing without a start speaks of the latest one.
    """
    runs: dict[int, list[JobRecord]] = {}
    loose: list[JobRecord] = []
    for record in of_job:
        if record.started == NO_TIME and record.state != "PENDING":
            loose.append(record)
        else:
            runs.setdefault(record.started, []).append(record)
    waiting = runs.pop(NO_TIME, [])
    ordered = [runs[start] for start in sorted(runs)]
    if waiting:
        # Pending with a finished run before it: requeued. Otherwise it is the same wait, seen earlier.
        if not ordered or all(is_final(record.state) for record in ordered[-1]):
            ordered.append(waiting)
        else:
            ordered[-1] += waiting
    if loose:
        _place(loose, ordered)
    return ordered


def _place(loose: list[JobRecord], ordered: list[list[JobRecord]]) -> None:
    if not ordered:
        # Accounting with times that cannot be read: each row is still a run of its own.
        rows = sorted((record for record in loose if record.tool == "sacct"), key=lambda record: record.line)
        ordered += [[row] for row in rows]
        loose = [record for record in loose if record.tool != "sacct"]
    if loose and ordered:
        ordered[-1] += loose
    elif loose:
        ordered.append(loose)


def _word(run: list[JobRecord]) -> JobRecord:
    """The statement that decides on the state of a run: a final one if there is any, of the best tool."""
    final = [record for record in run if is_final(record.state)]
    return min(
        final or run,
        key=lambda record: (
            _TOOLS.index(record.tool) if record.tool in _TOOLS else 9,
            record.state == "PENDING",
            record.line,
            record.text,
        ),
    )


def _first(records: Iterable[JobRecord], name: str) -> Any:
    ranked = sorted(records, key=lambda record: _TOOLS.index(record.tool) if record.tool in _TOOLS else 9)
    for record in ranked:
        if (value := getattr(record, name)) not in (None, ()):
            return value
    return None


def _reason(records: Iterable[JobRecord]) -> str | None:
    """The most telling reason. Accounting keeps the short word of a reason that the queue tells in full, but squeue's
    JSON says no more than ``Resources`` where accounting knows that nodes are not available."""
    told = [record for record in records if record.reason is not None]
    return _telling(told).reason if told else None


def _telling(records: list[JobRecord]) -> JobRecord:
    order = ("scontrol", "squeue")
    return min(
        records, key=lambda r: (r.reason in _VAGUE, order.index(r.tool) if r.tool in order else 2, r.line, r.text)
    )


def _time(records: list[JobRecord], name: str) -> int:
    known = [value for record in records if (value := getattr(record, name)) != NO_TIME]
    return min(known) if known else NO_TIME


def _step(record: JobRecord, runs: list[list[JobRecord]]) -> dict[str, Any]:
    starts = [_time(run, "started") for run in runs]
    run = max((i for i, start in enumerate(starts) if start != NO_TIME and start <= record.started), default=0)
    return {
        "step": record.step,
        "name": record.name,
        "state": record.state,
        "exit_code": record.exit_code,
        "exit_signal": record.exit_signal,
        "started": record.started,
        "ended": record.ended,
        "nodes": record.nodes,
        "max_rss": record.max_rss,
        "max_rss_node": record.max_rss_node,
        "incarnation": run,
        "source": record.source,
        "line": record.line,
        "text": record.text,
    }


def _incarnation(run: list[JobRecord]) -> dict[str, Any]:
    word = _word(run)
    return {
        "state": word.state,
        "reason": _reason(run),
        "exit_code": word.exit_code,
        "exit_signal": word.exit_signal,
        "cancelled_by": word.cancelled_by,
        "submitted": _time(run, "submitted"),
        "started": _time(run, "started"),
        "ended": _time(run, "ended"),
        "nodes": _first(run, "nodes") or (),
        "source": word.source,
        "line": word.line,
        "text": word.text,
    }
