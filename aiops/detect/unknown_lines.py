"""Lines that look like errors and that no rule knows: the most unusual ones of the case, as context.

Sign: ``log.unusual``. It never judges; it shows a person where to read on when the catalog has no word for a failure.
"""

from __future__ import annotations

import math
import re

from aiops.catalog.model import Catalog
from aiops.detect.evidence import known
from aiops.ingest.linemap import line_map
from aiops.ingest.prefix import ANSI, YEARLESS, Prefix, parse_prefix
from aiops.ingest.sniff import SCANNED
from aiops.model.case import Case, Source
from aiops.model.event import NO_TIME, Severity, TimeQuality
from aiops.model.finding import EvidenceRef, Finding, Role
from aiops.scan import scanner_at_hand
from aiops.scan.templates import Template, unknown_templates

_MOST = 5
_COMMON = 200
"""Lines of a template in the sample from which on it is no longer unusual."""
_NEAR_S = 600.0
_RAISED = re.compile(r"(?:^|[\s.])([A-Za-z_]\w*(?:Error|Exception|Interrupt|Exit|Warning))(?:: |$)")
_YEARLESS_END = (YEARLESS - 1970 + 1) * 366 * 86_400 * 1_000_000_000


def detect(case: Case, catalog: Catalog) -> list[Finding]:
    """At most five findings, the rarest first, those near the first fault before others."""
    sources = [source for source in case.sources if source.kind in SCANNED]
    if not sources:
        return []
    templates = unknown_templates([(s.path, s.size) for s in sources], scanner_at_hand(catalog))
    first = _first_fault(case)
    ranked = []
    for template in templates:
        if template.count > _COMMON:
            continue
        source = sources[template.file]
        prefix = parse_prefix(ANSI.sub(b"", template.text.encode()).decode(), task_labels=source.format == "srun -l")
        ranked.append((_unusual(template, _time(prefix), first), template, source, prefix))
    ranked.sort(key=lambda item: (-item[0], item[1].file, item[1].offset))
    return [_finding(case, template, source, prefix) for _, template, source, prefix in ranked[:_MOST]]


def without_told(findings: list[Finding]) -> list[Finding]:
    """All but unknown lines that another finding tells already: the log's last error, or the last line of an exception."""
    ends = {(ref.source, ref.offset) for f in findings if f.sign == "log.last_error" for ref in f.evidence}
    raised = {str(f.fields["type"]) for f in findings if f.sign in ("py.exception", "data.exception")}
    return [f for f in findings if f.sign != "log.unusual" or not _told(f.evidence[0], ends, raised)]


def _told(ref: EvidenceRef, ends: set[tuple[str, int]], raised: set[str]) -> bool:
    name = _RAISED.search(ref.text)
    return (ref.source, ref.offset) in ends or (name is not None and name[1] in raised)


def _unusual(template: Template, ts: int, first: int) -> float:
    """Rare lines score up to 1, falling with the root of their number; nearness to the first fault adds up to 1."""
    rare = 1.0 / math.sqrt(template.count)
    if ts == NO_TIME or first == NO_TIME:
        return rare
    return rare + math.exp(-abs(ts - first) / 1e9 / _NEAR_S)


def _first_fault(case: Case) -> int:
    times = [e.ts for e in case.events if e.severity >= Severity.ERROR and known(e) and not e.quoted]
    return min(times, default=NO_TIME)


def _time(prefix: Prefix) -> int:
    """Time of a line, if it is civil time with a year."""
    if prefix.quality < TimeQuality.PARTIAL or prefix.yearless or prefix.ts < _YEARLESS_END:
        return NO_TIME
    return prefix.ts


def _finding(case: Case, template: Template, source: Source, prefix: Prefix) -> Finding:
    ts = _time(prefix)
    rank = prefix.rank if prefix.rank is not None else source.rank
    more = f" ({template.count} lines like it in the sample)" if template.count > 1 else ""
    text = "".join(c if c.isprintable() else " " for c in template.text)
    evidence = EvidenceRef(source.name, line_number(case, source, template.offset), template.offset, text, ts)
    return Finding(
        sign="log.unusual",
        text=f"No rule knows this line{more}: {text[:200]}",
        role=Role.CONTEXT,
        severity=Severity.WARNING,
        first=ts,
        last=ts,
        node=prefix.host or source.node,
        rank=rank,
        ranks=() if rank is None else (rank,),
        count=template.count,
        fields={"template": " ".join(template.words)},
        evidence=[evidence],
    )


def line_number(case: Case, source: Source, offset: int) -> int:
    """Number of the line of a source that begins at a byte offset, from 1."""
    lines = line_map(case, source.index)
    if lines is not None:
        return lines.line_at(offset)
    number, at = 1, 0
    while at < offset:
        chunk = case.read(source.index, at, min(1 << 20, offset - at))
        if not chunk:
            break
        number += chunk.count(b"\n")
        at += len(chunk)
    return number
