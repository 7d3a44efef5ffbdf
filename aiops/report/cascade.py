"""A timeline read as a cascade: what came first, and what followed after how long."""

from __future__ import annotations

import re
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


@dataclass(slots=True)
class Echo:
    """Effects that differ in their numbers only (``rank 3 ended``, ``rank 4 ended``), told once."""

    first: Step
    others: list[Step] = field(default_factory=list)


def echoes(effects: list[Step]) -> list[Echo]:
    """Effects grouped by their text without numbers, in order of the first of each group."""
    groups: dict[str, Echo] = {}
    for step in effects:
        shape = re.sub(r"\d+", "#", step.entry.text)
        if shape in groups:
            groups[shape].others.append(step)
        else:
            groups[shape] = Echo(step)
    return list(groups.values())
