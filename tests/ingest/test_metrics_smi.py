"""``nvidia-smi -q`` as text and as XML: the same facts, the right GPU, and nothing lost in a damaged file."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from smi_dump import dump, gpu_tree, xml

from aiops.ingest.metrics import read_metrics, sniff_metrics
from aiops.model import NO_TIME, Case, Source

HEALTHY = {index: gpu_tree(index) for index in range(8)}
SICK = HEALTHY | {
    3: gpu_tree(
        3, pending="Yes", rows="1", dram="2", sram="1", width="8x", thermal="Active", status="Failure", none="1"
    )
}


def read(text: str, name: str = "nvidia-smi-gx-07.txt") -> Case:
    case = Case(root="")
    case.sources.append(Source(0, name, Path(name), len(text), "metrics"))
    read_metrics(case.sources[0], text.encode(), case)
    return case


def value(case: Case, field: str, gpu: int) -> float:
    block = case.series[0]
    row = next(i for i, entity in enumerate(block.entities) if entity.gpu == gpu)
    return float(block.values[block.fields.index(field), row, 0])


@pytest.mark.parametrize("form", [dump, xml])
def test_facts_of_a_dump_stand_at_their_gpu(form: object) -> None:
    case = read(form(SICK))  # type: ignore[operator]
    assert case.coverage.problems == []
    assert (case.sources[0].node, case.series[0].times[0]) == ("gx-07", NO_TIME)
    entity = case.series[0].entities[3]
    assert (entity.gpu, entity.pci) == (3, "0000:5d:00")
    assert entity.uuid == "GPU-00000003-aaaa-bbbb-cccc-dddddddddddd"
    for field, sick, healthy in (
        ("DCGM_FI_DEV_ROW_REMAP_PENDING", 1, 0),
        ("DCGM_FI_DEV_ROW_REMAP_FAILURE", 0, 0),
        ("DCGM_FI_DEV_UNCORRECTABLE_REMAPPED_ROWS", 1, 0),
        ("DCGM_FI_DEV_ECC_DBE_VOL_TOTAL", 3, 0),
        ("DCGM_FI_DEV_ECC_SBE_VOL_TOTAL", 2, 2),
        ("DCGM_FI_DEV_PCIE_LINK_WIDTH", 8, 16),
        ("DCGM_FI_DEV_PCIE_MAX_LINK_WIDTH", 16, 16),
        ("DCGM_FI_DEV_PCIE_LINK_GEN", 5, 5),
        ("DCGM_FI_DEV_CLOCK_THROTTLE_REASONS", 0x48, 0),
        ("DCGM_FI_DEV_FABRIC_MANAGER_STATUS", 4, 3),
        ("DCGM_FI_DEV_BANKS_REMAP_ROWS_AVAIL_NONE", 1, 0),
        ("DCGM_FI_DEV_BANKS_REMAP_ROWS_AVAIL_MAX", 2560, 2560),
        ("DCGM_FI_DEV_POWER_USAGE", 69.91, 69.91),
        ("DCGM_FI_DEV_GPU_TEMP", 34, 34),
        ("DCGM_FI_DEV_FB_USED", 4, 4),
        ("DCGM_FI_DEV_GET_GPU_RECOVERY_ACTION", 0, 0),
    ):
        assert value(case, field, 3) == pytest.approx(sick), field
        assert value(case, field, 4) == pytest.approx(healthy), field


def test_text_and_xml_say_the_same() -> None:
    one, other = read(dump(SICK)).series[0], read(xml(SICK)).series[0]
    assert one.fields == other.fields
    assert one.entities == other.entities
    assert np.array_equal(one.values, other.values, equal_nan=True)


@pytest.mark.parametrize("form", [dump, xml])
def test_the_line_of_a_fact_is_its_evidence(form: object) -> None:
    text = form(SICK)  # type: ignore[operator]
    block = read(text).series[0]
    cell = block.fields.index("DCGM_FI_DEV_ROW_REMAP_PENDING"), 3
    assert "Yes" in block.text[cell]
    assert text.splitlines()[block.lines[cell] - 1].strip() == block.text[cell]


def test_what_is_not_available_is_no_value() -> None:
    block = read(dump(HEALTHY)).series[0]
    assert "DCGM_FI_DEV_RETIRED_PENDING" not in block.fields
    assert value(read(dump({0: gpu_tree(0, retired="Yes")}, attached=1)), "DCGM_FI_DEV_RETIRED_PENDING", 0) == 1


def test_an_older_layout_with_single_and_double_bit_errors() -> None:
    tree = gpu_tree(0)
    tree["ECC Errors"] = {
        "Volatile": {
            "Single Bit": {"Device Memory": "7", "Register File": "0", "Total": "7"},
            "Double Bit": {"Device Memory": "1", "Register File": "0", "Total": "1"},
        }
    }
    tree["Clocks Throttle Reasons"] = {
        "HW Slowdown": ("Active", {"HW Thermal Slowdown": "Not Active", "HW Power Brake Slowdown": "Active"})
    }
    case = read(dump({0: tree}, attached=1))
    assert value(case, "DCGM_FI_DEV_ECC_SBE_VOL_TOTAL", 0) == 7
    assert value(case, "DCGM_FI_DEV_ECC_DBE_VOL_TOTAL", 0) == 1
    assert value(case, "DCGM_FI_DEV_CLOCK_THROTTLE_REASONS", 0) == 0x88


def test_one_gpu_of_eight_has_no_index() -> None:
    entity = read(dump({3: gpu_tree(3)})).series[0].entities[0]
    assert (entity.gpu, entity.pci) == (None, "0000:5d:00")


def test_dumps_in_a_row_are_a_series() -> None:
    text = dump(HEALTHY) + dump(SICK, time="Tue Nov  3 11:21:31 2026")
    block = read(text).series[0]
    pending = block.values[block.fields.index("DCGM_FI_DEV_ROW_REMAP_PENDING")]
    assert np.diff(block.times).tolist() == [60_000_000_000]
    assert pending[3].tolist() == [0, 1]


def test_dumps_without_time_keep_the_last() -> None:
    case = read(dump(SICK, time="yesterday") + dump(HEALTHY, time="today"))
    assert value(case, "DCGM_FI_DEV_ROW_REMAP_PENDING", 3) == 0
    assert "only the last one" in case.coverage.problems[0].reason


@pytest.mark.parametrize(
    ("line", "pci"),
    [
        ("Unable to determine the device handle for GPU 0000:5D:00.0: GPU is lost.  Reboot the system", "0000:5d:00"),
        ("Unable to determine the device handle for GPU0: 0000:5D:00.0: Unknown Error", "0000:5d:00"),
    ],
)
def test_a_gpu_without_handle_is_an_event(line: str, pci: str) -> None:
    case = read(f"root@gx-09:~# nvidia-smi -q\n{line}\n" + dump({0: gpu_tree(0)}), "case.txt")
    event = case.events[0]
    assert (event.signal, event.node, event.fields["pci"], event.line) == ("gpu.lost_message", "gx-09", pci, 2)


def test_a_gpu_that_is_lost_in_the_dump_is_an_event() -> None:
    text = dump({0: gpu_tree(0, temp="34"), 1: gpu_tree(1)}, attached=2)
    lines = text.splitlines()
    start = next(i for i, line in enumerate(lines) if line.startswith("GPU 00000000:2A"))
    lines[start + 1 :] = [
        line.split(" : ")[0] + " : GPU is lost" if " : " in line else line for line in lines[start + 1 :]
    ]
    case = read("\n".join(lines))
    assert [case.events[i].fields["pci"] for i in range(len(case.events))] == ["0000:2a:00"]


@pytest.mark.parametrize("text", [dump(HEALTHY), xml(HEALTHY), "$ nvidia-smi -q\n" + dump(HEALTHY)])
def test_a_dump_is_recognised(text: str) -> None:
    assert sniff_metrics(text.encode()[:65536]) in ("nvidia-smi -q", "nvidia-smi -q -x")


def test_a_log_that_quotes_a_dump_is_none() -> None:
    log = "".join(f"2026-11-03 10:00:{i:02} INFO step {i}: loss 1.{i}, all well here\n" for i in range(60))
    assert sniff_metrics((log + dump(HEALTHY)).encode()) is None
    assert sniff_metrics((dump({0: gpu_tree(0)}) + log * 9).encode()) is None
    assert sniff_metrics(b"<html><body>nvidia</body></html>") is None


def test_entities_are_refused() -> None:
    bomb = '<?xml version="1.0"?>\n<!DOCTYPE nvidia_smi_log [<!ENTITY a "b">]>\n<nvidia_smi_log><gpu id="&a;"/></nvidia_smi_log>'
    case = read(bomb)
    assert case.series == []
    assert any("entities" in problem.reason for problem in case.coverage.problems)


@settings(max_examples=40, deadline=None)
@given(st.data())
def test_a_cut_dump_keeps_what_stands_before_the_cut(data: st.DataObject) -> None:
    whole = data.draw(st.sampled_from([dump(SICK), xml(SICK)]))
    cut = data.draw(st.integers(0, len(whole)))
    case = read(whole[:cut])
    full = read(whole).series[0]
    for block in case.series:
        for f, field in enumerate(block.fields):
            if field.startswith(("DCGM_FI_DEV_ECC", "DCGM_FI_DEV_CLOCK", "DCGM_FI_DEV_FABRIC", "DCGM_FI_DEV_GET_GPU")):
                continue  # made of several lines
            for e, entity in enumerate(block.entities):
                same = next(i for i, other in enumerate(full.entities) if other.pci == entity.pci)
                here = block.values[f, e, 0]
                there = full.values[full.fields.index(field), same, 0]
                # the last number may be cut short
                assert np.isnan(here) or here == there or str(there).startswith(str(int(here)))


@settings(max_examples=40, deadline=None)
@given(st.binary(max_size=60), st.integers(0, 20_000), st.booleans())
def test_bytes_in_between_never_raise(noise: bytes, at: int, as_xml: bool) -> None:
    whole = (xml(SICK) if as_xml else dump(SICK)).encode()
    data = whole[:at] + noise + whole[at:]
    case = Case(root="")
    case.sources.append(Source(0, "dump", Path("dump"), len(data), "metrics"))
    read_metrics(case.sources[0], data, case)
    assert len(case.series) + len(case.coverage.problems) > 0


TABLE = """\
root@gx-07:~# nvidia-smi
Tue Nov  3 11:20:31 2026
+-----------------------------------------------------------------------------------------+
| NVIDIA-SMI 550.90.07              Driver Version: 550.90.07      CUDA Version: 12.4     |
|-----------------------------------------+------------------------+----------------------+
| GPU  Name                 Persistence-M | Bus-Id          Disp.A | Volatile Uncorr. ECC |
| Fan  Temp   Perf          Pwr:Usage/Cap |           Memory-Usage | GPU-Util  Compute M. |
|                                         |                        |               MIG M. |
|=========================================+========================+======================|
|   0  NVIDIA H100 80GB HBM3          On  |   00000000:18:00.0 Off |                    0 |
| N/A   34C    P0             70W /  700W |       4MiB /  81559MiB |      0%      Default |
|                                         |                        |             Disabled |
+-----------------------------------------+------------------------+----------------------+
|   1  NVIDIA H100 80GB HBM3          On  |   00000000:2A:00.0 Off |                    3 |
| N/A   ERR!   P0            N/A  /  700W |   70112MiB /  81559MiB |     99%      Default |
|                                         |                        |             Disabled |
+-----------------------------------------+------------------------+----------------------+
| Processes:                                                                              |
|  GPU   GI   CI        PID   Type   Process name                              GPU Memory |
|    1   N/A  N/A     71822      C   python                                     70106MiB  |
+-----------------------------------------------------------------------------------------+
"""


def test_the_plain_table() -> None:
    assert sniff_metrics(TABLE.encode()) == "nvidia-smi"
    case = read(TABLE, "table")
    assert case.coverage.problems == []
    assert [(entity.node, entity.gpu, entity.pci) for entity in case.series[0].entities] == [
        ("gx-07", 0, "0000:18:00"),
        ("gx-07", 1, "0000:2a:00"),
    ]
    for field, one, other in (
        ("DCGM_FI_DEV_ECC_DBE_VOL_TOTAL", 0, 3),
        ("DCGM_FI_DEV_FB_USED", 4, 70112),
        ("DCGM_FI_DEV_GPU_UTIL", 0, 99),
    ):
        assert (value(case, field, 0), value(case, field, 1)) == (one, other)
    assert value(case, "DCGM_FI_DEV_GPU_TEMP", 0) == 34
    assert np.isnan(value(case, "DCGM_FI_DEV_GPU_TEMP", 1))
    assert np.isnan(value(case, "DCGM_FI_DEV_POWER_USAGE", 1))
    block = case.series[0]
    assert block.lines[block.fields.index("DCGM_FI_DEV_ECC_DBE_VOL_TOTAL"), 1] == 14


def test_the_last_of_several_tables_is_kept() -> None:
    case = read(TABLE + TABLE.replace("|                    3 |", "|                    0 |"), "table")
    assert value(case, "DCGM_FI_DEV_ECC_DBE_VOL_TOTAL", 1) == 0
    assert "2 tables" in case.coverage.problems[0].reason


@settings(max_examples=30, deadline=None)
@given(st.integers(0, len(TABLE)), st.text(max_size=12))
def test_a_damaged_table_never_raises(at: int, noise: str) -> None:
    read(TABLE[:at] + noise + TABLE[at:], "table")
