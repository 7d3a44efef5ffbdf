"""What the schedulers (Kubernetes, Kueue, Volcano, KAI, Slurm) say about jobs, gangs, pods and nodes.

Signs, all with ``job`` (`Job.id`) and ``fields["workload"]`` where they are about one workload, so that troubles of
other workloads in the same evidence can be told apart:

- waiting: ``sched.quota``, ``sched.gang_infeasible``, ``sched.gang_partial``, ``sched.unschedulable``,
  ``sched.maintenance``, ``sched.stale_podgroup``, ``sched.fragmentation``, ``sched.plugin_stale``,
  ``sched.ray_group``, ``sched.claims``,
  ``sched.queue_broken``, ``sched.admission_check``, ``sched.cluster_lost``, ``sched.pending`` (CONTEXT)
- starting: ``sched.image_pull``, ``sched.container_setup``, ``sched.pods_ready_timeout``, ``sched.bind_failed``,
  ``sched.compute_domain``, ``sched.clique_split``, ``sched.admission_denied``, ``sched.webhook_failed``
- the cluster's own programs: ``sched.control_plane``
- stopped by the scheduler: ``sched.preempted``, ``sched.evicted``, ``sched.walltime``, ``sched.deadline``,
  ``sched.cancelled``, ``sched.oom_killed``
- nodes: ``sched.node_fail``, ``sched.node_reboot``, ``sched.node_invalid``, ``sched.gres_mismatch``,
  ``sched.node_memory_mismatch``, ``sched.prolog_failed``, ``sched.kill_failed`` (ECHO), ``sched.node_drained``,
  ``sched.node_pressure``,
  ``sched.node_problem``, ``sched.device_missing`` (the last four CONTEXT)
- ends: ``sched.job_failed``, ``sched.job_completed``, ``sched.requeued``, ``sched.container_exit`` (all CONTEXT), ``sched.requeue_loop``

State (conditions, accounting) is believed before events, and events before the prose in them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from aiops.detect import scheduler_slurm
from aiops.detect.scheduler_capacity import detect_capacity
from aiops.detect.scheduler_cliques import detect_cliques
from aiops.detect.scheduler_cluster import Cluster
from aiops.detect.scheduler_control_plane import detect_control_plane
from aiops.detect.scheduler_devices import detect_devices
from aiops.detect.scheduler_evidence import Quotes
from aiops.detect.scheduler_jobs import detect_jobs
from aiops.detect.scheduler_nodes import detect_nodes
from aiops.detect.scheduler_placement import detect_placement
from aiops.detect.scheduler_pods import detect_pods
from aiops.detect.scheduler_queue import detect_queue
from aiops.detect.scheduler_queue_setup import detect_queue_setup
from aiops.detect.scheduler_slurm_nodes import detect_slurm_nodes
from aiops.detect.scheduler_slurm_places import node_states
from aiops.detect.scheduler_slurm_reservations import detect_reservations
from aiops.model.case import Case
from aiops.model.event import Severity
from aiops.model.finding import Finding, Role

if TYPE_CHECKING:
    from aiops.catalog.model import Catalog

_SETTLED = frozenset(
    {
        "sched.image_pull",
        "sched.container_setup",
        "sched.unschedulable",
        "sched.quota",
        "sched.preempted",
        "sched.evicted",
        "sched.oom_killed",
        "sched.pods_ready_timeout",
    }
)
_TOLD_TWICE = frozenset({"sched.preempted", "sched.pods_ready_timeout", "sched.walltime"})


def detect(case: Case, catalog: Catalog) -> list[Finding]:
    """All scheduler findings of a case; the catalog is not used."""
    quotes = Quotes(case)
    findings: list[Finding] = []
    if case.objects:
        findings += _kubernetes(case, quotes)
    states = node_states(case)
    findings += detect_reservations(case, quotes, states)
    if states or any(job.scheduler == "slurm" for job in case.jobs):
        of_jobs = scheduler_slurm.detect_jobs(case, quotes, states)
        told = {name for finding in of_jobs if finding.sign == "sched.node_fail" for name in finding.nodes}
        findings += [*of_jobs, *detect_slurm_nodes(case, quotes, states, told)]
    return findings


def _kubernetes(case: Case, quotes: Quotes) -> list[Finding]:
    cluster = Cluster(case)
    findings = [
        *detect_pods(cluster, quotes),
        *detect_placement(cluster, quotes),
        *detect_queue(cluster, quotes),
        *detect_queue_setup(cluster, quotes),
        *detect_devices(cluster, quotes),
        *detect_control_plane(cluster, quotes),
        *detect_jobs(cluster, quotes),
        *detect_nodes(cluster, quotes),
        *detect_capacity(case, cluster, quotes),
        *detect_cliques(case, cluster, quotes),
    ]
    for finding in findings:
        if (
            finding.sign in _SETTLED
            and finding.job is not None
            and finding.role is Role.ROOT
            and cluster.succeeded(finding.job)
        ):
            # The workload completed all the same.
            finding.role, finding.severity = Role.CONTEXT, Severity.WARNING
    _place_evictions(findings)
    _all_devices_busy(findings)
    return _merge(findings)


def _all_devices_busy(findings: list[Finding]) -> None:
    """Claims that wait because every device is in use wait for room; nothing is wrong with the driver."""
    busy = {f.job for f in findings if f.sign == "sched.claims" and f.fields.get("why") == "busy"}
    for finding in findings:
        if finding.sign == "sched.unschedulable" and finding.job in busy and finding.fields.get("why") == "claims":
            finding.fields = {**finding.fields, "why": "insufficient"}


def _place_evictions(findings: list[Finding]) -> None:
    """An eviction that names no node happened on the one node that was short of the resource."""
    for finding in findings:
        resource = finding.fields.get("resource")
        if finding.sign != "sched.evicted" or finding.nodes or not resource or finding.fields.get("own_limit"):
            continue
        short = [
            other
            for other in findings
            if other.sign == "sched.node_pressure" and other.fields.get("resource") in (resource, None)
        ]
        if len(short) == 1 and short[0].node is not None:
            finding.node, finding.nodes = short[0].node, (short[0].node,)
            finding.evidence.append(short[0].evidence[0])
            finding.fields = {**finding.fields, "node_by": "pressure"}


def _merge(findings: list[Finding]) -> list[Finding]:
    """Pods and the queue tell the same preemption or eviction of a gang: one finding, with the proof of both."""
    kept: dict[tuple[str, str | None], Finding] = {}
    result = []
    for finding in findings:
        key = (finding.sign, finding.job)
        old = kept.get(key) if finding.sign in _TOLD_TWICE else None
        if old is None or finding.job is None:
            kept.setdefault(key, finding)
            result.append(finding)
            continue
        old.fields = {**finding.fields, **{name: value for name, value in old.fields.items() if value is not None}}
        old.evidence += finding.evidence
        old.count += finding.count
        old.name = old.name or finding.name
        if finding.fields.get("by") and "Workload" in str(finding.fields.get("workload")):
            old.text = finding.text
        times = [value for value in (old.first, finding.first) if value > 0]
        old.first = min(times, default=old.first)
        old.last = max(old.last, finding.last)
    return result
