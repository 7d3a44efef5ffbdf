"""One question to an OpenAI-compatible endpoint through langchain, and every way it can go wrong as one error.

langchain and openai are imported when the first question is asked: they cost seconds.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from aiops.copilot.options import CopilotOptions
from aiops.errors import InputError

if TYPE_CHECKING:
    from langchain_core.language_models import BaseChatModel

T = TypeVar("T")
Messages = Sequence[tuple[str, str]]
"""(role, text); roles are ``system``, ``user`` and ``assistant``."""


class ModelFailure(Exception):
    """Why there is no answer, in words for the report: no text of the server, no URL, no key.

    ``lasting`` is true if the next question would fail in the same way.
    """

    def __init__(self, note: str, *, lasting: bool = False) -> None:
        super().__init__(note)
        self.note = note
        self.lasting = lasting


@dataclass(frozen=True, slots=True)
class Reply:
    """The text of an answer and what it cost (0 if the endpoint does not say)."""

    text: str
    tokens: int = 0


class Model(Protocol):
    """Anything that answers messages; tests may bring their own."""

    def ask(self, messages: Messages, seconds: float) -> Reply:
        """Answer within ``seconds``.

        Raises:
            ModelFailure: there is no usable answer.
        """


class LangchainModel:
    """`Model` over ``init_chat_model("openai:NAME")`` with the chat-completions protocol."""

    def __init__(self, options: CopilotOptions) -> None:
        """Load the library and prepare a client; nothing is sent.

        Raises:
            InputError: the library is not installed, or refuses the options.
        """
        self._options = options
        self._chat = _open_chat(options)

    def ask(self, messages: Messages, seconds: float) -> Reply:
        """See `Model.ask`. Time-outs of the client count single reads, so a thread watches the whole."""
        try:
            return _reply(_within(seconds, lambda: _invoke(self._chat, messages)))
        except ModelFailure:
            raise
        except TimeoutError:
            raise ModelFailure(f"the model did not answer within {seconds:.3g} s", lasting=True) from None
        except Exception as error:  # noqa: BLE001 - malformed bodies raise TypeError, IndexError, JSONDecodeError, …
            raise _failure(error, self._options) from None


def _open_chat(options: CopilotOptions) -> BaseChatModel:
    try:
        import langchain_openai  # noqa: F401 - named here so that its absence is told apart from a wrong option
        from langchain.chat_models import init_chat_model
    except ImportError as error:
        raise InputError(
            "the copilot needs langchain: install this package with its extra [llm] (see README)"
        ) from error
    settings: dict[str, Any] = {
        # Servers of one's own want no key, but the client insists on one.
        "base_url": options.base_url,
        "api_key": options.api_key or "none",
        "use_responses_api": False,
        "timeout": options.timeout,
        "max_retries": options.retries,
        "max_tokens": options.max_tokens,
    }
    if options.temperature is not None:
        settings["temperature"] = options.temperature
    try:
        chat: BaseChatModel = init_chat_model(f"openai:{options.model}", **settings)
    except (ValueError, TypeError):
        raise InputError("the model's client refuses these settings; check the model's name and the URL") from None
    return chat


def _invoke(chat: BaseChatModel, messages: Messages) -> Any:
    """Ask the endpoint and nobody else: with ``LANGSMITH_TRACING`` set, langchain would send a copy elsewhere."""
    from langsmith import tracing_context

    with tracing_context(enabled=False):
        return chat.invoke([*messages])


def _within(seconds: float, work: Callable[[], T]) -> T:
    """Run ``work`` in a daemon thread, so that a server which drips bytes for ever cannot hold the program.

    Raises:
        TimeoutError: the time is up; the thread is left alone and dies with its socket.
    """
    result: list[T] = []
    error: list[BaseException] = []

    def run() -> None:
        try:
            result.append(work())
        except BaseException as e:  # noqa: BLE001 - handed to the caller, who sorts it
            error.append(e)

    thread = threading.Thread(target=run, name="aiops-copilot", daemon=True)
    thread.start()
    thread.join(max(seconds, 0.0))
    if error:
        raise error[0]
    if not result:
        raise TimeoutError
    return result[0]


def _failure(error: Exception, options: CopilotOptions) -> ModelFailure:
    """Sort an exception; its message may hold the server's text or the URL and is not used."""
    import openai

    if isinstance(error, openai.APITimeoutError):
        return ModelFailure(
            f"the model did not answer within {options.timeout:g} s ({options.retries + 1} tries)", lasting=True
        )
    if isinstance(error, openai.APIStatusError):
        status = error.status_code
        reason = {
            401: "it refuses the API key",
            403: "it refuses the API key",
            404: "it does not know the model",
            429: "it is overloaded or the quota is used up",
        }.get(status)
        return ModelFailure(
            f"the model's endpoint answered HTTP {status}" + (f": {reason}" if reason else ""),
            lasting=status in (401, 403, 404, 429) or status >= 500,
        )
    if isinstance(error, openai.APIConnectionError):
        return ModelFailure("the model's endpoint cannot be reached, or broke the connection", lasting=True)
    if isinstance(error, (ValueError, TypeError, LookupError, AttributeError)) and not isinstance(
        error, openai.OpenAIError
    ):
        return ModelFailure(
            "the endpoint's answer is not of the OpenAI kind (wrong URL, or a proxy's error page?)", lasting=True
        )
    return ModelFailure(f"asking the model failed ({type(error).__name__})")


def _reply(message: Any) -> Reply:
    """Text of a langchain message.

    Raises:
        ModelFailure: the model refused, was cut off, or said nothing.
    """
    finish = str(message.response_metadata.get("finish_reason") or "")
    if message.additional_kwargs.get("refusal") or finish == "content_filter":
        raise ModelFailure("the model refused to answer")
    content = message.content
    if isinstance(content, list):
        content = "".join(str(block.get("text", "")) for block in content if isinstance(block, dict))
    if finish == "length":
        raise ModelFailure("the model's answer was cut off at its length limit")
    if not isinstance(content, str) or not content.strip():
        raise ModelFailure("the model's answer is empty")
    usage = getattr(message, "usage_metadata", None)
    tokens = usage.get("total_tokens") if isinstance(usage, dict) else None
    return Reply(content, tokens if isinstance(tokens, int) and tokens > 0 else 0)


class Clock:
    """What is left of a deadline, in seconds."""

    def __init__(self, seconds: float) -> None:
        self._end = time.monotonic() + seconds

    def left(self) -> float:
        return self._end - time.monotonic()
