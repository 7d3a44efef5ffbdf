"""A log of a job that ends in an error which no rule knows: the run may have failed, though nobody says so.

Sign: ``log.last_error``. It is no cause; it only forbids to call such a run healthy.
"""

from __future__ import annotations

import re

from aiops.catalog.model import Catalog
from aiops.detect.evidence import evidence_rows
from aiops.detect.unknown_lines import line_number
from aiops.ingest.prefix import ANSI, parse_prefix
from aiops.model.case import Case, Source
from aiops.model.event import NO_TIME, Severity
from aiops.model.finding import EvidenceRef, Finding, Role
from aiops.scan import scanner_at_hand

_TAIL = 4096
_LAST = 4
"""Lines at the end among which the error must be: what a run logs while it goes on stands behind earlier ones."""
_ENDED_WELL = frozenset({"COMPLETED", "Completed", "Complete", "Succeeded", "RUNNING", "Running", "PENDING", "Pending"})
"""Words of schedulers for a job that has not failed."""
_ERROR = re.compile(
    rb"^\W{0,3}(?:\S{1,40}[ :]{1,2}){0,4}(?:ERROR|FATAL|CRITICAL|PANIC|[Ff]atal(?: error)?|[Ee]rror|E\d{4})\b"
    rb"|\b[A-Z]\w{2,60}(?:Error|Exception): |\b(?:[Aa]borting|[Aa]borted|[Ff]ailed to|[Cc]annot|[Uu]nable to)\b"
)
_HEADING = re.compile(rb"^[\w ]{1,40}:$")
"""Announces the line that follows, as NCCL's ``Last error:``."""
_HARMLESS = re.compile(
    rb"\b(?:INFO|DEBUG|TRACE|WARN|WARNING|info|debug|warn|warning|[Ii]gnor\w*|[Rr]etry\w*)\b|%\||\b0 errors?\b"
)


def detect(case: Case, catalog: Catalog) -> list[Finding]:
    """At most one finding: the first log of a job, in their order, whose last lines hold an unknown error."""
    if evidence_rows(case, "train.success") or any(
        _ENDED_WELL.intersection((job.state or "").split()) for job in case.jobs
    ):
        return []
    for source in case.sources:
        if source.kind == "training":
            found = _last_error(case, source, catalog)
            if found is not None:
                return [found]
    return []


def _last_error(case: Case, source: Source, catalog: Catalog) -> Finding | None:
    start = max(0, source.size - _TAIL)
    data = case.read(source.index, start, _TAIL)
    at = data.find(b"\n") + 1 if start else 0
    lines: list[tuple[int, bytes]] = []
    while at < len(data):
        end = data.find(b"\n", at)
        end = len(data) if end < 0 else end
        if data[at:end].strip():
            lines.append((at, data[at:end].rstrip(b"\r")))
        at = end + 1
    known = {hit.offset for hit in scanner_at_hand(catalog).scan_bytes(data)}
    for offset, line in reversed(lines[-_LAST:]):
        plain = ANSI.sub(b"", line)
        if offset in known or not _ERROR.search(plain) or _HARMLESS.search(plain) or _HEADING.match(plain.strip()):
            continue
        text = "".join(c if c.isprintable() else " " for c in plain[:1000].decode("utf-8", "replace")).strip()
        prefix = parse_prefix(text, task_labels=source.format == "srun -l")
        rank = prefix.rank if prefix.rank is not None else source.rank
        evidence = EvidenceRef(source.name, line_number(case, source, start + offset), start + offset, text, NO_TIME)
        return Finding(
            sign="log.last_error",
            text=f"The log ends with an error that no rule knows: {text[:200]}",
            role=Role.CONTEXT,
            severity=Severity.ERROR,
            first=NO_TIME,
            last=NO_TIME,
            rank=rank,
            ranks=() if rank is None else (rank,),
            evidence=[evidence],
        )
    return None
