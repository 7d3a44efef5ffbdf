"""The timeline on the HTML page: a drawing with one lane per entity, and the same entries as a list."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from aiops.model.report import Incident, TimelineEntry
from aiops.report import words
from aiops.report.cascade import Cascade
from aiops.report.escape import Html, plain, shorten, tag

WIDTH = 1000.0
LEFT = 176.0
"""Room for the names of the lanes."""
RIGHT = 26.0
TOP = 34.0
LANE = 34.0
BOTTOM = 26.0
MIN_STEP = 25.0
"""Marks of one lane never touch."""
MAX_LANES = 12
MAX_MARKS = 120
MAX_OPEN = 16
"""Entries of the list in sight; the later ones are one click away."""
OTHERS = "others"
_LEGEND = (("cause", "cause"), ("effect", "effect"), ("context", "context"))


@dataclass(frozen=True, slots=True)
class Mark:
    """An entry in the drawing: ``index`` in the timeline, its lane, and where it stands (SVG units)."""

    index: int
    entry: TimelineEntry
    lane: str
    x: float


def timeline(
    incident: Incident, prefix: str, links: Callable[[Sequence[str]], Html | None], story: Cascade | None
) -> Html | None:
    """The section, or ``None`` if the incident has no timeline. Marks link to entries ``{prefix}t{number}``."""
    entries = incident.timeline
    if not entries:
        return None
    day = words.main_day([entry.ts for entry in entries])
    lags = {step.index: step.delay_s for step in [*story.causes, *story.effects]} if story else {}
    rows = [_row(n, entry, day, lags.get(n), prefix, links) for n, entry in enumerate(entries)]
    late = rows[MAX_OPEN:]
    more = (
        tag(
            "details", tag("summary", f"{len(late):,} later entries"), tag("ol", *late, class_="entries"), class_="more"
        )
        if late
        else None
    )
    legend = tag(
        "p",
        *(tag("span", glyph(role), name) for role, name in _LEGEND),
        tag("span", "Long waits are drawn shorter; their length is written below."),
        class_="legend",
    )
    drawing = lanes(entries, prefix, day)
    return tag(
        "section",
        tag("h2", "Timeline", tag("small", f"UTC{', ' + day if day else ''}")),
        drawing,
        legend if drawing else None,
        tag("ol", *rows[:MAX_OPEN], class_="entries"),
        more,
        aria_label="Timeline",
    )


def glyph(role: str, number: int | None = None) -> Html:
    """The mark of a role: a diamond, a disc or a square, so that colour is not needed to tell them apart."""
    size, parts = 22, [_shape(role, 11, 11, 6.0)] if number is None else _numbered(role, number, 11, 11, 8.0)
    return tag("svg", *parts, width=size, height=size, viewBox=f"0 0 {size} {size}", aria_hidden="true")


def _numbered(role: str, number: int, x: float, y: float, r: float) -> list[Html]:
    return [_shape(role, x, y, r), tag("text", str(number), x=round(x, 1), y=round(y + 3.6, 1), class_=f"num {role}")]


def _shape(role: str, x: float, y: float, r: float) -> Html:
    if role == "cause":
        r *= 1.25
        return tag(
            "path",
            d=f"M{x:.1f} {y - r:.1f}L{x + r:.1f} {y:.1f}L{x:.1f} {y + r:.1f}L{x - r:.1f} {y:.1f}Z",
            class_="mark mark-cause",
        )
    if role == "effect":
        return tag("circle", cx=round(x, 1), cy=round(y, 1), r=r, class_="mark mark-effect")
    return tag(
        "rect",
        x=round(x - r * 0.88, 1),
        y=round(y - r * 0.88, 1),
        width=round(r * 1.76, 1),
        height=round(r * 1.76, 1),
        rx=2,
        class_="mark mark-context",
    )


def _row(
    index: int,
    entry: TimelineEntry,
    day: str | None,
    lag: float | None,
    prefix: str,
    links: Callable[[Sequence[str]], Html | None],
) -> Html:
    mark = tag("span", glyph(entry.role, index + 1), tag("span", entry.role, class_="hidden"), class_="glyph")
    return tag(
        "li",
        mark,
        tag("span", words.clock(entry.ts, day), class_="mono"),
        tag("span", f"+{words.duration(lag)}" if lag is not None else "", class_="lag"),
        tag("span", entry.entity, class_="who"),
        tag("span", entry.text, links(entry.evidence), class_="what"),
        class_=f"role-{entry.role}",
        id=f"{prefix}t{index + 1}",
    )


# --- the drawing ------------------------------------------------------------------------------------------------------


def lanes(entries: Sequence[TimelineEntry], prefix: str, day: str | None) -> Html | None:
    """The SVG, or ``None`` if fewer than two entries have a time."""
    timed = [(n, entry, at.timestamp()) for n, entry in enumerate(entries) if (at := words.moment(entry.ts))]
    timed = sorted(timed, key=lambda item: item[2])[:MAX_MARKS]
    if len(timed) < 2:
        return None
    names = _lane_names([entry for _, entry, _ in timed])
    marks, columns = _place(timed, names)
    width = max(WIDTH, marks[-1].x + RIGHT)
    bottom = TOP + LANE * len(names)
    middle = {name: TOP + LANE * (row + 0.5) for row, name in enumerate(names)}
    parts: list[Html | None] = []
    for name, y in middle.items():
        parts.append(tag("path", d=f"M{LEFT - 14} {y}H{width - 10:.0f}", class_="lane"))
        parts.append(tag("text", tag("title", name), shorten(plain(name), 23), x=14, y=y + 4, class_="who"))
    causes = {mark.x for mark in marks if mark.entry.role == "cause"}
    for x, _ in columns:
        parts.append(tag("path", d=f"M{x:.1f} {TOP - 6}V{bottom:.0f}", class_="tick cause" if x in causes else "tick"))
    parts += _clock_labels(columns, causes, marks, day, width)
    parts += _gap_labels(columns, bottom)
    parts += [_mark(mark, middle[mark.lane], prefix, day) for mark in marks]
    label = f"{words.count(len(marks), 'event')} in {words.count(len(names), 'lane')}; the list below says the same"
    drawing = tag(
        "svg",
        *parts,
        viewBox=f"0 0 {width:.0f} {bottom + BOTTOM:.0f}",
        width=round(width),
        height=round(bottom + BOTTOM),
        role="group",
        aria_label=label,
    )
    return tag("div", drawing, class_="lanes", tabindex="0")


def _lane_names(entries: Sequence[TimelineEntry]) -> list[str]:
    """Entities, those with a cause first, those with context only last; too many share one lane."""
    rank = {"cause": 0, "effect": 1, "context": 2}
    best: dict[str, int] = {}
    for entry in entries:
        best[entry.entity] = min(best.get(entry.entity, 9), rank[entry.role])
    names = sorted(best, key=lambda name: best[name])
    return names if len(names) <= MAX_LANES else [*names[: MAX_LANES - 1], OTHERS]


def _place(
    timed: Sequence[tuple[int, TimelineEntry, float]], names: Sequence[str]
) -> tuple[list[Mark], list[tuple[float, float]]]:
    """Marks from left to right, and the columns as (x, seconds). Gaps grow with their logarithm."""
    steps: list[float] = []
    seen: set[str] = set()
    last = timed[0][2]
    columns_of: list[int] = []
    for _, entry, at in timed:
        lane = entry.entity if entry.entity in names else OTHERS
        if steps and at == last and lane not in seen:
            columns_of.append(len(steps) - 1)
        else:
            steps.append(math.log1p(max(at - last, 0.0)) if steps else 0.0)
            seen = set()
            columns_of.append(len(steps) - 1)
        seen.add(lane)
        last = at
    room = max(WIDTH - LEFT - RIGHT - MIN_STEP * (len(steps) - 1), 0.0)
    total = sum(steps) or 1.0
    xs: list[float] = []
    for number, step in enumerate(steps):
        xs.append(xs[-1] + MIN_STEP + room * step / total if number else LEFT + 12)
    marks = [
        Mark(n, entry, entry.entity if entry.entity in names else OTHERS, xs[column])
        for (n, entry, _), column in zip(timed, columns_of, strict=True)
    ]
    columns: dict[float, float] = {}
    for (_, _, at), column in zip(timed, columns_of, strict=True):
        columns[xs[column]] = at
    return marks, list(columns.items())


def _clock_labels(
    columns: Sequence[tuple[float, float]], causes: set[float], marks: Sequence[Mark], day: str | None, width: float
) -> list[Html]:
    """Times above the drawing wherever there is room, causes first."""
    texts = {mark.x: words.clock(mark.entry.ts, day) for mark in reversed(marks)}
    taken: list[tuple[float, float]] = []
    labels: list[Html] = []
    for x, _ in sorted(columns, key=lambda column: (column[0] not in causes, column[0])):
        text = texts[x]
        half = len(text) * 3.1
        start = min(max(x - half, LEFT - 14), width - 8 - 2 * half)
        if all(start + 2 * half + 8 < a or start > b + 8 for a, b in taken):
            taken.append((start, start + 2 * half))
            labels.append(tag("text", text, x=round(start, 1), y=TOP - 14, class_="at"))
    return labels


def _gap_labels(columns: Sequence[tuple[float, float]], bottom: float) -> list[Html]:
    """The length of each gap below the drawing, where it fits."""
    labels = []
    for (x, at), (next_x, next_at) in zip(columns, columns[1:], strict=False):
        text = words.duration(next_at - at)
        if next_x - x > len(text) * 6 + 6 and next_at - at >= 1:
            labels.append(
                tag(
                    "text",
                    text,
                    x=round((x + next_x) / 2, 1),
                    y=round(bottom + 14, 1),
                    class_="gap",
                    text_anchor="middle",
                )
            )
    return labels


def _mark(mark: Mark, y: float, prefix: str, day: str | None) -> Html:
    number, entry = mark.index + 1, mark.entry
    said = f"{words.clock(entry.ts, day)} {entry.entity}: {entry.text} ({entry.role})"
    return tag(
        "a",
        tag("title", said),
        *_numbered(entry.role, number, mark.x, y, 9.5),
        href=f"#{prefix}t{number}",
        aria_label=said,
    )
