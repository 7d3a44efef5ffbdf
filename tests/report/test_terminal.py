"""The terminal: three lines first, then the proof; nothing in it can drive the terminal."""

from __future__ import annotations

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from report.hostile import Hostile, hostile
from report.samples import ALL, inconclusive, no_incident, off_bus, two_incidents
from rich.cells import cell_len

from aiops.report.terminal import render

SGR = re.compile(r"\x1b\[[0-9;]*m")


def test_the_first_three_lines_say_what_who_and_next() -> None:
    what, who, step, command = render(off_bus(), width=110).splitlines()[:4]
    assert re.fullmatch(r"INCIDENT +GPU fell off the PCIe bus, .+ almost certain \(96%\)", what)
    assert re.match(r"WHO +GPU 5 of gpu-r07-n03 · PCI 0000:ab:00\.0", who)
    assert re.match(r"NEXT +Drain gpu-r07-n03 .* requeue job 81234 without gpu-r07-n03, from step 41500", step)
    assert command.strip() == off_bus().incidents[0].actions[0].commands[0]


def test_no_incident_needs_no_reading() -> None:
    what, who, step = render(no_incident(), width=120).splitlines()[:3]
    assert what.startswith("NO INCIDENT  Job 90412 finished")
    assert "nobody is at fault" in who
    assert "Nothing needs to be done" in step


def test_trouble_with_the_input_stands_near_the_top() -> None:
    shown = render(inconclusive(), width=140).splitlines()
    assert any(line.startswith("CAUTION") and "truncated" in line for line in shown[:6])


def test_blocked_actions_say_why() -> None:
    shown = render(off_bus(), width=140)
    assert re.search(r"Reboot gpu-r07-n03  blocked: the node is not drained yet", shown)
    assert "undo scontrol update NodeName=gpu-r07-n03 State=UNDRAIN" in shown


def test_quotations_have_source_and_line() -> None:
    assert "e2 logs/gpu-r07-n03/kern.log:1902" in render(off_bus())


def test_commands_are_never_broken() -> None:
    report = off_bus()
    long = "scontrol update " + " ".join(f"NodeName=node{i}" for i in range(60))
    report.incidents[0].actions[0].commands = [long]
    assert sum(line.strip() == long for line in render(report, width=60).splitlines()) == 2


def test_every_incident_is_named() -> None:
    shown = render(two_incidents(), width=100)
    assert shown.index("User code raised") < shown.index("ALSO") < shown.index("INCIDENT 2 OF 2")


@pytest.mark.parametrize("name", list(ALL))
def test_the_same_report_gives_the_same_text(name: str) -> None:
    assert render(ALL[name](), width=90, color=True) == render(ALL[name](), width=90, color=True)


@pytest.mark.parametrize("name", list(ALL))
@pytest.mark.parametrize("width", [20, 40, 80, 200])
def test_no_line_is_wider_than_the_terminal_except_commands(name: str, width: int) -> None:
    report = ALL[name]()
    commands = [
        line
        for incident in report.incidents
        for action in incident.actions
        for command in [*action.commands, *action.undo]
        for line in command.split("\n")
    ]
    for line in render(report, width=width).splitlines():
        assert cell_len(line) <= max(width, 40) or any(line.endswith(command) for command in commands)


@pytest.mark.parametrize("name", list(ALL))
def test_colour_adds_colour_and_nothing_else(name: str) -> None:
    coloured = render(ALL[name](), width=100, color=True)
    assert SGR.search(coloured)
    assert SGR.sub("", coloured) == render(ALL[name](), width=100, color=False)


def test_the_environment_of_the_process_does_not_matter(monkeypatch: pytest.MonkeyPatch) -> None:
    plain = render(off_bus(), width=100, color=True)
    for name, value in {"NO_COLOR": "1", "TERM": "dumb", "COLUMNS": "33", "FORCE_COLOR": "1"}.items():
        monkeypatch.setenv(name, value)
    assert render(off_bus(), width=100, color=True) == plain


@pytest.mark.parametrize("name", list(ALL))
def test_ascii_terminals_get_ascii(name: str) -> None:
    assert render(ALL[name](), width=100, unicode=False).isascii()


@settings(max_examples=60, deadline=None)
@given(hostile, st.booleans(), st.integers(40, 130))
def test_hostile_text_never_reaches_the_terminal_as_control(case: Hostile, color: bool, width: int) -> None:
    report = case.report()
    shown = SGR.sub("", render(report, width=width, color=color)) if color else render(report, width=width)
    assert not re.search("[\x00-\x09\x0b-\x1f\x7f-\x9f\u200b-\u200f\u202a-\u202e\u2066-\u2069\ufeff]", shown)
    shown.encode("utf-8")


def test_rich_markup_in_a_log_stays_text() -> None:
    report = off_bus()
    report.incidents[0].title = "[bold red]alarm[/bold red] [link=https://evil.example]x[/link]"
    assert "[bold red]alarm[/bold red] [link=https://evil.example]x[/link]" in render(report, width=200, color=True)
