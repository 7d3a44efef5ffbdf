"""Every explanation that was weighed, with each term of its score, what speaks against it and what would decide."""

from __future__ import annotations

from aiops.model.report import Hypothesis, Incident, ScoreTerm
from aiops.report import words
from aiops.report.escape import Html, tag
from dashboards.parts.links import refs


def table(incident: Incident) -> Html:
    """The ranked hypotheses; the first is open."""
    if not incident.hypotheses:
        return tag("p", "No hypothesis was weighed.", class_="aiops-muted")
    scale = max((abs(term.value) for item in incident.hypotheses for term in item.terms), default=0.0) or 1.0
    total = len(incident.findings)
    rows = [_one(position, item, scale, total) for position, item in enumerate(incident.hypotheses, 1)]
    return tag("div", *rows, class_="aiops-hypotheses")


def _one(position: int, item: Hypothesis, scale: float, total: int) -> Html:
    explained = f"explains {len(item.explains)} of {words.count(total, 'finding')}" if total else ""
    meter = tag("span", tag("span", style=f"width:{item.confidence * 100:.1f}%"), class_="meter")
    terms = [_term(term, scale) for term in item.terms]
    if terms:
        terms.append(
            tag(
                "tr",
                tag("th", "score"),
                tag("td", f"{item.score:+.2f}", class_="num"),
                tag("td"),
                tag("td"),
                class_="sum",
            )
        )
    return tag(
        "details",
        tag(
            "summary",
            tag("span", str(position), class_="nr"),
            tag("span", item.failure_class, class_="mono name"),
            tag("span", words.culprit_name(item.culprit), class_="who"),
            tag("span", explained, class_="muted"),
            meter,
            tag("span", words.percent(item.confidence), class_="pct"),
        ),
        tag(
            "div",
            tag("table", tag("tbody", *terms)) if terms else None,
            _notes("Speaks against it", item.against),
            _notes("Would decide", item.would_decide),
            tag("p", "Explains ", refs(item.explains), class_="muted") if item.explains else None,
            class_="body",
        ),
        open=position == 1,
    )


def _term(term: ScoreTerm, scale: float) -> Html:
    share = abs(term.value) / scale * 50
    left = 50 - share if term.value < 0 else 50
    bar = tag(
        "span",
        tag("span", style=f"left:{left:.1f}%;width:{share:.1f}%", class_="neg" if term.value < 0 else "pos"),
        class_="diverging",
    )
    return tag(
        "tr",
        tag("th", term.term),
        tag("td", f"{term.value:+.2f}", class_="num"),
        tag("td", bar, class_="bar"),
        tag("td", term.why, " ", refs(term.findings)),
    )


def _notes(title: str, items: list[str]) -> Html | None:
    if not items:
        return None
    return tag("div", tag("h4", title), tag("ul", *[tag("li", item) for item in items]), class_="notes")
