"""Which findings say that a node lost its network, its NVLink fabric or its power, and which nodes would have shown it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from enum import StrEnum

from aiops.ingest.slurm import NODE_SIGNAL
from aiops.model.case import Case
from aiops.model.event import NO_TIME
from aiops.model.finding import Finding, Role


class Family(StrEnum):
    """What a symptom is about."""

    LINKS = "links"
    NVLINK = "nvlink"
    POWER = "power"
    GONE = "gone"
    """The node stopped answering: power, network or the node itself."""


NVLINK_XIDS = frozenset({74, 144, 145, 146, 147, 148, 149, 150})
"""Codes for the link and the switch behind it; Xid 155 and others are the GPU's own."""
_SIGNS = {
    "net.link_down": Family.LINKS,
    "net.link_flap": Family.LINKS,
    "net.cable_unplugged": Family.LINKS,
    "nccl.ib_port_error": Family.LINKS,
    "metric.ib_port_down": Family.LINKS,
    "nvswitch.sxid": Family.NVLINK,
    "nvl.link_inactive": Family.NVLINK,
    "nvl.fabric_manager": Family.NVLINK,
    "metric.nvlink_errors": Family.NVLINK,
    "host.reboot_seen": Family.POWER,
    "host.unexpected_reboot": Family.POWER,
    "sched.node_reboot": Family.POWER,
    "pwr.psu_fault": Family.POWER,
    "slurm.node_down": Family.GONE,
    "sched.node_fail": Family.GONE,
}
WINDOW_S = {Family.LINKS: 60.0, Family.NVLINK: 60.0, Family.POWER: 180.0, Family.GONE: 300.0}
"""Seconds within which the nodes of one domain show it: taxonomy, decision rule 2; boots take minutes, and schedulers
notice a silent node one heartbeat later (slurmd's time-out is 300 s, the kubelet's lease 40 s)."""
_CHRONIC_S = 600.0


@dataclass(slots=True)
class Symptoms:
    """Findings of one family by the tree's name of the node, each with its time in UTC ns."""

    family: Family
    by_node: dict[str, list[tuple[int, Finding]]] = field(default_factory=dict)

    def within(
        self, nodes: frozenset[str], suits: Callable[[str, Finding], bool]
    ) -> tuple[dict[str, Finding], int, int]:
        """The densest window over these nodes: its finding of each node, and first and last time.

        Only findings count that ``suits(node, finding)``.
        """
        times = sorted(
            ((ts, node, f) for node in nodes for ts, f in self.by_node.get(node, ()) if suits(node, f)),
            key=lambda item: (item[0], item[1], item[2].sign),
        )
        best: dict[str, Finding] = {}
        span = (NO_TIME, NO_TIME)
        begin = 0
        width = WINDOW_S[self.family] * 1e9
        for end, (ts, _, _) in enumerate(times):
            while ts - times[begin][0] > width:
                begin += 1
            found: dict[str, Finding] = {}
            for _, node, finding in times[begin : end + 1]:
                found.setdefault(node, finding)
            if len(found) > len(best):
                best, span = found, (times[begin][0], ts)
        return best, *span

    def near(self, first: int, last: int) -> set[str]:
        """All nodes that show it from one window before ``first`` to one after ``last``."""
        width = WINDOW_S[self.family] * 1e9
        return {
            node for node, seen in self.by_node.items() if any(first - width <= ts <= last + width for ts, _ in seen)
        }


def symptoms(case: Case, findings: list[Finding]) -> dict[Family, Symptoms]:
    """Symptoms of all nodes of the tree whose time is known."""
    found = {family: Symptoms(family) for family in Family}
    for finding in findings:
        family = _family(finding)
        if family is None or finding.first == NO_TIME or finding.inexact:
            continue
        for node in _nodes(case, finding):
            found[family].by_node.setdefault(node, []).append((finding.first, finding))
    for node, seen in found[Family.LINKS].by_node.items():
        # one line may be read twice, once without its port
        told = {ts for ts, finding in seen if finding.fields.get("nic")}
        found[Family.LINKS].by_node[node] = [(ts, f) for ts, f in seen if f.fields.get("nic") or ts not in told]
    return found


def _family(finding: Finding) -> Family | None:
    if finding.sign == "gpu.xid":
        return Family.NVLINK if finding.fields.get("xid") in NVLINK_XIDS and finding.role == Role.ROOT else None
    family = _SIGNS.get(finding.sign)
    if family is None or finding.fields.get("planned"):
        return None
    # of a scheduler's words also those about nodes that no job of the evidence uses: the domain is larger than the job
    if finding.role != Role.ROOT and not finding.sign.startswith(("sched.", "slurm.")):
        return None
    chronic = finding.last != NO_TIME and finding.last - finding.first > _CHRONIC_S * 1e9
    if family == Family.LINKS and chronic and not finding.fields.get("stayed_down"):
        return None
    return family


def _nodes(case: Case, finding: Finding) -> Iterator[str]:
    for name in (finding.node,) if finding.node else finding.nodes:
        node = case.topology.tree.node(name)
        if node is not None:
            yield node


def observed(case: Case, family: Family, findings: list[Finding]) -> set[str]:
    """Nodes of the tree whose evidence would have shown a symptom of this family."""
    names: set[str] = set(case.coverage.nodes_with_kernel_log)
    names |= {entity.node for block in case.series for entity in block.entities if entity.node}
    if family in (Family.POWER, Family.GONE):
        names |= {item.name for item in case.objects if item.kind == "Node"}
        rows = case.events.by_signal()
        names |= {node for row in rows.get(NODE_SIGNAL, ()) if (node := case.events[row].node)}
        if any(finding.sign == "slurm.node_down" for finding in findings):
            # slurmctld asks all of its nodes: one that it does not complain about has answered
            names |= {node for node, kinds in case.topology.node_kinds.items() if "slurm" in kinds}
            names |= set(_of_slurm(case))
    tree = case.topology.tree
    return {node for name in names if (node := tree.node(name)) is not None}


def _of_slurm(case: Case) -> Iterator[str]:
    sources = {source.name for source in case.sources if source.format.startswith("slurm-topology")}
    for edge in case.topology.tree.edges:
        if isinstance(edge.child, str) and edge.proof.source in sources:
            yield edge.child
