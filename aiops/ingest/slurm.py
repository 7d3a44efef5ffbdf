"""Output of Slurm's commands: accounting, queue, node and ``scontrol`` listings, as text or JSON.

Jobs are joined over all commands that speak of them, see `slurm_records.join_job`. Each node becomes a row
``slurm.node`` of the event table. Daemon logs are not read here: they are logs, and scanned as such.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import orjson

from aiops.ingest.hostlist import HostlistError
from aiops.ingest.slurm_json import accounting_job, node, partition_row, queue_job
from aiops.ingest.slurm_limits import LimitReader, is_limits
from aiops.ingest.slurm_records import SCHEDULER, JobRecord, NodeRecord, join_job
from aiops.ingest.slurm_tables import TableReader, table_tool
from aiops.ingest.slurm_text import (
    job_from_pairs,
    job_from_row,
    nodes_from_pairs,
    nodes_from_row,
    pairs,
    reservation_from_pairs,
    starts_record,
)
from aiops.ingest.slurm_values import is_trouble
from aiops.model.case import Case, Problem, Source
from aiops.model.event import NO_TIME, Severity, TimeQuality

NODE_SIGNAL = "slurm.node"
LIMIT_SIGNAL = "slurm.limit"
RESERVATION_SIGNAL = "slurm.reservation"

_JSON_HINT = re.compile(
    rb'"(?:Slurm|slurm)"\s*:\s*\{|"(?:slurm/)?openapi/(?:db)?v0\.|"data_parser/v0\.'
    rb'|"(?:accrue_time|allocation_nodes|job_state|burstbuffer_network_address|slurmd_start_time'
    rb'|boot_time|derived_exit_code)"\s*:'
)
_JSON_BODY = re.compile(rb'"(?:jobs|nodes|sinfo)"\s*:\s*\[|"meta"\s*:\s*\{')
_OUT_STATES = re.compile(r"DRAIN|MAINT|REBOOT|RESERVED")
_MAX_LINES_TO_HEADER = 12
_TEXT_LIMIT = 400


_MOST_NAMES = 5_000_000
"""Names of nodes kept of the jobs of one file: 50,000 jobs of 100 nodes. A few letters can stand for 100,000 of them."""


def sniff_slurm(head: bytes) -> str | None:
    """Format of Slurm command output, told by its first bytes, or ``None``.

    ``slurm-json``, ``slurm-limits`` (``scontrol show assoc_mgr``), ``slurm-show-job``, ``slurm-show-node``,
    ``slurm-show-reservation``, ``sacct``, ``squeue`` or ``sinfo``.
    """
    if head.lstrip()[:1] == b"{":
        return "slurm-json" if _JSON_BODY.search(head) and _JSON_HINT.search(head) else None
    lines = head[:16_000].decode("utf-8", "replace").splitlines()
    if is_limits(lines):
        return "slurm-limits"
    for index, line in enumerate(lines[:_MAX_LINES_TO_HEADER]):
        if (record := starts_record(line) or starts_record("".join(lines[index : index + 2]))) is not None:
            return f"slurm-show-{record}"
        if (tool := table_tool(line, lines[index + 1] if index + 1 < len(lines) else "")) is not None:
            return tool
    return None


def read_slurm(source: Source, data: bytes, case: Case) -> None:
    """Add jobs, nodes and limits of the file to the case.

    What cannot be read is skipped and named in ``case.coverage.problems`` with its line.
    """
    source.lines = source.lines or data.count(b"\n")
    reader = _Reader(source, case)
    if data.lstrip()[:1] == b"{":
        reader.json(data)
    else:
        reader.text(data.decode("utf-8", "replace").splitlines())
    reader.finish()


class _Reader:
    def __init__(self, source: Source, case: Case) -> None:
        self._source = source
        self._case = case
        self._records: dict[str, list[JobRecord]] = {}
        self._names = 0
        self._last: tuple[str, ...] = ()

    def _problem(self, reason: str, line: int | None) -> None:
        self._case.coverage.problems.append(Problem(self._source.name, reason, line))

    # text -------------------------------------------------------------------------------------------------------

    def text(self, lines: list[str]) -> None:
        tables, limits = TableReader(), LimitReader()
        record: list[str] = []
        begin, kind = 0, ""
        for number, line in enumerate(lines, 1):
            below = lines[number] if number < len(lines) else ""
            # Two lines are looked at, since a record's first line may hold no more than its name.
            found = starts_record(line) or (starts_record(line + below) if line[:1].isalpha() else None)
            if found is not None:
                self._record(kind, record, begin)
                record, begin, kind = [line], number, found
            elif record and line[:1] == " ":
                record.append(line)
            else:
                if record and line.strip():
                    self._record(kind, record, begin)
                    record = []
                for row in tables.feed(line, below, number):
                    self._guard(number, lambda row=row: self._row(row))  # type: ignore[misc]
                for limit in limits.feed(line, number):
                    self._case.events.append(
                        LIMIT_SIGNAL,
                        source=self._source.index,
                        line=number,
                        fields=limit,
                        text=line.strip()[:_TEXT_LIMIT],
                    )
        self._record(kind, record, begin)

    def _row(self, row: Any) -> None:
        if row.tool == "sinfo":
            self._nodes(nodes_from_row(row))
        elif (job := job_from_row(row)) is not None:
            self._job(job)

    def _record(self, kind: str, record: list[str], begin: int) -> None:
        if not record:
            return
        given = pairs(record)
        if kind == "job":
            at, text = next(((i, ln) for i, ln in enumerate(record) if "JobState=" in ln), (0, record[0]))
            self._guard(begin, lambda: self._job(job_from_pairs(given, begin + at, text.strip()[:_TEXT_LIMIT])))
        elif kind == "reservation":
            self._guard(begin, lambda: self._reservation(reservation_from_pairs(given), begin, record[0]))
        else:
            at, text = next(((i, ln) for i, ln in enumerate(record) if re.match(r"\s*Reason=", ln)), (0, record[0]))
            self._guard(begin, lambda: self._show_node(given, record, begin, begin + at, text.strip()[:_TEXT_LIMIT]))

    def _show_node(self, given: Mapping[str, str], record: list[str], begin: int, line: int, text: str) -> None:
        used = next(((i, ln) for i, ln in enumerate(record) if "AllocTRES=" in ln), None)
        where = {} if used is None else {"gpus_line": begin + used[0], "gpus_text": used[1].strip()[:_TEXT_LIMIT]}
        nodes = list(nodes_from_pairs(given, line, text))
        for one in nodes:
            one.more.update(where)
        self._nodes(nodes)

    def _reservation(self, fields: dict[str, Any], line: int, text: str) -> None:
        self._known(fields["nodes"])
        timed = fields["start"] != NO_TIME
        self._case.events.append(
            RESERVATION_SIGNAL,
            source=self._source.index,
            ts=fields["start"],
            line=line,
            quality=TimeQuality.PARTIAL if timed else TimeQuality.NONE,
            fields=fields,
            text=text.strip()[:_TEXT_LIMIT],
        )

    def _guard(self, line: int, read: Callable[[], None]) -> None:
        try:
            read()
        except HostlistError as error:
            self._problem(f"node list not understood: {error}", line)

    # JSON -------------------------------------------------------------------------------------------------------

    def json(self, data: bytes) -> None:
        try:
            whole = orjson.loads(data)
        except orjson.JSONDecodeError as error:
            self._problem(f"malformed JSON: {error.msg}", error.lineno)
            whole = _front(data)
        if not isinstance(whole, Mapping):
            return
        finder = _LineFinder(data)
        for job in _items(whole, "jobs"):
            reader = accounting_job if "steps" in job or "time" in job else queue_job
            self._guard(0, lambda job=job, reader=reader: self._json_job(reader(job), job, finder))  # type: ignore[misc]
        for key, read in (("nodes", node), ("sinfo", partition_row)):
            for item in _items(whole, key):
                line = finder.line(b'"name"', str(item.get("name", "")), quoted=True)
                self._guard(
                    line,
                    lambda item=item, read=read, line=line: self._nodes(  # type: ignore[misc]
                        _located(read(item), line)
                    ),
                )

    def _json_job(self, records: Iterator[JobRecord], job: Mapping[str, Any], finder: _LineFinder) -> None:
        line = finder.line(b'"job_id"', str(job.get("job_id")), quoted=False)
        for record in records:
            record.line = line
            where = f"job {record.id}" + (f" step {record.step}" if record.step else "")
            said = f"{where}: {record.state or 'no state'}" + (f", reason {record.reason}" if record.reason else "")
            if record.exit_code is not None:
                said += f", exit {record.exit_code}:{record.exit_signal or 0}"
            record.text = said
            self._job(record)

    # into the case ----------------------------------------------------------------------------------------------

    def _job(self, record: JobRecord) -> None:
        record.source = self._source.index
        if record.nodes is not self._last:  # equal lists are one tuple, and cost nothing
            self._names += len(record.nodes)
        if self._names > _MOST_NAMES:
            if self._names - len(record.nodes) <= _MOST_NAMES:
                self._problem(
                    f"more than {_MOST_NAMES} names of nodes: those of the jobs from here on are left out", record.line
                )
            record.nodes = ()
        self._records.setdefault(record.id, []).append(record)
        if record.nodes is not self._last:
            self._known(record.nodes)
        self._last = record.nodes

    def _known(self, nodes: Iterable[str]) -> None:
        topology = self._case.topology
        for name in nodes:
            topology.nodes.setdefault(name, set()).add(self._source.name)
            topology.node_kinds.setdefault(name, set()).add(SCHEDULER)

    def _nodes(self, records: Iterable[NodeRecord]) -> None:
        for record in records:
            self._known((record.node,))
            severity = (
                Severity.ERROR
                if is_trouble(record.state)
                else Severity.WARNING
                if _OUT_STATES.search(record.state) or record.reason
                else Severity.INFO
            )
            timed = record.since != NO_TIME
            fields = {
                "node": record.node,
                "state": record.state,
                "reason": record.reason,
                "user": record.user,
                "since": record.since if timed else None,
                **record.more,
            }
            self._case.events.append(
                NODE_SIGNAL,
                source=self._source.index,
                ts=record.since,
                severity=severity,
                line=record.line,
                quality=TimeQuality.PARTIAL if timed else TimeQuality.NONE,
                node=record.node,
                fields=fields,
                text=record.text or f"node {record.node}: {record.state} {record.reason or ''}".strip(),
            )

    def finish(self) -> None:
        """Join what this file says with what others said of the same jobs."""
        places = {job.id: index for index, job in enumerate(self._case.jobs) if job.scheduler == SCHEDULER}
        for job_id, records in self._records.items():
            place = places.get(job_id)
            if place is None:
                self._case.jobs.append(join_job(records))
            else:
                self._case.jobs[place] = join_job([*self._case.jobs[place].fields["records"], *records])


def _items(whole: Mapping[str, Any], key: str) -> Iterator[Mapping[str, Any]]:
    values = whole.get(key)
    for item in values if isinstance(values, list) else []:
        if isinstance(item, Mapping):
            yield item


def _located(records: Iterable[NodeRecord], line: int) -> Iterator[NodeRecord]:
    for record in records:
        record.line = line
        yield record


def _front(data: bytes) -> Any:
    """The jobs and nodes before the place where a file is cut off."""
    from aiops.ingest.kubernetes_documents import cut_off_list

    for key in ("jobs", "nodes", "sinfo"):
        found = cut_off_list(data.decode("utf-8", "replace"), key)
        if found:
            return {key: found}
    return None


class _LineFinder:
    """Lines of JSON members, found in one pass from top to bottom."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0
        self._line = 1
        self._misses = 0

    def line(self, key: bytes, value: str, *, quoted: bool) -> int:
        if not value or self._misses > 3:
            return self._line
        wanted = f'"{value}"' if quoted else value
        match = re.compile(key + rb"\s*:\s*" + re.escape(wanted.encode()) + rb"(?![\w])").search(self._data, self._at)
        if match is None:
            self._misses += 1
            return self._line
        self._line += self._data.count(b"\n", self._at, match.start())
        self._at = match.start()
        return self._line
