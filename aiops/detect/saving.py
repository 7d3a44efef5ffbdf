"""Saves that others wait for: too slow for the time-out, stalled, or in the way of the training's own collectives."""

from __future__ import annotations

from aiops.detect.evidence import evidence_rows, in_time, known, quotes, span
from aiops.detect.progress import progress_points
from aiops.detect.waiting import waited
from aiops.model.case import Case
from aiops.model.event import NO_TIME, Event, Severity
from aiops.model.finding import Finding, Role

NEAR_NS = 60 * 1_000_000_000
"""A hang that begins within this time of an asynchronous save's start is near it, and so is one"""
NEAR_STEPS = 3
"""within this many steps."""


def saving_troubles(case: Case, saved: list[Event]) -> list[Finding]:
    """At most one of these (ROOT): ``ckpt.pg_collision`` (an asynchronous save runs while the training's collectives hang),
    ``collective.rank0_saving`` (one rank still saves, with ``rank``; field ``completed``) and ``ckpt.save_stall``
    (a save was started and nothing came after it)."""
    waits = evidence_rows(case, "nccl.watchdog_timeout", "gloo.timeout")
    waits += [e for e in evidence_rows(case, "net.peer_closed") if "pair closure" in e.text]
    waits.sort(key=in_time)
    for found in (_collision(case, waits, saved), _slow(case, waits, saved), _stalled(case, waits, saved)):
        if found is not None:
            return [found]
    return []


def _collision(case: Case, waits: list[Event], saved: list[Event]) -> Finding | None:
    begun = evidence_rows(case, "ckpt.async")
    saver = evidence_rows(case, "ckpt.pg_collision")
    trouble = waits or evidence_rows(case, "nccl.desync_report")
    if not trouble or not (begun or saver):
        return None
    if not saver:
        start = begun[-1]
        if any(_follows(done, start) for done in saved):
            return None
        began, _ = waited(trouble)
        close = known(start) and began != NO_TIME and abs(began - start.ts) <= NEAR_NS
        steps = [p for p in progress_points(case) if p.step is not None and _follows(p.event, start)]
        if len({p.step for p in steps}) > NEAR_STEPS and not close:
            return None
    proof = [*(saver[:1] or begun[-1:]), *trouble[:2]]
    first, last = span(proof[:1])
    return Finding(
        sign="ckpt.pg_collision",
        text="Training hangs in a collective while an asynchronous save is under way"
        + (": the saver waits in a collective of its own" if saver else ""),
        role=Role.ROOT,
        severity=Severity.ERROR,
        first=first,
        last=last,
        count=len(proof),
        fields={"stack": bool(saver)},
        evidence=quotes(case, proof),
    )


def _slow(case: Case, waits: list[Event], saved: list[Event]) -> Finding | None:
    work = evidence_rows(case, "collective.rank0_saving")
    begun = evidence_rows(case, "ckpt.started")
    ranks_waiting = {event.rank for event in waits if event.rank is not None}
    if not waits or not (work or begun):
        return None
    began, gave_up = waited(waits)
    start = max([*begun, *work], key=in_time)
    owners = [event for event in [*work, *begun] if (event.rank if event.rank is not None else 0) not in ranks_waiting]
    late = [e for e in saved if known(e) and gave_up != NO_TIME and began != NO_TIME and began < e.ts]
    if not owners or any(_follows(p.event, start) for p in progress_points(case)):
        return None
    own = [event for event in owners if event.signal == "collective.rank0_saving"]
    if not own and not late:
        return None
    if any(_follows(done, start) for done in saved if done not in late):
        return None
    last_line = max(own or owners, key=in_time)
    rank = last_line.rank if last_line.rank is not None else 0
    place = case.topology.ranks.get(rank)
    first, last = span([last_line])
    text = f"Rank {rank} still saves a checkpoint while the others wait for it: {last_line.text[:120]}"
    return Finding(
        sign="collective.rank0_saving",
        text=text,
        role=Role.ROOT,
        severity=Severity.ERROR,
        first=first,
        last=last,
        node=place.node if place else None,
        rank=rank,
        ranks=(rank,),
        count=len(own) or 1,
        fields={"completed": bool(late), "line": last_line.text[:200]},
        evidence=quotes(case, [last_line, *waits[:1], *late[:1]]),
    )


def _stalled(case: Case, waits: list[Event], saved: list[Event]) -> Finding | None:
    """The last thing that training did was to start a save."""
    begun = evidence_rows(case, "ckpt.started", "ckpt.async")
    said = [e for e in evidence_rows(case, "ckpt.save_stall") if not any(_follows(done, e) for done in saved)]
    if said:
        proof = said
    elif begun and waits:
        start = begun[-1]
        later = any(_follows(p.event, start) for p in progress_points(case))
        if later or any(_follows(done, start) for done in saved):
            return None
        proof = [start, *waits[:1]]
    else:
        return None
    first, last = span(proof[:1])
    return Finding(
        sign="ckpt.save_stall",
        text="A checkpoint save was started and never completed"
        + (f": {said[0].text[:120]}" if said else ", and the ranks wait"),
        role=Role.ROOT,
        severity=Severity.ERROR,
        first=first,
        last=last,
        count=len(proof),
        fields={"said": bool(said)},
        evidence=quotes(case, proof),
    )


def _follows(later: Event, earlier: Event) -> bool:
    if later.source == earlier.source:
        return later.line > earlier.line
    return known(later) and known(earlier) and later.ts > earlier.ts
