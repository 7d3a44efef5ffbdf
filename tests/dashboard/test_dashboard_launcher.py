"""The launcher: loopback by default, a password beyond it, plain errors, one truth about the options."""

from __future__ import annotations

import importlib.util
import os
import signal
import socket
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from dashboard_server import LAUNCH, free_port, wait_healthy

from aiops import dashboard as launcher
from aiops.errors import AiopsError, InputError
from aiops.loopback import is_loopback


def options(command: list[str]) -> dict[str, str]:
    return dict(part[2:].split("=", 1) for part in command[: command.index("--")] if part.startswith("--"))


def test_loopback_headless_and_quiet_by_default() -> None:
    told = options(launcher.build_command("127.0.0.1", 8501, False))
    assert told["server.address"] == "127.0.0.1"
    assert told["server.headless"] == "true"
    assert told["browser.gatherUsageStats"] == "false"
    assert told["server.fileWatcherType"] == "none"
    assert told["client.showErrorDetails"] == "none"
    assert int(told["server.maxUploadSize"]) > 0


def test_a_checkout_without_the_launcher_is_told_the_same(root: Path) -> None:
    config = tomllib.loads((root / ".streamlit" / "config.toml").read_text())
    flat: dict[str, str] = {}

    def flatten(table: dict, prefix: str) -> None:
        for key, value in table.items():
            if isinstance(value, dict):
                flatten(value, f"{prefix}{key}.")
            else:
                flat[prefix + key] = str(value).lower() if isinstance(value, bool) else str(value)

    flatten(config, "")
    assert flat.pop("server.address") == "127.0.0.1"
    assert flat == launcher.OPTIONS


@pytest.mark.parametrize("host", ["127.0.0.1", "127.9.9.9", "::1", "localhost"])
def test_loopback(host: str) -> None:
    assert is_loopback(host)


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "10.0.0.1", "node1", ""])
def test_not_loopback(host: str) -> None:
    assert not is_loopback(host)


def test_no_other_address_without_a_password(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(launcher.TOKEN_VARIABLE, raising=False)
    with pytest.raises(AiopsError, match=launcher.TOKEN_VARIABLE):
        launcher.run("0.0.0.0", 0)
    monkeypatch.setenv(launcher.TOKEN_VARIABLE, "short")
    with pytest.raises(AiopsError, match="too short"):
        launcher.run("127.0.0.1", 0)


def test_missing_streamlit_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(AiopsError, match=r"extra \[ui\]"):
        launcher.run()


def test_taken_port_and_missing_path(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        with pytest.raises(AiopsError, match="choose another --port"):
            launcher.run(port=taken.getsockname()[1])
    with pytest.raises(InputError, match="no-such-case"):
        launcher.run(paths=[tmp_path / "no-such-case"])


def test_sigterm_ends_launcher_and_server(tmp_path: Path) -> None:
    port = free_port()
    with open(tmp_path / "log", "wb") as log:
        process = subprocess.Popen(
            [sys.executable, "-c", LAUNCH, str(port)],
            stdout=log,
            stderr=log,
            cwd=tmp_path,
            env={**os.environ, "HOME": str(tmp_path)},
        )
        wait_healthy(f"http://127.0.0.1:{port}", process)
        children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
        process.send_signal(signal.SIGTERM)
        assert process.wait(30) == 0
    assert children and not any(Path(f"/proc/{child}").exists() for child in children)


@pytest.mark.parametrize(
    "host, origin, status",
    [
        ("127.0.0.1:{port}", "http://127.0.0.1:{port}", b"101"),
        ("evil.example:{port}", "http://evil.example:{port}", b"403"),
        ("127.0.0.1:{port}", "http://evil.example", b"403"),
    ],
)
def test_foreign_pages_get_no_session(dashboard: str, host: str, origin: str, status: bytes) -> None:
    port = dashboard.rsplit(":", 1)[1]
    with socket.create_connection(("127.0.0.1", int(port)), timeout=10) as connection:
        connection.sendall(
            f"GET /_stcore/stream HTTP/1.1\r\nHost: {host.format(port=port)}\r\nOrigin: {origin.format(port=port)}\r\n"
            "Upgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n"
            "Sec-WebSocket-Version: 13\r\nSec-WebSocket-Protocol: streamlit\r\n\r\n".encode()
        )
        assert connection.recv(100).split()[1] == status
