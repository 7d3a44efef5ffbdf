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
    """CPU seconds (user and system, with waited-for children) and peak anonymous memory in MiB (mapped files left out)."""

    cpu_s: float
    anon_mib: float
    code: int


def run(command: Sequence[str], env: dict[str, str] | None = None) -> Cost:
    """Run a command, its output thrown away; memory is sampled every 5 ms."""
    before = os.times()
    process = subprocess.Popen(
        command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env={**os.environ, **(env or {})}
    )
    peak = [0]

    def watch() -> None:
        while process.poll() is None:
            try:
                with open(f"/proc/{process.pid}/status", encoding="ascii") as status:
                    for line in status:
                        if line.startswith("RssAnon:"):
                            peak[0] = max(peak[0], int(line.split()[1]))
            except (OSError, ProcessLookupError):
                return
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
    )
