"""Daemons that are started by a test and killed with everything that they started."""

from __future__ import annotations

import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterable
from pathlib import Path


def until(
    what: str, true: Callable[[], bool], seconds: float = 60.0, process: subprocess.Popen[bytes] | None = None
) -> None:
    """Poll until it is true.

    Raises:
        RuntimeError: it is not in time, or the process that is to bring it about has ended.
    """
    deadline = time.monotonic() + seconds
    while not true():
        if process is not None and process.poll() is not None:
            raise RuntimeError(f"{what}: the process ended with {process.returncode}")
        if time.monotonic() > deadline:
            raise RuntimeError(f"{what}: not within {seconds:.0f} s")
        threading.Event().wait(0.1)


def stop(process: subprocess.Popen[bytes], seconds: float = 20.0) -> None:
    """End one process, by force if it does not obey."""
    if process.poll() is None:
        process.terminate()
        try:
            process.wait(seconds)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def kill(pids: Iterable[int]) -> None:
    """Kill processes at once, as a loss of power does."""
    for pid in pids:
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            continue


def descendants(roots: Iterable[int]) -> list[int]:
    """The processes and all that they started."""
    children: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                parent = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
            except (OSError, IndexError):
                continue
            children.setdefault(parent, []).append(int(entry.name))
    found: list[int] = []
    waiting = list(roots)
    while waiting:
        found.append(waiting.pop())
        waiting += children.get(found[-1], [])
    return found


def listeners(folder: Path) -> list[int]:
    """Processes that listen on unix sockets below the folder: slurmstepd gives no other sign of its node."""
    inodes = set()
    for line in Path("/proc/net/unix").read_text().splitlines()[1:]:
        parts = line.split(maxsplit=7)
        if len(parts) == 8 and parts[7].startswith(f"{folder}/"):
            inodes.add(f"socket:[{parts[6]}]")
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and inodes:
            try:
                if any(os.readlink(fd) in inodes for fd in (entry / "fd").iterdir()):
                    found.append(int(entry.name))
            except OSError:
                continue
    return found
