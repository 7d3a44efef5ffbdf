"""Whose output a file is, where a bundle holds several jobs: what one says must not speak for another."""

from __future__ import annotations

import re

from aiops.model.case import Case, Job, Source
from aiops.model.event import NO_TIME

_OUTPUT_OF = re.compile(r"(?:^|[/!_.-])(?:slurm|job)[-_](\d{2,12}(?:_\d{1,6})?)(?=[._-]|$)")
NCCL_HOST = re.compile(r"(?:^|[\s\]:])([A-Za-z0-9][\w.-]{0,252}):\d{1,10}:\d{1,10} \[")
"""``host:pid:tid [`` of an NCCL line."""
_STOPPED = ("slurm.step_cancelled", "slurm.job_stopped")
BAD_STATES = (
    "FAILED",
    "NODE_FAIL",
    "TIMEOUT",
    "OUT_OF_ME",
    "PREEMPTED",
    "CANCELLED",
    "BOOT_FAIL",
    "DEADLINE",
    "Failed",
    "Pending",
    "PENDING",
    "Evicted",
    "Suspended",
)
_LOST = ("NODE_FAIL", "BOOT_FAIL")


def went_wrong(job: Job) -> bool:
    """The scheduler's word for the job is none for an end or a run that is well."""
    return (job.state or "").startswith(BAD_STATES)


def urgency(job: Job) -> tuple[int, bool, int, str]:
    """What to judge first of several jobs: one that lost a node, then one that went wrong otherwise, then one that still
    runs; of equals the one that ended last."""
    running = (job.state or "").upper().startswith("RUNNING")
    wrong = 2 if (job.state or "").startswith(_LOST) else int(went_wrong(job))
    return wrong, running, job.ended if job.ended != NO_TIME else 0, job.id


def speakers(case: Case) -> frozenset[str]:
    """Jobs that are known by output of their own."""
    return frozenset(source.job for source in case.sources if source.kind == "training" and source.job)


def judged(case: Case) -> Job | None:
    """The job to judge, if the outputs of several are told apart."""
    heard = speakers(case)
    own = [job for job in case.jobs if job.id in heard] if len(heard) > 1 else []
    return max(own, key=urgency, default=None)


def keep_one_job(case: Case) -> None:
    """Set the output of all jobs but the one to judge aside: ranks, steps and ends of two jobs have the same names."""
    job = judged(case)
    if job is None:
        return
    same = {other.id for other in case.jobs if went_wrong(other) and same_work(other, job)}
    others = set()
    for source in case.sources:
        if source.job in same:
            source.job = None
        elif source.job and source.job != job.id:
            others.add(source.index)
    if not others:
        return
    case.events.set_aside(frozenset(others))
    names = ", ".join(sorted({case.sources[index].job or "" for index in others}))
    case.notes.append(f"several jobs: {job.id} is judged, the output of {names} is left out")


def same_work(one: Job, other: Job) -> bool:
    """The same user's jobs under one name, or one name with an ending: an attempt that failed may have spoilt the next."""
    if one.id == other.id or not one.name or not other.name or one.fields.get("user") != other.fields.get("user"):
        return False
    return one.name.startswith(other.name) or other.name.startswith(one.name)


def join_outputs(case: Case) -> None:
    """Set `Source.job` of the outputs of Slurm jobs, if those of at least two jobs are told apart.

    A job that the output or the file's name states decides; else the hosts that the output names, if just one job had them.
    """
    jobs = {job.id: job for job in case.jobs if job.scheduler == "slurm"}
    outputs = [source for source in case.sources if source.kind == "training"]
    if len(jobs) < 2 or len(outputs) < 2 or any(source.job for source in outputs):
        return
    stated, hosts = _stated(case), hosts_of_outputs(case)
    found: dict[int, str] = {}
    for source in outputs:
        job = stated.get(source.index) or job_in_name(source)
        if job not in jobs:
            job = _by_hosts(list(jobs.values()), hosts.get(source.index, set()))
        if job is not None:
            found[source.index] = job
    if len(set(found.values())) > 1:
        for index, job in found.items():
            case.sources[index].job = job


def _stated(case: Case) -> dict[int, str]:
    rows = case.events.by_signal()
    return {
        case.events[row].source: str(case.events[row].fields["job"])
        for name in _STOPPED
        for row in rows.get(name, ())
        if "job" in case.events[row].fields
    }


def job_in_name(source: Source) -> str | None:
    """The job whose output a file is by its name, ``slurm-4711.out`` or ``slurm-4711_3.out``."""
    match = _OUTPUT_OF.search(source.name)
    return match[1] if match else None


def hosts_of_outputs(case: Case) -> dict[int, set[str]]:
    """Hosts that each output names where its ranks start, by source."""
    found: dict[int, set[str]] = {}
    for row in case.events.by_signal().get("nccl.init_rank", ()):
        event = case.events[row]
        match = NCCL_HOST.search(event.text, 0, 400)
        if match:
            found.setdefault(event.source, set()).add(match[1])
    return found


def _by_hosts(jobs: list[Job], hosts: set[str]) -> str | None:
    fits = [job.id for job in jobs if hosts and hosts <= set(job.nodes)]
    return fits[0] if len(fits) == 1 else None
