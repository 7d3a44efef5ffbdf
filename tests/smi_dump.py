"""Output of ``nvidia-smi -q`` as text and as XML, in the layout of driver 550, from the same facts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

Tree = dict[str, Any]
BUSES = ("18", "2A", "3A", "5D", "9A", "AB", "BA", "DB")


def gpu_tree(index: int, **changes: str) -> Tree:
    """Facts of one healthy, idle H100; ``changes`` by the short names below."""
    facts = {
        "pending": "No", "failed": "No", "rows": "0", "dram": "0", "sram": "0", "aggregate": "0", "correctable": "2",
        "width": "16x", "gen": "5", "thermal": "Not Active", "brake": "Not Active", "state": "Completed",
        "status": "Success", "none": "0", "action": "None", "temp": "34", "util": "0", "power": "69.91", "low": "0",
        "uuid": f"GPU-0000000{index}-aaaa-bbbb-cccc-dddddddddddd", "replays": "0", "retired": "N/A",
    } | changes  # fmt: skip
    ecc = {"SRAM Correctable": "0", "SRAM Uncorrectable Parity": "0", "SRAM Uncorrectable SEC-DED": facts["sram"]}
    return {
        "Product Name": "NVIDIA H100 80GB HBM3",
        "MIG Mode": {"Current": "Disabled", "Pending": "Disabled"},
        "GPU UUID": facts["uuid"],
        "Minor Number": str(index),
        "GPU Reset Status": {"Reset Required": "No", "Drain and Reset Recommended": "No"},
        "GPU Recovery Action": facts["action"],
        "PCI": {
            "Bus": f"0x{BUSES[index]}",
            "Bus Id": f"00000000:{BUSES[index]}:00.0",
            "GPU Link Info": {
                "PCIe Generation": {"Max": "5", "Current": facts["gen"], "Device Current": facts["gen"]},
                "Link Width": {"Max": "16x", "Current": facts["width"]},
            },
            "Replays Since Reset": facts["replays"],
            "Replay Number Rollovers": "0",
        },
        "Fan Speed": "N/A",
        "Performance State": "P0",
        "Clocks Event Reasons": {
            "Idle": "Active",
            "SW Power Cap": "Not Active",
            "HW Slowdown": (
                "Active" if "Active" in (facts["thermal"], facts["brake"]) else "Not Active",
                {"HW Thermal Slowdown": facts["thermal"], "HW Power Brake Slowdown": facts["brake"]},
            ),
            "SW Thermal Slowdown": "Not Active",
        },
        "FB Memory Usage": {"Total": "81559 MiB", "Reserved": "551 MiB", "Used": "4 MiB", "Free": "81004 MiB"},
        "Utilization": {"Gpu": f"{facts['util']} %", "Memory": "0 %"},
        "ECC Mode": {"Current": "Enabled", "Pending": "Enabled"},
        "ECC Errors": {
            "Volatile": {**ecc, "DRAM Correctable": facts["correctable"], "DRAM Uncorrectable": facts["dram"]},
            "Aggregate": {
                "SRAM Correctable": "0",
                "SRAM Uncorrectable Parity": "0",
                "SRAM Uncorrectable SEC-DED": facts["sram"],
                "DRAM Correctable": facts["correctable"],
                "DRAM Uncorrectable": facts["aggregate"],
                "SRAM Threshold Exceeded": "No",
            },
        },
        "Retired Pages": {"Single Bit ECC": "N/A", "Double Bit ECC": "N/A", "Pending Page Blacklist": facts["retired"]},
        "Remapped Rows": {
            "Correctable Error": "0",
            "Uncorrectable Error": facts["rows"],
            "Pending": facts["pending"],
            "Remapping Failure Occurred": facts["failed"],
            "Bank Remap Availability Histogram": {
                "Max": "2560 bank(s)",
                "High": "0 bank(s)",
                "Partial": "0 bank(s)",
                "Low": f"{facts['low']} bank(s)",
                "None": f"{facts['none']} bank(s)",
            },
        },
        "Temperature": {"GPU Current Temp": f"{facts['temp']} C", "GPU T.Limit Temp": "52 C"},
        "GPU Power Readings": {"Power Draw": f"{facts['power']} W", "Current Power Limit": "700.00 W"},
        "Clocks": {"Graphics": "345 MHz", "SM": "345 MHz", "Memory": "2619 MHz"},
        "Fabric": {"State": facts["state"], "Status": facts["status"], "CliqueId": "0"},
        "Processes": "None",
    }


def dump(gpus: Mapping[int, Tree], *, time: str = "Tue Nov  3 11:20:31 2026", attached: int = 8) -> str:
    """The text of ``nvidia-smi -q``."""
    lines = [
        "",
        "==============NVSMI LOG==============",
        "",
        f"{'Timestamp':42}: {time}",
        f"{'Driver Version':42}: 550.90.07",
        f"{'CUDA Version':42}: 12.4",
        "",
        f"{'Attached GPUs':42}: {attached}",
    ]
    for index, tree in gpus.items():
        lines.append(f"GPU 00000000:{BUSES[index]}:00.0")
        _lines(tree, 1, lines)
        lines.append("")
    return "\n".join(lines) + "\n"


def _lines(tree: Tree, depth: int, lines: list[str]) -> None:
    for key, value in tree.items():
        name = "    " * depth + key
        said, below = value if isinstance(value, tuple) else (value, None)
        if isinstance(said, dict):
            lines.append(name)
            _lines(said, depth + 1, lines)
        else:
            lines.append(f"{name:42}: {said}")
        if below:
            _lines(below, depth + 1, lines)


_TAGS = {
    "GPU UUID": "uuid", "GPU Link Info": "pci_gpu_link_info", "PCIe Generation": "pcie_gen",
    "Link Width": "link_widths", "Replays Since Reset": "replay_counter", "GPU Current Temp": "gpu_temp",
    "GPU T.Limit Temp": "gpu_temp_tlimit", "SM": "sm_clock", "Correctable Error": "remapped_row_corr",
    "Uncorrectable Error": "remapped_row_unc", "Remapping Failure Occurred": "remapped_row_failure",
    "Bank Remap Availability Histogram": "row_remapper_histogram", "SRAM Uncorrectable SEC-DED": "sram_uncorrectable_secded",
    "Pending Page Blacklist": "pending_blacklist",
}  # fmt: skip
_UNDER = {
    ("PCIe Generation", "Max"): "max_link_gen", ("PCIe Generation", "Current"): "current_link_gen",
    ("Link Width", "Max"): "max_link_width", ("Link Width", "Current"): "current_link_width",
    ("Remapped Rows", "Pending"): "remapped_row_pending", ("Utilization", "Gpu"): "gpu_util",
    ("Utilization", "Memory"): "memory_util", ("Clocks", "Memory"): "mem_clock",
}  # fmt: skip


def xml(gpus: Mapping[int, Tree], *, time: str = "Tue Nov  3 11:20:31 2026", attached: int = 8) -> str:
    """The output of ``nvidia-smi -q -x``."""
    lines = [
        '<?xml version="1.0" ?>',
        '<!DOCTYPE nvidia_smi_log SYSTEM "nvsmi_device_v12.dtd">',
        "<nvidia_smi_log>",
        f"\t<timestamp>{time}</timestamp>",
        f"\t<attached_gpus>{attached}</attached_gpus>",
    ]
    for index, tree in gpus.items():
        lines.append(f'\t<gpu id="00000000:{BUSES[index]}:00.0">')
        _tags(tree, "", 2, lines)
        lines.append("\t</gpu>\n")
    return "\n".join([*lines, "</nvidia_smi_log>"]) + "\n"


def _tags(tree: Tree, parent: str, depth: int, lines: list[str]) -> None:
    for key, value in tree.items():
        slug = key.lower().replace(" ", "_").replace("-", "_")
        if parent == "Clocks Event Reasons":
            slug = f"clocks_event_reason_{slug}"
        if parent == "Bank Remap Availability Histogram":
            slug = f"row_remapper_histogram_{slug}"
        tag = _UNDER.get((parent, key)) or _TAGS.get(key) or slug
        said, below = value if isinstance(value, tuple) else (value, {})
        if isinstance(said, dict):
            lines.append("\t" * depth + f"<{tag}>")
            _tags(said, key, depth + 1, lines)
            lines.append("\t" * depth + f"</{tag}>")
        else:
            lines.append("\t" * depth + f"<{tag}>{said}</{tag}>")
        _tags(below, parent, depth, lines)
