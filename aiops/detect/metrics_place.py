"""Where a sample stands in its file: line and byte offset, looked up only for samples that are quoted."""

from __future__ import annotations

import csv
import json
import mmap
import re
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from aiops.model import SeriesEntity

_METRIC = re.compile(rb'"metric"\s*:\s*(\{(?:[^{}"]|"(?:[^"\\]|\\.)*")*\})')
_FILE = 1 << 30
"""Larger files are not searched."""
_SEARCHES = 40
"""Samples of a file without an index whose line is looked for; of further ones only the text is given."""
_SHOWN = (
    "gpu",
    "UUID",
    "uuid",
    "gpu_uuid",
    "pci_bus_id",
    "Hostname",
    "hostname",
    "node",
    "instance",
    "nvlink",
    "GPU_I_ID",
    "xid",
    "mountpoint",
    "condition",
    "status",
    "reason",
    "exported_namespace",
    "namespace",
    "exported_pod",
    "pod",
    "container",
)
"""Labels that are quoted; the rest (driver, model, job) is the same for all."""


@dataclass(frozen=True, slots=True)
class Place:
    """A found sample; ``text`` is as it stands there, empty if the caller knows better."""

    line: int
    offset: int
    text: str = ""


class MetricsFile:
    """One source, mapped, with indexes that are built when they are first needed."""

    def __init__(self, path: Path) -> None:
        self._data: mmap.mmap | bytes = b""
        self._searches = 0
        try:
            if 0 < path.stat().st_size <= _FILE:
                with open(path, "rb") as handle:
                    self._data = mmap.mmap(handle.fileno(), 0, access=mmap.ACCESS_READ)
        except (OSError, ValueError):
            self._data = b""

    @property
    def is_json(self) -> bool:
        """True for answers of the Prometheus API."""
        return self._data[:64].lstrip(b"\xef\xbb\xbf \t\r\n")[:1] in (b"{", b"[")

    def offset(self, line: int) -> int:
        """Byte offset of a line, 0 if there is no such line."""
        position = 0
        for _ in range(line - 1):
            position = self._data.find(b"\n", position) + 1
            if position == 0:
                return 0
        return position

    def sample(self, names: tuple[str, ...], entity: SeriesEntity, moment: int) -> Place | None:
        """A sample in an answer of Prometheus.

        Args:
            names: names that the metric may have there.
            entity: whose sample it is, as the source names it.
            moment: UTC ns.
        """
        for name in names:
            keys = [(name, entity.uuid or "", ""), (name, entity.node or "", str(entity.gpu))]
            if entity.uuid is None and entity.gpu is None:
                keys.insert(0, (name, entity.node or "", repr((entity.device, entity.labels))))
            for key in keys:
                if key in self._series:
                    return self._in_series(name, *self._series[key], moment)
        return None

    def row(self, text: str, moment: int) -> Place | None:
        """A sample in a table or in a scrape with time stamps.

        Args:
            text: line of another sample of the same series.
            moment: UTC ns.
        """
        self._searches += 1
        if not text or self._searches > _SEARCHES:
            return None
        return self._in_scrape(text, moment) if "{" in text else self._in_table(text, moment)

    def _in_series(self, name: str, start: int, end: int, moment: int) -> Place:
        metric = _METRIC.match(self._data, start)
        labels = json.loads(metric[1]) if metric else {}
        stamp = str(moment // 10**9).encode()
        if moment % 10**9:
            stamp += f".{moment % 10**9:09d}".rstrip("0").encode()
        found = re.compile(rb"\[\s*" + re.escape(stamp) + rb'(?:\.0+)?\s*,\s*"([^"]*)"').search(self._data, start, end)
        offset = found.start() if found else start
        shown = ",".join(f'{label}="{labels[label]}"' for label in _SHOWN if label in labels)
        text = f"{name}{{{shown}}} {found[1].decode(errors='replace')}" if found else ""
        return Place(self._data[:offset].count(b"\n") + 1, offset, text)

    @cached_property
    def _series(self) -> dict[tuple[str, str, str], tuple[int, int]]:
        """Where the series of an answer stand, by metric and GPU: by UUID, and by host and index."""
        from aiops.ingest.metrics_labels import entity_of

        places: dict[tuple[str, str, str], tuple[int, int]] = {}
        keys: list[tuple[str, str, str]] = []
        start = 0
        for match in _METRIC.finditer(self._data):
            for key in keys:
                places.setdefault(key, (start, match.start()))
            keys, start = [], match.start()
            try:
                labels = json.loads(match[1])
            except ValueError:
                continue
            name = str(labels.get("__name__", ""))
            entity = entity_of(name, labels, None)
            keys = [(name, entity.node or "", str(entity.gpu))]
            if entity.uuid:
                keys.append((name, entity.uuid, ""))
            elif entity.gpu is None:
                # one host has many series of a name: mounts, conditions, containers
                keys.append((name, entity.node or "", repr((entity.device, entity.labels))))
        for key in keys:
            places.setdefault(key, (start, len(self._data)))
        return places

    @cached_property
    def _lines(self) -> list[bytes]:
        return self._data[:].split(b"\n")

    def _in_scrape(self, text: str, moment: int) -> Place | None:
        key = text[: text.rfind("}") + 1].encode()
        stamps = {str(moment // 10**6).encode(), str(moment // 10**9).encode()}
        position = 0
        for number, line in enumerate(self._lines, 1):
            if line.startswith(key) and line.split()[-1] in stamps:
                return Place(number, position)
            position += len(line) + 1
        return None

    def _in_table(self, text: str, moment: int) -> Place | None:
        from aiops.ingest.metrics_csv import parse_header, parse_time

        head = next((line for line in self._lines if line.strip() and not line.startswith((b"#", b"sep="))), b"")
        header, delimiter = parse_header(head.decode("utf-8-sig", errors="replace"))
        wanted = next(csv.reader([text], delimiter=delimiter), [])
        if header.time is None:
            return None
        who = [wanted[i].encode() for i in header.labels if i < len(wanted)]
        position = 0
        for number, line in enumerate(self._lines, 1):
            if all(cell in line for cell in who):
                cells = [cell.strip() for cell in line.decode(errors="replace").split(delimiter)]
                if (
                    len(cells) == len(wanted)
                    and all(cells[i] == wanted[i] for i in header.labels)
                    and parse_time(cells[header.time]) == moment
                ):
                    return Place(number, position)
            position += len(line) + 1
        return None
