"""All labelled cases at hand: the bundled incidents, the rewordings, and the shared casebook where it stands beside the checkout."""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).resolve().parent.parent


@dataclass
class Labelled:
    """One case with its truth: ``accept`` is empty for a healthy one; ``nodes`` are those that may be blamed."""

    name: str
    origin: str
    accept: list[str]
    files: dict[str, bytes]
    nodes: set[str] = field(default_factory=set)

    @property
    def family(self) -> str:
        return self.accept[0].split(".")[0] if self.accept else "none"

    @contextmanager
    def bundle(self) -> Iterator[Path]:
        """The input files, and nothing else, in a fresh directory."""
        folder = Path(tempfile.mkdtemp(prefix="case-"))
        try:
            for name, data in self.files.items():
                path = folder / name
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(data)
            yield folder
        finally:
            shutil.rmtree(folder)


def labelled_cases() -> list[Labelled]:
    return [*_fixtures(), *_rewordings(), *_casebook()]


def _tree(base: Path) -> dict[str, bytes]:
    return {str(p.relative_to(base)): p.read_bytes() for p in sorted(base.rglob("*")) if p.is_file()}


def _listed(value: Any) -> list[str]:
    return [] if value is None else [str(v) for v in value] if isinstance(value, list) else [str(value)]


def _fixtures() -> Iterator[Labelled]:
    for truth in sorted((ROOT / "fixtures").glob("*/truth.yaml")):
        label = yaml.safe_load(truth.read_text(encoding="utf-8"))["label"]
        healthy = "incident" not in _listed(label["verdict"])
        nodes = set(_listed((label.get("culprit") or {}).get("node"))) | set(_listed(label.get("allow_targets")))
        yield Labelled(
            truth.parent.name,
            "fixtures",
            [] if healthy else label.get("accept_classes", []),
            _tree(truth.parent / "bundle"),
            nodes,
        )


def _rewordings() -> Iterator[Labelled]:
    for path in sorted((ROOT / "tests" / "rewordings" / "cases").glob("*.yaml")):
        for case in yaml.safe_load(path.read_text(encoding="utf-8")) or []:
            expect = case.get("expect") or {}
            healthy = expect.get("verdict") == "no_incident"
            files = {name: text.encode() for name, text in case["files"].items()}
            yield Labelled(
                case["name"],
                "rewordings",
                [] if healthy else _listed(case["class"]),
                files,
                set(_listed(expect.get("node"))),
            )


def _casebook() -> Iterator[Labelled]:
    for path in sorted((ROOT.parent / "shared" / "casebook").glob("*/case.json")):
        case = json.loads(path.read_text(encoding="utf-8"))
        label = case["label"]
        healthy = "incident" not in _listed(label["verdict"])
        nodes = set(_listed((label.get("culprit") or {}).get("node"))) | set(_listed(label.get("allow_targets")))
        files = {name: (path.parent / name).read_bytes() for name in case["files"]}
        yield Labelled(case["id"], "casebook", [] if healthy else label.get("accept_classes", []), files, nodes)
