"""A cache that cannot be written leaves nothing behind."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from aiops.scan.cache import write_atomically


def test_what_is_written_is_there(tmp_path: Path) -> None:
    write_atomically(tmp_path / "deep" / "rules.json", b"x")
    assert [(path.name, path.read_bytes()) for path in (tmp_path / "deep").iterdir()] == [("rules.json", b"x")]


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs the device that is always full")
def test_a_full_disk_leaves_no_half_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    opened = os.fdopen

    def full(handle: int, mode: str):
        os.close(handle)
        return opened(os.open("/dev/full", os.O_WRONLY), mode)

    monkeypatch.setattr("aiops.scan.cache.os.fdopen", full)
    write_atomically(tmp_path / "rules.json", b"x" * 100)
    assert list(tmp_path.iterdir()) == []


def test_a_name_that_is_taken_leaves_no_half_file(tmp_path: Path) -> None:
    (tmp_path / "rules.json").mkdir()
    write_atomically(tmp_path / "rules.json", b"x")
    assert [path.name for path in tmp_path.iterdir()] == ["rules.json"]
