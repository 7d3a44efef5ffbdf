"""Lines of healthy runs and nodes — banners, settings, warnings of old releases, retries that work — accuse nothing.

``healthy_lines.txt`` holds them by software, in the words of PyTorch, NCCL, Megatron-LM, DeepSpeed, Hugging Face, Lightning, NeMo,
torchtitan, JAX, Ray, the Linux kernel, systemd, Kubernetes, containerd, Slurm and object store clients. ``# `` begins a heading.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from aiops.catalog import load_catalog
from aiops.catalog.lint import signals_of_line
from aiops.config import Settings, default_cache_dir
from aiops.model.event import Severity
from aiops.model.finding import Role
from aiops.pipeline import analyze_paths

FILE = Path(__file__).parent / "healthy_lines.txt"


def lines() -> list[str]:
    text = FILE.read_text(encoding="utf-8").splitlines()
    return [line for line in text if line and not (line.startswith("# ") and not line.startswith("# TODO"))]


@pytest.mark.parametrize("line", lines())
def test_no_root_and_no_follower_of_a_fault_hits_an_ordinary_line(line: str) -> None:
    accusing = [
        signal.id
        for signal, _ in signals_of_line(load_catalog(), line)
        if signal.role is not Role.CONTEXT or signal.severity >= Severity.FATAL
    ]
    assert not accusing


@pytest.mark.parametrize("name", ["train.log", "kern.log"])
def test_a_log_of_ordinary_lines_is_no_incident(name: str, tmp_path: Path) -> None:
    ordinary = [line for line in lines() if (" kernel: " in line or " systemd[" in line) == (name == "kern.log")]
    (tmp_path / name).write_text("\n".join(ordinary) + "\n", encoding="utf-8")
    report = analyze_paths([tmp_path], Settings(cache_dir=default_cache_dir()))
    assert not report.incidents, [incident.title for incident in report.incidents]
