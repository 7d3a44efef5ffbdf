"""What was read, what could not be, and what nobody collected."""

from __future__ import annotations

from collections.abc import Sequence

from aiops.model.report import CoverageReport, JobItem, SourceItem
from aiops.report import words
from aiops.report.escape import Html, tag

MAX_SHOWN = 500
"""Sources on one page; the filter reaches the rest."""


def summary(label: str, coverage: CoverageReport) -> Html:
    """One line: what is open, and how much was read of which window."""
    parts = [words.coverage(coverage)]
    if coverage.first and coverage.last:
        parts.append(f"{words.when(coverage.first)} to {words.when(coverage.last)}")
    return tag("div", tag("b", label), tag("span", "; ".join(parts)), class_="aiops-source")


def facts(coverage: CoverageReport) -> Html:
    """Kinds of sources, ranks and nodes as a row of small numbers."""
    items = [(f"{kind} files", f"{amount:,}") for kind, amount in coverage.kinds.items()]
    if coverage.world_size is not None:
        seen = "?" if coverage.ranks_seen is None else f"{coverage.ranks_seen:,}"
        items.append(("ranks seen", f"{seen} of {coverage.world_size:,}"))
    items += [("nodes", f"{len(coverage.nodes):,}")] if coverage.nodes else []
    numbers = [tag("div", tag("b", value), tag("span", label)) for label, value in items]
    return tag("div", *numbers, class_="aiops-facts")


def gaps(coverage: CoverageReport) -> Html | None:
    """What could not be read, what is missing, and remarks; ``None`` if there is nothing to say."""
    blocks = [
        _block("Could not be read, or only in part", [words.problem(item) for item in coverage.problems], "red"),
        _block("Missing evidence", coverage.missing, "amber"),
        _block("Notes", coverage.notes, ""),
    ]
    shown = [block for block in blocks if block]
    return tag("div", *shown, class_="aiops-gaps") if shown else None


def sources(items: Sequence[SourceItem], needle: str = "") -> Html:
    """Table of the sources whose name, kind or node contains the needle."""
    wanted = needle.strip().casefold()
    found = [
        item
        for item in items
        if not wanted or wanted in "\n".join((item.name, item.kind, item.format, item.node or "")).casefold()
    ]
    more = len(found) - MAX_SHOWN
    table = _table(
        ("Source", "Kind", "Node", "Rank", "Lines", "Size", "First (UTC)", "Last (UTC)"),
        [_source(item) for item in found[:MAX_SHOWN]],
    )
    return tag("div", table, tag("p", f"{more:,} more: narrow the filter.", class_="aiops-muted") if more > 0 else None)


def jobs(items: Sequence[JobItem]) -> Html:
    """Table of the jobs that were seen."""
    return _table(
        ("Job", "Name", "Scheduler", "State", "GPUs", "Nodes"),
        [
            tag(
                "tr",
                tag("td", item.id, class_="mono"),
                tag("td", item.name),
                tag("td", item.scheduler),
                tag("td", item.state),
                tag("td", None if item.gpus is None else f"{item.gpus:,}", class_="num"),
                tag("td", words.listing(item.nodes, 8), class_="mono"),
            )
            for item in items
        ],
    )


def _table(names: Sequence[str], rows: Sequence[Html]) -> Html:
    return tag(
        "div",
        tag("table", tag("thead", tag("tr", *[tag("th", name) for name in names])), tag("tbody", *rows)),
        class_="aiops-table",
    )


def _source(item: SourceItem) -> Html:
    kind = item.kind + (f" ({item.format})" if item.format else "")
    cells = [
        "" if item.rank is None else str(item.rank),
        f"{item.lines:,}" if item.lines else "",
        words.size(item.bytes),
        words.clock(item.first) if item.first else "",
        words.clock(item.last) if item.last else "",
    ]
    return tag(
        "tr",
        tag("td", item.name, class_="mono"),
        tag("td", kind),
        tag("td", item.node, class_="mono"),
        *[tag("td", cell, class_="num") for cell in cells],
    )


def _block(title: str, items: Sequence[str], tone: str) -> Html | None:
    if not items:
        return None
    return tag("div", tag("h4", title), tag("ul", *[tag("li", item) for item in items]), class_=f"block {tone}".strip())
