"""``results.parquet``: one row per bundle."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

from aiops.triage.rows import Row
from aiops.triage.task import write_atomically

if TYPE_CHECKING:
    import pyarrow


def schema() -> pyarrow.Schema:
    """Columns of the table; times are UTC microseconds."""
    import pyarrow as pa

    types: dict[str, Any] = {
        "confidence": pa.float64(),
        "hardware": pa.bool_(),
        "gpu": pa.int32(),
        "rank": pa.int32(),
        "gpus": pa.int32(),
        "gpu_hours_lost": pa.float64(),
        "seconds": pa.float64(),
        "actions": pa.list_(pa.string()),
        "started": pa.timestamp("us", tz="UTC"),
        "ended": pa.timestamp("us", tz="UTC"),
    }
    columns = [pa.field(item.name, types.get(item.name, pa.string())) for item in fields(Row)]
    return pa.schema(columns, metadata={"schema": "aiops.triage/v1"})


def write_table(rows: Sequence[Row], path: Path) -> None:
    """Replace the table atomically."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    layout = schema()
    columns = [pa.array([_clean(getattr(row, name)) for row in rows], layout.field(name).type) for name in layout.names]
    sink = pa.BufferOutputStream()
    pq.write_table(pa.Table.from_arrays(columns, schema=layout), sink, compression="zstd")
    write_atomically(path, sink.getvalue().to_pybytes())


def _clean(value: Any) -> Any:
    """Names of files may hold bytes that are no UTF-8; Parquet strings may not."""
    return value.encode("utf-8", "backslashreplace").decode("utf-8") if isinstance(value, str) else value
