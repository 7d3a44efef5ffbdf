"""Congestion in the counters of network ports: pause frames, congestion notifications and waiting on all ports at once."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from aiops.detect.metrics_evidence import Proof
from aiops.detect.metrics_frame import Frame
from aiops.detect.metrics_math import first_run, steps_up
from aiops.model import Case, Finding, Role, Severity
from aiops.model.event import NO_TIME

if TYPE_CHECKING:
    import numpy as np

_WAITS = re.compile(
    r"(?:received|transmitted|rx|tx)_(?:prio\d_)?pause(?:_total)?$|rx_pause_ctrl_phy|tx_pause_ctrl_phy"
    r"|np_cnp_sent|rp_cnp_handled|np_ecn_marked_roce_packets|port_transmit_wait(?:_total)?$|PortXmitWait"
)
"""Counters of node_exporter's ethtool and InfiniBand collectors, of ``rdma statistic`` and of mlx5 drivers."""
_TIMES = 20.0
"""How many times its own quiet rate a port must reach, and"""
_FLOOR = 10.0
"""how many counts a second: a port at rest sees a pause now and then."""
_NODES = 3
_SHARE = 2 / 3
"""Nodes, and share of all nodes, that must be affected at once: one slow receiver is no congested fabric."""
_HOLD = 3


def congestion(case: Case, proof: Proof) -> list[Finding]:
    """``metric.fabric_wait`` for the first counter of each source that rises on most nodes together."""
    found = []
    for block in case.series:
        if len(block.times) < 2 * _HOLD or block.times[0] == NO_TIME:
            continue
        found += list(_of(Frame(case, block.times, block.entities, {}, [(block, _rows(block.entities))]), proof))[:1]
    return found


def _rows(entities: Sequence[object]) -> np.ndarray:
    import numpy as np

    return np.arange(len(entities))


def _of(frame: Frame, proof: Proof) -> Iterator[Finding]:
    import numpy as np

    block = frame.blocks[0][0]
    seconds = np.diff(frame.times) / 1e9
    for index, name in enumerate(block.fields):
        rows = [
            row
            for row, entity in enumerate(frame.entities)
            if entity.node and not np.isnan(block.values[index, row]).all()
        ]
        nodes = sorted({str(frame.entities[row].node) for row in rows})
        if not _WAITS.search(name) or len(nodes) < _NODES:
            continue
        rates = np.stack([steps_up(block.values[index, row])[1:] / seconds for row in rows])
        quiet = np.quantile(rates, 0.25, axis=1, keepdims=True)
        hot = (rates >= _FLOOR) & (rates >= _TIMES * quiet)
        by_node = np.stack(
            [hot[[i for i, row in enumerate(rows) if frame.entities[row].node == node]].any(axis=0) for node in nodes]
        )
        together = by_node.sum(axis=0)
        wide = (together >= _NODES) & (together >= _SHARE * len(nodes))
        start = first_run(wide, _HOLD)
        if start < 0:
            continue
        last = int(np.flatnonzero(wide)[-1])
        touched = [node for node, row in zip(nodes, by_node, strict=True) if row[wide].any()]
        shown = [rows[i] for i in range(len(rows)) if hot[i, start]][:3]
        worst = float(np.median(rates[:, wide]) / max(1.0, float(np.median(quiet))))
        yield Finding(
            sign="metric.fabric_wait",
            text=f"{name} rises on {len(touched)} of {len(nodes)} nodes at once, some {worst:.0f} times as fast as before",
            role=Role.ROOT,
            severity=Severity.WARNING,
            first=int(frame.times[start + 1]),
            last=int(frame.times[last + 1]),
            nodes=tuple(touched),
            count=int(wide.sum()),
            fields={"counter": name, "affected": len(touched), "times": round(worst)},
            evidence=[proof.quote(frame, name, row, column) for row in shown for column in (start + 1, last + 1)],
        )
