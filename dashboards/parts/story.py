"""The story in sentences, and the cascade as a chain of delays."""

from __future__ import annotations

from aiops.model.report import Incident
from aiops.report import words
from aiops.report.cascade import Step, cascade
from aiops.report.escape import Html, tag
from dashboards.parts.links import cite, refs


def narrative(incident: Incident) -> Html | None:
    """The narrative with its citations as links, and who wrote it; ``None`` if there is none."""
    story = incident.narrative
    if not story.text:
        return None
    known = {item.id for item in incident.evidence} | {item.id for item in incident.findings}
    by = "Written by rules" if story.by == "rules" else f"Written by {story.by}, checked against the evidence"
    if story.unsupported_claims:
        by += f"; {words.count(story.unsupported_claims, 'unsupported claim')} removed"
    if story.note:
        by += f" ({story.note})"
    paragraphs = [tag("p", *cite(text, known)) for text in story.text.split("\n") if text.strip()]
    return tag("div", *paragraphs, tag("p", by, class_="muted small"), class_="aiops-story")


def chain(incident: Incident) -> Html | None:
    """Causes, then effects, each with its delay to the cause before it; ``None`` if the timeline tells no cascade."""
    found = cascade(incident)
    if found is None:
        return None
    steps = [_step(step, "cause") for step in found.causes] + [_step(step, "effect") for step in found.effects]
    return tag("ol", *steps, class_="aiops-cascade")


def _step(step: Step, role: str) -> Html:
    entry = step.entry
    delay = words.clock(entry.ts, _day(entry.ts)) if step.delay_s is None else f"+{words.duration(step.delay_s)}"
    return tag("li", tag("span", delay, class_="delay"), tag("span", class_="dot"),
               tag("span", tag("b", entry.entity), " ", entry.text, " ", refs(entry.evidence)), class_=role)


def _day(ts: str | None) -> str | None:
    at = words.moment(ts)
    return None if at is None else at.date().isoformat()
