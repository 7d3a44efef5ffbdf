"""Which rank runs another collective than the others, or lies behind: DETAIL reports, desync reports, NCCL's own lines."""

from __future__ import annotations

import re
from collections import Counter

from aiops.detect.evidence import evidence_rows, quotes, span
from aiops.model.case import Case
from aiops.model.event import Event, Severity
from aiops.model.finding import Finding, Role

Behind = tuple[list[int], str, list[Event]]
"""Ranks that lie behind, how that is known, and the proof."""

_GROUP = re.compile(r"PG (?:ID \d+ PG )?GUID (\S+)|PG NAME (\S+)|\[PG ID (\d+) ")
_COMM = re.compile(r"comm (0x[0-9a-f]+) rank (\d+)[^\n]*?commId (0x[0-9a-f]+)")


def process_group(text: str) -> str:
    """Name of the process group in a line of c10d (2.2 and later); empty if the line names none.

    Sequence numbers count within a group: equal numbers of two groups say nothing about each other.
    """
    match = _GROUP.search(text)
    return next((group for group in match.groups() if group), "") if match else ""


def desync_finding(
    case: Case, *, ranks: tuple[int, ...], odd: str, others: str, where: str, proof: list[Event]
) -> Finding:
    """``collective.desync``: ``ranks`` run ``odd`` at ``where`` while the others run ``others``."""
    first, last = span(proof)
    who = f"rank {', '.join(map(str, ranks))}" if ranks else "one rank"
    place = case.topology.ranks.get(ranks[0]) if len(ranks) == 1 else None
    return Finding(
        sign="collective.desync",
        role=Role.ROOT,
        severity=Severity.ERROR,
        first=first,
        last=last,
        text=f"At {where} {who} runs {odd} while others run {others}",
        node=place.node if place else None,
        rank=ranks[0] if len(ranks) == 1 else None,
        ranks=ranks,
        count=len(proof),
        fields={"odd": odd, "others": others, "where": where},
        evidence=quotes(case, proof),
    )


def fingerprints(case: Case) -> Finding | None:
    """``TORCH_DISTRIBUTED_DEBUG=DETAIL``: each report names two ranks; the one that is in all of them is the odd one."""
    events = evidence_rows(case, "nccl.fingerprint")
    pairs = {frozenset((int(e.fields["a"]), int(e.fields["b"]))) for e in events}
    if not pairs:
        return None
    inall = frozenset.intersection(*pairs)
    ranks = tuple(inall) if len(inall) == 1 else ()
    shapes = re.findall(r"OpType=(\w+)", events[0].text)
    odd, others = (shapes[0], shapes[-1]) if len(shapes) > 1 else ("a collective", "another one")
    if ranks and str(events[0].fields["b"]) == str(ranks[0]):
        odd, others = others, odd
    number = re.search(r"SequenceNumber=(\d+)", events[0].text)
    where = f"sequence {number[1]}" if number else "one point"
    return desync_finding(case, ranks=ranks, odd=odd, others=others, where=where, proof=events)


def snapshot(case: Case) -> Finding | None:
    """The desync report of c10d lists the latest state of all ranks: two operations at one number are a mismatch."""
    by_rank: dict[tuple[int, ...], tuple[str, Event]] = {}
    for event in evidence_rows(case, "nccl.desync_state"):
        if event.fields.get("state") == "started":
            ranks = tuple(int(number) for number in str(event.fields["ranks"]).split(","))
            by_rank[ranks] = (str(event.fields["op"]), event)
    started = {op for op, _ in by_rank.values()}
    if len(started) < 2:
        return None
    rare = min(by_rank, key=lambda ranks: (len(ranks), ranks))
    common = max(by_rank, key=lambda ranks: (len(ranks), ranks))
    if by_rank[rare][0] == by_rank[common][0]:
        return None
    return desync_finding(
        case,
        ranks=rare if len(rare) < len(common) else (),
        odd=by_rank[rare][0],
        others=by_rank[common][0],
        where="the collective that timed out",
        proof=[by_rank[rare][1], by_rank[common][1]],
    )


def _by_communicator(case: Case) -> dict[str, dict[int, dict[int, Event]]]:
    """Communicator → operation number → rank → line, from NCCL's lines of the subsystem COLL."""
    names: dict[tuple[int | None, str], str] = {}
    for event in evidence_rows(case, "nccl.init_rank"):
        match = _COMM.search(event.text)
        if match:
            names[(event.rank, match[1])] = match[3]
    found: dict[str, dict[int, dict[int, Event]]] = {}
    for event in evidence_rows(case, "nccl.opcount"):
        if event.rank is None or event.fields["op"] in ("Send", "Recv"):
            continue
        pointer = str(event.fields["comm"])
        name = names.get((event.rank, pointer)) or f"{event.fields['nranks']} ranks"
        number = int(str(event.fields["count"]), 16)
        found.setdefault(name, {}).setdefault(number, {})[event.rank] = event
    return found


def operations(case: Case) -> Finding | None:
    """The first operation number at which ranks of one communicator call different operations or sizes."""
    for lines in _by_communicator(case).values():
        for number in sorted(lines):
            shapes: dict[tuple[str, str], list[Event]] = {}
            for event in lines[number].values():
                shapes.setdefault((str(event.fields["op"]), str(event.fields["elements"])), []).append(event)
            if len(shapes) < 2:
                continue
            rare = min(shapes, key=lambda shape: (len(shapes[shape]), shape))
            common = max(shapes, key=lambda shape: (len(shapes[shape]), shape))
            same = rare[0] == common[0]
            clear = len(shapes[rare]) < len(shapes[common])
            ranks = tuple(sorted(event.rank for event in shapes[rare] if event.rank is not None)) if clear else ()
            return desync_finding(
                case,
                ranks=ranks,
                odd=f"{rare[0]} of {rare[1]} elements" if same else rare[0],
                others=f"{common[0]} of {common[1]} elements" if same else common[0],
                where=f"operation {number}",
                proof=[shapes[rare][0], shapes[common][0]],
            )
    return None


def last_operations(case: Case) -> Behind:
    """Ranks whose last operation lies behind that of most others. Thinned-out lines prove nothing."""
    for lines in _by_communicator(case).values():
        last: dict[int, tuple[int, Event]] = {}
        for number in sorted(lines):
            for rank, event in lines[number].items():
                last[rank] = (number, event)
        if len(last) < 3 or any(event.count > 1 for _, event in last.values()):
            continue
        top = Counter(number for number, _ in last.values()).most_common(1)[0][0]
        late = sorted(rank for rank, (number, _) in last.items() if number < top)
        if late and len(late) * 2 < len(last) and max(number for number, _ in last.values()) == top:
            how = f"their last operation lies before number {top}, at which the others wait"
            return late, how, [last[rank][1] for rank in late[:2]]
    return [], "", []


def ras(case: Case) -> Behind:
    """What NCCL's RAS says: ranks at a lower operation than the rest, or processes that do not answer."""
    counts = evidence_rows(case, "nccl.ras_behind")
    listed = evidence_rows(case, "nccl.ras_rank")
    if len(counts) > 1:
        low = min(counts, key=lambda event: int(event.fields["op"]))
        high = max(counts, key=lambda event: int(event.fields["op"]))
        if int(low.fields["n"]) * 2 < int(low.fields["n"]) + int(high.fields["n"]) and low is not high:
            late = [
                int(event.fields["rank"])
                for event in sorted(listed, key=lambda e: e.line)
                if event.source == low.source and event.line > low.line
            ][: int(low.fields["n"])]
            if late:
                return sorted(late), f"NCCL's RAS sees them at operation {low.fields['op']}", [low]
    dead = evidence_rows(case, "nccl.ras_dead")
    nodes = {event.fields.get("host") for event in dead}
    late = sorted(rank for rank, place in case.topology.ranks.items() if place.node in nodes and place.node)
    if late and len(late) * 2 < len(case.topology.ranks):
        return late, "NCCL's RAS gets no answer from their processes", dead
    return [], "", []
