"""``nvidia-smi dmon`` and ``dcgmi dmon``: a table in which each line is one GPU at one moment.

Only ``nvidia-smi dmon -o DT`` writes when. Without date and time the order of the samples is known and their times are
not: the last sample of each GPU is kept, as of any snapshot.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime

from aiops.catalog.dcgm import Name, metric_names
from aiops.ingest.console import host_of_output
from aiops.ingest.metrics_block import SeriesBuilder, Slot
from aiops.ingest.metrics_csv import parse_number
from aiops.model import Source

FORMATS = ("nvidia-smi dmon", "dcgmi dmon")

_SMI = re.compile(r"^#\s*(?:date\s+)?(?:time\s+)?gpu\s+\S", re.IGNORECASE)
_SMI_UNITS = re.compile(r"^#.*\bidx\b", re.IGNORECASE)
_DCGM = re.compile(r"^#\s*Entity\s+\S")
_DCGM_UNITS = re.compile(r"^\s*(?:#\s*)?I[Dd](?:\s|$)")
_DCGM_ROW = re.compile(r"^\s*GPU\s+(\d{1,4})(?:\s+LINK\s+(\d{1,3}))?(?=\s|$)")
_OTHER_ENTITY = re.compile(r"^\s*(?:GPU-I|GPU-CI|GPU_I|GPU_CI|CPU|Core|Switch|SW|Link|ConnectX)\s+\d")
_SMI_COLUMNS = {
    "pwr": "DCGM_FI_DEV_POWER_USAGE",
    "gtemp": "DCGM_FI_DEV_GPU_TEMP",
    "temp": "DCGM_FI_DEV_GPU_TEMP",
    "mtemp": "DCGM_FI_DEV_MEMORY_TEMP",
    "sm": "DCGM_FI_DEV_GPU_UTIL",
    "mem": "DCGM_FI_DEV_MEM_COPY_UTIL",
    "mclk": "DCGM_FI_DEV_MEM_CLOCK",
    "pclk": "DCGM_FI_DEV_SM_CLOCK",
    "fb": "DCGM_FI_DEV_FB_USED",
    "sbecc": "DCGM_FI_DEV_ECC_SBE_AGG_TOTAL",
    "dbecc": "DCGM_FI_DEV_ECC_DBE_AGG_TOTAL",
    "pci": "DCGM_FI_DEV_PCIE_REPLAY_COUNTER",
}
"""Columns of ``nvidia-smi dmon -s pucvmet``; ``sbecc`` and ``dbecc`` are lifetime counts (nvidia-smi's manual)."""
_SMI_OTHER = frozenset(["enc", "dec", "jpg", "ofa", "pviol", "tviol", "bar1", "ccpm", "rxpci", "txpci"])
_TOOL = re.compile(r"(?<![^-_./! ])(?:nvidia[-_.]?smi|dcgmi|dmon|out(?:put)?|log)(?=[-_. ]|$)", re.IGNORECASE)
_HEAD_LINES = 20
_TEXT = 400


def sniff_dmon(head: bytes) -> str | None:
    """Which of `FORMATS` a text is, by a header within its first lines."""
    lines = head[:8192].decode("utf-8", "replace").splitlines()[:_HEAD_LINES]
    for one, two in zip(lines, lines[1:], strict=False):
        if _SMI.match(one) and _SMI_UNITS.match(two):
            return FORMATS[0]
        if _DCGM.match(one) and _DCGM_UNITS.match(two):
            return FORMATS[1]
    return None


@dataclass(slots=True)
class _Column:
    name: str
    start: int
    known: Name | None


def read_dmon(builder: SeriesBuilder, source: Source, data: bytes) -> None:
    """Read all samples; a line that fits no header is reported with its number."""
    table = _Table(builder)
    lines = data.decode("utf-8", "replace").splitlines()
    source.node = host_of_output(source, (line for line in lines[:_HEAD_LINES] if line[:1] != "#"), _TOOL)
    for number, line in enumerate(lines, 1):
        bare = line.strip()
        if not bare or _SMI_UNITS.match(line) or (_DCGM_UNITS.match(line) and table.dcgm):
            continue
        if _SMI.match(line) or _DCGM.match(line):
            table.header(line)
        elif table.columns and bare[0] != "#":
            table.row(line, number)
    table.finish()


class _Table:
    def __init__(self, builder: SeriesBuilder) -> None:
        self.columns: list[_Column] = []
        self.dcgm = False
        self._builder = builder
        self._times: dict[int, list[int]] = {}
        self._values: dict[int, list[float]] = {}
        self._slots: dict[int, Slot] = {}
        self._bare: dict[int, float] = {}
        self._seen: dict[int, int] = {}
        self._told: set[str] = set()

    def header(self, line: str) -> None:
        """Take the columns of a header line; it is repeated every few rows, and may change."""
        self.dcgm = _DCGM.match(line) is not None
        names = metric_names()
        self.columns = []
        for match in re.finditer(r"[^\s#]+", line):
            word = match[0].lower()
            known = names.columns.get(word) if self.dcgm else names.metrics.get(_SMI_COLUMNS.get(word, ""))
            self.columns.append(_Column(word, match.start(), known))
            if known is None and word not in ("entity", "gpu", "date", "time", *_SMI_OTHER) and word not in self._told:
                self._told.add(word)
                self._builder.problem(f"column {match[0][:40]} is not known and not kept")

    def row(self, line: str, number: int) -> None:
        """Add one row."""
        cells = self._dcgm_cells(line) if self.dcgm else self._smi_cells(line)
        if cells is None:
            if not _OTHER_ENTITY.match(line):
                self._builder.problem(f"line {number}: does not fit the header: {line.strip()[:60]}", number)
            return
        labels: dict[str, str] = {label: cells[label] for label in ("gpu", "nvlink") if label in cells}
        time = _time(cells.get("date"), cells.get("time"))
        for column in self.columns:
            if column.known is None or column.name not in cells:
                continue
            value = parse_number(cells[column.name])
            slot = self._builder.slot(column.known.field.name, labels) if value is not None else None
            if slot is None or value is None:
                continue
            key = id(slot)
            slot.text, slot.line = line.strip()[:_TEXT], number
            self._slots[key] = slot
            self._seen[key] = self._seen.get(key, 0) + 1
            if time is None:
                self._bare[key] = value * column.known.scale
            else:
                self._times.setdefault(key, []).append(time)
                self._values.setdefault(key, []).append(value)

    def _smi_cells(self, line: str) -> dict[str, str] | None:
        words = line.split()
        if len(words) != len(self.columns):
            return None
        cells = dict(zip((column.name for column in self.columns), words, strict=True))
        return cells if cells.get("gpu", "").isdecimal() else None

    def _dcgm_cells(self, line: str) -> dict[str, str] | None:
        entity = _DCGM_ROW.match(line)
        if entity is None:
            return None
        words, columns = line[entity.end() :].split(), self.columns[1:]
        if len(words) != len(columns):  # a field without a sample is blank: then the place decides
            ends = [column.start for column in columns[1:]] + [len(line)]
            words = [line[max(column.start, entity.end()) : end] for column, end in zip(columns, ends, strict=True)]
        cells = {column.name: word.strip() for column, word in zip(columns, words, strict=True)}
        cells["gpu"] = entity[1]
        if entity[2] is not None:
            cells["nvlink"] = entity[2]
        return cells

    def finish(self) -> None:
        """Hand the samples to the builder."""
        import numpy as np

        for key, slot in self._slots.items():
            if key in self._times:
                times = np.array(self._times[key], dtype=np.int64)
                self._builder.add(slot, times, np.array(self._values[key], dtype=np.float64))
            else:
                self._builder.add(slot, None, np.array([self._bare[key]], dtype=np.float64))
        repeated = max(self._seen.values(), default=0)
        if self._bare and repeated > 1:
            self._builder.problem(
                f"{repeated} samples of a GPU without date and time: only the last one is kept (nvidia-smi dmon -o DT tells when)"
            )


def _time(date: str | None, clock: str | None) -> int | None:
    if date is None or clock is None:
        return None
    try:
        moment = datetime.strptime(f"{date} {clock}", "%Y%m%d %H:%M:%S").replace(tzinfo=UTC)
    except ValueError:
        return None
    return int(moment.timestamp()) * 1_000_000_000
