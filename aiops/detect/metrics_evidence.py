"""Findings about GPUs with the samples that prove them, and where these stand in their file."""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from aiops.catalog.dcgm import metric_names
from aiops.detect.metrics_frame import Frame
from aiops.model import NO_TIME, Case, EvidenceRef, Finding, Role, SeriesBlock, SeriesEntity, Severity

if TYPE_CHECKING:
    import numpy as np

_METRIC = re.compile(rb'"metric"\s*:\s*(\{(?:[^{}"]|"(?:[^"\\]|\\.)*")*\})')
_FILE = 256 << 20
"""Larger files are not searched for the place of a sample."""
_SEARCHES = 40
"""Samples of a file without an index whose line is looked for; of further ones only the text is given."""
_SHOWN = ("gpu", "UUID", "uuid", "gpu_uuid", "pci_bus_id", "Hostname", "hostname", "node", "instance", "nvlink",
          "GPU_I_ID", "xid", "exported_pod", "pod")
"""Labels that are quoted; the rest (driver, model, job) is the same for all."""

Sample = tuple[str, int, int]
"""Field, row and column of a frame."""


class Proof:
    """Makes findings and quotes samples; keeps the last file that it looked into."""

    def __init__(self, case: Case) -> None:
        self._case = case
        self._source = -1
        self._data = b""
        self._lines: list[bytes] | None = None
        self._series: dict[tuple[str, str, str], tuple[int, int]] | None = None
        self._searches = 0

    def finding(self, frame: Frame, sign: str, row: int, text: str, samples: Sequence[Sample], *,
                role: Role = Role.ROOT, severity: Severity = Severity.ERROR, last: int | None = None, count: int = 1,
                fields: dict[str, Any] | None = None) -> Finding:
        """A finding about one GPU.

        Args:
            frame: where it was seen.
            sign: one of the signs of `detect.metrics`.
            row: the GPU.
            text: what is said of it; the GPU's name is put in front.
            samples: the proof; the first is the beginning.
            role: part in a cascade.
            severity: how bad.
            last: column of the end.
            count: samples behind it.
            fields: numbers for people and rules.
        """
        entity = frame.entities[row]
        refs = [self.quote(frame, *sample) for sample in dict.fromkeys(samples)]
        first = refs[0].ts if refs else NO_TIME
        end = first if last is None or not samples else self.moment(frame, samples[0][0], row, last)[0]
        return Finding(sign=sign, text=f"{name_of(entity)} {text}", role=role, severity=severity, first=first,
                       last=max(first, end), node=entity.node, gpu=entity.gpu, pci=entity.pci, uuid=entity.uuid,
                       nodes=(entity.node,) if entity.node else (), job=entity.job, count=count, fields=fields or {},
                       evidence=refs)

    def moment(self, frame: Frame, name: str, row: int, column: int) -> tuple[int, SeriesBlock | None, int, int, int]:
        """Time of the sample that a cell shows, and where it stands: block, field, entity and column of the block."""
        import numpy as np

        start = int(frame.times[column])
        best: tuple[int, SeriesBlock | None, int, int, int] = (start, None, 0, 0, 0)
        for block, f, e in frame.parts(name, row):
            if start == NO_TIME:
                if not np.isnan(block.values[f, e, 0]):
                    return NO_TIME, block, f, e, 0
                continue
            # the newest sample of the cell, or of the cells before where it was repeated
            end = int(np.searchsorted(block.times, start + max(frame.step, 1)))
            if len(block.times) == len(frame.times) and int(block.times[column]) == start:
                end = column + 1
            seen = np.flatnonzero(~np.isnan(block.values[f, e, :end]))
            if len(seen) and (best[1] is None or int(block.times[seen[-1]]) > best[0]):
                best = int(block.times[seen[-1]]), block, f, e, int(seen[-1])
        return best

    def quote(self, frame: Frame, name: str, row: int, column: int) -> EvidenceRef:
        """One sample as evidence."""
        moment, block, f, e, at = self.moment(frame, name, row, column)
        entity = frame.entities[row]
        if block is None:
            return EvidenceRef("", 0, 0, f"{_selector(name, entity)} (no sample)", moment)
        source = self._case.sources[block.source]
        value = _number(float(block.values[f, e, at]))
        own = block.entities[e]
        self._open(block.source)
        if self._data[:64].lstrip(b"\xef\xbb\xbf \t\r\n")[:1] in (b"{", b"["):
            return self._in_json(source.name, name, own, moment, f"{_selector(name, entity)} {value}")
        text, line = block.text.get((f, e), ""), block.lines.get((f, e), 0)
        newest = not (~_is_nan(block.values[f, e, at + 1:])).any()
        if line and newest:
            offset = self._offset(line)
            shown = text if text.startswith(name) or "{" in text else f"{_selector(name, entity)} {value}"
            return EvidenceRef(source.name, line, offset, shown, moment)
        line, offset = self._row(text, moment)
        return EvidenceRef(source.name, line, offset, f"{_selector(name, entity)} {value}", moment)

    def _open(self, source: int) -> None:
        if self._source != source:
            self._source, self._series, self._lines, self._searches = source, None, None, 0
            info = self._case.sources[source]
            try:
                self._data = info.path.read_bytes() if info.size <= _FILE else b""
            except OSError:
                self._data = b""

    def _offset(self, line: int) -> int:
        position = 0
        for _ in range(line - 1):
            position = self._data.find(b"\n", position) + 1
            if position == 0:
                return 0
        return position

    def _in_json(self, source: str, name: str, entity: SeriesEntity, moment: int, text: str) -> EvidenceRef:
        """The place of a sample in an answer of Prometheus, with the labels as they stand there."""
        if self._series is None:
            self._series = _series(self._data)
        written = metric_names().fields[name].names if name in metric_names().fields else (name,)
        for metric in written:
            for key in ((metric, entity.uuid or "", ""), (metric, entity.node or "", str(entity.gpu))):
                place = self._series.get(key)
                if place is None:
                    continue
                start, end = place
                labels = json.loads(_METRIC.match(self._data, start)[1])  # type: ignore[index]
                stamp = str(moment // 10**9).encode()
                if moment % 10**9:
                    stamp += f".{moment % 10**9:09d}".rstrip("0").encode()
                found = re.compile(rb"\[\s*" + re.escape(stamp) + rb'(?:\.0+)?\s*,\s*"([^"]*)"').search(
                    self._data, start, end)
                offset = found.start() if found else start
                value = found[1].decode() if found else text.rpartition(" ")[2]
                shown = ",".join(f'{label}="{labels[label]}"' for label in _SHOWN if label in labels)
                return EvidenceRef(source, self._data.count(b"\n", 0, offset) + 1, offset,
                                   f"{metric}{{{shown}}} {value}", moment)
        return EvidenceRef(source, 0, 0, text, moment)

    def _row(self, text: str, moment: int) -> tuple[int, int]:
        """Line and offset of an earlier sample of the series whose last line is ``text``; zeros if not found."""
        from aiops.ingest.metrics_csv import parse_header, parse_time

        self._searches += 1
        if not text or self._searches > _SEARCHES:
            return 0, 0
        if self._lines is None:
            self._lines = self._data.split(b"\n")
        position = 0
        if "{" in text:
            key = text[:text.rfind("}") + 1].encode()
            stamps = {str(moment // 10**6).encode(), str(moment // 10**9).encode()}
            for number, line in enumerate(self._lines, 1):
                if line.startswith(key) and line.split()[-1] in stamps:
                    return number, position
                position += len(line) + 1
            return 0, 0
        head = next((line for line in self._lines if line.strip() and not line.startswith((b"#", b"sep="))), b"")
        header, delimiter = parse_header(head.decode("utf-8-sig", errors="replace"))
        wanted = next(csv.reader([text], delimiter=delimiter), [])
        who = [wanted[i].encode() for i in header.labels if i < len(wanted)]
        for number, line in enumerate(self._lines, 1):
            if header.time is not None and all(cell in line for cell in who):
                cells = [cell.strip() for cell in line.decode(errors="replace").split(delimiter)]
                if len(cells) == len(wanted) and all(cells[i] == wanted[i] for i in header.labels) \
                        and parse_time(cells[header.time]) == moment:
                    return number, position
            position += len(line) + 1
        return 0, 0


def name_of(entity: SeriesEntity) -> str:
    """``GPU 5 (0000:a8:00) on gx-n21``."""
    index = "GPU" if entity.gpu is None else f"GPU {entity.gpu}"
    bus = entity.pci or (entity.uuid if entity.gpu is None else None)
    parts = [index, f"({bus})" if bus else "", f"on {entity.node}" if entity.node else ""]
    return " ".join(filter(None, parts))


def _selector(name: str, entity: SeriesEntity) -> str:
    labels = [("gpu", entity.gpu), ("UUID", entity.uuid), ("pci_bus_id", entity.pci), ("Hostname", entity.node)]
    return name + "{" + ",".join(f'{key}="{value}"' for key, value in labels if value is not None) + "}"


def _number(value: float) -> str:
    return str(int(value)) if value == int(value) and abs(value) < 1e15 else f"{value:.6g}"


def _is_nan(values: np.ndarray) -> Any:
    import numpy as np

    return np.isnan(values)


def _series(data: bytes) -> dict[tuple[str, str, str], tuple[int, int]]:
    """Where the series of an answer stand, by metric and GPU: by UUID, and by host and index."""
    from aiops.ingest.metrics_labels import entity_of

    places: dict[tuple[str, str, str], tuple[int, int]] = {}
    keys: list[tuple[str, str, str]] = []
    start = 0
    for match in _METRIC.finditer(data):
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
    for key in keys:
        places.setdefault(key, (start, len(data)))
    return places
