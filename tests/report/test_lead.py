"""The three lines: what, who, what next."""

from __future__ import annotations

import pytest
from report.samples import inconclusive, no_incident, off_bus, two_incidents

from aiops.model.report import (
    Action,
    ActionName,
    ActionTarget,
    CheckpointChoice,
    Culprit,
    Evidence,
    Requeue,
    TimelineEntry,
)
from aiops.report import words
from aiops.report.cascade import cascade, echoes
from aiops.report.lead import lead


def test_an_incident_names_cause_culprit_and_next_step() -> None:
    top = lead(off_bus())
    assert top.verdict == "Incident"
    assert "fell off the PCIe bus" in top.what
    assert top.sure == "almost certain (96%)"
    assert top.who == "GPU 5 of gpu-r07-n03 · PCI 0000:ab:00.0 · rank 21 · job 81234 · cluster alpha"
    assert top.next == (
        "drain gpu-r07-n03 (needs approval); then requeue job 81234 without gpu-r07-n03, from step 41500"
    )
    assert top.commands == off_bus().incidents[0].actions[0].commands


def test_no_incident_says_that_nothing_is_to_be_done() -> None:
    top = lead(no_incident())
    assert (top.who, top.next, top.commands) == ("nobody is at fault", "nothing needs to be done", [])


def test_inconclusive_names_candidates_and_what_would_decide() -> None:
    top = lead(inconclusive())
    assert "rank 6 on node-b (nccl.missing_rank, 41%)" in top.who
    assert "nccl.timeout_unattributed, 38%" in top.who
    assert top.next.startswith("to decide, get: kernel log of node-b")
    assert "do not requeue" in top.next


def test_inconclusive_without_hypotheses_asks_for_what_is_missing() -> None:
    report = inconclusive()
    report.incidents = []
    assert lead(report).next == (
        "to decide, collect more; there is no kernel log of any node, no GPU metrics, no flight recorder dump and 1 more"
    )


def test_a_fix_comes_before_the_requeue() -> None:
    assert lead(two_incidents()).next == "fix the user code; requeue job ml/rlhf-3 only after the fix, from step 800"


def test_a_blocked_action_is_never_the_next_step() -> None:
    report = off_bus()
    incident = report.incidents[0]
    incident.actions = [incident.actions[3]]
    top = lead(report)
    assert top.commands == []
    assert "blocked: Reboot gpu-r07-n03 (the node is not drained yet)" in top.next


def test_the_requeue_is_said_once_when_it_is_the_first_step() -> None:
    report = off_bus()
    incident = report.incidents[0]
    incident.actions = [incident.actions[1], incident.actions[2]]
    top = lead(report)
    assert top.next == "requeue job 81234 without gpu-r07-n03, from step 41500"
    assert top.commands == incident.actions[1].commands


def test_all_culprits_are_named() -> None:
    report = off_bus()
    incident = report.incidents[0]
    incident.culprits += [Culprit(kind="node", node="n9"), Culprit(kind="rank", rank=3)]
    assert lead(report).who.endswith("; also n9 and rank 3")


@pytest.mark.parametrize(
    ("seconds", "said"),
    [
        (0, "0 s"),
        (0.4889, "489 ms"),
        (1.5, "1.5 s"),
        (2.0, "2 s"),
        (42.4, "42 s"),
        (59.6, "1 min"),
        (61, "1 min 1 s"),
        (936.4, "15 min 36 s"),
        (3600, "1 h"),
        (12_240, "3 h 24 min"),
        (187_200, "2 d 4 h"),
        (-90, "-1 min 30 s"),
        (float("nan"), "unknown"),
    ],
)
def test_durations_are_human(seconds: float, said: str) -> None:
    assert words.duration(seconds) == said


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (1.0, "almost certain (100%)"),
        (0.999, "almost certain (>99%)"),
        (0.93, "very likely (93%)"),
        (0.6, "likely (60%)"),
        (0.41, "possible (41%)"),
        (0.002, "weak (<1%)"),
        (0.0, "weak (0%)"),
    ],
)
def test_confidence_has_a_word_and_a_number(value: float, said: str) -> None:
    assert words.confidence(value) == said


def test_times_are_utc_and_broken_ones_stay_as_they_are() -> None:
    assert words.when("2026-11-28T05:14:07.5+02:00") == "2026-11-28 03:14:07 UTC"
    assert words.clock("2026-11-28T03:14:07.412Z", "2026-11-28") == "03:14:07.412"
    assert words.when("yesterday") == "yesterday"
    assert words.when("0001-01-01T00:00:00+14:00") == "0001-01-01T00:00:00+14:00"


@pytest.mark.parametrize(
    ("culprit", "name"),
    [
        (Culprit(kind="gpu", node="n1", pci="0000:3b:00.0"), "GPU 0000:3b:00.0 of n1"),
        (Culprit(kind="gpu", node="n1"), "a GPU of n1"),
        (Culprit(kind="node", node="n1"), "n1"),
        (Culprit(kind="rank", rank=0, node="n1"), "rank 0 on n1"),
        (Culprit(), "culprit unknown"),
        (Culprit(kind="storage", name="/ckpt"), "storage: /ckpt"),
        (Culprit(kind="network"), "network"),
        (Culprit(kind="link", node="n1", pci="0000:a9:00.0"), "link: 0000:a9:00.0 of n1"),
    ],
)
def test_every_culprit_has_a_name(culprit: Culprit, name: str) -> None:
    assert words.culprit_name(culprit) == name


@pytest.mark.parametrize("action", list(ActionName))
def test_every_action_has_a_name(action: ActionName) -> None:
    named = words.action_name(Action(action=action, target=ActionTarget(node="n1", gpu=3, job="7")), ["n1"])
    assert named and "{" not in named


def test_requeue_and_checkpoint_phrases() -> None:
    assert words.requeue(Requeue(verdict="exclude_nodes", exclude=["a", "b"]), "7") == "requeue job 7 without a and b"
    assert words.checkpoint_line(CheckpointChoice(rule="C3", why="no progress")) == "the start (rule C3: no progress)"
    assert words.checkpoint_line(CheckpointChoice()) == "none known (rule C0)"


def test_a_cascade_counts_from_the_latest_cause() -> None:
    story = cascade(off_bus().incidents[0])
    assert story is not None
    assert [step.delay_s for step in story.causes] == [None, pytest.approx(126.294)]
    assert [round(step.delay_s or -1, 3) for step in story.effects][:2] == [0.489, 3.588]
    assert cascade(two_incidents().incidents[1]) is None


def test_effects_that_differ_in_numbers_only_are_told_once() -> None:
    incident = off_bus().incidents[0]
    incident.timeline += [
        TimelineEntry(
            ts=f"2026-11-28T03:25:0{n}Z", entity=f"rank {n}", role="effect", text=f"rank {n} ended with signal SIGABRT"
        )
        for n in range(5)
    ]
    story = cascade(incident)
    assert story is not None
    last = echoes(story.effects)[-1]
    assert last.first.entry.entity == "rank 0"
    assert [step.entry.entity for step in last.others] == ["rank 1", "rank 2", "rank 3", "rank 4"]


def test_evidence_names_source_and_line_whatever_the_locator_says() -> None:
    def place(locator: str, line: int | None) -> str:
        return words.place(Evidence(id="e1", source="a.log", locator=locator, line=line, text=""))

    assert place("line 7", 7) == "a.log:7"
    assert place("sample", None) == "a.log (sample)"
    assert place("a.log@12:00", None) == "a.log@12:00"
    assert place("", None) == "a.log"
