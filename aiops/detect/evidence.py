"""From events to the quotations that prove a finding."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from aiops.model.case import Case
from aiops.model.event import NO_TIME, Event, TimeQuality
from aiops.model.finding import EvidenceRef


def quote(case: Case, event: Event) -> EvidenceRef:
    """The line of an event as evidence."""
    return EvidenceRef(
        source=case.sources[event.source].name,
        line=event.line,
        offset=event.offset,
        text=event.text,
        ts=event.ts if known(event) else NO_TIME,
    )


def known(event: Event) -> bool:
    """True if the event's time is civil time (its own or the line's above)."""
    return event.ts != NO_TIME and event.quality not in (TimeQuality.NONE, TimeQuality.UPTIME)


def quotes(case: Case, events: Sequence[Event], most: int = 3) -> list[EvidenceRef]:
    """The first events, preferring different ranks and nodes."""
    chosen: list[Event] = []
    seen: set[tuple[str | None, int | None]] = set()
    for event in events:
        if (event.node, event.rank) not in seen:
            seen.add((event.node, event.rank))
            chosen.append(event)
    if len(chosen) < most:
        taken = {event.index for event in chosen}
        chosen += [event for event in events if event.index not in taken]
    return [quote(case, event) for event in sorted(chosen[:most], key=in_time)]


def in_time(event: Event) -> tuple[int, int, int, int]:
    """Sort key: time if known, then the place in the sources."""
    return (0 if known(event) else 1, event.ts if known(event) else 0, event.source, event.line)


def span(events: Iterable[Event]) -> tuple[int, int]:
    """First and last known time of some events, or `NO_TIME` twice. Stamps of their own count before inherited ones."""
    events = list(events)
    times = [event.ts for event in events if known(event) and event.quality > TimeQuality.INHERITED]
    times = times or [event.ts for event in events if known(event)]
    return (min(times), max(times)) if times else (NO_TIME, NO_TIME)


def inexact(events: Iterable[Event]) -> bool:
    """True if all known times of the events are those of lines above them."""
    qualities = [event.quality for event in events if known(event)]
    return bool(qualities) and max(qualities) <= TimeQuality.INHERITED


_JOB_ID = re.compile(r"\b(?:JobId|StepId)=(\d{1,10})\b|\] \[(\d{1,10})\.(?:batch|extern|interactive|\d{1,6})\] ")


def job_of(event: Event) -> str | None:
    """The Slurm job that a line names, if it names one and no second."""
    if (told := event.fields.get("job")) is not None:
        return str(told)
    named = {first or second for first, second in _JOB_ID.findall(event.text)}
    return named.pop() if len(named) == 1 else None


def evidence_rows(case: Case, *signals: str) -> list[Event]:
    """All events of some signals that are not quotations, in time order."""
    rows = case.events.by_signal()
    events = [case.events[row] for signal in signals for row in rows.get(signal, ())]
    return sorted((event for event in events if not event.quoted), key=in_time)
