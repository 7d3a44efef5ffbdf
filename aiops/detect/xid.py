"""NVIDIA Xid and NVSwitch SXid lines: what each GPU reported first, and what only followed."""

from __future__ import annotations

import re

from aiops.catalog.model import Catalog
from aiops.detect.evidence import evidence_rows, in_time, known, quotes, span
from aiops.model.case import Case
from aiops.model.entity import canonical_pci
from aiops.model.event import Event, Severity
from aiops.model.finding import Finding, Role

_CAUSED_BY = re.compile(r"caused by previous Xid (\d+)")
_ACTION = re.compile(r"\(([^()]+)\)\s*$")
_FATALITY = re.compile(r"\b(Fatal|Nonfatal|Non-fatal)\b")
_PID = re.compile(r"pid='?(\d+)")
ECHOES = frozenset({43, 45})
"""43: the channel was stopped because of an application fault; 45: clean-up after another error. Never a root."""
_NVLINK5 = range(144, 151)
_SEVERITY = {
    "gpu_fatal": Severity.FATAL,
    "node_fatal": Severity.FATAL,
    "app_fatal": Severity.ERROR,
    "legacy_fatal": Severity.WARNING,
    "warning": Severity.WARNING,
    "info": Severity.INFO,
    "unused": Severity.INFO,
    "depends_on_subcode": Severity.ERROR,
    "depends_on_message": Severity.WARNING,
}


def detect(case: Case, catalog: Catalog) -> list[Finding]:
    """``gpu.xid`` for each GPU and code (fields ``xid``, ``name``, ``recovery``, ``fatal``), ``nvswitch.sxid`` likewise."""
    return [*_xids(case, catalog), *_sxids(case, catalog)]


def _xids(case: Case, catalog: Catalog) -> list[Finding]:
    groups: dict[tuple[str, str, int], list[Event]] = {}
    for event in evidence_rows(case, "gpu.xid"):
        pci = canonical_pci(str(event.fields["pci"])) or str(event.fields["pci"])
        groups.setdefault((event.node or "", pci, int(event.fields["xid"])), []).append(event)
    recovery = {(node, pci): _recovery(events) for (node, pci, code), events in groups.items() if code == 154}
    findings = []
    for (node, pci, code), events in groups.items():
        findings.append(
            _xid(case, catalog, node or None, pci, code, sorted(events, key=in_time), recovery.get((node, pci)), groups)
        )
    return findings


def _xid(
    case: Case,
    catalog: Catalog,
    node: str | None,
    pci: str,
    code: int,
    events: list[Event],
    recovery: str | None,
    groups: dict[tuple[str, str, int], list[Event]],
) -> Finding:
    entry = catalog.xids.get(code)
    name = entry.name.replace("ROBUST_CHANNEL_", "").replace("_", " ").lower() if entry else "unknown code"
    severity = _SEVERITY.get(entry.severity if entry else "", Severity.WARNING)
    role = Role.ROOT if severity >= Severity.WARNING else Role.CONTEXT
    text = events[0].text
    word = _FATALITY.search(text)
    fatal = severity == Severity.FATAL
    if code in _NVLINK5 and word:
        fatal = word[1] == "Fatal"
        severity = Severity.FATAL if fatal else Severity.INFO
        role = Role.ROOT if fatal else Role.CONTEXT
    caused_by = _CAUSED_BY.search(text)
    if code in ECHOES or caused_by:
        role, severity = Role.ECHO, Severity.WARNING
    if code == 154:
        role, severity = Role.CONTEXT, Severity.WARNING
    gpu = case.topology.gpu_index(node, pci)
    rank = _rank(case, node, pci, events)
    first, last = span(events)
    siblings = sorted({c for (n, p, c) in groups if (n, p) == ((node or ""), pci) and c != code})
    same_code = sorted({p for (n, p, c) in groups if c == code})
    where = f"GPU {gpu} ({pci})" if gpu is not None else f"GPU {pci}"
    count = sum(event.count for event in events)
    return Finding(
        sign="gpu.xid",
        text=f"Xid {code} ({name}) on {where}{f' of {node}' if node else ''}"
        + (f", {count} times" if count > 1 else ""),
        role=role,
        severity=severity,
        first=first,
        last=last,
        node=node,
        gpu=gpu,
        pci=pci,
        uuid=case.topology.gpu_uuid.get((node or "", pci)),
        rank=rank,
        ranks=() if rank is None else (rank,),
        count=count,
        nodes=(node,) if node else (),
        fields={
            "xid": code,
            "name": name,
            "recovery": recovery or "",
            "fatal": fatal,
            "others": siblings,
            "gpus_with_code": len(same_code),
            "caused_by": caused_by[1] if caused_by else "",
            "contained": "Contained" in text and "Uncontained" not in text,
        },
        evidence=quotes(case, events),
    )


def _recovery(events: list[Event]) -> str:
    """The action that Xid 154 asks for: its last bracket."""
    match = _ACTION.search(sorted(events, key=in_time)[-1].text)
    return match[1] if match else ""


def _rank(case: Case, node: str | None, pci: str, events: list[Event]) -> int | None:
    """The rank on that GPU: by PCI id, else by the process id in the line, else by GPU index."""
    gpu = case.topology.gpu_index(node, pci)
    pids = {int(match[1]) for event in events if (match := _PID.search(event.text))}
    by_index = None
    for place in case.topology.ranks.values():
        if place.node != node or node is None:
            continue
        if place.pci == pci or (place.pid in pids and place.pid is not None):
            return place.rank
        if gpu is not None and place.gpu == gpu and place.pci is None:
            by_index = place.rank
    return by_index


def _sxids(case: Case, catalog: Catalog) -> list[Finding]:
    groups: dict[tuple[str, str, int, str], list[Event]] = {}
    for event in evidence_rows(case, "nvswitch.sxid"):
        pci = canonical_pci(str(event.fields["pci"])) or str(event.fields["pci"])
        groups.setdefault((event.node or "", pci, int(event.fields["sxid"]), str(event.fields["fatality"])), []).append(
            event
        )
    findings = []
    for (node, pci, code, fatality), events in groups.items():
        entry = catalog.sxids.get(code)
        fatal = fatality == "Fatal"
        first, last = span(events)
        findings.append(
            Finding(
                sign="nvswitch.sxid",
                text=f"SXid {code} ({entry.name if entry else 'unknown code'}, {fatality}) on NVSwitch {pci}"
                + (f" of {node}" if node else ""),
                role=Role.ROOT if fatal else Role.CONTEXT,
                severity=Severity.FATAL if fatal else Severity.INFO,
                first=first,
                last=last,
                node=node or None,
                pci=pci,
                nodes=(node,) if node else (),
                count=sum(event.count for event in events),
                fields={"sxid": code, "fatal": fatal, "always_fatal": bool(entry and entry.severity == "always_fatal")},
                evidence=quotes(case, sorted(events, key=lambda e: (not known(e), e.ts, e.line))),
            )
        )
    return findings
