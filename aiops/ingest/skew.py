"""How far the clocks of hosts are apart, from events that two of them wrote down."""

from __future__ import annotations

from collections import defaultdict
from statistics import median

from aiops.ingest.extract import Pending
from aiops.ingest.facts import Skew
from aiops.ingest.prefix import NS
from aiops.model.case import Case
from aiops.model.event import NO_TIME, TimeQuality

_LEAST_PAIRS = 3
_SHOWN_S = 2.0
"""Below this a difference is the delay of the event itself."""
_AGREE_S = 1.5
_FARTHEST_S = 15 * 3600
"""Beyond the widest difference of time zones a like message is another event."""
_APART_S = 30.0
"""Pairs from one moment prove no skew: the pairs must be spread over at least this time."""


def settle_skew(case: Case, pending: Pending) -> tuple[list[Skew], list[str]]:
    """Estimate the skew of each host against the one it shares most events with, correct the rows of hosts whose clock is wrong.

    A host counts as skewed only if at least three events that each of the two wrote down exactly once agree within 1.5 s,
    and lie at least 30 s apart. Returns the skews and notes on them.
    """
    differences = _pairs(case, pending)
    if not differences:
        return [], []
    agreed: dict[tuple[str, str], tuple[float, float, int]] = {}
    for pair, found in differences.items():
        middle = median(seconds for seconds, _ in found)
        near = [(seconds, at) for seconds, at in found if abs(seconds - middle) <= _AGREE_S]
        times = [at for _, at in near]
        if len(near) < _LEAST_PAIRS or len(near) * 3 < len(found) * 2 or (max(times) - min(times)) < _APART_S * NS:
            continue
        seconds = [value for value, _ in near]
        agreed[pair] = (median(seconds), max(seconds) - min(seconds), len(near))
    offsets = _offsets(agreed)
    skews = [
        Skew(node, reference, round(seconds, 3), round(spread, 3), pairs, abs(seconds) >= _SHOWN_S)
        for node, (reference, seconds, spread, pairs) in sorted(offsets.items())
    ]
    wrong = {skew.node: round(skew.seconds * NS) for skew in skews if skew.corrected}
    if wrong:
        for row in range(len(case.events)):
            event = case.events[row]
            if event.node in wrong and event.ts != NO_TIME and event.quality != TimeQuality.UPTIME:
                case.events.move(row, ts=event.ts - wrong[event.node])
    notes = [
        f"the clock of {skew.node} is {skew.seconds:+.1f} s off that of {skew.reference} "
        f"({skew.pairs} events both wrote down, \u00b1{skew.spread:.1f} s): its times are corrected"
        for skew in skews
        if skew.corrected
    ]
    return skews, notes[:20]


def _pairs(case: Case, pending: Pending) -> dict[tuple[str, str], list[tuple[float, int]]]:
    """(host, other host) -> (seconds by which the second is ahead, time) of events that both wrote exactly once."""
    found: dict[tuple[str, str], list[tuple[float, int]]] = defaultdict(list)
    for rows in pending.said.values():
        if not 2 <= len(rows) <= 4096:
            continue
        times: dict[str, list[int]] = defaultdict(list)
        for row in rows:
            event = case.events[row]
            if event.node and event.ts != NO_TIME and event.quality >= TimeQuality.PARTIAL:
                times[event.node].append(event.ts)
        once = sorted((node, stamps[0]) for node, stamps in times.items() if len(stamps) == 1)
        # against the first host only: linear in the number of hosts
        for node, ts in once[1:]:
            seconds = (ts - once[0][1]) / NS
            if abs(seconds) <= _FARTHEST_S:
                found[(once[0][0], node)].append((seconds, once[0][1]))
    return found


def _offsets(
    agreed: dict[tuple[str, str], tuple[float, float, int]],
) -> dict[str, tuple[str, float, float, int]]:
    """Node -> (reference, seconds ahead of it, spread, pairs). The reference is the clock that most hosts agree with."""
    star: dict[str, dict[str, tuple[float, float, int]]] = defaultdict(dict)
    for (first, node), value in agreed.items():
        star[first][node] = value
    offsets: dict[str, tuple[str, float, float, int]] = {}
    for first in sorted(star):
        others = star[first]
        values = sorted([0.0, *(seconds for seconds, _, _ in others.values())])
        base = max(values, key=lambda v: (sum(abs(v - w) <= _AGREE_S for w in values), -abs(v)))
        reference = (
            first if abs(base) <= _AGREE_S else min(n for n, v in others.items() if abs(v[0] - base) <= _AGREE_S)
        )
        if reference != first and first not in offsets:
            _, spread, pairs = others[reference]
            offsets[first] = (reference, -base, spread, pairs)
        for node, (seconds, spread, pairs) in others.items():
            if node != reference and node not in offsets:
                offsets[node] = (reference, seconds - (base if reference != first else 0.0), spread, pairs)
    return offsets
