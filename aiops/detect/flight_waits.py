"""Who waits for whom, and who waits for nobody: FORMULAS 5.10 (b) on all process groups at once.

Within a group a rank waits for each member that never issued the operation it stands in, and for each whose device
stopped completing earlier than most. Groups that only wait for a rank that itself waits elsewhere blame nobody: the
suspects are the ends of these chains.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from enum import StrEnum

from aiops.detect.flight_state import NEVER, Fleet, GroupView, Standing
from aiops.model.flight import NO_SEQ, OpState

_ALL_CONTRIBUTE = (
    "all_reduce",
    "allreduce",
    "all_gather",
    "allgather",
    "reduce_scatter",
    "all_to_all",
    "alltoall",
    "barrier",
)
"""Operations that complete nowhere before every member has taken part; a broadcast's sender may be done alone."""

_PLACES = 64
"""Different operations in which the members of one group stand; more would be no hang but damage."""


class Why(StrEnum):
    """What makes a rank a suspect, the clearest first."""

    EMPTY = "empty"
    DEVICE = "device"
    HOST = "host"
    SCHEDULED = "scheduled"
    TRANSFER = "transfer"
    STOPPED = "stopped"
    MISSING = "missing"


@dataclass(frozen=True, slots=True)
class Wait:
    """``waiters`` stand in the operation ``seq`` of a group and cannot go on before ``behind`` come."""

    group: GroupView | None
    seq: int
    waiters: frozenset[int]
    behind: frozenset[int]
    why: Why


@dataclass(slots=True)
class Suspects:
    """The ends of all chains, and what shows each."""

    ranks: dict[int, Why] = field(default_factory=dict)
    waits: list[Wait] = field(default_factory=list)
    cycle: tuple[int, ...] = ()
    """Ranks that wait for each other in a circle: each is in another operation."""
    waiters: frozenset[int] = frozenset()

    def shown_by(self) -> list[Wait]:
        """Waits for a suspect that show what it is suspected of, those of most ranks first."""
        best = [w for w in self.waits if any(self.ranks.get(rank) == w.why for rank in w.behind)]
        return sorted(best, key=lambda wait: -len(wait.waiters))


def find_suspects(fleet: Fleet, heard: frozenset[int]) -> Suspects:
    """``heard`` are ranks whose own log says that they waited: without a dump they are no suspects."""
    waits = [wait for view in fleet.groups for wait in _in_group(view)]
    broken = {rank for wait in waits if wait.why == Why.DEVICE for rank in wait.behind if _proven(fleet, wait, rank)}
    waits += _transfers(fleet)
    found = Suspects(waits=waits)
    found.waiters = frozenset(r for view in fleet.groups for r, s in view.standings.items() if s.waits)
    found.waiters |= {transfer.rank for transfer in fleet.transfers}
    behind = {rank for wait in waits for rank in wait.behind}
    blocked = {rank for wait in waits for rank in wait.waiters if wait.behind - {rank}} - broken
    ends = behind - blocked
    reached = _reaching(waits, ends)
    circle = (behind & blocked) - reached
    if circle and not ends:
        found.cycle = tuple(sorted(circle))
        return found
    found.ranks = _reasons(fleet, waits, ends, heard)
    if not found.ranks:
        found.ranks = _stopped_first(fleet)
    return found


def _in_group(view: GroupView) -> list[Wait]:
    standings = view.standings
    stuck = [s for s in standings.values() if s.waits]
    if not stuck:
        return []
    usual = _usual([s.next for s in standings.values() if s.next not in (NO_SEQ, NEVER)])
    found = []
    for seq in sorted({s.next for s in stuck})[:_PLACES]:
        waiters = frozenset(s.rank for s in stuck if s.next == seq)
        groups: dict[Why, set[int]] = {}
        for s in standings.values():
            why = _behind(s, seq, usual)
            if why and s.rank not in waiters:
                groups.setdefault(why, set()).add(s.rank)
        found += [Wait(view, seq, waiters, frozenset(ranks), why) for why, ranks in sorted(groups.items())]
    return [*found, *_only_scheduled(view, stuck)]


def _behind(standing: Standing, seq: int, usual: int) -> Why | None:
    """Why a rank that stands at ``seq`` waits for this one, if it does."""
    if standing.dump is None:
        return Why.MISSING
    if standing.enqueued == NEVER:
        return Why.EMPTY
    if standing.enqueued != NO_SEQ and standing.enqueued < seq:
        return (
            Why.EMPTY
            if not len(standing.dump)
            else Why.DEVICE
            if standing.waits and standing.next < usual
            else Why.HOST
        )
    if standing.waits and standing.next < min(usual, seq):
        return Why.DEVICE
    return None


def _only_scheduled(view: GroupView, stuck: list[Standing]) -> list[Wait]:
    """All have issued the operation; some devices are inside of it, a minority has not begun it."""
    if len({s.next for s in stuck}) != 1 or len(stuck) < max(2, len(view.standings)):
        return []
    begun = {s.rank for s in stuck if s.dump is not None and s.dump.state[s.row] == OpState.STARTED}
    not_yet = {s.rank for s in stuck} - begun
    if not begun or not not_yet or len(not_yet) * 2 > len(stuck):
        return []
    return [Wait(view, stuck[0].next, frozenset(begun), frozenset(not_yet), Why.SCHEDULED)]


def _usual(values: list[int]) -> int:
    """The most frequent value; of equally frequent ones the highest."""
    counts = Counter(values)
    return max(counts, key=lambda value: (counts[value], value)) if counts else NO_SEQ


def _proven(fleet: Fleet, wait: Wait, rank: int) -> bool:
    """Peers completed an operation that needs this rank's part: no wait of its own explains that it has not."""
    standing = wait.group.standings[rank] if wait.group else None
    if standing is None or standing.dump is None or not standing.waits:
        return False
    return any(name in fleet.op(standing.dump, standing.row) for name in _ALL_CONTRIBUTE)


def _transfers(fleet: Fleet) -> list[Wait]:
    """A send or receive whose other end did not issue its part."""
    known = {(t.group, t.rank, t.peer, t.send) for t in fleet.transfers}
    views = {view.index: view for view in fleet.groups}
    found = []
    for t in fleet.transfers:
        if (t.group, t.peer, t.rank, not t.send) in known:
            continue
        dump = fleet.dumps.get(t.peer)
        if dump is not None and not (dump.readable and dump.complete):
            continue
        why = Why.MISSING if dump is None else Why.TRANSFER if len(dump) else Why.EMPTY
        found.append(Wait(views.get(t.group), NO_SEQ, frozenset({t.rank}), frozenset({t.peer}), why))
    return found


def _reaching(waits: list[Wait], ends: set[int]) -> set[int]:
    """All ranks from which a chain of waits leads to one of ``ends``."""
    reached = set(ends)
    left = waits
    while True:
        hit = [wait for wait in left if wait.behind & reached]
        if not hit:
            return reached
        left = [wait for wait in left if not wait.behind & reached]
        for wait in hit:
            reached |= wait.waiters


def _reasons(fleet: Fleet, waits: list[Wait], ends: set[int], heard: frozenset[int]) -> dict[int, Why]:
    """The clearest reason of each suspect. Ranks without a dump count only while they are few: else nobody collected theirs."""
    order = list(Why)
    reasons: dict[int, Why] = {}
    for wait in waits:
        for rank in wait.behind & ends:
            known = reasons.get(rank)
            if known is None or order.index(wait.why) < order.index(known):
                reasons[rank] = wait.why
    shown = {rank: why for rank, why in reasons.items() if why != Why.MISSING}
    absent = {rank for rank, why in reasons.items() if why == Why.MISSING} - heard
    world = len(fleet.dumps) + len(fleet.missing)
    few = len(absent) <= max(1, len(shown)) if shown else len(absent) * 3 <= world
    if len(absent) < len(fleet.missing - heard) and not shown:
        few = few and len(fleet.missing - heard) * 3 <= world
    return dict(sorted({**shown, **(dict.fromkeys(absent, Why.MISSING) if few else {})}.items()))


def _stopped_first(fleet: Fleet) -> dict[int, Why]:
    """All devices stand at the same operation, but some hosts had issued less behind it than most: they stopped first."""
    found: dict[int, Why] = {}
    for view in fleet.groups:
        stuck = [s for s in view.standings.values() if s.waits]
        if len(stuck) < 3 or len({s.next for s in stuck}) != 1:
            continue
        usual = _usual([s.enqueued for s in stuck])
        late = [s.rank for s in stuck if s.enqueued < usual]
        if late and len(late) * 2 < len(stuck):
            found.update(dict.fromkeys(late, Why.STOPPED))
    return found
