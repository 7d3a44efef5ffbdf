"""Hostile or damaged metrics never raise, never invent samples, and stay bounded."""

from __future__ import annotations

import json
import random
from pathlib import Path

import numpy as np
import pytest

from aiops.ingest.metrics import read_metrics, sniff_metrics
from aiops.model import NO_TIME, Case, Source

T0 = 1_785_571_200


def read(data: bytes) -> Case:
    case = Case(root="", sources=[Source(0, "m", Path("m"), len(data), "metrics")])
    read_metrics(case.sources[0], data, case)
    return case


def samples(case: Case) -> dict[tuple[str, str | None, int], float]:
    found = {}
    for block in case.series:
        for f, e, t in np.argwhere(np.isfinite(block.values)):
            key = block.fields[f], block.entities[e].uuid, int(block.times[t])
            found[key] = float(block.values[f, e, t])
    return found


def prometheus() -> bytes:
    return json.dumps(
        {
            "status": "success",
            "data": {
                "resultType": "matrix",
                "result": [
                    {
                        "metric": {"__name__": name, "gpu": str(g), "UUID": f"GPU-{g}", "Hostname": "n1"},
                        "values": [[T0 + 15 * i, str(10 * g + i)] for i in range(4)],
                    }
                    for name in ("DCGM_FI_DEV_GPU_TEMP", "DCGM_FI_DEV_GPU_UTIL")
                    for g in range(3)
                ],
            },
        },
        separators=(",", ":"),
    ).encode()


def exposition() -> bytes:
    return "".join(
        f'DCGM_FI_DEV_GPU_TEMP{{gpu="{g}",UUID="GPU-{g}",Hostname="n1"}} {10 * g + i} {T0 + 15 * i}000\n'
        for g in range(3)
        for i in range(4)
    ).encode()


def table() -> bytes:
    return (
        "timestamp,host,gpu,uuid,temp_c,util_pct\n"
        + "".join(f"{T0 + 15 * i},n1,{g},GPU-{g},{10 * g + i},{90 + i}\n" for i in range(4) for g in range(3))
    ).encode()


@pytest.mark.parametrize("whole", [prometheus(), exposition(), table()], ids=["prometheus", "exposition", "csv"])
def test_any_cut_keeps_a_part_of_the_truth(whole: bytes) -> None:
    truth = samples(read(whole))
    assert len(truth) >= 12
    for cut in range(len(whole)):
        case = read(whole[:cut])
        kept = samples(case)
        # the last number of a text file may be cut in the middle: it alone may differ
        wrong = [key for key, value in kept.items() if truth.get(key) != value]
        assert len(wrong) <= (0 if whole[:1] == b"{" else 1), cut
        assert kept or case.coverage.problems


@pytest.mark.parametrize("whole", [prometheus(), exposition(), table()], ids=["prometheus", "exposition", "csv"])
def test_flipped_bytes_never_raise(whole: bytes) -> None:
    rng = random.Random(7)
    for _ in range(300):
        data = bytearray(whole)
        for _ in range(rng.randint(1, 6)):
            data[rng.randrange(len(data))] = rng.randrange(256)
        sniff_metrics(bytes(data))
        read(bytes(data))


@pytest.mark.parametrize("stamp", ["1e300", "-1e300", "NaN", "9999999999999999999999"])
def test_times_out_of_range_are_refused(stamp: str) -> None:
    lines = "".join(
        f'DCGM_FI_DEV_GPU_TEMP{{gpu="{g}",UUID="GPU-{g}"}} 6{g}{end}\n' for g, end in ((0, ""), (1, f" {stamp}"))
    )
    case = read(lines.encode())
    assert case.coverage.problems[0].line == 2
    assert samples(case) == {("DCGM_FI_DEV_GPU_TEMP", "GPU-0", NO_TIME): 60}
    case = read(f"timestamp,gpu,temp_c\n{stamp},0,60\n{T0},1,61\n".encode())
    assert case.coverage.problems[0].line == 2 and len(samples(case)) == 1


def test_a_year_beyond_the_clock_is_refused() -> None:
    case = read(f"timestamp,gpu,temp_c\n9999-01-01,0,60\n0001-01-01,0,60\n{T0},1,61\n".encode())
    assert [p.line for p in case.coverage.problems] == [2, 3] and len(samples(case)) == 1


def test_labels_that_are_no_text_are_refused() -> None:
    text = f'{{"data":{{"result":[{{"metric":{{"gpu":{{"a":1}},"UUID":7}},"values":[[{T0},"1"]]}}]}}}}'
    case = read(text.encode())
    assert not case.series and "not readable" in case.coverage.problems[0].reason


def test_deep_nesting_is_not_followed() -> None:
    text = '{"metric":{"gpu":"0"},"values":[' + "[" * 5000 + "]" * 5000 + "]}"
    case = read(b'{"data":{"result":[' + text.encode() + b"]}}")
    assert not case.series and case.coverage.problems


def test_problems_of_a_bad_file_are_counted_not_listed() -> None:
    lines = 'DCGM_FI_DEV_GPU_TEMP{gpu="0"} 60\n' * 60 + 'DCGM_FI_DEV_GPU_TEMP{gpu="1"} cold\n' * 5_000
    case = read(lines.encode())
    assert len(case.coverage.problems) == 21
    assert "4980 further problems" in case.coverage.problems[-1].reason


def test_endless_unknown_metrics_are_cut_and_gpus_are_kept() -> None:
    noise = "".join(f'http_requests_total{{path="/{i}"}} {i}\n' for i in range(21_000))
    case = read((noise + 'DCGM_FI_DEV_GPU_TEMP{gpu="0",UUID="GPU-0"} 60\n').encode())
    assert ("DCGM_FI_DEV_GPU_TEMP", "GPU-0", NO_TIME) in samples(case)
    assert len(samples(case)) < 21_000
    assert any("further series were not kept" in p.reason for p in case.coverage.problems)
