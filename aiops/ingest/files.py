"""From plain files to the sources of a case: what each is, whose it is, and which are the same thing twice."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from aiops.ingest.bug_report import is_bug_report, keep_logs
from aiops.ingest.case_yaml import Declared, is_case_yaml, read_case_yaml
from aiops.ingest.checkpoints import LISTING, set_apart, sniff_listing
from aiops.ingest.cluster_dump import with_logs
from aiops.ingest.describe import boot_time, describe, hosts_of_trees
from aiops.ingest.duplicates import digest, parts_of_others
from aiops.ingest.facts import Facts, facts_of
from aiops.ingest.flight_recorder import sniff_flight_recorder
from aiops.ingest.gpu_diagnostics import sniff_diagnostics
from aiops.ingest.kubernetes import sniff_kubernetes
from aiops.ingest.linemap import LineMap, remember_lines
from aiops.ingest.manifest import sniff_manifest
from aiops.ingest.metrics import sniff_metrics
from aiops.ingest.records import Seen
from aiops.ingest.slurm import sniff_slurm
from aiops.ingest.sniff import SCANNED, Sniffed, is_program_log, sniff
from aiops.ingest.spool import Spool
from aiops.ingest.topology import sniff_topology
from aiops.ingest.unwrap import needs_cleaning, sniff_wrapped, unwrap
from aiops.model.case import Case, Problem, Source
from aiops.progress import Progress

_SAMPLE = 1 << 16
_DOCUMENTS = (
    ("manifest", sniff_manifest),
    ("flight_recorder", sniff_flight_recorder),
    ("metrics", sniff_metrics),
    ("diagnostics", sniff_diagnostics),
    ("kubernetes", sniff_kubernetes),
    ("slurm", sniff_slurm),
    ("topology", sniff_topology),
)


@dataclass(slots=True)
class _Found:
    """A file on its way to become a source."""

    source: Source
    head: bytes
    why: str
    lines: LineMap | None = None
    seen: Seen | None = None


def find_sources(case: Case, spool: Spool, names: list[str], progress: Progress, leave_out: Sequence[str] = ()) -> None:
    """Fill ``case.sources``, in an order that names do not change, and what ``case.yaml`` states of them.

    Raises:
        InputError: a path is missing or unreadable, or a ``case.yaml`` is wrong.
    """
    facts = facts_of(case)
    plain: list[tuple[str, Path]] = []
    others = frozenset(leave_out)
    folders = tuple(name for name in leave_out if name.endswith("/"))
    for name, path in spool.find(names):
        if name in others or name.startswith(folders):
            continue
        if is_case_yaml(name) and not facts.declared.path:
            facts.declared = read_case_yaml(path, name)
        else:
            plain.append((name, path))
    facts.checkpoint_files, parts = set_apart(plain, spool.stated)
    facts.file_times = {name: how for name, (_, _, how) in spool.stated.items()}
    found: list[_Found] = []
    same: dict[str, str] = {}
    for name, path in with_logs(plain, spool):
        if name in parts or name in others:
            continue
        try:
            item = _look(case, spool, facts, name, path, same)
        except OSError as error:
            case.coverage.problems.append(Problem(name, f"not read: {error.strerror}"))
            continue
        if item is not None:
            found.append(item)
            progress("read", len(found), 0)
    found.sort(key=lambda item: (item.source.kind, item.source.digest))
    _describe(found, facts)
    found = _without_parts(case, found, facts)
    for index, item in enumerate(found):
        item.source.index = index
        facts.why[index] = item.why
        if item.lines is not None:
            remember_lines(case, index, item.lines)
    case.sources = [item.source for item in found]
    _unmatched(case, facts.declared, [name for name, _ in plain])


def _look(case: Case, spool: Spool, facts: Facts, name: str, path: Path, same: dict[str, str]) -> _Found | None:
    size = path.stat().st_size
    with open(path, "rb") as handle:
        head = _sample(handle, size)
        key = digest(handle, size)
    declared = facts.declared.about(name)
    if declared is not None and declared.kind == "ignore":
        return None
    if head.startswith((b"\xff\xfe", b"\xfe\xff")) or _is_utf16(head):
        path = _to_utf8(path, spool.new_file(), head)
        size = path.stat().st_size
        head = path.read_bytes()[:_SAMPLE] if size <= _SAMPLE else _head(path)
    what = sniff(head, _DOCUMENTS)
    listing = sniff_listing(head) if what.kind in ("training", "text") and not is_program_log(head) else None
    if listing is not None:
        what = Sniffed("listing" if listing[1] else "text", LISTING, listing[0])
    if what.kind in ("binary", "empty"):
        case.coverage.problems.append(Problem(name, "empty" if what.kind == "empty" else f"skipped: {what.why}"))
        return None
    # ranks that recorded nothing leave equal dumps: each proves that its rank wrote one
    if key in same and size > 0 and what.kind != "flight_recorder":
        case.coverage.problems.append(Problem(name, f"the same content as {same[key]}: read once"))
        facts.duplicates.append((name, same[key]))
        return None
    same[key] = name
    source = Source(0, name, path, size, what.kind, what.format, digest=key)
    item = _Found(source, head, what.why)
    if what.kind in SCANNED:
        _make_plain(spool, item, what)
    if declared is not None and declared.kind:
        item.why = f"case.yaml, line {declared.line}"
        source.kind = declared.kind
        source.format = LISTING if declared.kind == "listing" else source.format
        if declared.kind not in SCANNED and declared.kind not in (what.kind, "listing"):
            source.format = next((s(head) or "" for k, s in _DOCUMENTS if k == declared.kind), "")
    return item


def _make_plain(spool: Spool, item: _Found, what: Sniffed) -> None:
    """Unwrap records, blank what is no log, take away what a terminal would not show."""
    source, head = item.source, item.head
    if is_bug_report(head):
        target = spool.new_file()
        sections, kept = keep_logs(source.path, target)
        source.path, source.kind, source.format = target, "kernel", "nvidia-bug-report"
        item.why = f"the report of nvidia-bug-report.sh: {kept} of {sections} sections are logs"
        return
    form = sniff_wrapped(head)
    if not form and not needs_cleaning(head):
        return
    if not spool.reserve(source.size):
        return
    original, target = source.path, spool.new_file()
    lines, seen = unwrap(original, form, target, head)
    source.path = target
    plain = _head(target)
    item.head = plain
    if form:
        again = sniff(plain, ())
        kind = again.kind if again.kind in SCANNED else what.kind
        if form in ("journald export", "journald json", "journald json-pretty", "dmesg json"):
            kind = "kernel"
        source.kind, source.format = kind, form
        item.why = f"records of {form}; their text: {again.why}"
        item.seen = seen
        item.lines = lines
    elif b"\r" in head:
        item.lines = lines


def _describe(found: list[_Found], facts: Facts) -> None:
    for position, item in enumerate(found):
        source = item.source
        if source.kind not in SCANNED:
            continue
        if item.seen is not None:
            _from_records(source, position, item.seen, facts)
        describe(source, position, item.head, facts)
        if source.kind == "kernel" and source.format == "dmesg json":
            boot = boot_time(item.head)
            if boot > 0:
                facts.boot[position] = boot
    hosts_of_trees([item.source for item in found], facts)
    for position, item in enumerate(found):
        declared = facts.declared.about(item.source.name)
        if declared is None:
            continue
        if declared.node:
            item.source.node = declared.node
            facts.node_why[position] = f"case.yaml, line {declared.line}"
        if declared.rank is not None:
            item.source.rank = declared.rank
            facts.rank_why[position] = f"case.yaml, line {declared.line}"
        item.source.pod = declared.pod or item.source.pod
        item.source.job = declared.job


def _from_records(source: Source, position: int, seen: Seen, facts: Facts) -> None:
    if len(seen.hosts) == 1:
        source.node = next(iter(seen.hosts))
        facts.node_why[position] = "its records name one host"
    if len(seen.pods) == 1:
        source.pod = next(iter(seen.pods))
    facts.pod_nodes.update(seen.pod_nodes)
    for (host, _), start in seen.boots.items():
        facts.boots.setdefault(host, []).append(start)


def _without_parts(case: Case, found: list[_Found], facts: Facts) -> list[_Found]:
    """Leave out files whose content stands in a longer one: earlier copies, tails, rotations."""
    logs = [position for position, item in enumerate(found) if item.source.kind in SCANNED]
    parts = parts_of_others([found[position].source for position in logs])
    gone = {logs[position]: part for position, part in parts.items()}
    if not gone:
        return found
    for position in sorted(gone):
        whole, how = gone[position]
        name = found[position].source.name
        case.coverage.problems.append(Problem(name, f"{how} of {whole.name}: read once"))
        facts.duplicates.append((name, whole.name))
    kept = [position for position in range(len(found)) if position not in gone]
    for table in (facts.node_why, facts.rank_why):
        moved = {new: table[old] for new, old in enumerate(kept) if old in table}
        table.clear()
        table.update(moved)
    facts.boot = {new: facts.boot[old] for new, old in enumerate(kept) if old in facts.boot}
    return [found[position] for position in kept]


def _unmatched(case: Case, declared: Declared, names: list[str]) -> None:
    used = {item.pattern for name in names if (item := declared.about(name)) is not None}
    for entry in declared.files:
        if entry.pattern not in used:
            case.coverage.problems.append(
                Problem(declared.path, f"no file is named {entry.pattern!r}, or an earlier entry fits it", entry.line)
            )


def _sample(handle: BinaryIO, size: int) -> bytes:
    head: bytes = handle.read(_SAMPLE)
    if size > 4 * _SAMPLE and b"\x00" not in head[:64]:
        handle.seek(size // 2)
        middle: bytes = handle.read(_SAMPLE // 2)
        cut = middle.find(b"\n")
        if head.lstrip()[:1] not in (b"{", b"["):
            head += b"\n" + middle[cut + 1 :]
    return head


def _head(path: Path) -> bytes:
    with open(path, "rb") as handle:
        return handle.read(_SAMPLE)


def _is_utf16(head: bytes) -> bool:
    """UTF-16 without a mark: every second byte of ASCII text is NUL."""
    sample = head[:2048]
    return len(sample) >= 16 and b"\n\x00" in sample and sample[1::2].count(0) * 10 > len(sample) // 2 * 9


def _to_utf8(path: Path, target: Path, head: bytes) -> Path:
    encoding = "utf-16" if head.startswith((b"\xff\xfe", b"\xfe\xff")) else "utf-16-le"
    with open(path, encoding=encoding, errors="replace", newline="") as text, open(target, "wb") as out:
        while chunk := text.read(1 << 20):
            out.write(chunk.encode("utf-8", "replace"))
    return target
