"""Engines that find all rules in a block of bytes: Hyperscan, and RE2 where it has no wheel."""

from __future__ import annotations

import contextlib
import platform
from array import array
from pathlib import Path
from typing import Any, Protocol, TypeAlias

from aiops.errors import CatalogError
from aiops.scan.cache import write_atomically
from aiops.scan.rules import Program

Ends: TypeAlias = "array[int]"
"""Byte offsets in the block just behind the end of each match, 64 bits each."""
Finds: TypeAlias = "array[int]"
"""For each match the number of its expression in `Program.finds`, 64 bits each."""


class Engine(Protocol):
    """Finds every line of a block that a rule's expressions match; a line may be reported more than once."""

    name: str

    def scan(self, block: bytes | memoryview) -> tuple[Ends, Finds]:
        """Matches, two arrays of equal length. Lines end with ``\\n``."""

    def dump(self) -> bytes:
        """The compiled rules for another process on this machine; empty if it has to compile them itself."""


class HyperscanEngine:
    """One database of all rules in block mode, kept on disk between runs."""

    name = "hyperscan"

    def __init__(self, program: Program, cache_dir: Path | None = None, compiled: bytes = b"") -> None:
        import hyperscan

        self._hyperscan = hyperscan
        if compiled:
            self._database = hyperscan.loadb(compiled, mode=hyperscan.HS_MODE_BLOCK)
        else:
            self._database = self._load(hyperscan, program, cache_dir)
        self._scratch = hyperscan.Scratch(self._database)

    @staticmethod
    def _load(hyperscan: Any, program: Program, cache_dir: Path | None) -> Any:
        path = None
        if cache_dir is not None:
            key = f"{program.fingerprint}-{hyperscan.__version__}-{_cpu_key()}"
            path = cache_dir / f"rules-{key}.hsdb"
            with contextlib.suppress(OSError, hyperscan.error):
                return hyperscan.loadb(path.read_bytes(), mode=hyperscan.HS_MODE_BLOCK)
        try:
            database = _compiled(hyperscan, [expression for expression, _ in program.finds])
        except hyperscan.error as error:
            raise CatalogError(f"the scanner refuses a rule: {_culprit(hyperscan, program) or error}") from error
        if path is not None:
            write_atomically(path, hyperscan.dumpb(database))
        return database

    def scan(self, block: bytes | memoryview) -> tuple[Ends, Finds]:
        ends, finds = array("q"), array("q")
        # two appends cost less than one of a tuple; the engine calls this for each match
        add_end, add_find = ends.append, finds.append

        def on_match(find: int, _start: int, end: int, _flags: int, _context: object) -> None:
            add_end(end)
            add_find(find)

        buffer: Any = block  # any buffer will do, whatever its stub says
        self._database.scan(buffer, match_event_handler=on_match, scratch=self._scratch)
        return ends, finds

    def dump(self) -> bytes:
        data: bytes = self._hyperscan.dumpb(self._database)
        return data


class Re2Engine:
    """The same answers from RE2, line by line: slower, needs nothing of the processor."""

    name = "re2"

    def __init__(self, program: Program) -> None:
        import re2

        options = re2.Options()
        options.encoding = re2.Options.Encoding.LATIN1
        options.max_mem = 256 << 20
        self._set = re2.Set.SearchSet(options)
        for expression, _ in program.finds:
            self._set.Add(expression)
        self._set.Compile()

    def scan(self, block: bytes | memoryview) -> tuple[Ends, Finds]:
        ends, finds = array("q"), array("q")
        data = bytes(block)
        start = 0
        while start < len(data):
            stop = data.find(b"\n", start)
            stop = len(data) if stop < 0 else stop
            for found in self._set.Match(data[start:stop]) or ():
                ends.append(stop)
                finds.append(found)
            start = stop + 1
        return ends, finds

    def dump(self) -> bytes:
        return b""


def make_engine(program: Program, cache_dir: Path | None = None, name: str = "auto", compiled: bytes = b"") -> Engine:
    """The fastest engine of this machine, or the named one.

    Raises:
        CatalogError: a rule does not compile.
        ImportError: the named engine is not installed.
    """
    if name in ("auto", "hyperscan"):
        try:
            return HyperscanEngine(program, cache_dir, compiled)
        except ImportError:
            if name == "hyperscan":
                raise
    return Re2Engine(program)


def _compiled(hyperscan: Any, expressions: list[str]) -> Any:
    database = hyperscan.Database(mode=hyperscan.HS_MODE_BLOCK)
    database.compile(
        expressions=[expression.encode() for expression in expressions],
        ids=list(range(len(expressions))),
        elements=len(expressions),
        flags=hyperscan.HS_FLAG_MULTILINE,
    )
    return database


def _cpu_key() -> str:
    """Processors with other vector units need another database."""
    flags = ""
    with contextlib.suppress(OSError), open("/proc/cpuinfo", encoding="ascii", errors="replace") as handle:
        flags = next((line for line in handle if line.startswith(("flags", "Features"))), "")
    units = "".join(
        unit[0] + unit[-1] for unit in ("avx2", "avx512bw", "avx512vbmi", "sse4_2", "sve2") if unit in flags
    )
    return f"{platform.machine()}-{units or 'base'}"


def _culprit(hyperscan: Any, program: Program) -> str:
    for expression, rules in program.finds:
        try:
            _compiled(hyperscan, [expression])
        except hyperscan.error as error:
            return f"{program.names[rules[0]]}: {error}"
    return ""
