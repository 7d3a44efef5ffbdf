"""The multi-pattern log scanner: one database over blocks, Python touches hit lines only."""

from __future__ import annotations

from pathlib import Path

from aiops.catalog.model import Catalog
from aiops.scan.engine import Engine, make_engine
from aiops.scan.rules import RuleSet
from aiops.scan.scanner import HitLine, Scanner

__all__ = ["HitLine", "RuleSet", "Scanner", "make_scanner", "scanner_at_hand"]


class _Box:
    """Hashable by identity, so that a rule set is made once for a catalog."""

    def __init__(self, value: Catalog) -> None:
        self.value = value

    def __hash__(self) -> int:
        return id(self.value)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Box) and other.value is self.value


_rules: dict[_Box, RuleSet] = {}
_engines: dict[tuple[_Box, str, Path | None], Engine] = {}
_MOST = 4


def make_scanner(
    catalog: Catalog, *, cache_dir: Path | None = None, engine: str = "auto", keep: int | None = 2_000
) -> Scanner:
    """A scanner for all signals of a catalog; see `Scanner` for ``keep``. Not for several threads at a time.

    Raises:
        CatalogError: a rule does not compile.
        ImportError: the named engine is not installed.
    """
    box = _Box(catalog)
    if box not in _rules:
        while len(_rules) >= _MOST:
            del _rules[next(iter(_rules))]
        _rules[box] = RuleSet(catalog.signals, cache_dir)
    rules = _rules[box]
    key = (box, engine, cache_dir)
    if key not in _engines:
        while len(_engines) >= _MOST:
            del _engines[next(iter(_engines))]
        _engines[key] = make_engine(rules.program, cache_dir, engine)
    return Scanner(rules, _engines[key], keep=keep)


def scanner_at_hand(catalog: Catalog) -> Scanner:
    """A scanner that has been made for this catalog, or a new one."""
    box = _Box(catalog)
    made = next((key for key in _engines if key[0] == box), (box, "auto", None))
    return make_scanner(catalog, engine=made[1], cache_dir=made[2])
