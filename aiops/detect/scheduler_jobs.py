"""How Kubernetes workloads ended, and whether they started again; one finding per gang."""

from __future__ import annotations

from collections.abc import Iterator

from aiops.detect.scheduler_cluster import SUCCESS, Cluster
from aiops.detect.scheduler_evidence import Quotes
from aiops.detect.scheduler_findings import Group, amount, listing
from aiops.ingest.kubernetes_fields import conditions, integer, is_true, mapping, mappings, rfc3339_ns, text
from aiops.model.case import Job, KubernetesObject
from aiops.model.event import NO_TIME, Severity
from aiops.model.finding import Finding, Role

_FAILED = frozenset({"Failed", "FailureTarget", "FAILED", "Aborted", "Terminated"})
_DEADLINES = frozenset({"DeadlineExceeded", "PreRunningDeadlineExceeded"})
_SYSTEM = ("system:", "kubernetes-admin:system")
_REMOVALS = frozenset({"delete", "deletecollection"})
_LOOP = 3
"""Attempts without an end from which on it is a loop (TAXONOMY.md, retry budget)."""
_LOOP_NEEDLES = ("requeueState", "Requeue State", "restarts", "Restarts", "retryCount", "Retry Count", "evictions")


def detect_jobs(cluster: Cluster, quotes: Quotes) -> list[Finding]:
    """``sched.job_completed``, ``sched.job_failed``, ``sched.requeued`` (all CONTEXT), ``sched.walltime``,
    ``sched.cancelled`` (from audit logs)."""
    findings: list[Finding] = []
    bodies = {(item.kind, item.namespace, item.name): item for items in cluster.objects.values() for item in items}
    for gang_id in cluster.jobs:
        jobs = cluster.root_jobs(gang_id)
        if not jobs:
            continue
        ended = [job for job in jobs if job.state in _FAILED] or [
            job for job in jobs if job.state in SUCCESS or (job.kind == "Workload" and job.state == "Finished")
        ]
        if ended and (len(ended) == len(jobs) or ended[0].id == gang_id or ended[0].state in _FAILED):
            item = bodies.get((ended[0].kind or "", ended[0].namespace, ended[0].name or ""))
            findings.append(_end(cluster, gang_id, ended[0], item, quotes))
        findings += _restarts(gang_id, jobs, bodies, quotes)
        findings += _loops(cluster, gang_id, bodies, quotes)
    findings += _removals(cluster, quotes)
    return findings


def _end(cluster: Cluster, gang_id: str, job: Job, item: KubernetesObject | None, quotes: Quotes) -> Finding:
    failed = job.state in _FAILED or (job.state == "Finished" and job.reason == "Failed")
    late = failed and job.reason in _DEADLINES
    sign = "sched.walltime" if late else "sched.job_failed" if failed else "sched.job_completed"
    group = Group(
        sign,
        job=gang_id,
        role=Role.ROOT if late else Role.CONTEXT,
        severity=Severity.ERROR if failed else Severity.INFO,
        fields={"workload": f"{job.kind} {gang_id}", "state": job.state, "reason": job.reason, "gpus": job.gpus},
    )
    message, ts = "", job.ended
    if item is not None:
        for kind in (job.state or "", "Failed", "FailureTarget"):
            condition = conditions(item.body).get(kind)
            if is_true(condition) and condition is not None:
                message = text(condition, "message")
                ts = ts if ts != NO_TIME else rfc3339_ns(condition.get("lastTransitionTime"))
                break
        said = f"{job.state}, reason {job.reason or 'none'}" + (f": {message}" if message else "")
        group.note(quotes.object(item, said, ts, message, job.state or ""), ts=ts)
    else:
        group.note(quotes.row(job.source, job.line, job.text, ts), ts=ts)
    hanging = [
        pod.name
        for pod in cluster.pods.values()
        if pod.gang.id == gang_id and not pod.ended and text(mapping(pod.body, "metadata"), "deletionTimestamp")
    ]
    if failed and hanging:
        group.fields["terminating"] = tuple(sorted(hanging))
    if message:
        group.fields["message"] = message
    what = "reached its deadline" if late else "failed" if failed else "completed"
    why = f" ({job.reason})" if job.reason and not late else ""
    tail = f"; {listing(hanging)} still terminating" if failed and hanging else ""
    return group.finding(f"{job.kind} {gang_id} {what}{why}{tail}")


def _restarts(
    gang_id: str, jobs: list[Job], bodies: dict[tuple[str, str | None, str], KubernetesObject], quotes: Quotes
) -> Iterator[Finding]:
    for job in jobs:
        count = job.fields.get("restarts") or 0
        item = bodies.get((job.kind or "", job.namespace, job.name or ""))
        if count and item is not None:
            group = Group(
                "sched.requeued",
                job=gang_id,
                role=Role.CONTEXT,
                severity=Severity.WARNING,
                fields={"workload": f"{job.kind} {gang_id}", "restarts": count},
            )
            group.note(quotes.object(item, f"restarts: {count}", NO_TIME, "restarts"), count=count)
            yield group.finding(f"{job.kind} {gang_id} was restarted {amount(count, 'time')}")
            return


def _loops(
    cluster: Cluster, gang_id: str, bodies: dict[tuple[str, str | None, str], KubernetesObject], quotes: Quotes
) -> Iterator[Finding]:
    """A workload that comes back to the start again and again, and does not run now."""
    if cluster.succeeded(gang_id) or any(pod.running for pod in cluster.pods.values() if pod.gang.id == gang_id):
        return
    best: tuple[int, KubernetesObject, str] | None = None
    for job in cluster.jobs[gang_id]:
        item = bodies.get((job.kind or "", job.namespace, job.name or ""))
        if item is not None:
            for count, said in _attempts(job, item):
                if count >= _LOOP and (best is None or count > best[0]):
                    best = count, item, said
    if best is None:
        return
    count, item, said = best
    group = Group("sched.requeue_loop", job=gang_id, fields={"workload": f"{item.kind} {gang_id}", "attempts": count})
    group.note(quotes.object(item, f"{said} {amount(count, 'time')}", NO_TIME, *_LOOP_NEEDLES), count=count)
    yield group.finding(f"{gang_id} was {said} {amount(count, 'time')} and does not run")


def _attempts(job: Job, item: KubernetesObject) -> Iterator[tuple[int, str]]:
    status = mapping(item.body, "status")
    yield job.fields.get("restarts") or 0, "restarted"
    yield integer(status, "requeueState", "count") or 0, "requeued"
    yield sum(integer(entry, "count") or 0 for entry in mappings(status, "schedulingStats", "evictions")), "evicted"
    if item.kind == "RayJob":
        yield integer(status, "failed") or 0, "tried"


def _removals(cluster: Cluster, quotes: Quotes) -> Iterator[Finding]:
    """Deletions of workloads by people, from the API server's audit log."""
    for item in cluster.objects.get("AuditEvent", ()):
        verb, user = text(item.body, "verb"), text(item.body, "user", "username")
        about = mapping(item.body, "objectRef")
        resource = text(about, "resource")
        if (
            verb not in _REMOVALS
            or not user
            or user.startswith(_SYSTEM)
            or not resource.endswith(("jobs", "jobsets", "pods", "workloads", "rayclusters", "podgroups"))
        ):
            continue
        kind = "Pod" if resource == "pods" else "Workload" if resource == "workloads" else ""
        gang = cluster.gang(kind, text(about, "namespace"), text(about, "name"))
        ts = rfc3339_ns(item.body.get("requestReceivedTimestamp") or item.body.get("stageTimestamp"))
        group = Group("sched.cancelled", job=gang.id, fields={"workload": f"{resource} {gang.id}", "by": user})
        group.note(quotes.object(item, f"{user} {verb} {resource} {gang.id}", ts, user), ts=ts)
        yield group.finding(f"{gang.id} was deleted by {user}")
