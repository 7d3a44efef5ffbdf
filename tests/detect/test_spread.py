"""A job on more switches than it needs is told of; it is a cause only where something shows that it matters."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from aiops.config import Settings, default_cache_dir
from aiops.pipeline import analyze_paths

TREE = "SwitchName=leaf1 Nodes=c[1-4]\nSwitchName=leaf2 Nodes=c[5-8]\nSwitchName=leaf3 Nodes=c[9-12]\nSwitchName=sp Switches=leaf[1-3]\n"
SACCT = "JobID|JobName|State|ExitCode|Start|End|NodeList|NNodes\n"


def steps(hour: int, first: int, seconds: int) -> str:
    return "".join(
        f"2026-08-01 {hour + at // 3600:02}:{at % 3600 // 60:02}:{at % 60:02},000 INFO [rank 0] step={first + n} loss=2.1\n"
        for n in range(60)
        for at in (60 + n * seconds,)
    )


def judge(folder: Path, out: str, sacct: str) -> Any:
    for name, text in {"topology.conf": TREE, "train.out": out, "sacct": SACCT + sacct}.items():
        (folder / name).write_text(text)
    return analyze_paths([folder], Settings(cache_dir=default_cache_dir()))


def test_a_job_that_became_slow_when_it_was_placed_on_more_leaves(tmp_path: Path) -> None:
    runs = (
        "77|llm|NODE_FAIL|1:0|2026-08-01T06:00:00|2026-08-01T07:00:00|c[1-4]|4\n"
        "77|llm|RUNNING|0:0|2026-08-01T08:00:00|Unknown|c[1-2],c5,c9|4\n"
    )
    report = judge(tmp_path, steps(6, 100, 10) + steps(8, 160, 31), runs)
    found = [
        h for incident in report.incidents for h in incident.hypotheses if h.failure_class == "sch.topology_misplaced"
    ]
    assert found and found[0].culprit.name == "job 77 on 3 switches"
    text = next(f.text for i in report.incidents for f in i.findings if f.sign == "topology.spread")
    assert "would fit on one" in text and "3.1 times as long" in text


def test_a_spread_alone_is_no_incident(tmp_path: Path) -> None:
    report = judge(
        tmp_path,
        steps(6, 100, 10) + "2026-08-01 06:30:00,000 INFO [rank 0] training finished: max_steps=159 reached\n",
        "77|llm|COMPLETED|0:0|2026-08-01T06:00:00|2026-08-01T07:00:00|c[1-3],c5|4\n",
    )
    assert report.verdict == "no_incident"


def test_a_job_that_needs_two_leaves_and_lies_on_two_is_not_told_of(tmp_path: Path) -> None:
    report = judge(
        tmp_path,
        "2026-08-01 06:00:01,000 INFO [rank 0] step=1 loss=2.1\nTraceback (most recent call last):\n"
        '  File "/w/train.py", line 7, in main\n    x = y[3]\nIndexError: list index out of range\n',
        "77|llm|FAILED|1:0|2026-08-01T06:00:00|2026-08-01T07:00:00|c[1-4],c[5-6]|6\n",
    )
    assert report.incidents[0].failure_class == "usr.exception"
    assert all(f.sign != "topology.spread" for f in report.incidents[0].findings)


def test_the_same_work_handed_in_again_is_compared_with_its_earlier_job(tmp_path: Path) -> None:
    def start(*hosts: str) -> str:
        return "".join(
            f"{host}:41:51 [0] NCCL INFO comm 0x5 rank {n} nranks {len(hosts)} cudaDev 0 nvmlDev 0 busId 1a000 "
            "commId 0x9 - Init COMPLETE\n"
            for n, host in enumerate(hosts)
        )

    done = "2026-08-01 06:50:00,000 INFO [rank 0] training finished: max_steps=159 reached\n"
    (tmp_path / "earlier.out").write_text(start("c1", "c2", "c3", "c4") + steps(6, 100, 10) + done)
    sacct = SACCT.replace("JobName|", "JobName|User|") + (
        "76|llm|ann|COMPLETED|0:0|2026-08-01T06:00:00|2026-08-01T07:00:00|c[1-4]|4\n"
        "77|llm|ann|RUNNING|0:0|2026-08-01T08:00:00|Unknown|c[1-2],c5,c9|4\n"
    )
    for name, text in {
        "topology.conf": TREE,
        "now.out": start("c1", "c2", "c5", "c9") + steps(8, 160, 31),
        "sacct": sacct,
    }.items():
        (tmp_path / name).write_text(text)
    report = analyze_paths([tmp_path], Settings(cache_dir=default_cache_dir()))
    assert report.incidents[0].failure_class == "sch.topology_misplaced"
