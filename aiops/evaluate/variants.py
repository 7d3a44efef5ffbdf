"""A bundled incident, its clean twin and its decoy, each as a directory of files.

The twin and the decoy are written as what differs from ``bundle/``: files in ``clean/`` or ``decoy/`` that add to it or
replace one of it, and the changes that ``variants.yaml`` lists (see ``docs/fixtures.md``).
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from aiops.errors import InputError

VARIANTS = ("bundle", "clean", "decoy")


@dataclass(frozen=True, slots=True)
class Variant:
    """How ``clean`` or ``decoy`` differs from the bundle, apart from the files in its directory."""

    story: str
    remove: tuple[str, ...]
    """Paths of the bundle that it lacks."""
    edit: Mapping[str, list[Mapping[str, Any]]]
    """Path → changes of that file, in order."""


def load_variants(fixture: Path) -> dict[str, Variant]:
    """Read ``variants.yaml`` of a fixture.

    Raises:
        InputError: the file is missing, is no YAML, lacks a variant or its story, or has an unknown key.
    """
    import yaml

    path = fixture / "variants.yaml"
    try:
        data = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise InputError(f"no readable variants: {error}", path=str(path)) from error
    if not isinstance(data, dict) or set(data) != set(VARIANTS[1:]):
        raise InputError("needs exactly 'clean' and 'decoy'", path=str(path))
    found: dict[str, Variant] = {}
    for name, said in data.items():
        if not isinstance(said, dict) or not isinstance(said.get("story"), str):
            raise InputError(f"{name} needs a 'story'", path=str(path))
        strange = sorted(set(said) - {"story", "remove", "edit"})
        if strange:
            raise InputError(f"unknown key in {name}: {', '.join(strange)}", path=str(path))
        found[name] = Variant(" ".join(said["story"].split()), tuple(said.get("remove") or ()), said.get("edit") or {})
    return found


def materialise(fixture: Path, variant: str, target: Path) -> Path:
    """Write the files of ``bundle``, ``clean`` or ``decoy`` into ``target``, which must not exist; returns ``target``.

    Raises:
        InputError: there is no such variant, or a change does not fit the file that it is for.
    """
    if variant not in VARIANTS:
        raise InputError(f"{variant!r} is none of {', '.join(VARIANTS)}", path=str(fixture))
    shutil.copytree(fixture / "bundle", target)
    if variant == "bundle":
        return target
    change = load_variants(fixture)[variant]
    where = str(fixture / "variants.yaml")
    for name in change.remove:
        if not (target / name).is_file():
            raise InputError(f"{variant} removes {name}, which is not in the bundle", path=where)
        (target / name).unlink()
    for name, steps in change.edit.items():
        if not (target / name).is_file():
            raise InputError(f"{variant} edits {name}, which is not in the bundle", path=where)
        text = (target / name).read_bytes().decode("utf-8", "surrogateescape")
        for step in steps:
            try:
                text = _edited(text, step)
            except InputError as error:
                raise InputError(f"{variant}, {name}: {error.reason}", path=where) from None
        (target / name).write_bytes(text.encode("utf-8", "surrogateescape"))
    if (fixture / variant).is_dir():
        shutil.copytree(fixture / variant, target, dirs_exist_ok=True)
    return target


def _edited(text: str, step: Mapping[str, Any]) -> str:
    """One change; every text that it names must be there, so that a variant cannot outlive its bundle."""
    for verb, change in _VERBS.items():
        if verb in step:
            return change(text, step)
    raise InputError(f"no change that is known: {step!r}")


def _drop(text: str, step: Mapping[str, Any]) -> str:
    """``drop: TEXT`` or a list: every line that contains one of them goes."""
    lines = text.splitlines(keepends=True)
    for part in [step["drop"]] if isinstance(step["drop"], str) else step["drop"]:
        kept = [line for line in lines if part not in line]
        if len(kept) == len(lines):
            raise InputError(f"no line with {part!r}")
        lines = kept
    return "".join(lines)


def _cut(text: str, step: Mapping[str, Any]) -> str:
    """``cut_from: TEXT``, ``to: TEXT``: the first line with the one up to the next with the other (kept), or the end."""
    lines = text.splitlines(keepends=True)
    start = _line(lines, step["cut_from"], 0)
    end = _line(lines, step["to"], start + 1) if "to" in step else len(lines)
    return "".join(lines[:start] + lines[end:])


def _replace(text: str, step: Mapping[str, Any]) -> str:
    """``replace: {OLD: NEW}``: every occurrence, several lines at a time if OLD has them."""
    for old, new in step["replace"].items():
        if old not in text:
            raise InputError(f"nowhere {old!r}")
        text = text.replace(old, new)
    return text


def _sub(text: str, step: Mapping[str, Any]) -> str:
    """``sub: {REGEX: NEW}``, ``in: TEXT``: in every line, or in those that contain the text."""
    lines = text.splitlines(keepends=True)
    for pattern, new in step["sub"].items():
        done = [re.sub(pattern, new, line) if step.get("in", "") in line else line for line in lines]
        if done == lines:
            raise InputError(f"nothing like {pattern!r}")
        lines = done
    return "".join(lines)


def _insert(text: str, step: Mapping[str, Any]) -> str:
    """``insert: LINES``, ``before: TEXT``: ahead of the first line that contains it, or at the end without ``before``."""
    lines = text.splitlines(keepends=True)
    new = str(step["insert"]).rstrip("\n") + "\n"
    if "before" in step:
        at = _line(lines, step["before"], 0)
        return "".join([*lines[:at], new, *lines[at:]])
    return text + ("" if text.endswith("\n") or not text else "\n") + new


def _line(lines: list[str], part: str, start: int) -> int:
    for number in range(start, len(lines)):
        if part in lines[number]:
            return number
    raise InputError(f"no line with {part!r}" + (" after that" if start else ""))


_VERBS: dict[str, Callable[[str, Mapping[str, Any]], str]] = {
    "drop": _drop,
    "cut_from": _cut,
    "replace": _replace,
    "sub": _sub,
    "insert": _insert,
}
