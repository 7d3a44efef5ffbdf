"""Read-only queries to a Prometheus, with its errors and those of the network as sentences."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlsplit, urlunsplit

from aiops.errors import InputError, SourceError
from aiops.loopback import is_loopback

if TYPE_CHECKING:
    from requests import PreparedRequest, Response


class TooManySamples(SourceError):
    """The server would have to load more samples than it allows itself; a shorter part may work."""


class Client:
    """Read-only queries through prometheus-api-client, with errors as sentences.

    The library's own retries would wait seven seconds for a dead server, repeat slow queries, obey any
    ``Retry-After`` and hide the server's message; here a query is repeated once, where that can help.
    """

    def __init__(self, url: str, *, timeout: float, token: str | None) -> None:
        try:
            from prometheus_api_client import PrometheusConnect
        except ImportError:
            raise InputError(
                "collecting from Prometheus needs prometheus-api-client: install this package with its extra [live] (see README)"
            ) from None
        from requests import Session
        from urllib3.util.retry import Retry

        base, user = _base(url)
        self.shown = base
        self.warnings: list[str] = []
        self._timeout = timeout
        self._session = Session()
        self._session.hooks["response"].append(self._keep)
        self._response: Response | None = None
        retry = Retry(
            total=2,
            connect=1,
            read=False,
            redirect=3,
            status=1,
            other=0,
            backoff_factor=0.2,
            status_forcelist=[429, 502, 504],
            respect_retry_after_header=False,
            raise_on_status=False,
        )
        if token and base.startswith("http://") and not _loopback(base):
            self._warn("the token was sent without TLS")
        self._connect = PrometheusConnect(
            url=base, retry=retry, auth=_Bearer(token) if token else user, session=self._session, timeout=timeout
        )

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self._session.close()

    def names(self, selector: str, start: int, end: int) -> list[str]:
        """Names of the metrics that have series in the window, sorted.

        Servers before Prometheus 2.24 ignore the selector and list everything.
        """
        answer = self._ask(
            lambda: self._connect.get_label_values("__name__", {"match[]": selector, "start": start, "end": end}),
            selector,
        )
        return sorted({name for name in answer if isinstance(name, str)})

    def query_range(self, query: str, start: int, end: int, step: int) -> list[dict[str, Any]]:
        """Series of a part of the window."""
        limit = {"timeout": f"{max(1, int(self._timeout))}s"}
        series = self._ask(
            lambda: self._connect.custom_query_range(
                query, datetime.fromtimestamp(start, UTC), datetime.fromtimestamp(end, UTC), str(step), limit
            ),
            query,
        )
        if not all(
            isinstance(item, dict) and isinstance(item.get("metric"), dict) and isinstance(item.get("values"), list)
            for item in series
        ):
            raise SourceError(f"{self.shown}: the answer to {query} is not a range of samples")
        return series

    def _ask(self, call: Callable[[], Any], query: str) -> list[Any]:
        from prometheus_api_client import PrometheusApiClientException
        from requests import exceptions

        self._response = None
        try:
            answer = call()
        except PrometheusApiClientException:
            said = self._refusal(query)
            raise (TooManySamples if "too many samples" in said else SourceError)(said) from None
        except exceptions.Timeout:
            raise SourceError(f"{self.shown}: no answer within {self._timeout:g} s to {query}") from None
        except exceptions.SSLError as error:
            raise SourceError(f"{self.shown}: TLS failed: {_last(error)}") from None
        except exceptions.JSONDecodeError:
            raise SourceError(f"{self.shown}: the answer is not JSON; is this the URL of a Prometheus?") from None
        except exceptions.TooManyRedirects:
            raise SourceError(f"{self.shown}: too many redirects") from None
        except exceptions.RequestException as error:
            raise SourceError(f"{self.shown}: cannot be reached: {_last(error)}") from None
        except (KeyError, TypeError, AttributeError):
            raise SourceError(f"{self.shown}: the answer is not Prometheus's; is this its URL?") from None
        if not isinstance(answer, list):
            raise SourceError(f"{self.shown}: the answer is not Prometheus's; is this its URL?")
        self._note(query)
        return answer

    def _keep(self, response: Response, *_: object, **__: object) -> None:
        self._response = response

    def _note(self, query: str) -> None:
        """Keep the warnings of an answer, which the library drops."""
        response = self._response
        if response is not None and (
            b'"warnings"' in response.content[-20_000:] or b'"warnings"' in response.content[:20_000]
        ):
            for text in response.json().get("warnings") or ():
                self._warn(f"{query}: {text}")

    def _warn(self, text: str) -> None:
        if text not in self.warnings:
            self.warnings.append(text)

    def _refusal(self, query: str) -> str:
        response = self._response
        if response is None:
            return f"{self.shown}: refused {query}"
        try:
            body = response.json()
            said = f"{body['errorType']}: {body['error']}"
        except (ValueError, KeyError, TypeError):
            said = " ".join(response.text[:200].split()) or response.reason or ""
        hint = {401: "; give a token", 403: "; the token may not read this", 404: "; is this the base URL?"}
        return f"{self.shown}: HTTP {response.status_code}{hint.get(response.status_code, '')}: {said} (query {query})"


class _Bearer:
    """Sent as an auth object, not as a header: requests would let ``~/.netrc`` overwrite the header, and it drops
    the authorization on a redirect to another host."""

    def __init__(self, token: str) -> None:
        self._token = token

    def __call__(self, request: PreparedRequest) -> PreparedRequest:
        request.headers["Authorization"] = f"Bearer {self._token}"
        return request


def _base(url: str) -> tuple[str, tuple[str, str] | None]:
    """The URL without credentials, and these.

    Raises:
        InputError: the URL cannot be one of a Prometheus.
    """
    parts = urlsplit(url.strip())
    try:
        port = f":{parts.port}" if parts.port else ""
    except ValueError:
        raise InputError("the port in the URL is not a number") from None
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.query or parts.fragment:
        raise InputError("the URL must look like http://host:9090 or https://host/prefix")
    host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
    base = urlunsplit((parts.scheme, host + port, parts.path.rstrip("/"), "", ""))
    user = (unquote(parts.username), unquote(parts.password or "")) if parts.username else None
    return base, user


def _loopback(base: str) -> bool:
    return is_loopback(urlsplit(base).hostname or "")


def _last(error: BaseException) -> str:
    """The innermost reason of a chain of wrapped network errors, without addresses of objects."""
    seen: set[int] = set()
    while id(error) not in seen:
        seen.add(id(error))
        reason = getattr(error, "reason", None)
        inner = reason if isinstance(reason, BaseException) else error.__cause__ or error.__context__
        if inner is None and error.args and isinstance(error.args[0], BaseException):
            inner = error.args[0]
        if inner is None:
            break
        error = inner
    return str(getattr(error, "strerror", None) or error)[:200]
