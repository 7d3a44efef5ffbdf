"""The rows behind the timeline: entries as points, lasting findings as spans, and which texts fit."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from aiops.model.report import Incident
from aiops.report.escape import plain, shorten
from aiops.report.words import clock, duration, main_day, moment

Row = dict[str, Any]
"""One mark; plain values only, as Vega-Lite takes them."""

ROLES = ("cause", "effect", "context")
WINDOWS = ("From the cause on", "Whole case", "First seconds")

_LABEL_CHARS = 64
_PLOT_PIXELS = 560
_CHAR_PIXELS = 6.2
_LABEL_GAP = 12
_LABEL_MIN_CHARS = 16


def points(incident: Incident) -> list[Row]:
    """One row per dated entry, in time order.

    ``ms`` is UTC epoch milliseconds, ``order`` sorts the lanes (causes first), ``after`` is the delay to the first
    cause in words.
    """
    dated = [(at, entry) for entry in incident.timeline if (at := moment(entry.ts)) is not None]
    dated.sort(key=lambda pair: pair[0])
    zero = next((at for at, entry in dated if entry.role == "cause"), None)
    order = _lane_order([(entry.entity, entry.role) for _, entry in dated])
    day = main_day([entry.ts for _, entry in dated])
    return [
        {
            "ms": _ms(at),
            "lane": _lane(entry.entity),
            "order": order[entry.entity],
            "role": entry.role,
            "text": plain(entry.text),
            "clock": clock(entry.ts, day),
            "after": "" if zero is None else _signed((at - zero).total_seconds()),
            "evidence": plain(", ".join(entry.evidence)),
        }
        for at, entry in dated
    ]


def undated(incident: Incident) -> list[str]:
    """Entries that have no place on a time axis, as ``entity: text``."""
    return [f"{entry.entity}: {entry.text}" for entry in incident.timeline if moment(entry.ts) is None]


def spans(incident: Incident) -> list[Row]:
    """Findings that last longer than an instant, on lanes of the timeline: ``lane``, ``start``, ``end``, ``role``."""
    lanes = sorted({entry.entity for entry in incident.timeline}, key=len, reverse=True)
    rows = []
    for finding in incident.findings:
        first, last = moment(finding.first), moment(finding.last)
        lane = next((name for name in lanes if f"{finding.entity} ".startswith(f"{name} ")), None)
        if first is None or last is None or last <= first or lane is None:
            continue
        rows.append(
            {
                "lane": _lane(lane),
                "start": _ms(first),
                "end": _ms(last),
                "text": plain(finding.text),
                "role": {"root": "cause", "echo": "effect"}.get(finding.role, "context"),
                "clock": f"{clock(finding.first)} to {clock(finding.last)}",
            }
        )
    return rows


def window(rows: list[Row], name: str) -> tuple[int, int]:
    """Ends of the time axis in epoch milliseconds, with a margin.

    ``From the cause on`` leaves out what lies long before the first cause; ``First seconds`` begins at the last cause
    before the first effect and shows 2 % of what follows, at least ten seconds: there the order of near events is seen.
    """
    first, last = rows[0]["ms"], rows[-1]["ms"]
    causes = [row["ms"] for row in rows if row["role"] == "cause"] or [first]
    effect = min((row["ms"] for row in rows if row["role"] == "effect"), default=last)
    if name == WINDOWS[0]:
        first = causes[0]
    elif name == WINDOWS[2]:
        first = max((ms for ms in causes if ms <= effect), default=causes[0])
        last = first + max(10_000, round((last - first) * 0.02))
    margin = max(500, round((last - first) * 0.03))
    return first - margin, last + margin


def labels(rows: list[Row], ends: tuple[int, int]) -> list[Row]:
    """The entries whose text can be written above their mark without touching another text; causes choose first.

    Each gets ``label`` and ``side``: the text begins at the mark (``right``) or ends there (``left``). A text is
    shortened to the free room unless too little of it would be left.
    """
    start, end = ends
    per_ms = _PLOT_PIXELS / max(1, end - start)
    taken: dict[str, list[tuple[float, float]]] = {}
    chosen = []
    for row in sorted(
        (row for row in rows if start <= row["ms"] <= end), key=lambda row: (ROLES.index(row["role"]), row["ms"])
    ):
        x = (row["ms"] - start) * per_ms
        lane = taken.setdefault(row["lane"], [])
        right = min([low for low, _ in lane if low >= x] + [_PLOT_PIXELS]) - x
        left = x - max([high for _, high in lane if high <= x] + [0.0])
        if any(low < x < high for low, high in lane):
            continue
        text = shorten(row["text"], _LABEL_CHARS)
        side, room = ("right", right) if right >= min(left, _width(text)) else ("left", left)
        text = shorten(text, int((room - _LABEL_GAP) / _CHAR_PIXELS))
        if len(text) >= min(len(row["text"]), _LABEL_MIN_CHARS):
            width = _width(text)
            lane.append((x, x + width) if side == "right" else (x - width, x))
            chosen.append({**row, "label": text, "side": side})
    return chosen


def clip(rows: list[Row], ends: tuple[int, int], lanes: dict[str, int]) -> list[Row]:
    """The parts of the spans that lie in the window, on lanes that are shown."""
    return [
        {**row, "start": max(row["start"], ends[0]), "end": min(row["end"], ends[1]), "order": lanes[row["lane"]]}
        for row in rows
        if row["end"] >= ends[0] and row["start"] <= ends[1] and row["lane"] in lanes
    ]


def first_cause_ms(incident: Incident) -> int | None:
    """When the first cause happened, UTC epoch milliseconds."""
    return min((row["ms"] for row in points(incident) if row["role"] == "cause"), default=None)


def _lane_order(entries: list[tuple[str, str]]) -> dict[str, int]:
    """Lanes with a cause first, then those with effects, then context; within each by first appearance."""
    rank = {role: index for index, role in enumerate(ROLES)}
    best: dict[str, tuple[int, int]] = {}
    for index, (entity, role) in enumerate(entries):
        known = best.get(entity, (len(rank), index))
        best[entity] = (min(known[0], rank[role]), known[1])
    return {entity: place for place, entity in enumerate(sorted(best, key=lambda name: best[name]))}


def _lane(entity: str) -> str:
    return plain(entity) or "unknown"


def _ms(at: datetime) -> int:
    return round(at.timestamp() * 1000)


def _signed(seconds: float) -> str:
    if seconds == 0:
        return "first cause"
    return duration(seconds) if seconds < 0 else f"+{duration(seconds)}"


def _width(text: str) -> float:
    return len(text) * _CHAR_PIXELS + _LABEL_GAP
