"""The same software-looking fault on one GPU in jobs that have nothing in common: then it follows the GPU, not the code.

An Xid line names its process, see `xid`. The gauge of DCGM and the errors of CUDA do not; here the jobs tell them apart.
"""

from __future__ import annotations

from aiops.detect.evidence import quote
from aiops.ingest.outputs import NCCL_HOST, same_work
from aiops.model.case import Case, Job
from aiops.model.event import NO_TIME
from aiops.model.finding import Finding, Role

_OF_PROGRAMS = frozenset({13, 31, 69})
"""Xids that a program can cause on a sound GPU."""
_ERRORS = ("cuda.illegal_address", "cuda.illegal_instruction", "cuda.launch_error")
_LATE_NS = 120 * 10**9
"""The gauge is scraped, and the end of a job recorded, this much later at most."""
_NAMES = 3
_AND = "; jobs {jobs} of different work met it on this GPU only, which speaks for the GPU"

Gpu = tuple[str | None, int | None]


def repeats(case: Case, findings: list[Finding]) -> None:
    """Set ``same_gpu`` of ``metric.xid`` and of CUDA's errors, where jobs of different work had it on the same GPU."""
    if len(case.jobs) < 2:
        return
    _of_metrics(case, findings)
    _of_logs(case, findings)


def _mark(finding: Finding, jobs: list[str]) -> None:
    finding.fields = {**finding.fields, "same_gpu": True, "jobs": tuple(jobs)}
    finding.text += _AND.format(jobs=" and ".join(jobs))


def _of_metrics(case: Case, findings: list[Finding]) -> None:
    by_code: dict[int, list[Finding]] = {}
    for finding in findings:
        if finding.sign == "metric.xid" and finding.role == Role.ROOT and finding.fields.get("xid") in _OF_PROGRAMS:
            by_code.setdefault(int(finding.fields["xid"]), []).append(finding)
    for group in by_code.values():
        if len({(f.node, f.pci or f.uuid or f.gpu) for f in group}) != 1:
            continue
        met = {job.id: job for f in group if (job := _job_at(case, f.node, f.first)) is not None}
        if _different(list(met.values())):
            for finding in group:
                _mark(finding, sorted(met))


def _job_at(case: Case, node: str | None, at: int) -> Job | None:
    """The one job that had the node at a time."""
    here = [
        job
        for job in case.jobs
        if node in job.nodes
        and NO_TIME not in (job.started, at)
        and job.started <= at
        and (job.ended == NO_TIME or at <= job.ended + _LATE_NS)
    ]
    # a job that has just ended and the next one both fit: the one that ended met it
    here.sort(key=lambda job: (job.ended == NO_TIME, job.ended, job.id))
    return here[0] if here else None


def _different(jobs: list[Job]) -> bool:
    """Jobs of two users, or three of one user under names that differ: one program would meet its own fault anywhere."""
    users = {str(job.fields["user"]) for job in jobs if job.fields.get("user")}
    if len(users) > 1:
        return True
    apart = [job for i, job in enumerate(jobs) if job.name and not any(same_work(job, other) for other in jobs[:i])]
    return len(apart) >= _NAMES


def _of_logs(case: Case, findings: list[Finding]) -> None:
    """Errors in the output of the job that is judged, against those of jobs whose output was set aside."""
    judged = {source.job for source in case.sources if source.job} - {
        case.sources[event.source].job for event in case.events.aside("nccl.init_rank")
    }
    jobs = {job.id: job for job in case.jobs}
    places = _places_aside(case)
    for sign in _ERRORS:
        own = [f for f in findings if f.sign == sign and f.role == Role.ROOT and f.rank is not None]
        if len(own) != 1 or len(judged) != 1 or len(own[0].ranks) > 1 or not places:
            continue
        place = case.topology.ranks.get(own[0].rank or 0)
        here = jobs.get(next(iter(judged)) or "")
        if place is None or place.node is None or here is None:
            continue
        met, elsewhere = {}, False
        for event in case.events.aside(sign):
            job = case.sources[event.source].job or ""
            where = places.get((job, event.rank))
            if event.quoted or where is None:
                continue
            if where == (place.node, place.gpu):
                met[job] = event
            else:
                elsewhere = True
        others = [jobs[job] for job in met if job in jobs]
        if not elsewhere and others and _different([here, *others]):
            _mark(own[0], sorted([here.id, *met]))
            own[0].evidence += [quote(case, event) for event in list(met.values())[:2]]


def _places_aside(case: Case) -> dict[tuple[str, int | None], Gpu]:
    """(job, rank) -> node and GPU, as the output that was set aside tells itself."""
    found: dict[tuple[str, int | None], Gpu] = {}
    for event in case.events.aside("nccl.init_rank"):
        match = NCCL_HOST.search(event.text, 0, 400)
        device = str(event.fields.get("nvml") or event.fields.get("dev") or "")
        if match and device.isdecimal():
            key = case.sources[event.source].job or "", int(str(event.fields["rank"]))
            found.setdefault(key, (match[1], int(device)))
    return found
