"""How far apart two events must be before one of them is the earlier one."""

from __future__ import annotations

from collections.abc import Callable

from aiops.ingest.facts import facts_of
from aiops.model.case import Case
from aiops.model.finding import Finding

UNMEASURED_S = 1.0
"""Between hosts whose clocks were not compared: syslog stamps are whole seconds, and hosts that keep time are closer than that."""

Apart = Callable[[Finding, Finding], float]


def clock_uncertainty(case: Case) -> Apart:
    """A function of two findings: the seconds by which their times may be wrong against each other.

    Nothing on one host; between hosts the spread of the events that both wrote down (`ingest.skew`), else `UNMEASURED_S`.
    """
    spread: dict[str, float] = {}
    for skew in facts_of(case).skews:
        for node in (skew.node, skew.reference):
            spread[node] = max(spread.get(node, 0.0), skew.spread)

    def apart(one: Finding, other: Finding) -> float:
        if one.node == other.node and one.node is not None:
            return 0.0
        return max(spread.get(one.node or "", UNMEASURED_S), spread.get(other.node or "", UNMEASURED_S))

    return apart
