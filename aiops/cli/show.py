"""Progress on stderr for long work, and what standard output can take."""

from __future__ import annotations

import contextlib
import os
import shutil
import sys
import time
from collections.abc import Iterator

from aiops.progress import Progress, silent

_QUIET_S = 1.0


@contextlib.contextmanager
def progress(*, quiet: bool = False) -> Iterator[Progress]:
    """A progress line on stderr once the work takes longer than a second; nothing if stderr is no terminal."""
    if quiet or not sys.stderr.isatty():
        yield silent
        return
    began = time.monotonic()
    last = [0.0]
    shown = [False]

    def show(stage: str, done: int, total: int) -> None:
        now = time.monotonic()
        if now - began < _QUIET_S or now - last[0] < 0.1:
            return
        last[0] = now
        shown[0] = True
        amount = f" {100 * done // total:3d} %" if total else f" {done}" if done else ""
        sys.stderr.write(f"\r\x1b[K{stage}{amount}")
        sys.stderr.flush()

    try:
        yield show
    finally:
        if shown[0]:
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()


def color_wanted() -> bool:
    """Colour only on a terminal, and never with ``NO_COLOR`` (https://no-color.org)."""
    return sys.stdout.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def unicode_wanted() -> bool:
    """True if standard output can carry more than ASCII."""
    return "utf" in (sys.stdout.encoding or "").lower()


def width() -> int:
    """Columns of the terminal, or 100 for a pipe."""
    return shutil.get_terminal_size((100, 24)).columns if sys.stdout.isatty() else 100


def write(text: str) -> None:
    """Text on standard output, in UTF-8 whatever the locale, with a newline at the end."""
    data = text if text.endswith("\n") else text + "\n"
    sys.stdout.flush()
    sys.stdout.buffer.write(data.encode("utf-8", "replace"))
    sys.stdout.buffer.flush()


def plain(text: str) -> str:
    """Text from the input without control characters, for messages on standard error."""
    return "".join(c if c.isprintable() else f"\\x{ord(c):02x}" for c in text)
