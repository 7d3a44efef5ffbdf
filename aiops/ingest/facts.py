"""What reading has found out about files, hosts and clocks, kept for `--explain-ingest` and for later steps of ingest."""

from __future__ import annotations

from dataclasses import dataclass, field

from aiops.ingest.case_yaml import Declared
from aiops.ingest.checkpoint_layout import Found
from aiops.model.case import Case

_KEY = "ingest.facts"


@dataclass(frozen=True, slots=True)
class Skew:
    """The clock of ``node`` is ``seconds`` ahead of that of ``reference``, from ``pairs`` events that both wrote down."""

    node: str
    reference: str
    seconds: float
    spread: float
    """Seconds by which the pairs differ: two events closer than this have no order."""
    pairs: int
    corrected: bool


@dataclass(slots=True)
class Facts:
    """By source index, unless said otherwise."""

    why: dict[int, str] = field(default_factory=dict)
    """Which evidence decided the kind."""
    node_why: dict[int, str] = field(default_factory=dict)
    rank_why: dict[int, str] = field(default_factory=dict)
    boot: dict[int, int] = field(default_factory=dict)
    """Boot time (UTC ns) that a kernel log states itself."""
    pod_nodes: dict[str, str] = field(default_factory=dict)
    """Pod -> node, as collectors write it."""
    boots: dict[str, list[int]] = field(default_factory=dict)
    """Node -> boot times, UTC ns."""
    zones: dict[int, str] = field(default_factory=dict)
    """How the zone of a source's stamps is known."""
    skews: list[Skew] = field(default_factory=list)
    duplicates: list[tuple[str, str]] = field(default_factory=list)
    """(file that was not read, what it repeats), by name."""
    declared: Declared = field(default_factory=Declared)
    checkpoint_files: list[Found] = field(default_factory=list)
    """Checkpoints that lie in the case as files."""
    file_times: dict[str, str] = field(default_factory=dict)
    """Name of a file -> ``archive`` where an archive states its time."""


def facts_of(case: Case) -> Facts:
    """The facts of a case; empty ones at first."""
    found = case.memo.setdefault(_KEY, Facts())
    assert isinstance(found, Facts)
    return found
