"""Runs the analysis in front of the reader: stages, a bar, and a plain message when the input cannot be used."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from pathlib import Path

import streamlit as st

from aiops.errors import AiopsError
from aiops.model.report import Report
from aiops.pipeline import analyze_paths
from aiops.report.escape import tag

STAGES = {
    "collect": ("Collecting", 0.00, 0.05),
    "read": ("Reading files", 0.05, 0.30),
    "scan": ("Scanning logs", 0.30, 0.80),
    "detect": ("Detecting signs", 0.80, 0.88),
    "correlate": ("Separating causes from echoes", 0.88, 0.95),
    "report": ("Writing the report", 0.95, 1.00),
}
"""Stage of `aiops.progress.Progress` → words, and the part of the bar that it fills."""

_MIN_INTERVAL_S = 0.1


def overall(stage: str, done: int, total: int) -> float:
    """How much of the whole is done, 0 to 1; an unknown stage counts as the beginning."""
    _, start, end = STAGES.get(stage, ("", 0.0, 0.0))
    share = min(1.0, max(0.0, done / total)) if total > 0 else 0.0
    return start + share * (end - start)


def run(label: str, paths: Sequence[Path], *, hide: Path | None = None) -> Report | None:
    """Analyse with the progress on the screen; on bad input says why and returns ``None``.

    Args:
        label: what is analysed, plain text.
        paths: files or directories.
        hide: directory whose name is left out of messages (where an upload lies).
    """
    place = st.empty()
    with place.status("Analysing", expanded=True) as status:
        st.text(label)
        shown = _Shown()
        try:
            report = analyze_paths(paths, progress=shown)
        except AiopsError as error:
            problem = message(error, hide)
        else:
            shown.finish()
            status.update(label="Analysed", state="complete", expanded=False)
            return report
    place.empty()
    show_problem("This input cannot be analysed", problem)
    return None


def message(error: AiopsError, hide: Path | None) -> str:
    """The reason as plain text, without the directory that the server chose for an upload."""
    text = str(error)
    if hide is not None:
        text = text.replace(f"{hide}/", "").replace(str(hide), "upload")
    return text


def show_problem(title: str, detail: str) -> None:
    """A message about the input; ``detail`` may quote it."""
    st.html(tag("div", tag("strong", title), tag("p", detail), class_="aiops-problem", role="alert"))


class _Shown:
    """The `Progress` of this page: one bar, one line per stage that was seen."""

    def __init__(self) -> None:
        self._thread = threading.get_ident()
        self._bar = st.progress(0.0, text="Starting")
        self._stage = ""
        self._last = 0.0
        self._share = 0.0

    def __call__(self, stage: str, done: int, total: int) -> None:
        now = time.monotonic()
        # Streamlit draws only from the thread of the script; too many messages slow the browser down.
        if threading.get_ident() != self._thread or (stage == self._stage and now - self._last < _MIN_INTERVAL_S):
            return
        self._stage, self._last = stage, now
        self._share = max(self._share, overall(stage, done, total))
        words = STAGES.get(stage, ("Working",))[0]
        self._bar.progress(self._share, text=f"{words} ({done:,} of {total:,})" if total > 1 else words)

    def finish(self) -> None:
        self._bar.progress(1.0, text="Done")
