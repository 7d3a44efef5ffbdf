"""The whole run: find the bundles, skip what is finished, analyse the rest, write the table and the summary.

Layout of the output directory::

    reports/<id>.json   one report per bundle, written when it is finished
    journal.jsonl       one line per bundle that was worked on: seconds, error
    results.parquet     one row per bundle
    summary.md          for people
"""

from __future__ import annotations

import contextlib
import fcntl
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from aiops.config import Settings
from aiops.errors import InputError
from aiops.progress import Progress, silent
from aiops.triage.bundles import Bundle, find_bundles
from aiops.triage.pool import run_pool
from aiops.triage.rows import Row, row_of
from aiops.triage.summary import summarize
from aiops.triage.table import write_table
from aiops.triage.task import Outcome, Task, write_atomically

TIMEOUT = 1800.0
"""Seconds after which a bundle is given up, so that one that hangs does not hold the others."""


@dataclass(frozen=True, slots=True)
class Failure:
    """A bundle that could not be analysed."""

    bundle: str
    error: str


@dataclass(frozen=True, slots=True)
class TriageResult:
    """What a run did and where it left it."""

    out: Path
    bundles: int
    analysed: int
    """Bundles analysed now."""
    resumed: int
    """Bundles whose report was there already."""
    incidents: int
    inconclusive: int
    failures: tuple[Failure, ...]
    results: Path
    """Parquet, see `rows.Row` for the columns."""
    summary: Path
    """Markdown."""
    rows: tuple[Row, ...] = field(repr=False, default=())


def triage(
    paths: Sequence[Path],
    out: Path,
    *,
    settings: Settings | None = None,
    jobs: int | None = None,
    resume: bool = True,
    progress: Progress = silent,
    each: bool | None = None,
    timeout: float = TIMEOUT,
) -> TriageResult:
    """Analyse many bundles and write ``results.parquet`` and ``summary.md`` to ``out``.

    A bundle that cannot be read, kills its worker or takes longer than ``timeout`` seconds is recorded and the others
    go on; the next run tries it again. Killing the run at any moment loses nothing that is finished.

    Args:
        paths: bundles, or directories of bundles; see `bundles` for the rule and ``each`` to overrule it.
        jobs: worker processes; the number of usable processors if ``None``.
        resume: take finished reports of unchanged bundles as they are.
        progress: called with ``("triage", done, total)`` in bundles.

    Raises:
        InputError: no bundle exists, ``out`` cannot be written, or another run is writing to it.
    """
    settings = settings or Settings.from_environment()
    bundles = find_bundles(paths, each=each, salt=_salt(settings))
    if all(bundle.missing for bundle in bundles):
        names = ", ".join(bundle.name for bundle in bundles[:3])
        raise InputError(f"no such file or directory: {names}" if names else "no bundle was named")
    with _locked(out):
        reports = out / "reports"
        reports.mkdir(exist_ok=True)
        for leftover in reports.glob(".*.tmp"):
            leftover.unlink(missing_ok=True)
        finished = _finished(bundles, reports) if resume else {}
        todo = sorted((b for b in bundles if b.id not in finished), key=lambda b: (-b.size, b.name))
        outcomes = _analyse(todo, out, settings, jobs, timeout, progress, len(finished))
        seconds = _seconds(out / "journal.jsonl")
        rows = [_row(bundle, out, outcomes.get(bundle.id), seconds.get(bundle.id)) for bundle in bundles]
        result = TriageResult(
            out=out,
            bundles=len(rows),
            analysed=sum(o.error is None for o in outcomes.values()),
            resumed=len(finished),
            incidents=sum(row.verdict == "incident" for row in rows),
            inconclusive=sum(row.verdict == "inconclusive" for row in rows),
            failures=tuple(Failure(row.bundle, row.error) for row in rows if row.error is not None),
            results=out / "results.parquet",
            summary=out / "summary.md",
            rows=tuple(rows),
        )
        write_table(rows, result.results)
        write_atomically(result.summary, summarize(rows).encode("utf-8", "backslashreplace"))
        return result


def _analyse(
    todo: Sequence[Bundle],
    out: Path,
    settings: Settings,
    jobs: int | None,
    timeout: float,
    progress: Progress,
    done: int,
) -> dict[str, Outcome]:
    import orjson

    outcomes = {bundle.id: Outcome(bundle.id, 0.0, "no such file or directory") for bundle in todo if bundle.missing}
    present = [bundle for bundle in todo if not bundle.missing]
    tasks = [Task(bundle.id, bundle.path, out / "reports" / f"{bundle.id}.json", settings) for bundle in present]
    names = {bundle.id: bundle.name for bundle in present}
    total = done + len(tasks)
    progress("triage", done, total)
    with (out / "journal.jsonl").open("ab") as journal:
        # A run that was killed may have left half a line; a newline keeps the next one apart from it.
        journal.write(b"\n")
        pool = run_pool(tasks, max(1, min(jobs or _processors(), len(tasks))), timeout)
        with contextlib.closing(pool):
            for outcome in pool:
                outcomes[outcome.id] = outcome
                line = {
                    "id": outcome.id,
                    "bundle": names[outcome.id],
                    "seconds": round(outcome.seconds, 3),
                    "error": outcome.error,
                }
                journal.write(orjson.dumps(_utf8(line), option=orjson.OPT_APPEND_NEWLINE))
                journal.flush()
                done += 1
                progress("triage", done, total)
    return outcomes


def _row(bundle: Bundle, out: Path, outcome: Outcome | None, seconds: float | None) -> Row:
    if outcome is not None and outcome.error is not None:
        return Row(bundle=bundle.name, error=outcome.error, seconds=round(outcome.seconds, 3))
    row = _load(bundle, out / "reports", seconds)
    return row or Row(bundle=bundle.name, error="its report was removed or damaged while the run went on")


def _finished(bundles: Sequence[Bundle], reports: Path) -> dict[str, None]:
    return {b.id: None for b in bundles if _load(b, reports) is not None}


_DAMAGED = (OSError, ValueError, LookupError, TypeError, AttributeError, OverflowError)
"""What a report can raise that an edit or a full disk has broken at any place."""


def _load(bundle: Bundle, reports: Path, seconds: float | None = None) -> Row | None:
    """Row of a finished bundle, or ``None`` if its report is not there or is damaged (a full disk, a hand edit)."""
    import orjson

    try:
        report = orjson.loads((reports / f"{bundle.id}.json").read_bytes())
        if report["schema"] != "aiops.report/v1":
            return None
        return row_of(bundle.name, report, path=f"reports/{bundle.id}.json", seconds=seconds)
    except _DAMAGED:
        return None


def _seconds(journal: Path) -> dict[str, float]:
    """Wall time of the last successful analysis of each bundle; broken lines are passed over."""
    import orjson

    seconds: dict[str, float] = {}
    for line in journal.read_bytes().split(b"\n"):
        try:
            entry = orjson.loads(line)
            if entry["error"] is None:
                seconds[entry["id"]] = float(entry["seconds"])
        except (orjson.JSONDecodeError, KeyError, TypeError):
            continue
    return seconds


@contextlib.contextmanager
def _locked(out: Path) -> Iterator[None]:
    """Own the output directory; the lock goes with the process, however it ends.

    Raises:
        InputError: the directory cannot be made or written, or another run holds it.
    """
    try:
        out.mkdir(parents=True, exist_ok=True)
        handle = (out / ".lock").open("a+")
    except OSError as error:
        raise InputError(f"cannot write here: {error.strerror}", path=str(out)) from error
    with handle:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            handle.seek(0)
            owner = handle.read(20).strip()
            who = f" (process {owner})" if owner.isdigit() else ""
            raise InputError(
                f"another triage is writing here{who}; wait for it or choose another directory", path=str(out)
            ) from error
        handle.seek(0)
        handle.truncate()
        handle.write(f"{os.getpid()}\n")
        handle.flush()
        yield


def _salt(settings: Settings) -> str:
    """What else than the bundle decides the report: the product's version and the settings of the analysis."""
    from importlib.metadata import PackageNotFoundError, version

    try:
        release = version("aiops")
    except PackageNotFoundError:  # run from a source tree that is not installed
        release = "source"
    site = [
        (str(path), sorted((str(f), f.stat().st_mtime_ns) for f in path.rglob("*.yaml")))
        for path in settings.catalog_dirs
    ]
    return repr((release, site, settings.limits, settings.gpu_hour_price))


def _processors() -> int:
    return len(os.sched_getaffinity(0))


def _utf8(line: dict[str, Any]) -> dict[str, Any]:
    """File names may hold bytes that are no UTF-8; JSON may not."""
    return {
        key: value.encode("utf-8", "backslashreplace").decode() if isinstance(value, str) else value
        for key, value in line.items()
    }
