#!/usr/bin/env python3
"""A real Prometheus on loopback with history and, if asked for, a live exporter; stops with the process.

    stack.py DIR [--nodes 2] [--gpus 8] [--hours 2] [--step 30]

Prints ``PROMETHEUS_URL=…`` and ``EXPORTER_URL=…`` when it is ready and runs until it is interrupted. The history has
a fault: GPU 3 of gpu-n01 is hot for the last hour and counts an uncorrectable memory error ten minutes before the end.
"""

from __future__ import annotations

import argparse
import json
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from services.prometheus.dcgm import Fault, openmetrics
from services.prometheus.exporter import Exporter

_READY_S = 60.0


class PrometheusStack:
    """Context manager: ``with PrometheusStack(folder, ...) as stack: stack.url``.

    Args:
        folder: empty directory for data and logs.
        history: OpenMetrics lines that are put in before the server starts.
        nodes: hosts of the live exporter; without any there is none.
        gpus: GPUs of each.
        prometheus: path of the server; ``promtool`` must stand beside it or in the path.
        promtool: path of it.
    """

    def __init__(
        self,
        folder: Path,
        *,
        history: Iterable[str] = (),
        nodes: list[str] | None = None,
        gpus: int = 8,
        prometheus: str = "prometheus",
        promtool: str = "promtool",
    ) -> None:
        self.folder = folder
        self.exporter: Exporter | None = None
        self.url = ""
        self._history = history
        self._nodes = nodes or []
        self._gpus = gpus
        self._prometheus, self._promtool = prometheus, promtool
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> PrometheusStack:
        self.folder.mkdir(parents=True, exist_ok=True)
        try:
            self._backfill()
            self._export()
            # the port is free now, but another process may take it first
            for attempt in range(3):
                if self._start():
                    return self
                if attempt == 2:
                    raise RuntimeError(f"prometheus did not start: {self._log()}")
        except BaseException:
            self.stop()
            raise
        raise AssertionError

    def __exit__(self, *_: object) -> None:
        self.stop()

    def stop(self) -> None:
        """Stop what was started; safe to call twice."""
        if self._process is not None:
            self._process.terminate()
            try:
                self._process.wait(20)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
            self._process = None
        if self.exporter is not None:
            self.exporter.shutdown()
            self.exporter.server_close()
            self.exporter = None

    def query(self, expression: str) -> list[dict[str, object]]:
        """Result of an instant query."""
        with urllib.request.urlopen(
            f"{self.url}/api/v1/query?query={urllib.request.quote(expression)}", timeout=10
        ) as answer:
            return json.load(answer)["data"]["result"]

    def _backfill(self) -> None:
        path = self.folder / "history.om"
        with open(path, "w", encoding="utf-8") as handle:
            handle.writelines(self._history)
        if path.stat().st_size:
            subprocess.run(
                [self._promtool, "tsdb", "create-blocks-from", "openmetrics", path, self.folder / "data"],
                check=True,
                capture_output=True,
                timeout=300,
            )
        path.unlink()

    def _export(self) -> None:
        if self._nodes:
            self.exporter = Exporter(0, self._nodes, self._gpus)
            threading.Thread(target=self.exporter.serve_forever, args=(0.05,), daemon=True).start()

    def _start(self) -> bool:
        scrape = []
        if self.exporter is not None:
            scrape = [
                {
                    "job_name": "dcgm",
                    "honor_labels": True,
                    "scrape_interval": "1s",
                    "static_configs": [{"targets": [f"127.0.0.1:{self.exporter.server_address[1]}"]}],
                }
            ]
        config = self.folder / "prometheus.yml"  # JSON is YAML
        config.write_text(json.dumps({"global": {"evaluation_interval": "1s"}, "scrape_configs": scrape}))
        port = _free_port()
        self.url = f"http://127.0.0.1:{port}"
        with open(self.folder / "prometheus.log", "ab") as log:
            self._process = subprocess.Popen(
                [
                    self._prometheus,
                    f"--config.file={config}",
                    f"--storage.tsdb.path={self.folder / 'data'}",
                    f"--web.listen-address=127.0.0.1:{port}",
                    "--storage.tsdb.retention.time=3650d",
                ],
                stdout=log,
                stderr=log,
                stdin=subprocess.DEVNULL,
            )
        deadline = time.monotonic() + _READY_S
        while time.monotonic() < deadline and self._process.poll() is None:
            if self._ready():
                return True
            threading.Event().wait(0.05)
        self._process.kill()
        self._process.wait()
        return False

    def _ready(self) -> bool:
        try:
            urllib.request.urlopen(f"{self.url}/-/ready", timeout=2).close()
            # ready comes before the first scrape
            return self.exporter is None or bool(self.query('up{job="dcgm"} == 1'))
        except (urllib.error.URLError, OSError):
            return False

    def _log(self) -> str:
        return (self.folder / "prometheus.log").read_text(errors="replace")[-2000:]


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--nodes", type=int, default=2)
    parser.add_argument("--gpus", type=int, default=8)
    parser.add_argument("--hours", type=float, default=2)
    parser.add_argument("--step", type=int, default=30)
    options = parser.parse_args()
    nodes = [f"gpu-n{i:02d}" for i in range(1, options.nodes + 1)]
    end = int(time.time()) - 300  # blocks must not overlap what is scraped
    faults = [Fault(nodes[0], 3, "thermal", end - 3600, 92), Fault(nodes[0], 3, "dbe", end - 600, 2)]
    times = range(end - int(options.hours * 3600), end, options.step)
    stop = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stop.set())
    with PrometheusStack(
        options.folder, history=openmetrics(nodes, options.gpus, times, faults), nodes=nodes, gpus=options.gpus
    ) as stack:
        assert stack.exporter is not None
        print(
            f"PROMETHEUS_URL={stack.url} EXPORTER_URL=http://127.0.0.1:{stack.exporter.server_address[1]} END={end}",
            flush=True,
        )
        stop.wait()


if __name__ == "__main__":
    main()
