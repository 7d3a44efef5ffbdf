"""Build a `Case` from paths, and clean up behind it."""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

from aiops.catalog import load_catalog
from aiops.config import Settings
from aiops.errors import InputError
from aiops.ingest.checkpoints import read_checkpoints
from aiops.ingest.clocks import settle_clocks
from aiops.ingest.extract import Extractor, Pending
from aiops.ingest.facts import facts_of
from aiops.ingest.files import find_sources
from aiops.ingest.flight_recorder import finish_flight_records, read_flight_recorder
from aiops.ingest.gpu_diagnostics import read_diagnostics
from aiops.ingest.identity import join_identities
from aiops.ingest.kubernetes import read_objects
from aiops.ingest.linemap import line_map
from aiops.ingest.metrics import read_metrics
from aiops.ingest.outputs import keep_one_job
from aiops.ingest.slurm import read_slurm
from aiops.ingest.sniff import SCANNED
from aiops.ingest.spool import Spool
from aiops.ingest.topology import read_topology
from aiops.ingest.topology_kubernetes import join_kubernetes_topology
from aiops.model.case import Case, Job, Problem
from aiops.progress import Progress, silent
from aiops.scan import Scanner, make_scanner
from aiops.scan.pool import scan_files

_READERS = {
    "metrics": read_metrics,
    "diagnostics": read_diagnostics,
    "kubernetes": read_objects,
    "slurm": read_slurm,
    "topology": read_topology,
    "flight_recorder": read_flight_recorder,
}


@contextlib.contextmanager
def open_case(
    paths: Sequence[str | Path],
    settings: Settings,
    progress: Progress = silent,
    *,
    leave_out: Sequence[str] = (),
    job: str | None = None,
) -> Iterator[Case]:
    """Read everything below ``paths`` into a case; unpacked archives are deleted when the context ends.

    ``leave_out`` are names of files that are not read, or of folders (with ``/`` at the end); the output of programs that is
    read belongs to ``job``, if that is given and ``case.yaml`` says nothing else.

    Raises:
        InputError: a path is missing or unreadable, nothing below it can be used, or its ``case.yaml`` is wrong.
    """
    names = [str(path) for path in paths]
    with tempfile.TemporaryDirectory(prefix="aiops-") as directory:
        case = Case(root=", ".join(names))
        spool = Spool(Path(directory), settings.limits)
        find_sources(case, spool, names, progress, leave_out)
        for source in case.sources:
            if source.kind == "training":
                source.job = source.job or job
        case.coverage.problems += spool.problems
        case.coverage.skipped_files = spool.skipped
        _require_content(case, names)
        catalog = load_catalog(settings.catalog_dirs, settings.cache_dir)
        case.topology.tree.state(facts_of(case).declared.edges)
        _read_documents(case, settings)
        join_kubernetes_topology(case)
        _declared_job(case)
        scanner = make_scanner(
            catalog, cache_dir=settings.cache_dir, engine=settings.engine, keep=settings.limits.events_per_rule
        )
        pending = _scan_logs(case, scanner, progress)
        join_identities(case, pending)
        case.notes += settle_clocks(case, pending)
        read_checkpoints(case)
        _source_times(case)
        _cover(case)
        keep_one_job(case)
        yield case


def _read_documents(case: Case, settings: Settings) -> None:
    for source in case.sources:
        reader = _READERS.get(source.kind)
        if reader is None:
            continue
        if source.size > settings.limits.max_document_bytes:
            case.coverage.problems.append(
                Problem(
                    source.name,
                    f"{source.size} bytes: larger than a document may be ({settings.limits.max_document_bytes})",
                )
            )
            continue
        reader(source, source.path.read_bytes(), case)
    finish_flight_records(case)


def _scan_logs(case: Case, scanner: Scanner, progress: Progress) -> Pending:
    extractor = Extractor(case, scanner.rules)
    total = sum(source.size for source in case.sources if source.kind in SCANNED)
    done = 0
    scanned = [source for source in case.sources if source.kind in SCANNED]
    for found in scan_files(scanner, [source.path for source in scanned]):
        source = scanned[found.file]
        labels = source.format == "srun -l"
        for hit in found.hits:
            extractor.add(source, hit, task_labels=labels)
        source.lines += found.lines
        if not found.last:
            continue
        lines = line_map(case, source.index)
        source.lines = lines.total if lines else source.lines
        done += source.size
        progress("scan", done, total)
    for (source_index, other), count in sorted(extractor.repeated.items()):
        name, first = case.sources[source_index].name, case.sources[other].name
        case.coverage.problems.append(Problem(name, f"{count} lines stand in {first} as well: counted once"))
        facts_of(case).duplicates.append((name, first))
    return extractor.pending


def _declared_job(case: Case) -> None:
    """The job that ``case.yaml`` names, unless a scheduler's record tells of it."""
    declared = facts_of(case).declared
    if declared.job_id is None or any(job.id == declared.job_id for job in case.jobs):
        return
    case.jobs.append(Job(declared.job_id, name=declared.job_name, scheduler=declared.scheduler))


def _source_times(case: Case) -> None:
    for event in case.events:
        if event.quality >= 3 and event.ts > 0:
            source = case.sources[event.source]
            source.first_ts = event.ts if source.first_ts < 0 else min(source.first_ts, event.ts)
            source.last_ts = max(source.last_ts, event.ts)


def _cover(case: Case) -> None:
    coverage = case.coverage
    for source in case.sources:
        coverage.sources[source.kind] = coverage.sources.get(source.kind, 0) + 1
        coverage.bytes += source.size
        coverage.lines += source.lines
        if source.kind == "kernel" and source.node:
            coverage.nodes_with_kernel_log.add(source.node)
        if source.rank is not None and source.kind in SCANNED:
            coverage.ranks_with_log.add(source.rank)
    for event in case.events:
        if event.rank is not None:
            coverage.ranks_with_log.add(event.rank)


def _require_content(case: Case, names: list[str]) -> None:
    usable = [s for s in case.sources if s.kind != "manifest"]
    if usable or facts_of(case).checkpoint_files:
        return
    reasons = "; ".join(f"{p.source}: {p.reason}" for p in case.coverage.problems[:3])
    raise InputError(
        f"nothing here can be analysed{f' ({reasons})' if reasons else ': no files'}", path=", ".join(names)
    )
