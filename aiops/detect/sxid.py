"""NVSwitch errors (SXid) from the kernel log and from the fabric manager's log, each counted once."""

from __future__ import annotations

from aiops.catalog.model import Catalog
from aiops.detect.evidence import evidence_rows, in_time, inexact, quotes, span
from aiops.model.case import Case
from aiops.model.entity import canonical_pci
from aiops.model.event import Event, Severity
from aiops.model.finding import Finding, Role

MANY_GPUS = 4
"""GPUs of a node with fatal NVLink errors from which on their common switch is the likelier culprit."""

Key = tuple[str, str, int]


def sxids(case: Case, catalog: Catalog, link_gpus: dict[str, int]) -> list[Finding]:
    """``nvswitch.sxid`` for each switch and code (fields ``sxid``, ``fatal``, ``always_fatal``, ``wide``).

    A line group is the error, its severity and its data; the latter two say nothing new. ``wide`` is true if the error
    reaches beyond one link: fatal to the switch by its code, or with `MANY_GPUS` GPUs of the node in ``link_gpus``.
    """
    groups: dict[Key, list[Event]] = {}
    for event in evidence_rows(case, "nvswitch.sxid", "nvswitch.sxid_detail", "nvswitch.fm_error"):
        pci = canonical_pci(str(event.fields["pci"])) or str(event.fields["pci"])
        groups.setdefault((event.node or "", pci, int(event.fields["sxid"])), []).append(event)
    return [_finding(case, catalog, key, events, link_gpus) for key, events in _merge(groups).items()]


def _merge(groups: dict[Key, list[Event]]) -> dict[Key, list[Event]]:
    """The fabric manager's log names no host: its errors join those of the one host that reported the same."""
    merged = dict(groups)
    for node, pci, code in [key for key in groups if not key[0]]:
        same = [key for key in groups if key[0] and key[1:] == (pci, code)]
        if len(same) == 1:
            merged[same[0]] = merged[same[0]] + merged.pop((node, pci, code))
    return merged


def _finding(case: Case, catalog: Catalog, key: Key, events: list[Event], link_gpus: dict[str, int]) -> Finding:
    node, pci, code = key
    entry = catalog.sxids.get(code)
    heads = [event for event in events if event.fields.get("fatality")]
    words = {str(event.fields["fatality"]).lower() for event in heads}
    always = bool(entry and entry.severity == "always_fatal")
    fatal = "fatal" in words if words else bool(entry and entry.severity in ("fatal", "always_fatal"))
    shown = sorted(heads or events, key=in_time)
    first, last = span(shown)
    # one error is told by the kernel and by the fabric manager
    count = max(
        sum(e.count for e in shown if e.signal == "nvswitch.fm_error"),
        sum(e.count for e in shown if e.signal != "nvswitch.fm_error"),
    )
    return Finding(
        sign="nvswitch.sxid",
        text=f"SXid {code} ({entry.name if entry else 'unknown code'}, {'fatal' if fatal else 'non-fatal'}) "
        f"on NVSwitch {pci}" + (f" of {node}" if node else "") + (f", {count} times" if count > 1 else ""),
        role=Role.ROOT if fatal else Role.CONTEXT,
        severity=Severity.FATAL if fatal else Severity.INFO,
        first=first,
        last=last,
        node=node or None,
        pci=pci,
        nodes=(node,) if node else (),
        count=count,
        fields={
            "sxid": code,
            "fatal": fatal,
            "always_fatal": always,
            "wide": fatal and (always or link_gpus.get(node, 0) >= MANY_GPUS),
        },
        inexact=inexact(shown),
        evidence=quotes(case, shown),
    )
