"""The incidents that can be opened without an upload: the bundled ones, and paths given to the launcher."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import yaml

from aiops.resources import resource


@dataclass(frozen=True, slots=True)
class Bundle:
    """Something on this machine that may be analysed by its key; the key is what a link carries."""

    key: str
    title: str
    story: str
    path: Path


def bundled() -> dict[str, Bundle]:
    """The incidents that come with the product, by directory name.

    Raises:
        aiops.errors.AiopsError: the installation is not whole.
    """
    found: dict[str, Bundle] = {}
    for truth in sorted(resource("fixtures").glob("*/truth.yaml")):
        content = truth.parent / "bundle"
        if content.exists():
            words = yaml.safe_load(truth.read_text(encoding="utf-8")) or {}
            key = truth.parent.name
            found[key] = Bundle(key, str(words.get("title", key)), str(words.get("story", "")), content)
    return found


def given(arguments: Sequence[str] | None = None) -> dict[str, Bundle]:
    """The paths after ``--`` on the server's command line, by a key made of position and name."""
    found: dict[str, Bundle] = {}
    for position, argument in enumerate(sys.argv[1:] if arguments is None else arguments, 1):
        path = Path(argument)
        if path.is_absolute() and path.exists():
            bundle = Bundle(f"case-{position}", path.name, str(path), path)
            found[bundle.key] = bundle
    return found


def find(key: str) -> Bundle | None:
    """The bundle of a key, ``None`` for a key that is not on offer."""
    return given().get(key) or bundled().get(key)
