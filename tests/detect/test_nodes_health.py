"""Reboots, storms of corrected errors, lost device access, false alarms and growing memory, each with its harmless twin."""

from __future__ import annotations

from pathlib import Path

import pytest

from aiops.catalog import load_catalog
from aiops.config import Settings, default_cache_dir
from aiops.detect.nodes import detect
from aiops.ingest import open_case
from aiops.model.finding import Finding, Role
from aiops.pipeline import analyze_paths

BANNER = "kernel: Linux version 6.1.0-18-amd64 (debian-kernel@lists.debian.org)"
JOB = "2026-08-01 {} INFO [rank 0] step=10 loss=2.0\n2026-08-01 {} INFO [rank 0] step=20 loss=1.9\n"


def findings(directory: Path, *files: str) -> dict[str, Finding]:
    for number, text in enumerate(files):
        (directory / f"{number}.log").write_text(text, encoding="utf-8")
    with open_case([directory], Settings(cache_dir=default_cache_dir())) as case:
        return {f.sign: f for f in detect(case, load_catalog())}


def log(*lines: tuple[str, str], node: str = "n7") -> str:
    return "".join(f"Aug  1 {at} {node} {text}\n" for at, text in lines)


BEFORE = (
    ("07:00:00", "systemd[1]: Started Session 3 of User op."),
    ("07:10:00", "systemd[1]: Reloading."),
    ("07:20:00", "sshd[811]: Accepted publickey for op from 10.0.0.9 port 5111"),
)


def test_a_boot_in_the_middle_of_a_journal_is_a_reboot(tmp_path: Path) -> None:
    found = findings(tmp_path, log(*BEFORE, ("08:30:00", BANNER)), JOB.format("08:00:00", "08:20:00"))[
        "host.reboot_seen"
    ]
    assert (found.node, found.role, found.fields["planned"]) == ("n7", Role.ROOT, False)


def test_an_announced_reboot_says_so(tmp_path: Path) -> None:
    down = ("08:25:00", "systemd-logind[811]: The system will reboot now!")
    found = findings(tmp_path, log(*BEFORE, down, ("08:30:00", BANNER)))["host.reboot_seen"]
    assert found.fields["planned"] is True


def test_a_log_that_begins_with_a_boot_is_no_reboot(tmp_path: Path) -> None:
    assert "host.reboot_seen" not in findings(
        tmp_path, log(("07:00:00", BANNER), ("07:00:01", "systemd[1]: Reloading."))
    )


@pytest.mark.parametrize(("begin", "end"), [("11:00:00", "12:00:00"), ("01:00:00", "02:00:00")])
def test_a_reboot_far_from_the_job_is_context(tmp_path: Path, begin: str, end: str) -> None:
    found = findings(tmp_path, log(*BEFORE, ("07:30:00", BANNER)), JOB.format(begin, end))
    assert found["host.reboot_seen"].role is Role.CONTEXT


def test_an_uptime_that_starts_again_is_a_reboot(tmp_path: Path) -> None:
    text = (
        "[188121.000001] nfs: server 10.3.0.2 not responding, still trying\n"
        "[188221.000001] nfs: server 10.3.0.2 not responding, still trying\n"
        "[   12.400001] nfs: server 10.3.0.2 not responding, still trying\n"
    )
    assert findings(tmp_path, text)["host.reboot_seen"].count == 1


def test_lines_of_several_cpus_that_are_out_of_order_are_no_reboot(tmp_path: Path) -> None:
    text = (
        "[188121.900001] nfs: server 10.3.0.2 not responding, still trying\n"
        "[188121.000001] nfs: server 10.3.0.2 not responding, still trying\n"
        "[188122.000001] nfs: server 10.3.0.2 not responding, still trying\n"
    )
    assert "host.reboot_seen" not in findings(tmp_path, text)


def test_three_nodes_within_minutes_point_to_what_feeds_them(tmp_path: Path) -> None:
    logs = [log(*BEFORE, (f"07:30:0{i}", BANNER), node=f"n{i}") for i in range(3)]
    found = findings(tmp_path, *logs)["pwr.domain_event"]
    assert found.nodes == ("n0", "n1", "n2")
    assert found.fields["measured"] is True


def test_two_nodes_or_announced_reboots_do_not(tmp_path: Path) -> None:
    down = ("07:25:00", "systemd-logind[811]: The system will reboot now!")
    two = [log(*BEFORE, (f"07:30:0{i}", BANNER), node=f"n{i}") for i in range(2)]
    assert "pwr.domain_event" not in findings(tmp_path, *two)
    rolling = [log(*BEFORE, down, (f"07:30:0{i}", BANNER), node=f"n{i}") for i in range(4)]
    assert "pwr.domain_event" not in findings(tmp_path, *rolling)


def test_few_corrected_errors_are_nothing_and_masses_are_a_storm(tmp_path: Path) -> None:
    one = "kernel: EDAC MC0: {} CE memory read error on CPU_SrcID#0_MC#0_Chan#1_DIMM#0 (channel:1)"
    assert "kernel.ce_storm" not in findings(tmp_path, log(("08:00:00", one.format(1)), ("09:00:00", one.format(40))))
    found = findings(tmp_path, log(("08:00:00", one.format(30)), ("08:05:00", one.format(40))))["kernel.ce_storm"]
    assert (found.node, found.fields["errors"]) == ("n7", 70)


def test_the_kernels_own_word_of_a_storm_is_enough(tmp_path: Path) -> None:
    assert "kernel.ce_storm" in findings(
        tmp_path, log(("08:00:00", "kernel: mce: CMCI storm detected: switching to poll mode"))
    )


def test_lost_devices_after_a_reload(tmp_path: Path) -> None:
    reload = log(("08:00:00", "systemd[1]: Reloading."))
    lost = "2026-08-01 08:00:30 ERROR [rank 0] RuntimeError: No CUDA GPUs are available\n"
    assert findings(tmp_path, reload, lost)["host.device_cgroup"].fields["reload"] is True


def test_no_device_without_a_reload_is_not_told_as_lost_access(tmp_path: Path) -> None:
    lost = "2026-08-01 08:00:30 ERROR [rank 0] RuntimeError: No CUDA GPUs are available\n"
    assert "host.device_cgroup" not in findings(tmp_path, log(("07:00:00", "systemd[1]: Reloading.")), lost)


def test_a_lost_gpu_is_not_told_as_lost_access(tmp_path: Path) -> None:
    kernel = log(
        ("08:00:00", "systemd[1]: Reloading."),
        ("08:00:10", "kernel: NVRM: Xid (PCI:0000:06:00): 79, GPU has fallen off the bus."),
        ("08:00:20", "gpu-check[9]: Failed to initialize NVML: Unknown Error"),
    )
    assert "host.device_cgroup" not in findings(tmp_path, kernel)


DRAIN = "[2026-08-01T08:05:00.100] update_node: node n7 reason set to: healthcheck: XID {0} in dmesg\n" * 2


def test_a_drain_over_an_applications_xid_is_a_false_alarm(tmp_path: Path) -> None:
    kernel = log(("08:00:00", "kernel: NVRM: Xid (PCI:0000:3b:00): 43, pid=77, name=a.out, Ch 00000008"))
    found = findings(tmp_path, kernel, DRAIN.format(43))["host.health_drain"]
    assert (found.node, found.fields["false_alarm"]) == ("n7", True)


@pytest.mark.parametrize("code", [48, 79, 63])
def test_a_drain_over_a_fault_of_the_gpu_is_none(tmp_path: Path, code: int) -> None:
    kernel = log(("08:00:00", f"kernel: NVRM: Xid (PCI:0000:3b:00): {code}, text"))
    assert "host.health_drain" not in findings(tmp_path, kernel, DRAIN.format(code))


def test_a_drain_over_an_applications_xid_on_a_node_with_a_harder_one_is_none(tmp_path: Path) -> None:
    kernel = log(
        ("08:00:00", "kernel: NVRM: Xid (PCI:0000:3b:00): 48, DBE"),
        ("08:00:01", "kernel: NVRM: Xid (PCI:0000:3b:00): 43, pid=77, name=a.out, Ch 00000008"),
    )
    assert "host.health_drain" not in findings(tmp_path, kernel, DRAIN.format(43))


def progress(values: list[float], name: str, unit: str = "GB") -> str:
    return "".join(
        f"2026-08-01 {8 + i // 6:02d}:{i % 6}0:00 INFO [rank 0] step={i} loss=2.0 {name}={value:.1f}{unit}\n"
        for i, value in enumerate(values)
    )


def test_memory_that_rises_to_the_end_is_growth(tmp_path: Path) -> None:
    found = findings(tmp_path, progress([40 + 9 * i for i in range(12)], "rss"))["metric.rss_growth"]
    assert found.fields == {"from_gib": 40.0, "to_gib": 139.0}
    assert found.rank == 0


@pytest.mark.parametrize(
    "values",
    [
        [40.0] * 12,
        [20.0, 35.0, 40.0] + [41.0] * 9,
        [40.0, 50.0] * 6,
        [40.0 + 0.05 * i for i in range(12)],
        [40.0, 60.0, 80.0],
    ],
)
def test_steady_warming_or_swinging_memory_is_none(tmp_path: Path, values: list[float]) -> None:
    assert "metric.mem_growth" not in findings(tmp_path, progress(values, "gpu_mem"))


def test_a_port_is_counted_once_by_the_name_that_its_line_gives(tmp_path: Path) -> None:
    lines = "".join(
        f"Apr  2 22:1{i}:00 n7 kernel: mlx5_core 0000:c1:00.0 mlx5_5: Port: 1 Link {state}\n"
        for i, state in enumerate(("DOWN", "ACTIVE", "DOWN", "ACTIVE", "DOWN"))
    )
    lines += "".join(
        f"Apr  2 22:19:00 n7 kernel: mlx5_core 0000:{bus}:00.0: mlx5_port_event: Port: 1 Link DOWN\n"
        for bus in ("0c", "12")
    )
    (tmp_path / "kern.log").write_text(lines)
    found = {f.text for f in analyze_paths([tmp_path]).incidents[0].findings if f.sign.startswith("net.link")}
    assert {text.split(" went")[0] for text in found} == {
        "Port mlx5_5 of n7",
        "Port 0000:0c:00.0 of n7",
        "Port 0000:12:00.0 of n7",
    }
