"""The work on one bundle. The same function runs in a local pool and on any other executor."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from pathlib import Path

from aiops.config import Settings
from aiops.errors import AiopsError


@dataclass(frozen=True, slots=True)
class Task:
    """Analyse ``path`` and leave the report at ``report``."""

    id: str
    path: Path
    report: Path
    settings: Settings


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of a task; ``error`` is ``None`` if the report was written."""

    id: str
    seconds: float
    error: str | None = None


def run_task(task: Task) -> Outcome:
    """Analyse one bundle and write its report atomically. Never raises on account of the bundle."""
    from aiops.pipeline import analyze_paths

    started = time.perf_counter()
    error = None
    try:
        write_atomically(task.report, analyze_paths([task.path], task.settings).to_json())
    except AiopsError as problem:
        error = str(problem)
    except Exception as problem:  # noqa: BLE001 - a bundle that breaks the analysis is a result, not the end of the run
        error = f"{type(problem).__name__}: {problem}"
    return Outcome(id=task.id, seconds=time.perf_counter() - started, error=error)


def write_atomically(path: Path, data: bytes) -> None:
    """Replace a file so that a reader or a kill never sees half of it."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        with temporary.open("wb") as handle:
            handle.write(data)
            handle.flush()
            os.fsync(handle.fileno())
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)
