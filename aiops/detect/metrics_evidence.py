"""Findings about GPUs with the samples that prove them, and where these stand in their file."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from aiops.catalog.dcgm import metric_names
from aiops.detect.metrics_frame import Frame
from aiops.detect.metrics_place import MetricsFile, Place
from aiops.model import NO_TIME, Case, EvidenceRef, Finding, Role, SeriesBlock, SeriesEntity, Severity

_FILES = 64
"""Sources kept open."""

Sample = tuple[str, int, int]
"""Field, row and column of a frame."""


class Proof:
    """Makes findings and quotes samples."""

    def __init__(self, case: Case) -> None:
        self._case = case
        self._files: dict[int, MetricsFile] = {}

    def finding(
        self,
        frame: Frame,
        sign: str,
        row: int,
        text: str,
        samples: Sequence[Sample],
        *,
        role: Role = Role.ROOT,
        severity: Severity = Severity.ERROR,
        last: int | None = None,
        count: int = 1,
        fields: dict[str, Any] | None = None,
    ) -> Finding:
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
        return Finding(
            sign=sign,
            text=f"{name_of(entity)} {text}",
            role=role,
            severity=severity,
            first=first,
            last=max(first, end),
            node=entity.node,
            gpu=entity.gpu,
            pci=entity.pci,
            uuid=entity.uuid,
            nodes=(entity.node,) if entity.node else (),
            job=entity.job,
            count=count,
            fields=fields or {},
            evidence=refs,
        )

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
        import numpy as np

        moment, block, f, e, at = self.moment(frame, name, row, column)
        entity = frame.entities[row]
        if block is None:
            return EvidenceRef("", 0, 0, f"{_selector(name, entity)} (no sample)", moment)
        source = self._case.sources[block.source]
        file = self._file(block.source)
        shown = f"{_selector(name, entity)} {_number(float(block.values[f, e, at]))}"
        text, line = block.text.get((f, e), ""), block.lines.get((f, e), 0)
        if file.is_json:
            known = metric_names().fields.get(name)
            place = file.sample(known.names if known else (name,), block.entities[e], moment)
        elif line and np.isnan(block.values[f, e, at + 1 :]).all():
            verbatim = "{" in text or source.format.startswith("nvidia-smi")
            place = Place(line, file.offset(line), text if verbatim else "")
        else:
            place = file.row(text, moment)
        if place is None:
            return EvidenceRef(source.name, 0, 0, shown, moment)
        return EvidenceRef(source.name, place.line, place.offset, place.text or shown, moment)

    def _file(self, source: int) -> MetricsFile:
        file = self._files.get(source)
        if file is None:
            if len(self._files) >= _FILES:
                self._files.pop(next(iter(self._files)))
            file = self._files[source] = MetricsFile(self._case.sources[source].path)
        return file


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
    return str(int(value)) if abs(value) < 1e15 and value == int(value) else f"{value:.6g}"
