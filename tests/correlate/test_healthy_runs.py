"""Alarming lines in healthy runs: nothing is blamed and nobody is told to touch a node."""

from __future__ import annotations

from pathlib import Path

import pytest
from correlate.healthy_runs import HEALTHY

from aiops.config import Settings, default_cache_dir
from aiops.model.report import DISRUPTIVE
from aiops.pipeline import analyze_paths


@pytest.mark.parametrize("name", HEALTHY)
def test_a_healthy_run_stays_healthy(name: str, tmp_path: Path) -> None:
    for file, text in HEALTHY[name]().files().items():
        (tmp_path / file).write_text(text, encoding="utf-8")
    report = analyze_paths([tmp_path], Settings(cache_dir=default_cache_dir()))
    titles = [incident.title for incident in report.incidents]
    assert report.verdict == "no_incident", titles


@pytest.mark.parametrize("name", HEALTHY)
def test_without_the_word_of_the_scheduler_no_node_is_touched(name: str, tmp_path: Path) -> None:
    """The run's last line and the scheduler's record are missing, as when the evidence is collected while it runs."""
    run = HEALTHY[name]()
    run.finished = False
    for file, text in run.files().items():
        (tmp_path / file).write_text(text, encoding="utf-8")
    report = analyze_paths([tmp_path], Settings(cache_dir=default_cache_dir()))
    touched = [a.target.node for i in report.incidents for a in i.actions if a.action in DISRUPTIVE]
    assert not touched, [incident.title for incident in report.incidents]
