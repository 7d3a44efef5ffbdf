"""What an incident cost, only as far as the evidence tells."""

from __future__ import annotations

from aiops.config import Settings
from aiops.correlate.model import IncidentDraft
from aiops.model import report as r
from aiops.model.case import Case
from aiops.model.clock import iso
from aiops.model.event import NO_TIME
from aiops.model.finding import Role
from aiops.recommend.plan import Plan

_HOUR_NS = 3_600 * 1_000_000_000


def build_impact(case: Case, draft: IncidentDraft, plan: Plan, settings: Settings) -> r.Impact:
    """GPU-hours lost, and when it began, was noticed by the job and ended.

    A job that died loses its GPUs from the checkpoint it goes back to until its end (FORMULAS 5.4: rollback and stall; scheduling and
    loading are not in the evidence). A job that only runs slowly loses the share of the slow time that the slowdown takes.
    """
    gpus = draft.scope.gpus or case.topology.world_size
    timed = any(f.first != NO_TIME and not f.inexact for f in draft.best.causes)
    started = draft.best.began if timed else NO_TIME
    ended = _end(case, draft)
    if ended != NO_TIME and started != NO_TIME and ended < started:
        ended = NO_TIME
    noticed = min(
        (
            f.first
            for f in draft.findings
            if f.role == Role.ECHO
            # a curve or a recording shows it to those who look; nobody is told
            and not f.sign.startswith("metric.")
            and "timed_out" not in f.fields
            and f.first != NO_TIME
            and not f.inexact
            and f.first >= started
        ),
        default=NO_TIME,
    )
    lost = None
    if gpus:
        hours = _slow_hours(draft) if not draft.best.failure.explains_death else _lost_hours(plan, ended)
        lost = round(gpus * hours, 2) if hours is not None else None
    price = settings.gpu_hour_price
    cost = round(lost * price, 2) if lost is not None and price is not None else None
    return r.Impact(
        gpus=gpus,
        gpu_hours_lost=lost,
        cost=cost,
        started=iso(started),
        detected=iso(noticed) if started != NO_TIME else None,
        ended=iso(ended),
    )


def _end(case: Case, draft: IncidentDraft) -> int:
    """The scheduler's end of the job, else its last sign of life after the failure."""
    wanted = draft.scope.job
    ends = [j.ended for j in case.jobs if wanted in (j.id, j.fields.get("gang")) and j.ended != NO_TIME]
    if ends and max(ends) >= draft.best.began:
        return max(ends)
    return max((f.last for f in draft.findings if f.role == Role.ECHO and f.last != NO_TIME), default=NO_TIME)


def _lost_hours(plan: Plan, ended: int) -> float | None:
    """Hours between the checkpoint that is restored and the end of the job; ``None`` if either is unknown."""
    point = plan.checkpoint.checkpoint
    if ended == NO_TIME or point is None or point.saved_at == NO_TIME or ended < point.saved_at:
        return None
    return (ended - point.saved_at) / _HOUR_NS


def _slow_hours(draft: IncidentDraft) -> float | None:
    """Hours of full speed that a slowdown took, from the step times before and during it."""
    for finding in draft.findings:
        base, level = finding.fields.get("base_s"), finding.fields.get("level_s")
        timed = finding.first != NO_TIME and finding.last > finding.first
        if (
            finding.sign == "train.slow"
            and isinstance(base, float)
            and isinstance(level, float)
            and level > base
            and timed
        ):
            return (finding.last - finding.first) / _HOUR_NS * (1 - base / level)
    return None
