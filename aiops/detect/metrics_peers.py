"""How far a GPU is from its peers: robust scores by median and median absolute deviation. Arrays are [GPU][time].

Groups of 4, 8 or 16, the usual node sizes, are sorted by a network of minima and maxima over whole planes, which is
several times as fast as sorting each column; columns with gaps take the general way.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING

from aiops.detect.metrics_math import PEERS

if TYPE_CHECKING:
    import numpy as np

_TO_SIGMA = 0.6745
"""MAD of a normal distribution with sigma 1."""
_FLOOR = 0.01
"""Least MAD as a share of the median (FORMULAS §5.9): equal peers must not make noise an outlier."""
_TILE = 1 << 14
"""Columns worked on at a time, so that the planes of a group stay in the cache."""


def robust_scores(values: np.ndarray, groups: np.ndarray) -> np.ndarray:
    """``0.6745 (x - median) / MAD`` of each sample within its group at each time.

    NaN where a sample is missing, or fewer than `PEERS` + 1 of the group were sampled, or the group has no number.

    Args:
        values: float32 samples.
        groups: number of the group of each row, -1 for none, see `metrics_math.peer_groups`.
    """
    import numpy as np

    scores = np.full(values.shape, np.nan, dtype=np.float32)
    order = np.argsort(groups, kind="stable")
    order = order[groups[order] >= 0]
    sizes: dict[int, list[np.ndarray]] = {}
    for rows in np.split(order, np.flatnonzero(np.diff(groups[order])) + 1):
        if len(rows) > PEERS:
            sizes.setdefault(len(rows), []).append(rows)
    for size, members in sizes.items():
        step = max(1, _TILE // values.shape[1])
        for begin in range(0, len(members), step):
            rows = np.stack(members[begin : begin + step], axis=1)
            planes = values[rows].reshape(size, -1)
            scores[rows] = _scores(planes).reshape(size, -1, values.shape[1])
    return scores


def _scores(planes: np.ndarray) -> np.ndarray:
    """Scores of [member][column]."""
    import numpy as np

    median = _median(planes)
    distance: np.ndarray = planes - median
    spread = np.maximum(_median(np.abs(distance)), _FLOOR * np.abs(median))
    with np.errstate(divide="ignore", invalid="ignore"):
        scores: np.ndarray = distance * (_TO_SIGMA / spread)
    same = spread == 0
    if same.any():  # no spread and a median of zero: who equals it is no distance away, anybody else is far
        scores[:, same] = np.where(distance[:, same] == 0, 0, np.copysign(np.inf, distance[:, same]))
        scores[np.isnan(planes)] = np.nan
    return scores


def _median(planes: np.ndarray) -> np.ndarray:
    """Median of each column over those sampled, NaN where they are fewer than `PEERS` + 1."""
    import numpy as np

    size = len(planes)
    if size & (size - 1) or size > 16:
        return _slow(planes)
    sorted_: list[np.ndarray] = list(planes)
    for low, high in _network(size):
        sorted_[low], sorted_[high] = np.minimum(sorted_[low], sorted_[high]), np.maximum(sorted_[low], sorted_[high])
    middle: np.ndarray = (sorted_[size // 2 - 1] + sorted_[size // 2]) * np.float32(0.5)
    gaps = np.flatnonzero(np.isnan(sorted_[0]))  # minima and maxima carry NaN everywhere
    if len(gaps):
        middle[gaps] = _slow(planes[:, gaps])
    return middle


def _slow(planes: np.ndarray) -> np.ndarray:
    import numpy as np

    ordered = np.sort(planes, axis=0)  # NaN comes last
    count = (~np.isnan(ordered)).sum(axis=0)
    low, high = np.maximum(count - 1, 0) // 2, np.minimum(count // 2, len(planes) - 1)
    columns = np.arange(planes.shape[1])
    middle: np.ndarray = (ordered[low, columns] + ordered[high, columns]) * np.float32(0.5)
    middle[count <= PEERS] = np.nan
    return middle


@functools.cache
def _network(size: int) -> tuple[tuple[int, int], ...]:
    """Comparators of Batcher's odd-even merge sort for a power of two (Knuth, TAOCP 5.2.2, algorithm M)."""
    found = []
    p = size >> 1
    while p:
        q, r, d = size >> 1, 0, p
        while d:
            found += [(i, i + d) for i in range(size - d) if i & p == r]
            d, q, r = q - p, q >> 1, p
        p >>= 1
    return tuple(found)
