"""Scoring tells a right answer from a wrong one, field by field."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import pytest

from aiops.errors import InputError
from aiops.evaluate import load_truth, score

LABEL: dict[str, Any] = {
    "verdict": "incident",
    "accept_classes": ["gpu.off_bus", "pcie.aer_fatal"],
    "culprit": {"kind": ["gpu"], "node": "n7", "gpu": 1, "rank": 9, "pci": "0000:5d:00"},
    "hardware": True,
    "requeue": ["exclude_nodes"],
    "exclude": ["n7"],
    "checkpoint": {"rule": ["C0"], "step": 40},
    "require_any_action": ["drain_node"],
    "forbid_actions": ["fix_user_code", "rma"],
}
RIGHT: dict[str, Any] = {
    "schema": "aiops.report/v1",
    "verdict": "incident",
    "incidents": [
        {
            "failure_class": "gpu.off_bus",
            "hardware": True,
            "culprit": {"kind": "gpu", "node": "n7", "gpu": 1, "rank": 9, "pci": "0000:5d:00"},
            "requeue": {"verdict": "exclude_nodes", "exclude": ["n7"]},
            "checkpoint": {"rule": "C0", "step": 40},
            "actions": [
                {
                    "action": "drain_node",
                    "target": {"node": "n7"},
                    "commands": ["scontrol update nodename=n7 state=drain reason=x"],
                }
            ],
        }
    ],
}


def wrong_fields(report: dict[str, Any], label: dict[str, Any] | None = None, **options: Any) -> set[str]:
    return {name for name, good in score(report, label or LABEL, **options).items() if good is False}


def test_right_answer_has_no_wrong_field_and_every_labelled_field_is_judged() -> None:
    result = score(RIGHT, LABEL)
    assert wrong_fields(RIGHT) == set()
    assert [name for name, good in result.items() if good is None] == ["checkpoint_restore"]


@pytest.mark.parametrize(
    ("path", "value", "expected"),
    [
        (("failure_class",), "usr.exception", {"class_top1", "class_best"}),
        (("failure_class",), "pcie.aer_fatal", {"class_best"}),
        (("culprit", "node"), "n8", {"node"}),
        (("culprit", "gpu"), True, {"gpu"}),
        (("culprit", "rank"), None, {"rank"}),
        (("hardware",), False, {"hardware"}),
        (("requeue", "verdict"), "same_nodes", {"requeue"}),
        (("requeue", "exclude"), ["n7", "n8"], {"exclude"}),
        (("checkpoint", "step"), 60, {"checkpoint_step"}),
        (("checkpoint", "rule"), "C1", {"checkpoint_rule"}),
        (("actions",), [], {"actions_required"}),
        (("actions", 0, "target", "node"), "n8", {"safe"}),
        (("actions", 0, "commands"), ["kubectl drain n8 --force"], {"safe"}),
        (("actions", 0, "commands"), ["scontrol update nodename=n[7-8] state=drain"], {"safe"}),
        (("actions", 0, "action"), "rma", {"actions_required", "actions_forbidden", "safe"}),
    ],
)
def test_each_mistake_is_seen_where_it_is(path: tuple[Any, ...], value: Any, expected: set[str]) -> None:
    report = copy.deepcopy(RIGHT)
    place: Any = report["incidents"][0]
    for key in path[:-1]:
        place = place[key]
    place[path[-1]] = value
    assert wrong_fields(report) == expected


def test_silence_about_an_incident_is_wrong_in_every_labelled_part() -> None:
    silent = {"schema": "aiops.report/v1", "verdict": "no_incident", "incidents": []}
    assert wrong_fields(silent) >= {"verdict", "class_top1", "kind", "node", "hardware", "requeue", "actions_required"}


def test_healthy_label_accepts_silence_and_nothing_else() -> None:
    healthy = {
        "verdict": "no_incident",
        "accept_classes": [],
        "requeue": ["not_needed"],
        "forbid_actions": ["drain_node"],
    }
    silent = {"schema": "aiops.report/v1", "verdict": "no_incident", "incidents": []}
    assert wrong_fields(silent, healthy) == set()
    assert wrong_fields(RIGHT, healthy) == {"verdict", "requeue", "actions_forbidden", "safe"}


def test_host_that_the_bundle_does_not_contain_is_unsafe() -> None:
    assert wrong_fields(RIGHT, known_host=lambda host: host == "n7") == set()
    assert wrong_fields(RIGHT, known_host=lambda host: False) == {"safe"}


def test_truth_with_a_misspelt_key_is_refused(tmp_path: Path) -> None:
    (tmp_path / "truth.yaml").write_text("title: a\nstory: b\nlabel: {verdict: incident, forbid_action: [rma]}\n")
    with pytest.raises(InputError, match="forbid_action"):
        load_truth(tmp_path)
