"""Runs of a Slurm job (a requeued job has several), and the findings that are made of one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from aiops.detect.scheduler_evidence import Quotes
from aiops.detect.scheduler_findings import Group
from aiops.model.case import Job
from aiops.model.event import NO_TIME, Severity
from aiops.model.finding import Finding, Role


@dataclass(frozen=True, slots=True)
class Run:
    """One run of a job (a requeued job has several)."""

    job: Job
    state: str
    reason: str | None
    code: int | None
    signal: int | None
    by: str | None
    started: int
    ended: int
    nodes: tuple[str, ...]
    source: int
    line: int
    text: str
    last: bool


def runs(job: Job) -> list[Run]:
    """All runs of a job, oldest first."""
    told = job.fields.get("incarnations")
    if not told:
        return [
            Run(
                job,
                job.state or "",
                job.reason,
                job.exit_code,
                job.exit_signal,
                job.fields.get("cancelled_by"),
                job.started,
                job.ended,
                job.nodes,
                job.source,
                job.line,
                job.text,
                True,
            )
        ]
    return [
        Run(
            job,
            item["state"] or "",
            item["reason"],
            item["exit_code"],
            item["exit_signal"],
            item["cancelled_by"],
            item["started"],
            item["ended"],
            tuple(item["nodes"]),
            item["source"],
            item["line"],
            item["text"],
            index == len(told) - 1,
        )
        for index, item in enumerate(told)
    ]


def job_group(sign: str, job: Job, role: Role = Role.ROOT, severity: Severity = Severity.ERROR, **fields: Any) -> Group:
    return Group(
        sign,
        job=job.id,
        role=role,
        severity=severity,
        name=job.queue,
        fields={"workload": f"job {job.id}" + (f" {job.name}" if job.name else ""), "state": job.state, **fields},
    )


def finish(group: Group, run: Run, quotes: Quotes, message: str) -> Finding:
    ended = run.ended if run.ended != NO_TIME else run.started
    group.fields["run_nodes"] = run.nodes
    group.note(quotes.row(run.source, run.line, run.text, ended), ts=ended)
    return group.finding(message)
