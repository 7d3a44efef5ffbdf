"""Which labels and words name a place in a cluster's network, NVLink fabric, power or racks."""

from __future__ import annotations

import csv
import functools
import re
from dataclasses import dataclass

from aiops.model.domains import Hierarchy
from aiops.resources import catalog_dir


@dataclass(frozen=True, slots=True)
class Level:
    """A level of a hierarchy; 0 is the nearest to the node."""

    hierarchy: Hierarchy
    kind: str
    order: int


@functools.cache
def _labels() -> tuple[dict[str, Level], list[tuple[re.Pattern[str], str, Level]]]:
    exact: dict[str, Level] = {}
    families: list[tuple[re.Pattern[str], str, Level]] = []
    with open(catalog_dir() / "topology_labels.csv", encoding="utf-8", newline="") as handle:
        for row in csv.DictReader(handle):
            level = Level(Hierarchy(row["hierarchy"]), row["kind"], 0 if row["order"] == "*" else int(row["order"]))
            if row["label"].endswith("*"):
                pattern = re.compile(re.escape(row["label"][:-1]) + r"(\d{1,2})", re.ASCII)
                families.append((pattern, row["label"], level))
            else:
                exact[row["label"]] = level
    return exact, families


@functools.cache
def level_words() -> dict[str, Level]:
    """Words of inventories, one thing (``rack``) and many (``racks``), in lower case with ``_``."""
    found: dict[str, Level] = {}
    with open(catalog_dir() / "topology_words.csv", encoding="utf-8", newline="") as handle:
        for row in csv.DictReader(handle):
            level = Level(Hierarchy(row["hierarchy"]), row["kind"], int(row["order"]))
            found.update(dict.fromkeys((row["word"], *row["plural"].split()), level))
    return found


@functools.cache
def plural_words() -> frozenset[str]:
    """Words that stand above a list of domains."""
    with open(catalog_dir() / "topology_words.csv", encoding="utf-8", newline="") as handle:
        return frozenset(word for row in csv.DictReader(handle) for word in row["plural"].split())


def word_level(word: str) -> Level | None:
    """Level of a column, key or last part of a label: ``Leaf Switch``, ``topology-rack`` and ``pdu_a`` are understood."""
    plain = re.sub(r"[^a-z0-9]+", "_", word.strip().lower()).strip("_")
    words = level_words()
    for part in (plain, *(plain.removeprefix(head) for head in ("topology_", "physical_", "network_"))):
        for bare in (part, re.sub(r"_(?:id|name|[ab]|[0-9])$", "", part)):
            if bare in words:
                return words[bare]
    return None


@functools.lru_cache(maxsize=4096)
def label_level(label: str) -> Level | None:
    """Level that a node label names, by the catalog or by its last word; ``None`` for all other labels."""
    exact, families = _labels()
    if label in exact:
        return exact[label]
    for pattern, _, level in families:
        match = pattern.fullmatch(label)
        if match:
            return Level(level.hierarchy, level.kind, int(match[1]))
    prefix, _, last = label.rpartition("/")
    # without a prefix a label is a user's own, and "core" or "block" may mean anything
    if not prefix or prefix.endswith(("feature.node.kubernetes.io", "beta.kubernetes.io")):
        return _PLAIN.get(last.lower())
    return word_level(last) if last.lower().split("-")[-1] not in ("core", "cores", "su", "switch") else None


_PLAIN = {
    "rack": Level(Hierarchy.PHYSICAL, "rack", 1),
    "pdu": Level(Hierarchy.POWER, "PDU", 0),
    "nvlink-domain": Level(Hierarchy.NVLINK, "NVLink domain", 0),
    "leaf": Level(Hierarchy.NETWORK, "switch", 0),
    "leaf-switch": Level(Hierarchy.NETWORK, "switch", 0),
    "tor": Level(Hierarchy.NETWORK, "switch", 0),
}
"""Labels without a prefix that sites use."""
