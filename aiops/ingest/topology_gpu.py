"""The matrix of ``nvidia-smi topo -m``: how near each GPU of a host is to its NICs."""

from __future__ import annotations

import re

from aiops.ingest.console import host_of_output
from aiops.ingest.prefix import ANSI
from aiops.ingest.topology_lines import TopologyFile

_HEAD = re.compile(rb"^[ \t]*+(?:\x1b\[[\d;]*m)*+[ \t]*+GPU0[ \t]", re.MULTILINE)
_ROW = re.compile(rb"^GPU0[ \t]+X[ \t]", re.MULTILINE)
_MATRIX_LINE = re.compile(
    rb"^\s*+(?:\x1b\[[\d;]*m)*+\s*+(?:GPU|NIC|mlx)\w*+[ \t:]|^\s*(?:X|SYS|NODE|PHB|PXB|PIX|NV#|Legend|NIC Legend)\b|^\s*$"
)
_CELL = re.compile(r"X|SYS|NODE|PHB|PXB|PIX|NV\d{1,3}|N/A|C2C")
_DEVICE = re.compile(r"(GPU\d{1,3}|NIC\d{1,3}|mlx\d_\w{1,20})$")
_LEGEND = re.compile(r"^\s*(NIC\d{1,3}):\s*([\w.-]{1,64})\s*$")
_TOOL = re.compile(r"(?:nvidia[-_.]?smi|topo(?:logy)?|matrix|-m)(?=[-_. ]|$)[-_. ]?", re.IGNORECASE)
NEARNESS = ("PIX", "PXB", "PHB", "NODE", "SYS")
"""Best first: one PCIe bridge, several, a host bridge, one NUMA node, across NUMA nodes."""


def sniff_gpu_matrix(head: bytes) -> str | None:
    """``nvidia-smi topo`` if most of the text is its matrix and legend."""
    if not (_HEAD.search(head) and _ROW.search(head)):
        return None
    lines = head.splitlines()
    own = sum(_MATRIX_LINE.match(line) is not None for line in lines)
    return "nvidia-smi topo" if own * 10 >= len(lines) * 7 else None


def read_gpu_matrix(file: TopologyFile) -> None:
    """Fill ``case.topology.gpu_nics`` of the host that the file names."""
    columns: list[str] = []
    rows: dict[int, dict[str, str]] = {}
    legend: dict[str, str] = {}
    outside: list[str] = []
    for number, raw in enumerate(file.text().splitlines(), 1):
        line = ANSI.sub(b"", raw.encode()).decode("utf-8", "replace")
        words = line.split()
        if not words:
            continue
        if match := _LEGEND.match(line):
            legend[match[1]] = match[2]
        elif _DEVICE.match(words[0]) and len(words) > 1 and _CELL.fullmatch(words[1]):
            cells = words[1 : 1 + len(columns)]
            if len(cells) < len(columns) or not all(_CELL.fullmatch(cell) for cell in cells):
                file.problem(f"the row of {words[0]} does not fit the header of {len(columns)} devices", number)
            elif words[0].startswith("GPU"):
                rows[int(words[0][3:])] = dict(zip(columns, cells, strict=True))
        elif words[0] == "GPU0" and not columns:
            for word in words:
                if not _DEVICE.match(word):
                    break  # CPU Affinity, NUMA Affinity
                columns.append(word)
        else:
            outside.append(line)
    node = host_of_output(file.source, outside, _TOOL)
    if node is None:
        file.problem("which host this matrix is from is not told: state it in case.yaml (files: node)")
        return
    file.source.node = node
    for gpu, row in rows.items():
        near = sorted(
            (NEARNESS.index(cell), legend.get(device, device), cell)
            for device, cell in row.items()
            if not device.startswith("GPU") and cell in NEARNESS
        )
        file.case.topology.gpu_nics[(node, gpu)] = tuple((nic, cell) for _, nic, cell in near)
