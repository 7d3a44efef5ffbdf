"""Series of one source, packed into dense blocks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from aiops.catalog.dcgm import Name, metric_names
from aiops.ingest.metrics_labels import entity_of, identity, order
from aiops.model import NO_TIME, Case, Problem, SeriesBlock, SeriesEntity, Source

if TYPE_CHECKING:
    import numpy as np

_ENTITIES = 200_000
"""Entities kept of one source. A fleet of 10,000 GPUs with 18 links each stays below."""
_UNKNOWN = 20_000
"""Series kept of metrics that the catalog does not know, for example of a node exporter."""
_SPARSE = 4
"""Cells that a block may have for each sample in it before it is split."""
_SPARSE_FLOOR = 1 << 22
_PROBLEMS = 20
"""Problems reported one by one for a source; more are counted."""

_INT32_BLANK = (2147483632.0, 2147483647.0)
_FP64_BLANK = (140737488355328.0, 140737488355344.0)
_INT64_BLANK = 9.2e18
"""DCGM's "no value" marks, see ``dcgm_fields.h``: blank, not found, not supported, not permitted."""


@dataclass(slots=True)
class Slot:
    """One series while it is read."""

    name: str
    """Canonical field name, or the metric name as written."""
    scale: float
    known: bool
    entity: int
    times: list[np.ndarray] = field(default_factory=list)
    values: list[np.ndarray] = field(default_factory=list)
    text: str | None = None
    line: int = 0


class SeriesBuilder:
    """Collects the samples of one source; `finish` appends them to the case."""

    def __init__(self, source: Source, case: Case) -> None:
        self._source = source
        self._case = case
        self._names = metric_names().metrics
        self._slots: dict[tuple[str, int], Slot] = {}
        self._entities: list[SeriesEntity] = []
        self._by_identity: dict[tuple[object, ...], int] = {}
        self._units: dict[str, tuple[str, bool]] = {}
        self._spans: dict[int, tuple[int, int, bool]] = {}
        self._unknown = 0
        self._dropped = 0
        self._problems = 0

    @property
    def node(self) -> str | None:
        """Host that the whole source is about, if known."""
        return self._source.node

    def problem(self, reason: str, line: int | None = None) -> None:
        """Record what could not be read."""
        self._problems += 1
        if self._problems <= _PROBLEMS:
            self._case.coverage.problems.append(Problem(self._source.name, reason, line))

    def slot(self, name: str, labels: Mapping[str, str], *, counter: bool | None = None) -> Slot | None:
        """Where the samples of a series go; ``None`` if the source has too many series.

        Args:
            name: metric name as written; empty for an expression.
            labels: all labels.
            counter: what the source declares, used for metrics that the catalog does not know.
        """
        return self.place(
            name or "expression", self._names.get(name), entity_of(name, labels, self._source.node), counter
        )

    def place(self, name: str, known: Name | None, entity: SeriesEntity, counter: bool | None = None) -> Slot | None:
        """As `slot`, for an entity that is known already."""
        key = identity(entity)
        index = self._by_identity.get(key)
        if index is None:
            if len(self._entities) >= _ENTITIES:
                self._dropped += 1
                return None
            index = self._by_identity[key] = len(self._entities)
            self._entities.append(entity)
        elif entity.pod is not None and entity.pod != self._entities[index].pod:
            self._entities[index] = replace(self._entities[index], pod=entity.pod)
        name = known.field.name if known else name
        slot = self._slots.get((name, index))
        if slot is None:
            if known is None and not name.startswith("DCGM_"):
                self._unknown += 1
                if self._unknown > _UNKNOWN:
                    self._dropped += 1
                    return None
            slot = self._slots[name, index] = Slot(name, known.scale if known else 1.0, known is not None, index)
            if known is not None:
                self._units[name] = (known.field.unit, known.field.counter)
            else:
                declared = name.endswith(("_total", "_TOTAL", "_COUNT", "_count", "_sum", "_bucket"))
                self._units.setdefault(name, ("", declared if counter is None else counter))
        return slot

    def add(self, slot: Slot, times: np.ndarray | None, values: np.ndarray) -> None:
        """Append samples.

        Args:
            slot: the series.
            times: int64 UTC ns, ascending or not; ``None`` for a sample without time.
            values: float64, in the written unit.
        """
        import numpy as np

        if not len(values):
            return
        values = clean(values, slot.known) if slot.scale == 1.0 else clean(values, slot.known) * slot.scale
        slot.times.append(np.full(len(values), NO_TIME, dtype=np.int64) if times is None else times)
        with np.errstate(over="ignore"):  # beyond 3e38 a sample is infinite, and quoted so
            slot.values.append(values.astype(np.float32))

    def finish(self) -> int:
        """Append the blocks, fill the topology, and return the number of samples kept."""
        if self._dropped:
            self.problem(f"{self._dropped} further series were not kept: too many in one file")
        if self._problems > _PROBLEMS:
            more = f"{self._problems - _PROBLEMS} further problems of this kind"
            self._case.coverage.problems.append(Problem(self._source.name, more))
        slots = [slot for slot in self._slots.values() if slot.values]
        ranks = sorted(range(len(self._entities)), key=lambda i: order(self._entities[i]))
        position = {entity: i for i, entity in enumerate(ranks)}
        samples = 0
        for group in _groups(slots, self._entities):
            rows = [self._row(slot) for slot in sorted(group, key=lambda s: (s.name, position[s.entity]))]
            samples += sum(len(row.values) for row in rows)
            self._case.series.extend(self._pack(rows))
        self._learn(slots)
        return samples

    def _pack(self, rows: list[_Row]) -> list[SeriesBlock]:
        import numpy as np

        fields = list(dict.fromkeys(row.slot.name for row in rows))
        entities = list(
            dict.fromkeys(sorted((row.slot.entity for row in rows), key=lambda i: order(self._entities[i])))
        )
        shared = all(row.times is rows[0].times for row in rows)
        times = rows[0].times if shared else np.unique(np.concatenate([row.times for row in rows]))
        samples = sum(len(row.values) for row in rows)
        if len(fields) * len(entities) * len(times) > _SPARSE * samples + _SPARSE_FLOOR and len(rows) > 1:
            parts: dict[object, list[_Row]] = {}
            for row in rows:
                parts.setdefault(row.slot.name if len(fields) > 1 else row.slot.entity, []).append(row)
            return [block for part in parts.values() for block in self._pack(part)]
        values = np.full((len(fields), len(entities), len(times)), np.nan, dtype=np.float32)
        place = {field: i for i, field in enumerate(fields)}, {entity: i for i, entity in enumerate(entities)}
        block = SeriesBlock(
            self._source.index,
            fields,
            [self._units[f][0] for f in fields],
            [self._units[f][1] for f in fields],
            [self._entities[e] for e in entities],
            times,
            values,
        )
        for row in rows:
            cell = place[0][row.slot.name], place[1][row.slot.entity]
            where = slice(None) if len(row.times) == len(times) else np.searchsorted(times, row.times)
            values[cell][where] = row.values
            if row.slot.text is not None:
                block.text[cell] = row.slot.text
            if row.slot.line:
                block.lines[cell] = row.slot.line
        return [block]

    def _span(self, times: np.ndarray) -> tuple[int, int, bool]:
        """Earliest and latest time of a non-empty array, and whether it ascends; most series share one array."""
        span = self._spans.get(id(times))
        if span is None:
            ascending = len(times) < 2 or bool((times[1:] > times[:-1]).all())
            span = self._spans[id(times)] = int(times.min()), int(times.max()), ascending
        return span

    def _row(self, slot: Slot) -> _Row:
        """Samples in time order, one for each time; where two disagree the larger stays: order must not matter."""
        import numpy as np

        if len(slot.times) == 1:
            times, values = slot.times[0], slot.values[0]
            if self._span(times)[2]:
                return _Row(slot, times, values)
        else:
            times, values = np.concatenate(slot.times), np.concatenate(slot.values)
        if (times != NO_TIME).any():
            keep = times != NO_TIME
            times, values = times[keep], values[keep]
        unique, where = np.unique(times, return_inverse=True)
        merged = np.full(len(unique), np.nan, dtype=np.float32)
        np.fmax.at(merged, where, values)
        return _Row(slot, unique, merged)

    def _learn(self, slots: list[Slot]) -> None:
        """Tell the topology and the source what the labels say."""
        firsts: dict[int, int] = {}
        for slot in slots:
            spans = [self._span(times) for times in slot.times]
            first, last = min(span[0] for span in spans), max(span[1] for span in spans)
            firsts[slot.entity] = min(firsts.get(slot.entity, first), first)
            if first != NO_TIME:
                self._source.first_ts = first if self._source.first_ts == NO_TIME else min(first, self._source.first_ts)
                self._source.last_ts = max(last, self._source.last_ts)
        topology = self._case.topology
        nodes = {self._entities[index].node for index in firsts} - {None}
        for node in sorted(filter(None, nodes)):
            topology.nodes.setdefault(node, set()).add(self._source.name)
        if len(nodes) == 1 and self._source.node is None:
            self._source.node = nodes.pop()
        # an index can move to another GPU after a loss: the earliest sample decides
        for index in sorted(firsts, key=lambda i: (firsts[i], order(self._entities[i]))):
            entity = self._entities[index]
            if entity.node is None or entity.pci is None or entity.device is not None:
                continue
            if entity.gpu is not None:
                topology.gpu_pci.setdefault((entity.node, entity.gpu), entity.pci)
            if entity.uuid is not None:
                topology.gpu_uuid.setdefault((entity.node, entity.pci), entity.uuid)


@dataclass(slots=True)
class _Row:
    slot: Slot
    times: np.ndarray
    values: np.ndarray


def clean(values: np.ndarray, known: bool) -> np.ndarray:
    """float64 samples with DCGM's blank marks, and for GPU fields infinities, replaced by NaN."""
    import numpy as np

    if not known:
        return values
    # decided at once in the common case; with a NaN among them both comparisons are false
    if values.max() < _INT32_BLANK[0] and values.min() > -_INT64_BLANK:
        return values
    with np.errstate(invalid="ignore"):
        blank = (values >= _INT32_BLANK[0]) & (values <= _INT32_BLANK[1])
        blank |= (values >= _FP64_BLANK[0]) & (values <= _FP64_BLANK[1])
        blank |= (values >= _INT64_BLANK) | (values == -np.inf)
    return np.where(blank, np.nan, values)


def _groups(slots: list[Slot], entities: list[SeriesEntity]) -> list[list[Slot]]:
    """Series that may share a block: GPU fields, everything else, each with and without times."""
    groups: dict[tuple[bool, bool], list[Slot]] = {}
    for slot in slots:
        entity = entities[slot.entity]
        gpu = entity.device is None and bool(entity.uuid or entity.pci or entity.gpu is not None)
        timed = any(times[0] != NO_TIME for times in slot.times)
        groups.setdefault((not (gpu and (slot.known or slot.name.startswith("DCGM_"))), not timed), []).append(slot)
    return [groups[key] for key in sorted(groups)]
