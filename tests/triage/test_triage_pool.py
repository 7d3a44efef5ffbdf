"""A worker that dies or hangs costs its own bundle and no other."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

import psutil
import pytest

from aiops.config import Settings
from aiops.triage.pool import run_pool
from aiops.triage.task import Outcome, Task


def tasks(*names: str) -> list[Task]:
    return [Task(name, Path(name), Path(name), Settings()) for name in names]


def misbehave(task: Task) -> Outcome:
    """Runs in a worker."""
    if task.id.startswith("kill"):
        os.kill(os.getpid(), signal.SIGKILL)
    if task.id.startswith("exit"):
        os._exit(3)
    if task.id.startswith("hang"):
        signal.pause()
    return Outcome(task.id, 0.0)


@pytest.mark.parametrize("jobs", [1, 2])
def test_dead_worker_names_its_bundle_and_is_replaced(jobs: int) -> None:
    names = ["a", "kill-1", "b", "exit", "c", "kill-2", "d"]
    outcomes = {outcome.id: outcome.error for outcome in run_pool(tasks(*names), jobs, 60, misbehave)}
    assert sorted(outcomes) == sorted(names)
    assert sorted(name for name, error in outcomes.items() if error is None) == ["a", "b", "c", "d"]
    assert "SIGKILL" in (outcomes["kill-1"] or "") and "SIGKILL" in (outcomes["kill-2"] or "")
    assert outcomes["exit"] == "the worker ended with exit code 3"


def test_bundle_that_never_ends_is_given_up() -> None:
    outcomes = {outcome.id: outcome.error for outcome in run_pool(tasks("hang", "a", "b"), 2, 15.0, misbehave)}
    assert outcomes == {"hang": "gave no answer within 15 s", "a": None, "b": None}


def test_no_worker_outlives_the_iterator() -> None:
    me = psutil.Process()
    before = {child.pid for child in me.children()}
    pool = run_pool(tasks("a", "hang", "hang-too"), 2, 60, misbehave)
    next(pool)
    started = [child for child in me.children() if child.pid not in before]
    pool.close()
    workers = [child for child in started if "resource_tracker" not in _command(child)]
    deadline = time.monotonic() + 20
    while any(child.is_running() for child in workers) and time.monotonic() < deadline:
        time.sleep(0.02)
    assert not any(child.is_running() for child in workers)


def _command(process: psutil.Process) -> str:
    try:
        return " ".join(process.cmdline())
    except psutil.NoSuchProcess:
        return ""
