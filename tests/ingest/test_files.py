"""Which files are read, which are the same thing twice, whose they are."""

from __future__ import annotations

import gzip
import io
import json
import tarfile
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from aiops.config import Settings, default_cache_dir
from aiops.errors import InputError
from aiops.ingest import open_case
from aiops.ingest.facts import facts_of

BASE = datetime(2026, 1, 2, 3, 0, 0, tzinfo=UTC)


def read(*paths: Path | str):
    return open_case(paths, Settings(cache_dir=default_cache_dir()))


def kernel_log(lines: int, host: str = "n7", first: int = 0) -> str:
    return "".join(
        f"{(BASE + timedelta(seconds=n)).isoformat()} {host} kernel: "
        + (f"NVRM: Xid (PCI:0000:3b:00): 31, pid={n}, x\n" if n % 5 == 0 else f"usb {n}: fine\n")
        for n in range(first, first + lines)
    )


def xids(case) -> int:
    return sum(event.count for event in case.events if event.signal == "gpu.xid")


def test_the_same_log_under_other_names_counts_once(tmp_path: Path) -> None:
    text = kernel_log(100)
    (tmp_path / "kern.log").write_text(text)
    (tmp_path / "copy.log").write_text(text)
    (tmp_path / "kern.log.1.gz").write_bytes(gzip.compress(text.encode()))
    (tmp_path / "earlier").write_text(text[: len(text) * 2 // 3 + 7])
    (tmp_path / "tail").write_text(text[len(text) // 2 + 11 :])
    with read(tmp_path) as case:
        assert xids(case) == 20
        assert len(case.sources) == 1
        assert len(facts_of(case).duplicates) == 4


def test_rotations_that_overlap_count_a_line_once(tmp_path: Path) -> None:
    (tmp_path / "kern.log.1").write_text(kernel_log(60))
    (tmp_path / "kern.log").write_text(kernel_log(60, first=40))
    with read(tmp_path) as case:
        assert xids(case) == 20
        assert any("counted once" in problem.reason for problem in case.coverage.problems)


def test_ranks_that_say_the_same_few_words_are_no_copies(tmp_path: Path) -> None:
    (tmp_path / "a.log").write_text("starting torch\n" * 10)
    (tmp_path / "b.log").write_text("starting torch\n" * 10 + "Traceback (most recent call last):\n")
    with read(tmp_path) as case:
        assert len(case.sources) == 2


def test_a_record_cut_by_rotation_is_survived(tmp_path: Path) -> None:
    text = kernel_log(50)
    cut = text.index("NVRM: Xid", len(text) // 2) + 5
    (tmp_path / "kern.log.1").write_text(text[:cut])
    (tmp_path / "kern.log").write_text(text[cut:])
    with read(tmp_path) as case:
        assert xids(case) == 9


def test_a_pattern_that_the_shell_left_alone(tmp_path: Path) -> None:
    for node in ("n1", "n2"):
        (tmp_path / node).mkdir()
        (tmp_path / node / "kern.log").write_text(kernel_log(6, node))
    with read(str(tmp_path / "*" / "kern.log")) as case:
        assert sorted(source.name for source in case.sources) == ["n1/kern.log", "n2/kern.log"]
    with pytest.raises(InputError, match="no file fits"), read(str(tmp_path / "*.none")):
        pass


def test_archives_in_archives(tmp_path: Path) -> None:
    inner = io.BytesIO()
    with tarfile.open(fileobj=inner, mode="w:xz") as tar:
        data = kernel_log(10).encode()
        info = tarfile.TarInfo("var/log/kern.log")
        info.size = len(data)
        tar.addfile(info, io.BytesIO(data))
    outer = tmp_path / "all.tar.gz"
    with tarfile.open(outer, mode="w:gz") as tar:
        info = tarfile.TarInfo("n7.tar.xz")
        info.size = len(inner.getvalue())
        tar.addfile(info, io.BytesIO(inner.getvalue()))
    with read(outer) as case:
        assert xids(case) == 2
        assert case.sources[0].name.endswith("n7.tar!var/log/kern.log")


def test_a_bug_report_is_a_kernel_log_of_its_host(tmp_path: Path) -> None:
    rule = "_" * 44 + "\n\n"
    text = (
        f"{rule}Start of NVIDIA bug report log file.  Please include this file\n\nuname: Linux n7 5.15.0-91-generic #1 SMP\n"
        f"{rule}*** /etc/motd\n*** ls: -rw-r--r-- 1 root root 12 /etc/motd\n"
        "[  9.000000] NVRM: Xid (PCI:0000:aa:00): 79, a quotation in a file\n"
        f"{rule}dmesg:\n\n[  100.000000] NVRM: Xid (PCI:0000:3b:00): 79, pid=1, GPU has fallen off the bus.\n"
        f"{rule}/usr/bin/nvidia-smi --query\n\n    [  9.000000] NVRM: Xid (PCI:0000:bb:00): 79, no log either\n"
    )
    (tmp_path / "nvidia-bug-report.log.gz").write_bytes(gzip.compress(text.encode()))
    with read(tmp_path) as case:
        events = [event for event in case.events if event.signal == "gpu.xid"]
        assert [(event.node, event.fields["pci"]) for event in events] == [("n7", "0000:3b:00")]
        assert text.split("\n")[events[0].line - 1].startswith("[  100.000000]")


def test_a_sosreport_names_its_host_in_a_file(tmp_path: Path) -> None:
    top = tmp_path / "sosreport-other-2026-01-02-abc"
    (top / "sos_commands" / "kernel").mkdir(parents=True)
    (top / "hostname").write_text("n7\n")
    (top / "sos_commands" / "kernel" / "dmesg").write_text(
        "[   50.000000] NVRM: Xid (PCI:0000:3b:00): 79, pid=1, GPU has fallen off the bus.\n"
    )
    with read(tmp_path) as case:
        assert next(event for event in case.events if event.signal == "gpu.xid").node == "n7"


def test_torchrun_folders_name_the_rank(tmp_path: Path) -> None:
    for rank in (0, 3):
        folder = tmp_path / "none_abc" / "attempt_0" / str(rank)
        folder.mkdir(parents=True)
        (folder / "stderr.log").write_text(f"RuntimeError: CUDA error: unspecified launch failure {rank}\n")
    with read(tmp_path) as case:
        assert sorted(source.rank for source in case.sources if source.rank is not None) == [0, 3]


def test_ten_thousand_ranks_stay_linear(tmp_path: Path) -> None:
    text = "".join(
        f"n{rank // 8}:{1000 + rank}:{1000 + rank} [{rank % 8}] NCCL INFO comm 0x1 rank {rank} nranks 10000 cudaDev {rank % 8} "
        f"nvmlDev {rank % 8} busId {rank % 8 + 1}b000 commId 0x2 - Init COMPLETE\n"
        for rank in range(10_000)
    )
    (tmp_path / "out.log").write_text(text)
    with open_case([tmp_path], Settings(cache_dir=default_cache_dir())) as case:
        assert case.topology.world_size == 10_000
        assert len(case.topology.ranks) > 1_900
        assert all(place.node == f"n{rank // 8}" for rank, place in case.topology.ranks.items())


def test_explain_ingest_says_how_it_was_read_and_gives_no_verdict(aiops, tmp_path: Path) -> None:
    (tmp_path / "kern\x1b[31m.log").write_text(kernel_log(20))
    (tmp_path / "copy").write_text(kernel_log(20))
    (tmp_path / "x.bin").write_bytes(bytes(range(1, 9)) * 100)
    done = aiops("analyze", tmp_path, "--explain-ingest")
    text = done.stdout.decode()
    assert done.returncode == 0, done.stderr
    assert "\x1b" not in text
    assert "kind      kernel, syslog: 20 of 20" in text
    assert "host      n7: the only host that its lines name" in text
    assert "binary content" in text
    assert "DUPLICATES  1" in text
    assert "INCIDENT" not in text


def test_verdicts_do_not_depend_on_file_names(aiops, tmp_path: Path, root: Path) -> None:
    bundle = root / "fixtures" / "xid79-slurm" / "bundle"
    for number, path in enumerate(sorted(bundle.rglob("*"))):
        if path.is_file():
            (tmp_path / f"f{number:02d}").write_bytes(path.read_bytes())
    told = json.loads(aiops("analyze", bundle, "--format", "json").stdout)["incidents"][0]
    again = json.loads(aiops("analyze", tmp_path, "--format", "json").stdout)["incidents"][0]
    assert (told["failure_class"], told["culprit"]) == (again["failure_class"], again["culprit"])


@pytest.mark.parametrize("level", ["INFO", "error", "Warning", "CRITICAL"])
def test_a_level_where_a_system_log_has_the_host_is_no_host(tmp_path: Path, level: str) -> None:
    (tmp_path / "a.log").write_text(
        f"2026-08-01T08:00:00Z {level} trainer: RuntimeError: CUDA error: an illegal memory access was encountered\n"
        f"2026-08-01T08:00:01Z {level} kubelet[7]: RuntimeError: CUDA error: an illegal memory access was encountered\n"
    )
    with read(tmp_path) as case:
        assert case.sources[0].kind != "kernel" and case.sources[0].node is None
        assert {event.node for event in case.events} == {None}


@pytest.mark.parametrize(
    ("line", "quoted"),
    [
        (
            'time="2026-08-01T08:00:00Z" level=error msg="CUDA error: an illegal memory access was encountered"',
            False,
        ),
        (
            'E0801 08:00:00.000000    7 watch.go:12] "CUDA error: an illegal memory access was encountered" node="n7"',
            False,
        ),
        (
            'E0801 08:00:00.000000    7 watch.go:12] "Failed" err="CUDA error: an illegal memory access was encountered"',
            False,
        ),
        ('level=info msg="loaded" prompt="CUDA error: an illegal memory access was encountered"', True),
        ('level=info msg="user says \\"CUDA error: an illegal memory access was encountered\\""', True),
        ('"CUDA error: an illegal memory access was encountered" is what the manual says', True),
    ],
)
def test_a_message_in_quotes_is_no_quotation(tmp_path: Path, line: str, quoted: bool) -> None:
    (tmp_path / "a.log").write_text(f"{line}\n")
    (tmp_path / "case.yaml").write_text("files:\n  - {path: a.log, kind: training}\n")
    with read(tmp_path) as case:
        assert {event.quoted for event in case.events} == {quoted}


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("NVRM: Xid (PCI:0000:3b:00): 79, GPU has fallen off the bus.\n", "kernel"),
        (
            "mlx5_core 0000:c1:00.0: Link down\npcieport 0000:40:01.1: AER: Uncorrected (Fatal) error received\n",
            "kernel",
        ),
        ("step=1 loss=2.0\nNVRM: Xid (PCI:0000:3b:00): 79, GPU has fallen off the bus.\n", "training"),
        ("see the NVRM: Xid lines of that day\n", "text"),
    ],
)
def test_kernel_messages_without_a_stamp_are_a_kernel_log(tmp_path: Path, text: str, kind: str) -> None:
    (tmp_path / "pasted").write_text(text)
    with read(tmp_path) as case:
        assert [source.kind for source in case.sources] == [kind]
