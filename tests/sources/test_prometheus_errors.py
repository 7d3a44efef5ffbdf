"""What a user reads when a Prometheus is away, refuses, is slow, or is something else."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest

from aiops.errors import InputError, SourceError
from aiops.sources.prometheus import collect

START, END = 1_785_571_200 * 10**9, 1_785_574_800 * 10**9
Answer = tuple[int, dict[str, str], bytes]
Script = Callable[[str, dict[str, list[str]]], Answer]


class Scripted(ThreadingHTTPServer):
    """Answers each request as the test says and remembers what was asked."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.script: Script = lambda path, query: (404, {}, b"")
        self.seen: list[tuple[str, dict[str, list[str]], dict[str, str]]] = []
        self.hold = threading.Event()
        self.url = f"http://127.0.0.1:{self.server_address[1]}"


class _Handler(BaseHTTPRequestHandler):
    server: Scripted

    def do_GET(self) -> None:
        parts = urlsplit(self.path)
        query = parse_qs(parts.query)
        self.server.seen.append((parts.path, query, dict(self.headers)))
        code, headers, body = self.server.script(parts.path, query)
        self.send_response(code)
        for key, value in headers.items():
            self.send_header(key, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *args: object) -> None:
        pass


@pytest.fixture
def server() -> Iterator[Scripted]:
    running = Scripted()
    threading.Thread(target=running.serve_forever, args=(0.02,), daemon=True).start()
    yield running
    running.hold.set()
    running.shutdown()
    running.server_close()


def ok(data: object, **more: object) -> Answer:
    return 200, {"Content-Type": "application/json"}, json.dumps({"status": "success", "data": data, **more}).encode()


def error(code: int, kind: str, text: str) -> Answer:
    return code, {}, json.dumps({"status": "error", "errorType": kind, "error": text}).encode()


def healthy(path: str, query: dict[str, list[str]]) -> Answer:
    if path.endswith("/label/__name__/values"):
        return ok(["DCGM_FI_DEV_GPU_TEMP", "go_goroutines", "DCGM_/../../etc/passwd"])
    start, end, step = (int(float(query[key][0])) for key in ("start", "end", "step"))
    values = [[t, "64"] for t in range(start, end + 1, step)]
    labels = {"__name__": "DCGM_FI_DEV_GPU_TEMP", "gpu": "0", "UUID": "GPU-1", "Hostname": "n1"}
    return ok({"resultType": "matrix", "result": [{"metric": labels, "values": values}]})


def test_nobody_listens(tmp_path: Path) -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{probe.getsockname()[1]}"
    with pytest.raises(SourceError, match=r"^http://127\.0\.0\.1:\d+: cannot be reached: Connection refused$"):
        collect(url, START, END, tmp_path / "case")
    assert list(tmp_path.iterdir()) == []


def test_a_password_is_not_shown(tmp_path: Path) -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{probe.getsockname()[1]}"
    with pytest.raises(SourceError) as caught:
        collect(f"http://me:secret@{address}/prefix/", START, END, tmp_path / "case")
    assert str(caught.value).startswith(f"http://{address}/prefix: cannot be reached")
    assert "secret" not in str(caught.value)


def test_an_answer_that_never_comes(server: Scripted, tmp_path: Path) -> None:
    server.script = lambda path, query: (server.hold.wait(30), ok([]))[1]
    with pytest.raises(SourceError, match=r"no answer within 0\.2 s"):
        collect(server.url, START, END, tmp_path / "case", timeout=0.2)
    assert len(server.seen) == 1  # a slow query is not asked again


@pytest.mark.parametrize(
    ("answer", "sentence"),
    [
        (error(400, "bad_data", "exceeded maximum resolution"), "HTTP 400: bad_data: exceeded maximum resolution"),
        (error(422, "execution", "expression failed"), "HTTP 422: execution: expression failed"),
        (error(503, "timeout", "query timed out in expression evaluation"), "HTTP 503: timeout: query timed out"),
        ((401, {}, b"no"), "HTTP 401; give a token: no"),
        ((404, {}, b"<html><h1>not here"), "HTTP 404; is this the base URL"),
        ((500, {}, b""), "HTTP 500: Internal Server Error"),
    ],
)
def test_a_refusal_in_the_servers_words(server: Scripted, tmp_path: Path, answer: Answer, sentence: str) -> None:
    server.script = lambda path, query: answer
    with pytest.raises(SourceError) as caught:
        collect(server.url, START, END, tmp_path / "case")
    assert sentence in str(caught.value)
    assert len(server.seen) == 1
    assert caught.value.exit_code == 3


def test_a_busy_gateway_is_asked_once_more(server: Scripted, tmp_path: Path) -> None:
    def script(path: str, query: dict[str, list[str]]) -> Answer:
        return (502, {"Retry-After": "3600"}, b"") if len(server.seen) == 1 else healthy(path, query)

    server.script = script
    assert (collect(server.url, START, END, tmp_path / "case") / "collected.json").exists()


@pytest.mark.parametrize(
    "body",
    [b"<html>log in</html>", b'{"hello": 1}', b"[]", b'{"data": {"result": 3}}', b'{"status":"success","data":[1'],
)
def test_something_that_is_no_prometheus(server: Scripted, tmp_path: Path, body: bytes) -> None:
    server.script = lambda path, query: (200, {}, body)
    with pytest.raises(SourceError, match="Prometheus"):
        collect(server.url, START, END, tmp_path / "case")
    assert list(tmp_path.iterdir()) == []


def test_a_failure_half_way_leaves_nothing(server: Scripted, tmp_path: Path) -> None:
    def script(path: str, query: dict[str, list[str]]) -> Answer:
        if path.endswith("/values"):
            return ok(["DCGM_FI_DEV_GPU_TEMP", "DCGM_FI_DEV_GPU_UTIL"])
        return healthy(path, query) if "TEMP" in query["query"][0] else error(503, "unavailable", "shutting down")

    server.script = script
    with pytest.raises(SourceError, match="shutting down"):
        collect(server.url, START, END, tmp_path / "case")
    assert list(tmp_path.iterdir()) == []


def test_too_many_samples_are_asked_for_in_smaller_parts(server: Scripted, tmp_path: Path) -> None:
    def script(path: str, query: dict[str, list[str]]) -> Answer:
        if path.endswith("/query_range") and float(query["end"][0]) - float(query["start"][0]) > 600:
            return error(422, "execution", "query processing would load too many samples into memory")
        return healthy(path, query)

    server.script = script
    out = collect(server.url, START, END, tmp_path / "case", step=60)
    saved = json.loads((out / "metrics" / "DCGM_FI_DEV_GPU_TEMP.json").read_bytes())
    stamps = [t for t, _ in saved["data"]["result"][0]["values"]]
    assert stamps == list(range(START // 10**9, END // 10**9 + 1, 60))


def test_only_dcgm_names_that_are_names_are_asked_for(server: Scripted, tmp_path: Path) -> None:
    server.script = healthy
    out = collect(server.url, START, END, tmp_path / "case")
    assert [path.name for path in (out / "metrics").iterdir()] == ["DCGM_FI_DEV_GPU_TEMP.json"]
    assert {query["query"][0] for path, query, _ in server.seen if path.endswith("/query_range")} == {
        "DCGM_FI_DEV_GPU_TEMP"
    }


def test_token_and_password_reach_the_server_and_no_file(server: Scripted, tmp_path: Path) -> None:
    server.script = healthy
    by_token = collect(server.url, START, END, tmp_path / "token", token="s3cr3t")
    assert server.seen[-1][2]["Authorization"] == "Bearer s3cr3t"
    by_user = collect(server.url.replace("://", "://me:s3cr3t@"), START, END, tmp_path / "user")
    assert server.seen[-1][2]["Authorization"].startswith("Basic ")
    assert b"s3cr3t" not in b"".join(p.read_bytes() for d in (by_token, by_user) for p in d.rglob("*.json"))


def test_a_token_does_not_follow_a_redirect_to_another_host(server: Scripted, tmp_path: Path) -> None:
    other = Scripted()
    threading.Thread(target=other.serve_forever, args=(0.02,), daemon=True).start()
    try:
        other.script = healthy
        target = other.url.replace("127.0.0.1", "localhost")
        server.script = lambda path, query: (
            307,
            {
                "Location": f"{target}{path}?"
                + "&".join(f"{key}={value[0]}" for key, value in query.items() if key != "match[]")
            },
            b"",
        )
        collect(server.url, START, END, tmp_path / "case", token="s3cr3t")
        assert other.seen and not any("Authorization" in headers for _, _, headers in other.seen)
    finally:
        other.shutdown()
        other.server_close()


def test_warnings_of_the_server_are_kept(server: Scripted, tmp_path: Path) -> None:
    def script(path: str, query: dict[str, list[str]]) -> Answer:
        code, headers, body = healthy(path, query)
        return code, headers, body[:-1] + b', "warnings": ["store gx is not reachable"]}'

    server.script = script
    manifest = json.loads((collect(server.url, START, END, tmp_path / "case") / "collected.json").read_text())
    assert any("store gx is not reachable" in text for text in manifest["warnings"])


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"url": "prometheus:9090"}, "URL must look like"),
        ({"url": "http://h:9090/?a=b"}, "URL must look like"),
        ({"url": "http://h:port"}, "port"),
        ({"start": "yesterday"}, "not a time"),
        ({"end": START}, "window is empty"),
        ({"step": "fast"}, "not a duration"),
        ({"step": "500ms"}, "whole number of seconds"),
    ],
)
def test_wrong_usage_is_named(tmp_path: Path, change: dict[str, object], reason: str) -> None:
    arguments: dict[str, object] = {"url": "http://127.0.0.1:9", "start": START, "end": END, "step": None, **change}
    with pytest.raises(InputError, match=reason) as caught:
        collect(
            str(arguments["url"]),
            arguments["start"],
            arguments["end"],  # type: ignore[arg-type]
            tmp_path / "case",
            step=arguments["step"],
        )  # type: ignore[arg-type]
    assert caught.value.exit_code == 2
