"""NVIDIA Xid and NVSwitch SXid lines: what each GPU reported first, and what only followed."""

from __future__ import annotations

import re
from dataclasses import dataclass

from aiops.catalog.model import Catalog
from aiops.catalog.nvlink5 import LinkError, decode
from aiops.detect.evidence import evidence_rows, in_time, inexact, known, quotes, span
from aiops.detect.sxid import sxids
from aiops.model.case import Case
from aiops.model.entity import canonical_pci
from aiops.model.event import NO_TIME, Event, Severity
from aiops.model.finding import Finding, Role

_CAUSED_BY = re.compile(r"caused by previous Xid:? (\d+)", re.I)
_ACTION = re.compile(r"\(([^()]+)\)\s*$")
_PID = re.compile(r"pid='?(\d{1,10})")
_OLD_BUS = re.compile(r"^([0-9A-Fa-f]{4}):([0-9A-Fa-f]{2})$")
ECHOES = frozenset({43, 45})
"""43: the channel was stopped because of an application fault; 45: clean-up after another error. Never a root."""
_BREAKS = frozenset({46, 48, 62, 64, 74, 79, 92, 94, 95, 109, 119, 120, 140, 143, 158, 167, 171, 172, 173})
"""Codes after which further ones of the same GPU tell nothing new."""
_AFTER = frozenset({8, 11, 13, 31, 32, 38, 39, 44, 46, 62, 69, 109, 119, 120, 122, 123, 124, 143, 158})
"""Codes that are follow-ups if one of `_BREAKS` of the same GPU is shortly before."""
_FOLLOWS_S = 600.0
_SOFTWARE = frozenset({8, 11, 13, 25, 31, 32, 39, 40, 41, 68, 69, 80, 137})
"""Codes that a program can cause on a sound GPU."""
_APART_S = 600.0
_RESET = ("reset", "reboot", "drain", "flr")
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

Gpu = tuple[str, str]
"""Node (or nothing) and PCI id (or UUID, where only that is known)."""


@dataclass(slots=True)
class _Group:
    """Lines of one code from one GPU, in time order."""

    gpu: Gpu
    code: int
    events: list[Event]

    @property
    def began(self) -> int:
        return span(self.events)[0]


def detect(case: Case, catalog: Catalog) -> list[Finding]:
    """``gpu.xid`` for each GPU and code, ``nvswitch.sxid`` likewise.

    Fields of ``gpu.xid``: ``xid``, ``name``, ``fatal``, ``recovery`` (what Xid 154 asks for), ``others`` (further codes
    of the GPU), ``caused_by``, ``contained``, ``gpus_with_code``, ``nodes_with_code``, ``spread`` (``one``, ``several``),
    ``same_gpu`` (a code that programs can cause, of several processes at several times, on one GPU only), ``after``
    (code of the same GPU that it follows), ``old`` (from before a boot that precedes the job), ``unit``, ``link`` and
    ``table_action`` of NVLink5 lines.
    """
    uuids = _uuids(case)
    groups = _groups(case, uuids)
    findings = [_finding(case, catalog, group, groups, uuids) for group in groups]
    return [*findings, *sxids(case, catalog, _link_gpus(findings))]


def _uuids(case: Case) -> dict[Gpu, str]:
    """GPU UUIDs by node and PCI id, from the case and from the driver's own lines."""
    found = dict(case.topology.gpu_uuid)
    for event in evidence_rows(case, "gpu.identity"):
        pci = pci_of(str(event.fields["pci"]))
        if pci:
            found.setdefault((event.node or "", pci), str(event.fields["uuid"]))
    return found


def pci_of(text: str) -> str | None:
    """`canonical_pci`, and the form ``bus:device`` with a bus of four digits of drivers before 304."""
    old = _OLD_BUS.match(text)
    return canonical_pci(f"0000:{old[1][2:]}:{old[2]}") if old else canonical_pci(text)


def _groups(case: Case, uuids: dict[Gpu, str]) -> list[_Group]:
    rows: dict[tuple[Gpu, int], list[Event]] = {}
    for event in evidence_rows(case, "gpu.xid"):
        pci = pci_of(str(event.fields["pci"])) or str(event.fields["pci"])
        rows.setdefault(((event.node or "", pci), int(event.fields["xid"])), []).append(event)
    seen = {(code, uuids.get(gpu)) for gpu, code in rows}
    place = {uuid: gpu for gpu, uuid in uuids.items()}
    for event in evidence_rows(case, "gpu.xid_event"):
        uuid, code = str(event.fields["uuid"]), int(event.fields["xid"])
        if (code, uuid) not in seen:
            rows.setdefault((place.get(uuid, (event.node or "", uuid)), code), []).append(event)
    return [_Group(gpu, code, sorted(events, key=in_time)) for (gpu, code), events in rows.items()]


def _finding(case: Case, catalog: Catalog, group: _Group, groups: list[_Group], uuids: dict[Gpu, str]) -> Finding:
    (node, pci), code, events = group.gpu, group.code, group.events
    entry = catalog.xids.get(code)
    name = entry.name.replace("ROBUST_CHANNEL_", "").replace("_", " ").lower() if entry else "unknown code"
    severity = _SEVERITY.get(entry.severity if entry else "", Severity.WARNING)
    if code in _named(catalog):
        severity = max(severity, Severity.WARNING)
    role = Role.ROOT if severity >= Severity.WARNING else Role.CONTEXT
    recovery = _recovery(group.gpu, groups)
    asked = any(word in recovery.lower() for word in _RESET)
    fatal = severity == Severity.FATAL
    links = [error for event in events if (error := decode(code, event.text)) is not None]
    link = next((error for error in links if error.fatal), links[0] if links else None)
    if link is not None:
        fatal = bool(link.fatal) or asked
        severity = Severity.FATAL if fatal else Severity.INFO
        role = Role.ROOT if fatal else Role.CONTEXT
    caused_by = _CAUSED_BY.search(events[0].text)
    after = _follows(group, groups)
    if code in ECHOES or caused_by or after is not None:
        role, severity = Role.ECHO, Severity.WARNING
    if code == 154:
        role, severity = Role.CONTEXT, Severity.WARNING
    old = _before_boot(case, group)
    if old:
        role, severity, fatal = Role.CONTEXT, Severity.INFO, False
    gpu = case.topology.gpu_index(node or None, pci)
    rank = _rank(case, node or None, pci, events)
    first, last = span(events)
    same_code = {other.gpu for other in groups if other.code == code}
    known_pci = canonical_pci(pci)
    count = sum(event.count for event in events)
    where = f"GPU {gpu} ({pci})" if gpu is not None else f"GPU {pci}"
    same_gpu = code in _SOFTWARE and len(same_code) == 1 and _again(events)
    return Finding(
        sign="gpu.xid",
        text=f"Xid {code} ({_label(name, link)}) on {where}{f' of {node}' if node else ''}"
        + (f", {count} times" if count > 1 else "")
        + (f"; the driver asks for: {recovery}" if asked and code != 154 else "")
        + ("; from before a boot, so the GPU has started anew since" if old else "")
        + ("; of several processes and on this GPU only, which speaks for the GPU" if same_gpu else ""),
        role=role,
        severity=severity,
        first=first,
        last=last,
        node=node or None,
        gpu=gpu,
        pci=known_pci or (None if pci.startswith("GPU-") else pci),
        uuid=uuids.get(group.gpu) or (pci if pci.startswith("GPU-") else None),
        rank=rank,
        ranks=() if rank is None else (rank,),
        count=count,
        nodes=(node,) if node else (),
        fields={
            "xid": code,
            "name": name,
            "recovery": recovery,
            "fatal": fatal,
            "others": sorted({other.code for other in groups if other.gpu == group.gpu and other.code != code}),
            "gpus_with_code": len(same_code),
            "nodes_with_code": len({node for node, _ in same_code}),
            "spread": "several" if len(same_code) > 1 else "one",
            "same_gpu": same_gpu,
            "after": after,
            "old": old,
            "caused_by": caused_by[1] if caused_by else "",
            "contained": _contained(group, groups),
            "unit": link.unit if link else "",
            "link": link.link if link else None,
            "table_action": link.action if link else (entry.action if entry else ""),
        },
        inexact=inexact(events),
        evidence=quotes(case, events),
    )


def _label(name: str, link: LinkError | None) -> str:
    if link is None or not link.unit:
        return name
    lane = f", link {link.link}" if link.link is not None else ""
    return f"{name}: {link.unit}{lane}"


def _named(catalog: Catalog) -> set[int]:
    """Codes that some failure class names as its cause: they count even where the table calls them unused."""
    causes = catalog.causes_by_sign.get("gpu.xid", ())
    return {int(code) for failure, sign in causes if failure.hardware for code in sign.where.get("xid", ())}


def _recovery(gpu: Gpu, groups: list[_Group]) -> str:
    """The action that Xid 154 of this GPU asks for: the last bracket of its last line."""
    for group in groups:
        if group.gpu == gpu and group.code == 154:
            match = _ACTION.search(group.events[-1].text)
            return match[1] if match else ""
    return ""


def _follows(group: _Group, groups: list[_Group]) -> int | None:
    """The code of the same GPU that broke it before this one, if this one can be its consequence."""
    if group.code not in _AFTER:
        return None
    head = in_time(group.events[0])
    for other in sorted(groups, key=lambda g: in_time(g.events[0])):
        if other.gpu != group.gpu or other.code not in _BREAKS or other.code == group.code:
            continue
        if in_time(other.events[0]) >= head:
            continue
        if other.began != NO_TIME and group.began != NO_TIME and group.began - other.began > _FOLLOWS_S * 1e9:
            continue
        return other.code
    return None


def _before_boot(case: Case, group: _Group) -> bool:
    """True if the node booted after these lines and before the job began, or before someone complained about them."""
    later = [
        boot
        for boot in evidence_rows(case, "kernel.boot")
        if boot.node == (group.gpu[0] or None)
        and all(boot.source == event.source and boot.line > event.line for event in group.events)
    ]
    if not later:
        return False
    kinds = {source.index: source.kind for source in case.sources}
    begin, _ = span(event for event in case.events if kinds.get(event.source) == "training")
    booted = min(boot.ts if known(boot) else NO_TIME for boot in later)
    if begin != NO_TIME:
        return booted != NO_TIME and booted < begin
    complaints = [event for event in evidence_rows(case, "host.health_drain") if event.node == group.gpu[0]]
    return any(known(one) and booted != NO_TIME and one.ts > booted for one in complaints)


def _contained(group: _Group, groups: list[_Group]) -> bool:
    """True if the memory error stayed within its process: the line says so, or Xid 94 without 95 stands beside 48."""
    text = group.events[0].text
    if "Contained" in text and "Uncontained" not in text:
        return True
    codes = {other.code for other in groups if other.gpu == group.gpu}
    return group.code in (48, 171) and 94 in codes and not codes & {64, 95, 140}


def _again(events: list[Event]) -> bool:
    """True if several processes ran into it at times that are far apart."""
    pids = {match[1] for event in events if (match := _PID.search(event.text))}
    times = sorted(event.ts for event in events if known(event))
    apart = bool(times) and times[-1] - times[0] > _APART_S * 1e9
    return apart and len(pids) > 1


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


def _link_gpus(findings: list[Finding]) -> dict[str, int]:
    """GPUs with fatal NVLink errors per node: many at once speak for what they share."""
    hit: dict[str, set[str]] = {}
    for finding in findings:
        if finding.fields["xid"] in (74, *range(144, 151)) and finding.fields["fatal"] and finding.pci:
            hit.setdefault(finding.node or "", set()).add(finding.pci)
    return {node: len(found) for node, found in hit.items()}
