"""Uploads become files under names of our choice, in a private directory that does not outlive their reading."""

from __future__ import annotations

import os
import re
import shutil
import tempfile
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, Protocol

from aiops.errors import InputError

_NOT_SAFE = re.compile(r"[^\w.+=@,-]+", re.ASCII)
_MAX_NAME = 100
_MAX_DEPTH = 12


class Upload(Protocol):
    """What is used of Streamlit's ``UploadedFile``: a name, and bytes to read."""

    name: str

    def read(self, size: int = -1, /) -> bytes: ...

    def seek(self, offset: int, /) -> int: ...


@contextmanager
def stored(uploads: Iterable[Upload]) -> Iterator[tuple[Path, list[Path]]]:
    """Write uploads below a private directory (mode 0700); gives it and the files, and removes all at the end.

    Raises:
        InputError: there is no room for them.
    """
    with tempfile.TemporaryDirectory(prefix="aiops-upload-") as name:
        root = Path(name)
        try:
            files = [_store(upload, root) for upload in uploads]
        except OSError as error:
            raise InputError(f"it cannot be stored: {error.strerror}") from error
        yield root, files


def safe_parts(name: str) -> list[str]:
    """Components of a relative path that stays below its directory, whatever the name says."""
    parts = []
    for part in unicodedata.normalize("NFKD", name).replace("\\", "/").split("/"):
        clean = _NOT_SAFE.sub("_", part).lstrip(".-_")
        if clean:
            parts.append(clean[-_MAX_NAME:].lstrip(".-_") or "_")
    return parts[-_MAX_DEPTH:] or ["unnamed"]


def entry_points(root: Path, files: Sequence[Path]) -> list[Path]:
    """What to hand to the analysis: the directory if there are several files, so that names stay relative to it."""
    return [root] if len(files) != 1 else list(files)


def _store(upload: Upload, root: Path) -> Path:
    *folders, name = safe_parts(upload.name)
    directory = root.joinpath(*folders)
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    for attempt in range(1, 100_000):
        path = directory / (name if attempt == 1 else f"{attempt}-{name}")
        try:
            with _create(path) as handle:
                shutil.copyfileobj(upload, handle, 1 << 20)
        except FileExistsError:
            continue
        return path
    raise FileExistsError(f"too many files named {name!r}")


def _create(path: Path) -> BinaryIO:
    return os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600), "wb")
