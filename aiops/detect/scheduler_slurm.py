"""What Slurm's accounting and queue say about jobs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from aiops.detect.scheduler_evidence import Quotes
from aiops.detect.scheduler_findings import Group, amount, listing
from aiops.detect.scheduler_slurm_nodes import NodeState
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

# https://slurm.schedmd.com/job_reason_codes.html: limits that one job exceeds by itself, whatever else runs.
_TOO_LARGE = ("PerJob", "MaxNodePerJobLimit", "MaxCpuPerJobLimit", "PartitionNodeLimit", "MinNode")
_TIME_LIMITS = ("Wall", "PartitionTimeLimit")


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


def detect_jobs(case: Case, quotes: Quotes, nodes: Mapping[str, NodeState]) -> list[Finding]:
    """One finding per job and outcome: ``sched.oom_killed``, ``sched.walltime``, ``sched.deadline``,
    ``sched.cancelled``, ``sched.preempted``, ``sched.node_fail``, ``sched.job_failed``, ``sched.job_completed``,
    ``sched.requeued``, and for waiting jobs ``sched.quota``, ``sched.gang_infeasible``, ``sched.unschedulable``,
    ``sched.pending``."""
    findings: list[Finding] = []
    limits = [case.events[index].fields for index in case.events.by_signal().get(LIMIT_SIGNAL, ())]
    for job in sorted((job for job in case.jobs if job.scheduler == "slurm"), key=lambda job: job.id):
        findings += _job(job, quotes, nodes, limits)
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
        yield _waiting(all_runs[-1], quotes, limits)
    restarts = job.fields.get("restarts") or 0
    if restarts or len(all_runs) > 1:
        group = _group("sched.requeued", job, Role.CONTEXT, Severity.WARNING, restarts=max(restarts, len(all_runs) - 1))
        for run in all_runs:
            group.note(quotes.row(run.source, run.line, run.text, run.ended), ts=run.ended)
        yield group.finding(f"Job {job.id} was requeued {amount(max(restarts, len(all_runs) - 1), 'time')}")


def _group(sign: str, job: Job, role: Role = Role.ROOT, severity: Severity = Severity.ERROR, **fields: Any) -> Group:
    return Group(
        sign,
        job=job.id,
        role=role,
        severity=severity,
        name=job.queue,
        fields={"workload": f"job {job.id}" + (f" {job.name}" if job.name else ""), "state": job.state, **fields},
    )


def _finish(group: Group, run: Run, quotes: Quotes, message: str) -> Finding:
    ended = run.ended if run.ended != NO_TIME else run.started
    group.fields["run_nodes"] = run.nodes
    group.note(quotes.row(run.source, run.line, run.text, ended), ts=ended)
    return group.finding(message)


def _outcome(run: Run, quotes: Quotes, nodes: Mapping[str, NodeState]) -> Finding | None:
    job, state = run.job, run.state
    label = f"Job {job.id}"
    killed = _oom_step(run)
    if state == "OUT_OF_MEMORY" or killed is not None or run.signal == _OOM_SIGNAL:
        return _oom(run, killed, quotes)
    if state == "TIMEOUT" or (state == "FAILED" and run.reason == "TimeLimit"):
        limit = job.fields.get("time_limit")
        group = _group("sched.walltime", job, limit_s=limit, elapsed_s=job.fields.get("elapsed"))
        given = f" of {span_text(limit)}" if limit else ""
        return _finish(group, run, quotes, f"{label} reached its time limit{given}")
    if state == "DEADLINE":
        return _finish(_group("sched.deadline", job), run, quotes, f"{label} missed its deadline")
    if state == "PREEMPTED":
        return _finish(
            _group("sched.preempted", job, by=None, qos=job.fields.get("qos")), run, quotes, f"{label} was preempted"
        )
    if state == "CANCELLED":
        begun = run.started != NO_TIME or bool(run.nodes)
        group = _group("sched.cancelled", job, by=run.by, started=begun)
        if not begun:
            group.role, group.severity = Role.CONTEXT, Severity.INFO
        return _finish(
            group,
            run,
            quotes,
            f"{label} was cancelled"
            + (f" by user {run.by}" if run.by else "")
            + ("" if begun else " before it started"),
        )
    if state in ("NODE_FAIL", "BOOT_FAIL") or (state == "FAILED" and run.reason in ("NodeDown", "NodeFail")):
        return _node_fail(run, quotes, nodes)
    if state == "FAILED":
        return _failed(run, quotes)
    if state == "COMPLETED":
        bad = tuple(
            step["step"]
            for step in _steps(run)
            if step["state"] in ("FAILED", "CANCELLED") and step["step"] != "extern"
        )
        group = _group("sched.job_completed", job, Role.CONTEXT, Severity.INFO, failed_steps=bad)
        return _finish(group, run, quotes, f"{label} completed" + (f"; step {listing(bad)} did not" if bad else ""))
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
    group = _group("sched.oom_killed", run.job, exit_code=run.code, exit_signal=run.signal)
    nodes = run.nodes
    if step is not None:
        group.fields.update(step=step["step"], max_rss=step["max_rss"])
        nodes = step["nodes"] or nodes
        if step["max_rss_node"]:
            # Where the largest process ran: a hint, not the record of the kill.
            group.fields["max_rss_node"] = step["max_rss_node"]
        group.note(quotes.row(step["source"], step["line"], step["text"], step["ended"]), ts=step["ended"])
    group.nodes.update(dict.fromkeys(nodes if len(nodes) == 1 else ()))
    return _finish(group, run, quotes, f"Job {run.job.id} ran out of memory")


def _node_fail(run: Run, quotes: Quotes, nodes: Mapping[str, NodeState]) -> Finding:
    job = run.job
    group = _group("sched.node_fail", job, of_job=True, recovered=False)
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
    return _finish(group, run, quotes, f"Job {job.id} was ended by Slurm because {where} failed")


def _failed(run: Run, quotes: Quotes) -> Finding:
    job = run.job
    group = _group("sched.job_failed", job, Role.CONTEXT, exit_code=run.code, exit_signal=run.signal, reason=run.reason)
    bad = [step for step in _steps(run) if step["state"] in ("FAILED", "CANCELLED", "TIMEOUT", "NODE_FAIL")]
    group.fields["steps"] = tuple((step["step"], step["state"], step["exit_code"], step["exit_signal"]) for step in bad)
    for step in bad[:3]:
        group.note(quotes.row(step["source"], step["line"], step["text"], step["ended"]), ts=step["ended"], count=0)
    code = f" with exit code {run.code}" if run.code else ""
    caught = f" and signal {run.signal}" if run.signal else ""
    return _finish(group, run, quotes, f"Job {job.id} failed{code}{caught}")


# waiting -----------------------------------------------------------------------------------------------------------


def _waiting(run: Run, quotes: Quotes, limits: list[Mapping[str, Any]]) -> Finding:
    job, reason = run.job, run.reason or ""
    word = reason.split(",")[0].strip()
    label = f"Job {job.id}"
    asked = f", asks for {job.gpus} GPUs" if job.gpus else ""
    if word.startswith(("Assoc", "QOS", "MaxTRES")) or word in ("PartitionNodeLimit", "PartitionTimeLimit"):
        group = _limited(job, word, limits)
        limit = group.fields.get("limit")
        used = f", {group.fields['used']:g} of {limit} in use" if group.fields.get("used") is not None else ""
        how = "exceeds" if group.sign == "sched.gang_infeasible" else "waits for"
        whose = group.name or "its queue"
        return _finish(group, run, quotes, f"{label} {how} a limit of {whose} ({word}){asked}{used}")
    if word in ("BadConstraints", "ReqNodeNotAvail", "NodeDown", "PartitionDown", "PartitionInactive"):
        why = {"BadConstraints": "selector", "ReqNodeNotAvail": "cordoned", "NodeDown": "cordoned"}.get(word, "queue")
        group = _group("sched.unschedulable", job, why=why, reason=reason, reasons={})
        return _finish(group, run, quotes, f"{label} cannot be scheduled ({reason})")
    group = _group("sched.pending", job, Role.CONTEXT, Severity.INFO, reason=run.reason)
    if word in ("DependencyNeverSatisfied", "JobHoldMaxRequeue", "launch failed requeued held"):
        group.severity = Severity.WARNING
    return _finish(group, run, quotes, f"{label} waits ({run.reason or 'no reason given'})")


def _limited(job: Job, reason: str, limits: list[Mapping[str, Any]]) -> Group:
    owner = job.fields.get("qos") if reason.startswith("QOS") else job.fields.get("account")
    if reason.startswith("Partition"):
        owner = job.queue
    known = _limit_of(job, reason, limits)
    alone = any(part in reason for part in _TOO_LARGE) and not any(part in reason for part in _TIME_LIMITS)
    if known is not None and job.gpus is not None and _is_gpu(reason, known):
        # More than the whole limit: waiting for others to finish does not help.
        alone = alone or job.gpus > known["limit"]
    group = _group("sched.gang_infeasible" if alone else "sched.quota", job, reason=reason, requested=job.gpus)
    group.name = str(owner) if owner else job.queue
    if known is not None:
        group.fields.update(limit=known["limit"], used=known["used"], resource=known["resource"])
    return group


def _is_gpu(reason: str, limit: Mapping[str, Any]) -> bool:
    return "gpu" in str(limit["resource"]) or "GRES" in reason


def _limit_of(job: Job, reason: str, limits: list[Mapping[str, Any]]) -> Mapping[str, Any] | None:
    """The limit that the reason names, from ``scontrol show assoc_mgr``: of the user, else of the account."""
    resource = next(
        (
            name
            for part, name in (("GRES", "gres/gpu"), ("Cpu", "cpu"), ("CPU", "cpu"), ("Mem", "mem"), ("Node", "node"))
            if part in reason
        ),
        None,
    )
    scope = "Grp" if "Grp" in reason else "Max"
    user = job.fields.get("user")
    fitting = [
        limit
        for limit in limits
        if str(limit["name"]).startswith(scope)
        and (resource is None or str(limit["resource"]).startswith(resource))
        and (
            limit["qos"] == job.fields.get("qos")
            if reason.startswith("QOS")
            else limit["account"] == job.fields.get("account") and limit["user"] in (None, user)
        )
    ]
    return min(fitting, key=lambda limit: limit["user"] is None) if fitting else None


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
