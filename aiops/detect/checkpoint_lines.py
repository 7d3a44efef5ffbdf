"""Checkpoints as the lines of logs tell of them: saved, begun and never ended, failed."""

from __future__ import annotations

import re
from bisect import bisect_right
from dataclasses import dataclass

from aiops.detect.evidence import evidence_rows, known
from aiops.detect.progress import progress_points
from aiops.model.case import Case, Checkpoint
from aiops.model.event import NO_TIME, Event

STEP = re.compile(
    r"(?:step|iter(?:ation)?|checkpoint|global_step|(?<![a-z])ba)[_=/ -]*0*(\d{1,12})|epoch[_=/ -]*0*(\d{1,12})", re.I
)
_SHARD = re.compile(
    r"/(?:model|optim|ft-model|hf_model|consolidated|rank)[\w.-]*\.(?:safetensors|pt|pth|bin)$|-rank\d+\.pt$"
)
"""The file of one shard or rank at the end of a path: the checkpoint is the folder (or the name without the rank)."""
_MEGATRON = re.compile(r"(?:saved|saving|scheduled an async|save) checkpoint (?:save )?(?:from|at) iteration", re.I)


def logged_checkpoints(case: Case) -> list[Checkpoint]:
    """Checkpoints that logs report as saved. Where a line names neither path nor step (torchtitan), the step is the last one
    logged above it."""
    folders = evidence_rows(case, "ckpt.folder")
    folder = str(folders[0].fields["path"]).rstrip("/.") if folders else ""
    above: dict[int, tuple[list[int], list[int]]] = {}
    found = []
    for event in evidence_rows(case, "ckpt.saved"):
        point = read_checkpoint(event)
        if point is None:
            if event.source not in above:
                above[event.source] = _steps_above(case, event.source)
            lines, highest = above[event.source]
            at = bisect_right(lines, event.line - 1)
            if not at:
                continue
            step = highest[at - 1]
            point = Checkpoint(
                name=f"{folder}/step-{step}" if folder else f"step {step}",
                step=step,
                saved_at=event.ts if known(event) else NO_TIME,
                event=event.index,
                inferred_step=True,
            )
        found.append(point)
    return found


def _steps_above(case: Case, source: int) -> tuple[list[int], list[int]]:
    """Lines of a source that tell a step, ascending, with the highest step up to each."""
    pairs = sorted(
        (p.event.line, p.step) for p in progress_points(case) if p.event.source == source and p.step is not None
    )
    highest: list[int] = []
    for _, step in pairs:
        highest.append(max(step, highest[-1]) if highest else step)
    return [line for line, _ in pairs], highest


def read_checkpoint(event: Event) -> Checkpoint | None:
    """A checkpoint from a line that reports its completion; ``None`` if the line names neither path nor step."""
    path, step = event.fields.get("path"), _step(event)
    if not path and step is None:
        return None
    return Checkpoint(
        name=_name(event, str(path) if path else "", step),
        step=step,
        layout="NVRx local" if "local checkpoint" in event.text else "",
        saved_at=event.ts if known(event) else NO_TIME,
        event=event.index,
    )


def _step(event: Event) -> int | None:
    step = event.fields.get("step") or event.fields.get("step2")
    for text in (str(event.fields.get("path") or ""), event.text):
        if step is None and (match := STEP.search(text)):
            step = match[1] or match[2]
    return int(step) if step is not None else None


def _name(event: Event, path: str, step: int | None) -> str:
    if not path:
        return f"step {step}"
    path = _SHARD.sub("", path.rstrip(".,:;"))
    own = STEP.search(path.rpartition("/")[2])
    tells = own is not None and int(own[1] or own[2]) == step
    if step is not None and _MEGATRON.search(event.text) and not tells and not path.endswith(".ckpt"):
        return f"{path.rstrip('/')}/iter_{step:07d}"  # Megatron prints the folder of all its checkpoints
    return path


@dataclass(slots=True)
class FailedSave:
    """A line that says that a save failed, and of which checkpoint."""

    event: Event
    step: int | None
    path: str


def failed_saves(case: Case) -> list[FailedSave]:
    """Saves that the log says have failed; one that names no step and no path is of the save begun last."""
    found: list[FailedSave] | None = case.memo.get("detect.failed_saves")
    if found is None:
        begun = evidence_rows(case, "ckpt.started", "ckpt.async")
        found = []
        for event in evidence_rows(case, "ckpt.failed"):
            path, step = str(event.fields.get("path") or "").rstrip(".,:;"), _step(event)
            if not path and step is None:
                before = [start for start in begun if _before(start, event)]
                if before:
                    step = _step(before[-1])
            found.append(FailedSave(event, step, path))
        case.memo["detect.failed_saves"] = found
    return found


def unfinished_saves(case: Case, points: list[Checkpoint]) -> list[Checkpoint]:
    """Saves that were begun, whose end was never logged, and that nothing else tells of."""
    saved = [case.events[p.event] for p in points if p.event is not None]
    begun = evidence_rows(case, "ckpt.started", "ckpt.async")
    found: dict[str, Checkpoint] = {}
    for event in begun:
        step, path = _step(event), str(event.fields.get("path") or "")
        if step is None or any(p.step == step for p in points) or any(_before(event, done) for done in saved):
            continue
        name = _name(event, path, step)
        found[name] = Checkpoint(
            name,
            step,
            event.ts if known(event) else NO_TIME,
            complete=False,
            event=event.index,
            faults=("its save was begun and its end was never logged",),
        )
    return list(found.values())


def _before(one: Event, other: Event) -> bool:
    if one.source == other.source:
        return one.line <= other.line
    return known(one) and known(other) and one.ts <= other.ts
