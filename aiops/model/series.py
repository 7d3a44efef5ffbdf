"""Metric samples as dense float32 blocks."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np


@dataclass(frozen=True, slots=True)
class SeriesEntity:
    """The GPU (or NIC, or node) that a row of samples belongs to."""

    node: str | None
    gpu: int | None = None
    uuid: str | None = None
    pci: str | None = None
    """Canonical PCI id, see `model.entity.canonical_pci`."""
    pod: str | None = None
    job: str | None = None
    device: str | None = None
    """NIC or other device name for series that are not about a GPU."""
    labels: tuple[tuple[str, str], ...] = ()


@dataclass(slots=True)
class SeriesBlock:
    """All samples of one source.

    ``values`` has shape [field][entity][time], float32, NaN = not sampled (absent is not zero).
    ``times`` has shape [time], int64, UTC nanoseconds since 1970; a snapshot without time has one column
    and ``times[0] == model.event.NO_TIME``.
    """

    source: int
    """Index into `Case.sources`."""
    fields: list[str]
    """Canonical metric names (DCGM names without renames), one per plane of ``values``."""
    units: list[str]
    counters: list[bool]
    """True where the field is a monotonic counter (with resets)."""
    entities: list[SeriesEntity]
    times: np.ndarray
    values: np.ndarray
    text: dict[tuple[int, int], str] = field(default_factory=dict)
    """Source text of the last sample of (field index, entity index), for evidence."""
    lines: dict[tuple[int, int], int] = field(default_factory=dict)
    """Line number of that sample, where the source has lines."""
