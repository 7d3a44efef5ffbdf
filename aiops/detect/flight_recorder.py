"""What flight-recorder dumps prove about a collective that does not complete: who waits, who is at fault, and how."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from aiops.detect.evidence import evidence_rows, known
from aiops.detect.flight_evidence import last_call, own_frame, quote_record, quote_status
from aiops.detect.flight_mismatch import Mismatch, find_mismatch
from aiops.detect.flight_state import Fleet, read_fleet
from aiops.detect.flight_waits import Suspects, Why, find_suspects
from aiops.model.case import Case
from aiops.model.event import NO_TIME, Severity
from aiops.model.finding import EvidenceRef, Finding, Role
from aiops.model.flight import FlightDump

_SHOWN = 4
_WENT_ON_NS = 120 * 1_000_000_000
_WORDS = {
    Why.EMPTY: "recorded no operation at all",
    Why.HOST: "never issued it",
    Why.DEVICE: "stopped completing operations before the others",
    Why.SCHEDULED: "issued it, but its GPU has not begun it while others are inside",
    Why.TRANSFER: "never issued its end of a send or receive",
    Why.STOPPED: "stopped issuing operations before the others",
    Why.MISSING: "left no dump",
}


def recorded(case: Case) -> tuple[list[Finding], bool]:
    """Findings from the dumps of a case, and whether they decide so that nothing has to be guessed from logs.

    ``collective.waiting`` (ECHO: who waits, fields ``op``, ``seq``, ``group``), and one of ``collective.desync`` (ROOT; field
    ``kind``: op, size, dtype, order), ``collective.missing_rank`` (ROOT; fields ``ranks``, ``how``, ``reasons``, ``stack``) or
    ``collective.all_entered`` (ROOT, weak). Nothing if no operation is pending, or if training went on afterwards: a
    snapshot of a job that runs.
    """
    if not case.flight.dumps:
        return [], False
    fleet = read_fleet(case.flight)
    heard = frozenset(e.rank for e in evidence_rows(case, "nccl.watchdog_timeout") if e.rank is not None)
    suspects = find_suspects(fleet, heard)
    began = _began(fleet, suspects)
    if not suspects.waiters or _went_on(case, began):
        return [], False
    mismatch = find_mismatch(fleet)
    if mismatch is not None:
        return [_waiting(case, fleet, suspects, began), _desync(case, fleet, mismatch)], True
    if suspects.cycle:
        return [_waiting(case, fleet, suspects, began), _circle(case, fleet, suspects, began)], True
    world = len(fleet.dumps) + len(fleet.missing)
    if suspects.ranks and (len(suspects.ranks) * 2 <= world or world <= 2):
        return [_waiting(case, fleet, suspects, began), _missing(case, fleet, suspects, began)], True
    # where dumps are missing the logs may know more
    decided = len(fleet.dumps) > 1 and not fleet.missing
    return [_waiting(case, fleet, suspects, began), _all_entered(case, fleet, suspects, began)], decided


def _began(fleet: Fleet, suspects: Suspects) -> int:
    """When the first operation that does not complete was issued; groups that wait for a suspect count before others."""
    blamed = {id(w.group) for w in suspects.waits if w.behind & suspects.ranks.keys()}
    times: dict[bool, list[int]] = {True: [], False: []}
    for view in fleet.groups:
        for standing in view.standings.values():
            if standing.dump is not None and standing.waits and standing.rank not in suspects.ranks:
                times[id(view) in blamed].append(standing.dump.created[standing.row])
    for transfer in fleet.transfers:
        times[False].append(fleet.dumps[transfer.rank].created[transfer.row])
    found = [ts for ts in times[True] or times[False] if ts > 0]
    return min(found, default=NO_TIME)


def _went_on(case: Case, began: int) -> bool:
    steps = [e.ts for e in evidence_rows(case, "train.progress", "train.step") if known(e)]
    return began != NO_TIME and bool(steps) and max(steps) > began + _WENT_ON_NS


def _stalled(fleet: Fleet, suspects: Suspects) -> tuple[str, int, str]:
    """Operation, sequence number and group in which most ranks stand, those that wait for a suspect first."""
    for wait in suspects.shown_by():
        if wait.group is None or wait.seq < 0:
            continue
        standing = wait.group.standings[min(wait.waiters)]
        if standing.dump is not None and standing.waits:
            return fleet.op(standing.dump, standing.row), wait.seq, wait.group.title
    counts: Counter[tuple[str, int, str]] = Counter()
    for view in fleet.groups:
        for standing in view.standings.values():
            if standing.dump is not None and standing.waits:
                counts[(fleet.op(standing.dump, standing.row), standing.next, view.title)] += 1
    if counts:
        return max(counts, key=lambda item: (counts[item], item))
    transfer = fleet.transfers[0]
    dump = fleet.dumps[transfer.rank]
    return fleet.op(dump, transfer.row), dump.seq[transfer.row], fleet.records.groups[transfer.group].name


def _waiting(case: Case, fleet: Fleet, suspects: Suspects, began: int) -> Finding:
    waiters = sorted(suspects.waiters - suspects.ranks.keys()) or sorted(suspects.waiters)
    op, seq, group = _stalled(fleet, suspects)
    timed_out = sum(
        any(gone and state != 2 for gone, state in zip(dump.retired, dump.state, strict=True))
        for dump in fleet.dumps.values()
    )
    late = f"; on {timed_out} of them the watchdog gave up" if timed_out else ""
    return Finding(
        sign="collective.waiting",
        text=f"{len(waiters)} ranks have issued operations that do not complete, such as {op} ({group}, sequence {seq}){late}",
        role=Role.ECHO,
        severity=Severity.ERROR,
        first=began,
        last=began,
        ranks=tuple(waiters),
        count=len(waiters),
        fields={"op": op, "seq": seq, "group": group, "timed_out": timed_out},
        evidence=_waiter_quotes(case, fleet, suspects),
    )


def _waiter_quotes(case: Case, fleet: Fleet, suspects: Suspects, most: int = 2) -> list[EvidenceRef]:
    refs: dict[int, EvidenceRef] = {}
    rows = [
        (s.dump.created[s.row], s.rank, s.dump, s.row)
        for view in fleet.groups
        for s in view.standings.values()
        if s.dump is not None and s.waits and s.rank not in suspects.ranks
    ]
    rows += [(fleet.dumps[t.rank].created[t.row], t.rank, fleet.dumps[t.rank], t.row) for t in fleet.transfers]
    for _, rank, dump, row in sorted(rows, key=lambda item: item[:2]):
        if rank not in refs:
            refs[rank] = quote_record(case, dump, row)
        if len(refs) == most:
            break
    return list(refs.values())


def _missing(case: Case, fleet: Fleet, suspects: Suspects, began: int) -> Finding:
    ranks = list(suspects.ranks)
    how = "; ".join(_reason(fleet, suspects, why) for why in dict.fromkeys(suspects.ranks.values()))
    place = case.topology.ranks.get(ranks[0])
    proof: list[EvidenceRef] = []
    calls: dict[int, str] = {}
    for rank in ranks[:_SHOWN]:
        dump = fleet.dumps.get(rank)
        if dump is None:
            continue
        row = _telling_row(suspects, rank, dump)
        if row is None:
            proof.append(quote_status(case, dump))
            continue
        proof.append(quote_record(case, dump, row))
        frames = fleet.records.stacks[dump.stack[row]]
        if frames:
            calls[rank] = own_frame(frames)
    proof += _waiter_quotes(case, fleet, suspects, 2)
    op, seq, group = _stalled(fleet, suspects)
    first = next(iter(calls.items()), None)
    called = f"; the last call of rank {first[0]} came from {first[1]}" if first else ""
    names = _names(ranks).capitalize()
    places = [p for rank in ranks if (p := case.topology.ranks.get(rank)) is not None]
    return Finding(
        sign="collective.missing_rank",
        role=Role.ROOT,
        severity=Severity.ERROR,
        first=began,
        last=began,
        text=f"{names} hold{'' if len(ranks) > 1 else 's'} up {op} of {group} "
        f"(sequence {seq}), says the flight recorder: {how}{called}",
        node=place.node if place else None,
        gpu=place.gpu if place else None,
        pci=place.pci if place else None,
        rank=ranks[0],
        ranks=tuple(ranks),
        nodes=tuple(dict.fromkeys(p.node for p in places if p.node)),
        count=len(ranks),
        fields={
            "ranks": ranks,
            "how": how,
            "reasons": {str(rank): why.value for rank, why in suspects.ranks.items()},
            "stack": calls,
            "seq": seq,
            "op": op,
            "group": group,
        },
        evidence=proof,
    )


def _telling_row(suspects: Suspects, rank: int, dump: FlightDump) -> int | None:
    """The operation at which its device stopped, or the last that its host issued."""
    if suspects.ranks[rank] in (Why.DEVICE, Why.SCHEDULED):
        for wait in suspects.shown_by():
            if rank in wait.behind and wait.group is not None and wait.group.standings[rank].waits:
                return wait.group.standings[rank].row
    return last_call(dump)


def _reason(fleet: Fleet, suspects: Suspects, why: Why) -> str:
    ranks = [rank for rank, reason in suspects.ranks.items() if reason == why]
    return f"{_names(ranks)} {_WORDS[why]}"


def _names(ranks: Sequence[int]) -> str:
    return f"rank{'s' if len(ranks) > 1 else ''} {', '.join(map(str, ranks[:8]))}{' …' if len(ranks) > 8 else ''}"


def _desync(case: Case, fleet: Fleet, mismatch: Mismatch) -> Finding:
    ranks = mismatch.ranks
    who = _names(ranks) if ranks else "one side"
    verb = "runs" if len(ranks) == 1 or not ranks else "run"
    extra = ", in another order than the others" if mismatch.kind == "order" else ""
    place = case.topology.ranks.get(ranks[0]) if len(ranks) == 1 else None
    dump, row = mismatch.proof[0]
    frames = fleet.records.stacks[dump.stack[row]]
    called = f"; called from {own_frame(frames)}" if frames else ""
    return Finding(
        sign="collective.desync",
        role=Role.ROOT,
        severity=Severity.ERROR,
        first=mismatch.created if mismatch.created > 0 else NO_TIME,
        last=mismatch.created if mismatch.created > 0 else NO_TIME,
        text=f"At sequence {mismatch.seq} of {mismatch.view.title} {who} {verb} {mismatch.odd} while others run "
        f"{mismatch.common}{extra}{called}",
        node=place.node if place else None,
        rank=ranks[0] if ranks else None,
        ranks=ranks,
        count=max(1, len(ranks)),
        fields={
            "odd": mismatch.odd,
            "others": mismatch.common,
            "where": f"sequence {mismatch.seq}",
            "kind": mismatch.kind,
            "group": mismatch.view.title,
            "stack": own_frame(frames) if frames else "",
        },
        evidence=[quote_record(case, dump, row) for dump, row in mismatch.proof],
    )


def _circle(case: Case, fleet: Fleet, suspects: Suspects, began: int) -> Finding:
    """Each waits for another one in a circle: the ranks call the operations of several groups in different orders."""
    return Finding(
        sign="collective.desync",
        role=Role.ROOT,
        severity=Severity.ERROR,
        first=began,
        last=began,
        text=f"{_names(suspects.cycle).capitalize()} wait for each other in a circle: they call their groups in different orders",
        ranks=suspects.cycle,
        count=len(suspects.cycle),
        fields={"odd": "", "others": "", "where": "several groups", "kind": "order", "group": "", "undecided": True},
        evidence=_waiter_quotes(case, fleet, suspects, _SHOWN),
    )


def _all_entered(case: Case, fleet: Fleet, suspects: Suspects, began: int) -> Finding:
    many = f"{len(suspects.ranks)} of them differ, too many to single one out" if suspects.ranks else "nobody is behind"
    absent = f"; {len(fleet.missing)} ranks left no dump" if fleet.missing else ""
    return Finding(
        sign="collective.all_entered",
        text=f"All ranks with a dump have issued the operation that does not complete, and {many}{absent}",
        role=Role.ROOT,
        severity=Severity.ERROR,
        first=began,
        last=began,
        ranks=tuple(sorted(suspects.waiters)),
        count=len(suspects.waiters),
        evidence=_waiter_quotes(case, fleet, suspects, 3),
    )
