"""Read loss, gradient norm, step and speed out of the progress lines of all frameworks."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass

from aiops.detect.evidence import evidence_rows, known
from aiops.ingest.prefix import ANSI
from aiops.model.case import Case
from aiops.model.event import NO_TIME, Event

_NUMBER = r"(?:[-+]?(?:\d[\d,]*\.?\d*(?:[eE][-+]?\d+)?|\.\d+)|[-+]?(?:nan|inf|NaN|Inf|infinity))"
_KEYS = {
    "loss": re.compile(
        r"(?<![\w-])(?:lm loss|(?:reduced_|mean_|avg_|average )?(?:train(?:ing)?_?)?[Ll]oss|ce)['\"]?[ \t]{0,40}[:= ][ \t]{0,40}['\"]?"
        rf"(?:tensor\()?({_NUMBER})(?![\w.])"
    ),
    "grad_norm": re.compile(
        rf"(?:grad(?:ient)?[ _]?norm|gnorm|l2_norm/grad/global)['\"]?[ \t]{{0,40}}[:= ][ \t]{{0,40}}['\"]?({_NUMBER})(?![\w.])",
        re.I,
    ),
    "scale": re.compile(
        rf"(?:loss[ _]scale|(?<!\w)scale)['\"]?[ \t]{{0,40}}[:=][ \t]{{0,40}}({_NUMBER})(?![\w.])", re.I
    ),
    "step_time": re.compile(
        rf"(?:elapsed time per iteration \(ms\)|(?:train_)?step_timing in s|step[ _]?time|time per (?:step|iter(?:ation)?))"
        rf"['\"]?[ \t]{{0,40}}[:= ][ \t]{{0,40}}({_NUMBER})",
        re.I,
    ),
    "skipped": re.compile(r"number of skipped iterations: +(\d+)"),
    "nans": re.compile(r"number of nan iterations: +(\d+)"),
    "lr": re.compile(
        rf"(?:learning[ _]rate|(?<!\w)lr)['\"]?[ \t]{{0,40}}[:= ][ \t]{{0,40}}\[?['\"]?({_NUMBER})(?![\w.])", re.I
    ),
}
_STEP = re.compile(
    r"(?:global[_ ]step|(?<!\w)(?:step|iter(?:ation)?|it))['\"]?[ \t]{0,40}[:= ]?[ \t]{0,40}(\d[\d,]*)(?:[ \t]*/[ \t]*(\d[\d,]*))?",
    re.I,
)
_RATE = re.compile(r"(?<![\d.])([\d.]++)[ ]?(s/it|sec/step|s/step|it/s)\b")
_BAR = re.compile(r"\d%\||it/s|s/it|ms/step")
_LONGEST = 1 << 20
"""Bytes of one line that are looked at: a bar that is drawn for hours never ends its line."""
_MOST_UPDATES = 5_000
_MILLISECONDS = re.compile(r"elapsed time per iteration \(ms\)")


@dataclass(slots=True)
class Point:
    """One progress line. Values not printed are ``None``; times in seconds."""

    event: Event
    ts: int
    step: int | None
    total: int | None
    loss: float | None
    grad_norm: float | None
    scale: float | None
    step_time: float | None
    lr: float | None
    nans: int | None


_WORDS = {
    "loss": ("oss", "ce"),
    "grad_norm": ("norm", "Norm", "NORM"),
    "scale": ("scale", "Scale"),
    "step_time": ("time", "timing", "Time"),
    "skipped": ("skipped",),
    "nans": ("nan iterations",),
    "lr": ("lr", "LR", "rate", "Rate"),
}
"""A value is looked for only where one of its words stands in the line, and not before that."""
_BEFORE = 32
"""Characters of a key before its word, at most: ``reduced_training_loss``."""


def progress_points(case: Case) -> list[Point]:
    """The progress lines of a case that hold a value, in time order; read once."""
    points = case.memo.get("detect.progress")
    if points is None:
        points = _points(case, evidence_rows(case, "train.progress"))
        case.memo["detect.progress"] = points
    found: list[Point] = points
    return found


def points_aside(case: Case, job: str | None) -> list[Point]:
    """The progress lines of a job that is not the one judged, in the order of their files."""
    if job is None:
        return []
    rows = case.events.aside("train.progress")
    return _points(case, [event for event in rows if case.sources[event.source].job == job and not event.quoted])


def _points(case: Case, events: list[Event]) -> list[Point]:
    return [
        point for event in events for text in _updates(case, event) if (point := read_point(event, text)) is not None
    ]


def _updates(case: Case, event: Event) -> list[str]:
    """The states of a progress bar that was drawn again and again on one line, or the line itself."""
    if len(_BAR.findall(event.text)) < 2:
        return [event.text]
    raw = case.read(event.source, event.offset, _LONGEST).split(b"\n", 1)[0]
    parts = [part for part in raw.split(b"\r") if part.strip()]
    return [ANSI.sub(b"", part).decode("utf-8", "replace") for part in parts[:_MOST_UPDATES]] or [event.text]


def read_point(event: Event, text: str) -> Point | None:
    """The values of a progress line, or ``None`` if it holds no number of interest."""
    values = {
        name: _value(pattern, text, max(0, min(at) - _BEFORE))
        if (at := [place for word in _WORDS[name] if (place := text.find(word)) >= 0])
        else None
        for name, pattern in _KEYS.items()
    }
    if values["loss"] is None and values["grad_norm"] is None and values["scale"] is None:
        return None
    step = _STEP.search(text)
    time = values["step_time"]
    if time is not None and _MILLISECONDS.search(text):
        time /= 1000.0
    if time is None:
        rate = _RATE.search(text)
        if rate and float(rate[1].rstrip(".") or 0) > 0:
            time = float(rate[1].rstrip(".")) if rate[2] != "it/s" else 1.0 / float(rate[1].rstrip("."))
    nans = values["nans"]
    return Point(
        event,
        event.ts if known(event) else NO_TIME,
        _integer(step[1]) if step else None,
        _integer(step[2]) if step and step[2] else None,
        values["loss"],
        values["grad_norm"],
        values["scale"],
        time,
        values["lr"],
        int(nans) if nans is not None and math.isfinite(nans) else None,
    )


def _value(pattern: re.Pattern[str], text: str, at: int) -> float | None:
    match = pattern.search(text, at)
    if match is None:
        return None
    try:
        return float(match[1].replace(",", ""))
    except ValueError:
        return None


def _integer(text: str) -> int:
    return int(text.replace(",", "")[:15])
