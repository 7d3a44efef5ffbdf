"""Starts the Streamlit dashboard as a subprocess, on loopback unless told otherwise."""

from __future__ import annotations

import importlib.util
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import FrameType

from aiops.config import Settings
from aiops.errors import AiopsError, InputError
from aiops.loopback import is_loopback
from aiops.resources import resource

TOKEN_VARIABLE = "AIOPS_DASHBOARD_TOKEN"
"""Environment variable with the password that every browser must enter; required beyond loopback."""

MIN_TOKEN_LENGTH = 16

OPTIONS: dict[str, str] = {
    "browser.gatherUsageStats": "false",
    "client.showErrorDetails": "none",
    "client.showErrorLinks": "false",
    "client.toolbarMode": "viewer",
    "runner.magicEnabled": "false",
    "server.fileWatcherType": "none",
    "server.maxUploadSize": "1024",
    "server.showEmailPrompt": "false",
    "theme.codeFontSize": "0.8rem",
    "theme.baseRadius": "6px",
    "theme.light.primaryColor": "#2458c5",
    "theme.light.backgroundColor": "#ffffff",
    "theme.light.secondaryBackgroundColor": "#f5f6f8",
    "theme.light.textColor": "#1c2430",
    "theme.dark.primaryColor": "#7aa2ff",
    "theme.dark.backgroundColor": "#12161d",
    "theme.dark.secondaryBackgroundColor": "#1a202a",
    "theme.dark.textColor": "#e3e7ee",
}
"""What Streamlit is told, beside address and port; ``.streamlit/config.toml`` says the same to a bare
``streamlit run app.py`` in a checkout."""


def run(
    host: str = "127.0.0.1",
    port: int = 8501,
    open_browser: bool = False,
    *,
    paths: Sequence[str | Path] = (),
    max_upload_mb: int | None = None,
) -> int:
    """Serve the dashboard until it is interrupted; returns the exit code of the server (0 after an interrupt).

    Args:
        host: address to bind. Beyond loopback the variable ``AIOPS_DASHBOARD_TOKEN`` must hold a password.
        port: TCP port, 0 for any free one; the server prints the address.
        open_browser: also open the default browser.
        paths: bundles on this machine that the start page offers besides the bundled ones.
        max_upload_mb: size limit of one uploaded file in MiB.

    Raises:
        AiopsError: streamlit is not installed, the port is taken, or the host is not loopback and has no password.
        InputError: one of ``paths`` does not exist.
    """
    _require_streamlit()
    _require_token(host)
    _require_settings()
    offered = [_existing(path) for path in paths]
    command = build_command(host, _free_port(host, port), open_browser, paths=offered, max_upload_mb=max_upload_mb)
    return _serve(command, build_environment(host))


def build_command(
    host: str, port: int, open_browser: bool, *, paths: Sequence[Path] = (), max_upload_mb: int | None = None
) -> list[str]:
    """The command line of the server."""
    options = {
        "server.address": host,
        "server.port": str(port),
        "server.headless": "false" if open_browser else "true",
        "browser.serverAddress": host,
        **OPTIONS,
    }
    if max_upload_mb is not None:
        options["server.maxUploadSize"] = str(max_upload_mb)
    flags = [f"--{name}={value}" for name, value in options.items()]
    return [sys.executable, "-m", "streamlit", "run", str(resource("app.py")), *flags, "--", *map(str, paths)]


def build_environment(host: str) -> dict[str, str]:
    """Environment of the server.

    On loopback it accepts loopback names only, so that a foreign page whose name is rebound to 127.0.0.1 cannot reach
    a session. A variable, because releases before this option refuse it as a flag.
    """
    environment = dict(os.environ)
    if is_loopback(host):
        environment["STREAMLIT_SERVER_ALLOWED_HOSTS"] = f"localhost 127.0.0.1 ::1 {host}"
    return environment


def _require_streamlit() -> None:
    for name in ("streamlit", "altair"):
        if importlib.util.find_spec(name) is None:
            raise AiopsError(
                f"the dashboard needs {name}, which is not installed: install this package with its extra [ui] (see README)"
            )


def _require_token(host: str) -> None:
    token = os.environ.get(TOKEN_VARIABLE, "")
    if token and len(token) < MIN_TOKEN_LENGTH:
        raise AiopsError(f"{TOKEN_VARIABLE} is too short: use at least {MIN_TOKEN_LENGTH} characters")
    if not token and not is_loopback(host):
        raise AiopsError(
            f"refusing to serve {host} without a password: set {TOKEN_VARIABLE} "
            f"(at least {MIN_TOKEN_LENGTH} characters), or keep the default 127.0.0.1 and use an SSH tunnel"
        )


def _require_settings() -> None:
    try:
        Settings.from_environment()
    except ValueError as error:
        raise AiopsError(f"AIOPS_GPU_HOUR_PRICE is not a number: {error}") from error


def _existing(path: str | Path) -> Path:
    absolute = Path(path).absolute()
    if not absolute.exists():
        raise InputError("no such file or directory", path=str(path))
    return absolute


def _free_port(host: str, port: int) -> int:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError as error:
            raise AiopsError(f"cannot listen on {host}:{port}: {error.strerror}; choose another --port") from error
        return int(probe.getsockname()[1])


def _serve(command: Sequence[str], environment: Mapping[str, str]) -> int:
    """Run the server as a child; an interrupt or SIGTERM ends both."""
    in_main_thread = threading.current_thread() is threading.main_thread()
    asked_to_stop = False
    process = subprocess.Popen(command, stdin=subprocess.DEVNULL, env=environment)

    def stop(signum: int, frame: FrameType | None) -> None:
        nonlocal asked_to_stop
        asked_to_stop = True
        process.terminate()

    previous = signal.signal(signal.SIGTERM, stop) if in_main_thread else None
    try:
        code = process.wait()
    except KeyboardInterrupt:
        # Ctrl-C went to the whole process group; a signal to this process alone did not.
        asked_to_stop = True
        process.terminate()
        code = process.wait()
    finally:
        if previous is not None:
            signal.signal(signal.SIGTERM, previous)
    if asked_to_stop:
        return 0
    return code if code >= 0 else 128 - code
