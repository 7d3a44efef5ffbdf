"""Collectives that did not complete: who waited, on what, and who never came."""

from __future__ import annotations

import re
from collections import Counter

from aiops.catalog.model import Catalog
from aiops.detect.desync import (
    desync_finding,
    fingerprints,
    last_operations,
    operations,
    process_group,
    ras,
    snapshot,
)
from aiops.detect.evidence import evidence_rows, quotes, span
from aiops.detect.flight_recorder import recorded
from aiops.detect.waiting import what_they_wait_for
from aiops.model.case import Case
from aiops.model.event import Event, Severity
from aiops.model.finding import Finding, Role


def detect(case: Case, catalog: Catalog) -> list[Finding]:
    """``collective.timeout`` (ECHO: who waited), and what it reveals:

    ``collective.missing_rank`` (ROOT: ranks that never entered; fields ``ranks``, ``how``), ``collective.desync``
    (ROOT: different operations or sizes at one point), ``collective.all_entered`` (ROOT, weak: everyone
    waits and nobody is missing, or the logs cannot tell). What the one rank does that the others wait for, if its log tells:
    ``collective.left_loop`` and ``collective.rank0_busy``, see `aiops.detect.waiting`. Dumps of the flight recorder
    decide before anything that logs say, see `aiops.detect.flight_recorder`.
    """
    timeouts = evidence_rows(case, "nccl.watchdog_timeout")
    gloo = evidence_rows(case, "gloo.timeout")
    lagging = evidence_rows(case, "nccl.lagging_rank")
    waits = timeouts or gloo
    findings = [_timeout(case, waits)] if waits else []
    findings += what_they_wait_for(case, waits)
    dumped, decided = recorded(case)
    if decided:
        return [*findings, *dumped]
    logged = _from_logs(case, timeouts, gloo, lagging)
    undecided = [f for f in dumped if f.sign != "collective.all_entered"]
    if len(undecided) < len(dumped) and not any(f.sign != "collective.all_entered" for f in logged):
        return [*findings, *dumped]
    return [*findings, *undecided, *logged]


def _from_logs(case: Case, timeouts: list[Event], gloo: list[Event], lagging: list[Event]) -> list[Finding]:
    """Who runs something else, who is missing, or that the logs cannot tell."""
    waits = timeouts or gloo
    desync = fingerprints(case) or _desync(case, timeouts) or snapshot(case) or operations(case)
    if desync:
        return [desync]
    if not waits and not lagging and not evidence_rows(case, "nccl.ras_behind", "nccl.ras_dead"):
        return []
    missing, how, proof = _missing(case, timeouts, gloo, lagging)
    if missing:
        return [_missing_finding(case, missing, how, proof or waits)]
    if not waits:
        return []
    first, last = span(waits)
    return [
        Finding(
            sign="collective.all_entered",
            text="A collective timed out and no rank stands out as missing",
            role=Role.ROOT,
            severity=Severity.ERROR,
            first=first,
            last=last,
            ranks=_ranks(waits),
            count=len(waits),
            evidence=quotes(case, waits),
        )
    ]


def _ranks(events: list[Event]) -> tuple[int, ...]:
    return tuple(sorted({event.rank for event in events if event.rank is not None}))


def _timeout(case: Case, events: list[Event]) -> Finding:
    first, last = span(events)
    ranks = _ranks(events)
    operations = Counter(str(event.fields.get("op", "")) for event in events if event.fields.get("op"))
    sequence = Counter(str(event.fields.get("seq", "")) for event in events if event.fields.get("seq"))
    what = f" on {operations.most_common(1)[0][0]}" if operations else ""
    number = f" (sequence {sequence.most_common(1)[0][0]})" if sequence else ""
    waited = max((int(event.fields.get("ran", 0)) for event in events), default=0) // 1000
    return Finding(
        sign="collective.timeout",
        text=f"{len(ranks) or len(events)} ranks gave up waiting{what}{number}"
        + (f" after {waited} s" if waited else ""),
        role=Role.ECHO,
        severity=Severity.ERROR,
        first=first,
        last=last,
        ranks=ranks,
        count=len(events),
        fields={
            "waited_s": waited,
            "op": operations.most_common(1)[0][0] if operations else "",
            "began": first - waited * 1_000_000_000 if waited and first > 0 else first,
        },
        evidence=quotes(case, events),
    )


def _desync(case: Case, timeouts: list[Event]) -> Finding | None:
    """Two operations or sizes at one sequence number of one process group: the ranks ran different code."""
    by_sequence: dict[tuple[str, str], Counter[tuple[str, str]]] = {}
    odd: dict[tuple[tuple[str, str], tuple[str, str]], list[Event]] = {}
    for event in timeouts:
        sequence = str(event.fields.get("seq", ""))
        size = re.search(r"NumelIn=(\d+)", event.text)
        if not sequence:
            continue
        key = (process_group(event.text), sequence)
        shape = (str(event.fields.get("op", "")), size[1] if size else "")
        by_sequence.setdefault(key, Counter())[shape] += 1
        odd.setdefault((key, shape), []).append(event)
    for key, shapes in by_sequence.items():
        operations_ = {op for op, _ in shapes}
        if len(operations_) < 2:
            continue
        (rare, _count) = min(shapes.items(), key=lambda item: (item[1], item[0]))
        common = shapes.most_common(1)[0][0]
        return desync_finding(
            case,
            ranks=_ranks(odd[(key, rare)]),
            odd=rare[0],
            others=common[0],
            where=f"sequence {key[1]}",
            proof=[*odd[(key, rare)][:1], *odd[(key, common)][:1]],
        )
    return None


def _named(event: Event) -> list[int]:
    return [int(number) for number in re.findall(r"\d{1,9}", str(event.fields.get("ranks", "")))]


def _missing(
    case: Case, timeouts: list[Event], gloo: list[Event], lagging: list[Event]
) -> tuple[list[int], str, list[Event]]:
    """Ranks that never entered the collective, how that is known, and the proof."""
    told = [event for event in lagging if _named(event)]
    # Horovod gives each rank a line of its own
    one = [event for at, event in enumerate(told) if event.source == told[0].source and event.line == told[0].line + at]
    if one:
        return sorted({rank for event in one for rank in _named(event)}), "the process group names them", one[:3]
    for behind in (_behind(case, timeouts), last_operations(case), ras(case)):
        if behind[0]:
            return behind
    waiting = set(_ranks(timeouts)) | set(_ranks(gloo))
    world = case.topology.world_size
    if not waiting or not world or world < 2:
        return [], "", []
    complaining = waiting | _ranks_that_failed(case)
    # many silent ranks mean that their logs are missing, not that they hang; the size of the world is only a claim
    if (world - len(complaining)) * 3 > world:
        return [], "", []
    silent = sorted(set(range(world)) - complaining)
    if silent and len(silent) * 3 <= world and len(waiting) * 2 >= world - len(silent) - len(complaining - waiting):
        how = "they are the only ranks" if len(silent) > 1 else "it is the only rank"
        return silent, f"{how} to report nothing", []
    return [], "", []


def _behind(case: Case, timeouts: list[Event]) -> tuple[list[int], str, list[Event]]:
    """Ranks whose last enqueued work lies before the one the others wait for, within one process group."""
    status = evidence_rows(case, "nccl.watchdog_status")
    works: dict[str, Counter[int]] = {}
    for event in timeouts:
        if event.fields.get("seq"):
            works.setdefault(process_group(event.text), Counter())[int(event.fields["seq"])] += 1
    for group, sequences in works.items():
        enqueued: dict[int, tuple[int, Event]] = {}
        for event in status:
            if event.rank is not None and event.fields.get("enqueued") and process_group(event.text) == group:
                enqueued[event.rank] = (int(event.fields["enqueued"]), event)
        stalled = sequences.most_common(1)[0][0]
        late = sorted(rank for rank, (last, _) in enqueued.items() if last < stalled)
        if late and len(late) * 2 < len(enqueued):
            how = f"their last enqueued work lies before sequence {stalled}"
            return late, how, [enqueued[rank][1] for rank in late[:2]]
    return [], "", []


def _ranks_that_failed(case: Case) -> set[int]:
    """Ranks with an error of their own or a reset in their log: they are heard, so not silent."""
    skip = {"nccl.init_rank"}
    return {
        event.rank
        for event in case.events
        if event.rank is not None
        and event.severity >= Severity.WARNING
        and event.signal not in skip
        and event.signal not in ("launcher.closing",)
        and not event.quoted
    }


def _missing_finding(case: Case, missing: list[int], how: str, proof: list[Event]) -> Finding:
    place = case.topology.ranks.get(missing[0])
    first, last = span(proof)
    names = ", ".join(map(str, missing[:8])) + (" …" if len(missing) > 8 else "")
    return Finding(
        sign="collective.missing_rank",
        role=Role.ROOT,
        severity=Severity.ERROR,
        first=first,
        last=last,
        text=f"Rank{'s' if len(missing) > 1 else ''} {names} never entered the collective that the others wait for: {how}",
        node=place.node if place else None,
        gpu=place.gpu if place else None,
        pci=place.pci if place else None,
        rank=missing[0],
        ranks=tuple(missing),
        nodes=tuple(dict.fromkeys(p.node for r in missing if (p := case.topology.ranks.get(r)) and p.node)),
        count=len(missing),
        fields={"ranks": missing, "how": how},
        evidence=quotes(case, proof),
    )
