"""One file less never makes an answer wrong: it stays, or becomes less sure and says what is missing."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from aiops.catalog import load_catalog
from aiops.config import Settings, default_cache_dir
from aiops.evaluate import load_truth
from aiops.model.report import DISRUPTIVE, Incident, Report
from aiops.pipeline import analyze_paths

FIXTURES = Path(__file__).resolve().parent.parent / "fixtures"
NAMES = sorted(path.parent.name for path in FIXTURES.glob("*/truth.yaml"))


LIKELY = 0.7


def listed(value: Any) -> list[Any]:
    return [] if value is None else value if isinstance(value, list) else [value]


def judged_without(name: str, missing: Path, files: list[Path]) -> Report:
    return analyze_paths([path for path in files if path != missing], Settings(cache_dir=default_cache_dir()))


@pytest.mark.parametrize("name", NAMES)
def test_no_file_less_makes_the_answer_wrong(name: str) -> None:
    bundle = FIXTURES / name / "bundle"
    label = load_truth(FIXTURES / name).label
    files = sorted(path for path in bundle.rglob("*") if path.is_file())
    if len(files) < 2:
        pytest.skip("nothing can be left out of one file")
    wrong = {
        str(path.relative_to(bundle)): said
        for path in files
        if (said := what_is_wrong(judged_without(name, path, files), label))
    }
    assert not wrong, name


def what_is_wrong(report: Report, label: dict[str, Any]) -> str:
    """Empty if the answer is right, or honest about not knowing."""
    innocent = touched_nodes(report) - blamed_nodes(label)
    if innocent:
        return f"takes {sorted(innocent)} out"
    if len(listed(label["verdict"])) > 1:
        return ""  # the whole bundle may be called either
    if "incident" not in listed(label["verdict"]):
        return "" if report.verdict != "incident" else f"blames {report.incidents[0].failure_class}"
    if report.verdict == "no_incident":
        # honest only where the report tells that it did not see everything
        return "" if report.coverage.missing else "calls it healthy and names no gap"
    first = report.incidents[0]
    if report.verdict == "inconclusive":
        return "" if first.hypotheses[0].would_decide else "does not know and does not say what would decide"
    if first.failure_class not in listed(label["accept_classes"]):
        return "" if honest(first, label) else f"is sure of {first.failure_class} ({first.confidence:.0%})"
    return wrong_place(first, label)


def honest(incident: Incident, label: dict[str, Any]) -> bool:
    """Another class than the true one: it says itself that it does not know why, or it is no more than likely and names what
    would decide."""
    unknown = incident.failure_class.startswith("unk.") or only_an_effect(incident, label)
    return bool(incident.hypotheses[0].would_decide) and (unknown or incident.confidence <= LIKELY)


def touched_nodes(report: Report) -> set[str]:
    actions = [action for incident in report.incidents for action in incident.actions]
    return {a.target.node for a in actions if a.action in DISRUPTIVE and a.target.node}


def blamed_nodes(label: dict[str, Any]) -> set[str]:
    return {*listed((label.get("culprit") or {}).get("node")), *listed(label.get("allow_targets"))}


def only_an_effect(incident: Incident, label: dict[str, Any]) -> bool:
    """It names what the true class brings about, such as the kill for a leak: less than the cause, and not wrong."""
    failures = load_catalog().failures
    effects = {sign.sign for name in listed(label["accept_classes"]) for sign in failures[name].effects}
    return failures[incident.failure_class].causes[0].sign in effects


def wrong_place(incident: Incident, label: dict[str, Any]) -> str:
    """Another node or GPU than the true one; to name none is less, not wrong."""
    culprit = label.get("culprit") or {}
    for field in ("node", "gpu"):
        said, true = getattr(incident.culprit, field), culprit.get(field)
        if said is not None and true is not None and said not in listed(true):
            return f"names {field} {said}, not {true}"
    return ""
