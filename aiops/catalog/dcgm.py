"""GPU metrics by name: DCGM fields with their old and new names, columns of tables, and places in ``nvidia-smi -q``."""

from __future__ import annotations

import csv
import functools
import re
from dataclasses import dataclass

from aiops.resources import catalog_dir


@dataclass(frozen=True, slots=True)
class MetricField:
    """One row of ``dcgm_fields.csv``."""

    name: str
    """Name before the renames of DCGM 4.6; dcgm-exporter still ships these."""
    id: int | None
    """DCGM field id; ``None`` for metrics that dcgm-exporter makes itself."""
    counter: bool
    """Monotonic with resets. Decided here, since users type counters as gauges and the reverse."""
    unit: str
    names: tuple[str, ...]
    """All metric names of the field, the canonical one first."""
    meaning: str


@dataclass(frozen=True, slots=True)
class Name:
    """How a metric name or a CSV column refers to a field."""

    field: MetricField
    scale: float = 1.0
    """Factor from the written to the canonical unit."""
    bit: int = 0
    """For yes/no columns: the bit of the field that a yes sets."""


@dataclass(frozen=True, slots=True)
class MetricNames:
    """The catalog of GPU metrics."""

    fields: dict[str, MetricField]
    metrics: dict[str, Name]
    columns: dict[str, Name]
    smi: dict[str, Name]
    """By path in the output of ``nvidia-smi -q``, as text or as XML: ``remapped_rows/pending``."""


@functools.cache
def metric_names() -> MetricNames:
    """The built-in catalog, read once."""
    fields: dict[str, MetricField] = {}
    metrics: dict[str, Name] = {}
    columns: dict[str, Name] = {}
    smi: dict[str, Name] = {}
    with open(catalog_dir() / "dcgm_fields.csv", encoding="utf-8", newline="") as handle:
        for row in csv.DictReader(handle):
            aliases = [row["name"], *row["aliases"].split()]
            field = MetricField(
                row["name"],
                int(row["id"]) if row["id"] else None,
                row["type"] == "counter",
                row["unit"],
                tuple(re.split(r"[*=]", alias)[0] for alias in aliases),
                row["meaning"],
            )
            fields[field.name] = field
            metrics.update(_named(field, aliases))
            columns.update(_named(field, row["columns"].split()))
            columns.update((column_key(name), Name(field)) for name in field.names if name.startswith("DCGM_"))
            smi.update(_named(field, row["smi"].split()))
    return MetricNames(fields, metrics, columns, smi)


_LONGEST = 200
"""Characters of a header that are looked at; every known one is far shorter."""


def column_key(header: str) -> str:
    """A CSV header as the catalog writes it: ``utilization.gpu [%]`` becomes ``utilization_gpu``."""
    bare = re.sub(r"\s*[\[(].*?[\])]", "", header[:_LONGEST].strip().strip('"').lstrip("\ufeff").lower())
    return re.sub(r"[^a-z0-9]+", "_", bare).strip("_")


def _named(field: MetricField, words: list[str]) -> dict[str, Name]:
    """``name``, ``name*factor`` or ``name=bit``."""
    named = {}
    for word in words:
        name, _, factor = word.partition("*")
        name, _, bit = name.partition("=")
        named[name] = Name(field, float(factor) if factor else 1.0, int(bit, 16) if bit else 0)
    return named
