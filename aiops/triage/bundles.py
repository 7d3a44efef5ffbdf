"""Which bundles a command line means, and how a bundle is recognised when it comes again.

- A file is one bundle.
- A directory with a ``truth.yaml`` and a directory ``bundle`` stands for that directory (a bundled incident).
- A directory that holds nothing but directories and archives is a collection: each of them is one bundle.
- Every other directory is one bundle.
"""

from __future__ import annotations

import gzip
import hashlib
import os
import re
import stat
import zipfile
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import zstandard

_SLUG = re.compile(r"[^A-Za-z0-9._-]+")
_TAR_MAGIC_AT = 257
_HEAD = 512


@dataclass(frozen=True, slots=True)
class Bundle:
    """One unit of work: a path, the name that people see, and an id that changes with the content."""

    name: str
    path: Path
    id: str
    """``<readable part>-<fingerprint>``; safe as a file name."""
    size: int
    """Bytes on disk, to start with the largest."""
    missing: bool = False


def find_bundles(paths: Sequence[Path], *, each: bool | None = None, salt: str = "") -> list[Bundle]:
    """The bundles that the paths mean, sorted by name, each once.

    Args:
        paths: files and directories. A path that does not exist gives a bundle that is ``missing``.
        each: ``True`` takes the children of every directory as bundles, ``False`` takes none, ``None`` decides by
            the rule of this module.
        salt: goes into every fingerprint, so that reports of other settings are not taken for current ones.
    """
    found: dict[Path, str] = {}
    for path in paths:
        for name, place in _expand(path, each):
            found.setdefault(Path(os.path.realpath(place)), name)
    bundles = [_bundle(name, place, salt) for place, name in found.items()]
    return sorted(bundles, key=lambda bundle: (bundle.name, str(bundle.path)))


def _expand(path: Path, each: bool | None) -> Iterator[tuple[str, Path]]:
    if not path.is_dir() or each is False:
        yield str(path), _inner(path)
        return
    try:
        children = sorted(child for child in path.iterdir() if not child.name.startswith("."))
    except OSError:  # the analysis says why it cannot be read
        children = []
    labelled = _inner(path) != path
    collection = bool(children) and all(child.is_dir() or _is_archive(child) for child in children)
    if each or (collection and not labelled):
        yield from ((str(child), _inner(child)) for child in children)
    else:
        yield str(path), _inner(path)


def _inner(path: Path) -> Path:
    inner = path / "bundle"
    return inner if (path / "truth.yaml").is_file() and inner.is_dir() else path


def _is_archive(path: Path) -> bool:
    """True for zip and for tar (plain, gzip or zstd), by content; a compressed log is none."""
    if not path.is_file():  # a pipe or a socket must not be opened
        return False
    try:
        return zipfile.is_zipfile(path) or _head(path)[_TAR_MAGIC_AT : _TAR_MAGIC_AT + 5] == b"ustar"
    except (OSError, EOFError, zlib.error, zstandard.ZstdError):
        return False


def _head(path: Path) -> bytes:
    """The first bytes of a file, decompressed if it is compressed."""
    with path.open("rb") as handle:
        magic = handle.read(4)
        handle.seek(0)
        if magic == b"\x28\xb5\x2f\xfd":
            with zstandard.ZstdDecompressor().stream_reader(handle) as plain:
                return plain.read(_HEAD)
        if magic[:2] == b"\x1f\x8b":
            with gzip.open(handle) as plain:
                return plain.read(_HEAD)
        return handle.read(_HEAD)


def _bundle(name: str, path: Path, salt: str) -> Bundle:
    digest = hashlib.blake2b(f"{salt}\0{path}\0".encode("utf-8", "surrogateescape"), digest_size=10)
    size = 0
    missing = not os.path.lexists(path)
    for relative, status in _stats(path):
        digest.update(os.fsencode(relative))
        digest.update(f"\0{status.st_mode}\0{status.st_size}\0{status.st_mtime_ns}\0".encode())
        size += status.st_size
    readable = _SLUG.sub("-", name).strip("-.")[-60:].strip("-.") or "bundle"
    return Bundle(name=name, path=path, id=f"{readable}-{digest.hexdigest()}", size=size, missing=missing)


def _stats(path: Path) -> Iterator[tuple[str, os.stat_result]]:
    """Every file below a path in a fixed order; links are not followed."""
    try:
        status = path.lstat()
    except OSError:
        return
    if not stat.S_ISDIR(status.st_mode):
        yield "", status
        return
    for base, folders, files in os.walk(path):
        folders.sort()
        for name in sorted(files):
            place = os.path.join(base, name)
            try:
                yield os.path.relpath(place, path), os.lstat(place)
            except OSError:  # removed while we look; the analysis will say what is missing
                continue
