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


OWNER = "[rank4]: RuntimeError: CUDA error: uncorrectable ECC error encountered"


def report_of(tmp_path: Path, record: str, *, owner: bool = False, timed: bool = True) -> Report:
    """A job of two nodes, dead of one error on all ranks or of a CUDA error on the ``owner`` of n1's GPU 4."""
    init = (
        "n{n}:4{r:03d}:5{r:03d} [{d}] NCCL INFO comm 0x1 rank {r} nranks 16 cudaDev {d} busId 8{d}000 - Init COMPLETE"
    )
    lines = [init.format(n=1 + r // 8, r=r, d=r % 8) for r in range(16)]
    if timed:
        lines += [STEP.format(clock=f"14:1{s}:00", r=0, s=s) for s in range(4)]
    lines += [OWNER] if owner else [line.format(r=r) for r in range(16) for line in ERROR]
    (tmp_path / "out.log").write_text("\n".join(lines) + "\n", encoding="utf-8")
    (tmp_path / "dmesg").write_text(record + "\n", encoding="utf-8")
    return analyze_paths([tmp_path], Settings())


def test_fault_before_the_job_blames_no_node(tmp_path: Path) -> None:
    incident = report_of(tmp_path, LINK.format(clock="10:41:00")).incidents[0]
    assert incident.failure_class == "usr.exception"
    assert incident.requeue.exclude == []


def test_panic_before_the_job_is_no_second_incident(tmp_path: Path) -> None:
    record = "Apr 14 04:41:00 n1 kernel: Kernel panic - not syncing: Fatal exception in interrupt"
    assert [i.failure_class for i in report_of(tmp_path, record).incidents] == ["usr.exception"]


@pytest.mark.parametrize("clock", ["14:13:00", "14:12:00"])
def test_fault_of_the_run_itself_still_counts(tmp_path: Path, clock: str) -> None:
    assert report_of(tmp_path, LINK.format(clock=clock), owner=True).incidents[0].failure_class == "mem.contained"


def test_distance_of_whole_hours_may_be_a_time_zone(tmp_path: Path) -> None:
    assert report_of(tmp_path, LINK.format(clock="06:13:00"), owner=True).incidents[0].failure_class == "mem.contained"


def test_one_error_on_all_gpus_is_not_of_the_one_with_a_contained_fault(tmp_path: Path) -> None:
    incident = report_of(tmp_path, LINK.format(clock="10:41:00"), timed=False).incidents[0]
    assert incident.failure_class == "usr.exception"
    assert incident.requeue.exclude == []
