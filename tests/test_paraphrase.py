"""What must not matter does not matter: other hosts, another year, other followers, noise in between."""

from __future__ import annotations

import random
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from aiops.catalog import load_catalog
from aiops.catalog.lint import ORDINARY
from aiops.config import Settings, default_cache_dir
from aiops.evaluate import load_truth
from aiops.model.finding import Role
from aiops.model.report import Report
from aiops.pipeline import analyze_paths
from aiops.resources import resource

BUNDLES = sorted(path.parent for path in resource("fixtures").glob("*/truth.yaml"))
ECHOES = [
    regex for s in load_catalog().signals if s.role is Role.ECHO and s.detector == "signals" for regex in s.regexes
]
Change = Callable[[str, bool], str]


def judge(folder: Path) -> Report:
    return analyze_paths([folder], Settings(cache_dir=default_cache_dir()))


def rewrite(bundle: Path, target: Path, change: Change) -> Path:
    """A copy of a bundle with every text file changed; the second argument says that it is a log of lines."""
    for path in sorted(p for p in bundle.rglob("*") if p.is_file()):
        copy = target / path.relative_to(bundle)
        copy.parent.mkdir(parents=True, exist_ok=True)
        text = path.read_text(encoding="utf-8", errors="surrogateescape")
        lines = path.suffix in (".log", ".out", ".err", ".txt", "") and not text.lstrip().startswith(("{", "[{"))
        copy.write_text(change(text, lines), encoding="utf-8", errors="surrogateescape")
    return target


def answer(report: Report) -> tuple[object, ...]:
    if not report.incidents:
        return (report.verdict,)
    i = report.incidents[0]
    return (
        report.verdict,
        i.failure_class,
        i.culprit.kind,
        i.culprit.gpu,
        i.culprit.pci,
        i.culprit.rank,
        i.requeue.verdict,
        [a.action for a in i.actions],
    )


@pytest.fixture(scope="module")
def told() -> dict[str, Report]:
    return {bundle.name: judge(bundle / "bundle") for bundle in BUNDLES}


@pytest.mark.parametrize("bundle", BUNDLES, ids=lambda p: p.name)
def test_other_host_names_change_names_only(bundle: Path, tmp_path: Path, told: dict[str, Report]) -> None:
    report = told[bundle.name]
    stems = {m[0] for node in report.coverage.nodes if (m := re.match(r"[a-z]{4,}", node))}
    names = {stem: f"q{''.join(reversed(stem))}" for stem in stems}

    def change(text: str, _lines: bool) -> str:
        for old, new in names.items():
            text = re.sub(rf"(?<![A-Za-z]){old}(?=[-0-9.\[])", new, text)
        return text

    other = judge(rewrite(bundle / "bundle", tmp_path / "b", change))
    assert answer(other) == answer(report)
    if report.incidents and report.incidents[0].culprit.node:
        node = report.incidents[0].culprit.node
        for old, new in names.items():
            node = re.sub(rf"(?<![A-Za-z]){old}(?=[-0-9.\[])", new, node)
        assert other.incidents[0].culprit.node == node


@pytest.mark.parametrize("bundle", BUNDLES, ids=lambda p: p.name)
def test_fewer_followers_change_nothing(bundle: Path, tmp_path: Path, told: dict[str, Report]) -> None:
    rng = random.Random(bundle.name)

    def change(text: str, lines: bool) -> str:
        if not lines:
            return text
        kept = [
            line for line in text.split("\n") if rng.random() < 0.4 or not any(regex.search(line) for regex in ECHOES)
        ]
        return "\n".join(kept)

    other = judge(rewrite(bundle / "bundle", tmp_path / "b", change))
    assert answer(other)[:3] == answer(told[bundle.name])[:3]


@pytest.mark.parametrize("bundle", BUNDLES, ids=lambda p: p.name)
def test_noise_in_between_changes_nothing(bundle: Path, tmp_path: Path, told: dict[str, Report]) -> None:
    rng = random.Random(bundle.name)
    noise = [line for line in ORDINARY if "NCCL INFO Channel" in line] + [
        "",
        "DEBUG cache hit ratio 0.98",
        "heartbeat ok",
    ]

    def change(text: str, lines: bool) -> str:
        # tables and tracebacks are no place for other lines; everything that begins with a time or a rank is
        if not lines or not re.search(r"NCCL|\bINFO\b|kernel:", text):
            return text
        out: list[str] = []
        for line in text.split("\n"):
            if re.match(r"(?:\[rank\d+\]:\[[EWI]|\d{4}-\d\d-\d\d|[A-Z][a-z]{2} [ \d]\d )", line) and rng.random() < 0.2:
                out.append(rng.choice(noise))
            out.append(line)
        return "\n".join(out)

    other = judge(rewrite(bundle / "bundle", tmp_path / "b", change))
    assert answer(other) == answer(told[bundle.name])


@pytest.mark.parametrize("bundle", BUNDLES, ids=lambda p: p.name)
def test_truth_forbids_no_action_that_is_offered(bundle: Path, told: dict[str, Report]) -> None:
    forbidden = set(load_truth(bundle / "truth.yaml").label.get("forbid_actions") or ())
    offered = {a.action.value for i in told[bundle.name].incidents for a in i.actions}
    assert not offered & forbidden
