"""How long work tells a person how far it is, without knowing who shows it."""

from __future__ import annotations

from typing import Protocol


class Progress(Protocol):
    """Called now and then with the stage's name and how much of it is done."""

    def __call__(self, stage: str, done: int, total: int) -> None:
        """``stage`` is one of ``collect read scan detect correlate report triage``; counts are bytes or items."""


def silent(stage: str, done: int, total: int) -> None:
    """The `Progress` that shows nothing."""
