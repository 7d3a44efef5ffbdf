"""Who ran out of data, and who still prepared data, while the other ranks waited."""

from __future__ import annotations

import re

from aiops.catalog.model import Catalog
from aiops.detect.evidence import evidence_rows, in_time, known, quotes, span
from aiops.model.case import Case
from aiops.model.event import Event, Severity
from aiops.model.finding import Finding, Role

_LABEL = re.compile(r"rank[ :=_]?\d|\[\d+\]", re.I)
_CHAIN = 40
"""Lines behind an exception within which the next traceback of its chain begins, other ranks' lines in between."""
_WAITS = ("nccl.watchdog_timeout", "gloo.timeout", "usr.store_wait", "net.rendezvous_timeout")


def detect(case: Case, catalog: Catalog) -> list[Finding]:
    """``usr.left_early`` (ROOT: some ranks had no more data, the others waited for them in vain; ``rank``, ``ranks``)
    and ``usr.rank0_waits`` (ROOT: rank 0 prepared data until the others' time-out)."""
    waits = evidence_rows(case, *_WAITS)
    return [*_left_early(case, waits), *_rank0(case, waits)]


def _left_early(case: Case, waits: list[Event]) -> list[Finding]:
    told = [event for event in evidence_rows(case, "usr.left_early") if str(event.fields.get("rank", "")).isdigit()]
    chained = {(event.source, event.line) for event in evidence_rows(case, "py.traceback")}
    said = [
        event
        for event in evidence_rows(case, "data.exhausted")
        # a StopIteration that another exception followed is only how that one's stack begins
        if event.rank is not None and not any((event.source, event.line + n) in chained for n in range(1, _CHAIN))
    ]
    by_rank: dict[int, list[Event]] = {}
    for event in said:
        by_rank.setdefault(event.rank if event.rank is not None else -1, []).append(event)
    for event in told:
        by_rank.setdefault(int(event.fields["rank"]), []).append(event)
    waiting = {event.rank for event in waits if event.rank is not None} - set(by_rank)
    others = _ranks(case) - set(by_rank)
    if not by_rank or not waits or len(by_rank) > len(others):
        return []
    if waiting and not waiting & others:
        return []
    events = sorted((event for group in by_rank.values() for event in group), key=in_time)
    first, last = span(events)
    rank = min(by_rank)
    who = f"Rank {rank}" if len(by_rank) == 1 else f"Ranks {', '.join(str(r) for r in sorted(by_rank)[:8])}"
    return [
        Finding(
            sign="usr.left_early",
            text=f"{who} had no more data and left the loop; the others waited in the next collective",
            role=Role.ROOT,
            severity=Severity.ERROR,
            first=first,
            last=last,
            rank=rank if len(by_rank) == 1 else None,
            ranks=tuple(sorted(by_rank)),
            count=len(events),
            evidence=quotes(case, events),
        )
    ]


def _rank0(case: Case, waits: list[Event]) -> list[Finding]:
    work = [
        event for event in evidence_rows(case, "data.preprocess") if event.rank in (0, None) or _unlabelled(case, event)
    ]
    late = [event for event in waits if event.rank not in (0, None)]
    if not work or not late or any(event.rank == 0 for event in waits):
        return []
    begun = evidence_rows(case, "train.progress")
    started = [event for event in begun if known(event) and known(late[0]) and event.ts < late[0].ts]
    if started or (begun and not known(late[0])):
        return []
    events = [*work[:2], *late[:2]]
    first, last = span(events)
    ranks = tuple(sorted({event.rank for event in late if event.rank is not None}))
    return [
        Finding(
            sign="usr.rank0_waits",
            text=f"Rank 0 still prepared data when {len(ranks)} other ranks gave up waiting for it",
            role=Role.ROOT,
            severity=Severity.ERROR,
            first=first,
            last=last,
            rank=0,
            ranks=ranks,
            count=len(work) + len(late),
            evidence=quotes(case, events, 4),
        )
    ]


def _unlabelled(case: Case, event: Event) -> bool:
    """True if the rank of a progress bar is only that of the file's other lines: bars print no rank, and one rank draws."""
    return event.rank == case.sources[event.source].rank and not _LABEL.search(event.text[:120])


def _ranks(case: Case) -> set[int]:
    """All ranks that the case knows."""
    known_ranks = set(case.topology.ranks) | set(case.coverage.ranks_with_log)
    if case.topology.world_size and case.topology.world_size <= 1 << 20:
        known_ranks |= set(range(case.topology.world_size))
    return known_ranks | {event.rank for event in evidence_rows(case, *_WAITS) if event.rank is not None}
