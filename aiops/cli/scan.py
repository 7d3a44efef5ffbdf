"""``aiops scan``: every event of some logs as JSON lines."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def scan(
    paths: Annotated[
        list[str], typer.Argument(metavar="PATH...", help="Directories, files or archives; - reads standard input.")
    ],
    catalog: Annotated[
        list[Path] | None, typer.Option("--catalog", help="Directory with a site's own signals.")
    ] = None,
    kind: Annotated[list[str] | None, typer.Option("--kind", help="Only these kinds, for example gpu.xid.")] = None,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No progress on standard error.")] = False,
) -> None:
    """Print every event, one JSON object a line: ts, source, entity, kind, severity, fields, locator, text.

    Quoted text (samples, prompts, logs inside logs) is marked with "quoted": true.
    """
    import sys
    from dataclasses import replace

    import orjson

    from aiops.cli import show
    from aiops.config import Settings
    from aiops.ingest import open_case
    from aiops.ingest.events import event_records

    settings = Settings.from_environment()
    limits = replace(settings.limits, events_per_rule=1 << 62)
    settings = replace(settings, catalog_dirs=(*settings.catalog_dirs, *(catalog or ())), limits=limits)
    wanted = set(kind or ())
    with show.progress(quiet=quiet) as progress, open_case(paths, settings, progress) as case:
        for record in event_records(case):
            if not wanted or record["kind"] in wanted:
                sys.stdout.buffer.write(orjson.dumps(record, option=orjson.OPT_APPEND_NEWLINE))
        for problem in case.coverage.problems:
            sys.stderr.write(f"aiops: {show.plain(problem.source)}: {show.plain(problem.reason)}\n")
    sys.stdout.buffer.flush()
