"""The life of checkpoints as logs and listings tell it: started, saved, on disk, loaded."""

from __future__ import annotations

from aiops.catalog.model import Catalog
from aiops.detect.checkpoint_join import known_checkpoints
from aiops.detect.checkpoint_lines import logged_checkpoints
from aiops.detect.evidence import evidence_rows, in_time, known, quote
from aiops.detect.saving import saving_troubles
from aiops.model.case import Case, Checkpoint
from aiops.model.event import NO_TIME, Event, Severity
from aiops.model.finding import EvidenceRef, Finding, Role


def detect(case: Case, catalog: Catalog) -> list[Finding]:
    """``ckpt.saved`` for the newest complete checkpoint, ``ckpt.unfinished`` for a save that was started and not finished
    (both CONTEXT), ``ckpt.listed`` and ``ckpt.incomplete`` for those whose files were seen, ``ckpt.resumed`` for the one
    that the run began from; saves that others wait for, see `aiops.detect.saving`."""
    saved = logged_checkpoints(case)
    findings = []
    if saved:
        newest = max(saved, key=_age)
        assert newest.event is not None
        event = case.events[newest.event]
        findings.append(
            Finding(
                sign="ckpt.saved",
                text=f"Newest checkpoint: {newest.name}"
                + (f" (step {newest.step})" if newest.step is not None else ""),
                role=Role.CONTEXT,
                severity=Severity.INFO,
                first=newest.saved_at,
                last=newest.saved_at,
                count=len(saved),
                name=newest.name,
                fields={"step": newest.step, "path": newest.name},
                evidence=[quote(case, event)],
            )
        )
    findings += _listed(case)
    findings += _unfinished(case, saved)
    findings += saving_troubles(case, [case.events[point.event] for point in saved if point.event is not None])
    loaded = evidence_rows(case, "ckpt.loaded")
    if loaded:
        event = loaded[0]
        findings.append(
            Finding(
                sign="ckpt.resumed",
                text=f"The run resumed from {event.fields.get('path', 'a checkpoint')}",
                role=Role.CONTEXT,
                severity=Severity.INFO,
                first=event.ts if known(event) else NO_TIME,
                name=event.fields.get("path"),
                evidence=[quote(case, event)],
            )
        )
    return findings


_MOST_FAULTY = 4


def _listed(case: Case) -> list[Finding]:
    """What the files themselves tell, in one finding for the complete ones and one for each that is not."""
    listed = [point for point in known_checkpoints(case) if point.source]
    found = []
    whole = [point for point in listed if point.complete]
    if whole:
        newest = whole[-1]
        seen = f"{newest.files} files" if newest.files else "its files are not listed"
        found.append(
            _about(newest, "ckpt.listed", f"On disk: {len(whole)} complete, the newest is {newest.name}, {seen}")
        )
        found[-1].count = len(whole)
    broken = [point for point in listed if not point.complete]
    for point in broken[-_MOST_FAULTY:]:
        finding = _about(
            point, "ckpt.incomplete", f"Checkpoint {point.name} is not complete: {'; '.join(point.faults[:3])}"
        )
        finding.severity = Severity.WARNING
        found.append(finding)
    return found


def _about(point: Checkpoint, sign: str, text: str) -> Finding:
    return Finding(
        sign=sign,
        text=text,
        role=Role.CONTEXT,
        severity=Severity.INFO,
        first=point.saved_at if point.timed_by != "copy" else NO_TIME,
        last=point.saved_at if point.timed_by != "copy" else NO_TIME,
        name=point.name,
        fields={"step": point.step, "path": point.name, "layout": point.layout},
        evidence=[listed_at(point)],
    )


def listed_at(point: Checkpoint) -> EvidenceRef:
    """The line of the listing that names a checkpoint, or its folder in the case."""
    return EvidenceRef(source=point.source, line=point.line, offset=point.offset, text=point.text)


def _age(point: Checkpoint) -> tuple[bool, int, int]:
    return (point.saved_at != NO_TIME, point.saved_at, point.step or -1)


def _unfinished(case: Case, saved: list[Checkpoint]) -> list[Finding]:
    started = sorted(evidence_rows(case, "ckpt.started"), key=in_time)
    if not started:
        return []
    event = started[-1]
    finished = [point for point in saved if point.event is not None and _after(case.events[point.event], event)]
    if finished:
        return []
    return [
        Finding(
            sign="ckpt.unfinished",
            text="A checkpoint save was started and its end was never logged",
            role=Role.CONTEXT,
            severity=Severity.WARNING,
            first=event.ts if known(event) else NO_TIME,
            fields={"step": event.fields.get("step")},
            evidence=[quote(case, event)],
        )
    ]


def _after(done: Event, start: Event) -> bool:
    if known(done) and known(start):
        return done.ts >= start.ts
    return done.source == start.source and done.line >= start.line
