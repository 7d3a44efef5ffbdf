"""Numbers that no program writes, in the places where logs carry numbers: Python turns no more than 4300 digits into one."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from aiops.catalog import load_catalog
from aiops.config import Settings, default_cache_dir
from aiops.ingest.kubernetes_fields import integer, quantity
from aiops.ingest.metrics_csv import parse_number
from aiops.ingest.prefix import parse_prefix
from aiops.pipeline import analyze_paths

LONG = "9" * 5000
PLACES = [
    "{0}", "[{0}.{0}] x", "[ {0}.1] x", "n1:{0}:{0} [{0}] NCCL INFO x", "[rank{0}]: x", "[default{0}]:x", "[{0},{0}]<stdout>: x",
    "(pid={0}) x", "6,{0},{0},-;x", "<{0}>Aug  1 08:00:01 n1 k[{0}]: x", "{0}: x", "E{0} 08:00:01.{0} {0} a.cc:{0}] x",
    "2026-08-01T08:00:01.{0}Z x", "world_size={0}", "  File \"/a.py\", line {0}, in f", "srun: error: n1: tasks 0-{0}: Killed",
    "Process {0}: python", "0/{0} nodes are available: {0} Insufficient nvidia.com/gpu.", "size={0} loss={0}.{0}%",
    '{{"_BOOT_ID": "b", "_HOSTNAME": "n1", "__REALTIME_TIMESTAMP": "{0}", "__MONOTONIC_TIMESTAMP": "{0}", "MESSAGE": "x"}}',
    "time      : 2026-08-01_08:00:01\n  host      : n1\n  rank      : {0} (local_rank: {0})\n  exitcode  : {0} (pid: {0})",
]  # fmt: skip


def examples(number: str) -> str:
    """What the catalogue knows, with another number in each place, and once with addresses and names left as they are."""
    lines = [line for signal in load_catalog().signals for line in signal.examples]
    plain = re.compile(r"(?<![0-9A-Za-z.:])\d+(?![\d.:x]*[0-9a-fx:.])")
    return "".join(f"{plain.sub(number, line)}\n" + re.sub(r"\d+", number, line) + "\n" for line in lines)


@pytest.mark.parametrize("number", [LONG, "9" * 9, "²"], ids=["5000 digits", "9 digits", "superscript"])
@pytest.mark.parametrize("name", ["train.log", "kern.log"])
def test_no_number_ends_the_analysis(tmp_path: Path, name: str, number: str) -> None:
    text = examples(number) + "".join(place.format(number) + "\n" for place in PLACES)
    (tmp_path / name).write_text(text * 2)
    assert analyze_paths([tmp_path], Settings(cache_dir=default_cache_dir())).verdict


@pytest.mark.parametrize("place", PLACES)
def test_prefixes_take_any_number(place: str) -> None:
    parse_prefix(place.format(LONG))


@pytest.mark.parametrize("value", ["--5", "-", "", LONG, "²", "1e3"])
def test_a_field_that_is_no_number_is_none(value: str) -> None:
    assert integer(value) is None


def test_numbers_beyond_all_measure_are_no_values() -> None:
    assert quantity(LONG) is None and quantity("0.5") == 0.5
    assert parse_number("0x" + "f" * 400) is None and parse_number("0x40") == 64
