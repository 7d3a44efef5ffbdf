"""What the scheduler has already done: a job that runs again, a node that is already out."""

from __future__ import annotations

from dataclasses import dataclass

from aiops.correlate.model import IncidentDraft
from aiops.model.case import Case, Job
from aiops.model.event import NO_TIME


@dataclass(frozen=True, slots=True)
class JobNow:
    """Where the failed job stands at the end of the evidence."""

    running: bool = False
    queued: bool = False
    nodes: tuple[str, ...] = ()
    """Nodes of the run after the failure."""
    failed_object: bool = False
    """Its Kubernetes object has ended as failed: it can only be made anew."""


def job_now(case: Case, incident: IncidentDraft) -> JobNow:
    """The state of the incident's job; a run counts as a new one if it began after the first sign of the failure."""
    job = next((j for j in case.jobs if incident.scope.job in (j.id, j.fields.get("gang"))), None)
    if job is None:
        return JobNow()
    state = (job.state or "").upper()
    began = incident.best.began
    later = job.started != NO_TIME and began != NO_TIME and job.started > began
    if state.startswith("RUNNING") and (later or _restarted(job)):
        return JobNow(running=True, nodes=job.nodes)
    if state.startswith(("PENDING", "REQUEUED")) and (_restarted(job) or incident.best.failure.id == "sch.preempted"):
        return JobNow(queued=True)
    return JobNow(failed_object=job.scheduler == "kubernetes" and state.startswith("FAIL"))


def _restarted(job: Job) -> bool:
    incarnations = job.fields.get("incarnations")
    restarts = job.fields.get("restarts")
    return bool(restarts) or (isinstance(incarnations, (list, tuple)) and len(incarnations) > 1)


def already_out(incident: IncidentDraft, node: str) -> str:
    """Why a node takes no work any more, in the scheduler's words; empty if it still does."""
    for finding in incident.findings:
        drained = finding.sign == "sched.node_drained" or "DRAIN" in str(finding.fields.get("state"))
        if drained and finding.sign.startswith("sched.") and node in (finding.node, *finding.nodes):
            return finding.text
    return ""
