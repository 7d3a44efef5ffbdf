"""The YAML files of a catalog as values. Parsing YAML costs more than all else about a catalog, so the values are kept as JSON."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import orjson

from aiops.errors import CatalogError


def read_documents(paths: Sequence[Path], cache_dir: Path | None = None) -> list[Any]:
    """The value of each file, ``None`` for an empty one. Files whose bytes have been read before come from ``cache_dir``.

    Raises:
        CatalogError: a file is not readable as YAML; the message names it.
    """
    contents = [_bytes(path) for path in paths]
    kept = None
    if cache_dir is not None:
        digests = [hashlib.sha256(content).digest() for content in contents]
        kept = cache_dir / f"catalog-{hashlib.sha256(b''.join(digests)).hexdigest()[:32]}.json"
        values = _from_cache(kept)
        if values is not None and len(values) == len(paths):
            return values
    values = [_parsed(path, content) for path, content in zip(paths, contents, strict=True)]
    if kept is not None:
        _keep(kept, values)
    return values


def _bytes(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise CatalogError(f"{path}: not readable as YAML: {error}") from error


def _parsed(path: Path, content: bytes) -> Any:
    import yaml

    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    try:
        return yaml.load(content.decode("utf-8"), Loader=loader)
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise CatalogError(f"{path}: not readable as YAML: {error}") from error


def _from_cache(path: Path) -> list[Any] | None:
    try:
        found = orjson.loads(path.read_bytes())
    except (OSError, orjson.JSONDecodeError):
        return None
    return found if isinstance(found, list) else None


def _keep(path: Path, values: list[Any]) -> None:
    """Dates, other keys than text and numbers beyond 64 bits have no JSON of their own: such files are parsed each time."""
    try:
        text = orjson.dumps(values, option=orjson.OPT_PASSTHROUGH_DATETIME | orjson.OPT_PASSTHROUGH_SUBCLASS)
    except TypeError:
        return
    if _same(orjson.loads(text), values):
        from aiops.scan.cache import write_atomically

        write_atomically(path, text)


def _same(one: Any, other: Any) -> bool:
    """Equal in types too: ``1``, ``1.0`` and ``True`` are not the same."""
    if type(one) is not type(other):
        return False
    if isinstance(one, dict):
        return list(one) == list(other) and all(_same(one[key], other[key]) for key in one)
    if isinstance(one, list):
        return len(one) == len(other) and all(map(_same, one, other))
    return bool(one == other)
