"""Metric curves on the HTML page: one small chart per field, the culprit against its peers."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from aiops.model.report import Incident
from aiops.report import words
from aiops.report.escape import Html, shorten, tag

WIDTH, HEIGHT = 340.0, 128.0
LEFT, RIGHT, TOP, BOTTOM = 42.0, 8.0, 8.0, 20.0
MAX_CHARTS = 24
ROLES = ("peer", "peers_median", "culprit")
"""In drawing order: the culprit is on top."""


@dataclass(frozen=True, slots=True)
class Curve:
    """Samples of one entity: (seconds since 1970 UTC, value), NaN where nothing was sampled."""

    entity: str
    role: str
    points: list[tuple[float, float]]

    @property
    def last(self) -> float | None:
        """Time of the last sample that has a value."""
        return next((at for at, value in reversed(self.points) if not math.isnan(value)), None)


def curves(series: Sequence[dict[str, Any]], incident: Incident) -> Html | None:
    """Charts in the order of the series, or ``None`` if nothing can be drawn; broken points are left out."""
    fields: dict[tuple[str, str], list[Curve]] = {}
    for item in series:
        curve = _curve(item)
        if curve is not None:
            fields.setdefault((str(item.get("field") or ""), str(item.get("unit") or "")), []).append(curve)
    cause = next(
        (
            at.timestamp()
            for entry in reversed(incident.timeline)
            if entry.role == "cause" and (at := words.moment(entry.ts))
        ),
        None,
    )
    charts = [_chart(field, unit, group, cause) for (field, unit), group in list(fields.items())[:MAX_CHARTS]]
    return tag("div", *charts, class_="curves") if charts else None


def _curve(item: dict[str, Any]) -> Curve | None:
    points: list[tuple[float, float]] = []
    raw = item.get("points")
    for point in raw if isinstance(raw, list) else []:
        if isinstance(point, list | tuple) and len(point) == 2:
            at = _seconds(point[0])
            if at is not None:
                points.append((at, _value(point[1])))
    role = item.get("role")
    if all(math.isnan(value) for _, value in points):
        return None
    return Curve(str(item.get("entity") or ""), role if role in ROLES else "peer", sorted(points, key=lambda p: p[0]))


def _seconds(value: Any) -> float | None:
    if isinstance(value, str):
        at = words.moment(value)
        return at.timestamp() if at else None
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < 1e11:
        return None
    return float(value)


def _value(value: Any) -> float:
    number = isinstance(value, int | float) and not isinstance(value, bool)
    return float(value) if number and math.isfinite(value) and abs(value) < 1e300 else math.nan


def _chart(field: str, unit: str, group: Sequence[Curve], cause: float | None) -> Html:
    values = [value for curve in group for _, value in curve.points if not math.isnan(value)]
    times = [at for curve in group for at, _ in curve.points]
    low, high, start, end = min(values), max(values), min(times), max(times)
    if low > 0 and low < high / 2:
        low = 0.0
    if low == high:
        low, high = (0.0, 1.0) if low == 0 else (low - abs(low) / 2, high + abs(high) / 2)
    span = end - start or 1.0

    def x(at: float) -> float:
        return LEFT + (at - start) / span * (WIDTH - LEFT - RIGHT)

    def y(value: float) -> float:
        return HEIGHT - BOTTOM - (value - low) / (high - low) * (HEIGHT - TOP - BOTTOM)

    floor = HEIGHT - BOTTOM
    parts: list[Html | None] = [_silence(group, end, x)]
    for value in (low, high):
        parts.append(tag("path", d=f"M{LEFT} {y(value):.1f}H{WIDTH - RIGHT}", class_="grid"))
        parts.append(tag("text", words.number(value), x=LEFT - 5, y=round(y(value) + 3.5, 1), text_anchor="end"))
    if cause is not None and start <= cause <= end:
        parts.append(tag("path", d=f"M{x(cause):.1f} {TOP}V{floor}", class_="moment"))
    for curve in sorted(group, key=lambda c: ROLES.index(c.role)):
        parts += _line(curve, x, y)
    parts.append(tag("text", _hour(start), x=LEFT, y=HEIGHT - 6))
    parts.append(tag("text", _hour(end), x=WIDTH - RIGHT, y=HEIGHT - 6, text_anchor="end"))
    described = "; ".join(_described(curve) for curve in group)
    return tag(
        "figure",
        tag("figcaption", tag("code", field), f" {unit}" if unit else None),
        tag("svg", *parts, viewBox=f"0 0 {WIDTH:.0f} {HEIGHT:.0f}", role="img", aria_label=f"{field}: {described}"),
        _legend(group),
    )


def _line(curve: Curve, x: Any, y: Any) -> list[Html]:
    """A path that breaks where samples are missing; a lone sample is a dot."""
    path: list[str] = []
    dots: list[Html] = []
    pen = False
    for number, (at, value) in enumerate(curve.points):
        if math.isnan(value):
            pen = False
            continue
        path.append(f"{'L' if pen else 'M'}{x(at):.1f} {y(value):.1f}")
        after = curve.points[number + 1][1] if number + 1 < len(curve.points) else math.nan
        if math.isnan(after) and (not pen or curve.role == "culprit"):
            dots.append(tag("circle", cx=round(x(at), 1), cy=round(y(value), 1), r=2.5, class_=f"dot-{curve.role}"))
        pen = True
    return [tag("path", d="".join(path), class_=f"curve-{curve.role}"), *dots]


def _silence(group: Sequence[Curve], end: float, x: Any) -> Html | None:
    """The time in which peers were sampled and the culprit was not."""
    culprit = next((curve for curve in group if curve.role == "culprit"), None)
    last = culprit.last if culprit else None
    if last is None or not any((curve.last or last) > last for curve in group):
        return None
    left, right = x(last), x(end)
    label = (
        tag("text", "no samples", x=round((left + right) / 2, 1), y=TOP + 12, text_anchor="middle")
        if (right - left > 62)
        else None
    )
    return tag(
        "g",
        tag(
            "rect", x=round(left, 1), y=TOP, width=round(right - left, 1), height=HEIGHT - TOP - BOTTOM, class_="silent"
        ),
        label,
    )


def _legend(group: Sequence[Curve]) -> Html:
    shown = sorted(group, key=lambda c: -ROLES.index(c.role))
    items = [
        tag(
            "span",
            tag("svg", tag("path", d="M0 5H20", class_=f"curve-{curve.role}"), width=20, height=10, aria_hidden="true"),
            shorten(curve.entity, 40),
        )
        for curve in shown[:4]
    ]
    if len(shown) > 4:
        items.append(tag("span", f"and {len(shown) - 4} more"))
    return tag("p", *items, class_="legend")


def _described(curve: Curve) -> str:
    known = [value for _, value in curve.points if not math.isnan(value)]
    return (
        f"{curve.entity} ({curve.role.replace('_', ' ')}) between {words.number(min(known))} and "
        f"{words.number(max(known))}"
    )


def _hour(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).strftime("%H:%M:%S")
