#!/usr/bin/env python3
"""Metrics: Prometheus JSON to arrays against pandas by way of prometheus-api-client, and all detectors on a fleet.

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
from collections.abc import Callable
from pathlib import Path

import numpy as np

from aiops.detect.metrics import detect
from aiops.ingest.metrics import read_metrics
from aiops.model import Case, SeriesBlock, SeriesEntity, Source

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
    """A fleet with noise, gaps, and some faulty GPUs."""
    rng = np.random.default_rng(7)
    values = np.empty((len(FIELDS), gpus, points), dtype=np.float32)
    for f, (mean, spread) in enumerate(FIELDS.values()):
        values[f] = mean
        if spread:
            values[f] += rng.normal(0, spread, (gpus, points)).astype(np.float32)
    values[:, rng.random((gpus, points)) < 1e-4] = np.nan
    names = list(FIELDS)
    for gpu in rng.choice(gpus, faults, replace=False):
        values[names.index("DCGM_FI_DEV_GPU_TEMP"), gpu, points // 2 :] = 92
        values[names.index("DCGM_FI_DEV_SM_CLOCK"), gpu, points // 2 :] = 1200
        values[names.index("DCGM_FI_DEV_CLOCK_THROTTLE_REASONS"), gpu, points // 2 :] = 0x44
    counters = [name.endswith(("TOTAL", "COUNTER")) for name in FIELDS]
    entities = [
        SeriesEntity(f"gx-{g // 8:04d}", g % 8, f"GPU-{g:08x}", f"0000:{0x18 + g % 8:02x}:00") for g in range(gpus)
    ]
    times = (T0 + 60 * np.arange(points, dtype=np.int64)) * 10**9
    source = Source(0, "fleet", Path("/dev/null"), 0, "metrics")
    return Case(
        root="", sources=[source], series=[SeriesBlock(0, names, [""] * len(names), counters, entities, times, values)]
    )


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
    found: list[object] = []
    spent = statistics.median(
        cpu(lambda: found.__setitem__(slice(None), detect(case, None)))  # type: ignore[arg-type]
        for _ in range(1 if options.smoke else 3)
    )
    rss = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(
        f"All detectors, {case.series[0].values.size / 1e6:.1f} M samples of {gpus:,} GPUs: {spent:.2f} s CPU, "
        f"{len(found)} findings, peak RSS {rss:.0f} MB (bar: 24 M samples in 2.5 s)"
    )


if __name__ == "__main__":
    main()
