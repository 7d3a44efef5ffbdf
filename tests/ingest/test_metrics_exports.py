"""Exports of other stores: Parquet, long and wide, and the lines of VictoriaMetrics."""

from __future__ import annotations

import io
import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aiops.ingest.metrics import read_metrics, sniff_metrics
from aiops.ingest.sniff import sniff
from aiops.model import Case, Source

T0 = 1_785_571_200
MOMENTS = [T0, T0 + 60]
TEMP, UTIL = "DCGM_FI_DEV_GPU_TEMP", "DCGM_FI_DEV_GPU_UTIL"


def parquet(columns: dict[str, object]) -> bytes:
    sink = io.BytesIO()
    pq.write_table(pa.table(columns), sink)
    return sink.getvalue()


def times(repeat: int) -> pa.Array:
    return pa.array([t * 10**6 for t in MOMENTS for _ in range(repeat)], pa.timestamp("us", tz="UTC"))


LONG = parquet(
    {
        "timestamp": times(4),
        "Hostname": pa.array(["gx-07"] * 8).dictionary_encode(),
        "gpu": [0, 0, 1, 1] * 2,
        "metric": [TEMP, UTIL] * 4,
        "value": [61.0, 98.0, 62.0, None, 63.0, 97.0, 64.0, 96.0],
    }
)
WIDE = parquet(
    {"time": times(2), "host": ["gx-07"] * 4, "gpu": [0, 1] * 2, "temp_c": [61, 62, 63, 64], "util": [98, None, 97, 96]}
)
SERIES = parquet(
    {
        "time": times(1),
        **{
            f'{name}{{gpu="{gpu}",Hostname="gx-07"}}': pair
            for name, gpu, pair in (
                (TEMP, 0, [61.0, 63.0]),
                (TEMP, 1, [62.0, 64.0]),
                (UTIL, 0, [98.0, 97.0]),
                (UTIL, 1, [None, 96.0]),
            )
        },
    }
)
VICTORIA = "".join(
    json.dumps(
        {
            "metric": {"__name__": name, "gpu": str(gpu), "Hostname": "gx-07"},
            "values": [value for value in pair if value is not None],
            "timestamps": [t * 1000 for t, value in zip(MOMENTS, pair, strict=True) if value is not None],
        }
    )
    + "\n"
    for name, gpu, pair in ((TEMP, 0, [61, 63]), (TEMP, 1, [62, 64]), (UTIL, 0, [98, 97]), (UTIL, 1, [None, 96]))
).encode()


def read(data: bytes) -> Case:
    case = Case(root="")
    case.sources.append(Source(0, "export", Path("export"), len(data), "metrics"))
    read_metrics(case.sources[0], data, case)
    return case


@pytest.mark.parametrize("data", [LONG, WIDE, SERIES, VICTORIA], ids=["long", "wide", "series", "victoria"])
def test_each_export_is_the_same_array(data: bytes) -> None:
    case = read(data)
    assert case.coverage.problems == []
    (block,) = case.series
    assert block.times.tolist() == [t * 10**9 for t in MOMENTS]
    assert [(entity.node, entity.gpu) for entity in block.entities] == [("gx-07", 0), ("gx-07", 1)]
    values = {name: block.values[f] for f, name in enumerate(block.fields)}
    assert values[TEMP].tolist() == [[61, 63], [62, 64]]
    assert np.array_equal(values[UTIL], [[98, 97], [np.nan, 96]], equal_nan=True)


def test_parquet_is_recognised_by_its_content() -> None:
    documents = (("metrics", sniff_metrics),)
    assert sniff(LONG, documents)[:2] == ("metrics", "parquet")
    assert sniff(b"\x00\x01\x02\x03" * 50, documents).kind == "binary"


def test_what_cannot_be_read_is_told() -> None:
    other = read(parquet({"name": ["a"], "price": [1.0]}))
    assert any("no column of it is known" in problem.reason for problem in other.coverage.problems)
    cut = read(LONG[: len(LONG) // 2])
    assert any("not readable as Parquet" in problem.reason for problem in cut.coverage.problems)
    nested = read(
        parquet({"time": times(1), "host": ["a1"] * 2, "gpu": [0, 0], "temp": [60, 61], "labels": [[1], [2]]})
    )
    assert [problem.reason for problem in nested.coverage.problems] == [
        "column labels holds lists or maps and is not read"
    ]
    assert nested.series[0].values.ravel().tolist() == [60, 61]


@settings(max_examples=60, deadline=None)
@given(st.sampled_from([LONG, WIDE]), st.integers(4, 2000), st.binary(min_size=1, max_size=8))
def test_damaged_parquet_never_raises(data: bytes, at: int, noise: bytes) -> None:
    at %= len(data)
    case = read(data[:at] + noise + data[at + len(noise) :])
    assert len(case.series) + len(case.coverage.problems) > 0
