"""Collect from a real Prometheus, read what was collected, and find the fault that is in it."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from services.need import need
from services.prometheus.dcgm import Fault, openmetrics, uuid
from services.prometheus.stack import PrometheusStack

from aiops.detect.metrics import detect
from aiops.errors import InputError, SourceError
from aiops.ingest.metrics import read_metrics, sniff_metrics
from aiops.model import Case, Role, Source
from aiops.sources.prometheus import collect

pytestmark = pytest.mark.needs_prometheus

NODES = ["gx-01", "gx-02"]
STEP = 30
END = 1_785_571_200  # far from now: nothing here may depend on the present
START = END - 2 * 3600
FAULTS = [
    Fault("gx-02", 3, "thermal", END - 3600, 91),
    Fault("gx-02", 3, "dbe", END - 900, 2),
    Fault("gx-02", 3, "xid", END - 890, 48),
    Fault("gx-01", 6, "xid", 0, 31),
    Fault("gx-01", 5, "lost", END - 1800),
]


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PrometheusStack]:
    server, tool = need("prometheus"), need("promtool")
    history = openmetrics(NODES, 8, range(START, END + 1, STEP), FAULTS)
    with PrometheusStack(
        tmp_path_factory.mktemp("prometheus"), history=history, prometheus=server, promtool=tool
    ) as running:
        yield running


def read(folder: Path) -> Case:
    case = Case(root=str(folder))
    for path in sorted(folder.rglob("*.json")):
        data = path.read_bytes()
        if sniff_metrics(data[:4096]) is None:
            continue
        source = Source(len(case.sources), str(path.relative_to(folder)), path, len(data), "metrics")
        case.sources.append(source)
        read_metrics(source, data, case)
    return case


def test_a_fault_survives_the_way_from_prometheus_to_the_finding(stack: PrometheusStack, tmp_path: Path) -> None:
    out = collect(stack.url, str(START), str(END), tmp_path / "case", step="30s")

    case = read(out)
    assert not case.coverage.problems
    assert case.topology.gpu_pci["gx-02", 3] == "0000:30:00"
    findings = {(f.sign, f.node, f.gpu): f for f in detect(case, None)}
    dbe = findings["metric.ecc_dbe", "gx-02", 3]
    assert dbe.role is Role.ROOT and dbe.fields["errors"] == 2 and dbe.uuid == uuid("gx-02", 3)
    assert dbe.first == (END - 900) * 10**9
    heat = findings["metric.thermal_throttle", "gx-02", 3]
    assert heat.fields["temp"] == 91 and heat.fields["clock"] == 1110 and heat.fields["peers_clock"] == 1980
    assert heat.first == (END - 3600) * 10**9
    assert findings["metric.xid", "gx-02", 3].fields["xid"] == 48
    assert findings["metric.xid", "gx-01", 6].role is Role.CONTEXT
    lost = findings["metric.gpu_absent", "gx-01", 5]
    assert lost.role is Role.ROOT
    # without a staleness mark Prometheus repeats the last sample for five minutes
    assert 0 <= lost.first - (END - 1800) * 10**9 <= 330 * 10**9
    assert len(findings) == 5


def test_evidence_stands_where_it_says(stack: PrometheusStack, tmp_path: Path) -> None:
    out = collect(stack.url, START * 10**9, END * 10**9, tmp_path / "case", step=30)

    for finding in detect(read(out), None):
        for ref in finding.evidence:
            data = (out / ref.source).read_bytes()
            value = ref.text.rpartition(" ")[2]
            stamp = f'[{ref.ts // 10**9},"{value}"]'.encode()
            assert data[ref.offset :].startswith(stamp)
            line = data.split(b"\n")[ref.line - 1]
            assert stamp in line and re.search(r'UUID="([^"]+)"', ref.text)[1].encode() in line


def test_the_manifest_says_what_was_asked_and_what_is_absent(stack: PrometheusStack, tmp_path: Path) -> None:
    seen: list[tuple[str, int, int]] = []
    url = stack.url.replace("http://", "http://user:secret@")
    out = collect(
        url,
        str(START),
        str(END),
        tmp_path / "case",
        step=60,
        match='Hostname="gx-02"',
        progress=lambda *args: seen.append(args),
    )

    text = (out / "collected.json").read_text()
    manifest = json.loads(text)
    assert "secret" not in text and manifest["url"] == stack.url
    assert manifest["schema"] == "aiops.collected/v1"
    assert sniff_metrics(text.encode()) is None
    assert manifest["window"] == {"start": "2026-08-01T06:00:00Z", "end": "2026-08-01T08:00:00Z", "step_s": 60}
    assert manifest["counts"]["gpus"] == 8 and manifest["counts"]["nodes"] == 1
    assert "DCGM_FI_DEV_ROW_REMAP_FAILURE" in manifest["absent"]
    assert "DCGM_FI_DEV_GPU_TEMP" not in manifest["absent"]
    assert {str(p.relative_to(out)) for p in out.rglob("*.json")} == {*manifest["files"], "collected.json"}
    assert seen[-1] == ("collect", 13, 13)


def test_a_window_beyond_the_point_limit_is_split_without_gap_or_overlap(
    stack: PrometheusStack, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("aiops.sources.prometheus._MAX_SAMPLES", 100_000_000)
    out = collect(
        stack.url, (END - 12_000) * 10**9, END * 10**9, tmp_path / "seconds", step=1, match='Hostname="gx-01",gpu="0"'
    )

    answers = {q["query"].partition("{")[0]: q for q in json.loads((out / "collected.json").read_text())["queries"]}
    assert answers["DCGM_FI_DEV_GPU_TEMP"]["answers"] == 2
    block = next(b for b in read(out).series if b.fields == ["DCGM_FI_DEV_GPU_TEMP"])
    steps = np.diff(block.times)
    assert steps.max() == steps.min() == 10**9
    assert block.times[-1] == END * 10**9


def test_collecting_twice_replaces_and_gives_the_same_samples(stack: PrometheusStack, tmp_path: Path) -> None:
    first = collect(stack.url, str(START), str(END), tmp_path / "case", step=300)
    before = {p.name: p.read_bytes() for p in (first / "metrics").iterdir()}
    again = collect(stack.url, str(START), str(END), tmp_path / "case", step=300)

    assert {p.name: p.read_bytes() for p in (again / "metrics").iterdir()} == before
    assert [p.name for p in tmp_path.iterdir()] == ["case"]


def test_files_of_others_are_never_replaced(stack: PrometheusStack, tmp_path: Path) -> None:
    out = collect(stack.url, str(START), str(END), tmp_path / "case", step=600)
    (out / "kern.log").write_text("mine")

    with pytest.raises(InputError, match=r"kern\.log"):
        collect(stack.url, str(START), str(END), out, step=600)
    assert (out / "kern.log").read_text() == "mine"


def test_no_series_is_an_error_that_says_so(stack: PrometheusStack, tmp_path: Path) -> None:
    with pytest.raises(SourceError, match='no DCGM series with Hostname="elsewhere"'):
        collect(stack.url, str(START), str(END), tmp_path / "case", match='Hostname="elsewhere"')
    assert list(tmp_path.iterdir()) == []


def test_a_refused_query_carries_the_servers_words(stack: PrometheusStack, tmp_path: Path) -> None:
    with pytest.raises(SourceError, match="HTTP 400: bad_data: .*parse error"):
        collect(stack.url, str(START), str(END), tmp_path / "case", match='Hostname=~"[unclosed')
    assert list(tmp_path.iterdir()) == []


def test_a_running_exporter_is_collected_by_relative_times(tmp_path: Path) -> None:
    server, tool = need("prometheus"), need("promtool")
    with PrometheusStack(
        tmp_path / "prometheus", nodes=["live-01"], gpus=4, prometheus=server, promtool=tool
    ) as running:
        out = collect(running.url, "now-5m", "now", tmp_path / "case", step="1s")

        case = read(out)
        assert set(case.topology.nodes) >= {"live-01"}
        assert {"up", "DCGM_FI_DEV_GPU_TEMP"} <= {name for block in case.series for name in block.fields}
        assert detect(case, None) == []


def test_from_the_command_line_to_the_verdict(stack: PrometheusStack, tmp_path: Path, aiops) -> None:
    collected = aiops(
        "collect",
        "prometheus",
        "--url",
        stack.url,
        "--start",
        str(START),
        "--end",
        str(END),
        "--step",
        "30s",
        "--out",
        tmp_path / "case",
    )
    assert collected.returncode == 0, collected.stderr
    again = aiops("analyze", tmp_path / "case", "--format", "json")
    assert again.returncode == 10, again.stderr
    report = json.loads(again.stdout)
    assert {(i["culprit"]["node"], i["culprit"]["gpu"]) for i in report["incidents"]} >= {("gx-02", 3)}
    assert all(item["name"] != "collected.json" or item["kind"] == "manifest" for item in report["coverage"]["sources"])
