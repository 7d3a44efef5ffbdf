"""Clocks that fall on all GPUs of a fleet or a node at once while the load stays: the power or the limit is what changed.

Peers cannot show it, since they fall alike; each GPU is compared with itself before. Clocks also follow the work: heavier
kernels run slower at the same limit. Then the power does not fall, so what was not drawn less is no sign.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from aiops.detect.metrics_clocks import BRAKE, HEAT
from aiops.detect.metrics_evidence import Proof
from aiops.detect.metrics_frame import Frame
from aiops.detect.metrics_math import runs
from aiops.model import Finding, Role, Severity

if TYPE_CHECKING:
    import numpy as np

_CLOCK, _UTIL, _POWER = "DCGM_FI_DEV_SM_CLOCK", "DCGM_FI_DEV_GPU_UTIL", "DCGM_FI_DEV_POWER_USAGE"
_LIMITS = ("DCGM_FI_DEV_ENFORCED_POWER_LIMIT", "DCGM_FI_DEV_POWER_MGMT_LIMIT")
_REASONS = "DCGM_FI_DEV_CLOCK_THROTTLE_REASONS"
_DROP = 0.85
"""Share of its own clock before that a GPU must fall below."""
_LESS = 0.93
"""Share of its power before: work that is heavier draws as much or more at a lower clock."""
_HANGS = 0.35
"""Below this share of the power before nothing is computed any more: GPUs that wait are another sign's matter."""
_BUSY = 80.0
_GPUS = 4
_SHARE = 0.8
"""GPUs of a node, and nodes of a fleet, that must fall together."""
_BEFORE = 5
_AFTER = 5
"""Samples under load that make a level."""
_SETTINGS = 0x2
"""Bit of the throttle reasons: clocks are limited by a setting (``nvidia-smi -lgc`` or ``-ac``)."""


def find(frame: Frame, proof: Proof) -> list[Finding]:
    """``metric.clock_drop``; ``spread`` is ``fleet``, ``part`` (several nodes) or ``node``, ``why`` is ``limit``, ``setting`` or empty."""
    import numpy as np

    clock, util = frame.get(_CLOCK), frame.get(_UTIL)
    if clock is None or util is None or not frame.timed or len(frame.times) < _BEFORE + _AFTER:
        return []
    power, limit = frame.get(_POWER), frame.get(*_LIMITS)
    if power is None and limit is None:
        return []
    whole = frame.whole()
    nodes: dict[str, list[int]] = {}
    for row in np.flatnonzero(whole):
        name = frame.entities[int(row)].node
        if name is not None:
            nodes.setdefault(name, []).append(int(row))
    busy = util >= _BUSY
    low = _low_at_end(clock, busy)
    fallen: dict[str, int] = {}
    for name, rows in nodes.items():
        if low[rows].sum() < _SHARE * len(rows):
            continue
        starts = [start for row in rows if (start := _start(frame, row, clock, busy, power, limit)) is not None]
        together = _together(starts, len(rows))
        if together is not None:
            fallen[name] = together
    if not fallen:
        return []
    at = int(np.median(list(fallen.values())))
    alike = {name: start for name, start in fallen.items() if abs(start - at) <= 2}
    if len(alike) < len(fallen) and len(alike) < _SHARE * len(nodes):
        return []  # some nodes at several times: neither one supply nor one node
    spread = "node" if len(alike) == 1 else "fleet" if len(alike) >= _SHARE * len(nodes) else "part"
    return [_finding(frame, proof, nodes, alike, clock, power, limit, spread)]


def _low_at_end(clock: np.ndarray, busy: np.ndarray) -> np.ndarray:
    """[GPU], whether the last clock under load is far below the highest: all that a closer look is worth for."""
    import numpy as np

    loaded = busy & ~np.isnan(clock)
    column = clock.shape[1] - 1 - np.argmax(loaded[:, ::-1], axis=1)
    last = clock[np.arange(len(clock)), column]
    highest = np.max(clock, axis=1, where=loaded, initial=0.0)
    found: np.ndarray = last < _DROP * highest
    return found


def _together(starts: list[int], gpus: int) -> int | None:
    import numpy as np

    if gpus < _GPUS or len(starts) < _SHARE * gpus:
        return None
    at = int(np.median(starts))
    near = [start for start in starts if abs(start - at) <= 2]
    return at if len(near) >= _SHARE * gpus else None


def _start(
    frame: Frame, row: int, clock: np.ndarray, busy: np.ndarray, power: np.ndarray | None, limit: np.ndarray | None
) -> int | None:
    """Column where the clock of a GPU falls and stays low under load, with less power or a lower limit than before."""
    import numpy as np

    loaded = np.flatnonzero(busy[row] & ~np.isnan(clock[row]))
    if len(loaded) < _BEFORE + _AFTER:
        return None
    level = float(np.median(clock[row, loaded[: max(_BEFORE, len(loaded) // 4)]]))
    low = clock[row, loaded] < _DROP * level
    streak = runs(low[None, :])[0]
    if streak[-1] < _AFTER:
        return None  # it came back, or never stayed low
    first = len(low) - int(streak[-1])
    before, after = loaded[:first], loaded[first:]
    if len(before) < _BEFORE or low[:first].mean() > 0.2:
        return None
    reasons = frame.get(_REASONS)
    if reasons is not None:
        said = np.nan_to_num(reasons[row, after]).astype(np.int64)
        if float(((said & (HEAT | BRAKE)) != 0).mean()) > 0.2:
            return None  # heat and the brake are told by their own signs
    lowered = limit is not None and _level(limit[row], after) < _DROP * _level(limit[row], before)
    less = False
    if power is not None:
        share = _level(power[row], after) / max(1.0, _level(power[row], before))
        less = _HANGS < share < _LESS
    return int(after[0]) if lowered or less else None


def _level(values: np.ndarray, columns: np.ndarray) -> float:
    import numpy as np

    seen = values[columns]
    seen = seen[~np.isnan(seen)]
    return float(np.median(seen)) if len(seen) else float("nan")


def _finding(
    frame: Frame,
    proof: Proof,
    nodes: dict[str, list[int]],
    fallen: dict[str, int],
    clock: np.ndarray,
    power: np.ndarray | None,
    limit: np.ndarray | None,
    spread: str,
) -> Finding:
    import numpy as np

    names = sorted(fallen)
    rows = [row for name in names for row in nodes[name]]
    start = min(fallen.values())
    columns = np.arange(len(frame.times))
    before, after = columns[:start], columns[start + 2 :] if start + 2 < len(columns) else columns[start:]

    def level(plane: np.ndarray, part: np.ndarray) -> float:
        return float(np.nanmedian(plane[rows][:, part]))

    was, now = level(clock, before), level(clock, after)
    fields: dict[str, object] = {
        "spread": spread,
        "gpus": len(rows),
        "nodes": len(names),
        "clock": round(now),
        "clock_before": round(was),
        "why": "",
    }
    shown = [_CLOCK]
    text = f"fell from {was:.0f} to {now:.0f} MHz at once while the load stayed"
    if power is not None:
        fields["power"], fields["power_before"] = round(level(power, after)), round(level(power, before))
        text += f", and draw {fields['power']} W instead of {fields['power_before']}"
        shown.append(_POWER)
    reasons = frame.get(_REASONS)
    if limit is not None and level(limit, after) < _DROP * level(limit, before):
        fields["why"] = "limit"
        text += f": their power limit was lowered from {level(limit, before):.0f} to {level(limit, after):.0f} W"
        shown.insert(0, next(name for name in _LIMITS if frame.get(name) is not None))
    elif reasons is not None and (np.nan_to_num(reasons[rows][:, after]).astype(np.int64) & _SETTINGS).any():
        fields["why"] = "setting"
        text += ": a setting limits their clocks"
        shown.append(_REASONS)
    finding = proof.finding(
        frame,
        "metric.clock_drop",
        rows[0],
        "",
        [(name, rows[0], column) for name in shown for column in (max(0, start - 1), start)],
        last=int(columns[-1]),
        role=Role.ROOT,
        severity=Severity.WARNING,
        count=len(rows),
        fields=fields,
    )
    where = f"{len(names)} nodes" if len(names) > 1 else names[0]
    finding.text = f"The clocks of {len(rows)} GPUs on {where} {text}"
    finding.nodes = tuple(names)
    finding.node = names[0] if spread == "node" else None
    finding.gpu = finding.pci = finding.uuid = None
    finding.first = int(frame.times[start])
    return finding
