"""Metric curves for charts: the culprit against its peers, thinned to what a screen can show."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

from aiops.correlate.model import IncidentDraft
from aiops.model.case import Case
from aiops.model.series import SeriesBlock, SeriesEntity

if TYPE_CHECKING:
    import numpy as np

_FIELDS = (
    "DCGM_FI_DEV_GPU_TEMP",
    "DCGM_FI_DEV_SM_CLOCK",
    "DCGM_FI_DEV_POWER_USAGE",
    "DCGM_FI_DEV_GPU_UTIL",
    "DCGM_FI_DEV_ECC_DBE_VOL_TOTAL",
    "DCGM_FI_DEV_ECC_SBE_VOL_TOTAL",
    "DCGM_FI_DEV_FB_USED",
    "DCGM_FI_DEV_XID_ERRORS",
)
POINTS = 120


def curves(case: Case, incident: IncidentDraft) -> list[dict[str, object]]:
    """Dicts ``{"field","unit","entity","role","points"}``; ``points`` are [ISO time, value or null].

    ``role`` is ``culprit`` or ``peers_median`` (of all other GPUs of the block).
    """
    import numpy as np

    suspect = incident.best.suspect
    found: list[dict[str, object]] = []
    for block in case.series:
        if len(block.times) < 3:
            continue
        rows = [i for i, e in enumerate(block.entities) if _is(e, suspect.node, suspect.gpu, suspect.pci, suspect.uuid)]
        if not rows:
            continue
        step = max(1, len(block.times) // POINTS)
        for name in _FIELDS:
            if name not in block.fields:
                continue
            plane = block.values[block.fields.index(name)]
            own = plane[rows[0]]
            others = np.delete(plane, rows, axis=0)
            if not np.isfinite(own).any():
                continue
            unit = block.units[block.fields.index(name)]
            found.append(_curve(block, name, unit, _name(block.entities[rows[0]]), "culprit", own, step))
            if len(others):
                with np.errstate(all="ignore"):
                    seen = np.isfinite(others).any(axis=0)
                    middle = np.full(own.shape, np.nan, dtype=np.float32)
                    if seen.any():
                        middle[seen] = np.nanmedian(others[:, seen], axis=0)
                found.append(_curve(block, name, unit, f"median of {len(others)} peers", "peers_median", middle, step))
    return found[:16]


def _is(entity: SeriesEntity, node: str | None, gpu: int | None, pci: str | None, uuid: str | None) -> bool:
    if uuid and entity.uuid:
        return entity.uuid == uuid
    if node is None or entity.node != node:
        return False
    return (pci is not None and entity.pci == pci) or (gpu is not None and entity.gpu == gpu)


def _name(entity: SeriesEntity) -> str:
    return f"{entity.node or '?'} GPU {entity.gpu if entity.gpu is not None else entity.pci or entity.uuid}"


def _curve(
    block: SeriesBlock, field: str, unit: str, entity: str, role: str, values: np.ndarray, step: int
) -> dict[str, object]:
    import numpy as np

    points: list[list[object]] = []
    for i in range(0, len(block.times), step):
        chunk = values[i : i + step]
        finite = chunk[np.isfinite(chunk)]
        moment = datetime.fromtimestamp(int(block.times[i]) / 1e9, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        points.append([moment, round(float(finite.max()), 3) if len(finite) else None])
    return {"field": field, "unit": unit, "entity": entity, "role": role, "points": points}
