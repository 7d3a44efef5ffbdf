"""What each rank computed before the values were shared: the one rank that stands out is where a bad value began."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from statistics import median

from aiops.catalog.model import Catalog
from aiops.detect.evidence import evidence_rows, known, quotes
from aiops.detect.signals import finding_of
from aiops.model.case import Case
from aiops.model.event import NO_TIME, Event, Severity
from aiops.model.finding import Finding, Role

_VALUE = re.compile(
    r"\b(?:local|pre[-_]?reduce|own|shard)[_ ](?:grad(?:ient)?[_ ])?(?:norm|loss)[ =:]{1,3}"
    r"(-?(?:\d[\d.]{0,30}(?:[eE][-+]?\d{1,3})?|nan|inf|NaN|Inf))"
)
_STEP = re.compile(r"\b(?:step|iter(?:ation)?)[ =:#]{1,2}(\d{1,12})")
OUTLIER = 5.0
"""A rank's own value above this multiple of its peers' and of its own early ones (FORMULAS 5.12: a jump of 5 times)."""
_OFTEN = 3
_PEERS = 2
_EARLY = 8


@dataclass(frozen=True, slots=True)
class _Local:
    event: Event
    rank: int
    step: int | None
    value: float


def detect(case: Case, catalog: Catalog) -> list[Finding]:
    """``num.local_nonfinite`` (the own value of one rank is not finite while others' are; fields ``step``) and
    ``num.local_outlier`` (it lies far above its peers' again and again; fields ``step`` of the first, ``times``). Both are
    ROOT and of one rank. ``num.nan_check``, a check of the framework that failed, with ``single`` if one node alone failed it.
    """
    return [*_own_values(case), *_checks(case, catalog)]


def _own_values(case: Case) -> list[Finding]:
    values = [value for event in evidence_rows(case, "num.local_value") if (value := _read(event)) is not None]
    tracks: dict[int, list[_Local]] = {}
    for value in values:
        tracks.setdefault(value.rank, []).append(value)
    if len(tracks) < _PEERS + 1:
        return []
    return [*_nonfinite(case, tracks), *_outliers(case, tracks)]


def _checks(case: Case, catalog: Catalog) -> list[Finding]:
    """One finding of the check at the first step that failed it.

    Ranks of one tensor or pipeline group share their activations, so that several of them fail the check together. On one
    node that is still one origin; on several nodes, or on every rank that is known, nothing speaks against a GPU.
    """
    signal, events = catalog.by_id.get("num.nan_check"), evidence_rows(case, "num.nan_check")
    if signal is None or not events:
        return []
    steps = [int(step[1]) if (step := _STEP.search(event.text)) else None for event in events]
    first = min((step for step in steps if step is not None), default=None)
    events = [event for event, step in zip(events, steps, strict=True) if step in (None, first)]
    ranks = {event.rank for event in events if event.rank is not None}
    nodes = {event.node or _node(case, event.rank) for event in events} - {None}
    others = (set(case.topology.ranks) | {source.rank for source in case.sources if source.rank is not None}) - ranks
    single = len(ranks) < 2 or (len(nodes) == 1 and bool(others))
    finding = finding_of(case, signal, events)
    finding.fields = {**finding.fields, "single": single}
    if len(ranks) > 1:
        finding.rank = finding.gpu = finding.pci = finding.uuid = None
        finding.text = f"A check found non-finite values on {len(ranks)} ranks before the values were shared"
    if not single:
        finding.node = None
    return [finding]


def _node(case: Case, rank: int | None) -> str | None:
    place = case.topology.ranks.get(rank) if rank is not None else None
    return place.node if place else None


def _read(event: Event) -> _Local | None:
    number, step = _VALUE.search(event.text), _STEP.search(event.text)
    if number is None or event.rank is None:
        return None
    try:
        return _Local(event, event.rank, int(step[1]) if step else None, float(number[1]))
    except ValueError:
        return None


def _nonfinite(case: Case, tracks: dict[int, list[_Local]]) -> list[Finding]:
    bad = {rank: next((v for v in track if not math.isfinite(v.value)), None) for rank, track in tracks.items()}
    hit = [value for value in bad.values() if value is not None]
    if len(hit) != 1:
        return []
    return [_finding(case, "num.local_nonfinite", hit, "is not finite, while the other ranks' are", Severity.ERROR)]


def _outliers(case: Case, tracks: dict[int, list[_Local]]) -> list[Finding]:
    odd: dict[int, list[_Local]] = {}
    for rank, track in tracks.items():
        finite = [v for v in track if math.isfinite(v.value)]
        peers = [abs(v.value) for other, t in tracks.items() if other != rank for v in t if math.isfinite(v.value)]
        if len(finite) < _EARLY or len(peers) < _EARLY:
            continue
        usual = max(median(abs(v.value) for v in finite[:_EARLY]), median(peers), max(peers) / OUTLIER)
        high = [v for v in finite if abs(v.value) > OUTLIER * usual]
        if usual > 0 and len(high) >= _OFTEN:
            odd[rank] = high
    if len(odd) != 1:
        return []
    (high,) = odd.values()
    text = f"lies far above all others' in {len(high)} steps"
    return [_finding(case, "num.local_outlier", high, text, Severity.WARNING)]


def _finding(case: Case, sign: str, values: list[_Local], text: str, severity: Severity) -> Finding:
    head = values[0]
    place = case.topology.ranks.get(head.rank)
    times = [v.event.ts for v in values if known(v.event)]
    step = f" from step {head.step} on" if head.step is not None and len(values) > 1 else ""
    at = f" at step {head.step}" if head.step is not None and len(values) == 1 else ""
    return Finding(
        sign=sign,
        text=f"The own gradient of rank {head.rank} {text}{step}{at}",
        role=Role.ROOT,
        severity=severity,
        first=min(times, default=NO_TIME),
        last=max(times, default=NO_TIME),
        node=place.node if place else None,
        gpu=place.gpu if place else None,
        pci=place.pci if place else None,
        uuid=place.uuid if place else None,
        rank=head.rank,
        ranks=(head.rank,),
        count=len(values),
        fields={"step": head.step, "times": len(values)},
        evidence=quotes(case, [v.event for v in values]),
    )
