"""Engines that find all rules in a block of bytes: Hyperscan, and RE2 where it has no wheel."""

from __future__ import annotations

import contextlib
import os
import platform
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Protocol

from aiops.errors import CatalogError
from aiops.scan.rules import RuleSet

Hit = tuple[int, int]
"""(rule id, byte offset in the block just behind the end of the match)."""


class Engine(Protocol):
    """Finds every line of a block that a rule matches; a line may be reported more than once per rule."""

    name: str

    def scan(self, block: bytes | memoryview) -> Iterable[Hit]:
        """Hits in order of their end. Lines end with ``\\n``."""


class HyperscanEngine:
    """One database of all rules in block mode, kept on disk between runs."""

    name = "hyperscan"

    def __init__(self, rules: RuleSet, cache_dir: Path | None) -> None:
        import hyperscan

        self._database = self._load(hyperscan, rules, cache_dir)
        self._scratch = hyperscan.Scratch(self._database)

    @staticmethod
    def _load(hyperscan: Any, rules: RuleSet, cache_dir: Path | None) -> Any:
        path = None
        if cache_dir is not None:
            key = f"{rules.fingerprint}-{hyperscan.__version__}-{_cpu_key()}"
            path = cache_dir / f"rules-{key}.hsdb"
            with contextlib.suppress(OSError, hyperscan.error):
                return hyperscan.loadb(path.read_bytes(), mode=hyperscan.HS_MODE_BLOCK)
        database = hyperscan.Database(mode=hyperscan.HS_MODE_BLOCK)
        try:
            database.compile(
                expressions=[rule.scan.encode() for rule in rules.rules],
                ids=[rule.id for rule in rules.rules],
                elements=len(rules.rules),
                flags=hyperscan.HS_FLAG_MULTILINE,
            )
        except hyperscan.error as error:
            raise CatalogError(f"the scanner refuses a rule: {_culprit(hyperscan, rules) or error}") from error
        if path is not None:
            _write_atomically(path, hyperscan.dumpb(database))
        return database

    def scan(self, block: bytes | memoryview) -> Iterable[Hit]:
        hits: list[Hit] = []
        append = hits.append

        def on_match(rule: int, _start: int, end: int, _flags: int, _context: object) -> None:
            append((rule, end))

        self._database.scan(block, match_event_handler=on_match, scratch=self._scratch)
        return hits


class Re2Engine:
    """The same answers from RE2, line by line: slower, needs nothing of the processor."""

    name = "re2"

    def __init__(self, rules: RuleSet) -> None:
        import re2

        options = re2.Options()
        options.encoding = re2.Options.Encoding.LATIN1
        options.max_mem = 256 << 20
        self._set = re2.Set.SearchSet(options)
        for rule in rules.rules:
            self._set.Add(rule.scan)
        self._set.Compile()

    def scan(self, block: bytes | memoryview) -> Iterable[Hit]:
        hits: list[Hit] = []
        data = bytes(block)
        start = 0
        while start < len(data):
            stop = data.find(b"\n", start)
            stop = len(data) if stop < 0 else stop
            hits += ((int(rule), stop) for rule in sorted(self._set.Match(data[start:stop]) or ()))
            start = stop + 1
        return hits


def make_engine(rules: RuleSet, cache_dir: Path | None = None, name: str = "auto") -> Engine:
    """The fastest engine of this machine, or the named one.

    Raises:
        CatalogError: a rule does not compile.
        ImportError: the named engine is not installed.
    """
    if name in ("auto", "hyperscan"):
        try:
            return HyperscanEngine(rules, cache_dir)
        except ImportError:
            if name == "hyperscan":
                raise
    return Re2Engine(rules)


def _cpu_key() -> str:
    """Processors with other vector units need another database."""
    flags = ""
    with contextlib.suppress(OSError), open("/proc/cpuinfo", encoding="ascii", errors="replace") as handle:
        flags = next((line for line in handle if line.startswith(("flags", "Features"))), "")
    units = "".join(
        unit[0] + unit[-1] for unit in ("avx2", "avx512bw", "avx512vbmi", "sse4_2", "sve2") if unit in flags
    )
    return f"{platform.machine()}-{units or 'base'}"


def _write_atomically(path: Path, data: bytes) -> None:
    """A cache that cannot be written costs time, not the answer."""
    with contextlib.suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=".rules-")
        with os.fdopen(handle, "wb") as out:
            out.write(data)
        os.replace(name, path)


def _culprit(hyperscan: Any, rules: RuleSet) -> str:
    for rule in rules.rules:
        try:
            hyperscan.Database(mode=hyperscan.HS_MODE_BLOCK).compile(
                expressions=[rule.scan.encode()], ids=[0], elements=1, flags=hyperscan.HS_FLAG_MULTILINE
            )
        except hyperscan.error as error:
            return f"{rule.signal.file}: signal {rule.signal.id!r}: {rule.signal.match[rule.pattern]!r}: {error}"
    return ""
