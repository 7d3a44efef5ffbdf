"""Two jobs in one directory: each output belongs to its job, and the one that went wrong is judged."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from aiops.config import Settings, default_cache_dir
from aiops.pipeline import analyze_paths

SACCT = "JobID|JobName|User|State|ExitCode|Start|End|NodeList|NNodes\n"
WELL = "301|one|ann|COMPLETED|0:0|2026-08-01T06:00:00|2026-08-01T07:00:00|c[1-2]|2\n"
LOST = "302|two|ann|FAILED|1:0|2026-08-01T06:00:00|2026-08-01T06:40:00|c[5-6]|2\n"


def start(*hosts: str) -> str:
    ranks = [(host, number) for number, host in enumerate(host for host in hosts for _ in range(2))]
    return "".join(
        f"{host}:{41 + n % 2}:{51 + n % 2} [{n % 2}] NCCL INFO comm 0x5 rank {n} nranks {len(ranks)} cudaDev {n % 2} "
        f"nvmlDev {n % 2} busId {n % 2}a000 commId 0x9 - Init COMPLETE\n"
        for host, n in ranks
    )


DONE = start("c1", "c2") + "[exiting program after 400 iterations]\n"
WAITED = start("c5", "c6") + "".join(
    f"[rank{rank}]:[E801 06:39:00.000000001 ProcessGroupNCCL.cpp:683] [Rank {rank}] Watchdog caught collective operation "
    "timeout: WorkNCCL(SeqNum=9, OpType=ALLREDUCE, NumelIn=1, NumelOut=1, Timeout(ms)=600000) ran for 600010 milliseconds "
    "before timing out.\n"
    for rank in (0, 1, 2)
)


def judge(folder: Path, sacct: str, **outputs: str) -> Any:
    for name, text in outputs.items():
        (folder / f"{name}.out").write_text(text)
    (folder / "sacct").write_text(SACCT + sacct)
    return analyze_paths([folder], Settings(cache_dir=default_cache_dir()))


def test_a_job_that_ended_well_does_not_speak_for_one_that_failed(tmp_path: Path) -> None:
    report = judge(tmp_path, WELL + LOST, first=DONE, second=WAITED)
    assert report.verdict != "no_incident"
    best = report.incidents[0]
    assert best.culprit.job == "302" and best.failure_class in ("nccl.missing_rank", "nccl.timeout_unattributed")
    assert best.culprit.node in (None, "c5", "c6")


def test_the_order_of_files_does_not_matter(tmp_path: Path) -> None:
    one, other = tmp_path / "a", tmp_path / "b"
    one.mkdir()
    other.mkdir()
    told = [judge(one, WELL + LOST, a=DONE, b=WAITED), judge(other, LOST + WELL, b=DONE, a=WAITED)]
    assert len({(r.verdict, r.incidents[0].failure_class, r.incidents[0].culprit.rank) for r in told}) == 1


def test_an_earlier_attempt_of_the_same_work_is_read_with_it(tmp_path: Path) -> None:
    quota = start("c1", "c2") + "OSError: [Errno 122] Disk quota exceeded: '/scratch/ck/step_12000.pt'\n"
    unread = start("c5", "c6") + (
        "RuntimeError: PytorchStreamReader failed reading zip archive: failed finding central directory\n"
    )
    first = "301|esm|ann|FAILED|1:0|2026-08-01T06:00:00|2026-08-01T07:00:00|c[1-2]|2\n"
    again = "302|esm-c|ann|FAILED|1:0|2026-08-01T07:00:00|2026-08-01T07:03:00|c[5-6]|2\n"
    report = judge(tmp_path, first + again, first=quota, second=unread)
    assert report.incidents[0].failure_class == "sto.quota"


@pytest.mark.parametrize("names", [("a", "b"), ("b", "a")])
def test_two_runs_of_which_no_scheduler_tells(tmp_path: Path, names: tuple[str, str]) -> None:
    error = "[rank3]: torch.AcceleratorError: CUDA error: uncorrectable ECC error encountered\n"
    (tmp_path / f"{names[0]}.out").write_text(DONE)
    (tmp_path / f"{names[1]}.out").write_text(start("c5", "c6") + error)
    report = analyze_paths([tmp_path], Settings(cache_dir=default_cache_dir()))
    best = report.incidents[0]
    assert (best.failure_class, best.culprit.node, best.culprit.gpu) == ("mem.dbe_uncontained", "c6", 1)
    assert best.culprit.job is None and best.requeue.exclude == ["c6"]


@pytest.mark.parametrize("whole_world", [True, False])
def test_the_logs_of_two_nodes_of_one_run_stay_together(tmp_path: Path, whole_world: bool) -> None:
    """Groups inside of the world have a rank 0 on each node; the lines of the world may be rotated away."""
    for node, host in enumerate(("c1", "c2")):
        world = f"{host}:9:9 [0] NCCL INFO comm 0x7 rank {2 * node} nranks 4 cudaDev 0 nvmlDev 0 busId a000 commId 0x1 - Init COMPLETE\n"
        steps = "".join(f"[rank{2 * node}]: step={step} loss=2.1\n" for step in range(20))
        (tmp_path / f"out-{host}.log").write_text((world if whole_world or not node else "") + start(host) + steps)
    report = analyze_paths([tmp_path], Settings(cache_dir=default_cache_dir()))
    assert not any("each is judged by itself" in note for note in report.coverage.notes)


def test_an_error_of_an_earlier_attempt_is_of_the_host_that_it_ran_on_then(tmp_path: Path) -> None:
    error = "[rank3]: torch.AcceleratorError: CUDA error: uncorrectable ECC error encountered\n"
    again = "".join(f" iteration {n}/ 400 | lm loss: 2.1E+00 |\n" for n in range(10, 90, 10))
    (tmp_path / "slurm-95.out").write_text(start("c1", "c2") + error + start("c1", "c9") + again)
    report = analyze_paths([tmp_path], Settings(cache_dir=default_cache_dir()))
    assert all("c9" not in (i.culprit.node, *i.requeue.exclude) for i in report.incidents)
    assert report.incidents and report.incidents[0].culprit.node == "c2"
