"""The last progress lines of a file, one by one: what happened at the end matters most, and thinning out would blur it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from aiops.scan.ranges import Range, line_end
from aiops.scan.scanner import HitLine, Scanner

LAST = 32
"""Lines of each rule of ordinary lines that the end of a file hands out one by one."""
_SLACK = 4096
_SHARE = 4
"""At most one part in so many of a range is looked at again."""
_EVERY = 1 << 40


@dataclass(slots=True)
class _Row:
    hit: HitLine
    rules: dict[int, int] = field(default_factory=dict)


def with_tail(scanner: Scanner, path: Path, part: Range, hits: list[HitLine]) -> list[HitLine]:
    """The hits of the last range of a file, with the last `LAST` lines of each thinned-out rule of ordinary lines one by one.

    Numbers of lines that a rule hits stay what they were. A rule whose lines are so rare that the last quarter of the
    range holds fewer gets those. ``scanner`` has just scanned the range.

    Raises:
        OSError: the file cannot be read.
    """
    total: Counter[int] = Counter()
    thinned = set()
    for hit in hits:
        for rule, weight in hit.rules:
            if rule in scanner.program.ordinary:
                total[rule] += weight
                if weight > 1:
                    thinned.add(rule)
    if not thinned:
        return hits
    lines = scanner.lines
    rows: dict[tuple[int, int], _Row] = {}
    for hit in hits:
        rows.setdefault((hit.line, hit.offset), _Row(hit)).rules.update(hit.rules)
    for rule, last, behind in _ends(scanner, path, part, {rule: total[rule] for rule in thinned}):
        shift = lines - behind
        first = (last[0].line + shift, last[0].offset)
        before = sum(row.rules.get(rule, 0) for place, row in rows.items() if place < first)
        for place, row in rows.items():
            if place >= first:
                row.rules.pop(rule, None)
        for hit in last:
            here = hit._replace(line=hit.line + shift)
            rows.setdefault((here.line, here.offset), _Row(here)).rules[rule] = 1
        rows[first].rules[rule] = total[rule] - before - len(last) + 1
    scanner.lines = lines
    return [row.hit._replace(rules=sorted(row.rules.items())) for _, row in sorted(rows.items()) if row.rules]


def _ends(
    scanner: Scanner, path: Path, part: Range, totals: dict[int, int]
) -> Iterator[tuple[int, list[HitLine], int]]:
    """For each rule its last hits in the range and the lines of the part that was looked at for them, dense rules first."""
    length = part.stop - part.start
    window = length * LAST // max(totals.values()) * 3 // 2 + _SLACK
    missing = sorted(totals)
    while missing:
        window = min(window, length // _SHARE)
        begin = line_end(path, part.stop - window, part.stop)
        tail = list(scanner.scan_range(path, Range(begin, part.stop, 0, 1), _EVERY))
        for rule in list(missing):
            last = [hit for hit in tail if any(found == rule for found, _ in hit.rules)][-LAST:]
            if len(last) == LAST or window == length // _SHARE:
                missing.remove(rule)
                if last:
                    yield rule, last, scanner.lines
        window *= 4
