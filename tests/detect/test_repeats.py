"""A fault that programs can cause, on one GPU, in jobs that have nothing in common."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from metrics_fleet import STEP, T0, XID, fleet

from aiops.config import Settings, default_cache_dir
from aiops.pipeline import analyze_paths


def stamp(minute: int) -> str:
    import datetime

    return f"{datetime.datetime.fromtimestamp(T0 + 60 * minute, datetime.UTC):%Y-%m-%dT%H:%M:%S}"


def judge(folder: Path, users: tuple[str, str], other_gpu: bool = False) -> Any:
    def gauge(*spans: range) -> list[Any]:
        return [lambda values, i: values.update({XID: 31 if any(i in span for span in spans) else 0})]

    changes = {(1, 6): gauge(range(10, 15), *([] if other_gpu else [range(30, 38)]))}
    if other_gpu:
        changes[0, 2] = gauge(range(30, 38))
    assert STEP == 60
    fleet(folder, changes)
    jobs = [(300, "clip", users[0], 0, 10), (301, "llm", users[1], 20, 30)]
    (folder / "sacct").write_text(
        "JobID|JobName|User|State|ExitCode|Start|End|NodeList|NNodes\n"
        + "".join(f"{n}|{name}|{who}|FAILED|1:0|{stamp(a)}|{stamp(b)}|gx-[00-01]|2\n" for n, name, who, a, b in jobs)
    )
    return analyze_paths([folder], Settings(cache_dir=default_cache_dir()))


def test_the_gpu_is_named_where_two_users_met_it(tmp_path: Path) -> None:
    best = judge(tmp_path, ("kim", "ada")).incidents[0]
    assert (best.failure_class, best.culprit.kind, best.culprit.node, best.culprit.gpu) == (
        "gpu.mmu_fault",
        "gpu",
        "gx-01",
        6,
    )
    assert best.requeue.verdict == "exclude_nodes" and best.requeue.exclude == ["gx-01"]


@pytest.mark.parametrize(("users", "other"), [(("kim", "kim"), False), (("kim", "ada"), True)])
def test_one_users_program_or_two_gpus_speak_for_the_program(tmp_path: Path, users: Any, other: bool) -> None:
    for incident in judge(tmp_path, users, other).incidents:
        assert incident.culprit.kind != "gpu" and incident.requeue.verdict != "exclude_nodes"
