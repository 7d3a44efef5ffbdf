"""Starting the dashboard as a user would, and waiting for it."""

from __future__ import annotations

import socket
import subprocess
import threading
import time
import urllib.request

import pytest

LAUNCH = "import sys; from aiops.dashboard import run; sys.exit(run(port=int(sys.argv[1]), paths=sys.argv[2:]))"
"""A Python command: port, then paths to offer."""


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def wait_healthy(url: str, process: subprocess.Popen[bytes], deadline_s: float = 60) -> None:
    """Poll until the server answers; fail at once if it has died."""
    end = time.monotonic() + deadline_s
    pause = threading.Event()
    while time.monotonic() < end:
        if process.poll() is not None:
            pytest.fail(f"the server ended with {process.returncode}")
        try:
            with urllib.request.urlopen(f"{url}/_stcore/health", timeout=2) as answer:
                if answer.read() == b"ok":
                    return
        except OSError:
            pause.wait(0.05)
    pytest.fail(f"the server did not answer within {deadline_s} s")
