"""``aiops demo``: the bundled incidents, for a first look without own data."""

from __future__ import annotations

from typing import Annotated

import typer

from aiops.errors import InputError


def demo(
    name: Annotated[str | None, typer.Argument(help="A bundled incident; without it they are listed.")] = None,
    format: Annotated[str, typer.Option("--format", "-f", help="text, json, md, html or slack.")] = "text",
) -> None:
    """Analyze a bundled incident, or list them."""
    from aiops.cli import show
    from aiops.cli.analyze import analyze
    from aiops.evaluate import load_truth
    from aiops.resources import resource

    bundles = {path.parent.name: path for path in sorted(resource("fixtures").glob("*/truth.yaml"))}
    if name is None:
        width = max(map(len, bundles))
        show.write("\n".join(f"{known:{width}}  {load_truth(path).title}" for known, path in bundles.items()))
    elif name in bundles:
        analyze([str(bundles[name].parent / "bundle")], format=format)
    else:
        raise InputError(f"no bundled incident is called {show.plain(name)!r}; 'aiops demo' lists them")
