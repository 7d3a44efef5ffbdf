"""Which model is asked, and how much it may cost."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from aiops.errors import InputError

OPENAI_URL = "https://api.openai.com/v1"


@dataclass(frozen=True, slots=True, kw_only=True)
class CopilotOptions:
    """An OpenAI-compatible endpoint and the limits of one call of `narrate`."""

    model: str = ""
    """Name that the endpoint knows the model by."""
    base_url: str = OPENAI_URL
    """URL up to and including the version, for example ``http://127.0.0.1:8000/v1``."""
    api_key: str = field(default="", repr=False)
    """Secret; servers of one's own often need none."""
    timeout: float = 60.0
    """Seconds that one try may take."""
    retries: int = 2
    """Further tries after a refused connection, a time-out, HTTP 429 or 5xx; ``Retry-After`` is honoured."""
    deadline: float = 180.0
    """Seconds for all incidents, retries and waiting included."""
    max_tokens: int = 2_000
    """Length of one answer; models that think out loud spend it on thoughts, too."""
    budget_tokens: int = 60_000
    """Tokens for all incidents, questions and answers together."""
    max_incidents: int = 5
    """Incidents that are told by the model; the rest keep the narrative by rules."""
    temperature: float | None = 0.0
    """``None`` leaves it to the endpoint."""
    redact_ips: bool = False
    """Hide IP addresses, too."""

    @classmethod
    def from_environment(
        cls,
        *,
        model: str | None = None,
        base_url: str | None = None,
        timeout: float | None = None,
        redact_ips: bool = False,
    ) -> CopilotOptions:
        """Arguments first, then ``AIOPS_LLM_MODEL``, ``AIOPS_LLM_BASE_URL`` (``OPENAI_BASE_URL``, ``OPENAI_API_BASE``),
        ``AIOPS_LLM_API_KEY`` (``OPENAI_API_KEY``) and ``AIOPS_LLM_TIMEOUT`` (seconds).

        Raises:
            InputError: the time-out is not a positive number.
        """
        if timeout is None:
            timeout = _seconds(_first("AIOPS_LLM_TIMEOUT") or "60")
        return cls(
            model=model or _first("AIOPS_LLM_MODEL"),
            base_url=base_url or _first("AIOPS_LLM_BASE_URL", "OPENAI_BASE_URL", "OPENAI_API_BASE") or OPENAI_URL,
            api_key=_first("AIOPS_LLM_API_KEY", "OPENAI_API_KEY"),
            timeout=timeout,
            redact_ips=redact_ips,
        )

    def check(self) -> None:
        """Refuse what can never work, before any request.

        Raises:
            InputError: no model is named, the URL is none, or the endpoint wants a key and there is none.
        """
        if not self.model:
            raise InputError("no model is named: pass its name, or set AIOPS_LLM_MODEL")
        try:
            url = urlsplit(self.base_url)
            host = url.hostname
        except ValueError:
            host = None
        if host is None or url.scheme not in ("http", "https"):
            raise InputError("the URL of the model's endpoint must start with http:// or https:// and name a host")
        if url.username is not None or url.password is not None:
            raise InputError("the URL of the model's endpoint holds a password: put the key into AIOPS_LLM_API_KEY")
        if self.base_url == OPENAI_URL and not self.api_key:
            raise InputError("no API key: set OPENAI_API_KEY, or AIOPS_LLM_BASE_URL for an endpoint of your own")


def _first(*names: str) -> str:
    return next((value for name in names if (value := os.environ.get(name, "").strip())), "")


def _seconds(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0 < value < float("inf"):
        raise InputError("AIOPS_LLM_TIMEOUT must be a positive number of seconds")
    return value
