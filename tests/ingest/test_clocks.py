"""Times of a case: missing years, zones, boots, clocks that jump or are off."""

from __future__ import annotations

import os
from datetime import UTC, datetime, timedelta
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from aiops.config import Settings, default_cache_dir
from aiops.ingest import open_case
from aiops.ingest.clocks import in_year, nearest_year, to_utc
from aiops.ingest.facts import facts_of
from aiops.ingest.prefix import NS, parse_prefix
from aiops.model.clock import iso

OOM = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 79.10 GiB"


def read(path: Path):
    return open_case([path], Settings(cache_dir=default_cache_dir()))


def xid(number: int, pci: str = "3b") -> str:
    return f"NVRM: Xid (PCI:0000:{pci}:00): {number}, pid=1, name=python, something"


def times(case) -> list[str | None]:
    return [iso(event.ts) for event in case.events if event.signal == "gpu.xid"]


def test_a_year_comes_from_the_rest_of_the_case_and_turns_at_new_year(tmp_path: Path) -> None:
    (tmp_path / "kern.log").write_text(f"Dec 31 23:59:50 n7 kernel: {xid(31)}\nJan  1 00:00:10 n7 kernel: {xid(43)}\n")
    (tmp_path / "train.log").write_text(f"2026-01-01 00:00:20,000 ERROR {OOM}\n")
    with read(tmp_path) as case:
        assert times(case) == ["2025-12-31T23:59:50Z", "2026-01-01T00:00:10Z"]


def test_without_any_year_the_newest_file_decides_and_it_is_said(tmp_path: Path) -> None:
    path = tmp_path / "kern.log"
    path.write_text(f"Dec 30 10:00:00 n7 kernel: {xid(79)}\n")
    written = datetime(2025, 1, 2, tzinfo=UTC).timestamp()
    os.utime(path, (written, written))
    with read(tmp_path) as case:
        assert times(case) == ["2024-12-30T10:00:00Z"]
        assert any("2024 is assumed" in note for note in case.notes)


def test_a_date_in_the_future_is_told_and_gives_no_year(tmp_path: Path) -> None:
    (tmp_path / "kern.log").write_text(f"Mar  3 10:00:00 n7 kernel: {xid(79)}\n")
    (tmp_path / "a.log").write_text(f"2094-03-03 10:00:00 ERROR {OOM}\n2025-03-03 10:00:00 ERROR {OOM}\n")
    with read(tmp_path) as case:
        assert times(case) == ["2025-03-03T10:00:00Z"]
        assert any("in the future" in note and "a.log" in note for note in case.notes)


def test_seconds_since_boot_take_the_boot_that_other_lines_tell(tmp_path: Path) -> None:
    (tmp_path / "dmesg-n7").write_text(f"[  100.000000] n7 kernel: {xid(79)}\n" * 1)
    (tmp_path / "kern.log").write_text(f"2026-01-02T03:00:00+00:00 n7 kernel: [   10.000000] {xid(31, '5d')}\n")
    with read(tmp_path) as case:
        assert sorted(t for t in times(case) if t) == ["2026-01-02T03:00:00Z", "2026-01-02T03:01:30Z"]


def test_two_boots_in_one_journal(tmp_path: Path) -> None:
    (tmp_path / "journal.log").write_text(
        f"2026-01-02T03:00:00+00:00 n7 kernel: [ 5000.000000] {xid(79)}\n"
        f"2026-01-02T04:00:00+00:00 n7 kernel: [   50.000000] {xid(31, '5d')}\n"
    )
    (tmp_path / "dmesg.txt").write_text(
        f"[ 5100.000000] n7 kernel: {xid(48, '9a')}\n[  160.000000] n7 kernel: {xid(94, '9b')}\n"
    )
    with read(tmp_path) as case:
        assert any("booted 2 times" in note for note in case.notes)
        assert sorted(times(case)) == [
            "2026-01-02T03:00:00Z",
            "2026-01-02T03:01:40Z",
            "2026-01-02T04:00:00Z",
            "2026-01-02T04:01:50Z",
        ]


def test_the_same_line_in_dmesg_and_in_the_journal_gives_the_boot_time(tmp_path: Path) -> None:
    (tmp_path / "node7.dmesg").write_text(f"[  100.000000] {xid(79)}\n[  160.000000] {xid(31, '5d')}\n")
    (tmp_path / "messages").write_text(f"2026-01-02T03:00:00+00:00 node7 kernel: {xid(79)}\n")
    with read(tmp_path) as case:
        assert "2026-01-02T03:01:00Z" in times(case)


def test_a_clock_that_is_set_back_is_told(tmp_path: Path) -> None:
    (tmp_path / "kern.log").write_text(
        f"2026-01-02T03:00:00+00:00 n7 kernel: {xid(79)}\n2026-01-02T02:00:00+00:00 n7 kernel: {xid(31, '5d')}\n"
    )
    with read(tmp_path) as case:
        assert any("goes back by 3600 s at line 2" in note for note in case.notes)


def skewed(tmp_path: Path, delays: list[float], events: int = 4) -> Path:
    base = datetime(2026, 1, 2, 3, 0, 0, tzinfo=UTC)
    for index, delay in enumerate(delays):
        text = ""
        for number in range(events):
            moment = base + timedelta(seconds=number * 61 + delay)
            text += f"{moment.isoformat(timespec='milliseconds')} n{index} kernel: nfs: server s{number}.x not responding, still trying\n"
        (tmp_path / f"n{index}.log").write_text(text)
    return tmp_path


def test_skew_is_estimated_shown_and_corrected(tmp_path: Path) -> None:
    with read(skewed(tmp_path, [0.0, 0.2, 90.1])) as case:
        skew = next(skew for skew in facts_of(case).skews if skew.node == "n2")
        assert 89 < skew.seconds < 91
        assert any("n2" in note and "+90" in note for note in case.notes)
        ends = {event.node: max(e.ts for e in case.events if e.node == event.node) for event in case.events}
        assert max(ends.values()) - min(ends.values()) < 2 * NS


def test_two_pairs_prove_no_skew(tmp_path: Path) -> None:
    with read(skewed(tmp_path, [0.0, 90.0], events=2)) as case:
        assert facts_of(case).skews == []
        assert max(event.ts for event in case.events) - min(event.ts for event in case.events) > 90 * NS


@given(st.datetimes(datetime(1980, 1, 2), datetime(2090, 12, 30)), st.integers(-80, 80))
@settings(max_examples=200, deadline=None)
def test_the_nearest_year_is_found(moment: datetime, days: int) -> None:
    at = int(moment.replace(tzinfo=UTC, microsecond=0).timestamp()) * NS
    near = moment + timedelta(days=days)
    stamp = parse_prefix(near.strftime("%b %e %H:%M:%S n7 kernel: x")).ts
    wanted = int(near.replace(tzinfo=UTC, microsecond=0).timestamp()) * NS
    assert nearest_year(stamp, at, 1 << 62) == wanted
    assert in_year(stamp, near.year) == wanted


def test_local_times_become_utc() -> None:
    from aiops.ingest.case_yaml import zone_named

    zone = zone_named("Europe/Berlin")
    assert zone is not None
    noon = parse_prefix("2026-07-01 12:00:00 x").ts
    assert iso(to_utc(noon, zone)) == "2026-07-01T10:00:00Z"
