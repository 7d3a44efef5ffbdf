"""YAML (and so JSON) as nodes that know their line; what is missing or of the wrong type reads as empty."""

from __future__ import annotations

from typing import Any

from aiops.ingest.topology_lines import TopologyFile

_LARGEST = 8 << 20
_MOST_VISITS = 500_000
"""Aliases make a small file large: a reader that sees this many nodes stops."""


class YamlFile:
    """The documents of a file."""

    def __init__(self, file: TopologyFile) -> None:
        self._file = file
        self._visits = 0

    def roots(self) -> list[Any]:
        """Root nodes of all documents that could be read; a problem names the line of the first mistake."""
        import yaml

        if len(self._file.data) > _LARGEST:
            self._file.problem("larger than 8 MiB: not read")
            return []
        loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
        found: list[Any] = []
        try:
            for root in yaml.compose_all(self._file.text().replace("\t", "  "), Loader=loader):
                # appended one by one: the documents before a mistake are kept
                found += [root] if root is not None else []
        except (yaml.YAMLError, RecursionError, ValueError) as error:
            mark = getattr(error, "problem_mark", None)
            reason = getattr(error, "problem", None) or str(error).split("\n")[0]
            self._file.problem(f"not valid YAML: {reason}", mark.line + 1 if mark else None)
        return found

    def items(self, node: Any) -> list[Any]:
        """Nodes of a list."""
        if node is None or node.id != "sequence" or self._spent(len(node.value)):
            return []
        return list(node.value)

    def pairs(self, node: Any) -> dict[str, Any]:
        """Key → node of a mapping; of equal keys the first counts."""
        if node is None or node.id != "mapping" or self._spent(len(node.value)):
            return {}
        found: dict[str, Any] = {}
        for key, value in node.value:
            if key.id == "scalar":
                found.setdefault(key.value, value)
        return found

    def text(self, node: Any) -> str:
        """Text of a scalar; a list of scalars joined by commas, as Slurm writes host lists."""
        if node is None:
            return ""
        if node.id == "scalar":
            return "" if node.tag.endswith(":null") else str(node.value).strip()
        if node.id == "sequence":
            return ",".join(str(item.value).strip() for item in self.items(node) if item.id == "scalar")
        return ""

    @staticmethod
    def line(node: Any) -> int:
        """Line of a node, from 1."""
        return int(node.start_mark.line) + 1

    def _spent(self, more: int) -> bool:
        self._visits += more + 1
        if self._visits - more - 1 <= _MOST_VISITS < self._visits:
            self._file.problem(f"more than {_MOST_VISITS} entries: the rest is left out")
        return self._visits > _MOST_VISITS
