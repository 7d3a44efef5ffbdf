"""One file about topology: its lines as evidence, its problems by line, its edges into the case."""

from __future__ import annotations

import re

from aiops.ingest.hostlist import HostlistError, expand_hostlist
from aiops.model.case import Case, Problem, Source
from aiops.model.domains import Domain, Edge
from aiops.model.entity import is_host_name
from aiops.model.finding import EvidenceRef

_MOST_PROBLEMS = 20
_MOST_EDGES = 500_000
_TEXT = 400
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]")


class TopologyFile:
    """Where readers put what they find. Line numbers count from 1."""

    def __init__(self, source: Source, data: bytes, case: Case) -> None:
        self.source = source
        self.data = data
        self.case = case
        self._starts: list[int] | None = None
        self._problems = 0
        self._edges = 0
        self._nodes: set[str] = set()

    def text(self) -> str:
        """The content; broken bytes are replaced."""
        return self.data.decode("utf-8", "replace")

    def problem(self, reason: str, line: int | None = None) -> None:
        """Name what could not be read; the first few one by one."""
        self._problems += 1
        if self._problems <= _MOST_PROBLEMS:
            self.case.coverage.problems.append(Problem(self.source.name, reason, line))

    def proof(self, line: int) -> EvidenceRef:
        """The line as evidence."""
        if self._starts is None:
            self._starts = [0, *(match.end() for match in re.finditer(rb"\n", self.data))]
        begin = self._starts[line - 1] if 0 < line <= len(self._starts) else 0
        end = self.data.find(b"\n", begin)
        raw = self.data[begin : end if end >= 0 else len(self.data)][: 4 * _TEXT]
        said = " ".join(_CONTROL.sub(" ", raw.decode("utf-8", "replace")).split())
        return EvidenceRef(self.source.name, line, begin, said if len(said) <= _TEXT else said[: _TEXT - 1] + "…")

    def node(self, name: str, domain: Domain, proof: EvidenceRef, port: str | None = None) -> None:
        """A node hangs on a domain."""
        if not is_host_name(name):
            self.problem(f"{name[:80]!r} is no host name", proof.line)
            return
        if self._add(Edge(name, domain, proof, port)):
            self._nodes.add(name)

    def nodes(self, hostlist: str, domain: Domain, proof: EvidenceRef) -> None:
        """The nodes of a host list hang on a domain."""
        try:
            names = expand_hostlist(hostlist)
        except HostlistError as error:
            self.problem(f"node list not understood: {error}", proof.line)
            return
        for name in names:
            self.node(name, domain, proof)

    def link(self, child: Domain, parent: Domain, proof: EvidenceRef) -> None:
        """A domain hangs on another one."""
        self._add(Edge(child, parent, proof))

    def _add(self, edge: Edge) -> bool:
        self._edges += 1
        if self._edges > _MOST_EDGES:
            if self._edges == _MOST_EDGES + 1:
                self.problem(f"more than {_MOST_EDGES} edges: the rest is left out", edge.proof.line)
            return False
        self.case.topology.tree.add(edge)
        return True

    def finish(self) -> None:
        """Tell of problems that were not named one by one, and of nodes with two parents where there can be one."""
        if self._problems > _MOST_PROBLEMS:
            hidden = self._problems - _MOST_PROBLEMS
            self.case.coverage.problems.append(Problem(self.source.name, f"{hidden} more parts are malformed"))


def clean_name(text: str) -> str | None:
    """A domain's name: printable, not empty, not endless."""
    name = " ".join(_CONTROL.sub(" ", text).split())
    return name if 0 < len(name) <= 128 else None
