"""Times at which a node, or all of them, gave no samples at all: what monitoring did not see did not happen for it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aiops.detect.metrics_evidence import Proof
from aiops.detect.metrics_frame import CORE, Frame
from aiops.detect.metrics_math import persistence, runs
from aiops.model import Finding, Role, Severity

if TYPE_CHECKING:
    import numpy as np

_HOLES = 4.0
"""How many steps without any sample make a hole."""


def find(frame: Frame, proof: Proof) -> list[Finding]:
    """``metric.gap`` for the longest silence of each node, or for one of the whole fleet; both only context.

    A node that ends with silence may have died: that is for other signs to say.
    """
    import numpy as np

    if not frame.timed or not frame.step:
        return []
    found = []
    gaps = np.diff(frame.times)
    widest = int(np.argmax(gaps))
    if gaps[widest] >= _HOLES * frame.step:
        found.append(_finding(frame, proof, range(len(frame.entities)), widest, widest + 1, "any GPU"))
    answers = frame.answers() > 0
    hold = max(persistence(frame), int(_HOLES))
    nodes: dict[str, list[int]] = {}
    for row, entity in enumerate(frame.entities):
        if entity.node is not None:
            nodes.setdefault(entity.node, []).append(row)
    if len(nodes) < 2:
        return found
    anyone: np.ndarray = np.asarray(answers.any(axis=0))
    for node, rows in nodes.items():
        here: np.ndarray = np.asarray(answers[rows].any(axis=0))
        seen = np.flatnonzero(here)
        if not len(seen):
            continue
        silent: np.ndarray = ~here & anyone
        silent[: seen[0]] = False
        length = runs(silent[None, :])[0]
        end = int(np.argmax(length))
        if length[end] >= hold:
            start = end - int(length[end])
            after = int(seen[seen > end][0]) if (seen > end).any() else end
            found.append(_finding(frame, proof, rows, start, after, node))
    return found


def _finding(frame: Frame, proof: Proof, rows: range | list[int], before: int, after: int, who: str) -> Finding:
    name, row = next(
        ((name, row) for row in rows for name in CORE if _sampled(frame, name, row, before)), (CORE[0], int(rows[0]))
    )
    columns = [before, *([after] if _sampled(frame, name, row, after) else [])]
    minutes = (int(frame.times[after]) - int(frame.times[before])) / 60e9
    back = len(columns) > 1
    finding = proof.finding(
        frame,
        "metric.gap",
        row,
        "",
        [(name, row, column) for column in columns],
        role=Role.CONTEXT,
        severity=Severity.INFO,
        fields={"minutes": round(minutes, 1), "returned": back},
    )
    finding.text = f"No samples of {who} for {minutes:.0f} minutes" + ("" if back else ", to the end")
    finding.first, finding.last = int(frame.times[before]), int(frame.times[after])
    finding.gpu = finding.pci = finding.uuid = None
    if who == "any GPU":
        finding.node, finding.nodes = None, ()
    return finding


def _sampled(frame: Frame, name: str, row: int, column: int) -> bool:
    import numpy as np

    values = frame.get(name)
    return values is not None and not bool(np.isnan(values[row, column]))
