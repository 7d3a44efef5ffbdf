"""One case: everything that was collected about one incident, and what was not."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from aiops.model.domains import DomainTree
from aiops.model.event import NO_TIME, EventTable
from aiops.model.flight import FlightRecords
from aiops.model.series import SeriesBlock


@dataclass(slots=True)
class Source:
    """One file (or archive member, or pipe) of a case."""

    index: int
    name: str
    """Path relative to the case, with ``!`` before an archive member."""
    path: Path
    """Where its plain bytes lie; for archive members and pipes a spool file."""
    size: int
    kind: str = "unknown"
    """What the content is: see `ingest.sniff.KINDS`."""
    format: str = ""
    """Log dialect or document schema, for example ``syslog``, ``dmesg``, ``torchrun``, ``kubernetes``."""
    node: str | None = None
    """The one host that the content says it comes from."""
    rank: int | None = None
    """The one rank that the content says it comes from."""
    pod: str | None = None
    job: str | None = None
    """The job that it is stated to belong to, or that its content tells where a case holds several."""
    lines: int = 0
    digest: str = ""
    """Short content hash; gives an order that does not depend on names."""
    first_ts: int = NO_TIME
    last_ts: int = NO_TIME


@dataclass(frozen=True, slots=True)
class Problem:
    """Something that could not be read, or only in part."""

    source: str
    reason: str
    line: int | None = None


@dataclass(slots=True)
class RankPlace:
    """Where one rank ran. ``sure`` names the evidence of the join, best known first."""

    rank: int
    node: str | None = None
    local_rank: int | None = None
    gpu: int | None = None
    """GPU index on its node; may shift after a lost GPU, so ``pci`` or ``uuid`` decide."""
    pci: str | None = None
    uuid: str | None = None
    pod: str | None = None
    pid: int | None = None
    sure: str = ""


@dataclass(slots=True)
class Job:
    """One job (Slurm job, Kubernetes workload, or the launcher's run) of the case."""

    id: str
    name: str | None = None
    scheduler: str | None = None
    """``slurm`` or ``kubernetes``."""
    namespace: str | None = None
    kind: str | None = None
    """Kubernetes kind of the owner (Job, JobSet, PyTorchJob, RayJob, Workload, …)."""
    queue: str | None = None
    state: str | None = None
    """The scheduler's own word (COMPLETED, FAILED, TIMEOUT, Pending, …)."""
    reason: str | None = None
    exit_code: int | None = None
    exit_signal: int | None = None
    nodes: tuple[str, ...] = ()
    gpus: int | None = None
    submitted: int = NO_TIME
    started: int = NO_TIME
    ended: int = NO_TIME
    fields: Mapping[str, Any] = field(default_factory=dict)
    source: int = -1
    line: int = 0
    text: str = ""


@dataclass(slots=True)
class Checkpoint:
    """A checkpoint that was seen, in a log, in a listing or as files."""

    name: str
    """As written: a path or a tag such as ``global_step400``."""
    step: int | None
    saved_at: int = NO_TIME
    """UTC ns."""
    complete: bool = True
    """False if only its start was seen, or its files show that something is missing."""
    event: int | None = None
    """Row of `Case.events` that proves it."""
    layout: str = ""
    """Whose files they are (``PyTorch DCP``, ``Megatron``, ``DeepSpeed``, …); empty if known from a log only."""
    files: int = 0
    """Files that were seen of it, 0 if none was."""
    size: int | None = None
    """Bytes of these files; ``None`` if a size is not known to the byte."""
    timed_by: str = "log"
    """Where ``saved_at`` comes from: ``log``, ``listing``, ``archive`` or ``copy`` (file times that copying may have changed)."""
    within_s: float = 0.0
    """``saved_at`` may be this much too early: listings often end at the minute."""
    faults: tuple[str, ...] = ()
    """Why it is not complete."""
    doubts: tuple[str, ...] = ()
    """What could not be checked, or looks odd without being wrong."""
    inferred_step: bool = False
    """The step is that of the last progress line before the save; the true one may be a little higher."""
    source: str = ""
    """Name of the source that lists it, with the line and byte offset of its entry."""
    line: int = 0
    offset: int = 0
    text: str = ""


@dataclass(slots=True)
class KubernetesObject:
    """One object of a Kubernetes dump, kept as parsed."""

    kind: str
    name: str
    namespace: str | None
    body: Mapping[str, Any]
    source: int
    line: int = 0
    """Line in the source where the object begins, 0 if unknown."""


@dataclass(slots=True)
class Topology:
    """Who runs where: ranks to nodes to GPUs, and node names that mean the same machine."""

    world_size: int | None = None
    ranks: dict[int, RankPlace] = field(default_factory=dict)
    nodes: dict[str, set[str]] = field(default_factory=dict)
    """Known nodes, each with the names of the sources that mention it."""
    gpu_pci: dict[tuple[str, int], str] = field(default_factory=dict)
    """(node, GPU index) -> PCI id."""
    gpu_uuid: dict[tuple[str, str], str] = field(default_factory=dict)
    """(node, PCI id) -> GPU UUID."""
    node_kinds: dict[str, set[str]] = field(default_factory=dict)
    """Which scheduler names a node: ``slurm`` and/or ``kubernetes``."""
    tree: DomainTree = field(default_factory=DomainTree)
    """What nodes hang on: switches, NVLink domains, racks, power."""
    gpu_nics: dict[tuple[str, int], tuple[tuple[str, str], ...]] = field(default_factory=dict)
    """(node, GPU index) -> (NIC, relation such as ``PIX``), the nearest first, from ``nvidia-smi topo -m``."""

    def gpu_index(self, node: str | None, pci: str | None) -> int | None:
        """GPU index of a PCI id on a node, if any source joins the two."""
        for (known, index), bus in self.gpu_pci.items():
            if known == node and bus == pci:
                return index
        return None


@dataclass(slots=True)
class Coverage:
    """What was collected. What is absent is evidence too."""

    sources: dict[str, int] = field(default_factory=dict)
    """Number of files per kind."""
    problems: list[Problem] = field(default_factory=list)
    bytes: int = 0
    lines: int = 0
    nodes_with_kernel_log: set[str] = field(default_factory=set)
    ranks_with_log: set[int] = field(default_factory=set)
    skipped_files: int = 0


@dataclass(slots=True)
class Case:
    """Input of `pipeline.analyze`. Built by `aiops.ingest`, never changed by later rooms."""

    root: str
    sources: list[Source] = field(default_factory=list)
    events: EventTable = field(default_factory=EventTable)
    series: list[SeriesBlock] = field(default_factory=list)
    objects: list[KubernetesObject] = field(default_factory=list)
    jobs: list[Job] = field(default_factory=list)
    checkpoints: list[Checkpoint] = field(default_factory=list)
    flight: FlightRecords = field(default_factory=FlightRecords)
    topology: Topology = field(default_factory=Topology)
    coverage: Coverage = field(default_factory=Coverage)
    notes: list[str] = field(default_factory=list)
    """What was assumed while reading, in words."""
    memo: dict[str, Any] = field(default_factory=dict)
    """Results that several detectors share; each module uses its own key."""

    def read(self, source: int, offset: int, size: int) -> bytes:
        """Bytes of a source from ``offset`` on, at most ``size`` of them."""
        with open(self.sources[source].path, "rb") as handle:
            handle.seek(max(0, offset), os.SEEK_SET)
            return handle.read(size)
