"""Signals from outside, and loops of restarts."""

from __future__ import annotations

from pathlib import Path

import pytest

from aiops.catalog import load_catalog
from aiops.config import Settings
from aiops.detect.launcher import detect as launcher
from aiops.detect.reuse import detect as reuse
from aiops.ingest import open_case


@pytest.mark.parametrize(
    ("line", "number"),
    [
        (
            "W0801 08:20:00.000000 50 torch/distributed/elastic/multiprocessing/api.py:897] Sending process 61 closing signal SIGHUP",
            1,
        ),
        ("WARNING:torch.distributed.elastic.agent.server.api:Received 15 death signal, shutting down workers", 15),
        (
            "WARNING:torch.distributed.elastic.agent.server.api:Received Signals.SIGINT death signal, shutting down workers",
            2,
        ),
    ],
)
def test_signal_that_stopped_the_launcher(tmp_path: Path, line: str, number: int) -> None:
    (tmp_path / "out.log").write_text(
        f"2026-08-01 08:00:00,000 INFO [rank0] step 1 loss 2.0\n{line}\n", encoding="utf-8"
    )
    with open_case([tmp_path], Settings()) as case:
        found = [f for f in launcher(case, load_catalog()) if f.sign == "launcher.stopped"]
    assert [f.fields["signal"] for f in found] == [number]


def attempts(tmp_path: Path, reached: list[int]) -> list[str]:
    lines = []
    for number, last in enumerate(reached):
        lines.append(f"2026-08-01 08:{number:02d}:00,000 INFO [rank0] step {last} loss 2.0")
        left = len(reached) - number
        lines.append(
            f"2026-08-01 08:{number:02d}:30,000 ERROR [default] Worker group FAILED. "
            f"{left}/9 attempts left; will restart worker group"
        )
    (tmp_path / "agent.log").write_text("\n".join(lines) + "\n", encoding="utf-8")
    with open_case([tmp_path], Settings()) as case:
        return [f.sign for f in reuse(case, load_catalog())]


def test_a_loop_without_progress(tmp_path: Path) -> None:
    assert attempts(tmp_path, [50, 50, 50]) == ["job.crash_loop"]


def test_restarts_that_come_further_are_no_loop(tmp_path: Path) -> None:
    assert attempts(tmp_path, [50, 400, 900]) == []
