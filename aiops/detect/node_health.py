"""Signs of nodes that need a rate, a neighbour or a second look: corrected errors, lost device access, false alarms."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass

from aiops.catalog.model import Catalog
from aiops.detect.evidence import evidence_rows, in_time, inexact, known, quotes, span
from aiops.ingest.slurm import NODE_SIGNAL
from aiops.model.case import Case
from aiops.model.event import NO_TIME, Event, Severity
from aiops.model.finding import EvidenceRef, Finding, Role

_WINDOW_S = 600.0
CE_RATE = 50
"""Corrected memory errors of a node within ten minutes that cost CPU time and announce worse."""
AER_RATE = 100
_RELOAD_S = 900.0
_PROGRAM = frozenset({8, 11, 13, 31, 32, 39, 43, 45, 68, 69})
_HARD = ("gpu_fatal", "node_fatal")
_XID = re.compile(r"\bxids?\b[^0-9\n]{0,24}(\d{1,3})\b|\bxid(\d{1,3})\b", re.I)


def corrected_storms(case: Case) -> list[Finding]:
    """``kernel.ce_storm`` and ``pcie.corrected_flood`` for nodes whose corrected errors come in masses; few of them are none."""
    return [
        *_storms(case, "kernel.ce", "kernel.ce_storm", CE_RATE, "corrected memory errors"),
        *_storms(case, "pcie.aer_corrected", "pcie.corrected_flood", AER_RATE, "corrected PCIe errors"),
    ]


def _storms(case: Case, single: str, storm: str, rate: int, what: str) -> Iterator[Finding]:
    by_node: dict[str | None, list[Event]] = {}
    for event in evidence_rows(case, single, storm):
        by_node.setdefault(event.node, []).append(event)
    for node, events in sorted(by_node.items(), key=lambda item: item[0] or ""):
        total = sum(_errors(event) for event in events)
        declared = [event for event in events if event.signal == storm]
        if not declared and _most_within(events) < rate:
            continue
        first, last = span(events)
        yield Finding(
            sign=storm,
            text=f"{total} {what}{f' on {node}' if node else ''}"
            + (", and the kernel calls it a storm" if declared else ""),
            role=Role.ROOT,
            severity=Severity.WARNING,
            first=first,
            last=last,
            node=node,
            nodes=(node,) if node else (),
            count=total,
            fields={"errors": total},
            inexact=inexact(events),
            evidence=quotes(case, declared or events),
        )


def _errors(event: Event) -> int:
    told = str(event.fields.get("errors", ""))
    return (int(told) if told.isdigit() else 1) * event.count


def _most_within(events: list[Event]) -> int:
    """Most errors within `_WINDOW_S`; without times all of them, as the window is unknown."""
    timed = sorted((event.ts, _errors(event)) for event in events if known(event))
    if len(timed) < len(events) // 2 or not timed:
        return sum(_errors(event) for event in events)
    most = begin = running = 0
    for at, errors in timed:
        running += errors
        while at - timed[begin][0] > _WINDOW_S * 1e9:
            running -= timed[begin][1]
            begin += 1
        most = max(most, running)
    return most


def lost_device_access(case: Case) -> list[Finding]:
    """``host.device_cgroup``: NVML or CUDA find no device in a container although the driver reports no fault.

    Field ``reload`` is true if systemd reloaded its units up to a quarter of an hour before, which rewrites device rules
    that the container runtime has set behind systemd's back (NVIDIA container toolkit, issue 48).
    """
    lost = evidence_rows(case, "host.device_cgroup", "cuda.no_device")
    if not lost or evidence_rows(case, "gpu.xid", "gpu.lost_message"):
        return []
    pairs = _reloads(case, lost)
    shown = [event for event in lost if event.signal == "host.device_cgroup"]
    if not shown and not pairs:
        return []
    shown = shown or [event for event in lost if event.index in {after.index for _, after in pairs}]
    events = sorted([*shown, *(reload for reload, _ in pairs[:1])], key=in_time)
    first, last = span(shown)
    nodes = tuple(dict.fromkeys(event.node for event in events if event.node))
    ranks = tuple(sorted({event.rank for event in shown if event.rank is not None}))
    return [
        Finding(
            sign="host.device_cgroup",
            text="A running container lost access to its GPUs" + (" after systemd reloaded its units" if pairs else ""),
            role=Role.ROOT,
            severity=Severity.ERROR,
            first=first,
            last=last,
            node=nodes[0] if len(nodes) == 1 else None,
            nodes=nodes,
            ranks=ranks,
            count=sum(event.count for event in shown),
            fields={"reload": bool(pairs)},
            inexact=inexact(shown),
            evidence=quotes(case, events),
        )
    ]


def _reloads(case: Case, lost: list[Event]) -> list[tuple[Event, Event]]:
    """Pairs of a reload and the loss that follows it; without times a reload of the same node or log counts."""
    pairs = []
    for reload in evidence_rows(case, "host.daemon_reload"):
        for event in lost:
            if event.node and reload.node and event.node != reload.node:
                continue
            if known(reload) and known(event):
                if not 0 <= event.ts - reload.ts <= _RELOAD_S * 1e9:
                    continue
            elif reload.source == event.source and reload.line > event.line:
                continue
            pairs.append((reload, event))
    return pairs


@dataclass(frozen=True, slots=True)
class _Complaint:
    node: str
    xid: int
    said: str
    ts: int
    quote: EvidenceRef


def false_alarms(case: Case, catalog: Catalog) -> list[Finding]:
    """``host.health_drain``: a node was taken out over an Xid that no node has to be taken out for, or over an old one.

    Field ``false_alarm`` is true if the code is one that programs cause and the node shows no harder one, or if all its
    lines are from before a later boot.
    """
    findings = []
    shown = _codes(case)
    for complaint in _complaints(case):
        codes = shown.get(complaint.node, {})
        hard = {code for code in codes if (entry := catalog.xids.get(code)) is not None and entry.severity in _HARD}
        stale = _before_boot(case, complaint, codes.get(complaint.xid, []))
        if not (stale or (complaint.xid in _PROGRAM and not hard)):
            continue
        findings.append(
            Finding(
                sign="host.health_drain",
                text=f"{complaint.node} was taken out over Xid {complaint.xid}, "
                + ("which is from before its last boot" if stale else "which a program causes on a sound GPU"),
                role=Role.ROOT,
                severity=Severity.WARNING,
                first=complaint.ts,
                last=complaint.ts,
                node=complaint.node,
                nodes=(complaint.node,),
                fields={"false_alarm": True, "xid": complaint.xid},
                evidence=[complaint.quote],
            )
        )
    return findings


def _codes(case: Case) -> dict[str, dict[int, list[Event]]]:
    found: dict[str, dict[int, list[Event]]] = {}
    for event in evidence_rows(case, "gpu.xid"):
        found.setdefault(event.node or "", {}).setdefault(int(event.fields["xid"]), []).append(event)
    return found


def _complaints(case: Case) -> Iterator[_Complaint]:
    """Drains, taints and conditions that name an Xid, one for each node."""
    seen: set[str] = set()
    events = evidence_rows(case, "host.health_drain")
    events += [event for event in (case.events[row] for row in case.events.by_signal().get(NODE_SIGNAL, ()))]
    for event in events:
        said = str(event.fields.get("reason") or event.text)
        xid = _named(said)
        if xid is not None and event.node and event.node not in seen:
            seen.add(event.node)
            yield _Complaint(event.node, xid, said, event.ts if known(event) else NO_TIME, quotes(case, [event])[0])
    for item in case.objects:
        if item.kind != "Node" or item.name in seen:
            continue
        said = _node_complaint(item.body)
        xid = _named(said)
        if xid is not None:
            seen.add(item.name)
            quote = EvidenceRef(case.sources[item.source].name, item.line, 0, said[:300])
            yield _Complaint(item.name, xid, said, NO_TIME, quote)


def _node_complaint(body: object) -> str:
    """Taints and bad conditions of a Node object that speak of an Xid, as text."""
    if not isinstance(body, dict):
        return ""
    spec, status = body.get("spec"), body.get("status")
    taints = spec.get("taints") if isinstance(spec, dict) else None
    conditions = status.get("conditions") if isinstance(status, dict) else None
    said = [taint for taint in taints or () if isinstance(taint, dict)]
    said += [
        c for c in conditions or () if isinstance(c, dict) and c.get("type") != "Ready" and c.get("status") == "True"
    ]
    return "; ".join(text for one in said if _named(text := json.dumps(one, default=str, sort_keys=True)) is not None)


def _named(text: str) -> int | None:
    match = _XID.search(text)
    return int(match[1] or match[2]) if match else None


def _before_boot(case: Case, complaint: _Complaint, lines: list[Event]) -> bool:
    """True if all lines of the code on that node stand before a later boot of it."""
    if not lines:
        return False
    boots = [event for event in evidence_rows(case, "kernel.boot") if event.node == complaint.node]
    return bool(boots) and all(
        any(boot.source == line.source and boot.line > line.line for boot in boots) for line in lines
    )
