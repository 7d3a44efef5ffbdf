"""Which job a case is about, and which findings belong to it."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

from aiops.correlate.model import JobScope
from aiops.detect.scheduler_slurm_places import node_states, nodes_of_choice, waits_for_a_limit
from aiops.ingest.outputs import hosts_of_outputs, job_in_name, judged, went_wrong
from aiops.model.case import Case, Job
from aiops.model.event import NO_TIME, Severity
from aiops.model.finding import Finding, Role


def find_scope(case: Case) -> JobScope:
    """The job whose output was collected; without output the one job, or the one that went wrong last."""
    nodes = {place.node for place in case.topology.ranks.values() if place.node}
    if nodes:  # of an earlier attempt as well
        nodes |= set().union(*hosts_of_outputs(case).values()) & set(case.topology.nodes)
    pods = {place.pod for place in case.topology.ranks.values() if place.pod}
    if not nodes:
        kinds = {source.index: source.kind for source in case.sources}
        nodes = {event.node for event in case.events if event.node and kinds.get(event.source) == "training"}
    job = _choose(case, nodes, pods)
    members = set(nodes)
    if job is not None:
        members |= set(job.nodes)
    if job is None:
        return JobScope(
            job=_logged_job(case),
            scheduler=_scheduler(case),
            nodes=frozenset(members) if _all_placed(case) else frozenset(),
            gpus=case.topology.world_size,
            from_output=bool(nodes),
            other_files=_files_of_others(case, {_logged_job(case)}),
        )
    # a requeued job that waits has no nodes now, but those of its earlier runs are recorded
    runs = job.fields.get("incarnations")
    earlier = {
        node
        for run in (runs if isinstance(runs, (list, tuple)) else ())
        if isinstance(run, dict)
        for node in run.get("nodes", ())
    }
    members |= earlier
    # the pods of a gang may be known to its owner only (JobSet and Job, Workload and TrainJob)
    gang_id = job.fields.get("gang") or job.id
    kin = {node for other in case.jobs if (other.fields.get("gang") or other.id) == gang_id for node in other.nodes}
    members |= kin
    from_output = bool(case.coverage.sources.get("training"))
    known = (job.nodes or earlier or kin or _all_placed(case)) and (from_output or not _whole_cluster(case))
    eligible = None if members else _eligible(case, job)
    return JobScope(
        job=_gang(job),
        name=job.name,
        scheduler=job.scheduler or _scheduler(case),
        namespace=job.namespace,
        kind=job.kind,
        nodes=frozenset(members) if known else frozenset(),
        gpus=job.gpus or case.topology.world_size,
        from_output=from_output,
        namespaces=_collected(case),
        elsewhere=_held_by_others(case, job) - members - (eligible or frozenset()),
        asked=job.id == _asked(case),
        eligible=eligible,
        other_files=_files_of_others(case, {job.id, job.name, _gang(job)}),
    )


def _files_of_others(case: Case, names: set[Any]) -> frozenset[str]:
    """Files stated to belong to a job with another name than the case's job; none if that is not known."""
    if not any(names):
        return frozenset()
    return frozenset(source.name for source in case.sources if source.job and source.job not in names)


def _collected(case: Case) -> frozenset[str]:
    asked = {job.namespace for job in case.jobs} | {item.namespace for item in case.objects if item.kind == "Pod"}
    return frozenset(name for name in asked if name)


def _held_by_others(case: Case, job: Job) -> frozenset[str]:
    """Nodes on which other jobs run, if ``job`` alone was asked for (``scontrol show job``) and waits for its first ones."""
    if job.id != _asked(case) or job.nodes or not (job.state or "").upper().startswith("PENDING"):
        return frozenset()
    return frozenset(node for other in case.jobs if other.id != job.id and _runs_on(other) for node in other.nodes)


def scope_of_cause(case: Case, scope: JobScope, cause: Finding) -> JobScope:
    """The scope, narrowed to the workload that the cause is about, where the evidence is a whole cluster's.

    Of several workloads none is *the* job before the cause is known, and an action must not hit another one.
    """
    if scope.from_output or cause.job is None or cause.job == scope.job or scope.scheduler != "kubernetes":
        return scope
    jobs = [job for job in case.jobs if cause.job in (job.id, _gang(job))]
    if not jobs:
        return replace(scope, job=cause.job, name=None, kind=None, gpus=None)
    job = next((job for job in jobs if job.id == cause.job and job.kind not in ("Workload", "PodGroup")), jobs[0])
    return replace(scope, job=cause.job, name=job.name, namespace=job.namespace, kind=job.kind, gpus=job.gpus)


def _gang(job: Job) -> str:
    gang = job.fields.get("gang")
    return gang if isinstance(gang, str) and gang else job.id


def _whole_cluster(case: Case) -> bool:
    """Objects of several Kubernetes workloads: a node without the one that was picked is no stranger."""
    return len({_gang(job) for job in case.jobs if job.scheduler == "kubernetes"}) > 1


def _asked(case: Case) -> str | None:
    """The one job for which ``sacct -j`` or ``scontrol show job`` was called; queues list everybody's."""
    told = {
        job.id
        for job in case.jobs
        if any(record.tool in ("sacct", "scontrol") for record in job.fields.get("records") or ())
    }
    return next(iter(told)) if len(told) == 1 else None


def _eligible(case: Case, job: Job) -> frozenset[str] | None:
    """Nodes that a Slurm job could be given: none if a limit or its own request keeps it; ``None`` if that is unknown."""
    if job.scheduler != "slurm":
        return None
    if waits_for_a_limit(job.reason) or job.reason == "BadConstraints":
        return frozenset()
    if not (job.state or "").startswith("PENDING"):
        return None
    return frozenset(nodes_of_choice(job, node_states(case))) or None


def _all_placed(case: Case) -> bool:
    """True if the node of every rank is known. A list of nodes with gaps must not exclude any node from the job: the one that
    is missing may be the one that failed."""
    world = case.topology.world_size
    placed = sum(1 for place in case.topology.ranks.values() if place.node)
    return world is not None and placed >= world


def _choose(case: Case, nodes: set[str], pods: set[str]) -> Job | None:
    # pods that run slurmd are machines to Slurm, not a job
    jobs = [job for job in case.jobs if job.kind != "NodeSet" or all(other.scheduler != "slurm" for other in case.jobs)]
    if not jobs:
        return None
    if (chosen := judged(case)) is not None:
        return chosen
    logged = _logged_job(case)
    wanted = logged or _asked(case)
    for job in jobs:
        if wanted and job.id == wanted:
            return job
    # a job that runs untroubled is not the one that failed; acting on it would do the harm
    if len(jobs) == 1 and (not nodes or nodes & set(jobs[0].nodes)):
        return jobs[0]
    jobs = [job for job in jobs if not _runs_on(job)]
    if logged or not jobs:
        return None
    if len(jobs) == 1:
        return jobs[0]

    def weight(job: Job) -> tuple[int, int, int, int, str]:
        shared = len(nodes & set(job.nodes))
        named = sum(1 for pod in pods if job.name and pod.startswith(job.name))
        return (named, shared, int(went_wrong(job)), job.ended if job.ended != NO_TIME else 0, job.id)

    return max(jobs, key=weight)


def _runs_on(job: Job) -> bool:
    incarnations = job.fields.get("incarnations")
    again = bool(job.fields.get("restarts")) or (isinstance(incarnations, (list, tuple)) and len(incarnations) > 1)
    return (job.state or "").upper().startswith("RUNNING") and not again


def _logged_job(case: Case) -> str | None:
    """The job that the output is stated to belong to, else the one that it names, else that of the output file's name."""
    stated = {source.job for source in case.sources if source.kind == "training" and source.job}
    if stated:
        return next(iter(stated)) if len(stated) == 1 else None
    kinds = {source.index: source.kind for source in case.sources}
    for event in case.events:
        if event.signal == "slurm.step_cancelled" and kinds.get(event.source) == "training":
            return str(event.fields["job"])
    named = {job for s in case.sources if s.kind == "training" and (job := job_in_name(s))}
    return next(iter(named)) if len(named) == 1 else None


def _scheduler(case: Case) -> str | None:
    if case.coverage.sources.get("slurm") or case.coverage.sources.get("scheduler"):
        return "slurm"
    rows = case.events.by_signal()
    if any(name in rows for name in ("srun.task_exit", "slurm.step_cancelled", "slurm.job_stopped", "slurm.oom_kill")):
        return "slurm"
    if case.objects:
        return "kubernetes"
    return None


def in_scope(finding: Finding, scope: JobScope) -> bool:
    """False for findings about nodes or workloads that the job never touched."""
    if finding.fields.get("foreign"):
        return False
    if scope.other_files and finding.evidence and all(ref.source in scope.other_files for ref in finding.evidence):
        return False
    if finding.node and scope.nodes and finding.node not in scope.nodes:
        # unless the finding itself says that the node was the job's: pods that are gone are not among its nodes
        return finding.job is not None and finding.job == scope.job
    if finding.node in scope.elsewhere:
        return False
    if finding.node and scope.eligible is not None and finding.node not in scope.eligible:
        return False
    namespace, slash, _ = (finding.job or "").partition("/")
    if slash and scope.namespaces and namespace not in scope.namespaces and finding.sign.startswith("sched."):
        return False  # events of a whole cluster tell of workloads that nobody asked about
    if (
        finding.fields.get("members")
        and scope.nodes
        and not scope.nodes & {*finding.nodes, *_bare_names(finding.nodes)}
    ):
        return False
    if (
        finding.job
        and scope.job
        and (scope.from_output or scope.asked)
        and finding.sign.startswith(("sched.", "slurm."))
    ):
        return same_workload(finding.job, scope)
    return True


def _bare_names(nodes: tuple[str, ...]) -> set[str]:
    """Host names without their DNS domain: a switch's inventory may write them in full."""
    return {name.split(".", 1)[0] for name in nodes}


_OWNER_PREFIX = re.compile(r"^(?:trainjob|jobset|job|pytorchjob|mpijob|rayjob|raycluster|pod|podgroup|statefulset)-")
_HASH = re.compile(r"-[0-9a-f]{5}$")


def same_workload(job: str, scope: JobScope) -> bool:
    """True if a name means the scope's job: Kueue, Volcano and controllers name one gang's objects after each other."""
    wanted = {_bare(name) for name in (scope.job, scope.name) if name}
    bare = _bare(job)
    return any(bare == other or bare.startswith(f"{other}-") or other.startswith(f"{bare}-") for other in wanted)


def _bare(name: str) -> str:
    return _HASH.sub("", _OWNER_PREFIX.sub("", name.rsplit("/", 1)[-1]))


def may_be_cause(finding: Finding, scope: JobScope) -> bool:
    """True for findings that can be a cause of the job's failure."""
    return finding.role == Role.ROOT and in_scope(finding, scope)


_FAILURES = frozenset({"job.died", "sched.job_failed", "slurm.cancelled", "sched.node_fail", "nccl.error"})


def shows_failure(finding: Finding) -> bool:
    """The job died, somebody heard of it, or a process ended in an exception that nobody survived."""
    if finding.sign == "sched.node_fail":
        # a node that was soon back, or of which only reports were lost, ended no job
        return finding.role != Role.CONTEXT
    if finding.sign in _FAILURES:
        return True
    if finding.sign == "sched.container_exit":
        return finding.fields.get("exit_code") not in (None, 0) or bool(finding.fields.get("signal"))
    if finding.sign == "sched.unschedulable":
        return finding.role == Role.ROOT
    if finding.sign in ("py.exception", "data.exception"):
        return not finding.fields.get("survived")
    return finding.role == Role.ECHO and finding.severity >= Severity.ERROR
