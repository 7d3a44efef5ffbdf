"""The catalog of metric names: one meaning for each name, and imports that stay cheap."""

from __future__ import annotations

import csv
import subprocess
import sys
from collections import Counter

from aiops.catalog.dcgm import column_key, metric_names
from aiops.resources import catalog_dir


def test_no_name_and_no_field_id_is_used_twice() -> None:
    with open(catalog_dir() / "dcgm_fields.csv", encoding="utf-8", newline="") as handle:
        rows = list(csv.DictReader(handle))
    names = Counter(word.partition("*")[0] for row in rows for word in (row["name"], *row["aliases"].split()))
    columns = Counter(word.partition("*")[0].partition("=")[0] for row in rows for word in row["columns"].split())
    ids = Counter(row["id"] for row in rows if row["id"])
    assert [word for counter in (names, columns, ids) for word, count in counter.items() if count > 1] == []
    assert all(column_key(word) == word for word in columns)
    assert {row["type"] for row in rows} == {"gauge", "counter"}


def test_old_and_new_dcgm_names_are_the_same_field() -> None:
    metrics = metric_names().metrics
    for old, new, number in (
        ("DCGM_FI_DEV_POWER_USAGE", "DCGM_FI_DEV_BOARD_POWER_WATTS", 155),
        ("DCGM_FI_DEV_CLOCK_THROTTLE_REASONS", "DCGM_FI_DEV_CLOCKS_EVENT_REASONS", 112),
        ("DCGM_FI_DEV_XID_ERRORS", "DCGM_FI_DEV_XID_ERROR", 230),
        ("DCGM_FI_DEV_ROW_REMAP_FAILURE", "DCGM_FI_DEV_ROW_REMAP_FAILED", 395),
    ):
        assert metrics[old].field is metrics[new].field
        assert (metrics[new].field.name, metrics[new].field.id) == (old, number)


def test_headers_lose_units_and_punctuation() -> None:
    assert column_key(' "Utilization.GPU [%]"') == "utilization_gpu"
    assert column_key("\ufeffTemp (°C)") == "temp"


def test_nothing_heavy_is_imported_before_there_are_metrics() -> None:
    code = (
        "import sys, aiops.ingest.metrics, aiops.detect.metrics, aiops.sources.prometheus; "
        "print(sorted({'pandas', 'requests', 'prometheus_api_client'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
