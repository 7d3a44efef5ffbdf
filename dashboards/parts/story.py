"""The story in sentences, and the cascade as a chain of delays."""

from __future__ import annotations

from aiops.model.report import Incident
from aiops.report import words
from aiops.report.cascade import Step, cascade
from aiops.report.escape import Html, tag
from dashboards.parts.links import cite, refs
from dashboards.parts.phrases import sentence

MAX_SHOWN = 12
"""Steps of the cascade that are open; the others fold."""


def narrative(incident: Incident) -> Html | None:
    """The narrative with its citations as links, and who wrote it; ``None`` if there is none."""
    story = incident.narrative
    if not story.text:
        return None
    known = {item.id for item in incident.evidence} | {item.id for item in incident.findings}
    paragraphs = [tag("p", *cite(text, known)) for text in story.text.split("\n") if text.strip()]
    teller = tag("p", sentence(words.narrator(story) or "written by rules"), class_="muted small")
    return tag("div", *paragraphs, teller, class_="aiops-story")


def chain(incident: Incident) -> Html | None:
    """Causes, then effects, each with its delay to the cause before it; ``None`` if the timeline tells no cascade."""
    found = cascade(incident)
    if found is None:
        return None
    steps = [_step(step, "cause") for step in found.causes] + [_step(step, "effect") for step in found.effects]
    more = steps[MAX_SHOWN:]
    if not more:
        return tag("ol", *steps, class_="aiops-cascade")
    rest = tag(
        "details",
        tag("summary", f"{len(more):,} later steps"),
        tag("ol", *more, class_="aiops-cascade"),
        class_="aiops-more",
    )
    return tag("div", tag("ol", *steps[:MAX_SHOWN], class_="aiops-cascade"), rest)


def _step(step: Step, role: str) -> Html:
    entry = step.entry
    delay = words.clock(entry.ts, _day(entry.ts)) if step.delay_s is None else f"+{words.duration(step.delay_s)}"
    return tag(
        "li",
        tag("span", delay, class_="delay"),
        tag("span", class_="dot"),
        tag("span", tag("b", entry.entity), " ", entry.text, " ", refs(entry.evidence)),
        class_=role,
    )


def _day(ts: str | None) -> str | None:
    at = words.moment(ts)
    return None if at is None else at.date().isoformat()
