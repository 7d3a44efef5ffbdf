"""Tables that ``kubectl get`` prints (events, pods, nodes, podgroups, workloads), as objects of the API's shape.

A table tells ages, not times: its objects have no time stamps, and events carry ``ageSeconds`` instead.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from aiops.ingest.kubernetes_owners import WORKLOAD_KINDS

_HEADER = re.compile(
    r"(?:NAMESPACE {2,})?(?:NAME|LAST SEEN)(?: {2,}[A-Z][A-Z0-9%()a-z._-]*(?: [A-Z][A-Z-]*)*)+\s*", re.ASCII
)
_COLUMN = re.compile(r"\S+(?: \S+)*")
_KNOWN_COLUMNS = frozenset({"AGE", "LAST SEEN", "CPU(cores)"})
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

Row = Mapping[str, str]


def is_table(head: str) -> bool:
    """True if the text begins with such a table, perhaps below the command that printed it."""
    for line in head.splitlines()[:8]:
        if not line.strip() or _PROMPT.match(line):
            continue
        return _columns(line) is not None
    return False


def table_objects(text: str) -> Iterator[tuple[dict[str, Any], int]]:
    """(object, line) of each row that can be expressed as an object."""
    columns: list[tuple[str, int, int]] | None = None
    reader: Callable[[Row], dict[str, Any] | None] | None = None
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip() or _PROMPT.match(line):
            columns = None
            continue
        header = _columns(line)
        if header is not None:
            columns, reader = header, _reader({name for name, _, _ in header})
        elif columns is not None and reader is not None and (body := reader(_row(line, columns))) is not None:
            yield body, number


def _columns(line: str) -> list[tuple[str, int, int]] | None:
    """(name, start, end) of the columns if the line is a header; the end is where the next one starts."""
    if len(line) > 2_000 or _HEADER.fullmatch(line) is None:
        return None
    found = [(match[0], match.start()) for match in _COLUMN.finditer(line)]
    if _KNOWN_COLUMNS.isdisjoint(name for name, _ in found):
        return None
    ends = [start for _, start in found[1:]] + [1 << 30]
    return [(name, start, end) for (name, start), end in zip(found, ends, strict=True)]


def _row(line: str, columns: list[tuple[str, int, int]]) -> dict[str, str]:
    aligned = all(start == 0 or start >= len(line) or line[start - 1] == " " for _, start, _ in columns)
    if aligned:
        return {name: line[start:end].strip() for name, start, end in columns}
    # Rows that arrive later (``--watch``) are wider than the header allowed for.
    cells = re.split(r" {2,}", line.strip(), maxsplit=len(columns) - 1)
    return dict.fromkeys((name for name, _, _ in columns), "") | {
        name: cell.strip() for (name, _, _), cell in zip(columns, cells, strict=False)
    }


def _reader(names: set[str]) -> Callable[[Row], dict[str, Any] | None] | None:
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


def _event(row: Row) -> dict[str, Any] | None:
    kind, slash, name = row.get("OBJECT", "").partition("/")
    if not slash:
        return None
    seen = _COUNT.match(row.get("LAST SEEN", ""))
    about: dict[str, Any] = {"kind": _KINDS.get(kind, kind.capitalize()), "name": name}
    namespace = row.get("NAMESPACE", "")
    if namespace and kind != "node":
        about["namespace"] = namespace
    body: dict[str, Any] = {
        "kind": "Event",
        "metadata": {"namespace": namespace} if namespace else {},
        "type": row.get("TYPE", ""),
        "reason": row.get("REASON", ""),
        "involvedObject": about,
        "message": row.get("MESSAGE", ""),
        "count": int(seen[2]) if seen and seen[2] else 1,
    }
    if seen and (age := age_seconds(seen[1])) is not None:
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
    if row.get("FINISHED") == "True":
        known.append({"type": "Finished", "status": "True"})
    return {
        "apiVersion": "kueue.x-k8s.io/v1beta2",
        "kind": "Workload",
        "metadata": _meta(row),
        "spec": {"queueName": row.get("QUEUE", "")},
        "status": {"conditions": known},
    }
