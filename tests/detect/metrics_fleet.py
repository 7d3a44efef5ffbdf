"""A fleet of GPUs as a case: healthy by default, with what a test changes; written to a file and read back."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from pathlib import Path

from aiops.detect.metrics import detect
from aiops.ingest.metrics import read_metrics
from aiops.model import Case, Finding, Source

T0 = 1_785_571_200
STEP = 60
Change = Callable[[dict[str, float | None], int], None]
"""Changes the values of a GPU at a sample number; ``None`` takes a value away."""

TEMP, CLOCK, UTIL = "DCGM_FI_DEV_GPU_TEMP", "DCGM_FI_DEV_SM_CLOCK", "DCGM_FI_DEV_GPU_UTIL"
POWER, USED, FREE = "DCGM_FI_DEV_POWER_USAGE", "DCGM_FI_DEV_FB_USED", "DCGM_FI_DEV_FB_FREE"
REASONS, XID = "DCGM_FI_DEV_CLOCK_THROTTLE_REASONS", "DCGM_FI_DEV_XID_ERRORS"
SBE, DBE = "DCGM_FI_DEV_ECC_SBE_VOL_TOTAL", "DCGM_FI_DEV_ECC_DBE_VOL_TOTAL"
PENDING, FAILURE = "DCGM_FI_DEV_ROW_REMAP_PENDING", "DCGM_FI_DEV_ROW_REMAP_FAILURE"
ROWS, REPLAY = "DCGM_FI_DEV_UNCORRECTABLE_REMAPPED_ROWS", "DCGM_FI_DEV_PCIE_REPLAY_COUNTER"
WIDTH, TENSOR = "DCGM_FI_DEV_PCIE_LINK_WIDTH", "DCGM_FI_PROF_PIPE_TENSOR_ACTIVE"
CRC, RECOVERY = "DCGM_FI_DEV_NVLINK_CRC_DATA_ERROR_COUNT_TOTAL", "DCGM_FI_DEV_NVLINK_RECOVERY_ERROR_COUNT_TOTAL"


def healthy(node: int, gpu: int, i: int) -> dict[str, float | None]:
    """A GPU of a training job: small noise, a warm slot, old constant counts, a checkpoint pause every 20 samples."""
    wave = (7 * node + 3 * gpu + 5 * i) % 11
    pause = i % 20 == 19
    return {
        TEMP: 58 + wave % 5 + 4 * (gpu == 7),
        CLOCK: 1980 - 15 * (wave % 2),
        UTIL: 40 if pause else 96 + wave % 4,
        POWER: (310 if pause else 640) + wave,
        USED: 72_000 + wave,
        FREE: 9_000 - wave,
        REASONS: 4 if wave % 3 else 0,
        XID: 0,
        SBE: 2 if gpu == 3 else 0,
        DBE: 0,
        PENDING: 0,
        FAILURE: 0,
        ROWS: 1 if (node, gpu) == (0, 2) else 0,
        REPLAY: 58 if (node, gpu) == (1, 1) else gpu % 3,
        WIDTH: 16,
        TENSOR: 0.05 if pause else 0.42 + wave / 100,
        CRC: gpu % 2,
        RECOVERY: 0,
    }


def change(name: str, value: float | None, since: int = 20, until: int = 10**6) -> Change:
    """The value of one field from one sample on."""

    def apply(values: dict[str, float | None], i: int) -> None:
        if since <= i < until:
            values[name] = value

    return apply


def fleet(
    folder: Path,
    changes: dict[tuple[int, int], Iterable[Change]] | None = None,
    *,
    nodes: int = 2,
    gpus: int = 8,
    samples: int = 40,
    parts: int = 1,
    step: int = STEP,
    only: set[str] | None = None,
) -> Case:
    """Range answers of ``nodes`` x ``gpus`` GPUs, in ``parts`` files of some metrics each."""
    series: dict[str, list[dict[str, object]]] = {}
    for node in range(nodes):
        for gpu in range(gpus):
            columns: dict[str, list[list[object]]] = {}
            for i in range(samples):
                values = healthy(node, gpu, i)
                for apply in (changes or {}).get((node, gpu), ()):
                    apply(values, i)
                for name, value in values.items():
                    if value is not None and (only is None or name in only):
                        columns.setdefault(name, []).append([T0 + step * i, f"{value:g}"])
            for name, pairs in columns.items():
                labels = {
                    "__name__": name,
                    "gpu": str(gpu),
                    "UUID": f"GPU-{node}-{gpu}",
                    "Hostname": f"gx-{node:02d}",
                    "pci_bus_id": f"00000000:{0x10 + gpu:02X}:00.0",
                    "modelName": "NVIDIA H100 80GB HBM3",
                }
                series.setdefault(name, []).append({"metric": labels, "values": pairs})
    case = Case(root=str(folder))
    names = sorted(series)
    for part in range(parts):
        result = [item for name in names[part::parts] for item in series[name]]
        document = {"status": "success", "data": {"resultType": "matrix", "result": result}}
        add(case, folder / f"part{part}.json", json.dumps(document, separators=(",", ":")))
    return case


def scrape(
    folder: Path, changes: dict[tuple[int, int], Iterable[Change]] | None = None, *, nodes: int = 1, gpus: int = 8
) -> Case:
    """One scrape of each node, each its own file without time stamps."""
    case = Case(root=str(folder))
    for node in range(nodes):
        lines = []
        for gpu in range(gpus):
            values = healthy(node, gpu, 3)
            for apply in (changes or {}).get((node, gpu), ()):
                apply(values, 10**5)
            lines += [
                f'{name}{{gpu="{gpu}",UUID="GPU-{node}-{gpu}",pci_bus_id="00000000:{0x10 + gpu:02X}:00.0",'
                f'Hostname="gx-{node:02d}"}} {value:g}'
                for name, value in values.items()
                if value is not None
            ]
        add(case, folder / f"node{node}.prom", "\n".join(sorted(lines)) + "\n")
    return case


def add(case: Case, path: Path, text: str) -> None:
    """Write a source and read it into the case."""
    path.write_text(text)
    source = Source(len(case.sources), path.name, path, len(text), "metrics")
    case.sources.append(source)
    read_metrics(source, text.encode(), case)


def find(case: Case) -> list[Finding]:
    """Findings of the case in their order."""
    return detect(case, None)  # type: ignore[arg-type]


def signs(case: Case) -> list[tuple[str, str | None, int | None, str]]:
    """Sign, node, GPU and role of each finding."""
    return [(f.sign, f.node, f.gpu, f.role.value) for f in find(case)]
