"""Who is slower than the others, from real files."""

from __future__ import annotations

from pathlib import Path

from aiops.catalog import load_catalog
from aiops.config import Settings
from aiops.detect.shards import detect as detect_shards
from aiops.detect.stragglers import detect as detect_stragglers
from aiops.ingest import open_case
from aiops.model.finding import Finding
from aiops.pipeline import analyze_paths


def slow(folder: Path, text: str) -> list[Finding]:
    (folder / "train.log").write_text(text, encoding="utf-8")
    with open_case([folder], Settings()) as case:
        return detect_stragglers(case, load_catalog())


def steps(times: dict[int, list[float]], form: str = "[rank{rank}] step={step} forward: {ms} ms comm: 20 ms") -> str:
    lines = []
    for index in range(len(next(iter(times.values())))):
        for rank, own in times.items():
            said = form.format(rank=rank, step=index + 1, ms=own[index])
            lines.append(
                f"2026-08-01 {8 + index // 3600:02d}:{index // 60 % 60:02d}:{index % 60:02d},{rank:03d} INFO {said}"
            )
    return "\n".join(lines) + "\n"


def test_one_steady_straggler_is_named(tmp_path: Path) -> None:
    found = slow(tmp_path, steps({0: [100] * 6, 1: [102] * 6, 2: [99] * 6, 3: [190, 185, 188, 101, 192, 190]}))
    assert [(f.sign, f.rank) for f in found] == [("train.slow_one", 3)]
    assert found[0].fields["part"] == "compute" and found[0].evidence


def test_time_spent_in_the_loader_is_told_apart(tmp_path: Path) -> None:
    form = "[rank{rank}] step={step} data_time={ms} ms compute: 50 ms"
    found = slow(tmp_path, steps({0: [5] * 6, 1: [6] * 6, 2: [5] * 6, 3: [70] * 6}, form))
    assert [(f.rank, f.fields["part"]) for f in found] == [(3, "data")]


def test_waiting_for_others_makes_no_straggler(tmp_path: Path) -> None:
    form = "[rank{rank}] step={step} forward: 50 ms all_reduce: {ms} ms"
    assert slow(tmp_path, steps({0: [5] * 6, 1: [6] * 6, 2: [5] * 6, 3: [700] * 6}, form)) == []


def test_the_rank_that_all_others_wait_for(tmp_path: Path) -> None:
    form = "[rank{rank}] profile step {step} data 1 ms forward 30 ms backward+allreduce {ms} ms"
    found = slow(tmp_path, steps({0: [270] * 6, 1: [280] * 6, 2: [20] * 6, 3: [275] * 6}, form))
    assert [(f.sign, f.rank, f.fields["part"]) for f in found] == [("train.slow_one", 2, "other")]


def test_usual_scatter_is_silence(tmp_path: Path) -> None:
    assert slow(tmp_path, steps({0: [100, 120, 95, 130], 1: [130, 99, 101, 100], 2: [99, 100, 140, 98]})) == []


def test_another_slowest_rank_in_each_step_is_imbalance(tmp_path: Path) -> None:
    times = {rank: [300 if step % 4 == rank else 100 for step in range(12)] for rank in range(4)}
    found = slow(tmp_path, steps(times))
    assert [(f.sign, f.rank) for f in found] == [("train.random_stragglers", None)]


def test_all_ranks_of_a_stage_are_no_suspects(tmp_path: Path) -> None:
    form = "[rank{rank}] pp stage {stage} step={step} forward: {ms} ms"
    lines = []
    for step in range(5):
        for rank in range(6):
            ms = 180 if rank >= 4 else 100
            said = form.format(rank=rank, stage=rank // 2, step=step, ms=ms)
            lines.append(f"2026-08-01 08:00:{step:02d},{rank:03d} INFO {said}")
    found = slow(tmp_path, "\n".join(lines) + "\n")
    assert [(f.sign, f.ranks, f.fields["stage"]) for f in found] == [("train.slow_stage", (4, 5), 2)]


def test_data_that_ends_on_all_ranks_is_no_sign(tmp_path: Path) -> None:
    lines = [f"2026-08-01 08:00:00,000 INFO [rank{rank}] dataloader exhausted" for rank in range(3)]
    late = (
        "2026-08-01 08:30:00,000 ERROR [rank0] RuntimeError: Timed out waiting 1800000ms for recv operation to complete"
    )
    (tmp_path / "train.log").write_text("\n".join([*lines, late]) + "\n", encoding="utf-8")
    with open_case([tmp_path], Settings()) as case:
        assert detect_shards(case, load_catalog()) == []


def test_a_rank_that_gets_slow_late_in_a_long_run(tmp_path: Path) -> None:
    times = {rank: [100.0 + (rank + step) % 3 for step in range(400)] for rank in range(4)}
    times[2] = [own * (2.0 if step >= 370 else 1.0) for step, own in enumerate(times[2])]
    found = slow(tmp_path, steps(times))
    assert [(f.sign, f.rank) for f in found] == [("train.slow_one", 2)]


def test_one_slow_step_at_the_end_is_no_straggler(tmp_path: Path) -> None:
    times = {rank: [100.0] * 400 for rank in range(4)}
    times[2] = [*[100.0] * 395, *[300.0] * 5]
    assert slow(tmp_path, steps(times)) == []


def test_a_job_that_runs_on_twice_as_slow_is_not_called_healthy(tmp_path: Path) -> None:
    times = {rank: [100.0 if step < 240 else 250.0 for step in range(300)] for rank in range(4)}
    (tmp_path / "train.log").write_text(steps(times, "[rank{rank}] step={step} loss=2.1 step_time={ms}s"))
    report = analyze_paths([tmp_path])
    assert report.verdict == "inconclusive" and "instead of" in report.incidents[0].narrative.text
    assert report.incidents[0].requeue.verdict == "not_needed"
    assert [action.action for action in report.incidents[0].actions] == ["investigate"]
