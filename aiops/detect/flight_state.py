"""Where each rank stands in each process group, from the dumps of the flight recorder."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

import numpy as np

from aiops.model.flight import NO_SEQ, FlightDump, FlightRecords, OpState, ProcessGroup

NEVER = -(1 << 62)
"""Below every sequence number: nothing was recorded (FORMULAS 5.10: an empty or missing dump counts as minus infinity)."""
_P2P = re.compile(r"(send|recv) (\d{1,7})(?:->|<-)(\d{1,7})")


@dataclass(slots=True)
class Standing:
    """One rank in one group. Sequence numbers are those of collectives."""

    rank: int
    dump: FlightDump | None
    """``None`` if the rank left no dump."""
    enqueued: int = NO_SEQ
    """Highest number that its host issued; `NO_SEQ` if unknown, `NEVER` if it recorded nothing."""
    next: int = NO_SEQ
    """Lowest number that its device has not completed: issued, or the next to be issued."""
    row: int = -1
    """Row of the first operation that is issued and not completed; -1 if there is none."""

    @property
    def waits(self) -> bool:
        """It has issued an operation that does not complete."""
        return self.row >= 0


@dataclass(slots=True)
class GroupView:
    """One group with all that is known of its members."""

    index: int
    group: ProcessGroup
    standings: dict[int, Standing] = field(default_factory=dict)

    @property
    def title(self) -> str:
        """Name for people."""
        desc, name = self.group.desc, self.group.name
        return f"{desc} ({name})" if desc and desc not in (name, "undefined") else f"group {name}"


@dataclass(frozen=True, slots=True)
class Transfer:
    """A send or receive that is issued and not completed; ranks are global."""

    group: int
    rank: int
    peer: int
    send: bool
    row: int


@dataclass(slots=True)
class Fleet:
    """All ranks of the case that dumps tell of."""

    records: FlightRecords
    dumps: dict[int, FlightDump]
    groups: list[GroupView]
    transfers: list[Transfer]
    missing: frozenset[int]
    """Members of groups that left no dump."""

    @property
    def empty(self) -> frozenset[int]:
        """Ranks whose dump holds no operation although those of others do."""
        return frozenset(r for r, d in self.dumps.items() if d.readable and d.complete and not len(d))

    def op(self, dump: FlightDump, row: int) -> str:
        """Name of the operation of a row."""
        return self.records.ops[dump.op[row]]


def read_fleet(records: FlightRecords) -> Fleet:
    """Standings of all ranks, in the order of ranks and groups' names."""
    dumps = {dump.rank: dump for dump in records.dumps if dump.rank is not None}
    dumps = dict(sorted(dumps.items()))
    mixed = {g for dump in dumps.values() for g in np.unique(_col(dump, "group", "i")[_col(dump, "p2p", "b") == 1])}
    views: dict[int, GroupView] = {}
    transfers: list[Transfer] = []
    for rank, dump in dumps.items():
        for standing_group, standing in _standings(rank, dump, mixed):
            view = views.setdefault(standing_group, GroupView(standing_group, records.groups[standing_group]))
            view.standings[rank] = standing
        transfers += _transfers(records, rank, dump)
    members = {rank for view in views.values() for rank in view.group.ranks}
    missing = frozenset(members - dumps.keys())
    for view in views.values():
        for rank in view.group.ranks:
            if rank in missing:
                view.standings[rank] = Standing(rank, None, NEVER, NEVER)
    ordered = sorted(views.values(), key=lambda view: (view.group.name, view.group.ranks))
    return Fleet(records, dumps, ordered, transfers, missing)


def _col(dump: FlightDump, name: str, code: str) -> np.ndarray:
    return (
        np.frombuffer(getattr(dump, name), dtype=np.dtype(code).newbyteorder("=")) if len(dump) else np.empty(0, code)
    )


def _standings(rank: int, dump: FlightDump, mixed: set[int]) -> list[tuple[int, Standing]]:
    if not dump.readable:
        return []
    group, seq = _col(dump, "group", "i"), _col(dump, "seq", "q")
    collective = (_col(dump, "p2p", "b") == 0) & (seq != NO_SEQ)
    pending = collective & (_col(dump, "state", "b") != OpState.COMPLETED)
    found = []
    for index, status in dump.groups.items():
        standing = Standing(rank, dump)
        rows = np.flatnonzero(collective & (group == index))
        if len(rows) and dump.complete:
            standing.enqueued = int(seq[rows].max())
        usable = status is not None and index not in mixed and status.enqueued >= standing.enqueued
        if status is not None and usable and status.enqueued != NO_SEQ:
            standing.enqueued = status.enqueued
            standing.next = max(status.completed, 0) + 1
        open_rows = np.flatnonzero(pending & (group == index))
        if len(open_rows):
            row = int(open_rows[np.argmin(seq[open_rows])])
            if standing.next == NO_SEQ or int(seq[row]) <= standing.next or not usable:
                standing.row, standing.next = row, int(seq[row])
        elif standing.next == NO_SEQ and standing.enqueued != NO_SEQ:
            standing.next = standing.enqueued + 1
        if not len(dump) and dump.complete and standing.enqueued == NO_SEQ:
            standing.enqueued = standing.next = NEVER
        found.append((index, standing))
    return found


def _transfers(records: FlightRecords, rank: int, dump: FlightDump) -> list[Transfer]:
    """Point-to-point operations that do not complete, the first of each direction and peer."""
    rows = np.flatnonzero((_col(dump, "p2p", "b") == 1) & (_col(dump, "state", "b") != OpState.COMPLETED))
    found: dict[tuple[int, int, bool], Transfer] = {}
    for row in rows.tolist():
        match = _P2P.match(records.ops[dump.op[row]])
        ranks = records.groups[dump.group[row]].ranks
        if match is None or int(match[3]) >= len(ranks):
            continue
        peer, send = ranks[int(match[3])], match[1] == "send"
        key = (dump.group[row], peer, send)
        if peer != rank and key not in found:
            found[key] = Transfer(dump.group[row], rank, peer, send, row)
    return list(found.values())
