"""Metric curves of the culprit against its peers, one small chart per field."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import altair as alt

from aiops.report.escape import Html, plain, tag
from aiops.report.words import moment
from dashboards.charts.axis import time_scale
from dashboards.charts.palette import CAUSE, MEDIAN, PEER

ROLES = {"culprit": "culprit", "peers_median": "median of peers", "peer": "peer"}
_COLORS = {"culprit": CAUSE, "median of peers": MEDIAN, "peer": PEER}
_HEIGHT = 150


@dataclass(frozen=True, slots=True)
class Panel:
    """The curves of one field. Times are UTC epoch milliseconds."""

    field: str
    title: str
    unit: str
    rows: list[dict[str, Any]]
    """``ms``, ``value`` (``None`` = not sampled), ``entity``, ``role``."""
    gaps: list[tuple[int, int]]
    """Where the culprit has no samples although its peers have."""


def panels(series: Sequence[Mapping[str, Any]]) -> list[Panel]:
    """The panels of ``coverage.series``, fields in order of appearance; fields without any sample are left out."""
    by_field: dict[str, list[Mapping[str, Any]]] = {}
    for curve in series:
        by_field.setdefault(str(curve["field"]), []).append(curve)
    made = []
    for field, curves in by_field.items():
        rows = [row for curve in curves for row in _rows(curve)]
        if any(row["value"] is not None for row in rows):
            made.append(Panel(field, readable(field), str(curves[0].get("unit") or ""), rows, _gaps(rows)))
    return made


def readable(field: str) -> str:
    """``DCGM_FI_DEV_GPU_TEMP`` → ``gpu temp``."""
    name = field
    for prefix in ("DCGM_FI_DEV_", "DCGM_FI_PROF_", "DCGM_FI_", "node_"):
        name = name.removeprefix(prefix)
    return plain(name.replace("_", " ").lower())


def chart(panel: Panel, cause_ms: int | None = None) -> alt.LayerChart:
    """One panel: the culprit thick, peers thin, gaps of the culprit shaded, the first cause as a rule."""
    ends = (min(row["ms"] for row in panel.rows), max(row["ms"] for row in panel.rows))
    # Every layer gets the same scale: one without a domain would widen the axis for all of them.
    time = time_scale(ends)
    x = alt.X("ms:T", scale=time, axis=alt.Axis(title=None, format="%H:%M", labelOverlap=True, grid=False, tickCount=5))
    large = any(row["value"] is not None and abs(row["value"]) >= 10_000 for row in panel.rows)
    y = alt.Y(
        "value:Q",
        scale=alt.Scale(zero=False, nice=True),
        axis=alt.Axis(title=None, tickCount=4, format="~s" if large else "~r"),
    )
    layers: list[alt.Chart] = []
    if panel.gaps:
        layers.append(
            alt.Chart(alt.InlineData(values=[{"start": start, "end": end} for start, end in panel.gaps]))
            .mark_rect(opacity=0.12, color=CAUSE, clip=True)
            .encode(x=alt.X("start:T", scale=time), x2="end:T")
        )
    layers.append(
        alt.Chart(alt.InlineData(values=panel.rows))
        .mark_line(invalid="break-paths-filter-domains", clip=True)
        .encode(
            x=x,
            y=y,
            detail="entity:N",
            color=alt.Color("role:N", legend=None, scale=_by_role(_COLORS.values())),
            strokeWidth=alt.StrokeWidth("role:O", legend=None, sort=list(_COLORS), scale=_by_role((2.4, 1.6, 1.0))),
            opacity=alt.Opacity("role:O", legend=None, sort=list(_COLORS), scale=_by_role((1.0, 0.9, 0.55))),
            strokeDash=alt.StrokeDash(
                "role:O", legend=None, sort=list(_COLORS), scale=_by_role(([1, 0], [5, 3], [1, 0]))
            ),
            tooltip=[
                alt.Tooltip("entity:N"),
                alt.Tooltip("role:N"),
                alt.Tooltip("value:Q", title=panel.title),
                alt.Tooltip("clock:N", title="time (UTC)"),
            ],
        )
    )
    if cause_ms is not None and ends[0] <= cause_ms <= ends[1]:
        layers.append(
            alt.Chart(alt.InlineData(values=[{"ms": cause_ms}]))
            .mark_rule(strokeDash=[3, 3], opacity=0.7, color=CAUSE, clip=True)
            .encode(x=x)
        )
    return alt.layer(*layers).properties(height=_HEIGHT, description=f"{panel.title}, culprit against peers")


def _by_role(values: Iterable[Any]) -> alt.Scale:
    return alt.Scale(domain=list(_COLORS), range=list(values))


def _rows(curve: Mapping[str, Any]) -> list[dict[str, Any]]:
    role = ROLES.get(str(curve.get("role")), "peer")
    entity = plain(str(curve["entity"]))
    rows = []
    for when, value in curve["points"]:
        at = moment(when) if isinstance(when, str) else datetime.fromtimestamp(when, UTC)
        if at is not None:
            rows.append(
                {
                    "ms": round(at.timestamp() * 1000),
                    "value": None if value is None else float(value),
                    "role": role,
                    "entity": entity,
                    "clock": f"{at:%H:%M:%S}",
                }
            )
    return sorted(rows, key=lambda row: row["ms"])


def _gaps(rows: list[dict[str, Any]]) -> list[tuple[int, int]]:
    """Where samples of the culprit are missing between or after those it has, while some peer has samples."""
    mine = {row["ms"]: row["value"] for row in rows if row["role"] == "culprit"}
    peers = {row["ms"] for row in rows if row["role"] != "culprit" and row["value"] is not None}
    gaps: list[tuple[int, int]] = []
    seen: int | None = None
    end: int | None = None
    for ms in sorted(set(mine) | peers):
        if mine.get(ms) is not None:
            if seen is not None and end is not None:
                gaps.append((seen, ms))
            seen, end = ms, None
        elif seen is not None and ms in peers and (ms in mine or ms > max(mine)):
            end = ms
    return [*gaps, (seen, end)] if seen is not None and end is not None else gaps


def title(panel: Panel) -> Html:
    """Heading of one panel: readable name, unit, and the field as it is called at its source."""
    unit = f" ({panel.unit})" if panel.unit else ""
    return tag("div", tag("b", panel.title + unit), tag("span", panel.field), class_="aiops-panel")


def legend(panels: Sequence[Panel]) -> Html:
    """One legend for all panels."""
    rows = [row for panel in panels for row in panel.rows]
    keys = []
    for role in _COLORS:
        names = {row["entity"] for row in rows if row["role"] == role}
        if names:
            who = f"{role}: {next(iter(names))}" if len(names) == 1 else role
            keys.append(tag("span", tag("i", class_="key " + role.split()[0]), who))
    keys += [tag("span", tag("i", class_="key gap"), "no samples")] if any(panel.gaps for panel in panels) else []
    return tag("div", *keys, class_="aiops-legend")
