"""Tables of ``sacct``, ``squeue`` and ``sinfo``: separated by bars, ruled with dashes, or by columns of blanks."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

_RULE = re.compile(r"\s*-+(?: +-+)+\s*")
_CELL = re.compile(r"\S+")
_SACCT = frozenset(
    {
        "jobid",
        "jobidraw",
        "jobname",
        "state",
        "exitcode",
        "derivedexitcode",
        "start",
        "end",
        "submit",
        "elapsed",
        "nodelist",
        "partition",
        "user",
        "account",
        "nnodes",
        "reason",
        "maxrss",
        "alloctres",
        "reqtres",
    }
)
_SQUEUE = frozenset(
    {
        "JOBID",
        "PARTITION",
        "NAME",
        "USER",
        "ST",
        "STATE",
        "TIME",
        "TIME_LIMIT",
        "TIME_LEFT",
        "NODES",
        "NODELIST(REASON)",
        "NODELIST",
        "REASON",
        "CPUS",
        "PRIORITY",
        "START_TIME",
        "SUBMIT_TIME",
        "SCHEDNODES",
        "TRES_PER_NODE",
        "ACCOUNT",
        "QOS",
        "MIN_MEMORY",
        "END_TIME",
        "DEPENDENCY",
    }
)
_SINFO = frozenset(
    {
        "PARTITION",
        "AVAIL",
        "TIMELIMIT",
        "NODES",
        "STATE",
        "NODELIST",
        "REASON",
        "USER",
        "TIMESTAMP",
        "GRES",
        "GRES_USED",
        "CPUS",
        "MEMORY",
        "HOSTNAMES",
        "S:C:T",
        "TMP_DISK",
        "WEIGHT",
        "AVAIL_FE",
        "AVAIL_FEATURES",
        "CPUS(A/I/O/T)",
        "CPU_LOAD",
        "FREE_MEM",
        "NODES(A/I)",
        "NODES(A/I/O/T)",
        "GROUPS",
        "JOB_SIZE",
        "ROOT",
        "OVERSUBS",
        "EXTENDED_STATE",
    }
)
_UPPER = _SQUEUE | _SINFO
# Columns whose cells may hold blanks, most likely first.
_ROOMY = ("REASON", "NAME", "jobname")


@dataclass(frozen=True, slots=True)
class Row:
    """A row of a table: cells under the (lower-case) column names."""

    tool: str
    """``sacct``, ``squeue`` or ``sinfo``."""
    cells: dict[str, str]
    line: int
    text: str


@dataclass(slots=True)
class _Table:
    tool: str
    columns: list[str]
    bars: bool = False
    slices: list[tuple[int, int]] = field(default_factory=list)


def table_tool(line: str, below: str) -> str | None:
    """The command whose header the line is; ``below`` is the next line."""
    table = _header(line, below)
    return table.tool if table else None


class TableReader:
    """Fed with the lines of a file, gives the rows of whatever tables stand in it."""

    def __init__(self) -> None:
        self._table: _Table | None = None

    def feed(self, line: str, below: str, number: int) -> Iterator[Row]:
        if not line.strip():
            self._table = None
            return
        table = _header(line, below)
        if table is not None:
            self._table = table
        elif self._table is not None and not _RULE.fullmatch(line):
            cells = _cells(line, self._table)
            if cells:
                yield Row(self._table.tool, cells, number, line.strip())


def _header(line: str, below: str) -> _Table | None:
    if len(line) > 4_000:
        return None
    if "|" in line:
        names = [_whole(name.strip()) for name in line.strip().rstrip("|").split("|")]
        tool = _tool([name.lower() for name in names], names)
        return _Table(tool, [name.lower() for name in names], bars=True) if tool else None
    names = [_whole(name) for name in _CELL.findall(line)]
    if not names or not names[0][0].isalpha():
        return None
    tool = _tool([name.lower() for name in names], names)
    if tool is None:
        return None
    table = _Table(tool, [name.lower() for name in names])
    if _RULE.fullmatch(below):
        table.slices = [match.span() for match in re.finditer(r"-+", below)]
        if len(table.slices) != len(names):
            return None
    elif tool == "sacct":
        return None
    return table


def _whole(name: str) -> str:
    """The column whose name a format's width has cut off: ``%.12b`` of squeue gives ``TRES_PER_NOD``."""
    if len(name) < 6 or name in _UPPER:
        return name
    found = [known for known in _UPPER if known.startswith(name)]
    return found[0] if len(found) == 1 else name


def _tool(lower: list[str], names: list[str]) -> str | None:
    known = set(lower)
    if ("jobid" in known or "jobidraw" in known) and names[0] != "JOBID" and len(known & _SACCT) >= min(3, len(known)):
        return "sacct" if len(known) > 1 else None
    if names == [name.upper() for name in names]:
        given = set(names)
        if "JOBID" in given and len(given & _SQUEUE) >= 3:
            return "squeue"
        if (
            len(given & _SINFO) == len(given) >= 2
            and ("NODELIST" in given or "HOSTNAMES" in given)
            and ("STATE" in given or "REASON" in given)
        ):
            return "sinfo"
    return None


def _cells(line: str, table: _Table) -> dict[str, str]:
    if table.bars:
        values = line.rstrip("\n").split("|")
        return dict(zip(table.columns, (value.strip() for value in values), strict=False))
    return _by_rule(line, table) if table.slices else _by_blanks(line, table)


def _by_rule(line: str, table: _Table) -> dict[str, str]:
    last = len(table.slices) - 1
    if not any(line[start - 1 : start].strip() for start, _ in table.slices[1:]):
        return {
            name: line[start : None if i == last else end].strip()
            for i, (name, (start, end)) in enumerate(zip(table.columns, table.slices, strict=True))
        }
    # A row that was shifted by hand: each word goes to the column that it covers most.
    cells = dict.fromkeys(table.columns, "")
    for word in _CELL.finditer(line):
        start, end = word.span()
        best = max(range(last + 1), key=lambda i: min(end, table.slices[i][1]) - max(start, table.slices[i][0]))
        name = table.columns[best]
        cells[name] = f"{cells[name]} {word[0]}".strip()
    return cells


def _by_blanks(line: str, table: _Table) -> dict[str, str]:
    columns = table.columns
    tail: list[str] = []
    if columns[-1] == "nodelist(reason)" and (match := re.search(r"\s(\([^()]*(?:\([^()]*\)[^()]*)*\))\s*$", line)):
        # A reason may hold blanks: (ReqNodeNotAvail, UnavailableNodes:n[1-2]).
        tail, line = [match[1]], line[: match.start()]
    words = line.split()
    missing = len(columns) - len(tail)
    if len(words) < missing:
        # Only the last column may be empty; an empty one inside cannot be located.
        return dict(zip(columns, words, strict=False)) if len(words) == missing - 1 and len(words) > 1 else {}
    spare = len(words) - missing
    if spare:
        roomy = next((columns.index(name.lower()) for name in _ROOMY if name.lower() in columns[:missing]), missing - 1)
        words[roomy : roomy + spare + 1] = [" ".join(words[roomy : roomy + spare + 1])]
    return dict(zip(columns, words + tail, strict=True))
