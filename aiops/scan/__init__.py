"""The multi-pattern log scanner: one database over blocks, Python touches hit lines only."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path

from aiops.catalog.model import Catalog
from aiops.scan.engine import Engine, make_engine
from aiops.scan.rules import RuleSet
from aiops.scan.scanner import HitLine, Scanner

__all__ = ["HitLine", "RuleSet", "Scanner", "make_scanner"]


class _Box:
    """Hashable by identity, so that a rule set is made once for a catalog."""

    def __init__(self, value: Catalog) -> None:
        self.value = value

    def __hash__(self) -> int:
        return id(self.value)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Box) and other.value is self.value


@lru_cache(maxsize=4)
def _rules(catalog: _Box) -> RuleSet:
    return RuleSet(catalog.value.signals)


@lru_cache(maxsize=4)
def _engine(catalog: _Box, engine: str, cache_dir: Path | None) -> Engine:
    return make_engine(_rules(catalog).program, cache_dir, engine)


def make_scanner(
    catalog: Catalog, *, cache_dir: Path | None = None, engine: str = "auto", keep: int | None = 2_000
) -> Scanner:
    """A scanner for all signals of a catalog; see `Scanner` for ``keep``. Not for several threads at a time."""
    box = _Box(catalog)
    return Scanner(_rules(box), _engine(box, engine, cache_dir), keep=keep)
