"""A case directory appears whole or not at all, and never over files of others."""

from __future__ import annotations

from pathlib import Path

import pytest

from aiops.errors import InputError
from aiops.sources.casedir import case_directory, write_manifest


def write(out: Path, text: str) -> None:
    with case_directory(out) as folder:
        (folder / "a.json").write_text(text)
        write_manifest(folder, {"source": "test"})


def test_it_appears_only_when_it_is_whole(tmp_path: Path) -> None:
    out = tmp_path / "deep" / "case"
    with case_directory(out) as folder:
        (folder / "a.json").write_text("1")
        assert not out.exists()
        write_manifest(folder, {})
    assert sorted(p.name for p in out.iterdir()) == ["a.json", "collected.json"]
    assert out.stat().st_mode & 0o077 == 0o055  # like any directory made under this umask


def test_an_error_keeps_what_was_there(tmp_path: Path) -> None:
    write(tmp_path / "case", "old")
    with pytest.raises(KeyboardInterrupt), case_directory(tmp_path / "case") as folder:
        (folder / "a.json").write_text("half")
        raise KeyboardInterrupt
    assert (tmp_path / "case" / "a.json").read_text() == "old"
    assert [p.name for p in tmp_path.iterdir()] == ["case"]


def test_an_earlier_collection_is_replaced(tmp_path: Path) -> None:
    write(tmp_path / "case", "old")
    write(tmp_path / "case", "new")
    assert (tmp_path / "case" / "a.json").read_text() == "new"


def test_an_empty_directory_is_used(tmp_path: Path) -> None:
    (tmp_path / "case").mkdir()
    write(tmp_path / "case", "new")
    assert (tmp_path / "case" / "a.json").read_text() == "new"


@pytest.mark.parametrize("manifest", [None, "{}", '{"schema":"other","files":["kern.log"]}', "not json"])
def test_other_directories_are_refused(tmp_path: Path, manifest: str | None) -> None:
    out = tmp_path / "case"
    out.mkdir()
    (out / "kern.log").write_text("mine")
    if manifest is not None:
        (out / "collected.json").write_text(manifest)
    with pytest.raises(InputError, match="not empty"):
        write(out, "new")
    assert (out / "kern.log").read_text() == "mine"


def test_a_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "case").write_text("mine")
    with pytest.raises(InputError, match="not a directory"):
        write(tmp_path / "case", "new")
