"""Which GPUs and ranks depend on a NIC, where ``nvidia-smi topo -m`` tells."""

from __future__ import annotations

from aiops.model.case import Case
from aiops.model.finding import Finding

_NEAR = frozenset({"PIX", "PXB"})
"""Below one PCIe host bridge: the NIC that NCCL takes for a GPU; anything farther is only a second choice."""


def name_gpus(case: Case, findings: list[Finding]) -> None:
    """Complete findings about a port with the GPUs that it serves (field ``serves``), and their ranks in the text."""
    for finding in findings:
        nic = finding.fields.get("nic")
        if not nic or not finding.node or not finding.sign.startswith(("net.", "nccl.ib")):
            continue
        gpus = sorted(
            gpu
            for (node, gpu), near in case.topology.gpu_nics.items()
            if node == finding.node and any(name == nic and how in _NEAR for name, how in near)
        )
        if not gpus:
            continue
        ranks = sorted(p.rank for p in case.topology.ranks.values() if p.node == finding.node and p.gpu in gpus)
        whose = f", rank{'s' if len(ranks) > 1 else ''} {', '.join(map(str, ranks))}" if ranks else ""
        finding.fields = {**finding.fields, "serves": tuple(gpus)}
        finding.text += f" (the NIC of GPU {', '.join(map(str, gpus))}{whose})"
