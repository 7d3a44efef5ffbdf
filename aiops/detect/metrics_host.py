"""Host memory in node_exporter's metrics: a node whose free memory falls steadily until almost nothing is left."""

from __future__ import annotations

from aiops.detect.metrics_evidence import Proof
from aiops.detect.metrics_frame import Frame
from aiops.model import Case, Finding, Role, Severity
from aiops.model.event import NO_TIME

_FREE = "node_memory_MemAvailable_bytes"
_FEWEST = 8
_LEFT = 0.15
"""Share of the first value that is left at the end; page cache counts as available, so that reading files takes nothing."""
_UP = 0.01
"""A rise by more than this share of the first value is memory given back."""


def memory_leak(case: Case, proof: Proof) -> list[Finding]:
    """``metric.rss_growth`` for each node whose available memory falls from sample to sample, and in both halves.

    A rise is allowed in one of ten steps. Loading a model or a data set takes memory once and is no such fall.
    """
    import numpy as np

    found = []
    for block in case.series:
        if _FREE not in block.fields or len(block.times) < _FEWEST or block.times[0] == NO_TIME:
            continue
        plane = block.values[block.fields.index(_FREE)]
        frame = Frame(case, block.times, block.entities, {}, [(block, np.arange(len(block.entities)))])
        for row, entity in enumerate(block.entities):
            seen = np.flatnonzero(~np.isnan(plane[row]))
            values = plane[row, seen].astype(np.float64)
            if entity.node is None or len(values) < _FEWEST or values[-1] > _LEFT * values[0]:
                continue
            fall = values[0] - values[-1]
            rises = int((np.diff(values) > _UP * values[0]).sum())
            if rises * 10 > len(values) or values[len(values) // 2] - values[-1] < 0.3 * fall:
                continue
            found.append(
                Finding(
                    sign="metric.rss_growth",
                    text=f"Free memory of {entity.node} fell steadily from {values[0] / 2**30:.0f} to {values[-1] / 2**30:.0f} GiB",
                    role=Role.ROOT,
                    severity=Severity.WARNING,
                    first=int(block.times[seen[0]]),
                    last=int(block.times[seen[-1]]),
                    node=entity.node,
                    nodes=(entity.node,),
                    count=len(values),
                    fields={
                        "from_gib": round(float(values[0]) / 2**30, 1),
                        "to_gib": round(float(values[-1]) / 2**30, 1),
                    },
                    evidence=[proof.quote(frame, _FREE, row, int(column)) for column in (seen[0], seen[-1])],
                )
            )
    return found
