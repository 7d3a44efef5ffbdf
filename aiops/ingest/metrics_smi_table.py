"""The table that plain ``nvidia-smi`` prints: two lines for each GPU of a host, at one moment."""

from __future__ import annotations

import re

from aiops.ingest.console import host_of_output
from aiops.ingest.metrics_block import SeriesBuilder
from aiops.ingest.metrics_smi import TOOL
from aiops.model import Source

FORMAT = "nvidia-smi"

_TITLE = re.compile(rb"^\| NVIDIA-SMI \d", re.MULTILINE)
_OWN_LINE = re.compile(rb"^\s*(?:[|+].*|[A-Z][a-z]{2} [A-Z][a-z]{2} +\d.*|[^\s@]{1,64}@[^\s:~@]{1,255}[:~ ].*)?\r?$")
_FIRST = re.compile(
    r"^\|\s*(?P<gpu>\d{1,3})\s+(?P<name>[^\s|][^|]{0,80}?)\s+(?:On|Off|N/A)\s*\|\s*(?P<pci>[0-9A-Fa-f]{4,8}:[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}\.\d)"
    r"\s+(?:On|Off|N/A)\s*\|\s*(?P<ecc>\S+)\s*\|"
)
_CELL = r"(?:N/A|[^\s/|]+)"
"""A value that is none, such as ``ERR!``: it holds no border, or a line of borders could be read in too many ways."""
_SECOND = re.compile(
    rf"^\|\s*\S+\s+(?:(?P<temp>\d{{1,3}})C|\S+)\s+\S+\s+(?:(?P<power>\d{{1,5}})W|{_CELL})\s*/\s*(?:(?P<limit>\d{{1,5}})W|{_CELL})\s*\|"
    rf"\s*(?:(?P<used>\d{{1,7}})MiB|{_CELL})\s*/\s*(?:(?P<total>\d{{1,7}})MiB|{_CELL})\s*\|\s*(?:(?P<util>\d{{1,3}})%|{_CELL})\s"
)
_FIELDS = {
    "temp": "DCGM_FI_DEV_GPU_TEMP",
    "power": "DCGM_FI_DEV_POWER_USAGE",
    "limit": "DCGM_FI_DEV_POWER_MGMT_LIMIT",
    "used": "DCGM_FI_DEV_FB_USED",
    "total": "DCGM_FI_DEV_FB_TOTAL",
    "util": "DCGM_FI_DEV_GPU_UTIL",
}
_ECC = "DCGM_FI_DEV_ECC_DBE_VOL_TOTAL"
_TEXT = 200
_LINE = 400
"""Characters of a line that are looked at; the table is 91 wide."""


def sniff_smi_table(head: bytes) -> str | None:
    """``nvidia-smi`` if the text is its table and hardly anything else."""
    title = _TITLE.search(head)
    if title is None or head.count(b"\n", 0, title.start()) > 12:
        return None
    lines = [line[:_LINE] for line in head.split(b"\n")]
    return FORMAT if sum(_OWN_LINE.match(line) is not None for line in lines) * 10 >= len(lines) * 9 else None


def read_smi_table(builder: SeriesBuilder, source: Source, data: bytes) -> None:
    """Read the last table of a file: errors, heat, power, memory and load of each GPU."""
    import numpy as np

    lines = [line[:_LINE] for line in data.decode("utf-8", "replace").splitlines()]
    source.node = host_of_output(source, (line for line in lines if line[:1] not in "|+"), TOOL)
    titles = [number for number, line in enumerate(lines) if line.startswith("| NVIDIA-SMI ")]
    if len(titles) > 1:
        builder.problem(f"{len(titles)} tables: only the last one is kept")
    labels: dict[str, str] = {}
    for number, line in enumerate(lines[titles[-1] :] if titles else [], titles[-1] + 1 if titles else 1):
        first = _FIRST.match(line)
        second = _SECOND.match(line) if first is None and labels else None
        values = {}
        if first is not None:
            labels = {"gpu": first["gpu"], "pci_bus_id": first["pci"], "modelName": first["name"]}
            values = {_ECC: first["ecc"]}
        elif second is not None:
            values = {name: second[group] for group, name in _FIELDS.items()}
        for name, text in values.items():
            slot = builder.slot(name, labels) if text is not None and text.isdecimal() else None
            if slot is not None:
                slot.text, slot.line = line.strip()[:_TEXT], number
                builder.add(slot, None, np.array([float(text)]))
        if second is not None:
            labels = {}
