"""GPU samples in CSV: own exports, ``nvidia-smi --query-gpu … --format=csv``, Grafana panels."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING

from aiops.catalog.dcgm import Name, column_key, metric_names
from aiops.ingest.metrics_block import SeriesBuilder, Slot
from aiops.ingest.metrics_exposition import parse_selector
from aiops.ingest.metrics_labels import entity_of
from aiops.model import NO_TIME

if TYPE_CHECKING:
    import numpy as np

_TIME = ("timestamp", "time", "ts", "date", "datetime", "time_utc", "timestamp_utc", "sampled_at")
_LABELS = {
    "host": "Hostname",
    "hostname": "Hostname",
    "node": "Hostname",
    "node_name": "Hostname",
    "nodename": "Hostname",
    "instance": "instance",
    "gpu": "gpu",
    "gpu_index": "gpu",
    "gpu_id": "gpu",
    "index": "gpu",
    "device_index": "gpu",
    "uuid": "UUID",
    "gpu_uuid": "UUID",
    "pci": "pci_bus_id",
    "pci_bus_id": "pci_bus_id",
    "bus_id": "pci_bus_id",
    "gpu_bus_id": "pci_bus_id",
    "pci_bus": "pci_bus_id",
    "pod": "pod",
    "job": "hpc_job",
    "job_id": "hpc_job",
    "slurm_job_id": "hpc_job",
    "model": "modelName",
    "name": "modelName",
    "gpu_name": "modelName",
}
_GPU_LABELS = {"gpu", "UUID", "pci_bus_id"}
_METRIC = ("metric", "metric_name", "field", "series", "__name__")
_VALUE = ("value", "val")
_QUOTED = re.compile(r'"(?:[^"]|"")*"')
_NUMBER = re.compile(
    r"\s*([+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?|[+-]?inf|nan)(?:\s*[%a-zA-Z/°]+)?\s*", re.IGNORECASE
)
_REASONS = {
    "idle": 0x1,
    "gpu_idle": 0x1,
    "applications_clocks_setting": 0x2,
    "sw_power_cap": 0x4,
    "hw_slowdown": 0x8,
    "sync_boost": 0x10,
    "sw_thermal_slowdown": 0x20,
    "sw_thermal": 0x20,
    "hw_thermal_slowdown": 0x40,
    "hw_thermal": 0x40,
    "hw_power_brake_slowdown": 0x80,
    "hw_power_brake": 0x80,
    "display_clocks_setting": 0x100,
    "none": 0,
    "not_active": 0,
    "no": 0,
}
"""Clock event reasons as nvidia-smi and DCGM name them, see ``nvml.h``."""
_FLAGS = {"active": 1.0, "1": 1.0, "true": 1.0, "yes": 1.0, "not active": 0.0, "0": 0.0, "false": 0.0, "no": 0.0}
_TEXT = 400
_BATCH = 20_000
"""Rows held as text at a time."""
_LATEST = 9.2e18
"""Nanoseconds since 1970 that still fit into int64."""


@dataclass(slots=True)
class Header:
    """What the columns of a table mean."""

    time: int | None
    labels: dict[int, str]
    metrics: dict[int, Name]
    metric: int | None
    value: int | None
    series: dict[int, tuple[str, dict[str, str]]]
    """Columns of a wide table that are named like ``metric{label="…"}``."""

    @property
    def useful(self) -> bool:
        """True if samples of GPUs can be read below this header."""
        gpu = bool(_GPU_LABELS & set(self.labels.values()))
        node = "Hostname" in self.labels.values()
        if self.metric is not None and self.value is not None:
            return gpu or node
        return (gpu and bool(self.metrics)) or (node and len(self.metrics) > 1) or bool(self.series)


def parse_header(line: str) -> tuple[Header, str]:
    """Columns and delimiter of a header line."""
    delimiter = max(",;\t", key=_QUOTED.sub("", line).count)
    cells = next(csv.reader([line], delimiter=delimiter, skipinitialspace=True), [])
    header = Header(None, {}, {}, None, None, {})
    columns = metric_names().columns
    for i, cell in enumerate(cells):
        key = column_key(cell)
        if "{" in cell:
            try:
                header.series[i] = parse_selector(cell)
            except ValueError:
                continue
        elif key in _TIME and header.time is None:
            header.time = i
        elif key in _METRIC and header.metric is None:
            header.metric = i
        elif key in _VALUE and header.value is None:
            header.value = i
        elif key in _LABELS and _LABELS[key] not in header.labels.values():
            header.labels[i] = _LABELS[key]
        elif key in columns:
            header.metrics[i] = columns[key]
    return header, delimiter


def read_csv(builder: SeriesBuilder, data: bytes, *, numbered: bool = True) -> int:
    """Read a table of samples; ``numbered`` is false if its lines are not those of the source.

    Dates without zone are taken as UTC. A cell that is no number (``[N/A]``, ``[GPU is lost]``) is a missing sample;
    a row with another number of cells, or with an unreadable time, is reported and left out.

    Returns:
        Number of samples read.
    """
    text = data.decode("utf-8-sig", errors="replace")
    skipped, first = _header_line(text)
    header, delimiter = parse_header(first)
    width = len(next(csv.reader([first], delimiter=delimiter, skipinitialspace=True), []))
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, skipinitialspace=True)
    table = _Table(builder, header, delimiter, numbered)
    try:
        for row in reader:
            line = reader.line_num
            if line <= skipped + 1 or not row or row == [""]:
                continue
            if len(row) != width:
                builder.problem(f"line {line}: {len(row)} cells instead of {width}", line)
            elif not table.row(row, line):
                builder.problem(f"line {line}: the time is not readable: {row[header.time or 0][:60]}", line)
    except csv.Error as problem:
        builder.problem(f"line {reader.line_num}: {problem}", reader.line_num)
    table.flush()
    return table.samples


class _Table:
    """Rows are collected by the thousand and turned into arrays column by column."""

    def __init__(self, builder: SeriesBuilder, header: Header, delimiter: str, numbered: bool) -> None:
        self.samples = 0
        self._numbered = numbered
        self._builder = builder
        self._header = header
        self._delimiter = delimiter
        self._names = metric_names()
        self._stamps: dict[str, int | None] = {}
        self._keys: dict[tuple[str, ...], int] = {}
        """GPUs (with the metric's name where that is a column) to their number."""
        self._slots: dict[tuple[int, object], Slot | None] = {}
        self._rows: list[list[str]] = []
        self._times: list[int] = []
        self._lines: list[int] = []
        self._numbers: list[int] = []

    def row(self, cells: list[str], line: int) -> bool:
        """Add one row; false if its time is not readable."""
        header = self._header
        when = NO_TIME
        if header.time is not None:
            written = cells[header.time]
            if written not in self._stamps:
                self._stamps[written] = parse_time(written)
            stamp = self._stamps[written]
            if stamp is None:
                return False
            when = stamp
        key = tuple([cells[i] for i in header.labels])
        if header.metric is not None:
            key = (*key, cells[header.metric])
        self._numbers.append(self._keys.setdefault(key, len(self._keys)))
        self._times.append(when)
        self._lines.append(line)
        self._rows.append(cells)
        if len(self._rows) >= _BATCH:
            self.flush()
        return True

    def flush(self) -> None:
        """Hand the rows collected so far to the builder."""
        import numpy as np

        if not self._rows:
            return
        header, names = self._header, list(self._keys)
        numbers, times = np.array(self._numbers), np.array(self._times, dtype=np.int64)
        order = np.argsort(numbers, kind="stable")
        groups = np.split(order, np.flatnonzero(np.diff(numbers[order])) + 1)
        for i, series in header.series.items():
            self._column(i, groups, times, self._values(i, None), partial(self._slot, series))
        if header.metric is not None and header.value is not None:
            self._column(
                "value",
                groups,
                times,
                self._values(header.value, None),
                lambda number: self._place(names[number][-1].strip(), None, names[number]),
            )
        bits: dict[str, np.ndarray] = {}
        for i, known in header.metrics.items():
            if known.bit:
                flags = np.array([_FLAGS.get(row[i].strip().lower(), np.nan) for row in self._rows]) * known.bit
                name = known.field.name
                # a reason that the driver does not tell leaves the others as they are
                bits[name] = np.nansum([bits[name], flags], axis=0) if name in bits else flags
            else:
                make = partial(self._named, known, names)
                self._column(i, groups, times, self._values(i, known), make)
        for name, mask in bits.items():
            self._column(name, groups, times, mask, partial(self._named, self._names.metrics[name], names))
        for kept in (self._rows, self._times, self._lines, self._numbers):
            kept.clear()

    def _values(self, column: int, known: Name | None) -> np.ndarray:
        import numpy as np

        cells = [row[column] for row in self._rows]
        try:
            return np.array(list(map(float, cells)), dtype=np.float64)
        except ValueError:
            bits = known is not None and known.field.unit == "bits"
            seen: dict[str, float | None] = {}
            for cell in set(cells):
                seen[cell] = parse_number(cell, bits=bits)
            return np.array([seen[cell] for cell in cells], dtype=np.float64)

    def _column(
        self,
        column: object,
        groups: list[np.ndarray],
        times: np.ndarray,
        values: np.ndarray,
        make: Callable[[int], Slot | None],
    ) -> None:
        import numpy as np

        present = ~np.isnan(values)
        for group in groups:
            rows = group[present[group]]
            if not len(rows):
                continue
            number = self._numbers[rows[0]]
            if (number, column) not in self._slots:
                self._slots[number, column] = make(number)
            slot = self._slots[number, column]
            if slot is None:
                continue
            last = int(rows[-1])
            slot.text, slot.line = self._delimiter.join(self._rows[last])[:_TEXT], self._lines[last] * self._numbered
            self.samples += len(rows)
            if times[last] == NO_TIME:
                self._builder.add(slot, None, values[rows[-1:]])
            else:
                self._builder.add(slot, times[rows], values[rows])

    def _slot(self, series: tuple[str, dict[str, str]], _: int) -> Slot | None:
        return self._builder.slot(*series)

    def _named(self, known: Name, names: list[tuple[str, ...]], number: int) -> Slot | None:
        return self._place(known.field.name, known, names[number])

    def _place(self, name: str, known: Name | None, key: tuple[str, ...]) -> Slot | None:
        labels = {
            label: cell.strip() for label, cell in zip(self._header.labels.values(), key, strict=False) if cell.strip()
        }
        found = known or self._names.metrics.get(name) or self._names.columns.get(column_key(name))
        return self._builder.place(name, found, entity_of("DCGM_", labels, self._builder.node))


def parse_number(cell: str, *, bits: bool = False) -> float | None:
    """``98 %``, ``665.50 W``, ``0x40`` or, for a mask, names of reasons; ``None`` if the cell holds no value."""
    cell = cell.strip()
    if cell[:2] in ("0x", "0X"):
        try:
            return float(int(cell, 16))
        except (ValueError, OverflowError):
            return None
    match = _NUMBER.fullmatch(cell)
    if match is not None:
        return float(match[1])
    if bits and cell:
        words = [column_key(word) for word in re.split(r"[|+;,]", cell)]
        if all(word in _REASONS for word in words):
            return float(sum({_REASONS[word] for word in words}))
    return None


def parse_time(text: str) -> int | None:
    """ISO 8601, ``2026/07/23 02:38:35.012`` or seconds to nanoseconds since 1970, as UTC ns; ``None`` if neither."""
    text = text.strip()
    try:
        number = float(text)
    except ValueError:
        try:
            stamp = datetime.fromisoformat(text.replace("/", "-", 2) if text[4:5] == "/" else text)
        except ValueError:
            return None
        stamp = stamp if stamp.tzinfo is not None else stamp.replace(tzinfo=UTC)
        delta = stamp - datetime(1970, 1, 1, tzinfo=UTC)
        ns = (delta.days * 86_400 + delta.seconds) * 1_000_000_000 + delta.microseconds * 1_000
        return ns if abs(ns) < _LATEST else None
    for factor in (10**9, 10**6, 10**3, 1):
        if 1e8 < number < _LATEST / factor:
            return int(number) if factor == 1 else round(number * 1e3) * (factor // 1000)
    return None


def header_of(head: str) -> Header | None:
    """The header of a table of GPU samples at the beginning of a text, or ``None``."""
    header, _ = parse_header(_header_line(head)[1])
    return header if header.useful else None


def _header_line(text: str) -> tuple[int, str]:
    """Number of lines before the header (comments, blank lines) and the header."""
    for number, line in enumerate(_first_lines(text)):
        if line.strip() and not line.startswith("#") and not line.startswith("sep="):
            return number, line
    return 0, ""


def _first_lines(text: str) -> Iterable[str]:
    return text[:65_536].lstrip("\ufeff").splitlines()[:20]
