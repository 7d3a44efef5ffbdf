"""Events of both APIs (core/v1 and events.k8s.io/v1) in one form, and as rows of the case's event table."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from aiops.ingest.kubernetes_fields import integer, mapping, quantity, rfc3339_ns, text
from aiops.model.case import Case
from aiops.model.event import NO_TIME, Severity, TimeQuality

SIGNAL = "k8s.event"

_ASSIGNED = "Successfully assigned "
_TEXT_LIMIT = 1_000


@dataclass(frozen=True, slots=True)
class KubernetesEvent:
    """One Event object. ``first`` and ``last`` are UTC nanoseconds or `NO_TIME`."""

    reason: str
    type: str
    kind: str
    """Kind of the object that it is about."""
    name: str
    namespace: str
    message: str
    component: str
    node: str | None
    """The node, where the event itself tells it."""
    first: int
    last: int
    count: int
    age: float | None = None
    """Seconds before an unknown "now", where a table gives no time."""

    @property
    def line(self) -> str:
        """The event as one line of text."""
        where = f"{self.namespace}/{self.name}" if self.namespace else self.name
        line = f"{self.type or 'Normal'} {self.reason} {self.kind} {where}: {' '.join(self.message.split())}"
        return line if len(line) <= _TEXT_LIMIT else line[: _TEXT_LIMIT - 1] + "…"


def is_event(body: Mapping[str, Any]) -> bool:
    """True for Event objects of either API, also for exports that drop ``kind``."""
    if body.get("kind") not in (None, "Event"):
        return False
    return "reason" in body and isinstance(body.get("involvedObject") or body.get("regarding"), Mapping)


def event_of(body: Mapping[str, Any]) -> KubernetesEvent:
    """Read an Event object; the time is the last one at which it was seen."""
    about = mapping(body, "involvedObject") or mapping(body, "regarding")
    meta = mapping(body, "metadata")
    source = mapping(body, "source") or mapping(body, "deprecatedSource")
    series = mapping(body, "series")
    message = text(body, "message") or text(body, "note")
    component = text(source, "component") or text(body, "reportingComponent") or text(body, "reportingController")
    created = rfc3339_ns(meta.get("creationTimestamp"))
    last = _first_time(
        series.get("lastObservedTime"),
        body.get("lastTimestamp"),
        body.get("deprecatedLastTimestamp"),
        body.get("eventTime"),
    )
    first = _first_time(body.get("firstTimestamp"), body.get("deprecatedFirstTimestamp"), body.get("eventTime"))
    if last == NO_TIME:
        last = created
    if first == NO_TIME:
        first = created if created != NO_TIME else last
    count = integer(series, "count") or integer(body, "count") or integer(body, "deprecatedCount") or 1
    kind = text(about, "kind")
    return KubernetesEvent(
        reason=text(body, "reason"),
        type=text(body, "type"),
        kind=kind,
        name=text(about, "name"),
        namespace=text(about, "namespace") or (text(meta, "namespace") if kind != "Node" else ""),
        message=message,
        component=component,
        node=_node(body, kind, about, source, component, message),
        first=first,
        last=last,
        count=max(1, count),
        age=quantity(body.get("ageSeconds")),
    )


def _first_time(*values: object) -> int:
    for value in values:
        if (ts := rfc3339_ns(value)) != NO_TIME:
            return ts
    return NO_TIME


def _node(
    body: Mapping[str, Any],
    kind: str,
    about: Mapping[str, Any],
    source: Mapping[str, Any],
    component: str,
    message: str,
) -> str | None:
    if kind == "Node":
        return text(about, "name") or None
    if kind != "Pod":
        return None
    if host := text(source, "host"):
        return host
    if component == "kubelet":
        return text(body, "reportingInstance") or None
    # The binding is told in no other field.
    if text(body, "reason") == "Scheduled" and message.startswith(_ASSIGNED):
        return message.rpartition(" to ")[2].strip() or None
    return None


def append_event(case: Case, source: int, body: Mapping[str, Any], line: int) -> str | None:
    """Add the Event as a row with signal ``k8s.event``; returns the node that it names."""
    event = event_of(body)
    timed = event.last != NO_TIME
    fields = {
        "reason": event.reason,
        "kind": event.kind,
        "name": event.name,
        "namespace": event.namespace,
        "message": event.message,
        "component": event.component,
        "type": event.type,
        "first": event.first if event.first != NO_TIME else None,
    }
    case.events.append(
        SIGNAL,
        source=source,
        ts=event.last,
        quality=TimeQuality.EXACT if timed else TimeQuality.NONE,
        severity=Severity.WARNING if event.type == "Warning" else Severity.INFO,
        line=line,
        node=event.node,
        count=event.count,
        fields=fields,
        text=event.line,
    )
    return event.node
