"""Numerical health of the training: non-finite values, spikes, explosions, loss scale, slow-down."""

from __future__ import annotations

import math
import re
from statistics import median

import numpy as np

from aiops.catalog.model import Catalog
from aiops.detect.evidence import evidence_rows, known, quote
from aiops.detect.progress import Point, progress_points
from aiops.model.case import Case
from aiops.model.event import NO_TIME, Severity
from aiops.model.finding import EvidenceRef, Finding, Role

_REDUCED = re.compile(
    r"(?:reducing (?:loss scale )?to|setting loss scale to:?) (\d{1,18}(?:\.\d{1,30})?(?:e[-+]?\d{1,3})?)"
)
SPIKE = 1.4
"""Loss above this multiple of the window's median is a spike (FORMULAS 5.12)."""
GRADIENT_JUMP = 1000.0
"""Gradient norm above this multiple of its early median is an explosion (taxonomy ``num.grad_explosion``)."""
LOSS_JUMP = 5.0
"""Loss above this multiple of its early median is an explosion (FORMULAS 5.12, ByteRobust)."""
_SHORTEST, _WINDOW = 8, 32
"""Values before a loss that its level is taken from, at least and at most."""
SLOW = 1.5
"""Step time above this multiple of its early median, held for a while, is a slow-down (SCHEDULERS 5.8)."""


def detect(case: Case, catalog: Catalog) -> list[Finding]:
    """``num.nonfinite``, ``num.grad_jump``, ``num.loss_jump``, ``num.loss_spike``, ``num.scale_low``, ``train.slow``
    (ROOT) and ``train.progress`` (CONTEXT; fields ``first_step``, ``last_step``, ``total``, ``last_loss``)."""
    tracks: dict[tuple[int, int | None], list[Point]] = {}
    for point in progress_points(case):
        tracks.setdefault((point.event.source, point.event.rank), []).append(point)
    if not tracks:
        return _skipped_scale(case)
    for points in tracks.values():
        points.sort(key=lambda p: p.event.line)
    return [
        *_nonfinite(case, tracks),
        *_jumps(case, tracks),
        *(_scale(case, tracks) or _skipped_scale(case)),
        *_slow(case, tracks),
        *_progress(case, tracks),
    ]


def _ranks(keys: list[tuple[int, int | None]]) -> tuple[int, ...]:
    return tuple(sorted({rank for _, rank in keys if rank is not None}))


def _nonfinite(case: Case, tracks: dict[tuple[int, int | None], list[Point]]) -> list[Finding]:
    bad: dict[tuple[int, int | None], Point] = {}
    for key, points in tracks.items():
        for point in points:
            if _is_bad(point):
                bad[key] = point
                break
    if not bad:
        return []
    head = min(bad.values(), key=lambda p: (p.ts == NO_TIME, p.ts, p.event.source, p.event.line))
    ranks = _ranks(list(bad))
    all_ranks = _ranks(list(tracks))
    before = _last_finite(tracks, head)
    what = "loss" if head.loss is not None and not math.isfinite(head.loss) else "gradient norm"
    refs = [quote(case, before.event)] if before is not None else []
    step = f" at step {head.step}" if head.step is not None else ""
    # training goes on with such values: what it prints later is no sign of health
    last = max((p.ts for p in tracks[(head.event.source, head.event.rank)] if _is_bad(p)), default=head.ts)
    single = len(ranks) == 1 and len(all_ranks) > 1
    return [
        Finding(
            sign="num.nonfinite",
            text=f"The {what} is not finite{step}" + (f" on rank {ranks[0]} only" if single else ""),
            role=Role.ROOT,
            severity=Severity.ERROR,
            first=head.ts,
            last=max(last, head.ts),
            rank=ranks[0] if single else None,
            ranks=ranks,
            node=head.event.node,
            count=len(bad),
            fields={
                "step": head.step,
                "what": what,
                "single": single,
                "lasting": _lasting(tracks[(head.event.source, head.event.rank)], what),
                "from_start": before is None,
                "last_finite_step": before.step if before else None,
            },
            evidence=[*refs, quote(case, head.event)],
        )
    ]


def _is_bad(point: Point) -> bool:
    values = (point.loss, point.grad_norm)
    return any(v is not None and not math.isfinite(v) for v in values) or (point.nans or 0) > 0


def _lasting(points: list[Point], what: str) -> bool:
    """True if the value is still not finite where the log ends."""
    values = [v for p in points if (v := p.loss if what == "loss" else p.grad_norm) is not None]
    return bool(values) and not math.isfinite(values[-1])


def _last_finite(tracks: dict[tuple[int, int | None], list[Point]], head: Point) -> Point | None:
    points = tracks[(head.event.source, head.event.rank)]
    earlier = [p for p in points if p.event.line < head.event.line]
    return earlier[-1] if earlier else None


def _jumps(case: Case, tracks: dict[tuple[int, int | None], list[Point]]) -> list[Finding]:
    findings = []
    for key, points in sorted(tracks.items(), key=lambda item: (item[0][1] is None, item[0][1] or 0, item[0][0])):
        found = _track_jumps(case, key[1], points)
        if found:
            findings += found
            break  # data parallel ranks log the same global value; one track tells the story
    return findings


def _track_jumps(case: Case, rank: int | None, points: list[Point]) -> list[Finding]:
    losses = [p for p in points if p.loss is not None and math.isfinite(p.loss)]
    norms = [p for p in points if p.grad_norm is not None and math.isfinite(p.grad_norm)]
    found = []
    if len(losses) >= 6:
        base = median(abs(p.loss or 0.0) for p in losses[: max(3, len(losses) // 10)])
        top = max(losses, key=lambda p: p.loss or 0.0)
        if base > 0 and (top.loss or 0.0) > LOSS_JUMP * max(base, 1e-6) and (top.loss or 0) - base > 1.0:
            first = next(p for p in losses if (p.loss or 0.0) > LOSS_JUMP * base)
            found.append(
                _jump(
                    case,
                    "num.loss_jump",
                    f"The loss rises from {base:.4g} to {top.loss:.4g}",
                    first,
                    top,
                    rank,
                    {"base": base, "top": top.loss, "step": first.step},
                )
            )
        else:
            found += _spike(case, rank, losses)
    if len(norms) >= 6:
        base = median(p.grad_norm or 0.0 for p in norms[: max(3, len(norms) // 10)])
        top = max(norms, key=lambda p: p.grad_norm or 0.0)
        if base > 0 and (top.grad_norm or 0.0) > GRADIENT_JUMP * base:
            first = next(p for p in norms if (p.grad_norm or 0.0) > GRADIENT_JUMP * base)
            found.append(
                _jump(
                    case,
                    "num.grad_jump",
                    f"The gradient norm rises from {base:.4g} to {top.grad_norm:.4g}",
                    first,
                    top,
                    rank,
                    {"base": base, "top": top.grad_norm, "step": first.step},
                )
            )
    return found


def _spike(case: Case, rank: int | None, losses: list[Point]) -> list[Finding]:
    """A local maximum far above the window before it, more than the usual scatter."""
    best: tuple[float, Point, float] | None = None
    values = [p.loss or 0.0 for p in losses]
    for i, middle in enumerate(_levels(values), _SHORTEST):
        value = values[i]
        if not (middle > 0 and value > SPIKE * middle):
            continue
        scatter = median(abs(v - middle) for v in values[max(0, i - _WINDOW) : i]) * 1.4826
        if value - middle > 6 * max(scatter, 0.01 * middle):
            ratio = value / middle
            if best is None or ratio > best[0]:
                best = (ratio, losses[i], middle)
    if best is None:
        return []
    ratio, point, middle = best
    after = [p.loss or 0.0 for p in losses if p.event.line > point.event.line][:40]
    recovered = bool(after) and min(after) < SPIKE * middle
    return [
        _jump(
            case,
            "num.loss_spike",
            f"The loss jumps to {point.loss:.4g}, {ratio:.1f} times its level"
            + (", and recovers" if recovered else ""),
            point,
            point,
            rank,
            {"base": middle, "top": point.loss, "step": point.step, "recovered": recovered},
        )
    ]


def _levels(values: list[float]) -> list[float]:
    """Median of up to `_WINDOW` values before each one, from the one with number `_SHORTEST` on."""
    levels = [median(values[:i]) for i in range(_SHORTEST, min(_WINDOW, len(values)))]
    if len(values) > _WINDOW:
        windows = np.lib.stride_tricks.sliding_window_view(np.array(values[:-1]), _WINDOW)
        levels += np.median(windows, axis=1).tolist()
    return levels


def _jump(
    case: Case, sign: str, text: str, first: Point, top: Point, rank: int | None, fields: dict[str, object]
) -> Finding:
    refs: list[EvidenceRef] = [quote(case, first.event)]
    if top is not first:
        refs.append(quote(case, top.event))
    step = f" at step {first.step}" if first.step is not None else ""
    return Finding(
        sign=sign,
        text=text + step,
        role=Role.ROOT,
        severity=Severity.ERROR,
        first=first.ts,
        last=top.ts,
        ranks=() if rank is None else (rank,),
        fields=fields,
        evidence=refs,
    )


def _scale(case: Case, tracks: dict[tuple[int, int | None], list[Point]]) -> list[Finding]:
    for (_, _rank), points in sorted(tracks.items(), key=lambda item: (item[0][1] or 0, item[0][0])):
        scales = [p for p in points if p.scale is not None and math.isfinite(p.scale)]
        if len(scales) < 4:
            continue
        top = max(p.scale or 0.0 for p in scales)
        last = scales[-1]
        if top >= 1024 and (last.scale or 0.0) <= 1.0:
            return [
                Finding(
                    sign="num.scale_low",
                    text=f"The loss scale falls from {top:g} to {last.scale:g}",
                    role=Role.ROOT,
                    severity=Severity.WARNING,
                    first=last.ts,
                    last=last.ts,
                    fields={"top": top, "last": last.scale},
                    evidence=[quote(case, scales[0].event), quote(case, last.event)],
                )
            ]
    return []


def _skipped_scale(case: Case) -> list[Finding]:
    """The scale as the messages about skipped steps tell it."""
    told = [
        (event, float(match[1]))
        for event in evidence_rows(case, "num.overflow_skip")
        if (match := _REDUCED.search(event.text))
    ]
    if len(told) < 5 or told[-1][1] > 1.0 or told[0][1] < 4 * told[-1][1]:
        return []
    event, last = told[-1]
    return [
        Finding(
            sign="num.scale_low",
            text=f"{len(told)} steps were skipped and the loss scale fell from {told[0][1]:g} to {last:g}",
            role=Role.ROOT,
            severity=Severity.WARNING,
            first=event.ts if known(event) else NO_TIME,
            last=event.ts if known(event) else NO_TIME,
            count=len(told),
            fields={"top": told[0][1], "last": last},
            evidence=[quote(case, told[0][0]), quote(case, event)],
        )
    ]


def _slow(case: Case, tracks: dict[tuple[int, int | None], list[Point]]) -> list[Finding]:
    for (_, _rank), points in sorted(tracks.items(), key=lambda item: (item[0][1] or 0, item[0][0])):
        timed = [p for p in points[1:] if p.step_time and math.isfinite(p.step_time)]
        if len(timed) < 12:
            continue
        base = median(p.step_time or 0.0 for p in timed[: max(4, len(timed) // 5)])
        tail = timed[-max(4, len(timed) // 6) :]
        level = median(p.step_time or 0.0 for p in tail)
        if base <= 0 or level <= SLOW * base:
            continue
        first = next(
            p
            for i, p in enumerate(timed)
            if median(q.step_time or 0.0 for q in timed[i : i + 4]) > (1 + (SLOW - 1) / 2) * base
        )
        return [
            Finding(
                sign="train.slow",
                text=f"A step takes {level:.3g} s instead of {base:.3g} s"
                + (f" from step {first.step} on" if first.step is not None else ""),
                role=Role.ROOT,
                severity=Severity.WARNING,
                first=first.ts,
                last=tail[-1].ts,
                fields={"base_s": base, "level_s": level, "step": first.step, "ratio": level / base},
                evidence=[quote(case, timed[0].event), quote(case, first.event), quote(case, tail[-1].event)],
            )
        ]
    return []


def _progress(case: Case, tracks: dict[tuple[int, int | None], list[Point]]) -> list[Finding]:
    points = [p for track in tracks.values() for p in track if p.step is not None]
    if not points:
        return []
    last = max(points, key=lambda p: (p.ts != NO_TIME, p.ts, p.step or 0))
    first = min(points, key=lambda p: (p.ts == NO_TIME, p.ts, p.step or 0))
    total = max((p.total or 0 for p in points), default=0)
    return [
        Finding(
            sign="train.progress",
            text=f"Training ran from step {first.step} to step {last.step}" + (f" of {total}" if total else ""),
            role=Role.CONTEXT,
            severity=Severity.INFO,
            first=first.ts,
            last=last.ts,
            ranks=_ranks(list(tracks)),
            count=sum(p.event.count for p in points),
            fields={
                "first_step": first.step,
                "last_step": last.step,
                "total": total or None,
                "last_loss": last.loss,
                "step_time": last.step_time,
            },
            evidence=[quote(case, last.event)],
        )
    ]
