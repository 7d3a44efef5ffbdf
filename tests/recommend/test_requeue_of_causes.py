"""A cause may say for itself whether the job may go back, and a line about a node may name its rank alone."""

from __future__ import annotations

from pathlib import Path

from aiops.config import Settings
from aiops.model.report import Incident
from aiops.pipeline import analyze_paths

INIT = "n{n}:4{r:03d}:5{r:03d} [{d}] NCCL INFO comm 0x1 rank {r} nranks 16 cudaDev {d} busId {d}000 - Init COMPLETE"


def incident_of(tmp_path: Path, lines: list[str]) -> Incident:
    placed = [INIT.format(r=r, n=r // 8, d=r % 8) for r in range(16)]
    (tmp_path / "out.log").write_text("\n".join([*placed, *lines]) + "\n", encoding="utf-8")
    return analyze_paths([tmp_path], Settings()).incidents[0]


def test_a_mixed_installation_is_not_tried_again(tmp_path: Path) -> None:
    found = incident_of(
        tmp_path,
        [
            "n1:4009:5009 [1] init.cc:1117 NCCL WARN Mismatched NCCL version detected : rank 0 version 22005 rank 9 version 22105"
        ],
    )
    assert (found.failure_class, found.requeue.verdict) == ("nccl.init", "fix_first")


def test_other_faults_of_the_set_up_are_tried_once_more(tmp_path: Path) -> None:
    found = incident_of(
        tmp_path,
        ["n1:4009:5009 [1] bootstrap.cc:121 NCCL WARN Bootstrap Root : mismatch in rank count from procs 16 : 8"],
    )
    assert (found.failure_class, found.requeue.verdict) == ("nccl.init", "same_nodes")


def test_a_full_disk_is_on_the_node_of_the_ranks_that_say_so(tmp_path: Path) -> None:
    line = "[rank{r}]: OSError: [Errno 28] No space left on device: '/tmp/torchinductor_u/fx/.{r}.tmp'"
    found = incident_of(tmp_path, [line.format(r=r) for r in (8, 9)])
    assert (found.failure_class, found.culprit.node) == ("host.disk_full", "n1")
