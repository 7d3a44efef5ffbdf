"""A double of Slack on a real loopback socket: chat.postMessage, auth.test and an incoming webhook, with its limits.

    with SlackServer() as slack:
        post(report, token=slack.token, channel="C1", base_url=slack.api)
        post(report, webhook=slack.webhook)
    slack.messages  # in order, each {"channel", "ts", "thread_ts", "text", "blocks"}

``failures`` are answers that come first, one per request: `Failure`.
"""

from __future__ import annotations

import json
import threading
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs

CHANNELS = {"C1": "C1", "#gpu-incidents": "C1"}
_LIMITS = {"header": 150, "section": 3000}


@dataclass(frozen=True)
class Failure:
    """One scripted answer. ``body`` may be a dict (sent as JSON) or text."""

    status: int = 200
    body: Any = ""
    headers: dict[str, str] = field(default_factory=dict)
    after: int = 0
    """Requests that are served as usual before."""


@dataclass(frozen=True)
class Call:
    path: str
    headers: dict[str, str]
    body: dict[str, Any]
    raw: str


class SlackServer:
    """Serves from ``with`` to the end of it; every request is in ``calls``."""

    token = "xoxb-1111111111-doubledouble"
    secret_path = "/services/T0000/B0000/s3cr3tpath"

    def __init__(self, *failures: Failure) -> None:
        self.failures = list(failures)
        self.calls: list[Call] = []
        self.messages: list[dict[str, Any]] = []
        self._lock = threading.Lock()
        outer = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                raw = self.rfile.read(int(self.headers.get("Content-Length") or 0)).decode()
                with outer._lock:
                    status, body, headers = outer._answer(self.path, dict(self.headers.items()), raw)
                data = (body if isinstance(body, str) else json.dumps(body)).encode()
                self.send_response(status)
                self.send_header("Content-Type", "text/plain" if isinstance(body, str) else "application/json")
                self.send_header("Content-Length", str(len(data)))
                for name, value in headers.items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(data)

            def log_message(self, *args: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True)

    @property
    def _base(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    @property
    def api(self) -> str:
        return f"{self._base}/api/"

    @property
    def webhook(self) -> str:
        return self._base + self.secret_path

    def __enter__(self) -> SlackServer:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def _answer(self, path: str, headers: dict[str, str], raw: str) -> tuple[int, Any, dict[str, str]]:
        if raw.startswith("{"):
            body = json.loads(raw)
        else:
            body = {name: values[0] for name, values in parse_qs(raw).items()}
        self.calls.append(Call(path, headers, body, raw))
        for failure in self.failures:
            if len(self.calls) > failure.after:
                self.failures.remove(failure)
                return failure.status, failure.body, failure.headers
        if path == self.secret_path:
            problem = _problem(body)
            if problem:
                return 400, problem, {}
            self._keep("webhook", body)
            return 200, "ok", {}
        if path.startswith("/services/"):
            return 404, "no_service", {}
        return 200, self._api(path.removeprefix("/api/"), headers, body), {}

    def _api(self, method: str, headers: dict[str, str], body: dict[str, Any]) -> dict[str, Any]:
        if headers.get("Authorization") != f"Bearer {self.token}":
            return {"ok": False, "error": "invalid_auth"}
        if method == "auth.test":
            return {"ok": True, "team": "Double", "user": "aiops", "team_id": "T0000", "user_id": "U0000"}
        if method != "chat.postMessage":
            return {"ok": False, "error": "unknown_method"}
        channel = CHANNELS.get(str(body.get("channel")))
        if channel is None:
            return {"ok": False, "error": "channel_not_found"}
        thread = body.get("thread_ts")
        if thread and thread not in {message["ts"] for message in self.messages}:
            return {"ok": False, "error": "thread_not_found"}
        problem = _problem(body)
        if problem:
            return {"ok": False, "error": problem}
        ts = self._keep(channel, body)
        return {"ok": True, "channel": channel, "ts": ts, "message": {"text": body["text"]}}

    def _keep(self, channel: str, body: dict[str, Any]) -> str:
        ts = f"1700000000.{len(self.messages) + 1:06d}"
        self.messages.append({"thread_ts": None, **body, "channel": channel, "ts": ts})
        return ts


def _problem(body: dict[str, Any]) -> str:
    """The error that Slack gives for a message beyond its limits; empty if there is none."""
    blocks = body.get("blocks") or []
    if not body.get("text") and not blocks:
        return "no_text"
    if len(blocks) > 50:
        return "invalid_blocks"
    if len(json.dumps(blocks, ensure_ascii=False)) > 13_000:
        return "msg_blocks_too_long"
    for block in blocks:
        texts = [block["text"]] if "text" in block else block.get("fields") or block.get("elements") or []
        limit = _LIMITS.get(block["type"], 3000)
        if len(block.get("fields", [])) > 10 or any(not 0 < len(text.get("text", "")) <= limit for text in texts):
            return "invalid_blocks"
    return ""
