"""Ranks that are slower than their peers, from the times that every rank logs for its own work."""

from __future__ import annotations

import functools
import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from statistics import mean, median

from aiops.catalog.model import Catalog
from aiops.detect.evidence import evidence_rows, quotes, span
from aiops.detect.progress import progress_points
from aiops.model.case import Case
from aiops.model.event import Event, Severity
from aiops.model.finding import Finding, Role

SLOWER = 1.4
"""A rank whose own work takes this multiple of its peers' median is a straggler (MegaScale counts from 1.1 on;
wall-clock parts of single steps scatter more)."""
MOSTLY = 0.6
"""Share of steps in which the same rank must be the slowest."""
_ENOUGH_STEPS = 4
_RECENT = 24
"""Last steps of each rank that are compared on their own: a rank may become slow late in a long run."""
_PART = re.compile(r"([A-Za-z][A-Za-z_+/-]{1,30}(?: [a-z]{2,12})?)[ =:]{1,3}(\d{1,9}(?:\.\d{1,9})?) ?(ms|us|sec|s)\b")
_OWN = re.compile(
    r"^(?:.*[ _-])?(?:data|dataload\w*|load\w*|fetch\w*|io|input|forward|fwd|compute|optimi\w+|kernel\w*)", re.I
)
_WAIT = re.compile(r"reduce|gather|comm|barrier|sync|wait|collective|bcast|broadcast|recv|send", re.I)
_DATA = re.compile(r"data|load|fetch|io\b|input", re.I)
_STEP = re.compile(r"(?:step|iter(?:ation)?|it)[ =:#\]]{1,3}(\d{1,9})", re.I)
_STAGE = re.compile(r"(?:pipeline|pp)[ _-]?(?:stage|rank)?[ =:]{1,3}(\d{1,5})|\bstage[ =:]{1,3}(\d{1,5})", re.I)
_UNIT = {"us": 1e-6, "ms": 1e-3, "s": 1.0, "sec": 1.0}


@dataclass(frozen=True, slots=True)
class Sample:
    """What one rank spent in one step on work of its own; seconds."""

    rank: int
    step: int
    own: float
    data: float
    wait: float
    stage: int | None
    event: Event


def detect(case: Case, catalog: Catalog) -> list[Finding]:
    """``train.slow_one`` (one rank, or the ranks of one node, steadily slower; fields ``ratio``, ``part``),
    ``train.slow_stage`` (all ranks of one pipeline stage) and ``train.random_stragglers`` (another rank in each step);
    all ROOT. Nothing if fewer than two ranks log their own times."""
    found = _told(case)
    samples = _samples(case)
    by_rank: dict[int, list[Sample]] = {}
    for sample in samples:
        by_rank.setdefault(sample.rank, []).append(sample)
    by_rank = {rank: own for rank, own in by_rank.items() if len(own) >= _ENOUGH_STEPS}
    if len(by_rank) < 3:
        return found
    slow = _slow_ranks(by_rank)
    if not slow:
        late = {rank: sorted(own, key=lambda sample: sample.step)[-_RECENT:] for rank, own in by_rank.items()}
        slow = _slow_ranks(late)
        by_rank = late if slow else by_rank
    if not slow:
        awaited = _awaited(by_rank)
        if awaited is not None:
            return [*found, _waited_for(case, by_rank, awaited)]
        changing = _changing(by_rank)
        return [*found, *([_random(case, changing)] if changing else [])]
    stages = {own[0].stage for rank, own in by_rank.items() if rank in slow}
    whole = {rank for rank, own in by_rank.items() if own[0].stage in stages}
    if len(slow) > 1 and None not in stages and len(stages) == 1 and whole == set(slow):
        return [*found, _stage(case, by_rank, slow, next(iter(stages)))]
    if len(slow) * 2 > len(by_rank):
        return found
    return [*found, _one(case, by_rank, slow)]


@functools.lru_cache(maxsize=4096)
def _part(name: str) -> str:
    """What a named part of a step is: ``wait`` for others, ``data`` or ``work`` of its own, or something else."""
    if _WAIT.search(name):
        return "wait"
    if not _OWN.match(name):
        return "other"
    return "data" if _DATA.search(name) else "work"


def _samples(case: Case) -> list[Sample]:
    found: dict[tuple[int, int], Sample] = {}
    for event in evidence_rows(case, "train.timing"):
        step = _STEP.search(event.text)
        if event.rank is None or step is None:
            continue
        own = data = wait = 0.0
        for name, value, unit in _PART.findall(event.text):
            part = _part(name)
            if part == "other":
                continue
            seconds = float(value) * _UNIT[unit]
            if part == "wait":
                wait += seconds
                continue
            own += seconds
            data += seconds if part == "data" else 0.0
        if own > 0:
            number = _stage_of(event.text)
            found.setdefault(
                (event.rank, int(step[1])), Sample(event.rank, int(step[1]), own, data, wait, number, event)
            )
    if len({sample.rank for sample in found.values()}) > 2:
        return list(found.values())
    # without parts: a step time that differs between ranks is each rank's own
    for point in progress_points(case):
        if point.event.rank is not None and point.step is not None and point.step_time:
            number = _stage_of(point.event.text)
            sample = Sample(point.event.rank, point.step, point.step_time, 0.0, 0.0, number, point.event)
            found.setdefault((point.event.rank, point.step), sample)
    return list(found.values())


def _stage_of(text: str) -> int | None:
    """The pipeline stage that a line names."""
    lower = text.lower()
    if "stage" not in lower and "pipeline" not in lower and "pp" not in lower:
        return None
    stage = _STAGE.search(text)
    return int(stage[1] or stage[2]) if stage else None


def _slow_ranks(by_rank: dict[int, list[Sample]]) -> dict[int, float]:
    """Ranks whose own work is steadily longer than the median of the others, with their ratio."""
    level = {rank: mean(sample.own for sample in own) for rank, own in by_rank.items()}
    middle = median(level.values())
    slow: dict[int, float] = {}
    for rank, value in level.items():
        if value < SLOWER * middle or value - middle < 0.002:
            continue
        steps = {sample.step: sample.own for sample in by_rank[rank]}
        peers: dict[int, list[float]] = {}
        for other, own in by_rank.items():
            if other != rank and level[other] < SLOWER * middle:
                for sample in own:
                    peers.setdefault(sample.step, []).append(sample.own)
        common = [step for step in steps if step in peers]
        behind = [step for step in common if steps[step] > 1.15 * median(peers[step])]
        if len(common) >= _ENOUGH_STEPS and len(behind) >= MOSTLY * len(common):
            slow[rank] = value / middle
    return slow


def _awaited(by_rank: dict[int, list[Sample]]) -> int | None:
    """The one rank that steadily waits least while all others wait long: they wait for it, whatever it is busy with."""
    if any(own[0].stage is not None for own in by_rank.values()):
        return None
    waits = {rank: mean(sample.wait for sample in own) for rank, own in by_rank.items()}
    least = min(waits, key=lambda rank: (waits[rank], rank))
    peers = {rank: own for rank, own in by_rank.items() if rank != least}
    steps: dict[int, list[Sample]] = {}
    for own in peers.values():
        for sample in own:
            steps.setdefault(sample.step, []).append(sample)
    common = [sample for sample in by_rank[least] if sample.step in steps]
    alone = [
        sample
        for sample in common
        if (shortest := min(other.wait for other in steps[sample.step])) > 2 * sample.wait
        and shortest - sample.wait > max(0.03, 0.5 * median(other.own for other in steps[sample.step]))
    ]
    return least if len(common) >= _ENOUGH_STEPS and len(alone) >= MOSTLY * len(common) else None


def _waited_for(case: Case, by_rank: dict[int, list[Sample]], rank: int) -> Finding:
    place = case.topology.ranks.get(rank)
    own = mean(sample.wait for sample in by_rank[rank])
    peers = median(mean(sample.wait for sample in other) for number, other in by_rank.items() if number != rank)
    return _finding(
        case,
        "train.slow_one",
        f"All others wait {peers:.3g} s per step in collectives, rank {rank} only {own:.3g} s: they wait for it",
        [by_rank[rank][-1].event, *(other[-1].event for number, other in sorted(by_rank.items()) if number != rank)],
        rank=rank,
        ranks=(rank,),
        node=place.node if place else by_rank[rank][0].event.node,
        gpu=place.gpu if place else None,
        fields={"part": "other", "wait_s": own, "peers_wait_s": peers},
    )


def _changing(by_rank: dict[int, list[Sample]]) -> list[Sample]:
    """The slowest sample of each step, if it is far behind and seldom from the same rank."""
    steps: dict[int, list[Sample]] = {}
    for own in by_rank.values():
        for sample in own:
            steps.setdefault(sample.step, []).append(sample)
    full = [group for group in steps.values() if len(group) == len(by_rank)]
    worst = [max(group, key=lambda sample: sample.own) for group in full]
    far = [
        top
        for top, group in zip(worst, full, strict=True)
        if top.own > 1.5 * median(sample.own for sample in group) and top.own > 0.05
    ]
    if len(full) < 6 or len(far) < MOSTLY * len(full):
        return []
    _, most = Counter(sample.rank for sample in far).most_common(1)[0]
    return far if most <= len(far) / 2 else []


def _one(case: Case, by_rank: dict[int, list[Sample]], slow: dict[int, float]) -> Finding:
    worst = max(slow, key=lambda rank: (slow[rank], -rank))
    own = by_rank[worst]
    data = mean(sample.data for sample in own)
    peers = median(mean(sample.data for sample in other) for rank, other in by_rank.items() if rank not in slow)
    extra = mean(sample.own for sample in own) * (1 - 1 / slow[worst])
    part = "data" if data - peers > extra / 2 else "compute"
    place = case.topology.ranks.get(worst)
    who = f"Rank {worst}" if len(slow) == 1 else f"Ranks {', '.join(str(rank) for rank in sorted(slow)[:8])}"
    what = "loading data" if part == "data" else "its own work"
    return _finding(
        case,
        "train.slow_one",
        f"{who} needs {slow[worst]:.1f} times as long as the others for {what}",
        [sample.event for rank in sorted(slow) for sample in own[:1] + by_rank[rank][-1:]],
        rank=worst,
        ranks=tuple(sorted(slow)),
        node=place.node if place else own[0].event.node,
        gpu=place.gpu if place else None,
        fields={"ratio": round(slow[worst], 2), "part": part},
    )


def _stage(case: Case, by_rank: dict[int, list[Sample]], slow: dict[int, float], stage: int | None) -> Finding:
    ratio = max(slow.values())
    return _finding(
        case,
        "train.slow_stage",
        f"All {len(slow)} ranks of pipeline stage {stage} need up to {ratio:.1f} times as long as the others",
        [by_rank[rank][-1].event for rank in sorted(slow)],
        ranks=tuple(sorted(slow)),
        fields={"stage": stage, "ratio": round(ratio, 2)},
    )


def _random(case: Case, worst: list[Sample]) -> Finding:
    return _finding(
        case,
        "train.random_stragglers",
        "In most steps one rank takes far longer than the others, and it is seldom the same one",
        [sample.event for sample in worst],
        ranks=tuple(sorted({sample.rank for sample in worst})),
        fields={"all_ranks": True},
    )


def _told(case: Case) -> list[Finding]:
    """Stragglers that the framework itself reports more than once, or by a measured score."""
    events = [event for event in evidence_rows(case, "train.straggler", "train.slow_one") if _number(event) is not None]
    counts = Counter(_number(event) for event in events)
    findings = []
    if counts:
        rank, count = counts.most_common(1)[0]
        if rank is not None and count >= 2 and count * 2 > sum(counts.values()):
            place = case.topology.ranks.get(rank)
            findings.append(
                _finding(
                    case,
                    "train.slow_one",
                    f"The framework reports rank {rank} as the slowest ({count} times)",
                    [event for event in events if _number(event) == rank],
                    rank=rank,
                    ranks=(rank,),
                    node=place.node if place else None,
                    fields={"part": "compute"},
                )
            )
    for sign, text in (
        ("train.slow_stage", "The profiler names a pipeline stage as the bottleneck"),
        ("train.random_stragglers", "The profiler reports another slowest rank in each step"),
    ):
        told = evidence_rows(case, sign)
        if told:
            findings.append(_finding(case, sign, text, told))
    return findings


def _number(event: Event) -> int | None:
    value = str(event.fields.get("rank", ""))
    return int(value) if value.isdigit() and len(value) < 8 else None


def _finding(
    case: Case,
    sign: str,
    text: str,
    events: Iterable[Event],
    *,
    rank: int | None = None,
    ranks: tuple[int, ...] = (),
    node: str | None = None,
    gpu: int | None = None,
    fields: dict[str, object] | None = None,
) -> Finding:
    rows = list({event.index: event for event in events}.values())
    first, last = span(rows)
    return Finding(
        sign=sign,
        text=text,
        role=Role.ROOT,
        severity=Severity.WARNING,
        first=first,
        last=last,
        node=node,
        rank=rank,
        ranks=ranks,
        gpu=gpu,
        count=len(rows),
        fields=fields or {},
        evidence=quotes(case, rows),
    )
