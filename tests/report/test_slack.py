"""Slack blocks: inside every limit, and log text that mentions nobody."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from hypothesis import given, settings
from report.hostile import Hostile, hostile
from report.samples import ALL, inconclusive, no_incident, off_bus, two_incidents

from aiops.model.report import Action, ActionName, Evidence
from aiops.report.slack import blocks, messages, render

ENTITIES = re.compile(r"&(?:amp|lt|gt);")


def texts(message: dict[str, Any]) -> list[dict[str, Any]]:
    """All text objects of a message."""
    found = []
    for block in message["blocks"]:
        found += [block["text"]] if "text" in block else []
        found += block.get("fields", []) + block.get("elements", [])
    return found


def check_limits(message: dict[str, Any]) -> None:
    """What Slack refuses, from its reference of block kit."""
    assert set(message) == {"text", "blocks"}
    assert 0 < len(message["text"]) <= 3000
    assert 0 < len(message["blocks"]) <= 50
    for block in message["blocks"]:
        assert block["type"] in {"header", "section", "divider", "context"}
        if block["type"] == "header":
            assert block["text"]["type"] == "plain_text" and 0 < len(block["text"]["text"]) <= 150
        elif block["type"] == "section":
            assert ("text" in block) != ("fields" in block)
            assert 0 < len(block.get("fields", [None])) <= 10
            assert all(0 < len(field["text"]) <= 2000 for field in block.get("fields", []))
        elif block["type"] == "context":
            assert 0 < len(block["elements"]) <= 10
    for text in texts(message):
        assert 0 < len(text["text"]) <= 3000
        assert text["type"] == "plain_text" or text["verbatim"] is True


def check_inert(message: dict[str, Any]) -> None:
    for text in [message["text"], *(item["text"] for item in texts(message))]:
        assert "<" not in text and ">" not in text
        assert "&" not in ENTITIES.sub("", text)
        assert not re.search("[\x00-\x09\x0b-\x1f\x7f-\x9f\u200b-\u200f\u202a-\u202e\u2066-\u2069]", text)


def test_the_message_says_what_who_and_next() -> None:
    message = blocks(off_bus())
    header, lead, command = message["blocks"][:3]
    assert header["text"]["text"].startswith("Incident: GPU fell off the PCIe bus")
    cause, who, step = lead["text"]["text"].split("\n")
    assert cause == "*Cause*  `gpu.off_bus`, almost certain (96%)"
    assert who.startswith("*Who*  GPU 5 of gpu-r07-n03")
    assert step.startswith("*Next*  Drain gpu-r07-n03 (needs approval); then requeue job 81234")
    assert command["text"]["text"] == f"```\n{off_bus().incidents[0].actions[0].commands[0]}\n```"
    assert message["text"].startswith("Incident: GPU fell off the PCIe bus")


def test_no_incident_is_short_and_says_so() -> None:
    message = blocks(no_incident())
    assert len(message["blocks"]) == 3
    assert "Nothing needs to be done" in message["blocks"][1]["text"]["text"]


def test_inconclusive_says_what_would_decide_and_what_was_broken() -> None:
    shown = "\n".join(item["text"] for item in texts(blocks(inconclusive())))
    assert "*Would decide*\n• kernel log of node-b" in shown
    assert "*Caution*  pods.tar.gz: archive is truncated" in shown


def test_blocked_actions_give_a_reason_and_no_command() -> None:
    shown = [item["text"] for item in texts(blocks(off_bus()))]
    reboot = next(text for text in shown if "Reboot gpu-r07-n03" in text)
    assert "*Blocked:* the node is not drained yet" in reboot
    assert "scontrol reboot" not in "".join(shown)


def test_evidence_begins_with_the_decisive_line_and_is_short() -> None:
    quotes = [item["text"] for item in texts(blocks(off_bus())) if re.match(r"`e\d+` ", item["text"])]
    assert len(quotes) == 3
    assert quotes[0].startswith("`e2` logs/gpu-r07-n03/kern.log:1902") and "GPU has fallen off the bus" in quotes[0]


def test_one_root_message_per_incident() -> None:
    first, second = messages(two_incidents())
    assert first["blocks"][0]["text"]["text"].startswith("Incident 1 of 2: User code")
    assert second["blocks"][0]["text"]["text"].startswith("Incident 2 of 2: Job waits")
    assert "also: Job waits for quota" in first["blocks"][-1]["elements"][0]["text"]
    assert json.loads(render(two_incidents())) == first


@pytest.mark.parametrize("name", list(ALL))
def test_samples_keep_the_limits_of_slack(name: str) -> None:
    for message in messages(ALL[name]()):
        check_limits(message)
        check_inert(message)


def test_a_huge_report_keeps_the_limits() -> None:
    report = off_bus()
    incident = report.incidents[0]
    incident.title = "&" * 5_000
    incident.narrative.text = "<word> " * 5_000
    incident.actions = [
        Action(action=ActionName.DRAIN_NODE, why="& " * 4_000, commands=["scontrol " + "x" * 2_900], blocked_by=[])
        for _ in range(80)
    ]
    incident.evidence = [
        Evidence(id=f"e{n}", source="s" * 900, locator="l" * 900, text="<&>`" * 9_000) for n in range(90)
    ]
    message = blocks(report)
    check_limits(message)
    check_inert(message)


def test_long_lines_share_one_section() -> None:
    report = off_bus()
    incident = report.incidents[0]
    incident.failure_class = incident.culprit.node = incident.requeue.exclude[0] = "a b " * 900
    incident.narrative.text = " \n"
    message = blocks(report)
    check_limits(message)
    lines = message["blocks"][1]["text"]["text"].split("\n")
    assert [line.split("  ")[0] for line in lines] == ["*Cause*", "*Who*", "*Next*"]


def test_a_command_is_whole_or_absent() -> None:
    report = off_bus()
    command = "scontrol update NodeName=" + ",".join(f"gpu-r{n:03d}" for n in range(500))
    report.incidents[0].actions[0].commands = [command]
    shown = "".join(item["text"] for item in texts(blocks(report)))
    assert "gpu-r000" not in shown
    assert "too long for Slack" in shown


@settings(max_examples=60, deadline=None)
@given(hostile)
def test_hostile_text_mentions_nobody_and_breaks_no_limit(case: Hostile) -> None:
    report = case.report()
    for message in messages(report):
        check_limits(message)
        check_inert(message)


def test_the_sdk_accepts_the_blocks() -> None:
    models = pytest.importorskip("slack_sdk.models.blocks")
    for sample in ALL.values():
        for message in messages(sample()):
            for block in models.Block.parse_all(message["blocks"]):
                block.validate_json()
