"""``aiops dashboard`` and ``aiops schema``."""

from __future__ import annotations

from typing import Annotated

import typer


def dashboard(
    paths: Annotated[
        list[str] | None, typer.Argument(metavar="[PATH...]", help="Bundles to offer beside the bundled ones.")
    ] = None,
    host: Annotated[
        str, typer.Option("--host", help="Address to listen on; beyond loopback a token is required.")
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option("--port", min=0, max=65535, help="Port; 0 takes a free one.")] = 8501,
    browser: Annotated[bool, typer.Option("--browser/--no-browser", help="Open a browser window.")] = False,
) -> None:
    """Serve the dashboard: drop a bundle, watch the analysis, read the incident."""
    from aiops.dashboard import run

    raise typer.Exit(run(host, port, browser, paths=paths or ()))


def schema() -> None:
    """Print the JSON Schema of the report."""
    from aiops.cli import show
    from aiops.report.schema import report_schema

    show.write(report_schema())
