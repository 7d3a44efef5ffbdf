"""Many processes give what one gives; a dead worker or an abandoned scan leaves nothing behind."""

from __future__ import annotations

import multiprocessing
import os
import random
import signal
from pathlib import Path

import pytest

from aiops.catalog import load_catalog
from aiops.scan import make_scanner, pool, ranges
from aiops.scan.pool import scan_files

CATALOG = load_catalog()
XID = "Aug  1 08:00:00 n1 kernel: NVRM: Xid (PCI:0000:3b:00): 79, GPU has fallen off the bus."
OOM = "RuntimeError: CUDA out of memory. Tried to allocate 2.00 GiB"


@pytest.fixture
def logs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """Files of several ranges, one without lines that hit, one empty."""
    monkeypatch.setattr(pool, "ranges_of", lambda path: ranges.ranges_of(path, 1 << 16))
    rng = random.Random(5)
    paths = []
    for number in range(4):
        path = tmp_path / f"rank_{number}.log"
        lines = [rng.choice([XID, OOM, "step=1 loss=2.5 lr=1e-4", "INFO fine", ""]) for _ in range(5000)]
        path.write_text("\n".join(lines) + "\n" * (number % 2))
        paths.append(path)
    (tmp_path / "quiet.log").write_text("INFO fine\n" * 3)
    (tmp_path / "empty.log").write_text("")
    return [*paths, tmp_path / "quiet.log", tmp_path / "empty.log"]


def flat(logs: list[Path], jobs: int) -> list[tuple[object, ...]]:
    scanner = make_scanner(CATALOG)
    return [(found.file, *hit) for found in scan_files(scanner, logs, jobs) for hit in found.hits]


def test_workers_give_what_one_process_gives(logs: list[Path]) -> None:
    alone = flat(logs, 1)
    assert flat(logs, 2) == alone
    for file, _, line, text, _ in alone:
        assert logs[file].read_bytes().split(b"\n")[line - 1] == text  # type: ignore[index,operator]


def test_lines_add_up_and_the_last_piece_says_so(logs: list[Path]) -> None:
    lines: dict[int, int] = {}
    last = []
    for found in scan_files(make_scanner(CATALOG), logs, 1):
        lines[found.file] = lines.get(found.file, 0) + found.lines
        last += [found.file] * found.last
    assert lines == {number: len(path.read_text().splitlines()) for number, path in enumerate(logs[:-1])}
    assert last == [0, 1, 2, 3, 4]


def test_storm_over_many_ranges_keeps_its_count(logs: list[Path], tmp_path: Path) -> None:
    path = tmp_path / "storm.log"
    path.write_text((XID + "\n") * 20_000 + XID.replace(": 79,", ": 31,") + "\n" + (XID + "\n") * 20_000)
    scanner = make_scanner(CATALOG)
    rule = next(r.id for r in scanner.rules.rules if r.signal.id == "gpu.xid")
    hits = [hit for found in scan_files(scanner, [path], 1) for hit in found.hits]
    assert sum(weight for hit in hits for found, weight in hit.rules if found == rule) == 40_001
    assert len(hits) < 10_000
    assert any(b": 31," in hit.text for hit in hits)


def test_many_large_logs_share_what_is_kept_of_progress_lines(
    logs: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    paths = []
    for rank in range(32):
        paths.append(tmp_path / f"progress_{rank}.log")
        paths[-1].write_text("".join(f"step={step} loss=2.{step} lr=1e-4\n" for step in range(400)))
    detailed = flat(paths, 1)
    monkeypatch.setattr(pool, "WORTHWHILE", 1 << 10)
    shared = flat(paths, 1)
    assert len(shared) < len(detailed) / 2
    rule = next(r.id for r in make_scanner(CATALOG).rules.rules if r.signal.id == "train.progress")
    for hits in (detailed, shared):
        lines = [(file, line) for file, _, line, _, rules in hits if rule in dict(rules)]  # type: ignore[call-overload]
        assert lines[-1] == (31, 400)
        counts = [dict(rules).get(rule, 0) for *_, rules in hits]  # type: ignore[call-overload]
        assert sum(counts) == 32 * 400


def test_killed_workers_lose_nothing(logs: list[Path]) -> None:
    alone = flat(logs, 1)
    found = scan_files(make_scanner(CATALOG), logs, 2)
    results = [next(found)]
    for child in multiprocessing.active_children():
        os.kill(child.pid or 0, signal.SIGKILL)
    results += found
    assert [(part.file, *hit) for part in results for hit in part.hits] == alone


def test_an_abandoned_scan_ends_its_workers(logs: list[Path]) -> None:
    found = scan_files(make_scanner(CATALOG), logs, 2)
    next(found)
    found.close()
    assert not [child for child in multiprocessing.active_children() if child.name == "aiops-scan"]
