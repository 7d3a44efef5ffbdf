"""Answers of the Prometheus query API, straight from bytes to arrays.

The usual document is compact and regular, so each series is cut out by one regular expression and its samples are
parsed as one flat JSON array of numbers. What is left (the frame of the document) is parsed as JSON too: it proves
that nothing was skipped, and it holds whatever is written differently, which then takes the slow path.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from aiops.ingest.metrics_block import SeriesBuilder

if TYPE_CHECKING:
    import numpy as np

_SERIES = re.compile(rb'\{"metric":(\{[^{}]*\}),"(values|value)":\[')
_START = b'{"metric":'
_SPACE = re.compile(rb'("(?:[^"\\]|\\.)*")|[ \t\r\n]+')
_PAIR = re.compile(rb'\[[0-9.eE+-]+,"[^"\]]*"\]')
_DEPTH = 8
_LATEST = 9.2e9
"""Seconds since 1970 that still fit into int64 nanoseconds."""


@dataclass(slots=True)
class _State:
    builder: SeriesBuilder
    times: np.ndarray | None = None
    """Sample times of the series before; most series share them."""
    stamps: np.ndarray | None = None
    series: int = 0


def read_prometheus(builder: SeriesBuilder, data: bytes) -> int:
    """Read one answer, a list of them, one a line, or a bare list of series.

    Keeps what is whole in a damaged or truncated document and reports the place of the damage.

    Returns:
        Number of series read.
    """
    state = _State(builder)
    frame = _cut(state, data)
    if _parsed(state, frame, None):
        return state.series
    lines = [(number, line) for number, line in enumerate(frame.split(b"\n"), 1) if line.strip()]
    damaged = [(number, line) for number, line in lines if not _parsed(state, line, number)]
    if len(damaged) < len(lines):  # JSON lines
        for number, line in damaged:
            _salvage(state, data, line, number)
        return state.series
    if b"\n" in frame.strip():  # pretty-printed
        frame = _cut(state, _SPACE.sub(rb"\1", data))
    _salvage(state, data, frame, None)
    return state.series


def _parsed(state: _State, text: bytes, line: int | None) -> bool:
    """Walk through an object or a list; false if the text is neither."""
    import orjson

    if not text.lstrip().startswith((b"{", b"[{", b"[0", b"[]")):
        return False
    try:
        value = orjson.loads(text)
    except orjson.JSONDecodeError:
        return False
    _walk(state, value, line)
    return True


def _cut(state: _State, data: bytes) -> bytes:
    """Read all compact series and return the document with each of them replaced by ``0``."""
    frame: list[bytes] = []
    kept = position = 0
    while (match := _SERIES.search(data, position)) is not None:
        start, body = match.span()
        matrix = match[2] == b"values" and data[body : body + 1] != b"]"
        end = data.find(b"]]" if matrix else b"]", body)
        position = body
        if end < 0:
            break
        after = end + (2 if matrix else 1)
        if data[after : after + 1] != b"}" or data.find(_START, body, end) >= 0:
            continue
        if not _take(state, match[1], data[body:end]):
            continue
        frame += data[kept:start], b"0"
        kept = position = after + 1
    frame.append(data[kept:])
    return b"".join(frame)


def _take(state: _State, metric: bytes, body: bytes) -> bool:
    """Add one series from the text of its labels and samples; false if it is not as expected."""
    import numpy as np
    import orjson

    try:
        labels = orjson.loads(metric)
        flat = body.translate(None, b'[]"')
        try:
            numbers = orjson.loads(b"[" + flat + b"]")
        except orjson.JSONDecodeError:
            numbers = [float(text) for text in flat.split(b",")]  # NaN, +Inf
        samples = np.array(numbers, dtype=np.float64)
    except (ValueError, TypeError):
        return False
    if len(samples) % 2:
        return False
    return _add(state, labels, samples[0::2], samples[1::2])


def _add(state: _State, labels: dict[str, str], stamps: np.ndarray, values: np.ndarray) -> bool:
    import numpy as np

    if set(map(type, labels.values())) - {str}:
        return False
    if state.times is None or len(stamps) != len(state.times) or not bool((stamps == state.stamps).all()):
        if not bool((np.abs(stamps) < _LATEST).all()):
            return False
        # Prometheus knows milliseconds; rounding removes the noise of the binary fraction
        state.times = np.rint(stamps * 1e3).astype(np.int64) * 1_000_000
        state.stamps = stamps
    state.series += 1
    slot = state.builder.slot(labels.get("__name__", ""), labels)
    if slot is None or not len(stamps):
        return True
    state.builder.add(slot, state.times, values)
    return True


def _walk(state: _State, value: Any, line: int | None, depth: int = 0) -> None:
    """Find series in the parsed frame, and what the server said besides."""
    if depth > _DEPTH:
        return
    if isinstance(value, list):
        for item in value:
            if isinstance(item, (dict, list)):
                _walk(state, item, line, depth + 1)
    elif isinstance(value, dict):
        if isinstance(value.get("metric"), dict) and ("values" in value or "value" in value):
            if not _slow(state, value):
                state.builder.problem(f"a series is not readable: {str(value['metric'])[:200]}", line)
            return
        if value.get("status") == "error":
            state.builder.problem(
                f"Prometheus answered: {value.get('errorType')}: {str(value.get('error'))[:300]}", line
            )
        for key in ("warnings", "infos"):
            for text in value.get(key) or ():
                state.builder.problem(f"Prometheus {key[:-1]}: {str(text)[:300]}", line)
        for key in ("data", "result", "results", "responses"):
            if isinstance(value.get(key), (dict, list)):
                _walk(state, value[key], line, depth + 1)


def _slow(state: _State, series: dict[str, Any]) -> bool:
    """A series with other key order, white space, or native histograms (whose buckets are not kept).

    VictoriaMetrics exports ``values`` and ``timestamps`` (milliseconds) side by side.
    """
    import numpy as np

    if "timestamps" in series:
        try:
            times = np.array([float(stamp) / 1e3 for stamp in series["timestamps"]], dtype=np.float64)
            side = np.array([np.nan if v is None else float(v) for v in series["values"]], dtype=np.float64)
        except (TypeError, ValueError, KeyError):
            return False
        return len(times) == len(side) and _add(state, series["metric"], times, side)
    pairs: list[Any] = (series["values"] if "values" in series else [series["value"]]) or []
    try:
        stamps = np.array([float(pair[0]) for pair in pairs], dtype=np.float64)
        values = np.array([float(pair[1]) for pair in pairs], dtype=np.float64)
    except (TypeError, ValueError, IndexError, KeyError):
        return False
    return _add(state, series["metric"], stamps, values)


def _salvage(state: _State, data: bytes, frame: bytes, line: int | None) -> None:
    """Keep the samples before the damage of each series that is not whole, and say where the first damage is."""
    whole, kept = state.series, 0
    damaged = frame.split(_START)[1:]
    for chunk in damaged:
        match = _SERIES.match(_START + chunk)
        if match is not None:
            body = chunk[match.end() - len(_START) :]
            pairs = _PAIR.findall(body if match[2] == b"values" else b"[" + body)
            if pairs and _take(state, match[1], b",".join(pairs)):
                kept += len(pairs)
    piece = (_START + damaged[0])[:300] if damaged else frame[-40:]
    offset = data.find(piece)
    place = f"byte {offset}" if offset >= 0 else "its end"
    state.builder.problem(
        f"not valid JSON near {place}: {whole} series are whole, {kept} samples of {len(damaged)} "
        "damaged ones were kept",
        line,
    )
