"""Different operations, sizes, types or orders at one sequence number: FORMULAS 5.10 (a)."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass

import numpy as np

from aiops.detect.flight_state import Fleet, GroupView
from aiops.model.flight import FlightDump, FlightRecords

_SAME_SIZE = frozenset({"all_reduce", "broadcast", "reduce", "_all_gather_base", "_reduce_scatter_base"})
"""Operations to which every member must bring equally many elements; others may be uneven."""
_NEAR = 4
"""Operations before and behind in which the other order is looked for."""

Call = tuple[str, int, str]
"""Operation, elements (-1 where members may differ), type."""


@dataclass(frozen=True, slots=True)
class Mismatch:
    """``ranks`` call ``odd`` where the others call ``common``; no ranks if neither side is the smaller."""

    view: GroupView
    seq: int
    kind: str
    """``op``, ``size``, ``dtype`` or ``order``."""
    ranks: tuple[int, ...]
    odd: str
    common: str
    proof: tuple[tuple[FlightDump, int], ...]
    created: int


def find_mismatch(fleet: Fleet) -> Mismatch | None:
    """The earliest mismatch among operations that not every member has completed."""
    found = [mismatch for view in fleet.groups if (mismatch := _in_group(fleet, view)) is not None]
    return min(found, key=lambda m: (m.created, m.view.group.name), default=None)


def _in_group(fleet: Fleet, view: GroupView) -> Mismatch | None:
    stuck = [s.next for s in view.standings.values() if s.waits]
    if not stuck or len(view.standings) < 2:
        return None
    calls: dict[int, dict[int, list[tuple[Call, int]]]] = {}
    for rank, standing in view.standings.items():
        if standing.dump is None or not len(standing.dump):
            continue
        for seq, call, row in _calls(fleet.records, standing.dump, view.index, min(stuck)):
            calls.setdefault(seq, {}).setdefault(rank, []).append((call, row))
    for seq in sorted(calls):
        variants: dict[tuple[Call, ...], list[int]] = {}
        for rank, made in calls[seq].items():
            variants.setdefault(tuple(call for call, _ in made), []).append(rank)
        if len(variants) > 1:
            return _mismatch(fleet, view, seq, variants, calls)
    return None


def _calls(records: FlightRecords, dump: FlightDump, group: int, since: int) -> list[tuple[int, Call, int]]:
    groups = np.frombuffer(dump.group, dtype=np.int32)
    seqs = np.frombuffer(dump.seq, dtype=np.int64)
    p2p = np.frombuffer(dump.p2p, dtype=np.int8)
    rows = np.flatnonzero((groups == group) & (p2p == 0) & (seqs >= since))
    return [(dump.seq[row], _call(records, dump, row), row) for row in rows.tolist()]


def _call(records: FlightRecords, dump: FlightDump, row: int) -> Call:
    name = records.ops[dump.op[row]]
    signature = records.signatures[dump.signature[row]]
    elements = -1
    if name in _SAME_SIZE and signature.inputs:
        elements = sum(math.prod(shape) for shape in signature.inputs)
    return name, elements, "/".join(dict.fromkeys(signature.dtypes))


def _mismatch(
    fleet: Fleet,
    view: GroupView,
    seq: int,
    variants: dict[tuple[Call, ...], list[int]],
    calls: dict[int, dict[int, list[tuple[Call, int]]]],
) -> Mismatch:
    rare = min(variants, key=lambda made: (len(variants[made]), made))
    common = max(variants, key=lambda made: (len(variants[made]), made))
    clear = len(variants[rare]) < len(variants[common])
    usual = len(variants[common])
    odd_ranks = sorted(rank for made, ranks in variants.items() if len(ranks) < usual for rank in ranks)
    proof = []
    for made in (rare, common):
        rank = min(variants[made])
        dump = fleet.dumps[rank]
        proof.append((dump, calls[seq][rank][0][1]))
    kind = _kind(rare, common)
    if kind == "op" and _swapped(calls, seq, variants[rare][0], variants[common][0]):
        kind = "order"
    return Mismatch(
        view,
        seq,
        kind,
        tuple(odd_ranks) if clear else (),
        _words(rare, kind),
        _words(common, kind),
        tuple(proof),
        min(dump.created[row] for dump, row in proof),
    )


def _kind(one: tuple[Call, ...], other: tuple[Call, ...]) -> str:
    if [name for name, _, _ in one] != [name for name, _, _ in other]:
        return "op"
    return "size" if [size for _, size, _ in one] != [size for _, size, _ in other] else "dtype"


def _swapped(calls: dict[int, dict[int, list[tuple[Call, int]]]], seq: int, one: int, other: int) -> bool:
    """Both ranks call the same operations near this number, in another order."""
    near = [calls.get(number, {}) for number in range(seq, seq + _NEAR)]
    first = [call for made in near for call, _ in made.get(one, ())]
    second = [call for made in near for call, _ in made.get(other, ())]
    size = min(len(first), len(second))
    return any(Counter(first[:n]) == Counter(second[:n]) for n in range(2, size + 1))


def _words(calls: tuple[Call, ...], kind: str) -> str:
    name, elements, dtype = calls[0]
    text = name if len(calls) == 1 else f"{name} and {len(calls) - 1} more"
    if kind == "size" and elements >= 0:
        return f"{text} of {elements} elements"
    return f"{text} of {dtype}" if kind == "dtype" else text
