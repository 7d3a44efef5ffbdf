"""PCIe and NVLink in metrics: replays, links that retrained to fewer lanes, link errors."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aiops.detect.metrics_evidence import Proof
from aiops.detect.metrics_frame import Frame
from aiops.detect.metrics_math import first_run, group_median, peer_groups, persistence, steps_up, varying
from aiops.model import Finding, Severity

if TYPE_CHECKING:
    import numpy as np

_REPLAY = "DCGM_FI_DEV_PCIE_REPLAY_COUNTER"
_WIDTH, _MAX_WIDTH = "DCGM_FI_DEV_PCIE_LINK_WIDTH", "DCGM_FI_DEV_PCIE_MAX_LINK_WIDTH"
_GEN = "DCGM_FI_DEV_PCIE_LINK_GEN"
_UTIL = "DCGM_FI_DEV_GPU_UTIL"
_RETRAINED = ("DCGM_FI_DEV_NVLINK_RECOVERY_ERROR_COUNT_TOTAL", "DCGM_FI_DEV_NVLINK_COUNT_LINK_RECOVERY_FAILED_EVENTS")
_NVLINK = {
    "DCGM_FI_DEV_NVLINK_CRC_FLIT_ERROR_COUNT_TOTAL": "CRC flit errors",
    "DCGM_FI_DEV_NVLINK_CRC_DATA_ERROR_COUNT_TOTAL": "CRC data errors",
    "DCGM_FI_DEV_NVLINK_REPLAY_ERROR_COUNT_TOTAL": "replays",
    "DCGM_FI_DEV_NVLINK_RECOVERY_ERROR_COUNT_TOTAL": "recoveries",
    "DCGM_FI_DEV_NVLINK_COUNT_RX_ERRORS": "receive errors",
    "DCGM_FI_DEV_NVLINK_COUNT_LOCAL_LINK_INTEGRITY_ERRORS": "integrity errors",
    "DCGM_FI_DEV_NVLINK_COUNT_LINK_RECOVERY_FAILED_EVENTS": "failed recoveries",
    "DCGM_FI_DEV_NVLINK_COUNT_EFFECTIVE_ERRORS": "errors after correction",
}

_REPLAYS = 20
"""Replays in the window that are worth a look, and"""
_RATE = 10.0
"""replays a minute at the worst (SCHEDULERS §4.2); a few after boot are normal."""
_ERRORS = 10
_PEERS = 10.0
"""How many times the median of the other GPUs, at least."""
_LOADED = 50.0


def find(frame: Frame, proof: Proof) -> list[Finding]:
    """``metric.pcie_replay``, ``metric.pcie_width``, ``metric.nvlink_errors``."""
    return [*_replays(frame, proof), *_width(frame, proof), *_nvlink(frame, proof)]


def _replays(frame: Frame, proof: Proof) -> list[Finding]:
    import numpy as np

    found = []
    for row, grown, usual in _growth(frame, _REPLAY):
        total = float(grown.sum())
        gaps = np.diff(frame.times) / 60e9
        rate = float((grown[1:] / gaps).max())
        if total < _REPLAYS or total < _PEERS * (usual + 1) or (rate < _RATE and np.count_nonzero(grown) < 3):
            continue
        when = np.flatnonzero(grown)
        found.append(
            proof.finding(
                frame,
                "metric.pcie_replay",
                row,
                f"retried {total:.0f} PCIe packets, the median of the others is {usual:.0f}",
                [(_REPLAY, row, int(when[0])), (_REPLAY, row, int(when[-1]))],
                last=int(when[-1]),
                severity=Severity.WARNING,
                count=int(total),
                fields={"replays": int(total), "peers": usual, "worst_per_minute": round(rate, 1)},
            )
        )
    return found


def _growth(frame: Frame, name: str) -> list[tuple[int, np.ndarray, float]]:
    """Rows of a counter that grew, with the growth at each sample and the median growth of all rows."""
    import numpy as np

    values = frame.get(name)
    if values is None or not frame.timed:
        return []
    growth = {int(row): steps_up(values[row]) for row in varying(values)}
    totals = np.zeros(len(values))
    for row, grown in growth.items():
        totals[row] = grown.sum()
    usual = float(np.median(totals))
    return [(row, grown, usual) for row, grown in growth.items() if totals[row] > 0]


def _width(frame: Frame, proof: Proof) -> list[Finding]:
    """Fewer lanes (or, at work, a lower generation) than before, than possible or than the peers."""
    import numpy as np

    width = frame.get(_WIDTH)
    found: list[Finding] = []
    told: set[int] = set()
    for name, values, unit in ((_WIDTH, width, "lanes"), (_GEN, _at_work(frame), "generation")):
        if values is None:
            continue
        best = np.fmax.accumulate(values, axis=1)
        groups = peer_groups(frame)
        peers = group_median(values, groups, np.fmin.reduce(values, axis=1) < np.fmax.reduce(values, axis=None))
        limit = frame.get(_MAX_WIDTH) if name == _WIDTH else None
        with np.errstate(invalid="ignore"):
            below = (values < best) | (values < peers)
            if limit is not None:
                below |= (values < limit) & ~(peers < limit)
        hold = persistence(frame)
        for row in np.flatnonzero(below.any(axis=1)):
            start = first_run(below[row], hold)
            if start < 0 or row in told:
                continue
            told.add(int(row))
            columns = np.flatnonzero(below[row])
            now = int(values[row, columns[-1]])
            usual = int(np.nanmax([best[row, start], peers[row, start], limit[row, start] if limit is not None else 0]))
            before = [(name, int(row), start - 1)] if start > 0 and values[row, start - 1] > now else []
            found.append(
                proof.finding(
                    frame,
                    "metric.pcie_width",
                    int(row),
                    f"has a PCIe link of {now} instead of {usual} {unit}"
                    if unit == "lanes"
                    else f"has a PCIe link of generation {now} instead of {usual}",
                    [(name, int(row), start), *before],
                    last=int(columns[-1]),
                    count=len(columns),
                    fields={"now": now, "before": usual, "what": unit},
                )
            )
    return found


def _at_work(frame: Frame) -> np.ndarray | None:
    """Link generation where the GPU is at work; an idle link slows down on purpose."""
    import numpy as np

    gen, util = frame.get(_GEN), frame.get(_UTIL)
    return None if gen is None or util is None else np.where(util >= _LOADED, gen, np.nan)


def _nvlink(frame: Frame, proof: Proof) -> list[Finding]:
    """One finding for each GPU, over all of its NVLink error counters."""
    import numpy as np

    by_gpu: dict[tuple[object, ...], list[tuple[str, int, np.ndarray]]] = {}
    for name in _NVLINK:
        for row, grown, usual in _growth(frame, name):
            total = float(grown.sum())
            if name in _RETRAINED or (total >= _ERRORS and total >= _PEERS * (usual + 1)):
                entity = frame.entities[row]
                key = entity.node, entity.uuid or entity.pci or entity.gpu
                by_gpu.setdefault(key, []).append((name, row, grown))
    found = []
    for counters in by_gpu.values():
        counters.sort(key=lambda item: (int(np.flatnonzero(item[2])[0]), item[0], item[1]))
        totals: dict[str, int] = {}
        for name, _, grown in counters:
            totals[name] = totals.get(name, 0) + int(grown.sum())
        worst = any(name in _RETRAINED for name in totals)
        parts = ", ".join(f"{count} {_NVLINK[name]}" for name, count in totals.items())
        samples = [(name, row, int(np.flatnonzero(grown)[0])) for name, row, grown in counters[:3]]
        found.append(
            proof.finding(
                frame,
                "metric.nvlink_errors",
                counters[0][1],
                f"counted NVLink {parts}",
                samples,
                last=int(np.flatnonzero(counters[0][2])[-1]),
                count=sum(totals.values()),
                severity=Severity.ERROR if worst else Severity.WARNING,
                fields={"errors": totals, "retrained": worst},
            )
        )
    return found
