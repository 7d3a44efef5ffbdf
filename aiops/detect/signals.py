"""The general detector: lines of one signal about one entity become one finding."""

from __future__ import annotations

import re
from typing import Any

from aiops.catalog.model import Catalog, Signal
from aiops.detect.evidence import in_time, inexact, job_of, quotes, span
from aiops.model.case import Case
from aiops.model.event import Event
from aiops.model.finding import Finding

_PLACEHOLDER = re.compile(r"\{(\w+)\}")
_OPTIONAL = re.compile(r"\[([^\[\]]*)\]")


def detect(case: Case, catalog: Catalog) -> list[Finding]:
    """One finding for each signal and entity; signals with a detector of their own are left to it."""
    findings = []
    rows = case.events.by_signal()
    for signal in catalog.signals:
        if signal.detector != "signals" or signal.id not in rows:
            continue
        groups: dict[tuple[Any, ...], list[Event]] = {}
        for row in rows[signal.id]:
            event = case.events[row]
            if not event.quoted:
                groups.setdefault(_entity(signal, event), []).append(event)
        findings += [finding_of(case, signal, sorted(events, key=in_time)) for events in groups.values()]
    return findings


def _entity(signal: Signal, event: Event) -> tuple[Any, ...]:
    place = event.node if signal.about in ("node", "gpu", "nic", "storage") else None
    # A controller's log speaks of everybody's jobs.
    return (place, job_of(event), *(str(event.fields.get(name)) for name in signal.split))


def finding_of(case: Case, signal: Signal, events: list[Event]) -> Finding:
    """A finding from the events of one signal, earliest first."""
    ranks = tuple(sorted({event.rank for event in events if event.rank is not None}))
    nodes = tuple(dict.fromkeys(event.node for event in events if event.node))
    first, last = span(events)
    head = next((event for event in events if event.rank is not None), events[0])
    fields = {key: value for event in reversed(events) for key, value in event.fields.items()}
    fields.update(head.fields)
    place = case.topology.ranks.get(head.rank) if head.rank is not None and signal.about == "rank" else None
    count = sum(event.count for event in events)
    text = describe(signal.title, fields)
    if count > 1:
        text += f" ({count} lines{f', {len(ranks)} ranks' if len(ranks) > 1 else ''})"
    node = head.node or (place.node if place else _only_node(case, ranks) if signal.about == "node" else None)
    gpu = int(fields["gpu"]) if str(fields.get("gpu", "")).isdigit() and signal.about == "rank" else None
    return Finding(
        sign=signal.id,
        text=text,
        role=signal.role,
        severity=signal.severity,
        first=first,
        last=last,
        node=node,
        rank=head.rank if signal.about == "rank" or len(ranks) == 1 else None,
        ranks=ranks,
        nodes=nodes,
        gpu=gpu if gpu is not None else (place.gpu if place and signal.about == "rank" else None),
        pci=place.pci if place else None,
        uuid=place.uuid if place else None,
        job=_job(events),
        name=fields.get("nic") or fields.get("path") or fields.get("mount"),
        count=count,
        fields=fields,
        inexact=inexact(events),
        evidence=quotes(case, events),
    )


def _only_node(case: Case, ranks: tuple[int, ...]) -> str | None:
    """The node that all these ranks run on: a line about a node, such as one on its full disk, may name its rank alone."""
    nodes = {place.node if (place := case.topology.ranks.get(rank)) else None for rank in ranks}
    return nodes.pop() if len(nodes) == 1 else None


def _job(events: list[Event]) -> str | None:
    jobs = {job for event in events if (job := job_of(event)) is not None}
    return jobs.pop() if len(jobs) == 1 else None


def describe(title: str, fields: dict[str, Any]) -> str:
    """Fill a signal's title. A part in square brackets falls away if a field in it is unknown; elsewhere ``?`` stands for it."""

    def part(match: re.Match[str]) -> str:
        return match[1] if all(fields.get(name) for name in _PLACEHOLDER.findall(match[1])) else ""

    return _PLACEHOLDER.sub(lambda match: str(fields.get(match[1]) or "?"), _OPTIONAL.sub(part, title))
