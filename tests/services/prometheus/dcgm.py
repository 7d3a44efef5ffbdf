"""A fleet of GPUs whose DCGM values are a pure function of node, GPU and time, with faults.

History written by ``openmetrics`` joins up with what `exporter` serves live.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

METRICS = {
    "DCGM_FI_DEV_SM_CLOCK": ("gauge", "SM clock frequency (in MHz)."),
    "DCGM_FI_DEV_GPU_TEMP": ("gauge", "GPU temperature (in C)."),
    "DCGM_FI_DEV_POWER_USAGE": ("gauge", "Power draw (in W)."),
    "DCGM_FI_DEV_PCIE_REPLAY_COUNTER": ("counter", "Total number of PCIe retries."),
    "DCGM_FI_DEV_GPU_UTIL": ("gauge", "GPU utilization (in %)."),
    "DCGM_FI_DEV_XID_ERRORS": ("gauge", "Value of the last XID error encountered."),
    "DCGM_FI_DEV_FB_FREE": ("gauge", "Framebuffer memory free (in MiB)."),
    "DCGM_FI_DEV_FB_USED": ("gauge", "Framebuffer memory used (in MiB)."),
    "DCGM_FI_DEV_CLOCK_THROTTLE_REASONS": ("gauge", "Clock throttle reasons bitmask."),
    "DCGM_FI_DEV_ECC_SBE_VOL_TOTAL": ("counter", "Total number of single-bit volatile ECC errors."),
    "DCGM_FI_DEV_ECC_DBE_VOL_TOTAL": ("counter", "Total number of double-bit volatile ECC errors."),
    "DCGM_FI_DEV_ROW_REMAP_PENDING": ("gauge", "Whether a row remapping is pending."),
    "DCGM_FI_PROF_PIPE_TENSOR_ACTIVE": ("gauge", "Ratio of cycles the tensor (HMMA) pipe is active."),
}


@dataclass(frozen=True)
class Fault:
    """What is wrong with one GPU from ``since`` (seconds since 1970) on.

    Kinds: ``xid VALUE``, ``dbe COUNT``, ``sbe COUNT``, ``thermal CELSIUS``, ``idle``, ``hang``, ``pending``,
    ``replay COUNT`` and ``lost`` (no series at all).
    """

    node: str
    gpu: int
    kind: str
    since: float
    value: float = 0


def uuid(node: str, gpu: int) -> str:
    """The GPU's UUID, the same in every run."""
    h = _hash(f"{node}/{gpu}")
    return f"GPU-{h & 0xFFFFFFFF:08x}-{h >> 32 & 0xFFFF:04x}-{h >> 48 & 0xFFFF:04x}-0000-{h & 0xFFFFFFFFFFFF:012x}"


def labels(node: str, gpu: int) -> str:
    """Labels as dcgm-exporter writes them."""
    return (
        f'gpu="{gpu}",UUID="{uuid(node, gpu)}",pci_bus_id="00000000:{0x18 + gpu * 8:02X}:00.0",'
        f'device="nvidia{gpu}",modelName="NVIDIA H100 80GB HBM3",Hostname="{node}",'
        f'DCGM_FI_DRIVER_VERSION="550.90.07"'
    )


def sample(node: str, gpu: int, t: float, faults: Iterable[Fault] = ()) -> dict[str, float] | None:
    """All values of a GPU at a time, ``None`` if it is lost."""
    key = f"{node}/{gpu}"
    values: dict[str, float] = {
        "DCGM_FI_DEV_SM_CLOCK": 1980,
        "DCGM_FI_DEV_GPU_TEMP": round(62 + 4 * _noise(key + "t", t) + gpu * 0.5),
        "DCGM_FI_DEV_POWER_USAGE": round(640 + 30 * math.sin(t / 6 + gpu) + 10 * _noise(key + "p", t), 3),
        "DCGM_FI_DEV_PCIE_REPLAY_COUNTER": 0,
        "DCGM_FI_DEV_GPU_UTIL": round(96 + 3 * _noise(key, t)),
        "DCGM_FI_DEV_XID_ERRORS": 0,
        "DCGM_FI_DEV_FB_FREE": 9_000,
        "DCGM_FI_DEV_FB_USED": 72_559,
        "DCGM_FI_DEV_CLOCK_THROTTLE_REASONS": 4,
        "DCGM_FI_DEV_ECC_SBE_VOL_TOTAL": _hash(key) % 3,
        "DCGM_FI_DEV_ECC_DBE_VOL_TOTAL": 0,
        "DCGM_FI_DEV_ROW_REMAP_PENDING": 0,
        "DCGM_FI_PROF_PIPE_TENSOR_ACTIVE": round(0.42 + 0.05 * _noise(key + "x", t), 4),
    }
    for fault in faults:
        if (fault.node, fault.gpu) != (node, gpu) or t < fault.since:
            continue
        if fault.kind == "lost":
            return None
        values.update(_effect(fault))
    return values


def exposition(nodes: Iterable[str], gpus: int, t: float, faults: Iterable[Fault] = ()) -> str:
    """One scrape of all nodes."""
    faults = list(faults)
    rows: dict[str, list[str]] = {name: [] for name in METRICS}
    for node in nodes:
        for gpu in range(gpus):
            for name, value in (sample(node, gpu, t, faults) or {}).items():
                rows[name].append(f"{name}{{{labels(node, gpu)}}} {value}")
    lines: list[str] = []
    for name, (kind, text) in METRICS.items():
        if rows[name]:
            lines += [f"# HELP {name} {text}", f"# TYPE {name} {kind}", *rows[name]]
    return "\n".join(lines) + "\n"


def openmetrics(
    nodes: Iterable[str],
    gpus: int,
    times: Iterable[int],
    faults: Iterable[Fault] = (),
    *,
    target: str = 'job="dcgm",instance="127.0.0.1:9400"',
) -> Iterator[str]:
    """History for ``promtool tsdb create-blocks-from openmetrics``, line by line.

    OpenMetrics wants counters to be named ``…_total``; DCGM's are not, so every metric is of type ``unknown``.
    """
    nodes, times, faults = list(nodes), list(times), list(faults)
    for name in METRICS:  # a metric family must stay together
        yield f"# TYPE {name} unknown\n"
        for node in nodes:
            for gpu in range(gpus):
                series = f"{name}{{{labels(node, gpu)},{target}}}"
                for t in times:
                    values = sample(node, gpu, t, faults)
                    if values is not None:
                        yield f"{series} {values[name]} {t}\n"
    yield "# EOF\n"


def _effect(fault: Fault) -> dict[str, float]:
    value = fault.value
    return {
        "xid": {"DCGM_FI_DEV_XID_ERRORS": value},
        "dbe": {"DCGM_FI_DEV_ECC_DBE_VOL_TOTAL": value},
        "sbe": {"DCGM_FI_DEV_ECC_SBE_VOL_TOTAL": value},
        "thermal": {
            "DCGM_FI_DEV_GPU_TEMP": value,
            "DCGM_FI_DEV_SM_CLOCK": 1110,
            "DCGM_FI_DEV_CLOCK_THROTTLE_REASONS": 0x44,
        },
        "idle": {"DCGM_FI_DEV_GPU_UTIL": 0, "DCGM_FI_DEV_POWER_USAGE": 85, "DCGM_FI_PROF_PIPE_TENSOR_ACTIVE": 0},
        "hang": {"DCGM_FI_DEV_GPU_UTIL": 100, "DCGM_FI_DEV_POWER_USAGE": 210, "DCGM_FI_PROF_PIPE_TENSOR_ACTIVE": 0},
        "pending": {"DCGM_FI_DEV_ROW_REMAP_PENDING": 1},
        "replay": {"DCGM_FI_DEV_PCIE_REPLAY_COUNTER": value},
    }[fault.kind]


def _hash(text: str) -> int:
    """FNV-1a, 64 bit: the same in every process, unlike ``hash``."""
    value = 0xCBF29CE484222325
    for byte in text.encode():
        value = (value ^ byte) * 0x100000001B3 & 0xFFFFFFFFFFFFFFFF
    return value


def _noise(key: str, t: float) -> float:
    """In [-1, 1], changes every 15 s."""
    return (_hash(f"{key}/{int(t // 15)}") % 2001 - 1000) / 1000
