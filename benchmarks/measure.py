"""CPU time and private memory of a child process, as the kernel counts them."""

from __future__ import annotations

import os
import subprocess
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Cost:
    """CPU seconds (user and system, with waited-for children), peak anonymous memory in MiB (mapped files left out) of the
    process with its children, and seconds on the clock."""

    cpu_s: float
    anon_mib: float
    code: int
    wall_s: float


def run(command: Sequence[str], env: dict[str, str] | None = None) -> Cost:
    """Run a command, its output thrown away; memory is sampled every 5 ms."""
    before = os.times()
    process = subprocess.Popen(
        command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env={**os.environ, **(env or {})}
    )
    peak = [0]
    began = time.monotonic()

    def watch() -> None:
        while process.poll() is None:
            peak[0] = max(peak[0], _anonymous_kib(process.pid))
            time.sleep(0.005)

    watcher = threading.Thread(target=watch)
    watcher.start()
    code = process.wait()
    watcher.join()
    after = os.times()
    return Cost(
        after.children_user - before.children_user + after.children_system - before.children_system,
        peak[0] / 1024,
        code,
        time.monotonic() - began,
    )


def _anonymous_kib(pid: int) -> int:
    """Anonymous memory of a process and all below it, 0 if it has ended."""
    total = 0
    try:
        with open(f"/proc/{pid}/status", encoding="ascii") as status:
            for line in status:
                if line.startswith("RssAnon:"):
                    total += int(line.split()[1])
        with open(f"/proc/{pid}/task/{pid}/children", encoding="ascii") as children:
            below = [int(child) for child in children.read().split()]
    except (OSError, ProcessLookupError):
        return total
    return total + sum(map(_anonymous_kib, below))
