"""The network between ranks: ports of all drivers, whole switches, optics, congestion, packets that are lost by size."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable

from aiops.catalog.model import Catalog
from aiops.detect.evidence import evidence_rows, in_time, inexact, known, quotes, span
from aiops.detect.signals import finding_of
from aiops.model.case import Case
from aiops.model.event import Event, Severity
from aiops.model.finding import Finding, Role

TOGETHER_NS = 60 * 1_000_000_000
"""Ports of several hosts that go down within this time hang on one thing (taxonomy, decision rule 2)."""
FLAPS = 2
LARGE = 1_000
"""Bytes above which a probe is a large one; below it fits every MTU."""
_GROUPCAST = re.compile(r"DST=(?:22[4-9]|23\d|255)\.|DST=ff0")
"""Multicast and broadcast: every firewall drops some, and no rank needs it."""
_STUCK = (
    "net.no_route",
    "net.rendezvous_timeout",
    "net.connect_refused",
    "net.peer_closed",
    "nccl.init_failed",
    "nccl.error",
    "gloo.timeout",
    "nccl.watchdog_timeout",
)
LOSSY = 2.0
"""Per cent of packets lost that no healthy fabric shows."""


def detect(case: Case, catalog: Catalog) -> list[Finding]:
    """Findings about the fabric.

    ``net.link_flap`` and ``net.link_down`` for ports of drivers that only this detector reads, ``net.switch_down``
    (ports of several hosts within a minute, or a monitor's word; fields ``hosts``), ``net.optic``, ``net.congestion``,
    ``net.ping_loss`` (ROOT: large packets are lost, small ones pass), ``net.no_route``, ``net.firewall_drop`` and
    ``net.nccl_interface`` (ROOT if the ranks never came to train together), ``nccl.ib_completion_error`` with ``at_start`` (ROOT: the queue
    pairs never worked).
    """
    findings = [*_ports(case), *_switch(case, catalog), *_sizes(case)]
    findings += _plain(case, catalog, "net.optic", by_node=True)
    findings += _plain(case, catalog, "net.congestion", by_node=False)
    findings += _set_up(case, catalog)
    return findings


def _port(event: Event) -> str:
    return str(event.fields.get("nic") or event.fields.get("nic2") or event.fields.get("pci") or "")


def _downs(case: Case) -> list[Event]:
    """Ports that went down, of all drivers, each line once."""
    seen: set[tuple[int, int]] = set()
    found = []
    for event in evidence_rows(case, "kernel.mlx5_link_down", "net.port_down", "net.cable_unplugged"):
        if (event.source, event.line) not in seen:
            seen.add((event.source, event.line))
            found.append(event)
    return found


def _ports(case: Case) -> list[Finding]:
    """Ports that the detector of mlx5-like lines does not read."""
    taken = {(e.node, _port(e)) for e in evidence_rows(case, "kernel.mlx5_link_down")}
    by_port: dict[tuple[str, str], list[Event]] = {}
    for event in evidence_rows(case, "net.port_down", "net.port_up"):
        by_port.setdefault((event.node or "", _port(event)), []).append(event)
    findings = []
    for (node, nic), events in by_port.items():
        downs = [event for event in events if event.signal == "net.port_down"]
        if not downs or (node or None, nic) in taken:
            continue
        stayed = events[-1].signal == "net.port_down"
        flapping = not stayed or len(downs) >= FLAPS
        first, last = span(downs)
        times = f"{len(downs)} times" if len(downs) > 1 else "once"
        findings.append(
            Finding(
                sign="net.link_flap" if flapping else "net.link_down",
                text=f"Port {nic or '?'} of {node or '?'} went down {times}" + (" and stayed down" if stayed else ""),
                role=Role.ROOT,
                severity=Severity.ERROR if stayed or len(downs) >= FLAPS else Severity.WARNING,
                first=first,
                last=last,
                node=node or None,
                nodes=(node,) if node else (),
                name=nic or None,
                count=sum(event.count for event in downs),
                fields={"downs": len(downs), "nic": nic, "stayed_down": stayed},
                evidence=quotes(case, downs),
            )
        )
    return findings


def _switch(case: Case, catalog: Catalog) -> list[Finding]:
    """Several hosts lose a port in the same minute, or a monitor says that a switch is gone."""
    lost = [(str(event.fields["peer"]), event) for event in evidence_rows(case, "net.sm_removed")]
    lost += [(event.node, event) for event in _downs(case) if event.node]
    hosts, events = _burst([(host, event) for host, event in lost if known(event)])
    said = evidence_rows(case, "net.switch_down")
    if len(hosts) < 2 and not said:
        return []
    proof = [*said[:2], *events]
    first, last = span(proof)
    name = next((str(event.fields["switch"]) for event in said if event.fields.get("switch")), None)
    text = f"Ports of {len(hosts)} hosts went down within {TOGETHER_NS // 1_000_000_000} s: {', '.join(hosts[:6])}"
    if len(hosts) < 2:
        text = f"A monitor reports that switch {name or '?'} is down"
    return [
        Finding(
            sign="net.switch_down",
            text=text,
            role=Role.ROOT,
            severity=Severity.ERROR,
            first=first,
            last=last,
            nodes=tuple(hosts),
            name=name,
            count=len(proof),
            fields={"hosts": len(hosts), "switch": name or "", "several": len(hosts) >= 2},
            evidence=quotes(case, proof, most=6),
        )
    ]


def _burst(lost: Iterable[tuple[str, Event]]) -> tuple[list[str], list[Event]]:
    """The hosts of the densest minute, counting only hosts most of whose losses lie in it: flapping all day is no burst."""
    pairs = sorted(lost, key=lambda pair: in_time(pair[1]))
    total = Counter(host for host, _ in pairs)
    best: tuple[list[str], list[Event]] = ([], [])
    begin = 0
    for end, (_, event) in enumerate(pairs):
        while event.ts - pairs[begin][1].ts > TOGETHER_NS:
            begin += 1
        window = pairs[begin : end + 1]
        inside = Counter(host for host, _ in window)
        hosts = [host for host in dict.fromkeys(host for host, _ in window) if inside[host] * 2 >= total[host]]
        if len(hosts) > len(best[0]):
            best = (hosts, [e for host, e in window if host in hosts])
    return best


def _sizes(case: Case) -> list[Finding]:
    """Probes of several sizes: small ones arrive, large ones do not."""
    small: list[tuple[float, Event]] = []
    large: list[tuple[float, Event]] = []
    size = 0
    for event in sorted(evidence_rows(case, "net.ping_head", "net.ping_loss"), key=lambda e: (e.source, e.line)):
        if event.signal == "net.ping_head":
            size = int(event.fields["size"])
            continue
        bytes_ = int(event.fields.get("size", size))
        (large if bytes_ > LARGE else small).append((float(event.fields["loss"]), event))
    clean = [event for loss, event in small if loss == 0.0]
    lossy = [(loss, event) for loss, event in large if loss >= LOSSY]
    if not clean or not lossy or any(loss >= LOSSY for loss, _ in small):
        return []
    events = [event for _, event in lossy]
    first, last = span(events)
    return [
        Finding(
            sign="net.ping_loss",
            text=f"Small packets arrive, of large ones up to {max(loss for loss, _ in lossy):g} % are lost",
            role=Role.ROOT,
            severity=Severity.ERROR,
            first=first,
            last=last,
            count=len(events),
            fields={"loss": max(loss for loss, _ in lossy)},
            evidence=quotes(case, [*events[:2], *clean[:1]]),
        )
    ]


def _plain(case: Case, catalog: Catalog, signal: str, *, by_node: bool) -> list[Finding]:
    """Lines of one signal; several nodes at once make the fabric the culprit and not a node."""
    groups: dict[str | None, list[Event]] = {}
    for event in evidence_rows(case, signal):
        groups.setdefault(event.node if by_node else None, []).append(event)
    findings = [finding_of(case, catalog.by_id[signal], sorted(events, key=in_time)) for events in groups.values()]
    if not by_node:
        for finding in findings:
            finding.node = None
    return findings


def _set_up(case: Case, catalog: Catalog) -> list[Finding]:
    """Signs that mean something only if the ranks never came to work together."""
    began = bool(evidence_rows(case, "train.progress", "train.step"))
    findings = []
    ignored = evidence_rows(case, "net.no_route")
    if ignored:
        finding = finding_of(case, catalog.by_id["net.no_route"], ignored)
        finding.role = Role.ECHO if began else Role.ROOT
        finding.node = None
        findings.append(finding)
    dropped = [event for event in evidence_rows(case, "net.firewall_drop") if not _GROUPCAST.search(event.text)]
    if dropped:
        finding = finding_of(case, catalog.by_id["net.firewall_drop"], dropped)
        stuck = evidence_rows(case, *_STUCK)
        finding.role = Role.ROOT if stuck and not began else Role.CONTEXT
        findings.append(finding)
    interface = evidence_rows(case, "net.nccl_interface")
    if interface:
        finding = finding_of(case, catalog.by_id["net.nccl_interface"], interface)
        trouble = evidence_rows(
            case, "net.connect_refused", "net.no_route", "net.peer_closed", "nccl.watchdog_timeout", "nccl.error"
        )
        alone = str(interface[0].fields.get("iface")) == "lo" and len({e.node for e in interface}) < 2
        finding.role = Role.ROOT if not began and (trouble or not alone) else Role.CONTEXT
        finding.node = None
        findings.append(finding)
    completions = evidence_rows(case, "nccl.ib_completion_error")
    ports = evidence_rows(case, "kernel.mlx5_link_down", "net.port_down", "nccl.ib_port_error", "net.nic_lost")
    if completions:
        first, last = span(completions)
        statuses = sorted({str(event.fields.get("status", "?")) for event in completions})
        findings.append(
            Finding(
                sign="nccl.ib_completion_error",
                text=f"InfiniBand completions with error status {', '.join(statuses)}"
                + ("" if began else ", before the first training step"),
                role=Role.ECHO if began or ports else Role.ROOT,
                severity=Severity.ERROR,
                first=first,
                last=last,
                nodes=tuple(dict.fromkeys(event.node for event in completions if event.node)),
                count=sum(event.count for event in completions),
                fields={"at_start": not began, "status": statuses[0]},
                inexact=inexact(completions),
                evidence=quotes(case, completions),
            )
        )
    return findings
