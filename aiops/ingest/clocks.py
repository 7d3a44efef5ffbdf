"""Make the times of a case comparable: missing years, zones, stamps that count from boot, clocks that are off."""

from __future__ import annotations

import time
from collections import defaultdict
from datetime import UTC, datetime, tzinfo
from statistics import median_low

from aiops.ingest.extract import Pending
from aiops.ingest.facts import Facts, facts_of
from aiops.ingest.prefix import NS, YEARLESS, days_from_civil
from aiops.ingest.skew import settle_skew
from aiops.model.case import Case
from aiops.model.event import NO_TIME, TimeQuality

_DAY = 86_400 * NS
_SAME_BOOT = 120 * NS
_RESTARTED = 5 * NS
_JUMP = 120 * NS
"""A clock that goes back by more than this between two lines of one writer has been set."""


def settle_clocks(case: Case, pending: Pending) -> list[str]:
    """Correct the rows of the event table in place; returns notes on what was assumed."""
    facts = facts_of(case)
    notes: list[str] = []
    future = _future(case, notes)
    reference = _settle_years(case, pending, facts, notes, future)
    _settle_zones(case, pending, facts)
    _settle_uptimes(case, pending, facts, notes, reference)
    facts.skews, found = settle_skew(case, pending)
    notes += found
    _jumps(case, notes)
    if pending.zoneless and pending.zoned:
        notes.append("some sources write their time zone and some do not: the latter are read as UTC")
    elif (pending.zoneless or pending.yearless) and not pending.local:
        notes.append("time stamps carry no zone and are read as UTC")
    return notes


def _future(case: Case, notes: list[str]) -> int:
    """The first moment that cannot be past yet, UTC ns; lines beyond it are told of.

    Where most of a case lies beyond this machine's clock, the machine is wrong and not the case.
    """
    exact = [e.ts for e in case.events if e.quality == TimeQuality.EXACT and e.ts != NO_TIME]
    limit = max(time.time_ns(), median_low(exact) if exact else 0) + _DAY
    beyond: dict[int, list[int]] = defaultdict(list)
    for event in case.events:
        if event.quality == TimeQuality.EXACT and event.ts > limit:
            beyond[event.source].append(event.line)
    for source in sorted(beyond, key=lambda index: case.sources[index].name)[:10]:
        lines = beyond[source]
        notes.append(
            f"{case.sources[source].name}: {len(lines)} lines are stamped in the future (the first is line {min(lines)}): "
            "that clock is wrong"
        )
    return limit


def _settle_years(case: Case, pending: Pending, facts: Facts, notes: list[str], future: int) -> int:
    """Give each stamp without a year the one that brings it nearest to the rest of the case; returns that moment."""
    stated = facts.declared.year
    reference = _anchor(case, future) if stated is None else NO_TIME
    if not pending.yearless:
        return reference
    assumed = stated is None and reference == NO_TIME
    newest = 0
    if assumed:
        newest = max((source.path.stat().st_mtime_ns for source in case.sources if source.path.exists()), default=0)
        newest = min(newest, future)
    last = 0
    for row in pending.yearless:
        event = case.events[row]
        if event.ts == NO_TIME:
            continue
        if stated is not None:
            ts = in_year(event.ts, stated)
        elif assumed:
            ts = _before(event.ts, newest + _DAY)
        else:
            ts = nearest_year(event.ts, reference, future)
        last = max(last, ts)
        case.events.move(row, ts=ts)
    if assumed and last:
        notes.append(f"no source states the year: {time.gmtime(last // NS).tm_year} is assumed")
        reference = last
    return reference if reference != NO_TIME else last or NO_TIME


def _anchor(case: Case, future: int) -> int:
    """The middle of the times whose year is known; those in the future are not trusted."""
    times = [e.ts for e in case.events if e.quality == TimeQuality.EXACT and e.ts != NO_TIME]
    times += [int(block.times[-1]) for block in case.series if len(block.times) and int(block.times[-1]) != NO_TIME]
    times += [stamp for job in case.jobs for stamp in (job.started, job.ended) if stamp != NO_TIME]
    past = [ts for ts in times if 0 < ts < future]
    return median_low(past) if past else NO_TIME


def nearest_year(ts: int, reference: int, future: int) -> int:
    """A stamp of the stand-in year in the year that brings it nearest to ``reference`` and not into the future."""
    year = time.gmtime(reference // NS).tm_year
    found = [in_year(ts, y) for y in (year - 1, year, year + 1)]
    past = [t for t in found if t < future] or found
    return min(past, key=lambda t: (abs(t - reference), t))


def _before(ts: int, limit: int) -> int:
    year = time.gmtime(limit // NS).tm_year
    found = in_year(ts, year)
    return found if found <= limit else in_year(ts, year - 1)


def in_year(ts: int, year: int) -> int:
    """A stamp of the stand-in year in another one."""
    shift = (days_from_civil(year, 1, 1) - days_from_civil(YEARLESS, 1, 1)) * _DAY
    # 29 February exists in the stand-in year only
    return ts + shift - (_DAY if not _leap(year) and ts >= days_from_civil(YEARLESS, 3, 1) * _DAY else 0)


def _leap(year: int) -> bool:
    return year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)


def _settle_zones(case: Case, pending: Pending, facts: Facts) -> None:
    """Zones and offsets that ``case.yaml`` states."""
    declared = facts.declared
    for row in pending.local:
        event = case.events[row]
        zone = declared.zone_of(case.sources[event.source].name)
        if zone is not None and event.ts != NO_TIME:
            case.events.move(row, ts=to_utc(event.ts, zone))
    ahead = {
        source.index: round(item.ahead_s * NS)
        for source in case.sources
        if (item := declared.about(source.name)) is not None and item.ahead_s
    }
    if ahead:
        for row in range(len(case.events)):
            event = case.events[row]
            if event.source in ahead and event.ts != NO_TIME and event.quality != TimeQuality.UPTIME:
                case.events.move(row, ts=event.ts - ahead[event.source])
    for source in case.sources:
        zone = declared.zone_of(source.name)
        if zone is not None:
            facts.zones[source.index] = f"{zone} (case.yaml), where a stamp carries none"


def to_utc(ts: int, zone: tzinfo) -> int:
    """UTC ns of a local time that was read as if it were UTC; the first of two where a clock was set back."""
    try:
        local = datetime.fromtimestamp(ts // NS, UTC).replace(tzinfo=zone)
        return int(local.timestamp()) * NS + ts % NS
    except (OverflowError, OSError, ValueError):
        return ts


def _settle_uptimes(case: Case, pending: Pending, facts: Facts, notes: list[str], reference: int) -> None:
    """Boot times, then civil times of stamps that count from boot."""
    for node, pairs in pending.boot.items():
        starts = [_civil(ts, yearless, reference, facts) - uptime for ts, uptime, yearless in pairs]
        facts.boots.setdefault(node, []).extend(_clusters(starts))
    facts.boots = {node: _clusters(starts) for node, starts in facts.boots.items()}
    for node, starts in sorted(facts.boots.items()):
        if len(starts) > 1:
            notes.append(f"{node} was booted {len(starts)} times within its logs: seconds since boot count anew")
    by_source: dict[int, list[tuple[int, str | None]]] = defaultdict(list)
    for row, named in pending.uptime:
        by_source[case.events[row].source].append((row, named))
    told = _told(case, pending)
    unknown = 0
    for source, rows in sorted(by_source.items()):
        rows.sort(key=lambda pair: case.events[pair[0]].offset)
        segments = _segments(case, rows)
        for back, segment in enumerate(reversed(segments)):
            boot = _boot_of(case, source, segment, back, facts, told)
            if boot == NO_TIME:
                unknown += len(segment)
                continue
            for row, _ in segment:
                case.events.move(row, ts=case.events[row].ts + boot)
    if unknown:
        notes.append(f"{unknown} kernel lines carry only seconds since boot: their order holds within one host only")


def _civil(ts: int, yearless: bool, reference: int, facts: Facts) -> int:
    if not yearless:
        return ts
    if facts.declared.year is not None:
        return in_year(ts, facts.declared.year)
    return nearest_year(ts, reference, 1 << 62) if reference > 0 else ts


def _clusters(starts: list[int]) -> list[int]:
    """One time for each boot, in order: the middle of what its lines say."""
    groups: list[list[int]] = []
    for start in sorted(starts):
        if groups and start - groups[-1][-1] < _SAME_BOOT:
            groups[-1].append(start)
        else:
            groups.append([start])
    return [median_low(group) for group in groups]


def _segments(case: Case, rows: list[tuple[int, str | None]]) -> list[list[tuple[int, str | None]]]:
    """Rows of one file, cut where the seconds begin anew."""
    segments: list[list[tuple[int, str | None]]] = []
    before = 0
    for row, node in rows:
        uptime = case.events[row].ts
        if not segments or uptime < before - _RESTARTED:
            segments.append([])
        segments[-1].append((row, node))
        before = uptime
    return segments


def _told(case: Case, pending: Pending) -> dict[int, list[int]]:
    """Row of a stamp since boot -> civil times at which the same host said the same."""
    rows = {row for row, _ in pending.uptime}
    found: dict[int, list[int]] = {}
    if not rows:
        return found
    for group in pending.said.values():
        if len(group) < 2 or len(group) > 64:
            continue
        civil = [(e.node, e.ts) for e in (case.events[row] for row in group) if e.quality >= TimeQuality.PARTIAL]
        for row in group:
            if row in rows:
                node = case.events[row].node
                times = [ts for other, ts in civil if other == node]
                if times:
                    found[row] = times
    return found


def _boot_of(
    case: Case,
    source: int,
    segment: list[tuple[int, str | None]],
    back: int,
    facts: Facts,
    told: dict[int, list[int]],
) -> int:
    """Boot time of a run of lines, the ``back``-th from the end of its file; `NO_TIME` if nothing tells it."""
    if back == 0 and source in facts.boot:
        return facts.boot[source]
    boots = facts.boots.get(segment[0][1] or "", [])
    voted = _clusters([ts - case.events[row].ts for row, _ in segment for ts in told.get(row, ())])
    if voted:
        near = [boot for boot in boots if any(abs(boot - vote) < _SAME_BOOT for vote in voted)]
        if near or len(voted) == 1:
            return near[-1] if near else voted[0]
    return boots[-1 - back] if back < len(boots) else NO_TIME


def _jumps(case: Case, notes: list[str]) -> None:
    """Tell of clocks that were set back while a file was written; files of many writers are interleaved anyway."""
    last: dict[tuple[int, str | None, int | None], tuple[int, int]] = {}
    told: set[int] = set()
    order = sorted(range(len(case.events)), key=lambda row: (case.events[row].source, case.events[row].offset, row))
    for row in order:
        event = case.events[row]
        if event.quality < TimeQuality.PARTIAL or event.ts == NO_TIME:
            continue
        if case.sources[event.source].kind != "kernel" and (event.rank is None or event.line == 0):
            continue
        key = (event.source, event.node, event.rank)
        before = last.get(key)
        if before is not None and before[0] - event.ts > _JUMP and event.source not in told and len(told) < 10:
            told.add(event.source)
            notes.append(
                f"{case.sources[event.source].name}: the clock goes back by {(before[0] - event.ts) // NS} s "
                f"at line {event.line}: order across such a place is not known"
            )
        last[key] = (event.ts, event.line)
