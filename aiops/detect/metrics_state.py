"""States that the driver and DCGM tell of a GPU: NVLink fabric, wanted recovery, spare rows and pages, SRAM."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aiops.detect.metrics_evidence import Proof
from aiops.detect.metrics_frame import Frame
from aiops.detect.metrics_math import first_run, last_value, persistence
from aiops.model import Finding, Role, Severity

if TYPE_CHECKING:
    import numpy as np

_FABRIC = "DCGM_FI_DEV_FABRIC_MANAGER_STATUS"
_FABRIC_STATES = {1: "not started", 2: "still in progress", 4: "failed"}
"""``dcgmFabricManagerStatus_t`` of ``dcgm_structs.h``; 3 is success, 0 a machine without a fabric."""
_RECOVERY = "DCGM_FI_DEV_GET_GPU_RECOVERY_ACTION"
_ACTIONS = {
    1: "a reset of the GPU",
    2: "a reboot of the node",
    3: "peer traffic to be drained",
    4: "a drain and a reset",
}
"""``nvmlDeviceGpuRecoveryAction_t`` of ``nvml.h``."""
_NO_SPARE = "DCGM_FI_DEV_BANKS_REMAP_ROWS_AVAIL_NONE"
_SRAM = "DCGM_FI_DEV_THRESHOLD_SRM"
_RETIRED = ("DCGM_FI_DEV_RETIRED_SBE", "DCGM_FI_DEV_RETIRED_DBE")
_PAGES = 60
"""Retired pages from which NVIDIA replaces a board (Dynamic Page Retirement, RMA policy)."""


def find(frame: Frame, proof: Proof) -> list[Finding]:
    """``metric.fabric_state``, ``metric.recovery_action``, ``metric.banks_left``, ``metric.retired_pages``, ``metric.sram_threshold``."""
    return [*_fabric(frame, proof), *_recovery(frame, proof), *_spares(frame, proof), *_sram(frame, proof)]


def _fabric(frame: Frame, proof: Proof) -> list[Finding]:
    """One finding for each node whose fabric failed, or is not ready at the end."""
    import numpy as np

    values = frame.get(_FABRIC)
    if values is None:
        return []
    hold = persistence(frame)
    bad = (values == 4) | (values == 1) | (values == 2)
    newest = last_value(values)
    by_node: dict[str | None, list[tuple[int, int]]] = {}
    for row in np.flatnonzero(bad.any(axis=1)):
        start = first_run(bad[row], hold)
        if start >= 0 and int(newest[row]) in _FABRIC_STATES:
            by_node.setdefault(frame.entities[row].node, []).append((start, int(row)))
    found = []
    for members in by_node.values():
        start, lead = min(members)
        state = int(newest[lead])
        several = len(members) > 1
        where = f", as for {len(members) - 1} more of the node" if several else ""
        finding = proof.finding(
            frame,
            "metric.fabric_state",
            lead,
            f"is not in the NVLink fabric: its registration {_is(state)}{where}",
            [(_FABRIC, lead, start)],
            severity=Severity.ERROR if state == 4 else Severity.WARNING,
            count=len(members),
            fields={"state": state, "gpus": [frame.entities[other].gpu for _, other in sorted(members)]},
        )
        if several:
            finding.gpu = finding.pci = finding.uuid = None
        found.append(finding)
    return found


def _is(state: int) -> str:
    return _FABRIC_STATES[state] if state == 4 else f"is {_FABRIC_STATES[state]}"


def _recovery(frame: Frame, proof: Proof) -> list[Finding]:
    """What the driver asks for after a fault; the fault itself is another sign."""
    values = frame.get(_RECOVERY)
    if values is None:
        return []
    newest = last_value(values)
    return [
        proof.finding(
            frame,
            "metric.recovery_action",
            int(row),
            f"needs {_ACTIONS[int(newest[row])]}, says the driver",
            [(_RECOVERY, int(row), _column(values[row], newest[row]))],
            role=Role.ECHO,
            severity=Severity.ERROR,
            fields={"action": int(newest[row])},
        )
        for row in range(len(newest))
        if newest[row] in _ACTIONS
    ]


def _column(row: np.ndarray, value: float) -> int:
    """First sample of the value that the row ends with."""
    import numpy as np

    seen = np.flatnonzero(~np.isnan(row))
    other = seen[row[seen] != value]
    return int(seen[seen > other[-1]][0]) if len(other) else int(seen[0])


def _spares(frame: Frame, proof: Proof) -> list[Finding]:
    import numpy as np

    found = []
    values = frame.get(_NO_SPARE)
    newest = last_value(values) if values is not None else np.zeros(0)
    for row in np.flatnonzero(newest > 0):
        assert values is not None
        found.append(
            _context(
                frame,
                proof,
                "metric.banks_left",
                int(row),
                f"has {newest[row]:.0f} memory bank(s) without a spare row",
                _NO_SPARE,
                _column(values[row], newest[row]),
                {"banks": int(newest[row])},
            )
        )
    known = [(name, last_value(plane)) for name in _RETIRED if (plane := frame.get(name)) is not None]
    if known:
        total = np.nansum([pages for _, pages in known], axis=0)
        for row in np.flatnonzero(total >= _PAGES):
            name, pages = max(known, key=lambda item: float(np.nan_to_num(item[1][row])))
            text = f"has {total[row]:.0f} retired memory pages"
            column = _column(frame.planes[name][row], pages[row])
            fields = {"pages": int(total[row])}
            found.append(_context(frame, proof, "metric.retired_pages", int(row), text, name, column, fields))
    return found


def _context(
    frame: Frame, proof: Proof, sign: str, row: int, text: str, name: str, column: int, fields: dict[str, int]
) -> Finding:
    return proof.finding(
        frame, sign, row, text, [(name, row, column)], role=Role.CONTEXT, severity=Severity.WARNING, fields={**fields}
    )


def _sram(frame: Frame, proof: Proof) -> list[Finding]:
    """More uncorrectable SRAM errors than the driver allows: a cause only if that came about within the window."""
    import numpy as np

    values = frame.get(_SRAM)
    newest = last_value(values) if values is not None else np.zeros(0)
    found = []
    for row in np.flatnonzero(newest > 0):
        assert values is not None
        column = _column(values[row], newest[row])
        fresh = bool(np.flatnonzero(~np.isnan(values[row]))[0] < column)
        found.append(
            proof.finding(
                frame,
                "metric.sram_threshold",
                int(row),
                "exceeded the threshold of uncorrectable SRAM errors",
                [(_SRAM, int(row), column)],
                role=Role.ROOT if fresh else Role.CONTEXT,
                severity=Severity.ERROR,
                fields={"new": fresh},
            )
        )
    return found
