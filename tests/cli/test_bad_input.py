"""Ugly input: a clear error with exit code 2, or an analysis as far as it goes that says what is missing."""

from __future__ import annotations

import gzip
import io
import json
import os
import resource
import socket
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

XID = "Aug  1 08:00:{:02d} gx-n7 kernel: NVRM: Xid (PCI:0000:3b:00): 79, pid=4242, GPU has fallen off the bus.\n"
LOG = XID.format(1) + XID.format(2).replace(
    ": 79, pid=4242, GPU has fallen off the bus.",
    ": 154, GPU recovery action changed from 0x0 (None) to 0x2 (Node Reboot Required)",
)
Run = Callable[..., "subprocess.CompletedProcess[bytes]"]


def report(result: subprocess.CompletedProcess[bytes]) -> dict[str, Any]:
    assert result.returncode in (0, 10, 11), result.stderr.decode()
    loaded: dict[str, Any] = json.loads(result.stdout)
    return loaded


def problems(answer: dict[str, Any]) -> str:
    return "\n".join(f"{p['source']}: {p['reason']}" for p in answer["coverage"]["problems"])


def test_missing_path(aiops: Run, tmp_path: Path) -> None:
    result = aiops("analyze", tmp_path / "nowhere")
    assert result.returncode == 2 and result.stdout == b""
    assert b"nowhere: no such file or directory" in result.stderr


def test_empty_directory(aiops: Run, tmp_path: Path) -> None:
    result = aiops("analyze", tmp_path)
    assert result.returncode == 2
    assert b"nothing here can be analysed" in result.stderr


def test_nothing_usable(aiops: Run, tmp_path: Path) -> None:
    (tmp_path / "core").write_bytes(os.urandom(4096))
    result = aiops("analyze", tmp_path)
    assert result.returncode == 2
    assert b"core: skipped: binary content" in result.stderr


def test_unreadable_file(aiops: Run, tmp_path: Path) -> None:
    path = tmp_path / "kern.log"
    path.write_text(LOG)
    path.chmod(0)
    if os.geteuid() == 0:  # root reads everything but this
        path = Path("/proc/self/mem")
    result = aiops("analyze", path)
    assert result.returncode == 2 and result.stdout == b""
    assert b"permission denied" in result.stderr or b"not read: Input/output error" in result.stderr


def test_wrong_usage(aiops: Run) -> None:
    assert aiops("analyze").returncode == 2
    assert aiops("analyze", ".", "--format", "nonsense").returncode == 2
    assert aiops("nonsense").returncode == 2


def test_broken_archive_is_said_and_the_rest_read(aiops: Run, tmp_path: Path) -> None:
    (tmp_path / "kern.log").write_text(LOG)
    (tmp_path / "more.zip").write_bytes(b"PK\x03\x04" + b"nonsense" * 50)
    answer = report(aiops("analyze", tmp_path, "--format", "json"))
    assert "more.zip: archive broken" in problems(answer)
    assert answer["incidents"][0]["failure_class"] == "gpu.off_bus"


def test_truncated_gzip_is_read_up_to_the_cut(aiops: Run, tmp_path: Path) -> None:
    noise = "".join(f"Aug  1 08:10:{i % 60:02d} gx-n7 systemd[1]: Started Session {i}.\n" for i in range(20_000))
    whole = gzip.compress((LOG + noise).encode())
    (tmp_path / "kern.log.gz").write_bytes(whole[: len(whole) * 2 // 3])
    answer = report(aiops("analyze", tmp_path, "--format", "json"))
    assert "kern.log.gz: truncated or damaged" in problems(answer)
    assert answer["incidents"][0]["culprit"]["node"] == "gx-n7"


def test_archive_bomb_is_stopped(aiops: Run, tmp_path: Path) -> None:
    block = b"\x20" * (1 << 20)
    with gzip.open(tmp_path / "bomb.gz", "wb", compresslevel=9) as out:
        out.write(LOG.encode())
        for _ in range(600):
            out.write(block)
    spool = tmp_path / "spool"
    spool.mkdir()
    answer = report(aiops("analyze", tmp_path / "bomb.gz", "--format", "json", env={"TMPDIR": str(spool)}))
    assert "unpacks to more than is allowed" in problems(answer)
    assert answer["incidents"][0]["failure_class"] == "gpu.off_bus"
    assert not list(spool.iterdir())


def test_member_paths_links_and_devices_do_not_escape(aiops: Run, tmp_path: Path) -> None:
    bundle = tmp_path / "case.tar"
    with tarfile.open(bundle, "w") as archive:
        for name in ("../escape.log", "/abs.log", "ok/kern.log"):
            info = tarfile.TarInfo(name)
            info.size = len(LOG)
            archive.addfile(info, io.BytesIO(LOG.encode()))
        link = tarfile.TarInfo("passwd")
        link.type, link.linkname = tarfile.SYMTYPE, "/etc/passwd"
        archive.addfile(link)
        device = tarfile.TarInfo("null")
        device.type = tarfile.CHRTYPE
        archive.addfile(device)
    answer = report(aiops("analyze", bundle, "--format", "json"))
    said = problems(answer)
    assert said.count("leads out of the archive") == 2 and said.count("a link or device in an archive") == 2
    assert not (tmp_path / "escape.log").exists() and not (tmp_path.parent / "escape.log").exists()
    assert [s["name"] for s in answer["coverage"]["sources"]] == ["case.tar!ok/kern.log"]
    assert b"root:" not in json.dumps(answer).encode()


def test_zip_slip_and_nested_archives(aiops: Run, tmp_path: Path) -> None:
    inner = io.BytesIO()
    with zipfile.ZipFile(inner, "w") as archive:
        archive.writestr("../../evil.log", LOG)
        archive.writestr("kern.log", LOG)
    with zipfile.ZipFile(tmp_path / "outer.zip", "w") as archive:
        archive.writestr("node/inner.zip", inner.getvalue())
    answer = report(aiops("analyze", tmp_path / "outer.zip", "--format", "json"))
    assert [s["name"] for s in answer["coverage"]["sources"]] == ["outer.zip!node/inner.zip!kern.log"]
    assert "leads out of the archive" in problems(answer)


def test_links_fifos_and_sockets_in_a_directory(aiops: Run, tmp_path: Path) -> None:
    case = tmp_path / "case"
    case.mkdir()
    (case / "kern.log").write_text(LOG)
    (case / "loop").symlink_to(case)
    (case / "round").symlink_to(case / "round")
    (case / "out").symlink_to("/etc/passwd")
    os.mkfifo(case / "pipe")
    server = socket.socket(socket.AF_UNIX)
    server.bind(str(case / "sock"))
    answer = report(aiops("analyze", case, "--format", "json"))
    server.close()
    said = problems(answer)
    for name in ("loop", "round", "out", "pipe", "sock"):
        assert f"{name}: skipped" in said
    assert len(answer["coverage"]["sources"]) == 1


def test_invalid_utf8_and_nul_bytes(aiops: Run, tmp_path: Path) -> None:
    (tmp_path / "kern.log").write_bytes(LOG.encode() + b"\xc3\x28 broken \x80\n" * 3 + b"tail \x00\x01 \xf0\x9f\n")
    answer = report(aiops("analyze", tmp_path, "--format", "json"))
    assert answer["incidents"][0]["failure_class"] == "gpu.off_bus"


def test_utf16_text(aiops: Run, tmp_path: Path) -> None:
    (tmp_path / "kern.log").write_bytes(LOG.encode("utf-16"))
    answer = report(aiops("analyze", tmp_path, "--format", "json"))
    assert answer["incidents"][0]["culprit"]["node"] == "gx-n7"


def limited(args: list[object], megabytes: int) -> subprocess.CompletedProcess[bytes]:
    """Run the command with a limit on private memory (RLIMIT_DATA counts anonymous mappings, not mapped files)."""

    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_DATA, (megabytes << 20, megabytes << 20))

    return subprocess.run(
        [sys.executable, "-m", "aiops", *map(str, args)],
        capture_output=True,
        preexec_fn=limit,
        check=False,
        timeout=300,
        env={**os.environ, "OPENBLAS_NUM_THREADS": "1"},
    )


def test_a_line_of_one_gigabyte_needs_little_memory(tmp_path: Path) -> None:
    path = tmp_path / "kern.log"
    with path.open("wb") as out:
        out.write(LOG.encode())
        block = b"a" * (1 << 20)
        for _ in range(1024):
            out.write(block)
        out.write(b"\n" + XID.format(9).encode())
    answer = report(limited(["analyze", path, "--format", "json"], 300))
    path.unlink()
    [incident] = answer["incidents"]
    assert incident["failure_class"] == "gpu.off_bus"
    assert {e["line"] for e in incident["evidence"] if "79" in e["text"]} == {1, 4}


def test_800_000_equal_lines_are_one_finding(tmp_path: Path) -> None:
    path = tmp_path / "kern.log"
    with path.open("w") as out:
        for _ in range(800):
            out.write(XID.format(3) * 1000)
    answer = report(limited(["analyze", path, "--format", "json"], 300))
    [finding] = [f for f in answer["incidents"][0]["findings"] if f["sign"] == "gpu.xid"]
    assert finding["count"] == 800_000
    assert len(answer["incidents"][0]["evidence"]) < 20


def test_names_that_are_commands_never_reach_one(aiops: Run, tmp_path: Path) -> None:
    (tmp_path / "kern.log").write_text(LOG.replace("gx-n7", "gx-n7;reboot"))
    (tmp_path / "slurm-77.out").write_text(
        "[rank0]: RuntimeError: CUDA error: unspecified launch failure\n"
        "slurmstepd: error: *** STEP 77.0 ON $(reboot) CANCELLED AT 2026-08-01T08:03:31 DUE TO NODE FAILURE ***\n"
        "srun: error: a`id`: task 0: Exited with exit code 1\n"
    )
    answer = report(aiops("analyze", tmp_path, "--format", "json"))
    commands = [c for i in answer["incidents"] for a in i["actions"] for c in (*a["commands"], *a["undo"])]
    assert not [c for c in commands if ";" in c or "reboot" in c or "`" in c or "$(" in c]
    assert not [n for i in answer["incidents"] for n in i["requeue"]["exclude"]]


@pytest.mark.parametrize("format", ["text", "md", "html", "slack"])
def test_markup_and_terminal_escapes_in_a_log_stay_text(aiops: Run, tmp_path: Path, format: str) -> None:
    evil = "\x1b]0;owned\x07\x1b[2J<script>alert(1)</script><!channel> [x](javascript:alert(1)) \u202e"
    (tmp_path / "kern.log").write_text(
        LOG + f"Aug  1 08:00:03 gx-n7 kernel: NVRM: Xid (PCI:0000:3b:00): 79, {evil} GPU has fallen off the bus.\n"
    )
    result = aiops("analyze", tmp_path, "--format", format)
    assert result.returncode == 10
    assert b"\x1b" not in result.stdout and b"\x07" not in result.stdout and "\u202e".encode() not in result.stdout
    if format == "html":
        assert b"<script>alert(1)" not in result.stdout and b'javascript:alert(1)"' not in result.stdout
    if format == "slack":
        assert b"<!channel>" not in result.stdout


def test_standard_input_and_a_closed_pipe(aiops: Run, tmp_path: Path) -> None:
    answer = report(aiops("analyze", "-", "--format", "json", input=LOG.encode()))
    assert answer["coverage"]["sources"][0]["name"] == "stdin"
    (tmp_path / "kern.log").write_text(LOG * 20_000)
    command = f"{sys.executable} -m aiops scan {tmp_path} | head -n 1"
    result = subprocess.run(["bash", "-c", command], capture_output=True, check=False, timeout=120)
    assert result.stdout.count(b"\n") == 1 and b"Traceback" not in result.stderr


def test_collecting_without_its_extra_is_said(aiops: Run, tmp_path: Path) -> None:
    (tmp_path / "prometheus_api_client.py").write_text("raise ImportError('not installed')\n")
    path = os.pathsep.join([str(tmp_path), *sys.path])
    command = ("collect", "prometheus", "--url", "http://127.0.0.1:9", "--start", "now-1h", "--out", tmp_path / "case")
    result = aiops(*command, env={"PYTHONPATH": path})
    assert result.returncode == 2
    assert b"[live]" in result.stderr and b"Traceback" not in result.stderr
