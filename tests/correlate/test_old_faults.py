"""Fatal records that were in the kernel log before the job began are of another job."""

from __future__ import annotations

from pathlib import Path

import pytest

from aiops.config import Settings
from aiops.model.report import Report
from aiops.pipeline import analyze_paths

LINK = "Apr 14 {clock} n1 kernel: NVRM: Xid (PCI:0000:87:00): 94, pid=771, name=python, Contained: SM (0x1). RST: No, D-RST: No"
STEP = "2026-04-14 {clock} [rank{r}] epoch 0 step {s} loss 2.1"
ERROR = (
    "[rank{r}]: Traceback (most recent call last):",
    '[rank{r}]:   File "/u/train.py", line 310, in evaluate',
    "[rank{r}]: KeyError: 'labels'",
)


def report_of(tmp_path: Path, fault: str) -> Report:
    lines = [
        f"n{1 + r // 8}:4{r:03d}:5{r:03d} [{r % 8}] NCCL INFO comm 0x1 rank {r} nranks 16 cudaDev {r % 8} busId 8{r % 8}000 - Init COMPLETE"
        for r in range(16)
    ]
    lines += [STEP.format(clock=f"14:1{s}:00", r=0, s=s) for s in range(4)]
    lines += [line.format(r=r) for r in range(16) for line in ERROR]
    (tmp_path / "out.log").write_text("\n".join(lines) + "\n", encoding="utf-8")
    (tmp_path / "dmesg").write_text(LINK.format(clock=fault) + "\n", encoding="utf-8")
    return analyze_paths([tmp_path], Settings())


def test_fault_before_the_job_blames_no_node(tmp_path: Path) -> None:
    incident = report_of(tmp_path, "10:41:00").incidents[0]
    assert incident.failure_class == "usr.exception"
    assert incident.requeue.exclude == []


@pytest.mark.parametrize("fault", ["14:13:00", "14:12:00"])
def test_fault_of_the_run_itself_still_counts(tmp_path: Path, fault: str) -> None:
    assert report_of(tmp_path, fault).incidents[0].failure_class == "mem.contained"


def test_distance_of_whole_hours_may_be_a_time_zone(tmp_path: Path) -> None:
    assert report_of(tmp_path, "06:13:00").incidents[0].failure_class == "mem.contained"
