"""Many processes give what one gives; a dead worker or an abandoned scan leaves nothing behind."""

from __future__ import annotations

import os
import random
import select
import signal
import subprocess
import sys
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


def workers(parent: int | str = "self") -> list[int]:
    """Process ids of the workers of a process."""
    children = [pid for path in Path(f"/proc/{parent}/task").glob("*/children") for pid in path.read_text().split()]
    return [int(pid) for pid in children if b"aiops.scan.pool" in Path(f"/proc/{pid}/cmdline").read_bytes()]


def flat(logs: list[Path], jobs: int) -> list[tuple[object, ...]]:
    scanner = make_scanner(CATALOG)
    return [(found.file, *hit) for found in scan_files(scanner, logs, jobs) for hit in found.hits]


def test_workers_give_what_one_process_gives(logs: list[Path]) -> None:
    alone = flat(logs, 1)
    assert flat(logs, 2) == alone
    assert flat(logs, 4) == alone
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


@pytest.mark.parametrize("jobs", [1, 2])
def test_the_end_of_a_large_log_is_kept_line_by_line(
    logs: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, jobs: int
) -> None:
    paths = []
    for rank in range(40):
        paths.append(tmp_path / f"progress_{rank}.log")
        noise = "INFO fine\n" * (rank % 3) + (XID + "\n") * (rank % 2)
        paths[-1].write_text("".join(f"step={step} loss=2.{step} lr=1e-4\n{noise}" for step in range(1500)))
    monkeypatch.setattr(pool, "WORTHWHILE", 1 << 10)
    hits = flat(paths, jobs)
    rule = next(r.id for r in make_scanner(CATALOG).rules.rules if r.signal.id == "train.progress")
    for file, path in enumerate(paths):
        shown = [
            (line, text, dict(rules)[rule]) for f, _, line, text, rules in hits if f == file and rule in dict(rules)
        ]  # type: ignore[call-overload]
        assert [text.split()[0] for _, text, _ in shown[-32:]] == [b"step=%d" % step for step in range(1468, 1500)]
        assert [weight for *_, weight in shown[-31:]] == [1] * 31
        assert sum(weight for *_, weight in shown) == 1500
        assert len(shown) < 500
        text = path.read_bytes().split(b"\n")
        assert all(text[line - 1] == shown_text for line, shown_text, _ in shown)


def test_killed_workers_lose_nothing(logs: list[Path]) -> None:
    alone = flat(logs, 1)
    found = scan_files(make_scanner(CATALOG), logs, 3)
    results = [next(found)]
    killed = workers()
    for pid in killed:
        os.kill(pid, signal.SIGKILL)
    assert len(killed) == 2
    results += found
    assert [(part.file, *hit) for part in results for hit in part.hits] == alone


def test_an_abandoned_scan_ends_its_workers(logs: list[Path]) -> None:
    found = scan_files(make_scanner(CATALOG), logs, 3)
    next(found)
    found.close()
    assert not workers()


def test_workers_end_with_a_parent_that_is_killed(logs: list[Path], tmp_path: Path) -> None:
    (tmp_path / "stop.py").write_text(
        "import pathlib, sys\n"
        "from aiops.catalog import load_catalog\n"
        "from aiops.scan import make_scanner\n"
        "from aiops.scan.pool import scan_files\n"
        "found = scan_files(make_scanner(load_catalog()), [pathlib.Path(p) for p in sys.argv[1:]], 3)\n"
        "next(found)\n"
        "print('scanning', flush=True)\n"
        "sys.stdin.read()\n"
    )
    parent = subprocess.Popen(
        [sys.executable, tmp_path / "stop.py", *logs], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert parent.stdout is not None and parent.stdin is not None
    assert parent.stdout.readline() == b"scanning\n"
    left = [os.pidfd_open(pid) for pid in workers(parent.pid)]
    assert len(left) == 2
    parent.kill()
    parent.wait()
    for descriptor in left:  # readable once the process has ended
        assert select.select([descriptor], [], [], 60)[0]
        os.close(descriptor)
    parent.stdin.close()
    parent.stdout.close()


def test_many_small_files_give_what_each_alone_gives(tmp_path: Path) -> None:
    rng = random.Random(7)
    paths, alone = [], []
    scanner = make_scanner(CATALOG)
    for number in range(300):
        lines = [rng.choice([XID, OOM, "step=1 loss=2.5 lr=1e-4", "INFO fine", "", "x" * 9000 + OOM, OOM + "\r"])
                 for _ in range(rng.choice((1, 2, 5, 40)))]  # fmt: skip
        paths.append(tmp_path / f"{number}.log")
        paths[-1].write_text("\n".join(lines) + "\n" * (number % 2), newline="")
        alone += [(number, *hit) for hit in scanner.scan_file(paths[-1])]
    assert flat(paths, 1) == alone
    assert flat(paths, 2) == alone
