"""GPU memory in metrics: uncorrectable and corrected errors, row remapping, a full or suddenly empty frame buffer."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aiops.detect.metrics_evidence import Proof
from aiops.detect.metrics_frame import Frame
from aiops.detect.metrics_math import PEERS, first_run, last_value, persistence, steps_up, varying
from aiops.model import Finding, Role, Severity

if TYPE_CHECKING:
    import numpy as np

_DBE = ("DCGM_FI_DEV_ECC_DBE_VOL_TOTAL", "DCGM_FI_DEV_ECC_DBE_AGG_TOTAL")
_SBE = ("DCGM_FI_DEV_ECC_SBE_VOL_TOTAL", "DCGM_FI_DEV_ECC_SBE_AGG_TOTAL")
_PENDING = ("DCGM_FI_DEV_ROW_REMAP_PENDING", "DCGM_FI_DEV_RETIRED_PENDING")
_BROKEN = ("DCGM_FI_DEV_ROW_REMAP_FAILURE", "DCGM_FI_DEV_MEMORY_UNREPAIRABLE_FLAG")
_USED = "DCGM_FI_DEV_FB_USED"

_STORM = 20
"""Corrected errors in the window that are worth a look; a handful a day is normal for HBM."""
_STORM_SNAPSHOT = 1_000
_STORM_PEERS = 20
"""How many times the median of the other GPUs, at least."""
_FULL = 0.97
_EMPTY = 0.05
_LEAK_STEPS = 16
_LEAK = 1.25
"""Growth of the memory in use, and at least so many samples, before it is a leak; it must end at `_LEAK_END` of all."""
_LEAK_END = 0.95
_MANY = 4
"""More GPUs than this are one finding: then it is how the job works, not one GPU."""


def find(frame: Frame, proof: Proof) -> list[Finding]:
    """Signs ``metric.`` ``ecc_dbe``, ``ecc_sbe_storm``, ``row_remap*``, ``fb_full``, ``fb_drop`` and ``mem_growth``."""
    return [
        *_uncorrectable(frame, proof),
        *_corrected(frame, proof),
        *_remapped(frame, proof),
        *_pending(frame, proof),
        *_broken(frame, proof),
        *_full(frame, proof),
        *_drop(frame, proof),
        *_growing(frame, proof),
    ]


def _uncorrectable(frame: Frame, proof: Proof) -> list[Finding]:
    import numpy as np

    found: list[Finding] = []
    told: set[int] = set()
    for name in _DBE:
        values = frame.get(name)
        if values is None:
            continue
        for row in varying(values):
            grown = steps_up(values[row])
            when = np.flatnonzero(grown)
            if len(when) and row not in told:
                told.add(int(row))
                errors = int(grown.sum())
                found.append(
                    proof.finding(
                        frame,
                        "metric.ecc_dbe",
                        int(row),
                        f"counted {errors} uncorrectable memory error(s)",
                        [(name, int(row), int(when[0])), (name, int(row), int(when[-1]))],
                        severity=Severity.FATAL,
                        last=int(when[-1]),
                        count=errors,
                        fields={"errors": errors, "metric": name, "new": True},
                    )
                )
        newest = last_value(values)
        for row in np.flatnonzero(newest > 0):
            if row in told:
                continue
            told.add(int(row))
            samples = int((~np.isnan(values[row])).sum())
            # lifetime counts, and counts that stood there all the time, are history
            fresh = samples == 1 and name == _DBE[0]
            text = f"shows {int(newest[row])} uncorrectable memory error(s)"
            text += "" if fresh else " over its lifetime" if name != _DBE[0] else " since before the window"
            column = int(np.flatnonzero(~np.isnan(values[row]))[-1])
            found.append(
                proof.finding(
                    frame,
                    "metric.ecc_dbe",
                    int(row),
                    text,
                    [(name, int(row), column)],
                    role=Role.ROOT if fresh else Role.CONTEXT,
                    severity=Severity.FATAL if fresh else Severity.WARNING,
                    fields={"errors": int(newest[row]), "metric": name, "new": fresh},
                )
            )
    return found


def _corrected(frame: Frame, proof: Proof) -> list[Finding]:
    """Far more corrected errors than the other GPUs: not an error yet, often its forerunner."""
    import numpy as np

    found: list[Finding] = []
    told: set[int] = set()
    for name in _SBE:
        values = frame.get(name)
        if values is None or len(values) <= PEERS:
            continue
        if frame.timed:
            total = np.zeros(len(values))
            growth = {int(row): steps_up(values[row]) for row in varying(values)}
            for changed, grown in growth.items():
                total[changed] = grown.sum()
            least = _STORM
        else:
            total, growth, least = np.nan_to_num(last_value(values)), {}, _STORM_SNAPSHOT
        usual = float(np.median(total[~np.isnan(values).all(axis=1)])) if not np.isnan(values).all() else 0.0
        for row in np.flatnonzero(total >= max(least, _STORM_PEERS * usual)):
            if row in told:
                continue
            told.add(int(row))
            when = np.flatnonzero(growth[int(row)]) if int(row) in growth else np.array([0])
            found.append(
                proof.finding(
                    frame,
                    "metric.ecc_sbe_storm",
                    int(row),
                    f"counted {int(total[row])} corrected memory errors, the median of the other GPUs is {usual:.0f}",
                    [(name, int(row), int(when[0])), (name, int(row), int(when[-1]))],
                    role=Role.CONTEXT,
                    severity=Severity.WARNING,
                    last=int(when[-1]),
                    count=int(total[row]),
                    fields={"errors": int(total[row]), "peers": usual, "metric": name},
                )
            )
    return found


def _remapped(frame: Frame, proof: Proof) -> list[Finding]:
    """A row was replaced by a spare one within the window: the mark of an uncorrectable error."""
    import numpy as np

    name = "DCGM_FI_DEV_UNCORRECTABLE_REMAPPED_ROWS"
    values = frame.get(name)
    found = []
    for row in varying(values) if values is not None else ():
        assert values is not None
        grown = steps_up(values[row])
        when = np.flatnonzero(grown)
        if len(when):
            rows = int(grown.sum())
            found.append(
                proof.finding(
                    frame,
                    "metric.row_remap",
                    int(row),
                    f"remapped {rows} memory row(s) after uncorrectable errors",
                    [(name, int(row), int(when[0]))],
                    last=int(when[-1]),
                    count=rows,
                    fields={"rows": rows, "total": int(last_value(values[row][None, :])[0])},
                )
            )
    return found


def _pending(frame: Frame, proof: Proof) -> list[Finding]:
    import numpy as np

    found = []
    for name in _PENDING:
        values = frame.get(name)
        if values is None:
            continue
        what = "row remapping" if name == _PENDING[0] else "page retirement"
        newest = last_value(values)
        for row in np.flatnonzero((values > 0).any(axis=1)):
            column = int(np.flatnonzero(values[row] > 0)[0])
            now = newest[row] > 0
            text = f"has a pending {what}: it needs a reset" if now else f"had a pending {what} until a reset"
            found.append(
                proof.finding(
                    frame,
                    "metric.row_remap_pending",
                    int(row),
                    text,
                    [(name, int(row), column)],
                    role=Role.ROOT if now else Role.CONTEXT,
                    severity=Severity.WARNING,
                    fields={"metric": name, "pending": bool(now), "since_start": _from_start(values[row], column)},
                )
            )
    return found


def _broken(frame: Frame, proof: Proof) -> list[Finding]:
    import numpy as np

    found: list[Finding] = []
    told: set[int] = set()
    for name in _BROKEN:
        values = frame.get(name)
        if values is None:
            continue
        for row in np.flatnonzero((values > 0).any(axis=1)):
            if row in told:
                continue
            told.add(int(row))
            column = int(np.flatnonzero(values[row] > 0)[0])
            found.append(
                proof.finding(
                    frame,
                    "metric.row_remap_failure",
                    int(row),
                    "cannot remap a damaged memory row any more: it has to be replaced",
                    [(name, int(row), column)],
                    severity=Severity.FATAL,
                    fields={"metric": name, "since_start": _from_start(values[row], column)},
                )
            )
    return found


def _from_start(row: np.ndarray, column: int) -> bool:
    import numpy as np

    return bool(np.flatnonzero(~np.isnan(row))[0] == column)


def _full(frame: Frame, proof: Proof) -> list[Finding]:
    import numpy as np

    used, total = frame.get(_USED), frame.get("DCGM_FI_DEV_FB_TOTAL")
    free, reserved = frame.get("DCGM_FI_DEV_FB_FREE"), frame.get("DCGM_FI_DEV_FB_RESERVED")
    if used is None or (total is None and free is None):
        return []
    if total is None:
        assert free is not None
        total = used + free + (0 if reserved is None else np.nan_to_num(reserved))
    with np.errstate(divide="ignore", invalid="ignore"):
        share = used / total
    rows = np.flatnonzero((share >= _FULL).any(axis=1))
    samples = [(_USED, int(row), int(np.nanargmax(share[row]))) for row in rows]
    shown = rows if len(rows) <= _MANY else rows[:1]
    found = []
    for row, sample in zip(shown, samples, strict=False):
        percent = float(share[row, sample[2]]) * 100
        others = f", as have {len(rows) - 1} others" if len(rows) > _MANY else ""
        finding = proof.finding(
            frame,
            "metric.fb_full",
            int(row),
            f"has {percent:.0f} % of its memory in use{others}",
            [sample],
            role=Role.CONTEXT,
            severity=Severity.INFO,
            count=len(rows) if others else 1,
            fields={"percent": round(percent, 1)},
        )
        if others:
            finding.nodes = tuple(dict.fromkeys(e for e in (frame.entities[r].node for r in rows) if e))
        found.append(finding)
    return found


def _drop(frame: Frame, proof: Proof) -> list[Finding]:
    """The memory of one GPU is released while the others keep theirs: its process ended first."""
    import numpy as np

    used = frame.get(_USED)
    hold = persistence(frame)
    if used is None or len(frame.times) < 2 * hold or len(used) <= PEERS:
        return []
    level = np.fmax.accumulate(np.nan_to_num(used), axis=1)
    busy = level > 0.2 * np.fmax.reduce(level[:, -1])
    low = (used <= _EMPTY * level) & busy
    kept = (used >= 0.5 * level) & busy
    found = []
    for row in np.flatnonzero(low.any(axis=1)):
        column = first_run(low[row], hold)
        if column <= 0:
            continue
        others = np.flatnonzero(busy[:, column] & (np.arange(len(used)) != row))
        until = slice(column, column + hold)
        if len(others) >= PEERS and kept[others][:, until].all(axis=1).mean() >= 0.75:
            before, after = float(level[row, column - 1]), float(used[row, column])
            found.append(
                proof.finding(
                    frame,
                    "metric.fb_drop",
                    int(row),
                    f"released its memory ({before:.0f} to {after:.0f} MiB) while the others kept theirs",
                    [(_USED, int(row), column), (_USED, int(row), column - 1)],
                    role=Role.ECHO,
                    severity=Severity.WARNING,
                    fields={"before_mib": round(before), "after_mib": round(after)},
                )
            )
    return found


def _growing(frame: Frame, proof: Proof) -> list[Finding]:
    """Memory that grows from sample to sample, in both halves of the window, until the GPU is nearly full."""
    import numpy as np

    used, total = frame.get(_USED), frame.get("DCGM_FI_DEV_FB_TOTAL")
    free = frame.get("DCGM_FI_DEV_FB_FREE")
    if used is None or (total is None and free is None) or len(frame.times) < _LEAK_STEPS:
        return []
    newest = last_value(used)
    found = []
    for row in np.flatnonzero(newest >= _LEAK * np.fmin.reduce(used, axis=1)):
        seen = np.flatnonzero(~np.isnan(used[row]))
        values = used[row, seen].astype(np.float64)
        if total is not None:
            size = float(np.fmax.reduce(total[row]))
        else:
            assert free is not None
            size = float(np.fmax.reduce(used[row] + free[row]))
        if len(values) < _LEAK_STEPS or not values[-1] >= _LEAK_END * size or values[-1] < _LEAK * values[0]:
            continue
        steps, grown, half = np.diff(values), values[-1] - values[0], values[len(values) // 2]
        both = min(half - values[0], values[-1] - half) >= 0.3 * grown
        if not both or (steps < -0.005 * values[:-1]).sum() * 10 > len(steps) or steps.max() > 0.3 * grown:
            continue
        found.append(
            proof.finding(
                frame,
                "metric.mem_growth",
                int(row),
                f"used more and more memory, from {values[0] / 1024:.1f} to {values[-1] / 1024:.1f} GiB",
                [(_USED, int(row), int(seen[0])), (_USED, int(row), int(seen[-1]))],
                severity=Severity.WARNING,
                last=int(seen[-1]),
                count=len(values),
                fields={"from_gib": round(values[0] / 1024, 1), "to_gib": round(values[-1] / 1024, 1)},
            )
        )
    return found
