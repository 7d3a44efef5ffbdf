"""Quotations with their place in the source, and what the detectors made of them."""

from __future__ import annotations

from collections.abc import Sequence

from aiops.model.report import Evidence, FindingItem, Incident
from aiops.report import words
from aiops.report.escape import Html, tag
from dashboards.parts.links import anchor, refs

MAX_SHOWN = 300
"""Quotations on one page; the filter reaches the rest, the JSON download has all."""


def matching(incident: Incident, needle: str) -> list[Evidence]:
    """Evidence whose id, source or text contains the needle, case aside; all of it for an empty needle."""
    wanted = needle.strip().casefold()
    return [
        item
        for item in incident.evidence
        if not wanted or wanted in "\n".join((item.id, item.locator, item.source, item.text)).casefold()
    ]


def quotations(items: Sequence[Evidence]) -> Html:
    """Each quotation in one line, which opens to the lines around it."""
    if not items:
        return tag("p", "No evidence matches.", class_="aiops-muted")
    day = words.main_day([item.ts for item in items])
    more = len(items) - MAX_SHOWN
    rest = tag("p", f"{more:,} more: narrow the filter, or download the JSON.", class_="aiops-muted")
    return tag(
        "div",
        *[_quotation(item, day) for item in items[:MAX_SHOWN]],
        rest if more > 0 else None,
        class_="aiops-evidence",
    )


def findings(items: Sequence[FindingItem]) -> Html:
    """What was asserted about whom, when, how often and on which evidence."""
    if not items:
        return tag("p", "No finding.", class_="aiops-muted")
    day = words.main_day([item.first for item in items])
    names = ("Id", "Role", "Finding", "Entity", "First (UTC)", "Count", "Evidence")
    head = tag("thead", tag("tr", *[tag("th", name) for name in names]))
    return tag("div", tag("table", head, tag("tbody", *[_finding(item, day) for item in items])), class_="aiops-table")


def _quotation(item: Evidence, day: str | None) -> Html:
    first = None if item.line is None else item.line - len(item.before)
    lines = [(text, "") for text in item.before] + [(item.text, "hit")] + [(text, "") for text in item.after]
    rows = [
        tag(
            "div",
            tag("span", "" if first is None else str(first + offset), class_="ln"),
            tag("code", text),
            class_=name or None,
        )
        for offset, (text, name) in enumerate(lines)
    ]
    return tag(
        "details",
        tag(
            "summary",
            tag("span", item.id, class_="id"),
            tag("span", words.clock(item.ts, day) if item.ts else "", class_="ts"),
            tag("span", item.text, class_="txt"),
            tag("span", tag("bdi", words.place(item)), class_="src"),
        ),
        tag("div", *rows, class_="lines", id=anchor(item.id)),
    )


def _finding(item: FindingItem, day: str | None) -> Html:
    return tag(
        "tr",
        tag("td", item.id, class_="mono", id=anchor(item.id)),
        tag("td", tag("span", item.role, class_=f"role {item.role}")),
        tag("td", item.text, tag("span", item.sign, class_="sign")),
        tag("td", item.entity, class_="mono who"),
        tag("td", words.clock(item.first, day) if item.first else "", class_="num"),
        tag("td", f"{item.count:,}", class_="num"),
        tag("td", refs(item.evidence)),
    )
