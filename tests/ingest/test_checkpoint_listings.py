"""Listings in the forms that operators paste: the same checkpoints, whichever command printed them."""

from __future__ import annotations

import datetime as dt
import string
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aiops.config import Settings, default_cache_dir
from aiops.ingest import open_case
from aiops.ingest.checkpoint_layout import find_checkpoints
from aiops.ingest.listing import read_listing
from aiops.model.case import Checkpoint
from aiops.model.clock import iso
from aiops.model.event import NO_TIME

STEPS = (1000, 1500)
MTIME = dt.datetime(2026, 6, 11, 3, 35, 4, tzinfo=dt.UTC)
FILES = (".metadata", "__0_0.distcp", "__1_0.distcp", "__2_0.distcp")
LOG = "2026-06-11 09:00:00,000 INFO [rank 0] step=1600 loss=2.1\n"


def rows() -> list[tuple[str, str, int]]:
    """(folder, file, size) of two complete checkpoints."""
    return [
        (f"iter_{step:07d}", name, 1_204_538 if name == ".metadata" else 1_610_670_191 + i)
        for step in STEPS
        for i, name in enumerate(FILES)
    ]


def ls_recursive(when: str) -> str:
    lines = ["/ckpt/run:", "total 12"]
    lines += [f"drwxr-xr-x 2 train ml 4096 {when} iter_{step:07d}" for step in STEPS]
    for step in STEPS:
        lines += ["", f"/ckpt/run/iter_{step:07d}:", "total 4718592"]
        lines += [
            f"-rw-r--r-- 1 train ml {size:>12} {when} {name}"
            for folder, name, size in rows()
            if folder.endswith(str(step))
        ]
    return "\n".join(lines)


def columns(form: str) -> str:
    return "\n".join(form.format(path=f"/ckpt/run/{folder}/{name}", size=size) for folder, name, size in rows())


def tree() -> str:
    lines = ["/ckpt/run"]
    for step in STEPS:
        lines.append(f"├── [       4096 Jun 11 03:35]  iter_{step:07d}")
        lines += [
            f"│   ├── [{size:>11} Jun 11 03:35]  {name}" for folder, name, size in rows() if folder.endswith(str(step))
        ]
    return "\n".join([*lines, "", "3 directories, 8 files"])


def stat() -> str:
    return "\n".join(
        f"  File: /ckpt/run/{folder}/{name}\n  Size: {size}\tBlocks: 8\tIO Block: 4096   regular file\n"
        "Modify: 2026-06-11 03:35:04.557771861 +0000\nChange: 2026-06-11 03:35:04.557771861 +0000"
        for folder, name, size in rows()
    )


FORMS = {
    "ls -lR --full-time": ls_recursive("2026-06-11 03:35:04.557771861 +0000"),
    "ls -lR --time-style=long-iso": ls_recursive("2026-06-11 03:35"),
    "ls -lR --time-style=+%s": ls_recursive("1781148904"),
    "ls -lR": ls_recursive("Jun 11 03:35"),
    "ls -lRT of a Mac": ls_recursive("Jun 11 03:35:04 2026"),
    "find -ls": columns("  1572871    4 -rw-r--r--   1 train    ml    {size:>12} Jun 11 03:35 {path}"),
    "find -printf %T@ %s %p": columns("1781148904.5577718610 {size} {path}"),
    "find -printf %s %TY-%Tm-%Td %TT %p": columns("{size} 2026-06-11 03:35:04.5577718610 {path}"),
    "stat -c %n %s %y": columns("{path} {size} 2026-06-11 03:35:04.557771861 +0000"),
    "stat": stat(),
    "tree -sD": tree(),
    "aws s3 ls": columns("2026-06-11 03:35:04 {size:>10} {path}"),
    "gsutil ls -l": columns("{size:>12}  2026-06-11T03:35:04Z  gs://bucket{path}"),
    "rclone lsl": columns("{size:>10} 2026-06-11 03:35:04.273341243 {path}"),
}


def read(tmp_path: Path, listing: str) -> list[Checkpoint]:
    (tmp_path / "paste.txt").write_text(listing + "\n", encoding="utf-8")
    (tmp_path / "train.log").write_text(LOG, encoding="utf-8")
    with open_case([tmp_path], Settings(cache_dir=default_cache_dir())) as case:
        assert case.coverage.problems == []
        return list(case.checkpoints)


@pytest.mark.parametrize("form", FORMS)
def test_every_form_shows_the_same_checkpoints(tmp_path: Path, form: str) -> None:
    found = read(tmp_path, FORMS[form])
    assert [(point.step, point.files, point.complete, point.size) for point in found] == [
        (step, 4, True, sum(size for folder, _, size in rows() if folder.endswith(str(step)))) for step in STEPS
    ]
    assert all(point.name.endswith(f"/ckpt/run/iter_{point.step:07d}") for point in found)
    for point in found:
        early = MTIME.timestamp() - point.saved_at / 1e9
        assert -1 <= early < max(1.0, point.within_s), iso(point.saved_at)


def test_du_knows_neither_bytes_nor_times(tmp_path: Path) -> None:
    found = read(tmp_path, columns("{size}\t{path}"))
    assert [(point.step, point.files, point.size, point.saved_at) for point in found] == [
        (1000, 4, None, NO_TIME),
        (1500, 4, None, NO_TIME),
    ]


def test_du_of_the_folders_shows_the_one_that_was_cut(tmp_path: Path) -> None:
    found = read(
        tmp_path, "$ du -sh /run/*\n44G\t/run/checkpoint-500\n44G\t/run/checkpoint-1000\n6.1G\t/run/checkpoint-1500"
    )
    assert [(point.step, point.complete) for point in found] == [(500, True), (1000, True), (1500, False)]


def test_case_yaml_may_say_that_it_is_a_listing(tmp_path: Path) -> None:
    (tmp_path / "case.yaml").write_text("version: 1\nfiles:\n  - {path: paste.txt, kind: listing}\n")
    noise = "\n".join(f"note {i} about this run" for i in range(60))
    assert [point.step for point in read(tmp_path, noise + "\n" + ls_recursive("2026-06-11 03:35"))] == list(STEPS)


def test_a_stamp_of_day_and_month_gets_the_year_before_the_end_of_the_case(tmp_path: Path) -> None:
    found = read(tmp_path, ls_recursive("Dec 30 23:59"))
    assert {iso(point.saved_at) for point in found} == {"2025-12-30T23:59:00Z"}


def test_zone_of_case_yaml_counts_for_listings(tmp_path: Path) -> None:
    (tmp_path / "case.yaml").write_text("version: 1\ntimezone: '+02:00'\n")
    found = read(tmp_path, ls_recursive("2026-06-11 05:35"))
    assert {iso(point.saved_at) for point in found} == {"2026-06-11T03:35:00Z"}


def test_a_console_capture_joins_paths_of_its_commands(tmp_path: Path) -> None:
    body = "\n".join(f"-rw-r--r-- 1 t m {9_000_000 + i} 2026-06-11 03:35 shard_{i:02}.pt" for i in range(3))
    text = (
        "$ ls -l --time-style=long-iso /ckpt/esm\ntotal 12\n"
        "drwxr-x--- 2 t m 4096 2026-06-11 03:35 step_011000\n-rw-r----- 1 t m 11 2026-06-11 03:36 latest\n"
        f"$ ls -l --time-style=long-iso step_011000\ntotal 8\n{body}\n$ cat latest\nstep_011000\n"
    )
    text = text.replace("total 8\n", "step_011000:\ntotal 8\n")
    (point,) = read(tmp_path, text)
    assert (point.name, point.files, point.complete) == ("/ckpt/esm/step_011000", 3, True)


def test_lists_of_other_files_are_no_checkpoints(tmp_path: Path) -> None:
    listing = "\n".join(f"crw-rw-rw- 1 root root 195, {i} Jun 11 03:35 /dev/nvidia{i}" for i in range(8))
    other = "\n".join(f"-rw-r--r-- 1 root root 4096 Jun 11 03:35 epoch_of_change_{i}.cfg" for i in range(8))
    assert read(tmp_path, f"{listing}\n{other}") == []


NAME = st.text(string.ascii_letters + string.digits + "._-", min_size=1, max_size=20).filter(
    lambda name: name.strip(".") and not name.startswith("-")
)
WHEN = st.datetimes(dt.datetime(2020, 1, 1), dt.datetime(2030, 1, 1))


@given(st.lists(st.tuples(NAME, st.integers(0, 1 << 50), WHEN), min_size=1, max_size=8, unique_by=lambda row: row[0]))
def test_name_size_and_time_come_back_from_ls(files: list[tuple[str, int, dt.datetime]]) -> None:
    text = "\n".join(
        f"-rw-r--r--+ 1 user group {size} {when:%Y-%m-%d %H:%M:%S}.{when.microsecond:06}000 +0100 {name}"
        for name, size, when in files
    )
    entries, other = read_listing(f"/data/x:\ntotal 5\n{text}\n".encode())
    assert other == 0
    assert [(entry.path, entry.size) for entry in entries] == [(f"/data/x/{name}", size) for name, size, _ in files]
    for entry, (_, _, when) in zip(entries, files, strict=True):
        expected = (when - dt.datetime(1970, 1, 1) - dt.timedelta(hours=1)) // dt.timedelta(microseconds=1)
        assert entry.mtime == expected * 1000


@given(st.binary(max_size=400) | st.text(max_size=400).map(lambda text: text.encode("utf-8", "surrogatepass")))
def test_any_bytes_are_read_without_a_crash(data: bytes) -> None:
    entries, other = read_listing(data)
    assert len(entries) + other <= data.count(b"\n") + 1
    find_checkpoints(entries)


PART = st.sampled_from(
    [
        "iter_0001000",
        "global_step5",
        "checkpoint-7",
        "tmp-checkpoint-7",
        "step-3.tmp",
        "__0_0.distcp",
        ".metadata",
        "a",
        "..",
        "",
        "latest",
        "epoch=1-step=9.ckpt",
        "iter_0000100_3_local.pt",
        "mp_rank_00_001",
        "model_optim_rng.pt",
        "x-unfinished",
        "1000",
        "_CHECKPOINT_METADATA",
    ]
)


@given(st.lists(st.lists(PART, min_size=1, max_size=5).map("/".join), max_size=12))
def test_each_file_belongs_to_one_checkpoint_above_it(paths: list[str]) -> None:
    text = "\n".join(f"-rw-r--r-- 1 u g 7 2026-06-11 03:35 {path}" for path in paths)
    entries, _ = read_listing(text.encode())
    owners: dict[int, str] = {}
    for item in find_checkpoints(entries):
        for entry in item.members.values():
            assert owners.setdefault(id(entry), item.root) == item.root
            assert item.single or entry.path.startswith(f"{item.root}/")
