"""Which checkpoint to start from, by name, and what is lost by it."""

from __future__ import annotations

from dataclasses import dataclass

from aiops.correlate.model import IncidentDraft
from aiops.detect.checkpoints import saved_checkpoints
from aiops.model.case import Case, Checkpoint
from aiops.model.event import NO_TIME

NS = 1_000_000_000


@dataclass(slots=True)
class Choice:
    """A rule of the taxonomy (C0 to C5) applied to the checkpoints of a case. Times in UTC ns."""

    rule: str
    checkpoint: Checkpoint | None
    why: str
    age_s: float | None = None
    """Age at the time of failure, seconds."""
    lost_steps: int | None = None
    refused: Checkpoint | None = None
    """The newest checkpoint, if the rule forbids it."""


def choose_checkpoint(case: Case, incident: IncidentDraft) -> Choice:
    """Apply the rule of the winning class.

    C0 newest complete · C1/C5 newest older than the first anomaly · C2 save first · C3 none needed · C4 distrust the newest.
    """
    rule = incident.best.failure.checkpoint
    saved = saved_checkpoints(case)
    if rule == "C3":
        return Choice(rule, None, "No progress was made, so there is nothing to restore.")
    if not saved:
        return Choice(rule, None, "No complete checkpoint is named in the evidence.")
    newest = saved[-1]
    if rule in ("C1", "C5"):
        choice = _before_anomaly(incident, saved, rule)
    elif rule == "C4" and _is_suspect(incident, newest):
        older = [point for point in saved if point.name != newest.name]
        choice = Choice(
            rule,
            older[-1] if older else None,
            f"{newest.name} cannot be trusted: it was being written or does not read back.",
            refused=newest,
        )
    elif rule == "C4":
        choice = Choice(rule, newest, f"{newest.name} was reported complete; check its size and checksum before use.")
    elif rule == "C2":
        choice = Choice(
            rule, newest, "Save first if the job still runs; otherwise this is the newest complete checkpoint."
        )
    else:
        choice = Choice(rule, newest, "The newest checkpoint that was reported complete.")
    _lost(incident, choice)
    return choice


def _before_anomaly(incident: IncidentDraft, saved: list[Checkpoint], rule: str) -> Choice:
    """The newest checkpoint from before the first sign; by step where both are known, else by time."""
    began = incident.best.began
    steps = [step for f in incident.best.causes if isinstance(step := f.fields.get("step"), int)]
    first_bad = min(steps) if steps else None
    good = [
        p
        for p in saved
        if (p.step is not None and first_bad is not None and p.step < first_bad)
        or ((p.step is None or first_bad is None) and p.saved_at != NO_TIME and began != NO_TIME and p.saved_at < began)
    ]
    newest = saved[-1]
    since = f"step {first_bad}" if first_bad is not None else "the first bad value"
    if not good and first_bad is None and began == NO_TIME:
        return Choice(
            rule, newest, "The time of the first bad value is not known: check this checkpoint for non-finite values."
        )
    if not good:
        return Choice(rule, None, f"Every checkpoint in the evidence was saved after {since}.", refused=newest)
    chosen = good[-1]
    if chosen is newest:
        return Choice(rule, chosen, f"It was saved before {since}.")
    return Choice(
        rule,
        chosen,
        f"Newest checkpoint saved before {since}; {newest.name} was saved after it and may hold bad state.",
        refused=newest,
    )


WRITING_S = 900
"""A save reported this short before the failure, with no step after it, may be the one that failed."""


def _is_suspect(incident: IncidentDraft, newest: Checkpoint) -> bool:
    """The newest checkpoint was being written when the job failed, or the evidence names it as unreadable."""
    unfinished = any(f.sign == "ckpt.unfinished" and f.fields.get("step") == newest.step for f in incident.findings)
    base = newest.name.rstrip("/").rsplit("/", 1)[-1]
    named = any(base and base in ref.text for f in incident.best.causes for ref in f.evidence)
    began = incident.best.began
    progress = next((f for f in incident.findings if f.sign == "train.progress"), None)
    writing = (
        newest.saved_at != NO_TIME
        and began != NO_TIME
        and 0 <= began - newest.saved_at <= WRITING_S * NS
        and (progress is None or progress.last <= newest.saved_at)
    )
    return unfinished or named or writing


def _lost(incident: IncidentDraft, choice: Choice) -> None:
    progress = next((f for f in incident.findings if f.sign == "train.progress"), None)
    point = choice.checkpoint
    if progress is None or point is None:
        return
    last = progress.fields.get("last_step")
    if isinstance(last, int) and point.step is not None and last >= point.step:
        choice.lost_steps = last - point.step
    failed = max(incident.best.began, progress.last)
    if failed != NO_TIME and point.saved_at != NO_TIME and failed >= point.saved_at:
        choice.age_s = (failed - point.saved_at) / NS
