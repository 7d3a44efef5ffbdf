"""A scripted OpenAI-compatible server on a real loopback socket: one step per request, everything recorded.

with OpenAIServer([text('{"claims": []}'), status(429, {"retry-after-ms": "1"}), RESET, HANG]) as server:
    ... base_url=server.url ...
server.requests[0].body["messages"]
"""

from __future__ import annotations

import json
import socket
import struct
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

RESET = "reset"
"""Close the connection with a TCP reset instead of an answer."""
HANG = "hang"
"""Never answer; the connection is held until the server is closed."""
DRIP = "drip"
"""Send the headers and then a space now and then, for ever."""


@dataclass(frozen=True)
class Step:
    """One answer. ``body`` as text is sent as it is."""

    body: Any = None
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    content_type: str = "application/json"


def text(content: str | None, *, finish: str = "stop", refusal: str | None = None) -> Step:
    """A chat completion."""
    message = {"role": "assistant", "content": content, "refusal": refusal}
    return Step(
        {
            "id": "c1",
            "object": "chat.completion",
            "created": 1,
            "model": "scripted",
            "choices": [{"index": 0, "message": message, "finish_reason": finish}],
            "usage": {"prompt_tokens": 100, "completion_tokens": 20, "total_tokens": 120},
        }
    )


def claims(*items: tuple[str, Sequence[str]]) -> Step:
    """A well-formed answer of the copilot: (text, evidence ids) of each claim."""
    return text(json.dumps({"claims": [{"text": t, "evidence": list(e)} for t, e in items]}))


def status(code: int, headers: dict[str, str] | None = None, body: Any = None) -> Step:
    """An error answer; ``retry-after-ms: 1`` keeps tests fast."""
    return Step(
        body or {"error": {"message": "scripted", "type": "scripted"}}, code, {"retry-after-ms": "1", **(headers or {})}
    )


@dataclass(frozen=True)
class Recorded:
    path: str
    headers: dict[str, str]
    body: Any
    raw: str


class OpenAIServer:
    """Plays ``steps`` in order; the last one is repeated. A step may be a function of the recorded request."""

    def __init__(self, steps: Sequence[Step | str | Callable[[Recorded], Step]]) -> None:
        self.steps = list(steps)
        self.requests: list[Recorded] = []
        self.connections = 0
        """TCP connections accepted, whatever was said on them."""
        self._lock = threading.Lock()
        self._closing = threading.Event()
        outer = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def setup(self) -> None:
                with outer._lock:
                    outer.connections += 1
                super().setup()

            def do_POST(self) -> None:
                raw = self.rfile.read(int(self.headers.get("Content-Length") or 0)).decode()
                outer._answer(self, Recorded(self.path, dict(self.headers.items()), json.loads(raw or "null"), raw))

            def log_message(self, *args: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}/v1"

    def __enter__(self) -> OpenAIServer:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._closing.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def _answer(self, handler: BaseHTTPRequestHandler, request: Recorded) -> None:
        with self._lock:
            step = self.steps[min(len(self.requests), len(self.steps) - 1)]
            self.requests.append(request)
        if callable(step):
            step = step(request)
        if step == RESET:
            handler.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            handler.close_connection = True
            handler.connection.close()
        elif step == HANG:
            self._closing.wait()
            handler.close_connection = True
        elif step == DRIP:
            handler.send_response(200)
            handler.send_header("Content-Type", "application/json")
            handler.end_headers()
            try:
                while not self._closing.wait(0.05):
                    handler.wfile.write(b" ")
            except OSError:
                pass
            handler.close_connection = True
        else:
            self._send(handler, step)

    def _send(self, handler: BaseHTTPRequestHandler, step: Step) -> None:
        data = (step.body if isinstance(step.body, str) else json.dumps(step.body)).encode()
        handler.send_response(step.status)
        handler.send_header("Content-Type", step.content_type)
        handler.send_header("Content-Length", str(len(data)))
        for name, value in step.headers.items():
            handler.send_header(name, value)
        handler.end_headers()
        handler.wfile.write(data)
