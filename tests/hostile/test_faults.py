"""A machine that fails in the middle: full disks, closed outputs, files that go away, kills. A sentence, never a traceback."""

from __future__ import annotations

import json
import os
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

XID = "Aug  1 08:00:01 gx-n7 kernel: NVRM: Xid (PCI:0000:3b:00): 79, pid=4242, GPU has fallen off the bus.\n"
Run = Callable[..., "subprocess.CompletedProcess[bytes]"]


@pytest.fixture
def log(tmp_path: Path) -> Path:
    path = tmp_path / "kern.log"
    path.write_text(XID)
    return path


def analyze(
    log: Path | str, *options: object, command: str = "analyze", **process: object
) -> subprocess.CompletedProcess[bytes]:
    process.setdefault("stdout", subprocess.PIPE)
    process.setdefault("stderr", subprocess.PIPE)
    words = [sys.executable, "-m", "aiops", command, str(log), *map(str, options)]
    return subprocess.run(words, timeout=120, check=False, **process)  # type: ignore[call-overload, no-any-return]


def sentence(result: subprocess.CompletedProcess[bytes]) -> str:
    """The one line that an error of the system is told in."""
    text = result.stderr.decode()
    assert result.returncode == 2, text
    assert text.startswith("aiops: ") and text.count("\n") == 1, text
    return text


def small_files() -> None:
    """As a full disk: no file grows beyond 8 KB."""
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (8 << 10, 8 << 10))


def test_no_room_for_what_comes_through_a_pipe() -> None:
    result = analyze("-", input=XID.encode() * 10_000, preexec_fn=small_files)
    assert result.returncode in (2, 10)
    assert b"Traceback" not in result.stderr
    assert b"File too large" in result.stderr + result.stdout


def test_no_room_for_the_scanner_cache_costs_time_only(log: Path, tmp_path: Path) -> None:
    env = {**os.environ, "AIOPS_CACHE_DIR": str(tmp_path / "cache")}
    result = analyze(log, "--format", "json", preexec_fn=small_files, env=env)
    assert result.returncode == 10
    assert json.loads(result.stdout)["incidents"][0]["failure_class"] == "gpu.off_bus"


def test_a_home_that_cannot_be_written(log: Path) -> None:
    env = {key: value for key, value in os.environ.items() if key not in ("AIOPS_CACHE_DIR", "XDG_CACHE_HOME")}
    result = analyze(log, env={**env, "HOME": "/proc"})
    assert result.returncode == 10 and b"fallen off the bus" in result.stdout


def test_a_damaged_scanner_cache_is_made_again(log: Path, tmp_path: Path) -> None:
    env = {**os.environ, "AIOPS_CACHE_DIR": str(tmp_path / "cache")}
    assert analyze(log, env=env).returncode == 10
    for path in (tmp_path / "cache").rglob("*"):
        if path.is_file():
            path.write_bytes(path.read_bytes()[:5000])
    assert analyze(log, env=env).returncode == 10


def test_a_full_output(log: Path) -> None:
    with open("/dev/full", "w") as full:
        assert "No space left on device" in sentence(analyze(log, stdout=full))


@pytest.mark.parametrize("option", ["--out", "--html"])
def test_an_output_file_that_cannot_be_written(log: Path, tmp_path: Path, option: str) -> None:
    assert "Is a directory" in sentence(analyze(log, option, tmp_path))
    assert "cannot be written" in sentence(analyze(log, option, "/proc/nowhere/x"))
    assert "File too large" in sentence(
        analyze(log, "--format", "html", option, tmp_path / "x", preexec_fn=small_files)
    )


@pytest.mark.parametrize("closed", [">&-", ">&- 2>&- <&-"])
def test_streams_that_are_closed(log: Path, closed: str) -> None:
    line = f'exec "$0" -m aiops analyze "$1" {closed}'
    result = subprocess.run(["sh", "-c", line, sys.executable, str(log)], capture_output=True, timeout=120, check=False)
    assert result.returncode == 10, result.stderr.decode()
    assert b"Traceback" not in result.stderr


@pytest.mark.parametrize(
    ("name", "value"), [("AIOPS_GPU_HOUR_PRICE", v) for v in ("abc", "nan")] + [("AIOPS_ENGINE", "magic")]
)
def test_settings_that_make_no_sense(log: Path, name: str, value: str) -> None:
    assert value in sentence(analyze(log, env={**os.environ, name: value}))


def test_names_that_are_no_text(aiops: Run, tmp_path: Path) -> None:
    folder = os.fsencode(tmp_path)
    names = [b"\xff\xfe.log", b"a\nb.log", "\u202eevil.log".encode(), b"<script>x.log", b"$(reboot).log", b"-rf"]
    for number, name in enumerate(names):
        with open(folder + b"/" + name, "wb") as out:
            out.write(XID.replace("4242", str(number)).encode())
    for form in ("json", "text", "md", "html", "slack"):
        result = aiops("analyze", tmp_path, "--format", form)
        assert result.returncode == 10, result.stderr.decode()
        result.stdout.decode("utf-8")
        assert b"<script>x" not in result.stdout or form not in ("html", "slack")
    sources = json.loads(aiops("analyze", tmp_path, "--format", "json").stdout)["coverage"]["sources"]
    assert {source["name"] for source in sources} >= {"\\xff\\xfe.log", "a\nb.log", "-rf"}


def test_a_terminated_analysis_leaves_nothing_behind(tmp_path: Path) -> None:
    """SIGTERM (a job's time limit, ``docker stop``) while an archive is being unpacked from a pipe."""
    spool = tmp_path / "spool"
    spool.mkdir()
    process = subprocess.Popen(
        [sys.executable, "-m", "aiops", "analyze", "-"], stdin=subprocess.PIPE, env={**os.environ, "TMPDIR": str(spool)}
    )
    assert process.stdin is not None
    process.stdin.write(XID.encode())
    process.stdin.flush()
    deadline = time.monotonic() + 60
    while not (
        list(spool.iterdir()) and Path(f"/proc/{process.pid}/stat").read_text().rsplit(")", 1)[1].split()[0] == "S"
    ):
        assert process.poll() is None and time.monotonic() < deadline
    process.terminate()
    assert process.wait(60) == 128 + signal.SIGTERM
    assert not list(spool.iterdir())
    process.stdin.close()


def test_a_damaged_report_is_made_again(root: Path, tmp_path: Path, aiops: Run) -> None:
    """Triage resumes over reports that a full disk or a hand has broken in the middle."""
    bundles, out = tmp_path / "bundles", tmp_path / "out"
    for name in ("a", "b"):
        (bundles / name).mkdir(parents=True)
        (bundles / name / "kern.log").write_text(XID)
    assert aiops("triage", bundles, "--out", out, "--jobs", 1).returncode in (0, 10)
    first, second = sorted((out / "reports").glob("*.json"))
    whole = first.read_bytes()
    broken = json.loads(whole)
    broken["incidents"][0]["impact"]["started"] = "2026-99-99T0"
    first.write_text(json.dumps(broken))
    second.write_bytes(whole[: len(whole) // 2])
    again = aiops("triage", bundles, "--out", out, "--jobs", 1)
    assert again.returncode in (0, 10), again.stderr.decode()
    assert json.loads(first.read_bytes()) == json.loads(whole)
    json.loads(second.read_bytes())
