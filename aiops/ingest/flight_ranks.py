"""Which rank wrote a flight-recorder dump: a dump does not say, but its process groups nearly do.

A dump lists the groups that its rank belongs to. Their common members are candidates; with tensor, pipeline and data
parallel groups just one is left. Point-to-point records name their own end. Only where these leave a choice, the number at the
end of the file's name decides: the recorder itself writes ``<prefix><rank>``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from aiops.ingest.facts import facts_of
from aiops.model.case import Case, Problem, RankPlace
from aiops.model.flight import FlightDump, FlightRecords

_NUMBER = re.compile(r"(\d{1,7})(?:\.(?:json|pkl|pickle|bin|dump|dat|log|txt|trace|pt|gz|xz|zst|bz2))*$", re.I)
_FOLDER = re.compile(r"(?:^|[/!_.-])rank[_.-]?(\d{1,7})(?=[/!_.-]|$)", re.I)
_P2P = re.compile(r"(?:send (\d{1,7})->\d|recv (\d{1,7})<-\d)")


def name_ranks(case: Case) -> None:
    """Give each dump its rank and say how it is known; of several dumps of one rank the newest stays."""
    sources = {dump.source: case.sources[dump.source] for dump in case.flight.dumps}
    undecided: list[tuple[FlightDump, set[int]]] = []
    for dump in case.flight.dumps:
        if dump.rank is not None:
            continue
        candidates = _candidates(case.flight, dump)
        if len(candidates) == 1:
            dump.rank = next(iter(candidates))
            dump.sure = "the only common member of its process groups"
        else:
            undecided.append((dump, candidates))
    taken = {dump.rank for dump in case.flight.dumps}
    for dump, candidates in undecided:
        number = _number(sources[dump.source].name)
        if number is not None and (number in candidates or not candidates):
            dump.rank, dump.sure = number, "the number at the end of the file's name, as the recorder writes it"
            continue
        left = candidates - taken
        if len(left) == 1 and len(undecided) == 1:
            dump.rank, dump.sure = next(iter(left)), "the only member of its process groups without another dump"
    _one_each(case)
    facts = facts_of(case)
    for dump in case.flight.dumps:
        source = sources[dump.source]
        if dump.rank is None:
            reason = "which rank wrote this flight-recorder dump is told neither by its process groups nor by its name"
            case.coverage.problems.append(Problem(source.name, reason))
            continue
        source.rank = dump.rank
        facts.rank_why.setdefault(dump.source, dump.sure)
        if source.node:
            place = case.topology.ranks.setdefault(dump.rank, RankPlace(dump.rank))
            if place.node is None:
                place.node, place.sure = source.node, facts.node_why.get(dump.source, "its dump")


def _candidates(records: FlightRecords, dump: FlightDump) -> set[int]:
    """Ranks that may have written the dump; empty if nothing of it tells."""
    members = [set(records.groups[index].ranks) for index in dump.groups if records.groups[index].ranks]
    candidates = set.intersection(*members) if members else set()
    for end in _own_ends(records, dump):
        if not candidates or end in candidates:
            return {end}
    return candidates


def _own_ends(records: FlightRecords, dump: FlightDump) -> Iterator[int]:
    """The rank's own end of its first point-to-point record, as a global rank."""
    for row in range(len(dump)):
        match = _P2P.match(records.ops[dump.op[row]]) if dump.p2p[row] else None
        if match:
            ranks = records.groups[dump.group[row]].ranks
            local = int(match[1] or match[2])
            if local < len(ranks):
                yield ranks[local]
                return


def _number(name: str) -> int | None:
    last = re.split(r"[/!]", name)[-1]
    match = _NUMBER.search(last)
    if match is None:
        folders = _FOLDER.findall(name)
        return int(folders[-1]) if folders else None
    return int(match[1])


def _one_each(case: Case) -> None:
    """A second dump of a rank is of another attempt, or a copy: the folder with the newest dump counts, of one folder the newer dump."""
    folders: dict[str, list[FlightDump]] = {}
    for dump in case.flight.dumps:
        folders.setdefault(re.split(r"[^/!]*$", case.sources[dump.source].name)[0], []).append(dump)
    newest_first = sorted(folders.values(), key=lambda dumps: max(map(_age, dumps)), reverse=True)
    used: dict[int, FlightDump] = {}
    dropped: set[int] = set()
    for dumps in newest_first:
        if any(dump.rank in used for dump in dumps):
            for dump in dumps:
                other = used.get(dump.rank if dump.rank is not None else -1) or next(iter(used.values()))
                _tell(case, dump, other, dropped)
            continue
        for dump in sorted(dumps, key=_age, reverse=True):
            if dump.rank is not None and dump.rank in used:
                _tell(case, dump, used[dump.rank], dropped)
            elif dump.rank is not None:
                used[dump.rank] = dump
    case.flight.dumps = [dump for dump in case.flight.dumps if dump.source not in dropped]


def _tell(case: Case, dump: FlightDump, other: FlightDump, dropped: set[int]) -> None:
    dropped.add(dump.source)
    which = f"another flight-recorder dump of rank {dump.rank}" if dump.rank is not None else "of another attempt"
    reason = f"{which}: {case.sources[other.source].name} is newer or was read first, and was used"
    case.coverage.problems.append(Problem(case.sources[dump.source].name, reason))


def _age(dump: FlightDump) -> tuple[bool, int, int]:
    return (dump.readable, max(dump.created, default=0), max(dump.record, default=0))
