"""A room imports only from rooms to its left in the corridor and from the shared ones."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

ORDER = [
    "errors",
    "loopback",
    "resources",
    "progress",
    "model",
    "config",
    "redaction",
    "catalog",
    "scan",
    "ingest",
    "sources",
    "detect",
    "correlate",
    "recommend",
    "copilot",
    "report",
    "pipeline",
    "slack",
    "evaluate",
    "triage",
    "dashboard",
    "cli",
    "__main__",
]
ALLOWED = {
    # names the report's vocabulary, which lives in model; the types of a plan stand left of the report
    "catalog": {"scan"},  # the linter proves that each pattern compiles in the scanner
}


def rooms(root: Path) -> dict[str, list[Path]]:
    package = root / "aiops"
    found: dict[str, list[Path]] = {}
    for path in sorted(package.rglob("*.py")):
        parts = path.relative_to(package).parts
        found.setdefault(parts[0].removesuffix(".py"), []).append(path)
    found.pop("__init__", None)
    return found


def imported_rooms(path: Path) -> set[str]:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    names: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("aiops"):
            parts = node.module.split(".")
            names |= {parts[1]} if len(parts) > 1 else {alias.name for alias in node.names}
        elif isinstance(node, ast.Import):
            names |= {alias.name.split(".")[1] for alias in node.names if alias.name.startswith("aiops.")}
    return names - {"__version__"}


def test_every_room_stands_in_the_corridor(root: Path) -> None:
    assert set(rooms(root)) <= set(ORDER)


@pytest.mark.parametrize("room", ORDER)
def test_rooms_look_left_only(room: str, root: Path) -> None:
    left = set(ORDER[: ORDER.index(room) + 1]) | ALLOWED.get(room, set())
    for path in rooms(root).get(room, []):
        assert imported_rooms(path) <= left, f"{path.relative_to(root)} imports {sorted(imported_rooms(path) - left)}"


def test_no_module_unpickles_or_evaluates(root: Path) -> None:
    for paths in rooms(root).values():
        for path in paths:
            tree = ast.parse(path.read_text(encoding="utf-8"))
            for node in ast.walk(tree):
                if isinstance(node, (ast.Import, ast.ImportFrom)):
                    names = [alias.name for alias in node.names] + [getattr(node, "module", None) or ""]
                    assert not {"pickle", "marshal", "shelve", "dill"} & set(names), path
                if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
                    assert node.func.id not in ("eval", "exec", "compile", "__import__"), path
