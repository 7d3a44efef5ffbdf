"""What happens to nodes and their links: flaps, reboots, nodes that stop answering."""

from __future__ import annotations

import re

from aiops.catalog.model import Catalog
from aiops.detect.evidence import evidence_rows, in_time, known, quotes, span
from aiops.detect.memory_growth import memory_growth
from aiops.detect.node_health import corrected_storms, false_alarms, lost_device_access
from aiops.detect.oom import oom_kills
from aiops.detect.reboots import reboots
from aiops.ingest.hostlist import hosts_in
from aiops.model.case import Case
from aiops.model.event import Event, Severity
from aiops.model.finding import Finding, Role

FLAPS = 2
"""Times a port must go down to be called flapping; once is a link that went down."""


def detect(case: Case, catalog: Catalog) -> list[Finding]:
    """``net.link_flap`` (fields ``downs``, ``nic``, ``again``: more than once, or the transport saw it; CONTEXT if the training
    went on after it), ``net.link_down`` (down at the end), ``slurm.node_down`` (both ROOT), and what
    `reboots`, `oom`, `node_health` and `memory_growth` find."""
    return [
        *_links(case),
        *_not_responding(case),
        *reboots(case),
        *oom_kills(case, catalog),
        *corrected_storms(case),
        *lost_device_access(case),
        *false_alarms(case, catalog),
        *memory_growth(case),
    ]


def _links(case: Case) -> list[Finding]:
    by_port: dict[tuple[str, str], list[Event]] = {}
    for event in evidence_rows(case, "kernel.mlx5_link_down", "kernel.mlx5_link_up", "nccl.ib_port_error"):
        nic = str(event.fields.get("nic") or event.fields.get("pci") or "")
        by_port.setdefault((event.node or "", nic), []).append(event)
    kernel_nodes = {
        node for (node, _), events in by_port.items() if any(e.signal != "nccl.ib_port_error" for e in events)
    }
    findings = []
    for (node, nic), events in by_port.items():
        downs = [e for e in events if e.signal == "kernel.mlx5_link_down"]
        errors = [e for e in events if e.signal == "nccl.ib_port_error"]
        if not downs and (not errors or node in kernel_nodes):
            continue
        events.sort(key=in_time)
        states = [e for e in events if e.signal.startswith("kernel.")]
        still_down = bool(states) and states[-1].signal == "kernel.mlx5_link_down"
        sign = "net.link_down" if still_down and len(downs) < FLAPS else "net.link_flap"
        first, last = span(downs or errors)
        times = f"{len(downs)} times" if len(downs) != 1 else "once"
        # a port that came back while the training went on has harmed nothing
        outlived = len(downs) == 1 and not still_down and not errors and _trained_after(case, events[-1])
        text = (
            f"Port {nic or '?'} of {node or '?'} went down {times}"
            if downs
            else f"NCCL saw port errors on {nic} of {node or '?'}"
        )
        findings.append(
            Finding(
                sign=sign,
                text=text
                + (" and stayed down" if still_down else "")
                + (" and came back while the training went on" if outlived else ""),
                role=Role.CONTEXT if outlived else Role.ROOT,
                severity=Severity.INFO
                if outlived
                else Severity.ERROR
                if len(downs) >= FLAPS or still_down or errors
                else Severity.WARNING,
                first=first,
                last=last,
                node=node or None,
                nodes=(node,) if node else (),
                name=nic or None,
                count=sum(e.count for e in (downs or errors)),
                fields={
                    "downs": len(downs),
                    "nic": nic,
                    "stayed_down": still_down,
                    "again": len(downs) >= FLAPS or bool(errors),
                },
                evidence=quotes(case, downs or errors),
            )
        )
    return findings


_OUTLIVED_S = 120.0
"""Training for this long after a link came back shows that the loss was survived: a transport gives up within half a minute."""


def _trained_after(case: Case, event: Event) -> bool:
    if not known(event):
        return False
    steps = evidence_rows(case, "train.progress", "train.step")
    return any(known(step) and step.ts > event.ts + _OUTLIVED_S * 1e9 for step in steps)


def _not_responding(case: Case) -> list[Finding]:
    by_node: dict[str, list[Event]] = {}
    for event in evidence_rows(case, "slurm.node_not_responding"):
        for node in hosts_in(re.sub(r"[^\w.,\[\]-]", "", str(event.fields["nodes"]))):
            by_node.setdefault(node, []).append(event)
    findings = []
    for node, events in by_node.items():
        first, last = span(events)
        jobs = {str(e.fields["job"]) for e in events if e.fields.get("job")}
        findings.append(
            Finding(
                sign="slurm.node_down",
                text=f"slurmctld lost contact with {node}",
                role=Role.ROOT,
                severity=Severity.ERROR,
                first=first,
                last=last,
                node=node,
                nodes=(node,),
                job=jobs.pop() if len(jobs) == 1 else None,
                count=len(events),
                evidence=quotes(case, events),
            )
        )
    return findings
