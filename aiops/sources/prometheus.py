"""GPU metrics of a window from a live Prometheus, as a case directory that can be analysed again at any time."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from aiops.catalog.dcgm import metric_names
from aiops.errors import InputError, SourceError
from aiops.progress import Progress, silent
from aiops.sources.casedir import case_directory, write_manifest
from aiops.sources.prometheus_api import Client, TooManySamples
from aiops.sources.when import parse_duration, parse_when, rfc3339

SELECTOR = '__name__=~"DCGM_.+"'
_NAME = re.compile(r"DCGM_[a-zA-Z0-9_:]+")
_STEPS = (15, 30, 60, 120, 300, 600, 1_800, 3_600)
_POINTS = 1_440
"""Points that a series gets if no step is asked for, at most."""
_MAX_POINTS = 10_999
"""Prometheus refuses more than 11,000 intervals a series in one answer."""
_MAX_SAMPLES = 1_000_000
"""Samples asked for in one answer: bounds memory here and the server's own limit."""
_SERIES_GUESS = 256
_WANTED = (
    "DCGM_FI_DEV_GPU_TEMP",
    "DCGM_FI_DEV_SM_CLOCK",
    "DCGM_FI_DEV_POWER_USAGE",
    "DCGM_FI_DEV_GPU_UTIL",
    "DCGM_FI_DEV_FB_USED",
    "DCGM_FI_DEV_XID_ERRORS",
    "DCGM_FI_DEV_CLOCK_THROTTLE_REASONS",
    "DCGM_FI_DEV_ECC_DBE_VOL_TOTAL",
    "DCGM_FI_DEV_ECC_SBE_VOL_TOTAL",
    "DCGM_FI_DEV_ROW_REMAP_PENDING",
    "DCGM_FI_DEV_ROW_REMAP_FAILURE",
    "DCGM_FI_DEV_UNCORRECTABLE_REMAPPED_ROWS",
    "DCGM_FI_DEV_PCIE_REPLAY_COUNTER",
    "DCGM_FI_DEV_PCIE_LINK_WIDTH",
    "DCGM_FI_PROF_PIPE_TENSOR_ACTIVE",
)
"""Fields that the detectors read; those that nobody collects are named in the manifest."""


def collect(
    url: str,
    start: int | str,
    end: int | str,
    out: str | Path,
    *,
    step: int | str | None = None,
    match: Sequence[str] | str | None = None,
    timeout: float = 30.0,
    token: str | None = None,
    progress: Progress = silent,
) -> Path:
    """Save the DCGM series of a window.

    Writes ``OUT/metrics/NAME.json`` in the shape of ``query_range`` (one series a line) and the manifest
    ``OUT/collected.json``. ``OUT`` appears whole or not at all.

    Args:
        url: base URL; a user and password in it are used and never written.
        start: begin, UTC ns or text, see `when.parse_when`.
        end: end, likewise.
        out: directory to make; it may exist if it is empty or holds an earlier collection.
        step: time between samples, seconds or text such as ``30s``; by default as fine as 1,440 points allow.
        match: label matchers that all series must satisfy, for example ``Hostname=~"gx-.*"``.
        timeout: seconds that one answer may take.
        token: bearer token.
        progress: told ``collect`` and how many metrics are done.

    Returns:
        The directory.

    Raises:
        InputError: a time, the URL or ``out`` cannot be used.
        SourceError: the server is unreachable, refuses, is too slow, or has no such series.
    """
    now = time.time_ns()
    first = parse_when(start, now) if isinstance(start, str) else start
    last = parse_when(end, now) if isinstance(end, str) else end
    if first >= last:
        raise InputError(f"the window is empty: {rfc3339(first)} is not before {rfc3339(last)}")
    seconds = _step(step, last - first)
    window = Window(first // 10**9 // seconds * seconds, -(-last // 10**9), seconds)
    matchers = ",".join([match] if isinstance(match, str) else match or ())
    out = Path(out)
    with case_directory(out) as folder, Client(url, timeout=timeout, token=token) as client:
        selector = f"{{{SELECTOR}{',' if matchers else ''}{matchers}}}"
        names = [name for name in client.names(selector, window.start, window.end) if _NAME.fullmatch(name)]
        if not names:
            wanted = f" with {matchers}" if matchers else ""
            raise SourceError(
                f"{client.shown}: no DCGM series{wanted} between {rfc3339(first)} and {rfc3339(last)}; "
                "does this Prometheus scrape dcgm-exporter?"
            )
        (folder / "metrics").mkdir()
        saved: list[Saved] = []
        for done, name in enumerate(names):
            progress("collect", done, len(names))
            saved.append(_save(client, folder, name, f"{name}{{{matchers}}}" if matchers else name, window))
        jobs = sorted({job for item in saved for job in item.jobs})
        if jobs:
            pattern = "|".join(re.escape(job) for job in jobs).replace("\\", "\\\\").replace('"', '\\"')
            saved.append(_save(client, folder, "up", f'up{{job=~"{pattern}"}}', window))
        progress("collect", len(names), len(names))
        if not any(item.samples for item in saved if item.name != "up"):
            raise SourceError(
                f"{client.shown}: the DCGM series have no samples between {rfc3339(first)} and "
                f"{rfc3339(last)} at a step of {seconds} s"
            )
        write_manifest(folder, _manifest(client, window, saved, names))
    return out


@dataclass(frozen=True, slots=True)
class Window:
    """What is asked for, in whole seconds since 1970, begin and end included."""

    start: int
    end: int
    step: int


@dataclass(slots=True)
class Saved:
    """One metric that was written."""

    name: str
    query: str
    file: str | None = None
    """Where it stands; ``None`` if the window has no samples of it."""
    series: int = 0
    samples: int = 0
    answers: int = 0
    jobs: set[str] = field(default_factory=set)
    hosts: set[str] = field(default_factory=set)
    gpus: set[str] = field(default_factory=set)
    down: set[str] = field(default_factory=set)


def _step(step: int | str | None, window: int) -> int:
    """Seconds between samples."""
    if step is None:
        return next((nice for nice in _STEPS if window <= nice * _POINTS * 10**9), _STEPS[-1])
    seconds = parse_duration(step) if isinstance(step, str) else step * 10**9
    if seconds < 10**9 or seconds % 10**9:
        raise InputError("the step must be a whole number of seconds")
    return seconds // 10**9


def _save(client: Client, folder: Path, name: str, query: str, window: Window) -> Saved:
    """Write one metric, part by part; only its text is held in memory."""
    import orjson

    item = Saved(name, query)
    parts: dict[bytes, list[bytes]] = {}
    for answer in _answers(client, item, window):
        item.answers += 1
        for series in answer:
            values = series["values"]
            if not values:
                continue
            labels = series["metric"]
            key = orjson.dumps(labels, option=orjson.OPT_SORT_KEYS)
            parts.setdefault(key, []).append(orjson.dumps(values)[1:-1])
            item.samples += len(values)
            _count(item, labels, values)
        item.series = len(parts)
    if not parts:
        return item
    item.file = f"metrics/{name.replace(':', '_')}.json"
    with open(folder / item.file, "wb") as handle:
        handle.write(b'{"status":"success","data":{"resultType":"matrix","result":[')
        for i, key in enumerate(sorted(parts)):
            handle.write(b",\n" if i else b"\n")
            handle.write(b'{"metric":' + key + b',"values":[' + b",".join(parts[key]) + b"]}")
        handle.write(b"\n]}}\n")
    return item


def _answers(client: Client, item: Saved, window: Window) -> Iterator[list[dict[str, Any]]]:
    """The window in parts that one answer may hold. Both ends are included: the next part begins one step later."""
    begin, budget = window.start, _MAX_SAMPLES
    while begin <= window.end:
        series = item.series or _SERIES_GUESS
        points = max(1, min(_MAX_POINTS, budget // series, (window.end - begin) // window.step + 1))
        end = begin + (points - 1) * window.step
        try:
            answer = client.query_range(item.query, begin, end, window.step)
        except TooManySamples:
            if points == 1:
                raise
            budget = points * series // 2
            continue
        yield answer
        begin = end + window.step


def _count(item: Saved, labels: dict[str, str], values: list[list[Any]]) -> None:
    if item.name == "up":
        if any(len(value) > 1 and value[1] == "0" for value in values):
            item.down.add(labels.get("instance", "?"))
        return
    item.jobs.update(filter(None, [labels.get("job")]))
    host = labels.get("Hostname") or labels.get("hostname") or labels.get("instance", "")
    item.hosts.add(host)
    item.gpus.add(labels.get("UUID") or labels.get("gpu_uuid") or f"{host}/{labels.get('gpu')}")


def _manifest(client: Client, window: Window, saved: list[Saved], names: list[str]) -> dict[str, Any]:
    fields = metric_names().fields
    absent = [name for name in _WANTED if not set(fields[name].names) & set(names)]
    return {
        "source": "prometheus",
        "url": client.shown,
        "window": {"start": rfc3339(window.start * 10**9), "end": rfc3339(window.end * 10**9), "step_s": window.step},
        "collected_at": rfc3339(time.time_ns()),
        "counts": {
            "metrics": len(names),
            "series": sum(item.series for item in saved),
            "samples": sum(item.samples for item in saved),
            "nodes": len(set().union(*(item.hosts for item in saved))),
            "gpus": len(set().union(*(item.gpus for item in saved))),
        },
        "queries": [
            {
                "query": item.query,
                "file": item.file,
                "series": item.series,
                "samples": item.samples,
                "answers": item.answers,
            }
            for item in saved
        ],
        "absent": absent,
        "targets_down": sorted(set().union(*(item.down for item in saved))),
        "warnings": client.warnings,
    }
