#!/usr/bin/env python3
"""A DCGM-shaped exporter with faults.

    exporter.py [--port 9400] [--nodes 2] [--gpus 8]      GET /metrics; POST or DELETE /fault

``POST /fault`` takes ``{"node": "gpu-n01", "gpu": 3, "kind": "xid", "value": 79}``, see `dcgm.Fault`.
"""

from __future__ import annotations

import argparse
import json
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from services.prometheus.dcgm import Fault, exposition


class Exporter(ThreadingHTTPServer):
    """Serves one fleet; ``faults`` may be changed while it runs."""

    daemon_threads = True

    def __init__(self, port: int, nodes: list[str], gpus: int) -> None:
        super().__init__(("127.0.0.1", port), _Handler)
        self.nodes, self.gpus = nodes, gpus
        self.faults: list[Fault] = []
        self.lock = threading.Lock()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Exporter

    def do_GET(self) -> None:
        if self.path != "/metrics":
            self._answer(404, "not found\n")
            return
        with self.server.lock:
            faults = list(self.server.faults)
        self._answer(200, exposition(self.server.nodes, self.server.gpus, time.time(), faults))

    def do_POST(self) -> None:
        fault = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        with self.server.lock:
            self.server.faults.append(Fault(**{"since": time.time(), **fault}))
        self._answer(200, "ok\n")

    def do_DELETE(self) -> None:
        with self.server.lock:
            self.server.faults.clear()
        self._answer(200, "ok\n")

    def _answer(self, code: int, text: str) -> None:
        body = text.encode()
        self.send_response(code)
        self.send_header("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *args: object) -> None:
        pass


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--port", type=int, default=9400)
    parser.add_argument("--nodes", type=int, default=2)
    parser.add_argument("--gpus", type=int, default=8)
    options = parser.parse_args()
    server = Exporter(options.port, [f"gpu-n{i:02d}" for i in range(1, options.nodes + 1)], options.gpus)
    server.serve_forever()


if __name__ == "__main__":
    main()
