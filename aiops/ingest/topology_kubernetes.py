"""What Kubernetes objects say about the places of nodes: labels, Kueue and KAI topology levels, Volcano HyperNodes.

Runs when all files are read, since a Topology object may stand in another file than the nodes.
"""

from __future__ import annotations

import bisect
import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

from aiops.catalog.topology import Level, label_level
from aiops.ingest.kubernetes_fields import integer, mapping, mappings, text
from aiops.ingest.topology_lines import TopologyFile, clean_name
from aiops.model.case import Case, KubernetesObject
from aiops.model.domains import Domain, Hierarchy
from aiops.model.entity import is_host_name
from aiops.model.finding import EvidenceRef

_LARGEST = 64 << 20
_SLINKY = "topology.slinky.slurm.net/spec"
_SIMPLE = re.compile(r"\^?(?:[\w-]|\\?\.[*+]?|\\d[*+]?|\[[\w-]{1,40}\][*+]?|\{\d{1,2}\})*\$?", re.ASCII)
"""Patterns of HyperNodes that are tried: no groups, no alternatives, and few repetitions, so none can be slow."""
_REPEATS = 3


def join_kubernetes_topology(case: Case) -> None:
    """Add what nodes and topology objects say to ``case.topology.tree``."""
    by_source: dict[int, list[KubernetesObject]] = {}
    for item in case.objects:
        by_source.setdefault(item.source, []).append(item)
    levels = _stated_levels(case)
    for source, items in sorted(by_source.items()):
        if not any(item.kind in ("Node", "HyperNode") for item in items):
            continue
        file = _Objects(case, source, items)
        for position, item in enumerate(items):
            if item.kind == "Node" and is_host_name(item.name):
                _labels(file, position, item, levels)
            elif item.kind == "HyperNode":
                _hyper_node(file, item, case)
        file.file.finish()


class _Objects:
    """The objects of one file, with the lines of what is inside them."""

    def __init__(self, case: Case, source: int, items: list[KubernetesObject]) -> None:
        record = case.sources[source]
        data = case.read(source, 0, _LARGEST) if record.size <= _LARGEST else b""
        self.file = TopologyFile(record, data, case)
        self._starts = [0, *(match.end() for match in re.finditer(rb"\n", data))]
        self._lines = [item.line for item in items]

    def proof(self, position: int, key: str, value: str) -> EvidenceRef:
        """The line of a label. In a dump the name of an object may stand above or below its labels."""
        here = self._lines[position]
        before = self._lines[position - 1] if position else 1
        after = self._lines[position + 1] if position + 1 < len(self._lines) else len(self._starts)
        begin, middle, end = (self._offset(line) for line in (before, here, after + 1))
        found = list(self._labels(key.encode(), value.encode(), begin, end))
        at = next((at for at in reversed(found) if at <= middle), None) if found and found[0] <= middle else None
        at = at if at is not None else found[0] if found else None
        if not here:
            return EvidenceRef(self.file.source.name, 0, 0, f"{key}: {value}")
        return self.file.proof(here if at is None else bisect.bisect_right(self._starts, at))

    def _labels(self, key: bytes, value: bytes, begin: int, end: int) -> Iterator[int]:
        """Places of a label, in JSON or YAML."""
        at = self.file.data.find(key, begin, end)
        while at >= 0:
            rest = self.file.data[at + len(key) : at + len(key) + 8 + len(value)].lstrip(b"\"' :=")
            if rest.startswith(value):
                yield at
            at = self.file.data.find(key, at + 1, end)

    def _offset(self, line: int) -> int:
        return self._starts[min(max(line, 1), len(self._starts)) - 1]


def _stated_levels(case: Case) -> dict[str, Level]:
    """Labels that Topology objects of Kueue or KAI name as levels, from top to bottom, and the catalog does not know."""
    found: dict[str, Level] = {}
    for item in case.objects:
        if item.kind != "Topology":
            continue
        keys = [text(level, "nodeLabel") for level in mappings(item.body, "spec", "levels")]
        for order, key in enumerate(reversed(keys)):
            if key and key != "kubernetes.io/hostname" and label_level(key) is None:
                last = key.rpartition("/")[2].removeprefix("topology-") or key
                found.setdefault(key, Level(Hierarchy.NETWORK, clean_name(last) or "level", order))
    return found


def _labels(file: _Objects, position: int, item: KubernetesObject, stated: Mapping[str, Level]) -> None:
    chains: dict[Hierarchy, list[tuple[Level, str, str]]] = {}
    for key, value in mapping(item.body, "metadata", "labels").items():
        level = label_level(key) or stated.get(key) if isinstance(key, str) and isinstance(value, str) else None
        if level is None:
            continue
        name = clean_name(value)
        if name is None or len(value) > 63:
            file.file.problem(f"node {item.name}: label {key} is empty or longer than 63 characters", item.line or None)
            continue
        chains.setdefault(level.hierarchy, []).append((level, key, name))
    for chain in chains.values():
        chain.sort(key=lambda step: (step[0].order, step[0].kind, step[1]))
        below: Domain | None = None
        height = -1
        for level, key, name in chain:
            if level.order == height:
                continue  # the same place under another label
            domain, proof = Domain(level.hierarchy, level.kind, name), file.proof(position, key, name)
            if below is None:
                file.file.node(item.name, domain, proof)
            else:
                file.file.link(below, domain, proof)
            below, height = domain, level.order
    spec = mapping(item.body, "metadata", "annotations").get(_SLINKY)
    if isinstance(spec, str):
        _slinky(file, position, item, spec)


def _slinky(file: _Objects, position: int, item: KubernetesObject, spec: str) -> None:
    """``topo-switch:s2,topo-block:b2``, and ``topology:spine:leaf`` with all switches from the top."""
    for part in spec.split(",")[:8]:
        names = [name for name in (clean_name(word) for word in part.split(":")[1:]) if name]
        block = "block" in part.split(":", 1)[0]
        if names:
            hierarchy, kind = (Hierarchy.NVLINK, "block") if block else (Hierarchy.NETWORK, "switch")
            file.file.node(item.name, Domain(hierarchy, kind, names[-1]), file.proof(position, _SLINKY, spec))


def _hyper_node(file: _Objects, item: KubernetesObject, case: Case) -> None:
    name = clean_name(item.name)
    if name is None:
        return
    tier = integer(item.body, "spec", "tier")
    kind = "hypernode" if tier is None or tier > 1 else "switch"
    domain = Domain(Hierarchy.NETWORK, kind, name)
    proof = file.file.proof(item.line) if item.line else EvidenceRef(file.file.source.name, 0, 0, f"HyperNode {name}")
    for member in mappings(item.body, "spec", "members"):
        if text(member, "type") == "HyperNode":
            for child in _matches(file, item, member, [o for o in case.objects if o.kind == "HyperNode"]):
                below = integer(child.body, "spec", "tier")
                kind_below = "hypernode" if below is None or below > 1 else "switch"
                file.file.link(Domain(Hierarchy.NETWORK, kind_below, child.name), domain, proof)
            continue
        exact = text(member, "selector", "exactMatch", "name")
        if exact:
            file.file.node(exact, domain, proof)
            continue
        for node in _matches(file, item, member, [o for o in case.objects if o.kind == "Node"]):
            file.file.node(node.name, domain, proof)


def _matches(
    file: _Objects, item: KubernetesObject, member: Mapping[str, Any], candidates: list[KubernetesObject]
) -> Iterator[KubernetesObject]:
    exact = text(member, "selector", "exactMatch", "name")
    pattern = text(member, "selector", "regexMatch", "pattern")
    wanted = mapping(member, "selector", "labelMatch", "matchLabels")
    if exact:
        yield from (o for o in candidates if o.name == exact)
    elif pattern:
        if len(pattern) > 200 or not _SIMPLE.fullmatch(pattern) or sum(map(pattern.count, "*+")) > _REPEATS:
            file.file.problem(
                f"HyperNode {item.name}: pattern {json.dumps(pattern[:80])} is not tried", item.line or None
            )
            return
        try:
            compiled = re.compile(pattern)
        except re.error as error:
            file.file.problem(f"HyperNode {item.name}: no pattern: {error}", item.line or None)
            return
        yield from (o for o in candidates if len(o.name) <= 253 and compiled.search(o.name))
    elif wanted:
        for candidate in candidates:
            labels = mapping(candidate.body, "metadata", "labels")
            if all(labels.get(key) == value for key, value in wanted.items()):
                yield candidate
