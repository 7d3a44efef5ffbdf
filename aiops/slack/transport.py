"""slack-sdk with its traps covered; imported only when something is posted.

Its retry handlers are off by default, its logger prints URLs at debug level, a ``Retry-After`` of an hour sleeps for an
hour, and a proxy from the environment is used for loopback addresses, too.
"""

from __future__ import annotations

import logging
import re
from dataclasses import dataclass
from http.client import HTTPException
from typing import Any, Protocol
from urllib.parse import urlsplit

from slack_sdk import WebClient
from slack_sdk.errors import SlackApiError, SlackClientError
from slack_sdk.http_retry import HttpRequest, HttpResponse, RetryHandler, RetryState
from slack_sdk.http_retry.builtin_handlers import RateLimitErrorRetryHandler, ServerErrorRetryHandler
from slack_sdk.webhook import WebhookClient

from aiops.errors import InputError, SourceError
from aiops.loopback import is_loopback
from aiops.slack.parts import Message

MAX_WAIT = 60
"""Longest ``Retry-After``, in seconds, that is waited for."""

_QUIET = logging.Logger("aiops.slack", level=logging.CRITICAL + 1)
_BROKEN = (SlackClientError, OSError, HTTPException, ValueError)
"""What the SDK raises for a refused connection, a broken one, a time-out, and a body that is not JSON."""

_HINTS = {
    "invalid_auth": "the token is not valid",
    "not_authed": "the token is not valid",
    "token_revoked": "the token was revoked",
    "token_expired": "the token has expired",
    "account_inactive": "the token's account was deleted",
    "missing_scope": "the bot lacks the scope chat:write",
    "channel_not_found": "no such channel, or the bot may not see it",
    "not_in_channel": "invite the bot to the channel",
    "is_archived": "the channel is archived",
    "channel_is_archived": "the channel is archived",
    "ratelimited": "too many messages; try again later",
    "no_service": "the webhook was removed or switched off",
    "no_team": "the webhook's workspace is gone",
    "invalid_token": "the webhook is not valid",
    "action_prohibited": "an administrator forbids this webhook",
}


@dataclass(frozen=True, slots=True)
class Sent:
    """Where a message stands now; a webhook does not tell."""

    channel: str | None = None
    ts: str | None = None


class Sender(Protocol):
    """Takes one message at a time."""

    def send(self, message: Message, thread: str | None) -> Sent:
        """Post a message, as a reply if ``thread`` is the ``ts`` of another one.

        Raises:
            SourceError: Slack refused it or could not be reached.
        """


class _RateLimit(RateLimitErrorRetryHandler):
    """Waits as long as Slack asks, but not for hours."""

    def _can_retry(
        self,
        *,
        state: RetryState,
        request: HttpRequest,
        response: HttpResponse | None = None,
        error: Exception | None = None,
    ) -> bool:
        if response is None or response.status_code != 429:
            return False
        wait = [value for name, values in response.headers.items() if name.lower() == "retry-after" for value in values]
        return not wait or (wait[0].isascii() and wait[0].isdigit() and int(wait[0]) <= MAX_WAIT)


def _handlers() -> list[RetryHandler]:
    return [_RateLimit(max_retry_count=3), ServerErrorRetryHandler(max_retry_count=2)]


class WebhookSender:
    """An incoming webhook. The path of its URL is the secret."""

    def __init__(self, url: str, timeout: float) -> None:
        loopback = _check_url(url, "the webhook")
        self._client = WebhookClient(url, timeout=_whole(timeout), logger=_QUIET, retry_handlers=_handlers())
        if loopback:
            self._client.proxy = None

    def send(self, message: Message, thread: str | None) -> Sent:
        """See `Sender.send`; threads are out of a webhook's reach."""
        try:
            response = self._client.send(
                text=message["text"], blocks=message["blocks"], unfurl_links=False, unfurl_media=False
            )
        except _BROKEN:
            raise SourceError("Slack's webhook cannot be reached, or broke the connection") from None
        if response.status_code != 200 or response.body.strip() != "ok":
            raise SourceError(f"Slack's webhook refused the message: {_reason(response.body, response.status_code)}")
        return Sent()


class ChannelSender:
    """``chat.postMessage`` with a bot token."""

    def __init__(
        self, token: str | None, channel: str, base_url: str | None, client: WebClient | None, timeout: float
    ) -> None:
        if client is None:
            if not token or not re.fullmatch(r"[!-~]+", token):
                raise InputError("the Slack token is empty or holds characters that no token has")
            url = (base_url or WebClient.BASE_URL).rstrip("/") + "/"
            loopback = _check_url(url, "the address of Slack's Web API")
            client = WebClient(
                token=token, base_url=url, timeout=_whole(timeout), logger=_QUIET, retry_handlers=_handlers()
            )
            if loopback:
                client.proxy = None
        self._client = client
        self._channel = channel

    def send(self, message: Message, thread: str | None) -> Sent:
        """See `Sender.send`."""
        try:
            # Slack would fetch every link in a log to show a preview of it.
            response = self._client.chat_postMessage(
                channel=self._channel,
                text=message["text"],
                blocks=message["blocks"],
                thread_ts=thread,
                unfurl_links=False,
                unfurl_media=False,
            )
        except SlackApiError as error:
            raise SourceError(f"Slack refused the message: {_api_reason(error.response)}") from None
        except _BROKEN:
            raise SourceError("Slack cannot be reached, or broke the connection") from None
        # The answer names the channel by id, even if it was given as "#name"; a reply needs the id.
        self._channel = str(response.get("channel") or self._channel)
        return Sent(self._channel, response.get("ts"))


def _whole(seconds: float) -> int:
    """The SDK wants whole seconds, and 0 would mean not to wait at all."""
    return max(1, round(seconds))


def _check_url(url: str, what: str) -> bool:
    """True if the URL is on this machine; the message of an error does not repeat the URL.

    Raises:
        InputError: it is neither https nor loopback, or it holds a password.
    """
    try:
        parts = urlsplit(url)
        host, user = parts.hostname, parts.username
    except ValueError:
        host = user = None
    if not host or user is not None or re.search(r"[\s\x00-\x1f]", url):
        raise InputError(f"{what} is not a URL of Slack")
    loopback = is_loopback(host)
    if parts.scheme != "https" and not (parts.scheme == "http" and loopback):
        raise InputError(f"{what} must start with https://")
    return loopback


def _api_reason(response: Any) -> str:
    data = response.data if isinstance(getattr(response, "data", None), dict) else response
    status = getattr(response, "status_code", 0)
    return _reason(data.get("error") if isinstance(data, dict) else None, status)


def _reason(code: object, status: int) -> str:
    """Slack's own code for the error with a hint; anything else that a server may say is not repeated."""
    word = code.strip() if isinstance(code, str) else ""
    if not re.fullmatch(r"[a-z][a-z0-9_]{1,63}", word):
        word = "ratelimited" if status == 429 else f"HTTP {status}"
    return f"{word} ({_HINTS[word]})" if word in _HINTS else word
