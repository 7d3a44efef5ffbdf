"""GPU samples in Parquet, long or wide: read as the table that it is, with the columns of `metrics_csv`."""

from __future__ import annotations

import io

from aiops.ingest.metrics_block import SeriesBuilder
from aiops.ingest.metrics_csv import header_of, read_csv

MAGIC = b"PAR1"
_CELLS = 40_000_000
"""Cells read of one file; a small file can claim any number of rows."""
_BATCH = 65_536


def read_parquet(builder: SeriesBuilder, data: bytes) -> int:
    """Read all samples; columns that hold lists or maps, and a file that is damaged, are reported.

    Returns:
        Number of samples read.
    """
    import pyarrow
    import pyarrow.csv
    import pyarrow.parquet

    text = io.BytesIO()
    try:
        file = pyarrow.parquet.ParquetFile(pyarrow.BufferReader(data))
        if file.metadata.num_rows * file.metadata.num_columns > _CELLS:
            builder.problem(
                f"{file.metadata.num_rows} rows of {file.metadata.num_columns} columns are too many to be read"
            )
            return 0
        nested = [field.name for field in file.schema_arrow if pyarrow.types.is_nested(field.type)]
        for name in nested:
            builder.problem(f"column {name[:60]} holds lists or maps and is not read")
        names = [field.name for field in file.schema_arrow if field.name not in nested]
        for number, batch in enumerate(file.iter_batches(_BATCH, columns=names)):
            columns = [_plain(column) for column in batch.columns]
            options = pyarrow.csv.WriteOptions(include_header=number == 0)
            pyarrow.csv.write_csv(pyarrow.table(columns, names=batch.schema.names), text, options)
    except (pyarrow.ArrowException, OSError, ValueError) as problem:
        builder.problem(f"not readable as Parquet: {str(problem)[:200]}")
    if not text.tell():
        return 0
    head = text.getvalue()[:_BATCH].decode("utf-8", "replace")
    if header_of(head) is None:
        builder.problem(f"no column of it is known: {head.splitlines()[0][:200]}")
        return 0
    return read_csv(builder, text.getvalue(), numbered=False)


def _plain(column: object) -> object:
    """Times as milliseconds since 1970, and words instead of numbers of words."""
    import pyarrow

    assert isinstance(column, pyarrow.Array)
    if pyarrow.types.is_dictionary(column.type):
        return column.dictionary_decode()
    if pyarrow.types.is_timestamp(column.type):
        return column.cast(pyarrow.timestamp("ms", tz=column.type.tz), safe=False).cast(pyarrow.int64())
    return column
