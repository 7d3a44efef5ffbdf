"""A timeline read as a cascade: what came first, and what followed after how long."""

from __future__ import annotations

from dataclasses import dataclass, field

from aiops.model.report import Incident, TimelineEntry
from aiops.report.words import seconds_between


@dataclass(frozen=True, slots=True)
class Step:
    """An entry of the timeline; ``index`` is its place there."""

    index: int
    entry: TimelineEntry
    delay_s: float | None
    """Seconds since the cause before it; ``None`` for the first cause or where a time is unknown."""


@dataclass(slots=True)
class Cascade:
    """Causes in order, then effects in order; a delay counts from the latest cause that is not later."""

    causes: list[Step] = field(default_factory=list)
    effects: list[Step] = field(default_factory=list)


def cascade(incident: Incident) -> Cascade | None:
    """The cascade of an incident, or ``None`` if its timeline names no cause or no effect."""
    found = Cascade()
    for index, entry in enumerate(incident.timeline):
        if entry.role == "context":
            continue
        before = [s.entry.ts for s in found.causes if (seconds_between(s.entry.ts, entry.ts) or 0.0) >= 0]
        delay = seconds_between(before[-1], entry.ts) if before else None
        (found.causes if entry.role == "cause" else found.effects).append(Step(index, entry, delay))
    return found if found.causes and found.effects else None
