"""Text that ``kubectl describe`` prints, as objects of the API's shape and the events below them.

Pods, nodes and jobs have a layout of their own; every other kind, custom resources among them, is printed field by
field (``Last Transition Time:`` is ``lastTransitionTime``), so that its whole object can be had back.
Events tell ages, not times; conditions of pods tell no reason.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from email.utils import parsedate_to_datetime
from typing import Any

from aiops.ingest.kubernetes_tables import columns_of, row_of, seen_of

_KEY = re.compile(r"([^\s:=][^:=]{0,120}):(?:\s+(.*))?$")
_NAME = re.compile(r"Name:\s+(\S+)\s*$")
_TELLING = re.compile(
    r"^(?:Namespace|Labels|Annotations|API Version|Kind|Roles|Selector|Node|Priority|Events|Status|Spec|Provisioner):",
    re.M,
)
_WORD_TAIL = re.compile(r"^(\w+)")
_ZONE_TIME = re.compile(r"[A-Z][a-z]{2}, \d\d [A-Z][a-z]{2} \d{4} \d\d:\d\d:\d\d [+-]\d{4}")
_POD_COUNTS = re.compile(r"(?<!\d)(\d{1,9}) Active(?: \(\d{1,9} Ready\))? / (\d{1,9}) Succeeded / (\d{1,9}) Failed")
_LISTS = frozenset(
    {
        "conditions", "podSets", "podSetAssignments", "flavors", "resourceGroups", "admissionChecks", "ownerReferences",
        "containers", "initContainers", "replicatedJobs", "replicatedJobsStatus", "jobsStatus", "tasks", "workerGroupSpecs",
        "levels", "unhealthyNodes", "flavorsReservation", "flavorsUsage", "items", "devices", "requests", "results",
        "reservedFor", "schedulingConditions", "reasons", "evictions", "members", "nodes", "taints", "policies",
    }
)  # fmt: skip
"""Fields that hold a list of mappings: one with a single item looks like a mapping."""
_MAPS = frozenset({"limits", "requests", "nodeSelector", "labels", "annotations", "matchLabels", "matchAttributes"})
_OF_CLAIMS = frozenset({"requests", "results", "constraints", "config"})
"""What a claim says of its devices; those of a ResourceSlice are a list."""
_FAILED_BY = (
    "BackoffLimitExceeded",
    "DeadlineExceeded",
    "FailedIndexes",
    "PodFailurePolicy",
    "MaxFailedIndexesExceeded",
)
_MAX_DEPTH = 24


@dataclass(slots=True)
class _Entry:
    """One line with what stands below it."""

    key: str
    """``""`` for a line that is a bare value."""
    value: str
    line: int
    below: list[_Entry] = field(default_factory=list)
    texts: list[tuple[int, str]] = field(default_factory=list)
    """Lines below, as written, for tables."""

    def get(self, *path: str) -> str:
        entry: _Entry | None = self
        for key in path:
            entry = entry.find(key) if entry is not None else None
        return "" if entry is None or entry.value in ("<none>", "<unset>") else entry.value

    def find(self, key: str) -> _Entry | None:
        return next((entry for entry in self.below if entry.key == key), None)


def is_described(head: str) -> bool:
    """True if the text begins with the description of an object."""
    return _NAME.match(head.split("\n", 1)[0]) is not None and len(set(_TELLING.findall(head[:20_000]))) >= 2


def starts_description(line: str) -> bool:
    return _NAME.match(line) is not None


def described_objects(lines: list[tuple[int, str]]) -> Iterator[tuple[dict[str, Any], int]]:
    """(object, line) of one description, and of the events that it lists; ``lines`` are (number, text)."""
    top = _tree(lines)
    name = top.get("Name")
    kind, body = _shape(top)
    namespace = top.get("Namespace")
    if kind:
        yield body, top.line
    events = top.find("Events")
    if events is not None:
        about = {"kind": kind, "name": name} | ({"namespace": namespace} if namespace and kind != "Node" else {})
        for row, line in _rows(events):
            if row.get("Type") and row.get("Reason"):
                yield _event(row, about, namespace), line


# reading -----------------------------------------------------------------------------------------------------------


def _tree(lines: list[tuple[int, str]]) -> _Entry:
    top = _Entry("", "", lines[0][0] if lines else 0)
    stack: list[tuple[int, _Entry]] = [(-1, top)]
    for number, line in lines:
        text = line.strip()
        if not text:
            continue
        indent = len(line) - len(line.lstrip())
        while len(stack) > 1 and stack[-1][0] >= indent:
            stack.pop()
        found = _KEY.match(text)
        entry = _Entry(found[1], (found[2] or "").strip(), number) if found else _Entry("", text, number)
        for _, above in stack[1:]:
            above.texts.append((number, line))
        if len(stack) <= _MAX_DEPTH:
            stack[-1][1].below.append(entry)
            stack.append((indent, entry))
    return top


def _rows(entry: _Entry) -> Iterator[tuple[dict[str, str], int]]:
    """Rows of the table below an entry: a header, perhaps a ruler, then cells that stand below the header's."""
    if len(entry.texts) < 2:
        return
    columns = columns_of(entry.texts[0][1])
    for number, line in entry.texts[1:]:
        if line.strip("- \t") or "--" not in line:  # not the ruler
            yield row_of(line, columns), number


def _pairs(entry: _Entry | None, separator: str) -> dict[str, str]:
    """``a=b`` or ``a: b`` of the entry's own line and of those below it."""
    if entry is None:
        return {}
    texts = [entry.value, *(text.strip() for _, text in entry.texts)]
    found = (text.partition(separator) for text in texts if text and text not in ("<none>", "<unset>"))
    return {key.strip(): value.strip() for key, mark, value in found if mark}


def _time(text: str) -> str | None:
    """RFC 3339 of the two ways in which times are printed."""
    if _ZONE_TIME.fullmatch(text):
        try:
            return parsedate_to_datetime(text).isoformat()
        except ValueError:
            return None
    return text or None


def _event(row: dict[str, str], about: dict[str, str], namespace: str) -> dict[str, Any]:
    age, count = seen_of(row.get("Age", ""))
    component, _, host = row.get("From", "").partition(", ")
    return {
        "kind": "Event",
        "metadata": {"namespace": namespace} if namespace else {},
        "involvedObject": about,
        "type": row["Type"],
        "reason": row["Reason"],
        "message": row.get("Message", ""),
        "source": {"component": component} | ({"host": host} if host else {}),
        "count": count,
    } | ({"ageSeconds": age} if age is not None else {})


# shaping -----------------------------------------------------------------------------------------------------------


def _shape(top: _Entry) -> tuple[str, dict[str, Any]]:
    """(kind, object); kind ``""`` if it cannot be told."""
    if (kind := top.get("Kind")) and top.find("API Version"):
        return kind, _custom(top, kind)
    if top.find("Node") and top.find("Status") and (top.find("Containers") or top.find("Service Account")):
        return "Pod", {"kind": "Pod", "metadata": _metadata(top), **_pod(top)}
    if top.find("Taints") and (top.find("Capacity") or top.find("Conditions")):
        return "Node", {"kind": "Node", "metadata": _metadata(top), **_node(top)}
    if top.find("Parallelism") and top.find("Pods Statuses"):
        return "Job", {"apiVersion": "batch/v1", "kind": "Job", "metadata": _metadata(top), **_job(top)}
    for kind, marks in (
        ("PersistentVolumeClaim", ("StorageClass", "Access Modes")),
        ("DaemonSet", ("Desired Number of Nodes Scheduled",)),
        ("StatefulSet", ("Replicas", "Update Strategy")),
        ("Deployment", ("Replicas", "StrategyType")),
        ("ReplicaSet", ("Replicas", "Pods Status")),
    ):
        if all(top.find(mark) for mark in marks):
            return kind, {"kind": kind, "metadata": _metadata(top)}
    return "", {}


def _metadata(top: _Entry) -> dict[str, Any]:
    meta: dict[str, Any] = {"name": top.get("Name")}
    if top.get("Namespace"):
        meta["namespace"] = top.get("Namespace")
    meta["labels"] = _pairs(top.find("Labels"), "=")
    meta["annotations"] = _pairs(top.find("Annotations"), ": ")
    if created := _time(top.get("CreationTimestamp")):
        meta["creationTimestamp"] = created
    owner, slash, name = top.get("Controlled By").partition("/")
    if slash:
        meta["ownerReferences"] = [{"kind": owner, "name": name, "controller": True}]
    return meta


def _pod(top: _Entry) -> dict[str, Any]:
    node = top.get("Node").partition("/")[0]
    phase = top.get("Status")
    status: dict[str, Any] = {"phase": (_WORD_TAIL.match(phase) or [phase])[0]}
    if status["phase"] == "Terminating":
        status["phase"] = "Running"
    for name in ("Reason", "Message"):
        if top.get(name):
            status[name.lower()] = top.get(name)
    status["conditions"] = [
        {"type": words[0], "status": words[1]}
        for entry in (top.find("Conditions").below if top.find("Conditions") else ())  # type: ignore[union-attr]
        if len(words := entry.value.split()) == 2 and words[1] in ("True", "False", "Unknown")
    ]
    _refused_placement(top, status, node)
    spec: dict[str, Any] = {"nodeName": node} if node and node != "<none>" else {}
    for label, key in (("Init Containers", "initContainers"), ("Containers", "containers")):
        section = top.find(label)
        if section is not None:
            spec[key] = [_container(entry) for entry in section.below if entry.key]
            status[key[:-1] + "Statuses"] = [_container_status(entry) for entry in section.below if entry.key]
    selector = top.find("Node-Selectors")
    if pairs := _pairs(selector, "="):
        spec["nodeSelector"] = pairs
    meta: dict[str, Any] = {"spec": spec, "status": status}
    if top.get("IP"):
        status["podIP"] = top.get("IP")
    return meta


def _refused_placement(top: _Entry, status: dict[str, Any], node: str) -> None:
    """A description tells why a pod has no node only in its events."""
    events = top.find("Events")
    if node not in ("", "<none>") or events is None:
        return
    refused = [row for row, _ in _rows(events) if row.get("Reason") == "FailedScheduling"]
    for condition in status["conditions"]:
        if refused and condition["type"] == "PodScheduled":
            condition.update(reason="Unschedulable", message=refused[-1].get("Message", ""))


def _container(entry: _Entry) -> dict[str, Any]:
    body: dict[str, Any] = {"name": entry.key, "image": entry.get("Image")}
    for label, key in (("Command", "command"), ("Args", "args")):
        if (section := entry.find(label)) is not None:
            body[key] = [text.strip() for _, text in section.texts]
    resources = {
        key: {item.key: item.value for item in section.below}
        for label, key in (("Limits", "limits"), ("Requests", "requests"))
        if (section := entry.find(label)) is not None
    }
    if resources:
        body["resources"] = resources
    variables = entry.find("Environment")
    if variables is not None and variables.below:
        body["env"] = [{"name": item.key, "value": item.value} for item in variables.below if item.key]
    return body


def _container_status(entry: _Entry) -> dict[str, Any]:
    status: dict[str, Any] = {
        "name": entry.key,
        "image": entry.get("Image"),
        "ready": entry.get("Ready") == "True",
        "restartCount": int(entry.get("Restart Count")[:9]) if entry.get("Restart Count").isdecimal() else 0,
    }
    for label, key in (("State", "state"), ("Last State", "lastState")):
        if (state := entry.find(label)) is not None:
            status[key] = _state(state)
    return status


def _state(entry: _Entry) -> dict[str, Any]:
    told = {"reason": entry.get("Reason")} | ({"message": entry.get("Message")} if entry.get("Message") else {})
    if entry.value == "Waiting":
        return {"waiting": told}
    if entry.value == "Running":
        return {"running": {"startedAt": _time(entry.get("Started"))}}
    if entry.value == "Terminated":
        return {
            "terminated": told
            | {
                "exitCode": entry.get("Exit Code"),
                "startedAt": _time(entry.get("Started")),
                "finishedAt": _time(entry.get("Finished")),
            }
            | ({"signal": entry.get("Signal")} if entry.get("Signal") else {})
        }
    return {}


def _node(top: _Entry) -> dict[str, Any]:
    spec: dict[str, Any] = {"unschedulable": True} if top.get("Unschedulable") == "true" else {}
    taints = top.find("Taints")
    texts = [taints.value, *(text.strip() for _, text in taints.texts)] if taints is not None else []
    spec["taints"] = [
        {"key": key.partition("=")[0], "value": key.partition("=")[2], "effect": effect}
        for key, mark, effect in (text.rpartition(":") for text in texts)
        if mark
    ]
    status: dict[str, Any] = {}
    for label in ("Capacity", "Allocatable"):
        if (section := top.find(label)) is not None:
            status[label.lower()] = {item.key: item.value for item in section.below}
    conditions = top.find("Conditions")
    status["conditions"] = [
        {
            "type": row.get("Type", ""),
            "status": row.get("Status", ""),
            "reason": row.get("Reason", ""),
            "message": row.get("Message", ""),
            "lastHeartbeatTime": _time(row.get("LastHeartbeatTime", "")),
            "lastTransitionTime": _time(row.get("LastTransitionTime", "")),
        }
        for row, _ in (_rows(conditions) if conditions is not None else ())
    ]
    return {"spec": spec, "status": status}


def _job(top: _Entry) -> dict[str, Any]:
    spec: dict[str, Any] = {"parallelism": top.get("Parallelism"), "completions": top.get("Completions")}
    template = top.find("Pod Template")
    containers = template.find("Containers") if template is not None else None
    if containers is not None:
        spec["template"] = {"spec": {"containers": [_container(entry) for entry in containers.below if entry.key]}}
    counts = _POD_COUNTS.search(top.get("Pods Statuses"))
    active, succeeded, failed = (int(text[:9]) for text in counts.groups()) if counts else (0, 0, 0)
    status: dict[str, Any] = {"active": active, "succeeded": succeeded, "failed": failed}
    if start := _time(top.get("Start Time")):
        status["startTime"] = start
    known: list[dict[str, Any]] = []
    if done := _time(top.get("Completed At")):
        status["completionTime"] = done
        known.append({"type": "Complete", "status": "True", "lastTransitionTime": done})
    if top.get("Suspend") == "true":
        spec["suspend"] = True
        known.append({"type": "Suspended", "status": "True"})
    events = top.find("Events")
    for row, _ in _rows(events) if events is not None else ():
        if row.get("Reason") in _FAILED_BY:
            known.append(
                {"type": "Failed", "status": "True", "reason": row["Reason"], "message": row.get("Message", "")}
            )
    return {"spec": spec, "status": status | {"conditions": known}}


# objects printed field by field -----------------------------------------------------------------------------------


def _custom(top: _Entry, kind: str) -> dict[str, Any]:
    body: dict[str, Any] = {"apiVersion": top.get("API Version"), "kind": kind}
    for entry in top.below:
        if (
            entry.key not in ("Name", "Namespace", "Labels", "Annotations", "API Version", "Kind", "Events")
            and entry.key
        ):
            body[_field(entry.key)] = _value(entry)
    told = body.get("metadata")
    body["metadata"] = {**(told if isinstance(told, dict) else {}), **_metadata(top)}
    return body


def _field(label: str) -> str:
    """``Last Transition Time`` → ``lastTransitionTime``; names with other characters are printed as they are."""
    words = label.split(" ")
    if not all(word.replace("-", "").isalpha() for word in words):
        return label
    first = words[0].lower() if words[0].isupper() else words[0][:1].lower() + words[0][1:]
    return first + "".join(words[1:])


def _value(entry: _Entry) -> Any:
    if not entry.below:
        return {"<nil>": None, "true": True, "false": False}.get(entry.value, entry.value)
    keyed = [item for item in entry.below if item.key]
    if not keyed:
        return [item.value for item in entry.below]
    name = _field(entry.key)
    items: list[dict[str, Any]] = [{}]
    last = ""
    for item in keyed:
        key = _field(item.key)
        # fields are sorted, so that one that is not greater than the last begins the next item of a list
        if last and key <= last:
            items.append({})
        items[-1][key] = _value(item)
        last = key
    if len(items) == 1 and name in _LISTS and _is_map(name, items[0]):
        return items[0]
    if len(items) > 1 or name in _LISTS or (name == "resources" and "name" in items[0]):
        return items
    return items[0]


def _is_map(name: str, item: dict[str, Any]) -> bool:
    """True if a field that holds a list elsewhere is a mapping here."""
    if name == "devices":
        return not item.keys().isdisjoint(_OF_CLAIMS)
    return name in _MAPS and all(isinstance(value, str) for value in item.values())
