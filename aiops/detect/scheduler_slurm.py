"""What Slurm's accounting and queue say about jobs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from aiops.detect.evidence import evidence_rows
from aiops.detect.evidence import quotes as quotations
from aiops.detect.reuse import ATTEMPTS
from aiops.detect.scheduler_evidence import Quotes
from aiops.detect.scheduler_findings import Group, amount, listing
from aiops.detect.scheduler_slurm_places import NodeState
from aiops.detect.scheduler_slurm_runs import Run, finish, job_group, runs
from aiops.detect.scheduler_slurm_waiting import detect_waiting, never_runnable
from aiops.ingest.slurm import LIMIT_SIGNAL
from aiops.ingest.slurm_values import span_text
from aiops.model.case import Case, Job
from aiops.model.event import NO_TIME, Severity
from aiops.model.finding import Finding, Role

_OOM_SIGNAL = 125
"""Slurm's own "signal" for a step that its memory cgroup killed."""
_NEAR_NS = 900 * 1_000_000_000
"""A node counts as the one that failed a job if it went away this close to the job's end (SlurmdTimeout is 300 s)."""
_MANY = 40
"""Jobs of one outcome beyond which a bundle-wide listing is summed up."""


def detect_jobs(case: Case, quotes: Quotes, nodes: Mapping[str, NodeState]) -> list[Finding]:
    """One finding per job and outcome: ``sched.oom_killed``, ``sched.walltime``, ``sched.deadline``,
    ``sched.cancelled``, ``sched.preempted``, ``sched.node_fail``, ``sched.job_failed``, ``sched.job_completed``,
    ``sched.requeued``, ``sched.requeue_loop``, and for waiting jobs ``sched.quota``, ``sched.gang_infeasible``,
    ``sched.unschedulable``, ``sched.maintenance``, ``sched.fragmentation``, ``sched.pending``."""
    findings: list[Finding] = []
    limits = [case.events[index].fields for index in case.events.by_signal().get(LIMIT_SIGNAL, ())]
    for job in sorted((job for job in case.jobs if job.scheduler == "slurm"), key=lambda job: job.id):
        findings += _job(job, quotes, nodes, limits)
    _name_preemptors(case, findings)
    return [
        *_sum_up(findings, "sched.job_completed"),
        *_sum_up(findings, "sched.pending"),
        *(f for f in findings if f.sign not in ("sched.job_completed", "sched.pending")),
    ]


def _job(
    job: Job, quotes: Quotes, nodes: Mapping[str, NodeState], limits: list[Mapping[str, Any]]
) -> Iterator[Finding]:
    all_runs = runs(job)
    done = all_runs[-1].state == "COMPLETED"
    for run in all_runs:
        finding = _outcome(run, quotes, nodes)
        if finding is not None:
            if done and not run.last and finding.role is Role.ROOT:
                # The job got through in the end: what stopped an earlier run is history.
                finding.role, finding.severity = Role.CONTEXT, Severity.WARNING
            yield finding
    if all_runs[-1].state == "PENDING" or (all_runs[-1].state == "REQUEUE_HOLD"):
        yield detect_waiting(all_runs[-1], quotes, limits, nodes)
    if (loop := _loop(job, all_runs, quotes)) is not None:
        yield loop
    restarts = job.fields.get("restarts") or 0
    if restarts or len(all_runs) > 1:
        group = job_group(
            "sched.requeued", job, Role.CONTEXT, Severity.WARNING, restarts=max(restarts, len(all_runs) - 1)
        )
        for run in all_runs:
            group.note(quotes.row(run.source, run.line, run.text, run.ended), ts=run.ended)
        yield group.finding(f"Job {job.id} was requeued {amount(max(restarts, len(all_runs) - 1), 'time')}")


def _loop(job: Job, all_runs: list[Run], quotes: Quotes) -> Finding | None:
    """The job ends by itself in the same way again and again, and Slurm puts it back each time."""
    ended = [run for run in all_runs if run.state in ("REQUEUED", "REQUEUE_HOLD", "SPECIAL_EXIT", "FAILED")]
    ended = [run for run in ended if run.code or run.signal or any(s["state"] == "FAILED" for s in _steps(run))]
    ways = {(run.code, run.signal) for run in ended}
    if len(ended) < ATTEMPTS or len(ways) > 1 or any(run.state == "COMPLETED" for run in all_runs):
        return None
    last = ended[-1]
    how = f"with exit code {last.code}" if last.code else f"by signal {last.signal}" if last.signal else "as failed"
    group = job_group("sched.requeue_loop", job, attempts=len(ended), exit_code=last.code, exit_signal=last.signal)
    for run in (ended[0], last):
        group.note(quotes.row(run.source, run.line, run.text, run.ended), ts=run.ended)
    group.count = len(ended)
    return group.finding(f"{len(ended)} runs of job {job.id} ended {how}, and Slurm started it again")


def _name_preemptors(case: Case, findings: list[Finding]) -> None:
    """slurmctld's log names the job for which another had to go; accounting does not."""
    for event in evidence_rows(case, "slurm.preempted"):
        for finding in findings:
            by = event.fields.get("by")
            if finding.sign == "sched.preempted" and by and finding.job == event.fields.get("job"):
                finding.fields = {**finding.fields, "by": f"job {by}"}
                finding.text = f"Job {finding.job} was preempted by job {by}"
                finding.evidence += quotations(case, [event])


def _outcome(run: Run, quotes: Quotes, nodes: Mapping[str, NodeState]) -> Finding | None:
    job, state = run.job, run.state
    label = f"Job {job.id}"
    killed = _oom_step(run)
    if state == "OUT_OF_MEMORY" or killed is not None or run.signal == _OOM_SIGNAL:
        return _oom(run, killed, quotes)
    if state == "TIMEOUT" or (state == "FAILED" and run.reason == "TimeLimit"):
        limit = job.fields.get("time_limit")
        group = job_group("sched.walltime", job, limit_s=limit, elapsed_s=job.fields.get("elapsed"))
        given = f" of {span_text(limit)}" if limit else ""
        return finish(group, run, quotes, f"{label} reached its time limit{given}")
    if state == "DEADLINE":
        return finish(job_group("sched.deadline", job), run, quotes, f"{label} missed its deadline")
    if state == "PREEMPTED":
        return finish(
            job_group("sched.preempted", job, by=None, qos=job.fields.get("qos")), run, quotes, f"{label} was preempted"
        )
    if state == "CANCELLED":
        begun = run.started != NO_TIME or bool(run.nodes)
        group = job_group("sched.cancelled", job, by=run.by, started=begun)
        if not begun:
            group.role, group.severity = Role.CONTEXT, Severity.INFO
        return finish(
            group,
            run,
            quotes,
            f"{label} was cancelled"
            + (f" by user {run.by}" if run.by else "")
            + ("" if begun else " before it started"),
        )
    if state in ("NODE_FAIL", "BOOT_FAIL") or (state == "FAILED" and run.reason in ("NodeDown", "NodeFail")):
        return _node_fail(run, quotes, nodes)
    if state == "FAILED" and run.reason == "BadConstraints":
        return never_runnable(run, quotes)
    if state == "FAILED":
        return _failed(run, quotes)
    if state == "COMPLETED":
        bad = tuple(
            step["step"]
            for step in _steps(run)
            if step["state"] in ("FAILED", "CANCELLED") and step["step"] != "extern"
        )
        group = job_group("sched.job_completed", job, Role.CONTEXT, Severity.INFO, failed_steps=bad)
        return finish(group, run, quotes, f"{label} completed" + (f"; step {listing(bad)} did not" if bad else ""))
    return None


def _steps(run: Run) -> list[Mapping[str, Any]]:
    """Steps of this run."""
    told = run.job.fields.get("incarnations") or ()
    number = next((i for i, item in enumerate(told) if item["line"] == run.line and item["source"] == run.source), 0)
    return [step for step in run.job.fields.get("steps", ()) if step["incarnation"] == number]


def _oom_step(run: Run) -> Mapping[str, Any] | None:
    hit = [step for step in _steps(run) if step["state"] == "OUT_OF_MEMORY" or step["exit_signal"] == _OOM_SIGNAL]
    # The launched step is nearer to the process than the batch script around it.
    return min(hit, key=lambda step: step["step"] in ("batch", "extern")) if hit else None


def _oom(run: Run, step: Mapping[str, Any] | None, quotes: Quotes) -> Finding:
    group = job_group("sched.oom_killed", run.job, exit_code=run.code, exit_signal=run.signal)
    nodes = run.nodes
    if step is not None:
        group.fields.update(step=step["step"], max_rss=step["max_rss"])
        nodes = step["nodes"] or nodes
        if step["max_rss_node"]:
            # Where the largest process ran: a hint, not the record of the kill.
            group.fields["max_rss_node"] = step["max_rss_node"]
        group.note(quotes.row(step["source"], step["line"], step["text"], step["ended"]), ts=step["ended"])
    group.nodes.update(dict.fromkeys(nodes if len(nodes) == 1 else ()))
    return finish(group, run, quotes, f"Job {run.job.id} ran out of memory")


def _node_fail(run: Run, quotes: Quotes, nodes: Mapping[str, NodeState]) -> Finding:
    job = run.job
    group = job_group("sched.node_fail", job, of_job=True, recovered=False)
    blamed = [job.fields["failed_node"]] if job.fields.get("failed_node") in run.nodes else []
    for name in run.nodes:
        state = nodes.get(name)
        if state is None or not state.down:
            continue
        near = state.since == NO_TIME or run.ended == NO_TIME or abs(state.since - run.ended) <= _NEAR_NS
        if near and name not in blamed and not job.fields.get("failed_node"):
            blamed.append(name)
        if name in blamed:
            group.evidence += state.quote(quotes)
            group.fields["reason"] = state.reason
    if not blamed and len(run.nodes) == 1:
        blamed = list(run.nodes)
    group.nodes.update(dict.fromkeys(blamed))
    where = f"node {listing(blamed)}" if blamed else f"one of its {len(run.nodes)} nodes"
    return finish(group, run, quotes, f"Job {job.id} was ended by Slurm because {where} failed")


def _failed(run: Run, quotes: Quotes) -> Finding:
    job = run.job
    group = job_group(
        "sched.job_failed", job, Role.CONTEXT, exit_code=run.code, exit_signal=run.signal, reason=run.reason
    )
    bad = [step for step in _steps(run) if step["state"] in ("FAILED", "CANCELLED", "TIMEOUT", "NODE_FAIL")]
    group.fields["steps"] = tuple((step["step"], step["state"], step["exit_code"], step["exit_signal"]) for step in bad)
    for step in bad[:3]:
        group.note(quotes.row(step["source"], step["line"], step["text"], step["ended"]), ts=step["ended"], count=0)
    code = f" with exit code {run.code}" if run.code else ""
    caught = f" and signal {run.signal}" if run.signal else ""
    return finish(group, run, quotes, f"Job {job.id} failed{code}{caught}")


def _sum_up(findings: list[Finding], sign: str) -> list[Finding]:
    """A listing of a whole cluster would bury the rest: many equal outcomes become one finding."""
    found = [finding for finding in findings if finding.sign == sign]
    if len(found) <= _MANY:
        return found
    group = Group(
        sign,
        role=Role.CONTEXT,
        severity=Severity.INFO,
        fields={"jobs": tuple(finding.job for finding in found if finding.job)},
    )
    for finding in found:
        group.note(finding.evidence[0], ts=finding.last, first=finding.first)
    what = "completed" if sign == "sched.job_completed" else "wait"
    return [group.finding(f"{len(found)} jobs {what}")]
