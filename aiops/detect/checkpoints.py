"""The life of checkpoints as logs tell it: started, saved, loaded."""

from __future__ import annotations

import re

from aiops.catalog.model import Catalog
from aiops.detect.evidence import evidence_rows, in_time, known, quote
from aiops.detect.progress import progress_points
from aiops.detect.saving import saving_troubles
from aiops.model.case import Case, Checkpoint
from aiops.model.event import NO_TIME, Event, Severity
from aiops.model.finding import Finding, Role

_STEP = re.compile(
    r"(?:step|iter(?:ation)?|checkpoint|global_step|(?<![a-z])ba)[_=/ -]*0*(\d{1,12})|epoch[_=/ -]*0*(\d{1,12})", re.I
)


_SHARD = re.compile(
    r"/(?:model|optim|ft-model|hf_model|consolidated|rank)[\w.-]*\.(?:safetensors|pt|pth|bin)$|-rank\d+\.pt$"
)
"""The file of one shard or rank at the end of a path: the checkpoint is the folder (or the name without the rank)."""


def detect(case: Case, catalog: Catalog) -> list[Finding]:
    """``ckpt.saved`` for the newest complete checkpoint, ``ckpt.unfinished`` for a save that was started and not finished
    (both CONTEXT), ``ckpt.resumed`` for the one the run began from; saves that others wait for, see `aiops.detect.saving`."""
    saved = _saved(case)
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


def saved_checkpoints(case: Case) -> list[Checkpoint]:
    """All complete checkpoints of the logs and of the case, oldest first; one entry for each name."""
    found: dict[str, Checkpoint] = {}
    for point in [*case.checkpoints, *_saved(case)]:
        if point.complete:
            known_point = found.get(point.name)
            if known_point is None or _age(point) > _age(known_point):
                found[point.name] = point
    return sorted(found.values(), key=_age)


def _saved(case: Case) -> list[Checkpoint]:
    """Checkpoints of the logs. Where a line names neither path nor step (torchtitan), the step is the last one logged above it."""
    folders = evidence_rows(case, "ckpt.folder")
    folder = str(folders[0].fields["path"]).rstrip("/.") if folders else ""
    found = []
    for event in evidence_rows(case, "ckpt.saved"):
        point = read_checkpoint(event)
        if point is None:
            steps = [
                (p.event.line, p.step)
                for p in progress_points(case)
                if p.event.source == event.source and p.event.line < event.line and p.step is not None
            ]
            if not steps:
                continue
            step = max(steps)[1]
            point = Checkpoint(
                name=f"{folder}/step-{step}" if folder else f"step {step}",
                step=step,
                saved_at=event.ts if known(event) else NO_TIME,
                event=event.index,
            )
        found.append(point)
    return found


def read_checkpoint(event: Event) -> Checkpoint | None:
    """A checkpoint from a line that reports its completion; ``None`` if the line names neither path nor step."""
    path = event.fields.get("path")
    step = event.fields.get("step")
    if step is None and path:
        match = _STEP.search(str(path))
        step = (match[1] or match[2]) if match else None
    if step is None:
        match = _STEP.search(event.text)
        step = (match[1] or match[2]) if match else None
    if not path and step is None:
        return None
    name = _SHARD.sub("", str(path).rstrip(".,:;")) if path else f"step {step}"
    return Checkpoint(
        name=name,
        step=int(step) if step is not None else None,
        saved_at=event.ts if known(event) else NO_TIME,
        event=event.index,
    )


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
