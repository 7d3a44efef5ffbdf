"""Markdown: a ticket that shows log text and never runs it."""

from __future__ import annotations

import re

import pytest
from hypothesis import given, settings
from markdown_it import MarkdownIt
from markdown_it.token import Token
from report.hostile import Hostile, hostile
from report.samples import ALL, inconclusive, no_incident, off_bus

from aiops.report.markdown import render

OURS = {
    "heading_open",
    "heading_close",
    "paragraph_open",
    "paragraph_close",
    "bullet_list_open",
    "bullet_list_close",
    "list_item_open",
    "list_item_close",
    "fence",
    "inline",
}
OURS_INLINE = {"text", "text_special", "code_inline", "strong_open", "strong_close", "softbreak"}
LIVE = re.compile(r"https?://|www\.|[\w.]@\w|@\w|#\d", re.IGNORECASE)


def parse(markdown: str) -> list[Token]:
    return MarkdownIt("commonmark").enable(["table", "strikethrough"]).parse(markdown)


def inline(tokens: list[Token]) -> list[Token]:
    return [child for token in tokens for child in token.children or []]


def shown(tokens: list[Token]) -> str:
    return "".join(child.content for child in inline(tokens))


def test_the_first_three_lines_say_what_who_and_next() -> None:
    what, who, step = render(off_bus()).splitlines()[:3]
    assert what.startswith("# Incident: GPU fell off the PCIe bus") and what.endswith("almost certain (96%)")
    assert who.startswith("- **Who:** GPU 5 of gpu-r07-n03")
    assert step.startswith("- **Next:** Drain gpu-r07-n03 (needs approval); then requeue job 81234")


def test_commands_stand_in_blocks_and_evidence_with_its_line() -> None:
    fences = [token.content.strip() for token in parse(render(off_bus())) if token.type == "fence"]
    incident = off_bus().incidents[0]
    for action in incident.actions:
        for commands in (action.commands, action.undo):
            assert not commands or "\n".join(commands) in fences
    assert any(f"> {incident.evidence[1].text}" in fence.split("\n") for fence in fences)
    assert "`logs/gpu-r07-n03/kern.log:1902`" in render(off_bus())


def test_blocked_actions_say_why() -> None:
    assert "**Reboot gpu-r07-n03** — blocked: the node is not drained yet" in render(off_bus())


def test_only_incidents_ask_for_a_post_mortem() -> None:
    assert "## To fill in" in render(off_bus())
    assert "## To fill in" not in render(off_bus(), postmortem=False)
    assert "## To fill in" not in render(no_incident()) + render(inconclusive())


def test_trouble_with_the_input_stands_near_the_top() -> None:
    top = render(inconclusive()).split("## ")[0]
    assert "**Caution:** pods.tar.gz: archive is truncated" in top


@pytest.mark.parametrize("name", list(ALL))
def test_the_headings_are_ours(name: str) -> None:
    tokens = parse(render(ALL[name]()))
    headings = [tokens[n + 1].content for n, token in enumerate(tokens) if token.type == "heading_open"]
    assert headings[0].startswith(("Incident", "No incident", "Inconclusive"))
    assert {re.sub(r" \(UTC.*| \d.*", "", h) for h in headings[1:] if not h.startswith("Incident")} <= {
        "Summary",
        "What to do",
        "Timeline",
        "Why",
        "Evidence",
        "To fill in",
        "What was read",
    }


@settings(max_examples=60, deadline=None)
@given(hostile)
def test_hostile_text_makes_no_markup(case: Hostile) -> None:
    report = case.report()
    tokens = parse(render(report))
    assert {token.type for token in tokens} <= OURS
    assert {child.type for child in inline(tokens)} <= OURS_INLINE
    assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b-\u200f\u202a-\u202e\u2066-\u2069]", render(report))
    # Trackers look for links and mentions in what is not code.
    for token in tokens:
        prose = "".join(
            child.content if child.type in ("text", "text_special") else " " for child in token.children or []
        )
        assert not LIVE.search(prose)


@settings(max_examples=60, deadline=None)
@given(hostile)
def test_hostile_text_does_not_change_the_outline(case: Hostile) -> None:
    report = case.report()
    tokens = parse(render(report))
    headings = sum(token.type == "heading_open" and token.tag == "h1" for token in tokens)
    assert headings == len(report.incidents)
    strong = [
        child.content
        for token in tokens
        if token.type == "inline"
        for child in token.children or []
        if child.type == "strong_open"
    ]
    assert len(strong) >= 2 * headings  # Who and Next are still there, in every lead
    fences = sum(token.type == "fence" for token in tokens)
    expected = sum(bool(a.commands) + bool(a.undo) for i in report.incidents for a in i.actions)
    expected += sum(len(i.evidence) for i in report.incidents)
    assert expected <= fences <= expected + len(report.incidents)


def test_text_is_shown_as_it_was() -> None:
    report = off_bus()
    title = "<b>bold</b> *stars* _under_ [x](y) `code` a|b \\ ~s~ 1. # > !"
    report.incidents[0].title = title
    tokens = parse(render(report))
    assert title.replace("`code`", "code") in shown(tokens[:3])
