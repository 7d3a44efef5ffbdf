"""Files that only save time."""

from __future__ import annotations

import contextlib
import os
import tempfile
from pathlib import Path


def write_atomically(path: Path, data: bytes) -> None:
    """A cache that cannot be written costs time, not the answer."""
    with contextlib.suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=".rules-")
        try:
            with os.fdopen(handle, "wb") as out:
                out.write(data)
            os.replace(name, path)
        except OSError:
            # on a full disk the half-written file would stay and take what little space is left
            os.unlink(name)
