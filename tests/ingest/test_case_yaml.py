"""``case.yaml``: what is stated stands above what is inferred, and mistakes name their line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aiops.config import Settings, default_cache_dir
from aiops.errors import InputError
from aiops.ingest import open_case
from aiops.ingest.case_yaml import is_case_yaml, read_case_yaml
from aiops.model.clock import iso

FULL = """\
version: 1
timezone: Europe/Berlin
year: 2026
job: {id: "4711", name: llm, scheduler: slurm}
files:
  - path: "a/*.log"
    kind: kernel
    node: n7
    timezone: "+00:00"
    clock_ahead_s: 10
  - path: b.log
    kind: training
    rank: 3
  - {path: notes.txt, kind: ignore}
topology:
  world_size: 16
  ranks:
    0-7: n1
    8: {node: n2, gpu: 1, pci: "3b:00.0"}
  nodes:
    n7: {aliases: [ip-10-0-0-7], gpus: {2: "0000:5D:00.0"}}
"""

OOM = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 79.10 GiB"


def read(path: Path):
    return open_case([path], Settings(cache_dir=default_cache_dir()))


def test_everything_that_can_be_stated(tmp_path: Path) -> None:
    (tmp_path / "case.yaml").write_text(FULL)
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "x.log").write_text(
        "Jul  1 12:00:10 ip-10-0-0-7 kernel: NVRM: Xid (PCI:0000:5d:00): 79, pid=1, x\n"
    )
    (tmp_path / "b.log").write_text(f"2026-07-01 14:00:00 ERROR {OOM}\n")
    (tmp_path / "notes.txt").write_text(
        "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 79.10 GiB\n"
    )
    with read(tmp_path) as case:
        assert {source.name for source in case.sources} == {"a/x.log", "b.log"}
        xid = next(event for event in case.events if event.signal == "gpu.xid")
        assert (xid.node, iso(xid.ts)) == ("n7", "2026-07-01T12:00:00Z")
        other = next(event for event in case.events if event.signal != "gpu.xid")
        assert (other.rank, iso(other.ts)) == (3, "2026-07-01T12:00:00Z")
        assert case.topology.world_size == 16
        assert (case.topology.ranks[5].node, case.topology.ranks[5].local_rank) == ("n1", 5)
        assert case.topology.ranks[8].pci == "0000:3b:00"
        assert case.topology.gpu_pci[("n7", 2)] == "0000:5d:00"
        assert [job.id for job in case.jobs] == ["4711"]


@pytest.mark.parametrize(
    ("text", "line", "reason"),
    [
        ("version: 2\n", 1, "only version 1"),
        ("job: 1\nzone: UTC\n", 2, "no 'zone'"),
        ("timezone: Mars/Base\n", 1, "no time zone"),
        ("files:\n  - path: x\n    kind: log\n", 3, "none of"),
        ("files:\n  - kind: kernel\n", 2, "needs a path"),
        ("files:\n  - path: x\n    node: 'a b'\n", 3, "no host name"),
        ("topology:\n  ranks:\n    7-0: n1\n", 3, "empty"),
        ("topology:\n  ranks: [{node: n1}]\n", 2, "needs a rank"),
        ("topology:\n  nodes:\n    n1: {gpus: {0: GPU0}}\n", 3, "PCI id"),
        ("year: 2026\nyear: 2027\n", 2, "twice"),
        ("files: {\n", 2, "not valid YAML"),
        ("- a\n", 1, "must be a mapping"),
    ],
)
def test_mistakes_name_their_line(tmp_path: Path, text: str, line: int, reason: str) -> None:
    (tmp_path / "case.yaml").write_text(text)
    (tmp_path / "a.log").write_text("torch\n")
    with pytest.raises(InputError) as error, read(tmp_path):
        pass
    assert error.value.line == line
    assert reason in str(error.value)
    assert "case.yaml" in str(error.value)


def test_the_command_line_ends_with_2(aiops, tmp_path: Path) -> None:
    (tmp_path / "case.yaml").write_text("jobs: 1\n")
    (tmp_path / "a.log").write_text("torch\n")
    done = aiops("analyze", tmp_path)
    assert done.returncode == 2
    assert b"case.yaml:1" in done.stderr


def test_an_entry_that_fits_no_file_is_told(tmp_path: Path) -> None:
    (tmp_path / "case.yaml").write_text("files:\n  - {path: nothing, node: n1}\n")
    (tmp_path / "a.log").write_text("torch\n")
    with read(tmp_path) as case:
        assert any(problem.line == 2 and "nothing" in problem.reason for problem in case.coverage.problems)


def test_only_the_top_of_a_case_is_asked() -> None:
    assert is_case_yaml("case.yaml")
    assert is_case_yaml("bundle.tar!bundle/case.yaml")
    assert not is_case_yaml("a/b/c/case.yaml")
    assert not is_case_yaml("mycase.yaml")


@given(st.text(alphabet=st.sampled_from(list("abcfilesnodrkvztmy:-[]{}\"' \n#&*!|0179")), max_size=120))
@settings(max_examples=300, deadline=None)
def test_any_text_is_read_or_refused(tmp_path_factory, text: str) -> None:
    path = tmp_path_factory.mktemp("y") / "case.yaml"
    path.write_text(text)
    try:
        read_case_yaml(path, "case.yaml")
    except InputError as error:
        assert "case.yaml" in str(error)


def test_a_file_that_is_stated_to_be_of_another_job_is_no_evidence(aiops, tmp_path: Path) -> None:
    oom = "[rank0]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has 79 GiB in use.\n"
    (tmp_path / "mine.log").write_text("2026-08-01T08:00:00Z [rank0]: step=1 loss=2.0\n" * 5)
    (tmp_path / "other.log").write_text("2026-08-01T08:00:01Z [rank0]: step=1 loss=2.5\n" + oom)

    def verdict(text: str) -> tuple[str, list[str]]:
        (tmp_path / "case.yaml").write_text(text)
        report = json.loads(aiops("analyze", tmp_path, "--format", "json").stdout)
        return report["verdict"], [incident["failure_class"] for incident in report["incidents"]]

    files = "files:\n  - {path: mine.log, kind: training}\n  - {path: other.log, kind: training%s}\n"
    assert verdict("job: 77\n" + files % ", job: 77")[0] == "incident"
    assert verdict("job: 77\n" + files % "")[0] == "incident"
    other, classes = verdict("job: 77\n" + files % ", job: 78")
    assert other != "incident" and not [name for name in classes if "oom" in name]
