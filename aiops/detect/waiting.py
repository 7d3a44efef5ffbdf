"""What one rank does while the others wait for it in a collective."""

from __future__ import annotations

import re
from collections import Counter

from aiops.detect.evidence import evidence_rows, in_time, known, quotes, span
from aiops.model.case import Case
from aiops.model.event import NO_TIME, Event, Severity
from aiops.model.finding import Finding, Role

_WAITED = re.compile(r"(?:waiting|timeout after|Barrier after) (\d{1,9}) ?ms")
_MARGIN_NS = 120 * 1_000_000_000


def what_they_wait_for(case: Case, waits: list[Event]) -> list[Finding]:
    """Findings about the one rank that does something else, if its log tells what.

    ``collective.left_loop`` (ROOT: it ended its epoch or data, or evaluates; field ``line``) and ``collective.rank0_busy``
    (ROOT: it prepares data). Both have ``rank``.
    """
    mismatch = evidence_rows(case, "nccl.desync_report", "nccl.opcount")
    closed = evidence_rows(case, "net.peer_closed")
    if not waits and not mismatch and not closed:
        return []
    left = _left(case, waits)
    if left:
        return [left]
    busy = _busy(case, waits) if waits else None
    return [busy] if busy else []


def _left(case: Case, waits: list[Event]) -> Finding | None:
    """A minority of the ranks that print such lines left the loop more often than the others."""
    events = evidence_rows(case, "collective.left_loop")
    owned = [event for event in events if event.rank is not None]
    if not owned:
        return None
    counts = Counter(event.rank for event in owned)
    heard = {e.rank for e in evidence_rows(case, "train.progress", "train.step") if e.rank is not None} | set(counts)
    waiting = {event.rank for event in waits if event.rank is not None}
    everyone = heard | waiting
    usual = Counter(counts.get(rank, 0) for rank in everyone).most_common(1)[0][0]
    ahead = sorted(rank for rank in counts if rank is not None and counts[rank] > usual)
    if not ahead or len(ahead) * 2 >= len(everyone):
        return None
    # where only one rank prints anything but errors, its lines are those of all
    talkers = {rank for rank in heard if rank not in ahead}
    if not talkers and set(ahead) & waiting:
        return None
    proof = [next(e for e in reversed(owned) if e.rank == rank) for rank in ahead[:3]]
    text = f"Rank {', '.join(map(str, ahead[:4]))} left the training loop while the others go on: {proof[0].text[:120]}"
    return _finding(case, "collective.left_loop", text, ahead, proof)


def _busy(case: Case, waits: list[Event]) -> Finding | None:
    """One rank prepares data when the others begin to wait, and does not wait itself."""
    events = evidence_rows(case, "collective.rank0_busy")
    ranks = {event.rank if event.rank is not None else 0 for event in events}
    waiting = {event.rank for event in waits if event.rank is not None}
    if len(ranks) != 1 or not waiting or ranks & waiting:
        return None
    last = max(events, key=in_time)
    began, _ = waited(waits)
    progress = [e for e in evidence_rows(case, "train.progress", "train.step") if _before(last, e)]
    if progress or (known(last) and began != NO_TIME and last.ts < began - _MARGIN_NS and not _open_ended(last)):
        return None
    rank = next(iter(ranks))
    text = f"Rank {rank} is busy while the others wait for it: {last.text[:120]}"
    return _finding(case, "collective.rank0_busy", text, [rank], [last, *waits[:2]])


def waited(waits: list[Event]) -> tuple[int, int]:
    """When the first rank began to wait and when the last gave up; `NO_TIME` if no line has a time."""
    first, last = span(waits)
    longest = max((_milliseconds(event) for event in waits), default=0)
    return (first - longest * 1_000_000 if first != NO_TIME else NO_TIME), last


def _milliseconds(event: Event) -> int:
    if event.fields.get("ran"):
        return int(event.fields["ran"])
    told = _WAITED.search(event.text)
    return int(told[1]) if told else 0


def _before(early: Event, late: Event) -> bool:
    if known(early) and known(late):
        return early.ts < late.ts
    return early.source == late.source and early.line < late.line


def _open_ended(event: Event) -> bool:
    """The line says that something began; a progress bar at 100 % or a line about an end does not."""
    return not any(word in event.text for word in ("100%", "done", "finished", "complete"))


def _finding(case: Case, sign: str, text: str, ranks: list[int], proof: list[Event]) -> Finding:
    place = case.topology.ranks.get(ranks[0])
    first, last = span(proof[:1])
    return Finding(
        sign=sign,
        text=text,
        role=Role.ROOT,
        severity=Severity.WARNING,
        first=first,
        last=last,
        node=place.node if place else None,
        rank=ranks[0] if len(ranks) == 1 else None,
        ranks=tuple(ranks),
        count=len(proof),
        fields={"ranks": ranks, "line": proof[0].text[:200]},
        evidence=quotes(case, proof),
    )
