"""GPU samples of all sources of a case on one grid of GPUs and times."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from aiops.catalog.dcgm import metric_names
from aiops.model import NO_TIME, Case, SeriesBlock, SeriesEntity

if TYPE_CHECKING:
    import numpy as np

CORE = (
    "DCGM_FI_DEV_GPU_TEMP",
    "DCGM_FI_DEV_GPU_UTIL",
    "DCGM_FI_DEV_POWER_USAGE",
    "DCGM_FI_DEV_SM_CLOCK",
    "DCGM_FI_DEV_FB_USED",
)
"""Fields that every GPU that answers has."""
_CELLS = 1 << 26
_SPARSE = 4
"""A grid that has more cells than both is made coarser."""
_ROWS = 64
"""Rows looked at to find out how often a block is sampled."""

_Who = tuple[str | None, str | int | None, tuple[tuple[str, str], ...]]


@dataclass(slots=True)
class Frame:
    """Samples with shape [GPU][time] for each field; NaN = not sampled.

    ``times`` are UTC ns, ascending; a snapshot without time has one column with `NO_TIME`.
    """

    case: Case
    times: np.ndarray
    entities: list[SeriesEntity]
    planes: dict[str, np.ndarray]
    blocks: list[tuple[SeriesBlock, np.ndarray]]
    """Where the samples come from: blocks, and the row of each of their entities (-1: not a GPU)."""
    step: int = 0
    """Time between two columns in ns, as a rule; 0 for a snapshot."""
    _answers: np.ndarray | None = field(default=None)

    @property
    def timed(self) -> bool:
        """True if there is more than one column."""
        return len(self.times) > 1

    def get(self, *names: str) -> np.ndarray | None:
        """Samples of the first of the fields that exists."""
        for name in names:
            if name in self.planes:
                return self.planes[name]
        return None

    def answers(self) -> np.ndarray:
        """[GPU][time], how many of the `CORE` fields were sampled."""
        import numpy as np

        if self._answers is None:
            self._answers = np.zeros((len(self.entities), len(self.times)), dtype=np.int8)
            for name in CORE:
                if name in self.planes:
                    self._answers += ~np.isnan(self.planes[name])
        return self._answers

    def parts(self, name: str, row: int) -> list[tuple[SeriesBlock, int, int]]:
        """Where a row of a field comes from: block, field index and entity index in it."""
        import numpy as np

        return [
            (block, block.fields.index(name), int(e))
            for block, rows in self.blocks
            if name in block.fields
            for e in np.flatnonzero(rows == row)
        ]

    def whole(self) -> np.ndarray:
        """[GPU], true for whole GPUs: no MIG slice, no single NVLink."""
        import numpy as np

        slices = {"GPU_I_ID", "nvlink", "nvswitch", "peer_gpu"}
        return np.array([not slices & {key for key, _ in e.labels} for e in self.entities], dtype=bool)


def frames(case: Case) -> list[Frame]:
    """One frame of all samples that have a time, and one or more of the snapshots without."""
    names = _Names(case)
    known = metric_names().fields
    blocks = [
        block
        for block in case.series
        if any(name in known or name.startswith("DCGM_") for name in block.fields)
        and any(_is_gpu(entity) for entity in block.entities)
    ]
    timed = [block for block in blocks if block.times[0] != NO_TIME]
    found = [_timed_frame(names, timed)] if timed else []
    # two snapshots that tell the same field of the same GPU are two scrapes of unknown order: keep them apart
    groups: list[tuple[list[SeriesBlock], dict[_Who, set[str]]]] = []
    for block in blocks:
        if block.times[0] != NO_TIME:
            continue
        keys, fields = [_key(entity) for entity in names.of(block)], set(block.fields)
        group = next((g for g in groups if not any(g[1].get(key, fields - fields) & fields for key in keys)), None)
        if group is None:
            groups.append(group := ([], {}))
        group[0].append(block)
        for key in keys:
            group[1].setdefault(key, set()).update(fields)
    return found + [_snapshot_frame(names, group) for group, _ in groups]


def _is_gpu(entity: SeriesEntity) -> bool:
    return entity.device is None and (entity.uuid is not None or entity.pci is not None or entity.gpu is not None)


def _key(entity: SeriesEntity) -> _Who:
    return entity.node, entity.uuid or entity.pci or entity.gpu, _slice(entity)


def _slice(entity: SeriesEntity) -> tuple[tuple[str, str], ...]:
    return tuple(pair for pair in entity.labels if pair[0] != "model")


class _Names:
    """What the rest of the case knows about the GPUs of a block."""

    def __init__(self, case: Case) -> None:
        self.case = case
        topology = case.topology
        self._node_of = {uuid: node for (node, _), uuid in topology.gpu_uuid.items()}
        self._index_of = {(node, pci): index for (node, index), pci in topology.gpu_pci.items()}

    def of(self, block: SeriesBlock) -> list[SeriesEntity]:
        """Entities of a block, with the node from elsewhere where their labels name none.

        The GPU's UUID or the source's host decide; else a folder of the source's name that is the name of a node.
        """
        if all(entity.node is not None for entity in block.entities):
            return block.entities
        source = self.case.sources[block.source]
        folder = next(
            (
                part
                for part in reversed(source.name.replace("!", "/").split("/")[:-1])
                if part in self.case.topology.nodes
            ),
            None,
        )
        return [
            entity
            if entity.node is not None
            else replace(entity, node=self._node_of.get(entity.uuid or "") or source.node or folder)
            for entity in block.entities
        ]

    def complete(self, entity: SeriesEntity) -> SeriesEntity:
        """Index, PCI id and UUID, where another source joins them."""
        topology, node = self.case.topology, entity.node
        gpu, pci, uuid = entity.gpu, entity.pci, entity.uuid
        if node is None or (gpu is not None and pci and uuid):
            return entity
        if gpu is None and pci:
            gpu = self._index_of.get((node, pci))
        if pci is None and gpu is not None and uuid is None:
            pci = topology.gpu_pci.get((node, gpu))
        return replace(entity, gpu=gpu, pci=pci, uuid=uuid or topology.gpu_uuid.get((node, pci or "")))


def _resolve(names: _Names, blocks: Sequence[SeriesBlock]) -> tuple[list[SeriesEntity], list[list[int]]]:
    """Rows of the frame and, for each block, the row of each of its entities (-1: not a GPU).

    UUID or PCI id decide; a source that knows only the index joins the GPU which had it, if that is unambiguous.
    """
    rows: list[SeriesEntity] = []
    exact: dict[tuple[object, ...], int] = {}
    by_index: dict[tuple[object, ...], list[int]] = {}
    places = [[-1] * len(block.entities) for block in blocks]
    todo = [
        (b, e, entity) for b, block in enumerate(blocks) for e, entity in enumerate(names.of(block)) if _is_gpu(entity)
    ]
    todo.sort(key=lambda item: (item[2].uuid is None, item[2].pci is None))
    for b, e, entity in todo:
        part = _slice(entity)
        keys: list[tuple[object, ...]] = [("uuid", entity.uuid, part)] if entity.uuid else []
        if entity.pci:
            keys.append(("pci", entity.node, entity.pci, part))
        row = next((exact[key] for key in keys if key in exact), None)
        index = entity.node, entity.gpu, part
        if row is None and not keys:
            same = by_index.get(index, [])
            row = same[0] if len(same) == 1 else exact.get(("index", *index))
        if row is None:
            row = len(rows)
            rows.append(entity)
            if entity.gpu is not None:
                by_index.setdefault(index, []).append(row)
            if not keys:
                exact["index", *index] = row
        else:
            rows[row] = _merged(rows[row], entity)
        for key in keys:
            exact.setdefault(key, row)
        places[b][e] = row
    rows = [names.complete(entity) for entity in rows]
    rank = sorted(range(len(rows)), key=lambda i: _order(rows[i]))
    position = {old: new for new, old in enumerate(rank)}
    return [rows[i] for i in rank], [[position.get(row, -1) for row in place] for place in places]


def _merged(one: SeriesEntity, other: SeriesEntity) -> SeriesEntity:
    return replace(
        one,
        node=one.node or other.node,
        gpu=other.gpu if one.gpu is None else one.gpu,
        pci=one.pci or other.pci,
        pod=one.pod or other.pod,
        job=one.job or other.job,
        labels=one.labels or other.labels,
    )


def _order(entity: SeriesEntity) -> tuple[str, int, str, str, tuple[tuple[str, str], ...]]:
    gpu = 1 << 30 if entity.gpu is None else entity.gpu
    return entity.node or "", gpu, entity.uuid or "", entity.pci or "", entity.labels


def _snapshot_frame(names: _Names, blocks: list[SeriesBlock]) -> Frame:
    import numpy as np

    return _fill(names, blocks, np.array([NO_TIME], dtype=np.int64), [np.zeros(1, dtype=np.int64)] * len(blocks), 0)


def _timed_frame(names: _Names, blocks: list[SeriesBlock]) -> Frame:
    import numpy as np

    first = blocks[0].times
    if all(len(b.times) == len(first) and bool((b.times == first).all()) for b in blocks[1:]) and _dense(blocks):
        step = int(np.median(np.diff(first))) if len(first) > 1 else 0
        return _fill(names, blocks, first, [np.arange(len(first))] * len(blocks), step)
    steps = [_step(block) for block in blocks]
    known = [step for step in steps if step > 0]
    step = max(min(known, default=60 * 10**9), 10**6)
    start = min(int(block.times[0]) for block in blocks)
    size = sum(block.values.size for block in blocks)
    entities = sum(len(block.entities) for block in blocks)
    fields = len({name for block in blocks for name in block.fields})
    while True:
        bins = [(block.times - start) // step for block in blocks]
        columns = np.unique(np.concatenate(bins))
        if len(columns) * entities * fields <= max(_CELLS, _SPARSE * size) or len(columns) < 2:
            break
        step *= 2
    frame = _fill(names, blocks, columns * step + start, [np.searchsorted(columns, b) for b in bins], step)
    _hold(frame, dict(zip(map(id, blocks), steps, strict=True)))
    return frame


def _dense(blocks: list[SeriesBlock]) -> bool:
    """False if most cells are empty because the targets were sampled at different times."""
    import numpy as np

    size = sum(block.values.size for block in blocks)
    filled = sum(int(np.isfinite(block.values).sum()) for block in blocks) if size < _CELLS else size
    return filled * 3 > size


def _step(block: SeriesBlock) -> int:
    """How often a row of the block is sampled, in ns; 0 if unknown."""
    import numpy as np

    flat = block.values.reshape(-1, len(block.times))
    steps = []
    for row in flat[:: max(1, len(flat) // _ROWS)]:
        seen = block.times[~np.isnan(row)]
        if len(seen) > 1:
            steps.append(float(np.median(np.diff(seen))))
    return int(np.median(steps)) if steps else 0


def _fill(
    names: _Names, blocks: list[SeriesBlock], times: np.ndarray, columns: Iterable[np.ndarray], step: int
) -> Frame:
    import numpy as np

    entities, places = _resolve(names, blocks)
    planes: dict[str, np.ndarray] = {}
    origin = [(block, np.array(place)) for block, place in zip(blocks, places, strict=True)]
    for (block, rows), column in zip(origin, columns, strict=True):
        straight = len(column) == len(times) and bool((column == np.arange(len(times))).all())
        for f, name in enumerate(block.fields):
            if (
                name not in planes
                and straight
                and len(rows) == len(entities)
                and bool((rows == np.arange(len(entities))).all())
            ):
                planes[name] = block.values[f]
                continue
            plane = planes.get(name)
            if plane is None:
                plane = np.full((len(entities), len(times)), np.nan, dtype=np.float32)
            elif plane.base is not None:
                plane = plane.copy()  # samples of a case are never changed
            planes[name] = plane
            good = np.flatnonzero(rows >= 0)
            if straight:
                target = plane[rows[good]]
                plane[rows[good]] = np.where(np.isnan(block.values[f][good]), target, block.values[f][good])
            else:
                for e in good:
                    seen = np.flatnonzero(~np.isnan(block.values[f, e]))
                    plane[rows[e], column[seen]] = block.values[f, e, seen]
    return Frame(names.case, times, entities, planes, origin, step)


def _hold(frame: Frame, steps: dict[int, int]) -> None:
    """Repeat a sample until the next one is due, where a field is sampled more rarely than the grid.

    A late sample may leave one column empty, hence one column more than the ratio; a longer gap stays a gap.
    """
    import numpy as np

    if not frame.step or len(frame.times) < 2:
        return
    gaps = np.diff(frame.times)
    for name, plane in frame.planes.items():
        own = np.full(len(plane), frame.step)
        for block, rows in frame.blocks:
            if name in block.fields:
                known = rows[rows >= 0]
                own[known] = np.maximum(own[known], steps[id(block)])
        repeats = np.maximum(1, np.rint(1.5 * own / frame.step))
        near = gaps[None, :] <= 2 * own[:, None]
        held = plane.copy()
        for turn in range(int(repeats.max())):
            empty = np.isnan(held[:, 1:]) & ~np.isnan(held[:, :-1]) & near & (repeats > turn)[:, None]
            if not empty.any():
                break
            held[:, 1:][empty] = held[:, :-1][empty]
        frame.planes[name] = held
