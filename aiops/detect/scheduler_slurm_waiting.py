"""Why a Slurm job waits: limits, reserved or missing nodes, scattered GPUs, requests that no node can meet."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from aiops.detect.scheduler_evidence import Quotes
from aiops.detect.scheduler_findings import Group, amount, listing
from aiops.detect.scheduler_slurm_places import NodeState, nodes_of_choice, waits_for_a_limit, waits_for_nodes
from aiops.detect.scheduler_slurm_runs import Run, finish, job_group
from aiops.model.case import Job
from aiops.model.event import Severity
from aiops.model.finding import Finding, Role

# https://slurm.schedmd.com/job_reason_codes.html: limits that one job exceeds by itself, whatever else runs.
_TOO_LARGE = ("PerJob", "MaxNodePerJobLimit", "MaxCpuPerJobLimit", "PartitionNodeLimit", "MinNode")
_TIME_LIMITS = ("Wall", "PartitionTimeLimit")
_MAINTENANCE = "Reserved for maintenance"
_WHY = {"BadConstraints": "selector", "PartitionDown": "queue", "PartitionInactive": "queue"}
_NEVER_STARTED = ("launch failed requeued held", "JobHoldMaxRequeue", "DependencyNeverSatisfied")


def detect_waiting(
    run: Run, quotes: Quotes, limits: list[Mapping[str, Any]], nodes: Mapping[str, NodeState]
) -> Finding:
    """One finding for a job that waits, see `scheduler_slurm.detect_jobs`."""
    job, reason = run.job, run.reason or ""
    word = reason.split(",")[0].strip()
    label = f"Job {job.id}"
    asked = f", asks for {job.gpus} GPUs" if job.gpus else ""
    if waits_for_a_limit(reason):
        group = _limited(job, word, limits)
        limit = group.fields.get("limit")
        used = f", {group.fields['used']:g} of {limit} in use" if group.fields.get("used") is not None else ""
        how = "exceeds" if group.sign == "sched.gang_infeasible" else "waits for"
        whose = group.name or "its queue"
        return finish(group, run, quotes, f"{label} {how} a limit of {whose} ({word}){asked}{used}")
    if _MAINTENANCE in reason:
        group = job_group("sched.maintenance", job, severity=Severity.WARNING, reason=reason)
        return finish(group, run, quotes, f"{label} would not end before a maintenance reservation begins ({reason})")
    if waits_for_nodes(job, nodes):
        return _without_nodes(run, quotes, nodes)
    if word in _WHY:
        group = job_group("sched.unschedulable", job, why=_WHY[word], reason=reason, reasons={})
        return finish(group, run, quotes, f"{label} cannot be scheduled ({reason})")
    if word in ("Resources", "Priority") and (scattered := _scattered(run, quotes, nodes)) is not None:
        return scattered
    group = job_group("sched.pending", job, Role.CONTEXT, Severity.INFO, reason=run.reason)
    if word in _NEVER_STARTED:
        group.severity = Severity.WARNING
    return finish(group, run, quotes, f"{label} waits ({run.reason or 'no reason given'})")


def _without_nodes(run: Run, quotes: Quotes, nodes: Mapping[str, NodeState]) -> Finding:
    job = run.job
    out = {name: state for name, state in nodes_of_choice(job, nodes).items() if state.out}
    group = job_group("sched.unschedulable", job, why="drained", reason=run.reason, reasons={})
    group.nodes.update(dict.fromkeys(out))
    group.fields["node_reasons"] = tuple(sorted({state.reason for state in out.values() if state.reason}))
    finding = finish(group, run, quotes, f"Job {job.id} cannot be scheduled ({run.reason})" + _told(out))
    finding.evidence += [ref for state in out.values() for ref in state.quote(quotes)[:1]][:4]
    return finding


def _told(out: Mapping[str, NodeState]) -> str:
    whys: dict[str, list[str]] = {}
    for name, state in out.items():
        whys.setdefault(state.reason or state.state.lower(), []).append(name)
    return "".join(f"; out of service: {listing(names)} ({why})" for why, names in sorted(whys.items())[:3])


def _scattered(run: Run, quotes: Quotes, nodes: Mapping[str, NodeState]) -> Finding | None:
    """Enough GPUs are free in the partition, but too few nodes have as many as the job wants of each."""
    job = run.job
    count = max((record.node_count or 0 for record in job.fields.get("records", ())), default=0)
    block = job.fields.get("gpus_per_node") or (job.gpus // count if job.gpus and count and not job.gpus % count else 0)
    places = nodes_of_choice(job, nodes)
    if not block or not count or not places or any(state.gpus_free is None for state in places.values()):
        return None
    free = {name: state.gpus_free or 0 for name, state in places.items() if not state.out}
    fitting = sum(1 for number in free.values() if number >= block)
    # A GPU on a node that the job could fill is not scattered; only what lies on the other nodes is.
    if fitting >= count or sum(free.values()) < block * count:
        return None
    some = {name: number for name, number in sorted(free.items()) if number}
    group = job_group("sched.fragmentation", job, free=some, block=block, reason=run.reason)
    finding = finish(
        group,
        run,
        quotes,
        f"{amount(sum(some.values()), 'GPU')} are free on {amount(len(some), 'node')}, at most {max(some.values())} on "
        f"one; job {job.id} needs {block} on {'one node' if count == 1 else f'each of {count} nodes'}",
    )
    finding.evidence += [ref for name in some for ref in places[name].quote_gpus(quotes)][:4]
    return finding


def never_runnable(run: Run, quotes: Quotes) -> Finding:
    """A job that was refused when it was submitted, since no node has what it asks for."""
    group = job_group("sched.unschedulable", run.job, why="selector", reason=run.reason, reasons={})
    asked = f", which asks for {run.job.gpus} GPUs" if run.job.gpus else ""
    return finish(group, run, quotes, f"No node can ever meet the request of job {run.job.id}{asked} ({run.reason})")


def _limited(job: Job, reason: str, limits: list[Mapping[str, Any]]) -> Group:
    owner = job.fields.get("qos") if reason.startswith("QOS") else job.fields.get("account")
    if reason.startswith("Partition"):
        owner = job.queue
    known = _limit_of(job, reason, limits)
    alone = any(part in reason for part in _TOO_LARGE) and not any(part in reason for part in _TIME_LIMITS)
    if known is not None and job.gpus is not None and _is_gpu(reason, known):
        # More than the whole limit: waiting for others to finish does not help.
        alone = alone or job.gpus > known["limit"]
    group = job_group("sched.gang_infeasible" if alone else "sched.quota", job, reason=reason, requested=job.gpus)
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
