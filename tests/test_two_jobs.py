"""The output of two jobs in one directory: each is judged by itself, and nothing of one is done to the other."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from aiops.pipeline import analyze_paths

TRACEBACK = """Traceback (most recent call last):
  File "train.py", line 41, in <module>
    x[9]
IndexError: list index out of range
"""


@pytest.fixture(params=["folders", "flat"])
def together(request: pytest.FixtureRequest, root: Path, tmp_path: Path) -> Path:
    """A lost GPU and bad data, as two jobs of one afternoon, in two folders or thrown together."""
    for name in ("xid79-slurm", "nan-data"):
        bundle = root / "fixtures" / name / "bundle"
        for file in (file for file in bundle.rglob("*") if file.is_file()):
            part = file.relative_to(bundle)
            same = part.name in ("sacct.psv", "dcgm.prom")
            flat = f"{name}-{part.name}" if same else part.name
            target = tmp_path / "case" / (Path(name) / part if request.param == "folders" else flat)
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(file, target)
    return tmp_path / "case"


def test_each_job_has_its_own_incident(together: Path) -> None:
    report = analyze_paths([together])
    first, second = report.incidents
    assert (first.failure_class, first.culprit.node, first.culprit.job) == ("gpu.off_bus", "fjord-021", "418807")
    assert (second.failure_class, second.culprit.job, second.requeue.verdict) == ("num.nan_data", "33018", "fix_first")
    assert (first.checkpoint.step, second.checkpoint.step) == (62250, 800)
    assert "418807, 33018" in report.coverage.notes[0]
    files = {evidence.source for evidence in first.evidence} & {evidence.source for evidence in second.evidence}
    assert not files
    assert len(report.coverage.sources) == sum(file.is_file() for file in together.rglob("*"))


def test_no_command_names_the_other_job(together: Path) -> None:
    report = analyze_paths([together])
    for incident, other in zip(report.incidents, ("33018", "418807"), strict=True):
        commands = [command for action in incident.actions for command in (*action.commands, *action.undo)]
        assert not [command for command in commands if other in command]


def test_the_next_try_of_a_job_on_its_nodes_is_no_case_of_its_own(tmp_path: Path) -> None:
    head = "2026-08-01 08:{minute:02d}:00,000 INFO [rank {rank}] node gx-n1 step={minute} loss=2.1\n"
    for job in ("4711", "4712"):
        lines = [head.format(minute=minute, rank=rank) for minute in range(20) for rank in range(2)]
        (tmp_path / f"slurm-{job}.out").write_text("".join(lines) + "srun: error: gx-n1: task 1: Segmentation fault\n")
    report = analyze_paths([tmp_path])
    assert not any("jobs that share no node" in note for note in report.coverage.notes)


def test_pods_of_two_gangs(tmp_path: Path) -> None:
    pods = []
    for job, node, last in (
        ("good", "n1", "Training finished after 20 steps\n"),
        ("bad", "n2", TRACEBACK),
    ):
        name = f"{job}-0-7k2xv"
        code = 0 if job == "good" else 1
        pods.append(
            {
                "apiVersion": "v1",
                "kind": "Pod",
                "metadata": {
                    "name": name,
                    "namespace": "ml",
                    "labels": {"batch.kubernetes.io/job-name": job},
                    "ownerReferences": [{"kind": "Job", "name": job, "controller": True}],
                },
                "spec": {"nodeName": node, "containers": [{"name": "main"}]},
                "status": {
                    "phase": "Failed" if code else "Succeeded",
                    "containerStatuses": [{"name": "main", "state": {"terminated": {"exitCode": code}}}],
                },
            }
        )
        steps = [f"2026-08-01 08:{minute:02d}:00,000 INFO step={minute} loss=2.1\n" for minute in range(20)]
        (tmp_path / f"{name}.log").write_text("".join(steps) + last)
    (tmp_path / "pods.json").write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": pods}))
    report = analyze_paths([tmp_path])
    assert [(i.culprit.job, i.culprit.kind) for i in report.incidents] == [("ml/bad", "user_code")]
    assert "ml/good: No incident" in report.summary
