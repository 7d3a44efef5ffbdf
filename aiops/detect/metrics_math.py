"""Array operations that the metric detectors share. Arrays have shape [GPU][time]; NaN = not sampled."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aiops.detect.metrics_frame import Frame

if TYPE_CHECKING:
    import numpy as np

PEERS = 4
"""Other GPUs that a comparison needs (FORMULAS §5.9: at least four)."""
_DIP = 3
"""Samples within which a counter that fell must be back for the fall to be a scrape's blank, not a reset."""


def persistence(frame: Frame, samples: int = 3) -> int:
    """How many samples in a row a condition must hold, so that one odd scrape is no finding."""
    columns = len(frame.times)
    return samples if columns >= 2 * samples else max(1, columns // 2)


def runs(mask: np.ndarray) -> np.ndarray:
    """Length of the run of true values that ends at each cell."""
    import numpy as np

    index = np.arange(mask.shape[1])
    last = np.maximum.accumulate(np.where(mask, -1, index), axis=1)
    return np.where(mask, index - last, 0)


def first_run(mask: np.ndarray, length: int) -> int:
    """Column where the first run of at least ``length`` true values of one row begins; -1 if there is none."""
    import numpy as np

    hits = np.flatnonzero(runs(mask[None, :])[0] == length)
    return int(hits[0]) - length + 1 if len(hits) else -1


def varying(values: np.ndarray) -> np.ndarray:
    """Rows whose samples are not all equal."""
    import numpy as np

    return np.flatnonzero(np.fmax.reduce(values, axis=1) > np.fmin.reduce(values, axis=1))


def steps_up(row: np.ndarray) -> np.ndarray:
    """Increase of a counter at each sample, with gaps bridged and resets seen.

    After a reset the new value counts, as in PromQL's ``increase``. A fall to a lower value from which the counter
    returns at once is no reset: an exporter that has just started reports zeros.
    """
    import numpy as np

    seen = np.flatnonzero(~np.isnan(row))
    grown = np.zeros(len(row), dtype=np.float64)
    values = row[seen].astype(np.float64)
    if len(values) < 2:
        return grown
    for i in np.flatnonzero(np.diff(values) < 0):
        later = values[i + 2 : i + 2 + _DIP]
        back = np.flatnonzero(later >= values[i])
        if len(back):
            values[i + 1 : i + 2 + back[0]] = values[i]
    change = np.diff(values)
    grown[seen[1:]] = np.where(change < 0, values[1:], change)
    return grown


def last_value(values: np.ndarray) -> np.ndarray:
    """[GPU], the newest sample of each row, NaN for rows without."""
    import numpy as np

    seen = ~np.isnan(values)
    column = values.shape[1] - 1 - np.argmax(seen[:, ::-1], axis=1)
    return np.where(seen.any(axis=1), values[np.arange(len(values)), column], np.nan)


def peer_groups(frame: Frame) -> np.ndarray:
    """[GPU], number of the group in which a GPU is compared, -1 for none.

    The whole GPUs of one model on its node if they are more than `PEERS`; else all of that model. Slices have none.
    """
    import numpy as np

    whole = frame.whole()
    model = [dict(entity.labels).get("model", "") for entity in frame.entities]
    groups = np.full(len(frame.entities), -1)
    number = 0
    for keys in (
        [(entity.node or "", model[i]) for i, entity in enumerate(frame.entities)],
        [("", name) for name in model],
    ):
        members: dict[tuple[str, str], list[int]] = {}
        for i in np.flatnonzero(whole & (groups < 0)):
            members.setdefault(keys[i], []).append(int(i))
        for rows in members.values():
            if len(rows) > PEERS:
                groups[rows] = number
                number += 1
    return groups


def group_median(values: np.ndarray, groups: np.ndarray, wanted: np.ndarray) -> np.ndarray:
    """Median of each GPU's group at each time, NaN where fewer than `PEERS` + 1 of it were sampled.

    Args:
        values: samples.
        groups: see `peer_groups`.
        wanted: rows that are asked for; the rest of the result is NaN.
    """
    import numpy as np

    result = np.full(values.shape, np.nan, dtype=np.float32)
    sizes: dict[int, list[np.ndarray]] = {}
    for group in np.unique(groups[wanted]):
        if group >= 0:
            rows = np.flatnonzero(groups == group)
            sizes.setdefault(len(rows), []).append(rows)
    for members in sizes.values():
        index = np.stack(members)
        block = np.sort(values[index], axis=1)  # NaN comes last
        count = (~np.isnan(block)).sum(axis=1)
        low, high = np.maximum(count - 1, 0) // 2, count // 2
        high = np.minimum(high, block.shape[1] - 1)
        middle = (np.take_along_axis(block, low[:, None], axis=1) + np.take_along_axis(block, high[:, None], axis=1))[
            :, 0
        ] / 2
        middle[count <= PEERS] = np.nan
        result[index] = middle[:, None, :]
    return result
