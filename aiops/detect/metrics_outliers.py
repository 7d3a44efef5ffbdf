"""A GPU that does persistently less than its peers in the same job, whatever the reason."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from aiops.detect.metrics_evidence import Proof
from aiops.detect.metrics_frame import Frame
from aiops.detect.metrics_math import first_run, group_median, peer_groups, persistence, runs
from aiops.detect.metrics_peers import robust_scores
from aiops.model import Finding, Role, Severity

if TYPE_CHECKING:
    import numpy as np

_UTIL = "DCGM_FI_DEV_GPU_UTIL"
_FIELDS = {
    "DCGM_FI_PROF_PIPE_TENSOR_ACTIVE": "works its tensor cores",
    "DCGM_FI_PROF_SM_ACTIVE": "works its cores",
    "DCGM_FI_DEV_POWER_USAGE": "draws power",
    "DCGM_FI_PROF_NVLINK_TX_BYTES": "sends over NVLink",
}
_SCORE = 6.0
_LESS = 0.15
"""Share below the median that matters at all."""
_LOADED = 50.0
_HOLD = 2
"""How many times the usual persistence: a score of eight GPUs is noisy."""
_MOST = 4
"""If more than one of this many GPUs of a group stand out, their roles differ and nobody is a straggler."""


def find(frame: Frame, proof: Proof, others: Sequence[Finding]) -> list[Finding]:
    """``metric.outlier`` for the first field in which a GPU at work stays far below all its peers.

    A GPU of which ``others`` say more is left out.
    """
    import numpy as np

    if not frame.timed:
        return []
    hold = _HOLD * persistence(frame)
    groups = peer_groups(frame)
    util = frame.get(_UTIL)
    found: list[Finding] = []
    accused = {(one.node, one.gpu) for one in others if one.role is Role.ROOT}
    told = {row for row, entity in enumerate(frame.entities) if (entity.node, entity.gpu) in accused}
    for name, does in _FIELDS.items():
        values = frame.get(name)
        if values is None or len(frame.times) < 2 * hold:
            continue
        below = robust_scores(values, groups) <= -_SCORE
        if util is not None:
            below &= ~(util < _LOADED)
        rows = [int(row) for row in np.flatnonzero(below.sum(axis=1) >= hold) if row not in told]
        if not rows:
            continue
        wanted = np.zeros(len(groups), dtype=bool)
        wanted[rows] = True
        median = group_median(values, groups, wanted)
        with np.errstate(invalid="ignore"):
            below[rows] &= values[rows] < (1 - _LESS) * median[rows]
        rows = [row for row in rows if runs(below[[row]]).max() >= hold]
        for row in _alone(rows, groups):
            told.add(row)
            found.append(_finding(frame, proof, name, does, row, below[row], median[row], hold))
    return found


def _alone(rows: list[int], groups: np.ndarray) -> list[int]:
    return [
        row
        for row in rows
        if sum(groups[other] == groups[row] for other in rows) * _MOST <= (groups == groups[row]).sum()
    ]


def _finding(
    frame: Frame, proof: Proof, name: str, does: str, row: int, below: np.ndarray, median: np.ndarray, hold: int
) -> Finding:
    import numpy as np

    columns = np.flatnonzero(below)
    start = first_run(below, hold)
    own = float(np.nanmedian(frame.planes[name][row, columns]))
    peers = float(np.nanmedian(median[columns]))
    share = round(own / peers, 2) if peers else 0.0
    return proof.finding(
        frame,
        "metric.outlier",
        row,
        f"{does} at {own:.4g}, the median of its peers is {peers:.4g}",
        [(name, row, start), (name, row, int(columns[-1]))],
        role=Role.CONTEXT,
        severity=Severity.WARNING,
        last=int(columns[-1]),
        count=len(columns),
        fields={"metric": name, "own": round(own, 3), "peers": round(peers, 3), "share": share},
    )
