"""Tables that ``kubectl get`` prints (events, pods, nodes, podgroups, workloads), as objects of the API's shape.

A table tells ages, not times: its objects have no time stamps, and events carry ``ageSeconds`` instead.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from aiops.ingest.kubernetes_owners import WORKLOAD_KINDS

_HEADER = re.compile(
    r"(?:NAMESPACE {2,})?(?:NAME|LAST SEEN)(?: {2,}[A-Z][A-Z0-9%()a-z._-]*(?: [A-Z][A-Z-]*)*)+\s*", re.ASCII
)
_COLUMN = re.compile(r"\S+(?: \S+)*")
_KNOWN_COLUMNS = frozenset({"AGE", "LAST SEEN", "CPU(cores)", "PENDING WORKLOADS"})
_PROMPT = re.compile(r"(?:[\w@.:~/-]*[$#] )?kubectl \S")
_COUNT = re.compile(r"(\S+)(?: \(x(\d{1,9}) over \S+\))?")
_AGE = re.compile(r"(?:(\d{1,3})y)?(?:(\d{1,6})d)?(?:(\d{1,9})h)?(?:(\d{1,9})m)?(?:(\d{1,9})s)?")
_AGE_SCALE = (365 * 86_400, 86_400, 3_600, 60, 1)

_WAITING = frozenset(
    {
        "ContainerCreating",
        "PodInitializing",
        "ErrImagePull",
        "ImagePullBackOff",
        "InvalidImageName",
        "ErrImageNeverPull",
        "CrashLoopBackOff",
        "CreateContainerError",
        "CreateContainerConfigError",
        "RunContainerError",
        "ImageInspectError",
        "RegistryUnavailable",
    }
)
_TERMINATED = frozenset({"Error", "OOMKilled", "ContainerCannotRun", "StartError", "ContainerStatusUnknown"})
_PHASES = frozenset({"Pending", "Running", "Succeeded", "Failed", "Unknown"})
_KINDS = {
    kind.lower(): kind
    for kind in (*WORKLOAD_KINDS, "Pod", "Node", "Service", "PersistentVolumeClaim", "ResourceClaim", "ClusterQueue")
}

_OPERATOR_KINDS = frozenset({"pytorchjob", "mpijob", "tfjob", "jaxjob", "paddlejob", "xgboostjob", "trainjob"})

Row = Mapping[str, str]
Columns = list[tuple[str, int, int]]
"""(name, start, end) of each column; the end is where the next one starts."""


class TableReader:
    """Reads tables line by line: a header opens one, a blank line or a prompt closes it."""

    def __init__(self) -> None:
        self._columns: Columns | None = None
        self._names: set[str] = set()

    def close(self) -> None:
        self._columns = None

    def read(self, line: str) -> dict[str, Any] | None:
        """The object of a row, if the row can be expressed as one."""
        header = header_of(line)
        if header is not None:
            self._columns, self._names = header, {name for name, _, _ in header}
            return None
        if self._columns is None:
            return None
        row = row_of(line, self._columns)
        kind, slash, name = row.get("NAME", "").partition("/")
        if slash:
            # Several resources at once: pod/a, job.batch/a, workload.kueue.x-k8s.io/a.
            row["NAME"] = name
        reader = _reader(self._names, kind.partition(".")[0] if slash else "")
        return reader(row) if reader is not None else None


def is_prompt(line: str) -> bool:
    return _PROMPT.match(line) is not None


def header_of(line: str) -> Columns | None:
    """The columns if the line is a header of one of the tables that are known."""
    if len(line) > 2_000 or _HEADER.fullmatch(line) is None:
        return None
    found = columns_of(line)
    return None if _KNOWN_COLUMNS.isdisjoint(name for name, _, _ in found) else found


def columns_of(line: str) -> Columns:
    found = [(match[0], match.start()) for match in _COLUMN.finditer(line)]
    ends = [start for _, start in found[1:]] + [1 << 30]
    return [(name, start, end) for (name, start), end in zip(found, ends, strict=True)]


def row_of(line: str, columns: Columns) -> dict[str, str]:
    """Cells of a line by the names of the columns."""
    aligned = all(start == 0 or start >= len(line) or line[start - 1] == " " for _, start, _ in columns)
    if aligned:
        return {name: line[start:end].strip() for name, start, end in columns}
    # Rows that arrive later (``--watch``) are wider than the header allowed for.
    cells = re.split(r" {2,}", line.strip(), maxsplit=len(columns) - 1)
    return dict.fromkeys((name for name, _, _ in columns), "") | {
        name: cell.strip() for (name, _, _), cell in zip(columns, cells, strict=False)
    }


def _reader(names: set[str], kind: str) -> Callable[[Row], dict[str, Any] | None] | None:
    if {"REASON", "OBJECT", "MESSAGE"} <= names:
        return _event
    if {"NAME", "READY", "STATUS", "RESTARTS"} <= names:
        return _pod
    if {"NAME", "STATUS", "ROLES", "VERSION"} <= names:
        return _node
    if {"NAME", "STATUS", "MINMEMBER"} <= names:
        return _podgroup
    if {"NAME", "QUEUE", "ADMITTED"} <= names:
        return _workload
    if {"NAME", "CLUSTERQUEUE"} <= names:
        return _local_queue
    if {"NAME", "COMPLETIONS", "DURATION"} <= names:
        return _job
    if {"NAME", "TERMINALSTATE", "RESTARTS"} <= names:
        return _jobset
    if {"NAME", "JOB STATUS", "DEPLOYMENT STATUS"} <= names:
        return _rayjob
    if kind in _OPERATOR_KINDS and {"NAME", "STATE"} <= names:
        return lambda row: _operator_job(row, _KINDS[kind])
    return None


def _meta(row: Row) -> dict[str, Any]:
    meta: dict[str, Any] = {"name": row.get("NAME", "")}
    if row.get("NAMESPACE"):
        meta["namespace"] = row["NAMESPACE"]
    return meta


def age_seconds(text: str) -> float | None:
    """Seconds of ``26m``, ``2d4h`` or ``x``; ``None`` if the text is no age."""
    match = _AGE.fullmatch(text) if text else None
    if match is None:
        return None
    return float(sum(int(part) * scale for part, scale in zip(match.groups(), _AGE_SCALE, strict=True) if part))


def seen_of(text: str) -> tuple[float | None, int]:
    """(age in seconds, number of times) of ``26m (x12 over 2h5m)``."""
    seen = _COUNT.match(text)
    return (age_seconds(seen[1]), int(seen[2] or 1)) if seen else (None, 1)


def _kind(shown: str) -> str:
    """``kubectl get events`` writes kinds in lower case, ``kubectl events`` as they are."""
    return _KINDS.get(shown.lower()) or (shown.capitalize() if shown.islower() else shown)


def _event(row: Row) -> dict[str, Any] | None:
    kind, slash, name = row.get("OBJECT", "").partition("/")
    if not slash:
        return None
    age, count = seen_of(row.get("LAST SEEN", ""))
    component, _, host = row.get("SOURCE", "").partition(", ")
    about: dict[str, Any] = {"kind": _kind(kind), "name": name}
    namespace = row.get("NAMESPACE", "")
    if namespace and about["kind"] != "Node":
        about["namespace"] = namespace
    body: dict[str, Any] = {
        "kind": "Event",
        "metadata": {"namespace": namespace} if namespace else {},
        "type": row.get("TYPE", ""),
        "reason": row.get("REASON", ""),
        "involvedObject": about,
        "message": row.get("MESSAGE", ""),
        "count": max(count, _count(row.get("COUNT", "")) or 1),
    }
    if component:
        # Of other components the second word is the program's own instance.
        body["source"] = {"component": component} | ({"host": host} if component == "kubelet" and host else {})
    if age is not None:
        body["ageSeconds"] = age
    return body


def _count(text: str) -> int | None:
    return int(text) if text.isdecimal() and len(text) < 10 else None


def _pod(row: Row) -> dict[str, Any] | None:
    if not row.get("NAME"):
        return None
    status, container = _pod_status(row["STATUS"])
    restarts = row.get("RESTARTS", "").split(" ", 1)[0]
    if container is not None:
        container["restartCount"] = _count(restarts) or 0
        status["initContainerStatuses" if row["STATUS"].startswith("Init:") else "containerStatuses"] = [container]
    node = row.get("NODE", "")
    return {
        "kind": "Pod",
        "metadata": _meta(row),
        "spec": {"nodeName": node} if node not in ("", "<none>") else {},
        "status": status,
    }


def _pod_status(shown: str) -> tuple[dict[str, Any], dict[str, Any] | None]:
    """(status, status of the one container known) of the STATUS column, which mixes phase and reasons."""
    reason = shown.removeprefix("Init:")
    if reason in _WAITING:
        phase = "Running" if reason == "CrashLoopBackOff" else "Pending"
        return {"phase": phase}, {"name": "", "state": {"waiting": {"reason": reason}}}
    if reason in _TERMINATED:
        return {"phase": "Failed"}, {"name": "", "state": {"terminated": {"reason": reason}}}
    if reason == "Completed":
        return {"phase": "Succeeded"}, {"name": "", "state": {"terminated": {"reason": "Completed", "exitCode": 0}}}
    if reason in _PHASES:
        return {"phase": reason}, None
    if shown.startswith("Init:"):
        return {"phase": "Pending"}, None
    if shown == "Terminating":
        return {"phase": "Running", "reason": shown}, None
    return {"phase": "Failed", "reason": shown}, None


def _node(row: Row) -> dict[str, Any] | None:
    words = row["STATUS"].split(",")
    spec: dict[str, Any] = {"unschedulable": True} if "SchedulingDisabled" in words else {}
    ready = {"Ready": "True", "NotReady": "False", "Unknown": "Unknown"}.get(words[0])
    if ready is None or not row.get("NAME"):
        return None
    return {
        "kind": "Node",
        "metadata": _meta(row),
        "spec": spec,
        "status": {"conditions": [{"type": "Ready", "status": ready}]},
    }


def _podgroup(row: Row) -> dict[str, Any] | None:
    least, running = row.get("MINMEMBER", ""), row.get("RUNNINGS", "")
    return {
        "apiVersion": "scheduling.volcano.sh/v1beta1",
        "kind": "PodGroup",
        "metadata": _meta(row),
        "spec": {} if _count(least) is None else {"minMember": _count(least)},
        "status": {"phase": row["STATUS"], "running": _count(running) or 0},
    }


def _workload(row: Row) -> dict[str, Any] | None:
    admitted = row.get("ADMITTED", "")
    known = [{"type": "Admitted", "status": admitted}] if admitted in ("True", "False") else []
    if row.get("RESERVED IN"):
        known.append({"type": "QuotaReserved", "status": "True"})
    if row.get("FINISHED") == "True":
        known.append({"type": "Finished", "status": "True"})
    return {
        "apiVersion": "kueue.x-k8s.io/v1beta2",
        "kind": "Workload",
        "metadata": _meta(row),
        "spec": {"queueName": row.get("QUEUE", "")},
        "status": {"conditions": known},
    }


def _local_queue(row: Row) -> dict[str, Any]:
    return {
        "apiVersion": "kueue.x-k8s.io/v1beta2",
        "kind": "LocalQueue",
        "metadata": _meta(row),
        "spec": {"clusterQueue": row["CLUSTERQUEUE"]},
        "status": {"pendingWorkloads": _count(row.get("PENDING WORKLOADS", "")) or 0},
    }


_JOB_STATES = frozenset({"Complete", "Failed", "Suspended", "FailureTarget", "SuccessCriteriaMet"})


def _job(row: Row) -> dict[str, Any]:
    state = row.get("STATUS", "")
    done, _, wanted = row["COMPLETIONS"].partition("/")
    if not state and done == wanted:
        # Before Kubernetes 1.31 the table had no such column.
        state = "Complete"
    spec = {} if _count(wanted) is None else {"completions": _count(wanted), "parallelism": _count(wanted)}
    known = [{"type": state, "status": "True"}] if state in _JOB_STATES else []
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": _meta(row),
        "spec": spec,
        "status": {"conditions": known, "active": int(state == "Running"), "succeeded": _count(done) or 0},
    }


def _jobset(row: Row) -> dict[str, Any]:
    states = (row["TERMINALSTATE"], "Suspended" if row.get("SUSPENDED") == "true" else "")
    return {
        "apiVersion": "jobset.x-k8s.io/v1alpha2",
        "kind": "JobSet",
        "metadata": _meta(row),
        "status": {
            "conditions": [{"type": state, "status": "True"} for state in states if state],
            "restarts": _count(row["RESTARTS"]) or 0,
        },
    }


def _rayjob(row: Row) -> dict[str, Any]:
    return {
        "apiVersion": "ray.io/v1",
        "kind": "RayJob",
        "metadata": _meta(row),
        "status": {"jobStatus": row["JOB STATUS"], "jobDeploymentStatus": row["DEPLOYMENT STATUS"]},
    }


def _operator_job(row: Row, kind: str) -> dict[str, Any]:
    return {
        "apiVersion": "trainer.kubeflow.org/v1alpha1" if kind == "TrainJob" else "kubeflow.org/v1",
        "kind": kind,
        "metadata": _meta(row),
        "status": {"conditions": [{"type": row["STATE"], "status": "True"}] if row["STATE"] else []},
    }
