"""Which checkpoint to start from, by name, which ones are refused and why, and what is lost by it."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from aiops.correlate.model import IncidentDraft
from aiops.detect.checkpoint_join import known_checkpoints
from aiops.detect.progress import progress_points
from aiops.model.case import Case, Checkpoint
from aiops.model.event import NO_TIME
from aiops.model.finding import Finding
from aiops.recommend.poison import Poison, first_bad
from aiops.recommend.render import names

NS = 1_000_000_000


@dataclass(frozen=True, slots=True)
class Refusal:
    """A checkpoint that must not be restored, and why."""

    checkpoint: Checkpoint
    why: str


@dataclass(slots=True)
class Choice:
    """A rule of the taxonomy (C0 to C5) applied to the checkpoints of a case. Times in UTC ns."""

    rule: str
    checkpoint: Checkpoint | None
    why: str
    age_s: float | None = None
    """Age at the time of failure, seconds."""
    lost_steps: int | None = None
    lost_minutes: float | None = None
    """Training that has to be done again: from the save to the last step."""
    lost_gpu_hours: float | None = None
    refused: list[Refusal] = field(default_factory=list)
    """Newer ones that may not be used, the newest first."""
    known: int = 0
    """Checkpoints that the evidence names."""


def choose_checkpoint(case: Case, incident: IncidentDraft) -> Choice:
    """Apply the rule of the winning class to what logs and listings show.

    C0 newest complete · C1/C5 newest older than the first anomaly · C2 save first · C3 none needed · C4 distrust the newest.
    Whatever the rule, a checkpoint is refused that is incomplete, whose save failed, whose name may not stand in a command,
    or that was saved at or after the first non-finite value, uncorrectable memory error or wrong result of a GPU of the job.
    """
    rule = incident.best.failure.checkpoint
    points = known_checkpoints(case)
    if rule == "C3":
        return Choice(rule, None, "No progress was made, so there is nothing to restore.", known=len(points))
    if not points:
        return Choice(rule, None, "No complete checkpoint is named in the evidence.")
    choice = Choice(rule, None, "", known=len(points))
    bad = first_bad(case, incident)
    anomaly = _anomaly(incident) if rule in ("C1", "C5") else None
    for point in reversed(points):
        why = _refuse(incident, point, bad, anomaly, newest=point is points[-1])
        if why:
            choice.refused.append(Refusal(point, why))
        elif choice.checkpoint is None:
            choice.checkpoint = point
            break
    choice.why = _why(incident, choice, anomaly)
    _lost(case, incident, choice)
    return choice


@dataclass(frozen=True, slots=True)
class _Anomaly:
    """The first sign of the winning class, for the rules that go back before it."""

    step: int | None
    began: int

    @property
    def words(self) -> str:
        return f"step {self.step}" if self.step is not None else "the first bad value"

    @property
    def known(self) -> bool:
        return self.step is not None or self.began != NO_TIME


def _anomaly(incident: IncidentDraft) -> _Anomaly:
    steps = [step for f in incident.best.causes if isinstance(step := f.fields.get("step"), int)]
    return _Anomaly(min(steps) if steps else None, incident.best.began)


def _refuse(
    incident: IncidentDraft, point: Checkpoint, bad: list[Poison], anomaly: _Anomaly | None, *, newest: bool
) -> str:
    """Why a checkpoint may not be used; empty if it may."""
    if not point.complete:
        return f"incomplete: {'; '.join(point.faults[:3]) or 'its end was never logged'}"
    if names.checkpoint(point.name) is None:
        return "its name holds characters that must not stand in a command"
    if (
        anomaly is not None
        and anomaly.known
        and (why := _not_before(point, anomaly.step, anomaly.began, anomaly.words))
    ):
        return why
    for poison in bad:
        if not poison.cleared(point) and (why := _not_before(point, poison.step, poison.began, poison.what)):
            return why
    if point.layout == "NVRx local" and (incident.best.hardware or incident.best.failure.requeue == "exclude_nodes"):
        return "a local checkpoint: each node keeps its own part, and that of the faulty node is lost with it"
    if newest and incident.best.failure.checkpoint == "C4" and _is_suspect(incident, point):
        return "it was being written or does not read back"
    return ""


def _not_before(point: Checkpoint, step: int | None, began: int, words: str) -> str:
    """A reason unless the checkpoint is older than an anomaly: by step where both are known, else by time."""
    if step is not None and point.step is not None:
        return f"saved at or after {words}, so it may hold bad state" if point.step >= step else ""
    if point.saved_at != NO_TIME and point.timed_by != "copy" and began != NO_TIME:
        late = point.saved_at + int(point.within_s * NS) >= began
        return f"saved after {words}, so it may hold bad state" if late else ""
    if step is None and began == NO_TIME:
        return ""
    return f"neither its step nor its time shows that it is older than {words}"


def _why(incident: IncidentDraft, choice: Choice, anomaly: _Anomaly | None) -> str:
    point, rule = choice.checkpoint, choice.rule
    if point is None:
        return f"Nothing trustworthy is left: {_told(choice.refused)}."
    newer = f" Not used: {_told(choice.refused)}." if choice.refused else ""
    proof = _proof(point)
    if anomaly is not None and not anomaly.known:
        return f"The time of the first bad value is not known: check this checkpoint for non-finite values.{newer}"
    if anomaly is not None:
        which = "Newest checkpoint saved before" if choice.refused else "It was saved before"
        return f"{which} {anomaly.words}; {proof}.{newer}"
    if rule == "C2":
        return f"Save first if the job still runs; otherwise this is the newest complete checkpoint; {proof}.{newer}"
    if rule == "C4":
        check = "" if point.files else " Check its size and checksum before use."
        return f"The newest that can be trusted; {proof}.{check}{newer}"
    return f"The newest complete checkpoint; {proof}.{newer}" if newer else f"The newest checkpoint; {proof}."


def _proof(point: Checkpoint) -> str:
    """What its completeness rests on."""
    doubts = [d for d in point.doubts if d != "its files are not listed"]
    if point.files:
        told = "the log reports it saved and its" if point.event is not None else "its"
        return f"{told} {point.files} files look whole" + (f" ({doubts[0]})" if doubts else "")
    if point.event is not None:
        return "the log reports it complete"
    return "only its folder is listed, so nothing shows that its files are whole"


def _told(refused: list[Refusal]) -> str:
    words = [f"{_shown(r.checkpoint)} ({r.why})" for r in refused[:3]]
    return "; ".join(words) + (f"; and {len(refused) - 3} more" if len(refused) > 3 else "")


def _shown(point: Checkpoint) -> str:
    return names.checkpoint(point.name) or (
        f"the one of step {point.step}" if point.step is not None else "one without a proper name"
    )


WRITING_S = 900
"""A save reported this short before the failure, with no step after it, may be the one that failed."""


def _is_suspect(incident: IncidentDraft, newest: Checkpoint) -> bool:
    """The newest checkpoint was being written when the job failed, or the evidence names it as unreadable."""
    whole = newest.files > 0 and "its files are not listed" not in newest.doubts
    unfinished = any(f.sign == "ckpt.unfinished" and f.fields.get("step") == newest.step for f in incident.findings)
    base = newest.name.rstrip("/").rsplit("/", 1)[-1]
    named = any(base and base in ref.text for f in incident.best.causes for ref in f.evidence)
    began = incident.best.began
    progress = _progress(incident)
    writing = (
        newest.saved_at != NO_TIME
        and began != NO_TIME
        and 0 <= began - newest.saved_at <= WRITING_S * NS
        and (progress is None or progress.last <= newest.saved_at)
    )
    return named or ((unfinished or writing) and not whole)


def _progress(incident: IncidentDraft) -> Finding | None:
    return next((f for f in incident.findings if f.sign == "train.progress"), None)


def _lost(case: Case, incident: IncidentDraft, choice: Choice) -> None:
    """Steps, minutes and GPU-hours of training that has to be done again; ``None`` where the evidence does not tell."""
    point = choice.checkpoint
    if point is None:
        return
    last, until = _reached(case, incident)
    if last is not None and point.step is not None and last >= point.step:
        choice.lost_steps = last - point.step
    timed = point.saved_at != NO_TIME and point.timed_by != "copy"
    failed = max(incident.best.began, until)
    if timed and until != NO_TIME and failed >= point.saved_at:
        choice.age_s = (failed - point.saved_at) / NS
    if timed and until != NO_TIME:
        choice.lost_minutes = round(max(0.0, (until - point.saved_at) / NS / 60), 1)
    elif choice.lost_steps is not None and (seconds := _step_seconds(case)) is not None:
        choice.lost_minutes = round(choice.lost_steps * seconds / 60, 1)
    gpus = incident.scope.gpus or case.topology.world_size
    if choice.lost_minutes is not None and gpus:
        choice.lost_gpu_hours = round(choice.lost_minutes / 60 * gpus, 2)


def _reached(case: Case, incident: IncidentDraft) -> tuple[int | None, int]:
    """(last step, its time in UTC ns) that the run is known to have come to: by its progress lines, or by the saves that it began."""
    progress = _progress(incident)
    step = progress.fields.get("last_step") if progress is not None else None
    steps = [step] if isinstance(step, int) else []
    times = [progress.last] if progress is not None and progress.last != NO_TIME else []
    if not steps:
        begun = [point for point in known_checkpoints(case) if point.event is not None]
        steps = [point.step for point in begun if point.step is not None]
        times += [point.saved_at for point in begun if point.saved_at != NO_TIME and point.timed_by == "log"]
    return max(steps, default=None), max(times, default=NO_TIME)


def _step_seconds(case: Case) -> float | None:
    """The median time of a step that the log prints, seconds."""
    times = sorted(p.step_time for p in progress_points(case) if p.step_time)
    return times[len(times) // 2] if times else None


_TITAN = re.compile(r"(?:^|/)step-\d+$")


def pass_as(point: Checkpoint) -> str | None:
    """How the framework is told to start from it, where its layout is known; ``None`` else."""
    name = names.checkpoint(point.name)
    if name is None or "/" not in name:
        return None
    parent, _, base = name.rpartition("/")
    if re.fullmatch(r"iter_\d{7}", base) and point.layout != "NVRx local" and point.step is not None:
        return f"--load {parent} --ckpt-step {point.step}"
    if point.layout == "DeepSpeed" and base.startswith("global_step"):
        return f'load_checkpoint("{parent}", tag="{base}")'
    if re.fullmatch(r"checkpoint-\d+", base):
        return f"--resume_from_checkpoint {name}"
    if _TITAN.search(name) and point.step is not None:
        return f"--checkpoint.load_step {point.step}"
    if base.endswith(".ckpt"):
        return f'ckpt_path="{name}"'
    return None
