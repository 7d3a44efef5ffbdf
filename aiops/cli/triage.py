"""``aiops triage``: years of failures in one batch."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

_PACKED = frozenset({".gz", ".tgz", ".tar", ".zip", ".zst", ".xz", ".bz2"})


def triage(
    paths: Annotated[
        list[Path], typer.Argument(metavar="DIR...", help="Bundles, or directories that hold one bundle each.")
    ],
    out: Annotated[
        Path, typer.Option("--out", "-o", help="Directory for reports, results.parquet and summary.md.")
    ] = Path("triage"),
    jobs: Annotated[
        int | None, typer.Option("--jobs", "-j", min=1, help="Worker processes; default: the processors.")
    ] = None,
    each: Annotated[
        bool | None, typer.Option("--each/--whole", help="Every entry of DIR is a bundle / DIR itself is one.")
    ] = None,
    fresh: Annotated[bool, typer.Option("--fresh", help="Analyse everything again.")] = False,
    catalog: Annotated[
        list[Path] | None, typer.Option("--catalog", help="Directory with a site's own entries.")
    ] = None,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No progress on standard error.")] = False,
) -> None:
    """Analyse many bundles; resumes where it stopped, and one bad bundle never stops the rest."""
    from dataclasses import replace

    from aiops.cli import show
    from aiops.config import Settings
    from aiops.triage import triage as run

    settings = Settings.from_environment()
    settings = replace(settings, catalog_dirs=(*settings.catalog_dirs, *(catalog or ())))
    with show.progress(quiet=quiet) as progress:
        result = run(paths, out, settings=settings, jobs=jobs, resume=not fresh, each=each, progress=progress)
    if each is None:
        for path in paths:
            inside = [p for p in path.iterdir() if p.is_dir() or p.suffix in _PACKED] if path.is_dir() else []
            if len(inside) > 1 and result.bundles <= len(paths):
                sys.stderr.write(
                    f"aiops: {show.plain(str(path))} holds files beside its {len(inside)} directories and archives, so it was "
                    "taken as one bundle; with --each every entry is one\n"
                )
    if result.resumed:
        sys.stderr.write(f"aiops: {result.resumed} of {result.bundles} bundles were finished before\n")
    show.write(result.summary.read_text(encoding="utf-8"))
