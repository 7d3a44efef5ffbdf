"""A report goes out: redacted, split to Slack's limits, the first message in the channel and the rest in its thread."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from aiops.errors import InputError, SourceError
from aiops.model.report import Report
from aiops.slack.parts import Message, split

if TYPE_CHECKING:
    from slack_sdk import WebClient


@dataclass(frozen=True, slots=True)
class PostResult:
    """What was posted: ``ts`` identifies the first message, so that it can be edited later (webhooks give none)."""

    channel: str | None
    ts: str | None
    replies: tuple[str, ...]
    """``ts`` of the thread's messages."""
    messages: int
    redacted: int
    """Secrets that were replaced in the report."""


def post(
    report: Report,
    *,
    webhook: str | None = None,
    token: str | None = None,
    channel: str | None = None,
    base_url: str | None = None,
    client: WebClient | None = None,
    timeout: float = 30,
) -> PostResult:
    """Post the report to a webhook, or to a channel with a bot token (or a ready ``client``).

    With a token the first incident is one message, and what does not fit, and further incidents, are replies in its
    thread. A webhook knows no threads: there everything is a message of its own.

    Args:
        base_url: of the Web API, for Slack's government cloud or a test double.
        timeout: seconds for one try; rate limits and server errors are tried again.

    Raises:
        InputError: not exactly one target, a URL that is neither https nor loopback, or slack-sdk is not installed.
        SourceError: Slack refused or could not be reached; the message names neither token nor webhook.
    """
    if (webhook is None) == (token is None and client is None):
        raise InputError("name one target: a webhook, or a bot token with a channel")
    if webhook is None and not channel:
        raise InputError("a bot token needs a channel to post to")
    try:
        from aiops.slack import transport
    except ImportError as error:
        raise InputError(
            "posting to Slack needs slack-sdk: install this package with its extra [slack] (see README)"
        ) from error
    # Everything is checked before the report is prepared: a wrong URL costs nothing.
    sender: transport.Sender
    if webhook is not None:
        sender = transport.WebhookSender(webhook, timeout)
    else:
        sender = transport.ChannelSender(token, str(channel), base_url, client, timeout)
    outgoing, redacted = _messages(report)
    return _send(sender, outgoing, redacted)


def _messages(report: Report) -> tuple[list[Message], int]:
    from aiops.redaction import redact_report
    from aiops.report.slack import messages

    safe, redacted = redact_report(report)
    return [part for message in messages(safe) for part in split(message)], redacted


def _send(sender: Any, outgoing: list[Message], redacted: int) -> PostResult:
    first, *rest = outgoing
    root = sender.send(first, None)
    replies: list[str] = []
    for message in rest:
        try:
            sent = sender.send(message, root.ts)
        except SourceError as error:
            raise SourceError(f"{error}; {len(replies) + 1} of {len(outgoing)} messages were posted before") from None
        replies.append(sent.ts or "")
    return PostResult(root.channel, root.ts, tuple(ts for ts in replies if ts), len(outgoing), redacted)
