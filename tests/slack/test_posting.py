"""Posting to Slack over real sockets: threads, limits, rate limits, errors that keep secrets."""

from __future__ import annotations

import json
import logging
import re
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest
from report import samples
from services.slack_server import Failure, SlackServer

from aiops.errors import InputError, SourceError
from aiops.model.report import Action, ActionName, ActionTarget, Report
from aiops.slack import post
from aiops.slack.parts import split


@pytest.fixture
def waits(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """What the SDK would have waited between tries."""
    slept: list[float] = []
    monkeypatch.setattr(time, "sleep", slept.append)
    return slept


def long_report() -> Report:
    """Five actions whose commands fill Slack's blocks."""
    report = samples.off_bus()
    report.incidents[0].actions = [
        Action(
            action=ActionName.INVESTIGATE,
            target=ActionTarget(node="gpu-r07-n03"),
            scheduler="slurm",
            commands=[f"dcgmi diag -r {number} --iterations 1 --parameters test{i}" for i in range(45)],
            why="why",
        )
        for number in range(1, 6)
    ]
    return report


def to_channel(slack: SlackServer, report: Report, channel: str = "C1", **more: object):
    return post(report, token=slack.token, channel=channel, base_url=slack.api, **more)  # type: ignore[arg-type]


def test_a_report_is_one_message_in_the_channel():
    with SlackServer() as slack:
        result = to_channel(slack, samples.off_bus(), "#gpu-incidents")
    (message,) = slack.messages
    assert (result.channel, result.ts, result.replies, result.messages) == ("C1", message["ts"], (), 1)
    assert "GPU fell off the PCIe bus" in message["text"]
    assert message["blocks"][0]["type"] == "header"
    assert "drain" in json.dumps(message["blocks"]).lower()
    assert message["unfurl_links"] is False and message["unfurl_media"] is False
    assert slack.calls[0].headers["Authorization"] == f"Bearer {slack.token}"


def test_a_webhook_takes_the_same_blocks():
    with SlackServer() as slack:
        result = post(samples.off_bus(), webhook=slack.webhook)
        to_channel(slack, samples.off_bus())
    assert (result.ts, result.messages) == (None, 1)
    assert slack.messages[0]["blocks"] == slack.messages[1]["blocks"]


def test_what_does_not_fit_goes_into_the_thread():
    with SlackServer() as slack:
        result = to_channel(slack, long_report(), "#gpu-incidents")
    root, *replies = slack.messages
    assert replies
    assert root["thread_ts"] is None
    assert {reply["thread_ts"] for reply in replies} == {root["ts"]} == {result.ts}
    assert result.replies == tuple(reply["ts"] for reply in replies)
    assert replies[0]["text"].startswith("(2/")
    shown = json.dumps([message["blocks"] for message in slack.messages])
    assert all(f"dcgmi diag -r {number} --iterations 1 --parameters test44" in shown for number in range(1, 6))


def test_further_incidents_are_replies():
    with SlackServer() as slack:
        to_channel(slack, samples.two_incidents())
    root, second = slack.messages
    assert second["thread_ts"] == root["ts"]
    assert "IndexError" in root["text"] and "quota" in second["text"]


def test_a_webhook_has_no_thread_so_all_parts_are_messages():
    with SlackServer() as slack:
        result = post(long_report(), webhook=slack.webhook)
    assert result.messages == len(slack.messages) > 1


@pytest.mark.parametrize("name", samples.ALL)
def test_every_sample_report_is_taken(name):
    with SlackServer() as slack:
        assert to_channel(slack, samples.ALL[name]()).messages == len(slack.messages) >= 1


def test_splitting_keeps_every_block_and_every_limit():
    sections = [{"type": "section", "text": {"type": "mrkdwn", "text": f"{i} " + "x" * 700}} for i in range(120)]
    blocks = [
        block
        for i, section in enumerate(sections)
        for block in ([{"type": "divider"}] if i % 7 == 0 else []) + [section]
    ]
    parts = split({"text": "t", "blocks": blocks})
    assert [b for part in parts for b in part["blocks"] if b["type"] == "section"] == sections
    for part in parts:
        assert 0 < len(part["blocks"]) <= 50
        assert len(json.dumps(part["blocks"])) < 13_000
        assert part["text"]
    firsts = [part["blocks"][0] for part in parts[1:]]
    assert firsts and all(int(block["text"]["text"].split()[0]) % 7 == 0 for block in firsts)
    many = [{"type": "section", "text": {"type": "mrkdwn", "text": "x"}}] * 120
    assert [len(part["blocks"]) for part in split({"text": "t", "blocks": many})] == [50, 50, 20]


def test_a_rate_limit_is_waited_for(waits):
    limited = Failure(429, {"ok": False, "error": "ratelimited"}, {"Retry-After": "7"})
    with SlackServer(limited) as slack:
        to_channel(slack, samples.off_bus())
    assert len(slack.calls) == 2
    assert len(slack.messages) == 1
    assert len(waits) == 1 and 7 <= waits[0] < 8.1


def test_a_rate_limit_on_a_webhook_is_waited_for(waits):
    with SlackServer(Failure(429, "rate_limited", {"Retry-After": "1"})) as slack:
        post(samples.off_bus(), webhook=slack.webhook)
    assert len(slack.calls) == 2 and len(slack.messages) == 1


@pytest.mark.parametrize("wait", ["3600", "soon", "-1"])
def test_nobody_waits_for_an_hour(waits, wait):
    limited = Failure(429, {"ok": False, "error": "ratelimited"}, {"Retry-After": wait})
    with SlackServer(limited) as slack, pytest.raises(SourceError, match="too many messages"):
        to_channel(slack, samples.off_bus())
    assert len(slack.calls) == 1 and waits == []


def test_a_server_error_is_tried_again(waits):
    with SlackServer(Failure(503, "down"), Failure(500, "down")) as slack:
        to_channel(slack, samples.off_bus())
    assert len(slack.calls) == 3 and len(slack.messages) == 1


HTML = "<html>proxy error for xoxb-1111111111-doubledouble</html>"


@pytest.mark.parametrize(
    ("failure", "reason"),
    [
        (Failure(200, {"ok": False, "error": "missing_scope", "needed": "chat:write"}), "missing_scope .*chat:write"),
        (Failure(200, {"ok": False, "error": "is_archived"}), "the channel is archived"),
        (Failure(200, {"ok": False, "error": "<b>xoxb-1111111111-doubledouble</b>"}), "HTTP 200"),
        (Failure(200, {"ok": False}), "HTTP 200"),
        (Failure(200, HTML), "Slack"),
        (Failure(502, HTML), "HTTP 502"),
        (Failure(200, '{"ok": tru'), "Slack"),
        (Failure(404, {"ok": False, "error": "unknown_method"}), "unknown_method"),
    ],
    ids=["scope", "archived", "strange", "nothing", "html", "502", "cut", "404"],
)
def test_an_error_names_the_reason_and_no_secret(failure, reason):
    with SlackServer(failure) as slack, pytest.raises(SourceError, match=reason) as error:
        to_channel(slack, samples.off_bus())
    assert error.value.exit_code == 3
    assert "xoxb" not in str(error.value) and "<" not in str(error.value)
    assert error.value.__cause__ is None


def test_a_wrong_token_and_a_wrong_channel():
    with SlackServer() as slack:
        with pytest.raises(SourceError, match="invalid_auth .the token is not valid") as error:
            post(samples.off_bus(), token="xoxb-wrongwrong", channel="C1", base_url=slack.api)
        assert "wrongwrong" not in str(error.value)
        with pytest.raises(SourceError, match="channel_not_found .no such channel"):
            to_channel(slack, samples.off_bus(), "#nowhere")
    assert slack.messages == []


def test_a_wrong_webhook_is_not_repeated():
    with SlackServer() as slack, pytest.raises(SourceError, match="no_service .the webhook was removed") as error:
        post(samples.off_bus(), webhook=slack.webhook.replace("s3cr3tpath", "s3cr3tother"))
    assert "s3cr3t" not in str(error.value) and "/services" not in str(error.value)


@pytest.mark.parametrize("failure", [Failure(200, HTML), Failure(403, HTML), Failure(410, "channel_is_archived")])
def test_a_webhook_that_answers_anything_but_ok_has_failed(failure):
    with SlackServer(failure) as slack, pytest.raises(SourceError) as error:
        post(samples.off_bus(), webhook=slack.webhook)
    assert "xoxb" not in str(error.value) and "s3cr3t" not in str(error.value)


def test_a_thread_that_breaks_says_how_far_it_came():
    said = pytest.raises(SourceError, match="fatal_error; 1 of [3-9] messages were posted before")
    with SlackServer(Failure(200, {"ok": False, "error": "fatal_error"}, after=1)) as slack, said:
        to_channel(slack, long_report())
    assert len(slack.messages) == 1


@pytest.mark.parametrize("way", ["webhook", "token"])
def test_nobody_listens(way):
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        base = f"http://127.0.0.1:{unused.getsockname()[1]}/"
        target = (
            {"webhook": base + "services/s3cr3t"}
            if way == "webhook"
            else {"token": "xoxb-s3cr3t", "channel": "C1", "base_url": base}
        )
        with pytest.raises(SourceError, match="cannot be reached") as error:
            post(samples.off_bus(), **target)
    assert "s3cr3t" not in str(error.value)


def test_the_sdk_logs_no_secret(caplog):
    caplog.set_level(logging.DEBUG)
    with SlackServer() as slack:
        post(samples.off_bus(), webhook=slack.webhook)
        to_channel(slack, samples.off_bus())
    assert "s3cr3tpath" not in caplog.text and slack.token not in caplog.text


def test_markup_in_a_log_stays_text():
    report = samples.off_bus()
    evil = "<script>alert(1)</script> <!channel> <@U123> <https://evil.example|click> & *bold*"
    report.incidents[0].evidence[1].text = evil
    report.incidents[0].title = evil
    report.incidents[0].narrative.text = evil
    with SlackServer() as slack:
        to_channel(slack, report)
    (message,) = slack.messages
    shown = json.dumps(message["blocks"], ensure_ascii=False) + message["text"]
    assert "&lt;!channel&gt;" in shown
    assert not re.search(r"<(?:!|@|script|https?:)", shown)


def test_no_secret_of_a_log_is_posted():
    report = samples.off_bus()
    report.incidents[0].evidence[1].text += " password=hunter2secret AKIAIOSFODNN7EXAMPLE"
    report.incidents[0].narrative.text += " See token=abcd1234efgh."
    with SlackServer() as slack:
        result = to_channel(slack, report)
    raw = "".join(call.raw for call in slack.calls)
    assert result.redacted == 3
    assert not any(secret in raw for secret in ("hunter2secret", "AKIAIOSFODNN7EXAMPLE", "abcd1234efgh"))
    assert "[redacted:" in raw


def test_a_ready_client_can_be_used():
    from slack_sdk import WebClient

    with SlackServer() as slack:
        client = WebClient(token=slack.token, base_url=slack.api)
        assert client.auth_test()["team"] == "Double"
        assert post(samples.no_incident(), client=client, channel="C1").messages == 1


@pytest.mark.parametrize(
    ("target", "reason"),
    [
        ({}, "name one target"),
        ({"webhook": "https://hooks.slack.com/services/x", "token": "xoxb-1"}, "name one target"),
        ({"token": "xoxb-1"}, "needs a channel"),
        ({"webhook": "http://hooks.slack.com/services/s3cr3t"}, "must start with https"),
        ({"webhook": "file:///etc/passwd"}, "not a URL of Slack"),
        ({"webhook": "https://user:s3cr3t@hooks.slack.com/x"}, "not a URL of Slack"),
        ({"webhook": "https://[bad/s3cr3t"}, "not a URL of Slack"),
        ({"webhook": "s3cr3t"}, "not a URL of Slack"),
        ({"token": "xoxb-1\r\nX: y", "channel": "C1"}, "characters that no token has"),
        ({"token": "xoxb-1", "channel": "C1", "base_url": "http://slack.example/api/"}, "must start with https"),
    ],
)
def test_a_wrong_target_is_a_usage_error_before_anything_is_sent(target, reason):
    with pytest.raises(InputError, match=reason) as error:
        post(samples.off_bus(), **target)
    assert error.value.exit_code == 2
    assert "s3cr3t" not in str(error.value)


def test_a_proxy_of_the_environment_is_not_asked_for_loopback(monkeypatch):
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    monkeypatch.setenv("HTTPS_PROXY", "http://127.0.0.1:9")
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    with SlackServer() as slack:
        assert to_channel(slack, samples.no_incident()).messages == 1
        assert post(samples.no_incident(), webhook=slack.webhook).messages == 1


def test_without_slack_sdk_the_error_names_the_extra(root: Path):
    code = (
        "import sys; sys.modules['slack_sdk'] = None; sys.path.insert(0, 'tests')\n"
        "from report import samples; from aiops.slack import post\n"
        "post(samples.off_bus(), webhook='http://127.0.0.1:9/services/x')"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=root, capture_output=True, check=False)
    assert b"InputError" in done.stderr and b"extra [slack]" in done.stderr
