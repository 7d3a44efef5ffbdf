"""``aiops collect``: save what a live system knows as a case directory."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

app = typer.Typer(
    no_args_is_help=True, help="Save what a live system knows about a window, to be analysed now or later."
)


@app.command("prometheus")
def prometheus(
    url: Annotated[str, typer.Option("--url", help="Base URL of the Prometheus API.")],
    start: Annotated[str, typer.Option("--start", help="RFC 3339, Unix seconds, or such as now-2h.")],
    end: Annotated[str, typer.Option("--end", help="Likewise.")] = "now",
    out: Annotated[Path, typer.Option("--out", "-o", help="Case directory to make.")] = Path("case"),
    step: Annotated[str | None, typer.Option("--step", help="Time between samples, such as 30s.")] = None,
    match: Annotated[
        list[str] | None, typer.Option("--match", help='Label matcher, such as Hostname=~"gx-.*"; may be repeated.')
    ] = None,
    timeout: Annotated[float, typer.Option("--timeout", help="Seconds that one answer may take.")] = 30.0,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No progress on standard error.")] = False,
) -> None:
    """DCGM series of a window from a live Prometheus. A bearer token is read from AIOPS_PROMETHEUS_TOKEN."""
    import os

    from aiops.cli import show
    from aiops.sources.prometheus import collect

    with show.progress(quiet=quiet) as progress:
        path = collect(
            url,
            start,
            end,
            out,
            step=step,
            match=match,
            timeout=timeout,
            token=os.environ.get("AIOPS_PROMETHEUS_TOKEN") or None,
            progress=progress,
        )
    show.write(f"saved to {show.plain(str(path))}; next: aiops analyze {show.plain(str(path))}")
