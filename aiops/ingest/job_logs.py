"""Which files of a case are the output of which job, where several jobs that share no node were collected together."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from aiops.ingest.kubernetes_owners import WORKLOAD_KINDS, direct_gang
from aiops.ingest.outputs import hosts_of_outputs, job_in_name, same_work
from aiops.model.case import Case, Source

MOST_JOBS = 8
"""More jobs than these are no incident any more: ``aiops triage`` is made for that."""
_NUMBER = re.compile(r"(?<![A-Za-z0-9])(\d{2,12}(?:_\d{1,6})?)(?![A-Za-z0-9])")
_PART = re.compile(r"(?:rank|node|host|worker|task|pod|replica)[_.-]?\d", re.I)
"""Names of files that hold a part of a run."""
_BATCH = WORKLOAD_KINDS - {
    *("RayCluster", "RayService", "AppWrapper", "LeaderWorkerSet"),
    *("StatefulSet", "Deployment", "ReplicaSet", "DaemonSet", "CronJob"),
}
"""Owners whose pods start and end together; a service beside them is no job of its own."""


@dataclass(frozen=True, slots=True)
class JobFiles:
    """One of several jobs in a case."""

    job: str
    others: tuple[str, ...]
    """What only other jobs have: names of files, and folders with ``/`` at their end."""
    known: bool = True
    """``job`` is a job's id; else there is no record of any job, and it is the name of the file that a run printed."""


def files_of_jobs(case: Case) -> list[JobFiles]:
    """The jobs whose output lies in the case, by id; empty unless there are several that share no node.

    A job and its next try share nodes, and what went wrong may be told by both together: they stay one case.
    """
    pods = _pods(case)
    logs: dict[str, list[Source]] = {}
    for source in case.sources:
        if source.kind == "training" and (job := _job_of(source, case, pods)):
            logs.setdefault(job, []).append(source)
    known = bool(logs or case.jobs)
    if not known:
        logs = {source.name: [source] for source in _runs(case)}
    if not 1 < len(logs) <= MOST_JOBS:
        return []
    hosts = hosts_of_outputs(case)
    nodes = {
        job: _nodes(case, job, sources) | {host for source in sources for host in hosts.get(source.index, ())}
        for job, sources in logs.items()
    }
    if _earlier_runs(case, set(logs)):
        return []
    if not all(nodes.values()) or sum(map(len, nodes.values())) > len(set().union(*nodes.values())):
        return []
    own = {job: _own(case, job, logs, nodes) for job in logs}
    return [
        JobFiles(job, tuple(sorted(set().union(*(own[other] for other in own if other != job)))), known)
        for job in sorted(logs)
    ]


def _runs(case: Case) -> list[Source]:
    """Outputs that each hold a whole run, all ranks of one world: several of them are several runs, whoever started them.

    The log of one node of a run, or of one rank, has a rank 0 as well: that of a group inside of the world.
    """
    worlds: dict[int, tuple[int, set[int]]] = {}
    for row in case.events.by_signal().get("nccl.init_rank", ()):
        event = case.events[row]
        size, rank = int(str(event.fields["nranks"])), int(str(event.fields["rank"]))
        largest, ranks = worlds.get(event.source, (0, set()))
        if size > largest:
            worlds[event.source] = (size, {rank})
        elif size == largest:
            ranks.add(rank)
    for event in case.events:
        if event.source in worlds and (event.rank or 0) >= worlds[event.source][0]:
            del worlds[event.source]
    whole = {source for source, (size, ranks) in worlds.items() if size > 1 and len(ranks) == size}
    return [
        source
        for source in case.sources
        if source.kind == "training" and source.index in whole and not _PART.search(source.name)
    ]


def _earlier_runs(case: Case, ids: set[str]) -> bool:
    """All but one of the jobs are earlier ones of the same work that ended well: its steps are compared with theirs."""
    jobs = [job for job in case.jobs if job.id in ids]
    left = [job for job in jobs if not (job.state or "").startswith("COMPLETED")]
    return len(jobs) == len(ids) and len(left) == 1 and all(job is left[0] or same_work(job, left[0]) for job in jobs)


def _pods(case: Case) -> dict[str, str]:
    """Name of a pod -> the batch job that it belongs to."""
    found = {}
    for item in case.objects:
        if item.kind == "Pod" and (gang := direct_gang(item.body, "Pod")) is not None and gang.kind in _BATCH:
            found[item.name] = gang.id
    return found


def _job_of(source: Source, case: Case, pods: dict[str, str]) -> str | None:
    if source.job:
        return source.job
    file = re.split(r"[/!]", source.name)[-1]
    if job := pods.get(source.pod or "") or pods.get(file.rsplit(".", 1)[0]):
        return job
    known = {job.id for job in case.jobs}
    told: set[str] = {number for number in _NUMBER.findall(file) if number in known}
    if len(told) == 1:
        return told.pop()
    return job_in_name(source)


def _nodes(case: Case, job: str, sources: list[Source]) -> set[str]:
    """Nodes that the job's records, or its own output, name."""
    numbers = {source.index for source in sources}
    found = {event.node for event in case.events if event.node and event.source in numbers}
    return found | {node for known in case.jobs if job in (known.id, known.fields.get("gang")) for node in known.nodes}


def _own(case: Case, job: str, logs: dict[str, list[Source]], nodes: dict[str, set[str]]) -> set[str]:
    """Files and folders that are this job's alone: its output, its nodes' logs, and folders with no other job's output."""
    mine = {source.name for source in logs[job]}
    # where machines were changed, those of the other jobs show whether the change matters
    kept = "kernel" if case.events.by_signal().get("ctl.change") else ""
    found = mine | {source.name for source in case.sources if source.node in nodes[job] and source.kind != kept}
    foreign = [source.name for other, sources in logs.items() if other != job for source in sources]
    for name in mine:
        top = next((folder for folder in _folders(name) if not _below(folder, foreign)), None)
        if top is not None:
            found.add(top)
    return found


def _folders(name: str) -> Iterable[str]:
    """The folders of a file, outermost first, each with ``/`` at its end."""
    for match in re.finditer(r"/", name):
        yield name[: match.end()]


def _below(folder: str, names: Iterable[str]) -> bool:
    return any(name.startswith(folder) for name in names)
