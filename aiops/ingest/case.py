"""Build a `Case` from paths, and clean up behind it."""

from __future__ import annotations

import contextlib
import hashlib
import re
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import BinaryIO

from aiops.catalog import load_catalog
from aiops.config import Settings
from aiops.errors import InputError
from aiops.ingest.clocks import settle_clocks
from aiops.ingest.extract import Extractor, Pending
from aiops.ingest.identity import join_identities
from aiops.ingest.kubernetes import read_objects, sniff_kubernetes
from aiops.ingest.manifest import sniff_manifest
from aiops.ingest.metrics import read_metrics, sniff_metrics
from aiops.ingest.prefix import ANSI, parse_prefix
from aiops.ingest.slurm import read_slurm, sniff_slurm
from aiops.ingest.sniff import SCANNED, sniff
from aiops.ingest.spool import Spool
from aiops.model.case import Case, Problem, Source
from aiops.model.entity import is_host_name
from aiops.progress import Progress, silent
from aiops.scan import Scanner, make_scanner
from aiops.scan.pool import scan_files

_SAMPLE = 1 << 16
_DOCUMENTS = (
    ("manifest", sniff_manifest),
    ("metrics", sniff_metrics),
    ("kubernetes", sniff_kubernetes),
    ("slurm", sniff_slurm),
)
_READERS = {"metrics": read_metrics, "kubernetes": read_objects, "slurm": read_slurm}


@contextlib.contextmanager
def open_case(paths: Sequence[str | Path], settings: Settings, progress: Progress = silent) -> Iterator[Case]:
    """Read everything below ``paths`` into a case; unpacked archives are deleted when the context ends.

    Raises:
        InputError: a path is missing or unreadable, or nothing below it can be used.
    """
    names = [str(path) for path in paths]
    with tempfile.TemporaryDirectory(prefix="aiops-") as directory:
        case = Case(root=", ".join(names))
        spool = Spool(Path(directory), settings.limits)
        _find_sources(case, spool, names, progress)
        case.coverage.problems += spool.problems
        case.coverage.skipped_files = spool.skipped
        _require_content(case, names)
        catalog = load_catalog(settings.catalog_dirs)
        _read_documents(case, settings)
        scanner = make_scanner(
            catalog, cache_dir=settings.cache_dir, engine=settings.engine, keep=settings.limits.events_per_rule
        )
        pending = _scan_logs(case, scanner, progress)
        join_identities(case, pending)
        case.notes += settle_clocks(case, pending)
        _source_times(case)
        _cover(case)
        yield case


def _find_sources(case: Case, spool: Spool, names: list[str], progress: Progress) -> None:
    seen: dict[str, str] = {}
    found: list[Source] = []
    for name, path in spool.find(names):
        try:
            size = path.stat().st_size
            with open(path, "rb") as handle:
                head = _sample(handle, size)
                digest = _digest(handle, size)
        except OSError as error:
            case.coverage.problems.append(Problem(name, f"not read: {error.strerror}"))
            continue
        kind, format_ = sniff(head, _DOCUMENTS)
        if kind in ("binary", "empty"):
            if kind == "binary":
                case.coverage.problems.append(Problem(name, "skipped: binary content"))
            else:
                case.coverage.problems.append(Problem(name, "empty"))
            continue
        if digest in seen and size > 0:
            case.coverage.problems.append(Problem(name, f"the same content as {seen[digest]}: read once"))
            continue
        seen[digest] = name
        if head.startswith((b"\xff\xfe", b"\xfe\xff")):
            path, size = _to_utf8(path, Path(spool.directory)), size
            size = path.stat().st_size
            kind, format_ = sniff(path.read_bytes()[:_SAMPLE], _DOCUMENTS)
        source = Source(0, name, path, size, kind, format_, digest=digest)
        if kind in SCANNED:
            _describe(source, head)
        found.append(source)
        progress("read", len(found), 0)
    # by content, so that the order and the names of files change nothing
    found.sort(key=lambda s: (s.kind, s.digest))
    for index, source in enumerate(found):
        source.index = index
    case.sources = found


def _sample(handle: BinaryIO, size: int) -> bytes:
    head: bytes = handle.read(_SAMPLE)
    if size > 4 * _SAMPLE and b"\x00" not in head[:64]:
        handle.seek(size // 2)
        middle: bytes = handle.read(_SAMPLE // 2)
        cut = middle.find(b"\n")
        if head.lstrip()[:1] not in (b"{", b"["):
            head += b"\n" + middle[cut + 1 :]
    return head


def _digest(handle: BinaryIO, size: int) -> str:
    """Hash of size, beginning and end: equal files have equal digests, and large ones are not read twice."""
    hasher = hashlib.sha256(str(size).encode())
    span = size if size <= 8 << 20 else 1 << 20
    for at in {0, max(0, size // 2 - span // 2), max(0, size - span)} if span < size else {0}:
        handle.seek(at)
        hasher.update(handle.read(span))
    return hasher.hexdigest()[:16]


def _to_utf8(path: Path, directory: Path) -> Path:
    target = directory / f"{path.name}.utf8"
    with open(path, encoding="utf-16", errors="replace") as text, open(target, "w", encoding="utf-8") as out:
        while chunk := text.read(1 << 20):
            out.write(chunk)
    return target


_RANK_PATH = re.compile(
    r"(?:^|[/_.-])(?:rank|global_rank)[_.-]?(\d{1,6})(?=[/_.-]|$)|attempt_\d+/(\d{1,6})/std(?:err|out)"
)
_NAME_WORDS = re.compile(
    r"^(?:kern(?:el)?|dmesg|messages?|syslog|journal(?:ctl)?|log|logs|txt|out|err|json|gz|host|node|var|system)$"
)


def _describe(source: Source, head: bytes) -> None:
    """The one host and the one rank that a log says it comes from."""
    hosts: Counter[str] = Counter()
    ranks: Counter[int] = Counter()
    lines = ANSI.sub(b"", head).decode("utf-8", "replace").splitlines()[:400]
    labelled = sum(bool(re.match(r"\d{1,5}: ", line)) for line in lines)
    source.format = "srun -l" if lines and labelled * 10 > len(lines) * 7 else source.format
    for line in lines:
        prefix = parse_prefix(line[:400])
        if prefix.host and prefix.kernel and is_host_name(prefix.host):
            hosts[prefix.host] += 1
        if prefix.rank is not None:
            ranks[prefix.rank] += 1
    if len(hosts) == 1:
        source.node = next(iter(hosts))
    if len(ranks) == 1:
        source.rank = next(iter(ranks))
    elif not ranks and source.kind == "training":
        match = _RANK_PATH.search(source.name)
        if match:
            source.rank = int(match[1] or match[2])
    if source.node is None and not hosts and source.kind == "kernel":
        source.node = _host_in_name(source.name)


def _host_in_name(name: str) -> str | None:
    """A plain ``dmesg`` carries no host: the file's name is then the only hint, and a weak one."""
    for part in reversed(re.split(r"[/!]", name)):
        words = [w for w in re.split(r"[._ ]", part) if w and not _NAME_WORDS.match(w)]
        if len(words) == 1 and is_host_name(words[0]) and re.search(r"\d", words[0]) and len(words[0]) > 2:
            return words[0]
    return None


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
        done += source.size
        progress("scan", done, total)
    return extractor.pending


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
        if source.rank is not None:
            coverage.ranks_with_log.add(source.rank)
    for event in case.events:
        if event.rank is not None:
            coverage.ranks_with_log.add(event.rank)


def _require_content(case: Case, names: list[str]) -> None:
    usable = [s for s in case.sources if s.kind != "manifest"]
    if usable:
        return
    reasons = "; ".join(f"{p.source}: {p.reason}" for p in case.coverage.problems[:3])
    raise InputError(
        f"nothing here can be analysed{f' ({reasons})' if reasons else ': no files'}", path=", ".join(names)
    )
