"""The timeline: one lane per entity, causes, effects and context apart by colour and shape."""

from __future__ import annotations

import altair as alt

from aiops.model.report import Incident
from dashboards.charts.axis import time_scale
from dashboards.charts.lanes import ROLES, WINDOWS, Row, clip, labels, points, spans, window
from dashboards.charts.palette import ROLE_COLORS, ROLE_SHAPES, TEXT

_LANE_HEIGHT = 38
_DENSE_LANE_HEIGHT = 30
_DENSE_FROM = 10
_MILLISECONDS_BELOW_MS = 8_000
_FRAME_HEIGHT = 104
"""Legend and axis: Streamlit fits the whole chart, not the plot, into the height."""


def chart(incident: Incident, window_name: str = WINDOWS[0]) -> alt.LayerChart | None:
    """The timeline of an incident, ``None`` if nothing in it has a time. Times are UTC; shift and wheel zooms."""
    rows = points(incident)
    if not rows:
        return None
    ends = window(rows, window_name)
    visible = [row for row in rows if ends[0] <= row["ms"] <= ends[1]]
    # Every layer gets the same scale: one without a domain would widen the axis for all of them.
    time = time_scale(ends)
    clock = "%H:%M:%S.%L" if ends[1] - ends[0] < _MILLISECONDS_BELOW_MS else "%H:%M:%S"
    x = alt.X("ms:T", scale=time, axis=alt.Axis(title=None, format=clock, labelOverlap=True, grid=False, tickCount=8))
    # Lanes are sorted by a number: their names are text of the case and must not end up in a Vega expression.
    # A point scale leaves room for the text above the first lane.
    y = alt.Y(
        "lane:N",
        scale=alt.Scale(type="point", padding=0.75),
        sort=alt.EncodingSortField("order", op="min", order="ascending"),
        axis=alt.Axis(title=None, labelLimit=210, labelPadding=8, ticks=False, domain=False, grid=True),
    )
    color = alt.Color(
        "role:N",
        scale=alt.Scale(domain=list(ROLES), range=[ROLE_COLORS[role] for role in ROLES]),
        legend=alt.Legend(title=None, orient="top", symbolSize=110, symbolOpacity=1),
    )
    shape = alt.Shape(
        "role:N",
        scale=alt.Scale(domain=list(ROLES), range=[ROLE_SHAPES[role] for role in ROLES]),
        legend=alt.Legend(title=None, orient="top"),
    )
    tooltip = [
        alt.Tooltip(f"{field}:N", title=title)
        for field, title in (
            ("clock", "time (UTC)"),
            ("after", "after the cause"),
            ("lane", "entity"),
            ("text", "what"),
            ("evidence", "evidence"),
        )
    ]
    zoom = alt.selection_interval(bind="scales", encodings=["x"], zoom="wheel![event.shiftKey]")
    layers: list[alt.Chart] = []
    bars = clip(spans(incident), ends, {row["lane"]: row["order"] for row in visible})
    if bars:
        layers.append(
            alt.Chart(_data(bars))
            .mark_bar(height=4, yOffset=9, opacity=0.45, cornerRadius=2, clip=True)
            .encode(
                x=alt.X("start:T", scale=time),
                x2="end:T",
                y=y,
                color=color,
                tooltip=[tooltip[0], tooltip[2], tooltip[3]],
            )
        )
    first = [row for row in visible if row["role"] == "cause"][:1]
    if first:
        layers.append(
            alt.Chart(_data(first))
            .mark_rule(strokeDash=[3, 3], opacity=0.6, clip=True, color=ROLE_COLORS["cause"])
            .encode(x=x)
        )
    # Later rows are drawn over earlier ones: no effect may hide a cause.
    on_top = sorted(visible, key=lambda row: -ROLES.index(row["role"]))
    layers.append(
        alt.Chart(_data(on_top))
        .mark_point(filled=True, size=120, opacity=1, clip=True)
        .encode(x=x, y=y, color=color, shape=shape, tooltip=tooltip)
        .add_params(zoom)
    )
    texts = labels(rows, ends)
    for side, align, dx in (("right", "left", 4), ("left", "right", -4)):
        beside = [row for row in texts if row["side"] == side]
        if beside:
            layers.append(
                alt.Chart(_data(beside))
                .mark_text(align=align, dx=dx, dy=-13, fontSize=11.5, color=TEXT)
                .encode(x=x, y=y, text="label:N")
            )
    lanes = len({row["lane"] for row in visible})
    lane_height = _LANE_HEIGHT if lanes < _DENSE_FROM else _DENSE_LANE_HEIGHT
    return alt.layer(*layers).properties(
        height=lane_height * lanes + _FRAME_HEIGHT, description="Timeline of the incident by entity"
    )


def _data(rows: list[Row]) -> alt.InlineData:
    return alt.InlineData(values=rows)
