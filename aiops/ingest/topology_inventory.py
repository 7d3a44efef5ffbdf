"""Inventories that sites write themselves: tables of nodes with their rack, leaf or PDU, and YAML or JSON trees.

Known are the words of ``catalog/topology_words.csv``. Three forms are read, in any mixture: a word in the plural above
a list or a mapping of domains with their nodes; nodes with words in the singular as their attributes; a CSV table.
"""

from __future__ import annotations

import csv
import re
from typing import Any

from aiops.catalog.topology import Level, level_words, plural_words, word_level
from aiops.ingest.hostlist import HostlistError, expand_hostlist
from aiops.ingest.topology_lines import TopologyFile, clean_name
from aiops.ingest.topology_yaml import YamlFile
from aiops.model.domains import Domain, Hierarchy
from aiops.model.entity import is_host_name

NODE_WORDS = ("node", "nodename", "node_name", "host", "hostname", "server", "machine")
_NAME_WORDS = ("name", "id", *NODE_WORDS)
_LISTS = ("nodes", "hosts", "members", "servers", "machines", "systems", "trays")
_UP = ("uplinks", "uplink", "parent", "parents", "upstream")
_MOST_DEPTH = 12
_TIMED = re.compile(r"time|date|stamp|value|metric|util|temp", re.IGNORECASE)
_WORD = r"[A-Za-z][\w-]{1,30}"
_TOP = re.compile(rf"^(?:- )?\"?({_WORD})\"?:[ \t]*(?:[\[{{|#].*)?\r?$".encode(), re.MULTILINE)
_JSON_TOP = re.compile(rf"\"({_WORD})\"\s*:\s*[\[{{]".encode())
_MEMBERS = re.compile(rb"[\s{\"'-](?:nodes|hosts|members|servers|machines|systems|trays)\"?\s*:")
_ATTRIBUTE = re.compile(rf"[\s{{\"'](?:{_WORD})\"?\s*:\s*[\"'\w\[]".encode())


def sniff_inventory(head: bytes) -> str | None:
    """``topology-yaml`` or ``topology-csv``."""
    if _columns(head.split(b"\n", 1)[0].decode("utf-8", "replace")) is not None:
        return "topology-csv"
    json = head.lstrip()[:1] in (b"{", b"[")
    found = (_JSON_TOP if json else _TOP).findall(head[:16_384])
    if json and re.search(rb'"(?:apiVersion|kind|metric|__name__|ts|time|timestamp|msg|message)"\s*:', head[:4096]):
        return None
    tops = {_plain(word.decode()) for word in found}
    if tops & plural_words() and _MEMBERS.search(head):
        return "topology-yaml"
    if tops & {"nodes", "hosts", "topology"}:
        attributes = {
            _plain(re.split(rb"[\"']?\s*:", item.strip(b" \t\r\n{\"'"))[0].decode("utf-8", "replace"))
            for item in _ATTRIBUTE.findall(head[:16_384])
        }
        if (attributes & level_words().keys()) - {"zone", "region", "core", "block", "room"}:
            return "topology-yaml"
    return None


def _plain(word: str) -> str:
    return word.lower().replace("-", "_")


def _columns(header: str) -> tuple[str, int, dict[int, Level]] | None:
    """(separator, column of the node, levels by column) of a table's first line."""
    for separator in (",", ";", "\t"):
        cells = [cell.strip().strip('"').lstrip("\ufeff") for cell in header.rstrip("\r\n").split(separator)]
        if not 2 <= len(cells) <= 40 or any(_TIMED.search(cell) for cell in cells):
            continue
        node = next((at for at, cell in enumerate(cells) if _plain(cell) in (*NODE_WORDS, "name")), None)
        levels = {at: level for at, cell in enumerate(cells) if at != node and (level := word_level(cell)) is not None}
        if node is not None and levels:
            return separator, node, levels
    return None


def read_inventory(file: TopologyFile) -> None:
    """Read what `sniff_inventory` recognised."""
    if file.source.format == "topology-csv":
        _table(file)
        return
    document = YamlFile(file)
    walker = Walker(file, document)
    for root in document.roots():
        walker.walk(root, 0)


def _table(file: TopologyFile) -> None:
    lines = file.text().splitlines()
    found = _columns(lines[0]) if lines else None
    if found is None:
        file.problem("the header names no node or no rack, switch or the like", 1)
        return
    separator, at, levels = found
    for number, line in enumerate(lines[1:], 2):
        if not line.strip():
            continue
        try:
            cells = next(csv.reader([line], delimiter=separator))
        except csv.Error as error:
            file.problem(f"not a row of a table: {error}", number)
            continue
        if len(cells) <= at:
            file.problem(f"{len(cells)} cells: the column of the node is missing", number)
            continue
        for column, level in levels.items():
            name = clean_name(cells[column]) if column < len(cells) else None
            if name and name not in ("-", "n/a", "N/A", "none", "None"):
                file.node(cells[at].strip(), Domain(level.hierarchy, level.kind, name), file.proof(number))


class Walker:
    """Walks a YAML tree and adds the edges that it states."""

    def __init__(self, file: TopologyFile, document: YamlFile) -> None:
        self._file = file
        self._document = document

    def walk(self, node: Any, depth: int) -> None:
        """A part of the tree that is no domain itself."""
        if depth > _MOST_DEPTH:
            return
        for key, value in self._document.pairs(node).items():
            word = _plain(key)
            if word in plural_words():
                self.domains(value, level_words()[word], None, depth + 1)
            elif word in _LISTS:
                self.nodes(value, None, depth + 1)
            else:
                self.walk(value, depth + 1)
        for item in self._document.items(node):
            self.walk(item, depth + 1)

    def domains(self, node: Any, level: Level, above: Domain | None, depth: int) -> None:
        """A list of domains with their names inside, or a mapping by name."""
        if depth > _MOST_DEPTH:
            return
        for name, value in self._document.pairs(node).items():
            self._domain(self._named(level, name, value), value, above, depth)
        for item in self._document.items(node):
            given = self._document.pairs(item)
            if not given:
                continue  # a list of names alone, such as that of all spines
            name = next((self._document.text(given[word]) for word in _NAME_WORDS if word in given), "")
            name = name or next((self._document.text(v) for k, v in given.items() if _same(k, level)), "")
            self._domain(self._named(level, name, item), item, above, depth)

    def _named(self, level: Level, name: str, node: Any) -> Domain | None:
        known = clean_name(name)
        if known is None:
            self._file.problem(f"a {level.kind} without a name", self._document.line(node))
            return None
        return Domain(level.hierarchy, level.kind, known)

    def _domain(self, domain: Domain | None, node: Any, above: Domain | None, depth: int) -> None:
        if domain is None:
            return
        proof = self._file.proof(self._document.line(node))
        if above is not None and above.hierarchy == domain.hierarchy:
            self._file.link(domain, above, proof)
        given = self._document.pairs(node)
        if not given:
            self.nodes(node, domain, depth + 1)
        for key, value in given.items():
            word = _plain(key)
            if word in _LISTS:
                self.nodes(value, domain, depth + 1)
            elif word in _UP:
                for name in filter(None, (clean_name(part) for part in self._document.text(value).split(","))):
                    where = self._file.proof(self._document.line(value))
                    self._file.link(domain, Domain(domain.hierarchy, domain.kind, name), where)
            elif word in plural_words():
                self.domains(value, level_words()[word], domain, depth + 1)
        for key, value in given.items():
            if (level := word_level(key)) is not None and _plain(key) not in plural_words():
                self._attribute(domain, level, value)

    def _attribute(self, domain: Domain, level: Level, value: Any) -> None:
        """What a domain hangs on itself; of a rack also what feeds it, which then feeds its nodes.

        A leaf's rack is where the leaf stands, and says nothing about its nodes.
        """
        proof = self._file.proof(self._document.line(value))
        for name in filter(None, (clean_name(part) for part in self._document.text(value).split(","))):
            other = Domain(level.hierarchy, level.kind, name)
            if other.hierarchy == domain.hierarchy:
                self._file.link(domain, other, proof)
            elif domain.hierarchy == Hierarchy.PHYSICAL:
                for node in sorted(self._file.case.topology.tree.members(domain)):
                    self._file.node(node, other, proof)

    def nodes(self, node: Any, domain: Domain | None, depth: int) -> None:
        """Nodes as a host list, a list of names, a list of mappings, or a mapping by name."""
        if depth > _MOST_DEPTH or node is None:
            return
        if node.id == "scalar":
            if domain is not None and self._document.text(node):
                self._file.nodes(self._document.text(node), domain, self._file.proof(self._document.line(node)))
            return
        for name, value in self._document.pairs(node).items():
            self._node(name, value, domain)
        for item in self._document.items(node):
            if item.id == "scalar":
                self.nodes(item, domain, depth + 1)
                continue
            given = self._document.pairs(item)
            name = next((self._document.text(given[word]) for word in _NAME_WORDS if word in given), "")
            if name:
                self._node(name, item, domain)
            else:
                self._file.problem("a node without a name", self._document.line(item))

    def _node(self, text: str, node: Any, domain: Domain | None) -> None:
        try:
            names = expand_hostlist(text)
        except HostlistError as error:
            self._file.problem(f"node list not understood: {error}", self._document.line(node))
            return
        for name in names:
            if domain is not None:
                self._file.node(name, domain, self._file.proof(self._document.line(node)))
            self.attributes(name, node)

    def attributes(self, name: str, node: Any) -> None:
        """Words in the singular below a node name what it hangs on."""
        if not is_host_name(name):
            self._file.problem(f"{name[:80]!r} is no host name", self._document.line(node))
            return
        for key, value in self._document.pairs(node).items():
            level = word_level(key)
            if level is None:
                continue
            for part in self._document.text(value).split(","):
                if known := clean_name(part):
                    proof = self._file.proof(self._document.line(value))
                    self._file.node(name, Domain(level.hierarchy, level.kind, known), proof)


def _same(key: str, level: Level) -> bool:
    return word_level(key) == level
