"""What nodes hang on: switches, NVLink domains, racks, power feeds. One tree with the source of each edge."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import StrEnum

from aiops.model.finding import EvidenceRef


class Hierarchy(StrEnum):
    """What nodes of a domain share. A node stands in several hierarchies, and may have several parents in one (rails)."""

    NETWORK = "network"
    NVLINK = "nvlink"
    POWER = "power"
    PHYSICAL = "physical"


@dataclass(frozen=True, slots=True, order=True)
class Domain:
    """A thing that several nodes hang on."""

    hierarchy: Hierarchy
    kind: str
    """``switch``, ``block``, ``nvlink domain``, ``rack``, ``row``, ``PDU``, ``zone``, …"""
    name: str

    def __str__(self) -> str:
        return f"{self.kind} {self.name}"


@dataclass(frozen=True, slots=True)
class Edge:
    """A node or a domain hangs on a domain, and a file says so."""

    child: str | Domain
    """The name of a node, or a domain of the same hierarchy."""
    parent: Domain
    proof: EvidenceRef
    port: str | None = None
    """The NIC of the node that leads there, where the source tells."""


@dataclass(slots=True)
class DomainTree:
    """All edges of a case. Cycles in the input do no harm; they only make domains equal."""

    edges: list[Edge] = field(default_factory=list)
    stated: set[tuple[str | Domain, Hierarchy, str]] = field(default_factory=set)
    """(child, hierarchy, kind of parent) that a person has stated: other sources say nothing about it any more."""
    _seen: set[tuple[str | Domain, Domain, str | None]] = field(default_factory=set, repr=False)
    _members: dict[Domain, frozenset[str]] = field(default_factory=dict, repr=False)
    _up: dict[str | Domain, list[Edge]] = field(default_factory=dict, repr=False)
    _down: dict[Domain, list[Edge]] = field(default_factory=dict, repr=False)
    _short: dict[str, set[str]] = field(default_factory=dict, repr=False)

    def add(self, edge: Edge) -> None:
        """Add an edge; the first source of the same edge counts."""
        key = (edge.child, edge.parent, edge.port)
        if key in self._seen or edge.child == edge.parent:
            return
        if (edge.child, edge.parent.hierarchy, edge.parent.kind) in self.stated:
            return
        self._seen.add(key)
        self.edges.append(edge)
        self._up.setdefault(edge.child, []).append(edge)
        self._down.setdefault(edge.parent, []).append(edge)
        if isinstance(edge.child, str):
            self._short.setdefault(edge.child.split(".", 1)[0], set()).add(edge.child)
        self._members.clear()

    def state(self, edges: Iterable[Edge]) -> None:
        """Add what stands above all other sources."""
        for edge in edges:
            self.add(edge)
        self.stated.update((edge.child, edge.parent.hierarchy, edge.parent.kind) for edge in self.edges)

    def node(self, name: str | None) -> str | None:
        """The tree's name of a node: as written, or the one node of the same name without its DNS domain."""
        if name is None:
            return None
        if name in self._up:
            return name
        same = self._short.get(name.split(".", 1)[0], set())
        return next(iter(same)) if len(same) == 1 and ("." in name) != ("." in next(iter(same))) else None

    def nodes(self) -> list[str]:
        """All nodes of the tree, by name."""
        return sorted(child for child in self._up if isinstance(child, str))

    def domains(self) -> list[Domain]:
        """All domains, by hierarchy, kind and name."""
        return sorted(self._down)

    def parents(self, child: str | Domain) -> list[Edge]:
        """What a node or a domain hangs on directly."""
        return self._up.get(child, [])

    def children(self, domain: Domain) -> list[Edge]:
        """What hangs on a domain directly."""
        return self._down.get(domain, [])

    def above(self, node: str) -> list[Domain]:
        """All domains of a node, the nearest first."""
        found: dict[Domain, None] = {}
        level: list[str | Domain] = [node]
        while level:
            parents = sorted({edge.parent for child in level for edge in self.parents(child)} - found.keys())
            found.update(dict.fromkeys(parents))
            level = list(parents)
        return list(found)

    def members(self, domain: Domain) -> frozenset[str]:
        """All nodes below a domain."""
        known = self._members.get(domain)
        if known is None:
            names: set[str] = set()
            seen = {domain}
            todo = [domain]
            while todo:
                for edge in self.children(todo.pop()):
                    if isinstance(edge.child, str):
                        names.add(edge.child)
                    elif edge.child not in seen:
                        seen.add(edge.child)
                        todo.append(edge.child)
            known = self._members[domain] = frozenset(names)
        return known

    def height(self, domain: Domain) -> int:
        """Domains between this one and its nearest nodes: 0 for a leaf switch."""
        seen = {domain}
        level = [domain]
        height = 0
        while level:
            edges = [edge for each in level for edge in self.children(each)]
            if any(isinstance(edge.child, str) for edge in edges):
                return height
            level = [edge.child for edge in edges if isinstance(edge.child, Domain) and edge.child not in seen]
            seen.update(level)
            height += 1
        return height

    def proofs(self, domain: Domain, nodes: Iterable[str]) -> list[EvidenceRef]:
        """Where the sources say that these nodes hang on the domain, each line once."""
        wanted = set(nodes)
        found: dict[tuple[str, int, str], EvidenceRef] = {}
        seen = {domain}
        todo = [domain]
        while todo:
            for edge in self.children(todo.pop()):
                below = {edge.child} if isinstance(edge.child, str) else self.members(edge.child)
                if not below & wanted:
                    continue
                found.setdefault((edge.proof.source, edge.proof.line, edge.proof.text), edge.proof)
                if isinstance(edge.child, Domain) and edge.child not in seen:
                    seen.add(edge.child)
                    todo.append(edge.child)
        return list(found.values())
