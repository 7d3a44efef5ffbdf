"""Memory that grows with the steps, read from the figures that training loops print."""

from __future__ import annotations

import re
from collections.abc import Sequence

from aiops.detect.evidence import evidence_rows, in_time, inexact, quotes, span
from aiops.model.case import Case
from aiops.model.event import Event, Severity
from aiops.model.finding import Finding, Role

_NUMBER = r"[\"']?[ :=]{1,3}(\d{1,18}(?:\.\d{1,9})?) ?([KMGT]i?B?|%)?"
_HOST = re.compile(
    r"\b(?:rss|host[ _]?mem(?:ory)?|cpu[ _](?:mem(?:ory)?|vm|ram)|ram(?:_used)?|process[ _]mem(?:ory)?|vms)"
    r"(?:[ _](?:used|usage|gb|mb|gib|mib))?" + _NUMBER,
    re.I,
)
_GPU = re.compile(
    r"\b(?:(?:cuda|gpu|device)[ _]?mem(?:ory)?|(?:max[ _])?(?:mem(?:ory)?[ _])?(?:alloc(?:ated)?|reserved)|mem(?:ory)?|vram)"
    r"(?:[ _](?:alloc(?:ated)?|used|usage|gb|mb|gib|mib|reserved))?" + _NUMBER,
    re.I,
)
_HOST_WORDS = ("rss", "mem", "vm", "ram")
_GPU_WORDS = ("mem", "alloc", "reserved", "vram")
"""Each match of the patterns holds one of their words: most progress lines tell of no memory at all."""
_UNIT = {"K": 2.0**-20, "M": 2.0**-10, "G": 1.0, "T": 2.0**10}
FEWEST = 8
"""Values below which no trend is read."""
_GROWTH = 1.25
_LEAST_GIB = 1.0


def memory_growth(case: Case) -> list[Finding]:
    """``metric.rss_growth`` and ``metric.mem_growth`` for ranks whose printed host or GPU memory rises to the end.

    A rise is: nine of ten steps between neighbours do not fall, the last value is 1.25 times the first and 1 GiB above
    it, and the second half rises as well, so that the warm-up of an allocator is none.
    """
    by_rank: dict[tuple[int, int | None], list[Event]] = {}
    for event in evidence_rows(case, "train.progress"):
        by_rank.setdefault((event.source, event.rank), []).append(event)
    findings = []
    for events in by_rank.values():
        events.sort(key=in_time)
        host = _series(_with(events, _HOST_WORDS), _HOST)
        gpu = _series(_with(events, _GPU_WORDS), _GPU, without=_HOST)
        findings += [_finding(case, "metric.rss_growth", "Host memory", host)] if _rises(host) else []
        findings += [_finding(case, "metric.mem_growth", "GPU memory", gpu)] if _rises(gpu) else []
    return findings


def _with(events: Sequence[Event], words: tuple[str, ...]) -> list[Event]:
    found = []
    for event in events:
        lower = event.text.lower()
        if any(word in lower for word in words):
            found.append(event)
    return found


def _series(
    events: Sequence[Event], pattern: re.Pattern[str], without: re.Pattern[str] | None = None
) -> list[tuple[Event, float]]:
    found = []
    for event in events:
        text = without.sub(" ", event.text) if without else event.text
        match = pattern.search(text)
        if match is None:
            continue
        unit = (match[2] or "").upper()
        if unit == "%":
            continue
        scale = _UNIT.get(unit[:1])
        if scale is None:
            named = match[0].lower()
            scale = 2.0**-10 if "mb" in named or "mib" in named else 1.0 if "gb" in named or "gib" in named else None
        if scale is not None:
            found.append((event, float(match[1]) * scale))
    return found


def _rises(series: Sequence[tuple[Event, float]]) -> bool:
    values = [value for _, value in series]
    if len(values) < FEWEST or values[-1] < _GROWTH * values[0] or values[-1] - values[0] < _LEAST_GIB:
        return False
    falls = sum(later < 0.995 * earlier for earlier, later in zip(values, values[1:], strict=False))
    half = values[len(values) // 2]
    return falls * 10 <= len(values) and values[-1] - half > 0.3 * (values[-1] - values[0])


def _finding(case: Case, sign: str, what: str, series: list[tuple[Event, float]]) -> Finding:
    events = [event for event, _ in series]
    first, last = span(events)
    rank = events[0].rank
    place = case.topology.ranks.get(rank) if rank is not None else None
    return Finding(
        sign=sign,
        text=f"{what}{f' of rank {rank}' if rank is not None else ''} grew from {series[0][1]:.1f} to {series[-1][1]:.1f} GiB",
        role=Role.ROOT,
        severity=Severity.WARNING,
        first=first,
        last=last,
        node=place.node if place else events[0].node,
        rank=rank,
        ranks=() if rank is None else (rank,),
        count=len(series),
        fields={"from_gib": round(series[0][1], 2), "to_gib": round(series[-1][1], 2)},
        inexact=inexact(events),
        evidence=quotes(case, [events[0], events[-1]]),
    )
