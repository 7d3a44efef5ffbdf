"""A case directory that appears whole or not at all."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from aiops.errors import InputError

MANIFEST = "collected.json"
SCHEMA = "aiops.collected/v1"
"""Value of the manifest's first key; ``ingest`` knows a manifest by it and takes it for no evidence."""


@contextmanager
def case_directory(out: Path) -> Iterator[Path]:
    """A temporary directory beside ``out`` that replaces it when the block ends without an error.

    Raises:
        InputError: ``out`` is not a directory, or holds files that no earlier collection wrote.
    """
    out = Path(os.path.abspath(out))
    refuse_foreign(out)
    out.parent.mkdir(parents=True, exist_ok=True)
    work = Path(tempfile.mkdtemp(prefix=f".{out.name}.", suffix=".part", dir=out.parent))
    try:
        os.chmod(work, 0o777 & ~_umask())
        yield work
        _replace(work, out)
    finally:
        shutil.rmtree(work, ignore_errors=True)


def refuse_foreign(out: Path) -> None:
    """Raise if something would be lost by writing to ``out``.

    Raises:
        InputError: see `case_directory`.
    """
    if not out.exists():
        return
    if not out.is_dir():
        raise InputError("exists and is not a directory", path=str(out))
    held = {str(path.relative_to(out)) for path in out.rglob("*") if not path.is_dir() or path.is_symlink()}
    if not held:
        return
    ours = set(_listed(out / MANIFEST)) | {MANIFEST}
    foreign = sorted(held - ours)
    if MANIFEST not in held or foreign:
        raise InputError(
            f"is not empty and holds files that were not collected by aiops (for example {foreign[0]}); "
            "choose another directory"
            if foreign
            else "is not empty",
            path=str(out),
        )


def write_manifest(folder: Path, manifest: Mapping[str, Any]) -> None:
    """Write the manifest last; it lists every other file of the directory."""
    import orjson

    files = sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())
    body = {"schema": SCHEMA, **manifest, "files": files}
    (folder / MANIFEST).write_bytes(orjson.dumps(body, option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE))


def _listed(manifest: Path) -> list[str]:
    import orjson

    try:
        body = orjson.loads(manifest.read_bytes())
    except (OSError, ValueError):
        return []
    known = isinstance(body, dict) and str(body.get("schema", "")).startswith("aiops.collected/")
    return [name for name in body.get("files", ()) if isinstance(name, str)] if known else []


def _replace(work: Path, out: Path) -> None:
    if not out.exists():
        os.rename(work, out)
        return
    old = Path(tempfile.mkdtemp(prefix=f".{out.name}.", suffix=".old", dir=out.parent))
    os.rename(out, old / out.name)
    try:
        os.rename(work, out)
    except OSError:
        os.rename(old / out.name, out)
        raise
    finally:
        shutil.rmtree(old, ignore_errors=True)


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
