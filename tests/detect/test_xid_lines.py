"""Xid and SXid lines in every shape become one finding for each GPU (or switch) and code, followers told from causes."""

from __future__ import annotations

from pathlib import Path

import pytest

from aiops.catalog import load_catalog
from aiops.config import Settings, default_cache_dir
from aiops.detect.xid import detect
from aiops.ingest import open_case
from aiops.model.finding import Finding, Role


def findings(directory: Path, *files: str) -> list[Finding]:
    for number, text in enumerate(files):
        (directory / f"{number}.log").write_text(text, encoding="utf-8")
    with open_case([directory], Settings(cache_dir=default_cache_dir())) as case:
        return detect(case, load_catalog())


def lines(*messages: str, node: str = "n7", process: str = "kernel") -> str:
    return "".join(f"Aug  1 08:00:{i:02d} {node} {process}: {text}\n" for i, text in enumerate(messages))


def by_code(found: list[Finding]) -> dict[int, Finding]:
    return {f.fields["xid"]: f for f in found if f.sign == "gpu.xid"}


@pytest.mark.parametrize(
    ("message", "pci", "code"),
    [
        ("NVRM: Xid (PCI:0000:3b:00): 79, GPU has fallen off the bus.", "0000:3b:00", 79),
        (
            "NVRM: Xid (PCI:0000:3b:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus.",
            "0000:3b:00",
            79,
        ),
        ("NVRM: Xid (PCI:00000000:0A:00.0): 31, Ch 0000000a, intr 00000000", "0000:0a:00", 31),
        ("NVRM: Xid (PCI:0000:d8:00 GPU-I:05 GPU-CI:00): 94, pid=2311, name=python, Contained: SM", "0000:d8:00", 94),
        ("NVRM: Xid (PCI:0002:00:00): 48 pid=1234, name=python3, DBE (double bit error)", "0002:00:00", 48),
        ("NVRM: Xid (0000:03:00): 13, 0002 00000000 000090c0", "0000:03:00", 13),
        ("NVRM: Xid (0003:00): 62, 0000", "0000:03:00", 62),
        ("NVRM: GPU at 0000:03:00.0: Xid (PCI:0000:03:00): 46, Ch 00000012", "0000:03:00", 46),
    ],
)
def test_every_shape_of_the_line_is_read(tmp_path: Path, message: str, pci: str, code: int) -> None:
    (found,) = findings(tmp_path, lines(message, "EXT4-fs (sda2): mounted filesystem"))
    assert (found.pci, found.fields["xid"], found.node) == (pci, code, "n7")
    assert found.evidence[0].line == 1


def test_the_uuid_of_the_drivers_own_line_joins_the_finding(tmp_path: Path) -> None:
    uuid = "GPU-b850f46d-d5ea-c752-ddf3-c6453e44d3f7"
    (found,) = findings(tmp_path, lines(f"NVRM: GPU at PCI:0000:06:00: {uuid}", "NVRM: Xid (PCI:0000:06:00): 79, lost"))
    assert found.uuid == uuid
    assert found.pci == "0000:06:00"


def test_the_device_plugins_report_joins_the_kernels_line_by_uuid(tmp_path: Path) -> None:
    uuid = "GPU-b850f46d-d5ea-c752-ddf3-c6453e44d3f7"
    plugin = f"I0801 08:00:05.000000 1 health.go:245] XidCriticalError: Xid=79 on Device={uuid}; marking device as unhealthy.\n"
    kernel = lines(f"NVRM: GPU at PCI:0000:06:00: {uuid}", "NVRM: Xid (PCI:0000:06:00): 79, lost")
    both = findings(tmp_path, kernel, plugin * 3)
    assert len(both) == 1
    assert both[0].count == 1


def test_the_device_plugins_report_alone_names_the_gpu(tmp_path: Path) -> None:
    uuid = "GPU-b850f46d-d5ea-c752-ddf3-c6453e44d3f7"
    (found,) = findings(
        tmp_path,
        f"I0801 08:00:05.000000 1 health.go:245] XidCriticalError: Xid=48 on Device={uuid}; marking device as unhealthy.\n",
    )
    assert (found.uuid, found.pci, found.fields["xid"]) == (uuid, None, 48)


def test_the_recovery_action_of_xid_154_is_told_with_its_cause(tmp_path: Path) -> None:
    found = by_code(
        findings(
            tmp_path,
            lines(
                "NVRM: Xid (PCI:0000:06:00): 79, lost",
                "NVRM: Xid (PCI:0000:06:00): 154, GPU recovery action changed from 0x0 (None) to 0x1 (GPU Reset Required)",
                "NVRM: Xid (PCI:0000:06:00): 154, GPU recovery action changed from 0x1 (GPU Reset Required) to 0x2 (OS Reboot)",
            ),
        )
    )
    assert found[79].fields["recovery"] == "OS Reboot"
    assert found[79].text.endswith("; the driver asks for: OS Reboot")
    assert found[154].role is Role.CONTEXT


@pytest.mark.parametrize("code", [43, 45])
def test_stopped_channels_are_echoes_even_alone(tmp_path: Path, code: int) -> None:
    (found,) = findings(tmp_path, lines(f"NVRM: Xid (PCI:0000:06:00): {code}, pid=1, name=python, Ch 00000008"))
    assert found.role is Role.ECHO


def test_what_follows_a_broken_gpu_is_an_echo_and_what_precedes_it_is_not(tmp_path: Path) -> None:
    follows = by_code(
        findings(
            tmp_path,
            lines(
                "NVRM: Xid (PCI:0000:06:00): 48, DBE",
                "NVRM: Xid (PCI:0000:06:00): 31, Ch 1",
                "NVRM: Xid (PCI:0000:07:00): 31, Ch 1",
            ),
        )
    )
    assert follows[48].role is Role.ROOT
    on_other = [f for f in findings(tmp_path) if f.pci == "0000:07:00"]
    same = [f for f in findings(tmp_path) if f.pci == "0000:06:00" and f.fields["xid"] == 31]
    assert same[0].role is Role.ECHO
    assert same[0].fields["after"] == 48
    assert on_other[0].role is Role.ROOT


def test_caused_by_previous_is_an_echo(tmp_path: Path) -> None:
    found = by_code(
        findings(
            tmp_path,
            lines(
                "NVRM: Xid (PCI:0000:06:00): 145, RLW_RXPIPE Fatal XC0 i0 Link 1 (0x1 0x1), caused by previous Xid 149"
            ),
        )
    )
    assert found[145].role is Role.ECHO
    assert found[145].fields["caused_by"] == "149"


def test_the_same_code_on_several_gpus_is_told_from_one_gpu_in_several_jobs(tmp_path: Path) -> None:
    several = by_code(
        findings(
            tmp_path,
            lines("NVRM: Xid (PCI:0000:06:00): 13, pid=1, x"),
            lines("NVRM: Xid (PCI:0000:06:00): 13, pid=9, x", node="n8"),
        )
    )
    assert several[13].fields["spread"] == "several"
    assert several[13].fields["nodes_with_code"] == 2
    assert several[13].fields["same_gpu"] is False


def test_one_gpu_that_fails_for_several_processes_is_pointed_out(tmp_path: Path) -> None:
    text = (
        "Aug  1 08:00:00 n7 kernel: NVRM: Xid (PCI:0000:06:00): 31, pid=100, name=python, Ch 1\n"
        "Aug  1 11:00:00 n7 kernel: NVRM: Xid (PCI:0000:06:00): 31, pid=911, name=python, Ch 1\n"
    )
    (found,) = findings(tmp_path, text)
    assert found.fields["same_gpu"] is True
    assert "speaks for the GPU" in found.text


def test_an_xid_from_before_the_boot_that_precedes_the_job_is_history(tmp_path: Path) -> None:
    kernel = (
        "Aug  1 02:00:00 n7 kernel: NVRM: Xid (PCI:0000:06:00): 79, GPU has fallen off the bus.\n"
        "Aug  1 03:00:00 n7 kernel: Linux version 6.1.0-18-amd64 (debian-kernel@lists.debian.org)\n"
    )
    job = "2026-08-01 08:00:00 INFO [rank 0] step=10 loss=2.0\n2026-08-01 09:00:00 INFO [rank 0] step=20 loss=1.9\n"
    (found,) = findings(tmp_path, kernel, job)
    assert found.role is Role.CONTEXT
    assert found.fields["old"] is True


@pytest.mark.parametrize("code", [106, 141, 162, 164, 152])
def test_informational_codes_are_context(tmp_path: Path, code: int) -> None:
    (found,) = findings(tmp_path, lines(f"NVRM: Xid (PCI:0000:06:00): {code}, text"))
    assert found.role is Role.CONTEXT


def test_a_double_bit_error_that_stayed_within_its_process_is_contained(tmp_path: Path) -> None:
    found = by_code(
        findings(
            tmp_path,
            lines("NVRM: Xid (PCI:0000:06:00): 48, DBE", "NVRM: Xid (PCI:0000:06:00): 94, Contained: SM (0x1)"),
        )
    )
    assert found[48].fields["contained"] is True
    assert found[94].fields["contained"] is True


def test_a_line_group_of_a_switch_counts_once_and_the_fabric_managers_word_joins_it(tmp_path: Path) -> None:
    kernel = lines(
        "nvidia-nvswitch2: SXid (PCI:0000:87:00.0): 20034, Fatal, Link 33 LTSSM Fault Up (First)",
        "nvidia-nvswitch2: SXid (PCI:0000:87:00.0): 20034, Severity 1 Engine instance 33 Sub-engine instance 00",
        "nvidia-nvswitch2: SXid (PCI:0000:87:00.0): 20034, Data {0x00000021, 0x00000000}",
    )
    manager = (
        "[Aug 01 2026 08:00:00] [ERROR] [tid 841] detected NVSwitch fatal error 20034 on fid 0 "
        "on NVSwitch pci bus id 00000000:87:00.0 physical id 3 port 33\n"
    )
    (found,) = findings(tmp_path, kernel, manager)
    assert (found.sign, found.count, found.node) == ("nvswitch.sxid", 1, "n7")
    assert found.fields["fatal"] is True
    assert found.fields["wide"] is False


def test_a_cut_line_group_is_judged_by_the_code(tmp_path: Path) -> None:
    (always,) = findings(
        tmp_path,
        lines("nvidia-nvswitch2: SXid (PCI:0000:87:00.0): 23001, Severity 1 Engine instance 33 Sub-engine instance 00"),
    )
    assert always.fields["wide"] is True
    assert always.role is Role.ROOT


def test_a_non_fatal_switch_error_is_context(tmp_path: Path) -> None:
    (found,) = findings(
        tmp_path,
        lines("nvidia-nvswitch3: SXid (PCI:0000:c1:00.0): 28006, Non-fatal, Link 46 MC TS crumbstore MCTO (First)"),
    )
    assert found.role is Role.CONTEXT
