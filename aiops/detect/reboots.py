"""Reboots in the middle of a log, and many nodes that went at the same moment."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from aiops.detect.evidence import evidence_rows, in_time, inexact, known, quotes, span
from aiops.ingest.hostlist import hosts_in
from aiops.model.case import Case
from aiops.model.event import NO_TIME, Event, Severity
from aiops.model.finding import Finding, Role

_UPTIME = re.compile(r"\[ *(\d{1,10})\.\d{6}\]")
_BACK_S = 60.0
"""An uptime that falls by more than this is another boot; lines of several CPUs are out of order by far less."""
_SAME_BOOT_LINES = 200
_SAME_BOOT_S = 600.0
_PLANNED_S = 900.0
_BEFORE_JOB_S = 600.0
_AFTER_JOB_S = 1800.0
_SILENT_S = 1800.0
TOGETHER = 3
"""Nodes that must go down together to point to what feeds them."""
_TOGETHER_S = 180.0
_INPUT_LOST = re.compile(r"AC lost|[Ii]nput[^|\n]{0,40}\b(?:is )?lost|[Ii]nput (?:Failure|failure)")


@dataclass(slots=True)
class _Boot:
    node: str | None
    events: list[Event]
    planned: bool
    gone: int
    """Last known time before it, or `NO_TIME`: the node went after it."""

    @property
    def at(self) -> int:
        """When the node went: the last sign of life if it is recent, else the boot itself."""
        back = span(self.events)[0]
        if self.gone == NO_TIME or (back != NO_TIME and back - self.gone > _SILENT_S * 1e9):
            return back
        return self.gone


def reboots(case: Case) -> list[Finding]:
    """``host.reboot_seen`` for each node that booted in the middle of its log, and ``pwr.domain_event`` for many at once.

    A boot is a banner after earlier lines, a journal's boot separator, or an uptime that starts again. Field ``planned``
    is true if a shutdown was announced within a quarter of an hour before. Boots well before the job's first line or
    well after its last one are context.
    """
    job = _job_span(case)
    boots = list(_boots(case))
    findings = []
    for node in dict.fromkeys(boot.node for boot in boots):
        mine = [boot for boot in boots if boot.node == node]
        near = [boot for boot in mine if _near(boot, job)]
        findings.append(_finding(case, near or mine, bool(near)))
    together = _together(case, [boot for boot in boots if _near(boot, job) and not boot.planned])
    return [*findings[:64], *(together or _without_power(case))]


def _boots(case: Case) -> Iterator[_Boot]:
    logs: dict[tuple[int, str | None], list[Event]] = {}
    kinds = {source.index: source.kind for source in case.sources}
    for event in case.events:
        if kinds.get(event.source) == "kernel" and not event.quoted:
            logs.setdefault((event.source, event.node), []).append(event)
    downs = [event for event in evidence_rows(case, "host.shutdown")]
    for (_, node), events in sorted(logs.items(), key=lambda item: (item[0][0], item[0][1] or "")):
        last: _Boot | None = None
        above: Event | None = None
        up_before = -1.0
        for event in sorted(events, key=lambda e: (e.line, e.index)):
            up = _uptime(event)
            fell = up >= 0 and up_before - up > _BACK_S
            banner = event.signal == "kernel.boot" and event.line > 3 and (above is not None or event.line > 20)
            if (fell or banner) and not _same(last, event):
                gone = above.ts if above is not None and known(above) else NO_TIME
                last = _Boot(node, [event], _announced(downs, event), gone)
                yield last
            if up >= 0:
                up_before = up
            above = event


def _uptime(event: Event) -> float:
    match = _UPTIME.search(event.text[:120])
    return float(match[1]) if match else -1.0


def _same(boot: _Boot | None, event: Event) -> bool:
    """True if an event belongs to the boot that was just seen."""
    if boot is None:
        return False
    head = boot.events[0]
    if known(head) and known(event):
        return abs(event.ts - head.ts) < _SAME_BOOT_S * 1e9 and event.line - head.line < 50 * _SAME_BOOT_LINES
    return event.line - head.line < _SAME_BOOT_LINES


def _announced(downs: list[Event], boot: Event) -> bool:
    for down in downs:
        if down.node != boot.node:
            continue
        if known(down) and known(boot):
            if 0 <= boot.ts - down.ts <= _PLANNED_S * 1e9:
                return True
        elif down.source == boot.source and 0 <= boot.line - down.line <= _SAME_BOOT_LINES:
            return True
    return False


def _job_span(case: Case) -> tuple[int, int]:
    """First and last known time of the job's own output."""
    kinds = {source.index: source.kind for source in case.sources}
    return span(event for event in case.events if kinds.get(event.source) == "training")


def _near(boot: _Boot, job: tuple[int, int]) -> bool:
    """True if the node may have gone while the job ran: between its last sign of life and its boot."""
    back = span(boot.events)[0]
    gone = boot.gone if boot.gone != NO_TIME else back
    if back == NO_TIME or job[0] == NO_TIME:
        return True
    return job[0] - _BEFORE_JOB_S * 1e9 <= back and gone <= job[1] + _AFTER_JOB_S * 1e9


def _finding(case: Case, boots: list[_Boot], near: bool) -> Finding:
    events = [event for boot in boots for event in boot.events]
    first, last = span(events)
    times = [boot.at for boot in boots if boot.at != NO_TIME]
    node = boots[0].node
    planned = all(boot.planned for boot in boots)
    often = f" {len(boots)} times" if len(boots) > 1 else ""
    return Finding(
        sign="host.reboot_seen",
        text=f"{node or 'A node'} booted in the middle of its log{often}"
        + (" after an announced shutdown" if planned else ", and nothing announces it"),
        role=Role.ROOT if near else Role.CONTEXT,
        severity=Severity.ERROR if near else Severity.INFO,
        first=min(times, default=first),
        last=last,
        node=node,
        nodes=(node,) if node else (),
        count=len(boots),
        fields={"planned": planned, "boots": len(boots)},
        inexact=inexact(events) or min(times, default=first) != first,
        evidence=quotes(case, events),
    )


def _together(case: Case, boots: list[_Boot]) -> list[Finding]:
    """Nodes that rebooted within `_TOGETHER_S`: what feeds or cools them is at fault, not each of them."""
    seen = [(span(boot.events)[0], boot.node, boot.events[0]) for boot in boots]
    seen += [(event.ts, event.node, event) for event in evidence_rows(case, "host.unexpected_reboot") if known(event)]
    seen = sorted((one for one in seen if one[0] != NO_TIME and one[1]), key=lambda one: (one[0], one[1] or ""))
    for begin, (at, _, _) in enumerate(seen):
        group = [one for one in seen[begin:] if one[0] - at <= _TOGETHER_S * 1e9]
        nodes = tuple(dict.fromkeys(node for _, node, _ in group if node))
        if len(nodes) >= TOGETHER:
            events = sorted((event for _, _, event in group), key=in_time)
            return [
                Finding(
                    sign="pwr.domain_event",
                    text=f"{len(nodes)} nodes went down within {(group[-1][0] - at) / 1e9:.0f} s: {', '.join(nodes[:8])}",
                    role=Role.ROOT,
                    severity=Severity.FATAL,
                    first=at,
                    last=group[-1][0],
                    nodes=nodes,
                    count=len(nodes),
                    fields=_domain(case, nodes),
                    evidence=quotes(case, events),
                )
            ]
    return []


def _domain(case: Case, nodes: tuple[str, ...]) -> dict[str, object]:
    """The nodes that hang on what failed, and whether there are others to run on."""
    return {
        "measured": True,
        "affected": len(nodes),
        "members": tuple(sorted(nodes)),
        "elsewhere": bool(set(case.topology.nodes) - set(nodes)),
    }


def _without_power(case: Case) -> list[Finding]:
    """Nodes that Slurm lost together while supplies report that their input is gone: the feed, not each node."""
    supplies = [event for event in evidence_rows(case, "pwr.psu_fault") if _INPUT_LOST.search(event.text)]
    lost = [
        (event.ts, node, event)
        for event in evidence_rows(case, "slurm.node_not_responding")
        for node in hosts_in(re.sub(r"[^\w.,\[\]-]", "", str(event.fields["nodes"])))
        if known(event)
    ]
    lost.sort(key=lambda one: (one[0], one[1]))
    for at, _, _ in lost:
        group = [one for one in lost if 0 <= one[0] - at <= _TOGETHER_S * 1e9]
        nodes = tuple(dict.fromkeys(node for _, node, _ in group))
        if len(nodes) < TOGETHER or len(supplies) < 2:
            continue
        events = sorted([*supplies, *(event for _, _, event in group)], key=in_time)
        first, last = span(events)
        return [
            Finding(
                sign="pwr.domain_event",
                text=f"{len(nodes)} nodes went down together and power supplies lost their input: {', '.join(nodes[:8])}",
                role=Role.ROOT,
                severity=Severity.FATAL,
                first=first,
                last=last,
                nodes=nodes,
                count=len(nodes),
                fields=_domain(case, nodes),
                evidence=quotes(case, events),
            )
        ]
    return []
