"""Slurm's topology: ``topology.conf`` (tree and block), ``topology.yaml`` (25.05 and later), ``scontrol show topology``."""

from __future__ import annotations

import re
from typing import Any

from aiops.ingest.hostlist import HostlistError, expand_hostlist
from aiops.ingest.topology_lines import TopologyFile, clean_name
from aiops.ingest.topology_yaml import YamlFile
from aiops.model.domains import Domain, Hierarchy
from aiops.model.finding import EvidenceRef

_LINE = re.compile(rb"^[ \t]*(?:SwitchName|BlockName)=\S", re.IGNORECASE | re.MULTILINE)
_OTHER = re.compile(
    rb"^[ \t]*+(?!#|\s*$|(?:SwitchName|BlockName|BlockSizes|BlockLevels|AggregatedBlock|Topology)\b)\S.*=", re.I | re.M
)
_YAML = re.compile(rb"^[ \t]*- +topology:[ \t]*\S", re.MULTILINE)
_YAML_KIND = re.compile(rb"^[ \t]+(?:tree|block|flat|ring|torus3d):", re.MULTILINE)
_PAIR = re.compile(r"\b(\w++)=(\"[^\"]*\"|\S*)")
_TREE, _BLOCK = "switch", "block"


def sniff_slurm_topology(head: bytes) -> str | None:
    """``slurm-topology`` or ``slurm-topology-yaml``."""
    lines = len(_LINE.findall(head))
    if lines and lines > 2 * len(_OTHER.findall(head)):
        return "slurm-topology"
    return "slurm-topology-yaml" if _YAML.search(head) and _YAML_KIND.search(head) else None


class _Tree:
    """The switches and blocks of one topology, and whether they make a tree."""

    def __init__(self, file: TopologyFile) -> None:
        self._file = file
        self._named: dict[Domain, int] = {}
        self._children: list[tuple[str, Domain, EvidenceRef]] = []
        self._parents: dict[str, Domain] = {}

    def domain(self, kind: str, name: str, line: int) -> Domain | None:
        """A switch or a block that is defined on ``line``."""
        known = clean_name(name)
        if known is None:
            self._file.problem(f"a {kind} without a name", line)
            return None
        domain = Domain(Hierarchy.NETWORK if kind == _TREE else Hierarchy.NVLINK, kind, known)
        if domain in self._named:
            self._file.problem(f"{domain} is defined twice, first on line {self._named[domain]}", line)
        self._named.setdefault(domain, line)
        return domain

    def nodes(self, hostlist: str, domain: Domain, proof: EvidenceRef) -> None:
        if hostlist.upper() == "ALL":
            self._file.problem(f"{domain} takes ALL nodes: which ones is not told", proof.line)
            return
        try:
            names = expand_hostlist(hostlist)
        except HostlistError as error:
            self._file.problem(f"node list not understood: {error}", proof.line)
            return
        for name in names:
            other = self._parents.setdefault(name, domain)
            if other != domain and other.hierarchy == domain.hierarchy:
                self._file.problem(f"{name[:80]} stands under {other} and under {domain}", proof.line)
            self._file.node(name, domain, proof)

    def switches(self, hostlist: str, domain: Domain, proof: EvidenceRef) -> None:
        try:
            names = expand_hostlist(hostlist)
        except HostlistError as error:
            self._file.problem(f"switch list not understood: {error}", proof.line)
            return
        self._children += [(name, domain, proof) for name in names]

    def finish(self) -> None:
        """Switches may name children that are defined further down."""
        for name, parent, proof in self._children:
            child = Domain(parent.hierarchy, parent.kind, name)
            if child not in self._named:
                self._file.problem(f"{parent} has a child {name[:80]!r} that is defined nowhere", proof.line)
                continue
            self._file.link(child, parent, proof)


def read_slurm_conf(file: TopologyFile) -> None:
    """``topology.conf`` or the output of ``scontrol show topology``."""
    tree = _Tree(file)
    for number, line in _logical_lines(file.text()):
        given = {key.lower(): value.strip('"') for key, value in _PAIR.findall(line)}
        if not given:
            if line:
                file.problem("neither a switch nor a block", number)
            continue
        kind = _TREE if "switchname" in given else _BLOCK if "blockname" in given else ""
        if not kind:
            continue  # BlockSizes=, AggregatedBlock= and the like say nothing about single nodes
        domain = tree.domain(kind, given[f"{kind}name"], number)
        if domain is None:
            continue
        proof = file.proof(number)
        # scontrol lists under a higher switch all nodes below it as well
        if given.get("switches") and kind == _TREE:
            tree.switches(given["switches"], domain, proof)
        elif given.get("nodes"):
            tree.nodes(given["nodes"], domain, proof)
        else:
            file.problem(f"{domain} has neither nodes nor switches", number)
    tree.finish()


def _logical_lines(text: str) -> list[tuple[int, str]]:
    """(number of the first line, text) without comments; a backslash at the end continues a line."""
    found: list[tuple[int, str]] = []
    begin, held = 0, ""
    for number, raw in enumerate(text.splitlines(), 1):
        line = raw.split("#", 1)[0].rstrip()
        begin = begin or number
        if line.endswith("\\"):
            held += line[:-1] + " "
            continue
        found.append((begin, (held + line).strip()))
        begin, held = 0, ""
    if held:
        found.append((begin, held.strip()))
    return found


def read_slurm_yaml(file: TopologyFile) -> None:
    """``topology.yaml``: a list of topologies, each a tree, blocks, a ring, or flat."""
    document = YamlFile(file)
    for root in document.roots():
        for entry in document.items(root):
            given = document.pairs(entry)
            tree = _Tree(file)
            for word, list_word, item_word, kind in (
                ("tree", "switches", "switch", _TREE),
                ("block", "blocks", "block", _BLOCK),
            ):
                body = document.pairs(given.get(word))
                for item in document.items(body.get(list_word)):
                    _yaml_item(file, document, tree, document.pairs(item), item, item_word, kind)
            tree.finish()


def _yaml_item(
    file: TopologyFile, document: YamlFile, tree: _Tree, given: dict[str, Any], item: Any, word: str, kind: str
) -> None:
    line = document.line(item)
    domain = tree.domain(kind, document.text(given.get(word)), line)
    if domain is None:
        return
    children, nodes = document.text(given.get("children")), document.text(given.get("nodes"))
    if children:
        tree.switches(children, domain, file.proof(document.line(given["children"])))
    elif nodes:
        tree.nodes(nodes, domain, file.proof(document.line(given["nodes"])))
    else:
        file.problem(f"{domain} has neither nodes nor children", line)
