#!/usr/bin/env python3
"""Metrics: Prometheus JSON to arrays against pandas by way of prometheus-api-client, all detectors on a fleet, and
the robust peer score against pandas. What is measured is first shown to be equal to a plain pandas reference.

    benchmarks/metrics.py [--smoke] [--rounds 7]

CPU seconds of this process, medians of interleaved rounds; only the ratio of one run means something. The data come
from a seeded generator.
"""

from __future__ import annotations

import argparse
import json
import random
import resource
import statistics
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from aiops.detect.metrics import detect
from aiops.detect.metrics_peers import robust_scores
from aiops.ingest.metrics import read_metrics
from aiops.model import Case, Finding, SeriesBlock, SeriesEntity, Source

T0 = 1_785_571_200
FIELDS = {
    "DCGM_FI_DEV_GPU_TEMP": (62, 2),
    "DCGM_FI_DEV_SM_CLOCK": (1950, 20),
    "DCGM_FI_DEV_POWER_USAGE": (640, 20),
    "DCGM_FI_DEV_GPU_UTIL": (97, 1),
    "DCGM_FI_PROF_PIPE_TENSOR_ACTIVE": (0.42, 0.02),
    "DCGM_FI_DEV_FB_USED": (72_000, 10),
    "DCGM_FI_DEV_XID_ERRORS": (0, 0),
    "DCGM_FI_DEV_CLOCK_THROTTLE_REASONS": (4, 0),
    "DCGM_FI_DEV_ECC_DBE_VOL_TOTAL": (0, 0),
    "DCGM_FI_DEV_PCIE_REPLAY_COUNTER": (2, 0),
}


def answer(series: int, points: int) -> bytes:
    """One metric of many GPUs as Prometheus answers it."""
    rng = random.Random(7)
    result = [
        {
            "metric": {
                "__name__": "DCGM_FI_DEV_POWER_USAGE",
                "gpu": str(s % 8),
                "UUID": f"GPU-{s:08x}",
                "Hostname": f"gx-{s // 8:04d}",
                "modelName": "NVIDIA H100 80GB HBM3",
                "pci_bus_id": f"00000000:{0x18 + s % 8:02X}:00.0",
                "instance": f"gx-{s // 8:04d}:9400",
            },
            "values": [[T0 + 60 * i, f"{rng.gauss(640, 20):.3f}"] for i in range(points)],
        }
        for s in range(series)
    ]
    body = {"status": "success", "data": {"resultType": "matrix", "result": result}}
    return json.dumps(body, separators=(",", ":")).encode()


def to_arrays(data: bytes) -> np.ndarray:
    """What the product does."""
    case = Case(root="", sources=[Source(0, "answer.json", Path("answer.json"), len(data), "metrics")])
    read_metrics(case.sources[0], data, case)
    return case.series[0].values[0]


def to_frame(data: bytes) -> np.ndarray:
    """What prometheus-api-client offers; its HTTP client decodes with the standard library too."""
    from prometheus_api_client import MetricRangeDataFrame

    frame = MetricRangeDataFrame(json.loads(data)["data"]["result"])
    return np.asarray(frame["value"], dtype=np.float32)


def fleet(gpus: int, points: int, faults: int) -> Case:
    """A fleet with noise, gaps, and ``faults`` faulty GPUs of each kind; see `faulty`."""
    rng = np.random.default_rng(7)
    values = np.empty((len(FIELDS), gpus, points), dtype=np.float32)
    for f, (mean, spread) in enumerate(FIELDS.values()):
        values[f] = mean
        if spread:
            values[f] += rng.normal(0, spread, (gpus, points)).astype(np.float32)
    names = list(FIELDS)
    # a counter's reset that is none of its increase, on one GPU of sixteen
    values[names.index("DCGM_FI_DEV_PCIE_REPLAY_COUNTER"), ::16, points // 3 :] = 0
    faulty(values, rng.choice(gpus // 8, 6 * faults, replace=False).reshape(6, faults) * 8 + 5)
    values[:, rng.random((gpus, points)) < 1e-4] = np.nan
    counters = [name.endswith(("TOTAL", "COUNTER")) for name in FIELDS]
    entities = [
        SeriesEntity(f"gx-{g // 8:04d}", g % 8, f"GPU-{g:08x}", f"0000:{0x18 + g % 8:02x}:00") for g in range(gpus)
    ]
    times = (T0 + 60 * np.arange(points, dtype=np.int64)) * 10**9
    source = Source(0, "fleet", Path("/dev/null"), 0, "metrics")
    return Case(
        root="", sources=[source], series=[SeriesBlock(0, names, [""] * len(names), counters, entities, times, values)]
    )


def faulty(values: np.ndarray, rows: np.ndarray) -> None:
    """Six kinds of faults, each on other nodes: heat, ECC with a reset, Xid, PCIe replays, absence, less work."""
    names, half = list(FIELDS), values.shape[2] // 2
    heat, ecc, xid, replay, absent, slow = rows
    values[names.index("DCGM_FI_DEV_GPU_TEMP"), heat, half:] = 92
    values[names.index("DCGM_FI_DEV_SM_CLOCK"), heat, half:] = 1200
    values[names.index("DCGM_FI_DEV_CLOCK_THROTTLE_REASONS"), heat, half:] = 0x44
    counts = values[names.index("DCGM_FI_DEV_ECC_DBE_VOL_TOTAL")]
    counts[ecc, : half // 2], counts[ecc, half // 2 : half], counts[ecc, half:] = 4, 0, 1  # reset, then one error
    values[names.index("DCGM_FI_DEV_XID_ERRORS"), xid, half:] = 79
    climb = np.maximum(0, np.arange(values.shape[2]) - half)
    values[names.index("DCGM_FI_DEV_PCIE_REPLAY_COUNTER"), replay] += 30 * climb
    values[:, absent, half:] = np.nan
    values[names.index("DCGM_FI_PROF_PIPE_TENSOR_ACTIVE"), slow, half:] *= 0.4


def reference(block: SeriesBlock) -> dict[str, set[int]]:
    """GPUs of six signs by the book, with pandas: a table of times and GPUs for each field."""
    import pandas as pd

    planes = {name: pd.DataFrame(block.values[f].T) for f, name in enumerate(block.fields)}
    nodes = np.arange(len(block.entities)) // 8

    def persists(mask: pd.DataFrame, samples: int = 3) -> set[int]:
        return set(np.flatnonzero(mask.rolling(samples).sum().ge(samples).any().to_numpy()))

    def increase(name: str) -> pd.Series:
        filled = planes[name].ffill()
        step = filled.diff()
        return step.where(step >= 0, filled).iloc[1:].fillna(0).sum()

    xid = planes["DCGM_FI_DEV_XID_ERRORS"].ffill()
    replays = increase("DCGM_FI_DEV_PCIE_REPLAY_COUNTER")
    here = planes["DCGM_FI_DEV_GPU_TEMP"].notna()
    reasons = planes["DCGM_FI_DEV_CLOCK_THROTTLE_REASONS"].fillna(0).astype(int)
    gone = ~here & here.cummax()
    scores = pandas_scores(planes["DCGM_FI_PROF_PIPE_TENSOR_ACTIVE"].to_numpy().T, nodes)
    return {
        "metric.thermal_throttle": persists((reasons & 0x60) > 0),
        "metric.ecc_dbe": set(np.flatnonzero(increase("DCGM_FI_DEV_ECC_DBE_VOL_TOTAL") > 0)),
        "metric.xid": set(np.flatnonzero(((xid.diff() != 0) & (xid > 0)).iloc[1:].any())),
        "metric.pcie_replay": set(np.flatnonzero((replays >= 20) & (replays >= 10 * (replays.median() + 1)))),
        "metric.gpu_absent": persists(gone),
        "metric.outlier": persists(pd.DataFrame(scores.T) <= -6, 6),
    }


def check(case: Case, found: Sequence[Finding]) -> int:
    """Compare the GPUs of each sign with the reference; the number of findings that were compared."""
    number = {(entity.node, entity.gpu): row for row, entity in enumerate(case.series[0].entities)}
    ours: dict[str, set[int]] = {}
    for finding in found:
        ours.setdefault(finding.sign, set()).add(number[finding.node, finding.gpu])
    theirs = reference(case.series[0])
    assert ours == theirs, {sign: ours.get(sign, set()) ^ theirs.get(sign, set()) for sign in {*ours, *theirs}}
    return sum(map(len, theirs.values()))


def pandas_scores(values: np.ndarray, groups: np.ndarray) -> np.ndarray:
    """The robust peer score as one writes it with pandas: long rows, grouped by node and time."""
    import pandas as pd

    gpus, points = values.shape
    rows = pd.DataFrame(
        {"node": np.repeat(groups, points), "time": np.tile(np.arange(points), gpus), "value": values.ravel()}
    )
    median = rows.groupby(["node", "time"])["value"].transform("median")
    distance = (rows["value"] - median).abs()
    spread = distance.groupby([rows["node"], rows["time"]]).transform("median")
    scores = 0.6745 * (rows["value"] - median) / np.maximum(spread, 0.01 * median.abs())
    return scores.to_numpy(dtype=np.float32).reshape(gpus, points)


def cpu(call: Callable[[], object]) -> float:
    """CPU seconds of one call."""
    begin = time.process_time()
    call()
    return time.process_time() - begin


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--smoke", action="store_true", help="small sizes, a few seconds")
    parser.add_argument("--rounds", type=int)
    options = parser.parse_args()
    rounds = options.rounds or (3 if options.smoke else 7)

    series, points = (300, 240) if options.smoke else (500, 240)
    data = answer(series, points)
    assert np.array_equal(np.sort(to_arrays(data).ravel()), np.sort(to_frame(data)))
    ours, theirs = [], []
    for _ in range(rounds):
        ours.append(cpu(lambda: to_arrays(data)))
        theirs.append(cpu(lambda: to_frame(data)))
    mine, other = statistics.median(ours), statistics.median(theirs)
    print(
        f"Prometheus JSON to arrays, {series * points:,} samples, {len(data) / 1e6:.1f} MB: {mine:.4f} s CPU "
        f"({series * points / mine / 1e6:.1f} M samples/s); MetricRangeDataFrame {other:.4f} s; "
        f"ratio {other / mine:.1f}x (must 4x, aim 8x)"
    )

    gpus, points = (800, 120) if options.smoke else (10_000, 240)
    case = fleet(gpus, points, max(1, gpus // 1000))
    found: list[Finding] = []
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    spent = statistics.median(
        cpu(lambda: found.__setitem__(slice(None), detect(case, None)))  # type: ignore[arg-type]
        for _ in range(1 if options.smoke else 3)
    )
    rss = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    compared = check(case, found)
    print(
        f"All detectors, {case.series[0].values.size / 1e6:.1f} M samples of {gpus:,} GPUs: {spent:.2f} s CPU, "
        f"{len(found)} findings ({compared} equal to the pandas reference, with gaps and resets), peak RSS {rss:.0f} MB, "
        f"{before:.0f} MB before (bar: 24 M samples in 3 s and 1 GB)"
    )

    values, groups = case.series[0].values[list(FIELDS).index("DCGM_FI_DEV_POWER_USAGE")], np.arange(gpus) // 8
    mine_, theirs_ = robust_scores(values, groups), pandas_scores(values, groups)
    assert np.allclose(mine_, theirs_, rtol=1e-4, atol=1e-3, equal_nan=True)
    ours, theirs = [], []
    for _ in range(1 if options.smoke else 3):
        ours.append(cpu(lambda: robust_scores(values, groups)))
        theirs.append(cpu(lambda: pandas_scores(values, groups)))
    mine, other = statistics.median(ours), statistics.median(theirs)
    print(
        f"Robust peer score, {values.size / 1e6:.1f} M samples: {mine:.4f} s CPU; pandas {other:.3f} s; "
        f"ratio {other / mine:.0f}x (must 10x)"
    )


if __name__ == "__main__":
    main()
