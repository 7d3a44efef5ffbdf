"""The built wheel is whole outside the checkout: catalog, prompts, dashboards and the bundled incidents are in it."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
import time
import urllib.request
import zipfile
from pathlib import Path

import pytest


@pytest.fixture(scope="module")
def installed(root: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory that holds the unpacked wheel and nothing of the checkout; built without network."""
    base = tmp_path_factory.mktemp("wheel")
    source = base / "source"
    keep = (".git", ".venv", "out", "dist", ".mypy_cache", ".ruff_cache", ".pytest_cache", "__pycache__", ".hypothesis")
    shutil.copytree(root, source, ignore=shutil.ignore_patterns(*keep))
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(base / "dist")],
        cwd=source,
        check=True,
        capture_output=True,
    )
    [wheel] = (base / "dist").glob("aiops-*.whl")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(base / "site")
    shutil.rmtree(source)
    return base / "site"


def run(installed: Path, *args: str) -> subprocess.CompletedProcess[bytes]:
    env = {**os.environ, "PYTHONPATH": str(installed), "NO_COLOR": "1"}
    return subprocess.run(
        [sys.executable, "-m", "aiops", *args],
        cwd=installed.parent,
        env=env,
        capture_output=True,
        check=False,
        timeout=120,
    )


def test_the_bundled_incident_is_found_and_judged(installed: Path) -> None:
    code = "import aiops, aiops.resources as r; print(aiops.__file__); print(r.resource('fixtures') / 'xid79-slurm' / 'bundle')"
    where = subprocess.run(
        [sys.executable, "-c", code],
        cwd=installed.parent,
        env={**os.environ, "PYTHONPATH": str(installed)},
        capture_output=True,
        text=True,
        check=True,
    ).stdout.split()
    assert all(Path(path).is_relative_to(installed) for path in where)
    result = run(installed, "analyze", where[1], "--format", "json")
    assert result.returncode == 10, result.stderr.decode()
    assert json.loads(result.stdout)["incidents"][0]["failure_class"] == "gpu.off_bus"


def test_catalog_and_prompts_are_in_it(installed: Path) -> None:
    assert run(installed, "catalog", "lint").returncode == 0
    assert (installed / "aiops" / "bundled" / "prompts" / "narrative.md").is_file()
    assert (installed / "aiops" / "catalog" / "xid.csv").is_file()


def test_the_dashboard_starts(installed: Path) -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    env = {**os.environ, "PYTHONPATH": str(installed)}
    server = subprocess.Popen(
        [sys.executable, "-m", "aiops", "dashboard", "--port", str(port)],
        cwd=installed.parent,
        env=env,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
    )
    try:
        deadline = time.monotonic() + 60
        answer = b""
        while time.monotonic() < deadline and server.poll() is None and answer != b"ok":
            try:
                with urllib.request.urlopen(f"http://127.0.0.1:{port}/_stcore/health", timeout=5) as response:
                    answer = response.read()
            except OSError:
                time.sleep(0.2)  # poll until the server listens
        assert answer == b"ok"
    finally:
        server.terminate()
        server.communicate(timeout=30)
