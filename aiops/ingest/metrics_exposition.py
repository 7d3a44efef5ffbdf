"""The Prometheus text exposition format and OpenMetrics: scrapes saved to a file, one or many."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from aiops.ingest.metrics_block import SeriesBuilder, Slot

_SAMPLE = re.compile(r"([a-zA-Z_:][a-zA-Z0-9_:]*)(?:\{(.*)\})?")
_PLAIN = re.compile(r'(?:[a-zA-Z_][a-zA-Z0-9_]*="[^"\\]*"(?:,|$))*')
_PLAIN_LABEL = re.compile(r'(?<![a-zA-Z0-9_])([a-zA-Z_][a-zA-Z0-9_]*+)="([^"\\]*)"')
_LABEL = re.compile(r'\s*([a-zA-Z_][a-zA-Z0-9_]*)\s*=\s*"((?:[^"\\]|\\.)*)"\s*(?:,|$)')
_ESCAPE = re.compile(r"\\(.)")
_TEXT = 400
"""Characters of a sample's line kept as evidence."""
_MILLISECONDS = 1e11
"""Time stamps above are milliseconds (text format), below are seconds (OpenMetrics)."""
_LATEST = 9.2e9
"""Seconds since 1970 that still fit into int64 nanoseconds."""


@dataclass(slots=True)
class _Samples:
    slot: Slot
    times: list[int] = field(default_factory=list)
    values: list[float] = field(default_factory=list)
    bare: float | None = None
    """Last sample without a time stamp."""


def read_exposition(builder: SeriesBuilder, data: bytes) -> int:
    """Read all samples; a line that is none is reported with its number and left out.

    Samples without time stamp become a snapshot: the last one of each series stays.

    Returns:
        Number of samples read.
    """
    import numpy as np

    series: dict[bytes, _Samples | None] = {}
    counters: dict[str, bool] = {}
    count = 0
    for number, line in enumerate(data.split(b"\n"), 1):
        line = line.strip()
        if not line or line.startswith(b"#"):
            _type(counters, line)
            continue
        key, rest = _split(line)
        if key not in series:
            try:
                series[key] = _open(builder, counters, key)
            except ValueError as problem:
                builder.problem(f"line {number}: {problem}", number)
                continue
        samples = series[key]
        if samples is None:
            continue
        words = rest.split()
        try:
            value = float(words[0])
            stamp = float(words[1]) if len(words) > 1 else None
            if stamp is not None:
                stamp = stamp if abs(stamp) < _MILLISECONDS else stamp / 1e3
            if len(words) > 2 or b"_" in rest or (stamp is not None and not abs(stamp) < _LATEST):
                raise ValueError
        except (ValueError, IndexError):
            builder.problem(f"line {number}: no sample value: {_show(line)}", number)
            continue
        count += 1
        samples.slot.text, samples.slot.line = _show(line), number
        if stamp is None:
            samples.bare = value
        else:
            samples.times.append(round(stamp * 1e3) * 1_000_000)
            samples.values.append(value)
    for item in filter(None, series.values()):
        if item.times:
            builder.add(item.slot, np.array(item.times, dtype=np.int64), np.array(item.values, dtype=np.float64))
        elif item.bare is not None:
            builder.add(item.slot, None, np.array([item.bare], dtype=np.float64))
    return count


def parse_selector(text: str) -> tuple[str, dict[str, str]]:
    """``name{label="value",…}`` to its parts, escapes resolved.

    Raises:
        ValueError: the text is not of this form.
    """
    match = _SAMPLE.fullmatch(text.strip())
    if match is None:
        raise ValueError(f"not a metric: {text[:80]}")
    body, position = (match[2] or "").strip(), 0
    if _PLAIN.fullmatch(body):
        return match[1], dict(_PLAIN_LABEL.findall(body))
    labels: dict[str, str] = {}
    while position < len(body):
        label = _LABEL.match(body, position)
        if label is None:
            raise ValueError(f"labels are not readable: {body[position : position + 80]}")
        value = label[2]
        labels[label[1]] = _ESCAPE.sub(_unescape, value) if "\\" in value else value
        position = label.end()
    return match[1], labels


def _unescape(match: re.Match[str]) -> str:
    return "\n" if match[1] == "n" else match[1]


def _type(counters: dict[str, bool], line: bytes) -> None:
    if line.startswith(b"# TYPE "):
        words = line.split()
        if len(words) == 4:
            counters[words[2].decode(errors="replace")] = words[3] == b"counter"


def _split(line: bytes) -> tuple[bytes, bytes]:
    """The series and the rest of a line; an OpenMetrics exemplar (``# {…} 0.5``) is cut off."""
    brace = line.find(b"{")
    space = line.find(b" ") if b" " in line else len(line)
    if 0 <= brace <= space + 1:
        end = line.rfind(b"}")
        exemplar = line.rfind(b" # {")
        if 0 <= exemplar < end and line.rfind(b"}", 0, exemplar) > brace:
            end = line.rfind(b"}", 0, exemplar)
            return line[: end + 1], line[end + 1 : exemplar]
        return line[: end + 1], line[end + 1 :]
    rest = line[space:]
    return line[:space], rest.partition(b" # {")[0]


def _open(builder: SeriesBuilder, counters: dict[str, bool], key: bytes) -> _Samples | None:
    name, labels = parse_selector(key.decode("utf-8", errors="replace"))
    slot = builder.slot(name, labels, counter=counters.get(name, counters.get(name.removesuffix("_total"))))
    return None if slot is None else _Samples(slot)


def _show(line: bytes) -> str:
    return line[:_TEXT].decode("utf-8", errors="replace")
