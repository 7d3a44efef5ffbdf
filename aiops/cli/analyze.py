"""``aiops analyze``: the main job."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from aiops.errors import InputError

if TYPE_CHECKING:
    from aiops.model.report import Report


def analyze(
    paths: Annotated[
        list[str], typer.Argument(metavar="PATH...", help="Directories, files or archives; - reads standard input.")
    ],
    format: Annotated[str, typer.Option("--format", "-f", help="text, json, md, html or slack.")] = "text",
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="Write to this file instead of standard output.")
    ] = None,
    html: Annotated[Path | None, typer.Option("--html", help="Write the HTML page as well.")] = None,
    catalog: Annotated[
        list[Path] | None, typer.Option("--catalog", help="Directory with a site's own signals and classes.")
    ] = None,
    price: Annotated[float | None, typer.Option("--gpu-hour-price", help="Price of a GPU-hour, for the cost.")] = None,
    llm: Annotated[
        bool, typer.Option("--llm", help="Let a model write the narrative (AIOPS_LLM_MODEL, AIOPS_LLM_BASE_URL).")
    ] = False,
    llm_model: Annotated[str | None, typer.Option("--llm-model", help="Model for --llm.")] = None,
    llm_url: Annotated[str | None, typer.Option("--llm-url", help="OpenAI-compatible endpoint for --llm.")] = None,
    explain_ingest: Annotated[
        bool, typer.Option("--explain-ingest", help="Say how each file was read, and give no verdict.")
    ] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No progress on standard error.")] = False,
) -> None:
    """Name the cause of a failed job, prove it, and say what to do.

    Exit code: 0 no incident, 10 incident, 11 inconclusive, 2 bad input, 3 a source failed.
    """
    from aiops.cli import show
    from aiops.config import Settings, parse_price
    from aiops.pipeline import analyze_paths
    from aiops.report import renderer

    render = renderer(format)
    settings = Settings.from_environment()
    settings = replace(
        settings,
        catalog_dirs=(*settings.catalog_dirs, *(catalog or ())),
        gpu_hour_price=settings.gpu_hour_price if price is None else parse_price(str(price), "--gpu-hour-price"),
    )
    if explain_ingest:
        from aiops.ingest import open_case
        from aiops.ingest.explain import explain

        with show.progress(quiet=quiet) as progress, open_case(paths, settings, progress) as case:
            text = explain(case)
        if out:
            _write(out, text)
        else:
            show.write(text)
        raise typer.Exit(0)
    with show.progress(quiet=quiet) as progress:
        report = analyze_paths(paths, settings, progress)
    if llm or llm_model:
        report = _narrate(report, llm_model, llm_url)
    if html:
        _write(html, renderer("html")(report))
    if out:
        _write(out, _rendered(render, format, report, terminal=False))
    else:
        show.write(_rendered(render, format, report, terminal=True))
    raise typer.Exit(report.exit_code)


def _rendered(render: object, format: str, report: Report, *, terminal: bool) -> str:
    from aiops.cli import show

    assert callable(render)
    if format == "text":
        text: str = render(
            report, width=show.width(), color=terminal and show.color_wanted(), unicode=show.unicode_wanted()
        )
        return text
    plain: str = render(report)
    return plain


def _narrate(report: Report, model: str | None, url: str | None) -> Report:
    from aiops.copilot import CopilotOptions, narrate

    return narrate(report, CopilotOptions.from_environment(model=model, base_url=url))


def _write(path: Path, text: str) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise InputError(f"cannot be written: {error.strerror}", path=str(path)) from None
