"""Batch triage over real bundles with real worker processes: resume, bad bundles, two runs at once, the table."""

from __future__ import annotations

import dataclasses
import fcntl
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from aiops.config import Settings
from aiops.errors import InputError
from aiops.evaluate import load_truth
from aiops.triage import TriageResult, triage

FIXTURES = Path(__file__).resolve().parent.parent.parent / "fixtures"
CHILD = """
import sys
from pathlib import Path
from typing import Any
from aiops.triage import triage
triage([Path(sys.argv[1])], Path(sys.argv[2]), jobs=1)
"""


def copies(target: Path, *names: str, times: int = 1) -> Path:
    for name in names:
        for number in range(times):
            shutil.copytree(FIXTURES / name / "bundle", target / f"{name}-{number}")
    return target


def wait_for(condition: Callable[[], object], process: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + 90
    while not condition():
        assert process.poll() is None, "it ended before anything could be seen"
        assert time.monotonic() < deadline, "nothing happened in time"
        time.sleep(0.005)


def start(bundles: Path, out: Path) -> subprocess.Popen[bytes]:
    return subprocess.Popen([sys.executable, "-c", CHILD, str(bundles), str(out)], start_new_session=True)


@pytest.fixture
def settings() -> Settings:
    return Settings.from_environment()


@pytest.fixture(scope="module")
def done(tmp_path_factory: pytest.TempPathFactory) -> tuple[TriageResult, list[tuple[str, int, int]]]:
    """One run over different bundles, two of them with the same bad GPU, one empty, one broken."""
    bundles = tmp_path_factory.mktemp("many")
    copies(bundles, "ecc-dbe", times=2)
    copies(bundles, "healthy-ugly", "quota-kueue")
    copies(bundles, "user-oom", times=2)
    (bundles / "empty|<b>`x`").mkdir()
    (bundles / "broken").mkdir()
    (bundles / "broken" / "a.tar.gz").write_bytes(b"\x1f\x8b\x08\x00not really")
    calls: list[tuple[str, int, int]] = []
    result = triage(
        [bundles],
        tmp_path_factory.mktemp("out"),
        settings=Settings.from_environment(),
        jobs=2,
        progress=lambda *call: calls.append(call),
    )
    return result, calls


def test_one_bad_bundle_never_stops_the_run(done: tuple[TriageResult, list[tuple[str, int, int]]]) -> None:
    result, calls = done
    failed = {Path(failure.bundle).name: failure.error for failure in result.failures}
    assert set(failed) == {"empty|<b>`x`", "broken"} and all(failed.values())
    assert (result.bundles, result.analysed, result.resumed) == (8, 6, 0)
    assert calls[0] == ("triage", 0, 8) and calls[-1] == ("triage", 8, 8)
    assert [done for _, done, _ in calls] == list(range(9))


def test_table_is_readable_by_pandas_and_agrees_with_the_truth(
    done: tuple[TriageResult, list[tuple[str, int, int]]],
) -> None:
    import pandas as pd

    result, _ = done
    table = pd.read_parquet(result.results)
    assert [Path(name).name for name in table["bundle"]] == sorted(Path(row.bundle).name for row in result.rows)
    assert str(table["started"].dtype) == "datetime64[us, UTC]"
    for row in table.itertuples():
        name = Path(row.bundle).name.rsplit("-", 1)[0]
        if isinstance(row.error, str):
            assert pd.isna(row.verdict) and pd.isna(row.report)
            continue
        label = load_truth(FIXTURES / name).label
        report = json.loads((result.out / row.report).read_bytes())
        assert row.verdict == report["verdict"] == label["verdict"]
        assert row.seconds > 0
        if row.verdict == "incident":
            assert row.failure_class == label["accept_classes"][0]
            assert row.family == row.failure_class.split(".")[0]
            assert list(row.actions) == [action["action"] for action in report["incidents"][0]["actions"]]
    bad = table[table["failure_class"] == "mem.dbe_uncontained"]
    assert list(bad["started"].dt.strftime("%Y-%m-%d")) == ["2026-03-24"] * 2
    assert (bad["started"] < bad["ended"]).all() and (bad["gpu_hours_lost"] > 0).all()
    assert list(bad["node"]) == ["tarn-a15"] * 2 and list(bad["gpu"]) == [4] * 2 and bad["device"].nunique() == 1


def test_summary_counts_names_what_recurs_and_escapes(done: tuple[TriageResult, list[tuple[str, int, int]]]) -> None:
    result, _ = done
    text = result.summary.read_text().replace("\\_", "_")
    assert "8 bundles: 5 incidents, 1 healthy, 2 not read." in text
    assert "| mem.dbe_uncontained | 2 | 2 |" in text
    recurring = text.split("## Culprits that recur")[1].split("##")[0]
    assert "| node | tarn-a15 | 2 |" in recurring and "| GPU | GPU-b00f590b" in recurring
    assert "granite-h2" not in recurring, "a node is no culprit because two users ran out of memory there"
    assert "<b>" not in text and "empty|" not in text.replace("\\|", "")
    assert str(result.rows[0].seconds) not in text


def test_second_run_does_nothing_and_says_the_same(tmp_path: Path, settings: Settings) -> None:
    bundles = copies(tmp_path / "in", "ecc-dbe", "healthy-ugly")
    first = triage([bundles], tmp_path / "out", settings=settings, jobs=2)
    stamps = {path: path.stat().st_mtime_ns for path in (tmp_path / "out" / "reports").iterdir()}
    table, summary = first.results.read_bytes(), first.summary.read_bytes()
    second = triage([bundles], tmp_path / "out", settings=settings, jobs=2)
    assert (second.analysed, second.resumed) == (0, 2)
    assert stamps == {path: path.stat().st_mtime_ns for path in (tmp_path / "out" / "reports").iterdir()}
    assert (second.results.read_bytes(), second.summary.read_bytes()) == (table, summary)
    third = triage([bundles], tmp_path / "out", settings=settings, jobs=2, resume=False)
    assert (third.analysed, third.resumed) == (2, 0)
    assert third.summary.read_bytes() == summary


def test_changed_bundle_and_damaged_report_are_analysed_again(tmp_path: Path, settings: Settings) -> None:
    bundles = copies(tmp_path / "in", "user-oom", "healthy-ugly", "port-in-use")
    first = triage([bundles], tmp_path / "out", settings=settings, jobs=2)
    with (bundles / "user-oom-0" / "nemo-10482.out").open("a") as log:
        log.write("one more line\n")
    damaged = next(row for row in first.rows if row.bundle.endswith("healthy-ugly-0")).report
    assert damaged is not None
    (tmp_path / "out" / damaged).write_bytes(b'{"schema": "aiops.report/v1", "verd')
    second = triage([bundles], tmp_path / "out", settings=settings, jobs=2)
    assert (second.analysed, second.resumed) == (2, 1)
    assert [row.verdict for row in second.rows] == [row.verdict for row in first.rows]
    priced = triage([bundles], tmp_path / "out", jobs=2, settings=dataclasses.replace(settings, gpu_hour_price=3.0))
    assert priced.analysed == 3


def test_killed_run_loses_nothing_that_is_finished(tmp_path: Path, settings: Settings) -> None:
    bundles, out = copies(tmp_path / "in", "ecc-dbe", "nan-data", "missing-rank", "user-oom", times=3), tmp_path / "out"
    process = start(bundles, out)
    reports = out / "reports"
    wait_for(lambda: reports.is_dir() and list(reports.glob("*.json")), process)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    wait_for_no_worker(process.pid)
    finished = {path.name: path.stat().st_mtime_ns for path in reports.glob("*.json")}
    assert 1 <= len(finished) < 12
    assert all(json.loads((reports / name).read_bytes())["schema"] == "aiops.report/v1" for name in finished)
    assert not (out / "results.parquet").exists()

    result = triage([bundles], out, settings=settings, jobs=2)
    assert (result.bundles, result.resumed, result.analysed) == (12, len(finished), 12 - len(finished))
    assert not result.failures
    assert finished == {name: (reports / name).stat().st_mtime_ns for name in finished}
    assert len(list(reports.iterdir())) == 12


def wait_for_no_worker(parent: int) -> None:
    """The workers of a killed run end by themselves; they share its session."""
    import psutil

    def alive() -> bool:
        for process in psutil.process_iter():
            try:
                if os.getsid(process.pid) == parent and process.status() != psutil.STATUS_ZOMBIE:
                    return True
            except (OSError, psutil.NoSuchProcess):
                continue
        return False

    deadline = time.monotonic() + 30
    while alive():
        assert time.monotonic() < deadline, "a worker outlived its killed parent"
        time.sleep(0.02)


def test_two_runs_cannot_share_a_directory(tmp_path: Path, settings: Settings) -> None:
    bundles, out = copies(tmp_path / "in", "ecc-dbe", "nan-data", times=3), tmp_path / "out"
    process = start(bundles, out)
    try:
        wait_for(lambda: (out / ".lock").is_file() and (out / ".lock").read_text().strip(), process)
        with pytest.raises(InputError, match=f"another triage is writing here.*{process.pid}"):
            triage([bundles], out, settings=settings, jobs=1)
        assert process.poll() is None
    finally:
        process.kill()
        process.wait()
    wait_for_no_worker(process.pid)
    assert triage([bundles], out, settings=settings, jobs=2).analysed >= 1, "the lock outlived its owner"


def test_nothing_to_do_is_an_input_error(tmp_path: Path, settings: Settings) -> None:
    with pytest.raises(InputError, match="no such file or directory: .*gone"):
        triage([tmp_path / "gone"], tmp_path / "out", settings=settings)
    with pytest.raises(InputError, match="no bundle"):
        triage([], tmp_path / "out", settings=settings)
    (tmp_path / "file").write_text("x")
    with pytest.raises(InputError, match="cannot write here"):
        triage([copies(tmp_path / "in", "port-in-use")], tmp_path / "file", settings=settings)


def test_missing_path_among_others_is_recorded(tmp_path: Path, settings: Settings) -> None:
    bundles = copies(tmp_path / "in", "port-in-use")
    result = triage([bundles, tmp_path / "gone"], tmp_path / "out", settings=settings, jobs=1)
    assert [(failure.bundle, failure.error) for failure in result.failures] == [
        (str(tmp_path / "gone"), "no such file or directory")
    ]
    assert result.analysed == 1


def test_command_line_shows_the_summary_resumes_and_refuses_a_held_directory(tmp_path: Path, aiops: Any) -> None:
    bundles, out = copies(tmp_path / "in", "port-in-use", "healthy-ugly"), tmp_path / "out"
    first = aiops("triage", bundles, "--out", out, "--jobs", "1")
    assert first.returncode == 0, first.stderr.decode()
    assert first.stdout.decode() == (out / "summary.md").read_text()
    before = {path: path.stat().st_mtime_ns for path in (out / "reports").iterdir()}
    assert len(before) == 2
    with (out / ".lock").open("a+") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        refused = aiops("triage", bundles, "--out", out)
        assert refused.returncode == 2 and b"another triage is writing here" in refused.stderr
        assert refused.stdout == b""
    assert aiops("triage", bundles, "--out", out).stdout == first.stdout
    assert before == {path: path.stat().st_mtime_ns for path in (out / "reports").iterdir()}
