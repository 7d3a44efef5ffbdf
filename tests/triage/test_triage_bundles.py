"""Which bundles a path means."""

from __future__ import annotations

import gzip
import io
import os
import tarfile
import time
import zipfile
from pathlib import Path

import pytest
import zstandard

from aiops.triage import find_bundles


def names(*paths: Path, each: bool | None = None) -> list[str]:
    return [Path(bundle.name).name for bundle in find_bundles(list(paths), each=each)]


def write(path: Path, text: str = "x\n") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def archive(path: Path, how: str) -> Path:
    plain = io.BytesIO()
    with tarfile.open(fileobj=plain, mode="w") as tar:
        tar.addfile(tarfile.TarInfo("train.log"))
    path.parent.mkdir(parents=True, exist_ok=True)
    if how == "zip":
        with zipfile.ZipFile(path, "w") as file:
            file.writestr("train.log", "x")
    else:
        pack = {"tar": bytes, "gzip": gzip.compress, "zstd": zstandard.ZstdCompressor().compress}[how]
        path.write_bytes(pack(plain.getvalue()))
    return path


def test_directory_with_loose_files_is_one_bundle(tmp_path: Path) -> None:
    write(tmp_path / "train.log")
    write(tmp_path / "kernel" / "n1.log")
    assert names(tmp_path) == [tmp_path.name]
    assert names(tmp_path, each=True) == ["kernel", "train.log"]


@pytest.mark.parametrize("how", ["tar", "gzip", "zstd", "zip"])
def test_directory_of_directories_and_archives_is_a_collection(tmp_path: Path, how: str) -> None:
    write(tmp_path / "a" / "train.log")
    archive(tmp_path / "b.whatever", how)
    assert names(tmp_path) == ["a", "b.whatever"]
    assert names(tmp_path, each=False) == [tmp_path.name]


def test_compressed_log_is_a_loose_file(tmp_path: Path) -> None:
    (tmp_path / "train.log.gz").write_bytes(gzip.compress(b"iteration 1\n" * 99))
    write(tmp_path / "kernel" / "n1.log")
    assert names(tmp_path) == [tmp_path.name]


def test_bundled_incident_stands_for_its_bundle(tmp_path: Path) -> None:
    write(tmp_path / "case" / "truth.yaml")
    write(tmp_path / "case" / "bundle" / "train.log")
    for path in (tmp_path, tmp_path / "case"):
        (bundle,) = find_bundles([path])
        assert (Path(bundle.name).name, bundle.path.name) == ("case", "bundle")


def test_same_bundle_named_twice_counts_once(tmp_path: Path) -> None:
    write(tmp_path / "a" / "train.log")
    (tmp_path / "link").symlink_to(tmp_path / "a")
    assert len(find_bundles([tmp_path / "a", tmp_path / "link", tmp_path / "a" / ".." / "a"])) == 1


def test_id_changes_with_content_and_settings_and_with_nothing_else(tmp_path: Path) -> None:
    log = write(tmp_path / "a" / "deep" / "train.log")
    first = find_bundles([tmp_path / "a"])[0].id
    assert find_bundles([tmp_path / "a"])[0].id == first
    assert find_bundles([tmp_path / "a"], salt="other")[0].id != first
    os.utime(log, ns=(time.time_ns(), log.stat().st_mtime_ns + 1_000_000))
    touched = find_bundles([tmp_path / "a"])[0].id
    write(tmp_path / "a" / "deep" / "more.log")
    assert len({first, touched, find_bundles([tmp_path / "a"])[0].id}) == 3


def test_hostile_names_give_safe_ids(tmp_path: Path) -> None:
    bad = os.fsdecode(os.fsencode(tmp_path) + b"/..;rm -rf $HOME \xff\n")
    os.mkdir(bad)
    write(Path(bad) / "train.log")
    (bundle,) = find_bundles([Path(bad)])
    assert bundle.id.isascii() and not set(bundle.id) & set("/;$ \n") and not bundle.id.startswith(".")


def test_special_files_are_not_opened(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    assert names(tmp_path) == [tmp_path.name]
    assert names(tmp_path, each=True) == ["loop", "pipe"]
