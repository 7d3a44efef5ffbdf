"""Make the times of a case comparable: missing years, stamps that count from boot."""

from __future__ import annotations

import time
from collections import Counter

from aiops.ingest.extract import Pending
from aiops.ingest.prefix import NS, YEARLESS, days_from_civil
from aiops.model.case import Case
from aiops.model.event import NO_TIME, TimeQuality

_DAY = 86_400 * NS


def settle_clocks(case: Case, pending: Pending) -> list[str]:
    """Correct the rows of the event table in place; returns notes on what was assumed."""
    notes: list[str] = []
    year_shift = _year_shift(case, pending, notes)
    for row in pending.yearless:
        event = case.events[row]
        if event.ts != NO_TIME:
            case.events.move(row, ts=_in_year(event.ts, year_shift))
    boots = {node: _boot_time(pairs, year_shift) for node, pairs in pending.boot.items()}
    unknown = 0
    for row, node in pending.uptime:
        boot = boots.get(node or "")
        if boot is None:
            unknown += 1
        else:
            case.events.move(row, ts=case.events[row].ts + boot)
    if unknown:
        notes.append(f"{unknown} kernel lines carry only seconds since boot: their order holds within one host only")
    if pending.zoneless and pending.zoned:
        notes.append("some sources write their time zone and some do not: the latter are read as UTC")
    elif pending.zoneless or pending.yearless:
        notes.append("time stamps carry no zone and are read as UTC")
    return notes


def _year_shift(case: Case, pending: Pending, notes: list[str]) -> int:
    """The year that stamps without one belong to."""
    if not pending.yearless:
        return YEARLESS
    years: Counter[int] = Counter()
    for event in case.events:
        if event.quality == TimeQuality.EXACT and event.ts != NO_TIME:
            years[time.gmtime(event.ts // NS).tm_year] += event.count
    for block in case.series:
        if len(block.times) and int(block.times[-1]) != NO_TIME:
            years[time.gmtime(int(block.times[-1]) // NS).tm_year] += 1
    for job in case.jobs:
        for stamp in (job.started, job.ended):
            if stamp != NO_TIME:
                years[time.gmtime(stamp // NS).tm_year] += 1
    if years:
        return max(years, key=lambda year: (years[year], year))
    newest = max((source.path.stat().st_mtime for source in case.sources if source.path.exists()), default=0.0)
    year = time.gmtime(newest).tm_year
    rows = [case.events[row].ts for row in pending.yearless]
    last = max(_in_year(ts, year) for ts in rows if ts != NO_TIME) if any(ts != NO_TIME for ts in rows) else 0
    if last > newest * NS + _DAY:
        year -= 1
    notes.append(f"no source states the year: {year} is assumed")
    return year


def _in_year(ts: int, year: int) -> int:
    return (
        ts
        + (days_from_civil(year, 1, 1) - days_from_civil(YEARLESS, 1, 1)) * _DAY
        - (
            # 29 February exists in the stand-in year only
            _DAY if not _leap(year) and ts >= _after_february() else 0
        )
    )


def _after_february() -> int:
    return days_from_civil(YEARLESS, 3, 1) * _DAY


def _leap(year: int) -> bool:
    return year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)


def _boot_time(pairs: list[tuple[int, int, bool]], year: int) -> int:
    boots = sorted((_in_year(ts, year) if yearless else ts) - uptime for ts, uptime, yearless in pairs)
    return boots[len(boots) // 2]
