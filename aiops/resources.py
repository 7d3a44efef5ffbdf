"""Where the files beside the package are: in a checkout at its root, in a wheel below ``aiops/bundled``."""

from __future__ import annotations

from pathlib import Path

from aiops.errors import AiopsError

_PACKAGE = Path(__file__).resolve().parent


def resource(name: str) -> Path:
    """Path of ``app.py``, ``dashboards``, ``prompts`` or ``fixtures`` (or something below them).

    Raises:
        AiopsError: the installation is not whole.
    """
    for base in (_PACKAGE / "bundled", _PACKAGE.parent):
        path = base / name
        if path.exists():
            return path
    raise AiopsError(f"the installation lacks {name!r}; reinstall aiops")


def catalog_dir() -> Path:
    """Directory of the built-in catalog."""
    return _PACKAGE / "catalog"
