"""Workload objects (Job, JobSet, PyTorchJob, Kueue Workload, PodGroup, …) as `Job` entries of the case."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from aiops.ingest.kubernetes_fields import (
    api_group,
    condition_ns,
    conditions,
    gpu_request,
    integer,
    is_false,
    is_true,
    mapping,
    mappings,
    quantity,
    rfc3339_ns,
    text,
)
from aiops.ingest.kubernetes_owners import controller, direct_gang
from aiops.model.case import Job, KubernetesObject
from aiops.model.event import NO_TIME

_State = tuple[str | None, str | None, int]
"""(state, reason, when it was reached)."""

_REPLICA_SPECS = (
    "pytorchReplicaSpecs",
    "mpiReplicaSpecs",
    "tfReplicaSpecs",
    "jaxReplicaSpecs",
    "paddleReplicaSpecs",
    "xgbReplicaSpecs",
)
_QUEUE_LABELS = ("kueue.x-k8s.io/queue-name", "kai.scheduler/queue", "runai/queue", "volcano.sh/queue-name")


def job_of(item: KubernetesObject) -> Job | None:
    """The job that a workload object describes; ``None`` for other kinds.

    ``id`` is ``namespace/name``. ``fields``: ``uid``, ``owner`` ((kind, name) or None), ``group`` (API group),
    ``conditions`` (name → (status, reason)), ``min_member`` (pods that must run at once), ``active`` (pods that run),
    ``restarts``, ``priority``, ``cluster_queue``, ``gang`` (id of the job's owner, else its own id).
    """
    reader = _READERS.get(item.kind)
    if reader is None:
        return None
    body = item.body
    meta, spec = mapping(body, "metadata"), mapping(body, "spec")
    state, pods, gpus, more = reader(body)
    ended = state[2] if state[0] in FINAL_STATES else NO_TIME
    gang = direct_gang(body, item.kind)
    job_id = f"{item.namespace}/{item.name}" if item.namespace else item.name
    labels = mapping(meta, "labels")
    queue = next((text(labels, label) for label in _QUEUE_LABELS if text(labels, label)), "")
    started = rfc3339_ns(mapping(body, "status").get("startTime"))
    return Job(
        id=job_id,
        name=item.name,
        scheduler="kubernetes",
        namespace=item.namespace,
        kind=item.kind,
        queue=text(spec, "queueName") or text(spec, "queue") or queue or None,
        state=state[0],
        reason=state[1],
        gpus=gpus,
        submitted=rfc3339_ns(meta.get("creationTimestamp")),
        started=started,
        ended=ended,
        source=item.source,
        line=item.line,
        text=f"{item.kind} {item.name}: {state[0] or 'no state'}" + (f" ({state[1]})" if state[1] else ""),
        fields={
            "gang": gang.id if gang is not None else job_id,
            "uid": text(meta, "uid"),
            "owner": controller(meta),
            "group": api_group(body),
            "min_member": pods,
            "version": integer(meta, "resourceVersion"),
            "conditions": {name: (text(c, "status"), text(c, "reason")) for name, c in conditions(body).items()},
            **more,
        },
    )


FINAL_STATES = frozenset(
    {
        "Complete",
        "Completed",
        "Succeeded",
        "Failed",
        "Finished",
        "SUCCEEDED",
        "FAILED",
        "STOPPED",
        "Aborted",
        "Terminated",
    }
)


def _by_conditions(body: Mapping[str, Any], *names: str) -> _State:
    """The first of the named conditions that is True."""
    known = conditions(body)
    for name in names:
        if is_true(known.get(name)):
            return name, text(known[name], "reason") or None, condition_ns(known[name])
    return None, None, NO_TIME


def _active(state: _State, running: int | None) -> _State:
    return state if state[0] else ("Running" if running else "Pending", None, NO_TIME)


_Read = tuple[_State, int | None, int | None, dict[str, Any]]


def _job(body: Mapping[str, Any]) -> _Read:
    if api_group(body) == "batch.volcano.sh":
        return _volcano_job(body)
    spec, status = mapping(body, "spec"), mapping(body, "status")
    active = integer(status, "active")
    pods = integer(spec, "parallelism")
    pods = 1 if pods is None else pods
    state = _active(
        _by_conditions(body, "Complete", "SuccessCriteriaMet", "Failed", "FailureTarget", "Suspended"), active
    )
    if state[0] == "Complete" and (done := rfc3339_ns(status.get("completionTime"))) != NO_TIME:
        state = state[0], state[1], done
    gpus = gpu_request(mapping(spec, "template", "spec")) * pods
    return (
        state,
        pods,
        gpus,
        {"active": active, "failed": integer(status, "failed"), "succeeded": integer(status, "succeeded")},
    )


def _volcano_job(body: Mapping[str, Any]) -> _Read:
    spec, status = mapping(body, "spec"), mapping(body, "status")
    tasks = list(mappings(spec, "tasks"))
    gpus = sum((integer(t, "replicas") or 1) * gpu_request(mapping(t, "template", "spec")) for t in tasks)
    state = mapping(status, "state")
    phase = text(state, "phase") or None
    return (
        (phase, text(state, "reason") or None, rfc3339_ns(state.get("lastTransitionTime"))),
        integer(spec, "minAvailable") or sum(integer(t, "replicas") or 1 for t in tasks),
        gpus,
        {"active": integer(status, "running"), "restarts": integer(status, "retryCount")},
    )


def _jobset(body: Mapping[str, Any]) -> _Read:
    pods = gpus = 0
    for group in mappings(body, "spec", "replicatedJobs"):
        replicas = integer(group, "replicas")
        template = mapping(group, "template", "spec")
        count = (1 if replicas is None else replicas) * (integer(template, "parallelism") or 1)
        pods += count
        gpus += count * gpu_request(mapping(template, "template", "spec"))
    status = mapping(body, "status")
    ready = sum((integer(g, "active") or 0) for g in mappings(status, "replicatedJobsStatus"))
    state = _active(_by_conditions(body, "Completed", "Failed", "Suspended"), ready)
    return state, pods or None, gpus, {"restarts": integer(status, "restarts")}


def _trainjob(body: Mapping[str, Any]) -> _Read:
    trainer = mapping(body, "spec", "trainer")
    pods = integer(trainer, "numNodes")
    per_pod = sum(
        int(quantity(n) or 0)
        for kind in ("limits", "requests")
        for key, n in mapping(trainer, "resourcesPerNode", kind).items()
        if str(key).endswith("/gpu") and (kind == "limits" or key not in mapping(trainer, "resourcesPerNode", "limits"))
    )
    state = _by_conditions(body, "Complete", "Failed", "Suspended")
    return _active(state, 1), pods, (pods or 1) * per_pod if per_pod else None, {}


def _operator_job(body: Mapping[str, Any]) -> _Read:
    spec, status = mapping(body, "spec"), mapping(body, "status")
    groups = [g for key in _REPLICA_SPECS for g in mapping(spec, key).values() if isinstance(g, Mapping)]
    counts = [
        (1 if (n := integer(g, "replicas")) is None else n, gpu_request(mapping(g, "template", "spec"))) for g in groups
    ]
    active = sum(integer(s, "active") or 0 for s in mapping(status, "replicaStatuses").values())
    state = _by_conditions(body, "Succeeded", "Failed", "Suspended", "Restarting", "Running", "Created")
    least = integer(spec, "runPolicy", "schedulingPolicy", "minAvailable")
    return (
        _active(state, active),
        least or sum(n for n, _ in counts) or None,
        sum(n * g for n, g in counts),
        {"active": active},
    )


def _ray_gpus(cluster: Mapping[str, Any]) -> tuple[int, int]:
    pods, gpus = 1, gpu_request(mapping(cluster, "headGroupSpec", "template", "spec"))
    for group in mappings(cluster, "workerGroupSpecs"):
        count = integer(group, "replicas") or integer(group, "minReplicas") or 0
        pods += count
        gpus += count * gpu_request(mapping(group, "template", "spec"))
    return pods, gpus


def _rayjob(body: Mapping[str, Any]) -> _Read:
    status = mapping(body, "status")
    pods, gpus = _ray_gpus(mapping(body, "spec", "rayClusterSpec"))
    deployment = text(status, "jobDeploymentStatus")
    # The deployment can fail before the application has any state of its own.
    state = deployment if deployment in ("Failed", "ValidationFailed") else text(status, "jobStatus") or deployment
    state = "Failed" if state == "ValidationFailed" else state
    return (
        (state or None, text(status, "reason") or None, rfc3339_ns(status.get("endTime"))),
        pods,
        gpus,
        {"cluster": text(status, "rayClusterName"), "message": text(status, "message")},
    )


def _raycluster(body: Mapping[str, Any]) -> _Read:
    status = mapping(body, "status")
    pods, gpus = _ray_gpus(mapping(body, "spec"))
    return (
        (text(status, "state") or None, text(status, "reason") or None, NO_TIME),
        pods,
        gpus,
        {"active": integer(status, "readyWorkerReplicas")},
    )


def _workload(body: Mapping[str, Any]) -> _Read:
    spec, status = mapping(body, "spec"), mapping(body, "status")
    if api_group(body) != "kueue.x-k8s.io":
        # Kubernetes' own: 1.35 names pod groups in it, later versions templates of them.
        sets = [*mappings(spec, "podGroups"), *mappings(spec, "podGroupTemplates")]
        least = sum(_gang_size(group) for group in sets)
        return (None, None, NO_TIME), least or None, None, {"priority": integer(spec, "priority")}
    sets = list(mappings(spec, "podSets"))
    pods = sum(integer(s, "minCount") or integer(s, "count") or 0 for s in sets)
    gpus = sum((integer(s, "count") or 0) * gpu_request(mapping(s, "template", "spec")) for s in sets)
    state = _by_conditions(body, "Finished", "Admitted", "QuotaReserved")
    if state[0] is None:
        known = conditions(body)
        waiting = known.get("QuotaReserved")
        reason = text(waiting, "reason") if waiting is not None and is_false(waiting) else None
        state = (
            "Evicted" if is_true(known.get("Evicted")) else "Pending",
            reason,
            condition_ns(waiting) if waiting is not None else NO_TIME,
        )
    return (
        state,
        pods or None,
        gpus or None,
        {"priority": integer(spec, "priority"), "cluster_queue": text(status, "admission", "clusterQueue") or None},
    )


def _gang_size(group: Mapping[str, Any]) -> int:
    """Pods that must run at once, by the policy of a native pod group or of its template."""
    for policy in ("policy", "schedulingPolicy"):
        if least := integer(group, policy, "gang", "minCount"):
            return least
    return 0


def _podgroup(body: Mapping[str, Any]) -> _Read:
    spec, status = mapping(body, "spec"), mapping(body, "status")
    least = integer(spec, "minMember") or integer(spec, "schedulingPolicy", "gang", "minCount")
    condition = list(mappings(status, "conditions"))[-1:]
    reason = text(condition[0], "reason") if condition else ""
    wanted = sum(int(quantity(n) or 0) for key, n in mapping(spec, "minResources").items() if "/gpu" in str(key))
    return (
        (text(status, "phase") or None, reason or None, NO_TIME),
        least,
        wanted or None,
        {"active": integer(status, "running")},
    )


_READERS: dict[str, Callable[[Mapping[str, Any]], _Read]] = {
    "Job": _job,
    "JobSet": _jobset,
    "TrainJob": _trainjob,
    "RayJob": _rayjob,
    "RayCluster": _raycluster,
    "Workload": _workload,
    "PodGroup": _podgroup,
    **dict.fromkeys(("PyTorchJob", "MPIJob", "TFJob", "JAXJob", "PaddleJob", "XGBoostJob"), _operator_job),
}


def workload_kinds() -> Iterable[str]:
    """Kinds that `job_of` reads."""
    return _READERS.keys()
