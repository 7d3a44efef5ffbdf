"""From evidence to page: `build` makes the `Report`, the renderers show it.

A renderer is a function ``render(report, **options) -> str``, registered in the entry-point group
``aiops.renderers``; the built-in ones are registered in the same way.
"""

from __future__ import annotations

from collections.abc import Callable

from aiops.errors import InputError

FORMATS = ("text", "json", "md", "html", "slack")
"""Built-in formats; `formats` adds those of other packages."""

_GROUP = "aiops.renderers"


def formats() -> list[str]:
    """Names of all renderers, built-in ones first."""
    from importlib.metadata import entry_points

    return [*FORMATS, *sorted(set(entry_points(group=_GROUP).names) - set(FORMATS))]


def renderer(name: str) -> Callable[..., str]:
    """The function that renders a format; only that renderer is imported.

    Raises:
        InputError: no renderer has this name.
    """
    from importlib.metadata import entry_points

    found = entry_points(group=_GROUP, name=name)
    if not found:
        raise InputError(f"unknown format {name!r}; choose one of {', '.join(formats())}")
    # A package that takes a built-in name does not replace the built-in renderer.
    chosen = min(found, key=lambda entry: (not entry.value.startswith("aiops.report."), entry.value))
    loaded: Callable[..., str] = chosen.load()
    return loaded
