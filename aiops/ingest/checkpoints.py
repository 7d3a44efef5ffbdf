"""The checkpoints of a case that were listed, or that lie in it as files."""

from __future__ import annotations

import re
from datetime import UTC, datetime, tzinfo
from pathlib import Path

from aiops.ingest.checkpoint_check import check
from aiops.ingest.checkpoint_files import inspect
from aiops.ingest.checkpoint_layout import METADATA, Found, find_checkpoints
from aiops.ingest.facts import facts_of
from aiops.ingest.listing import Entry, read_listing
from aiops.ingest.prefix import NS
from aiops.ingest.sniff import is_binary
from aiops.model.case import Case, Checkpoint, Problem, Source
from aiops.model.event import NO_TIME

_MOST_CHECKPOINTS = 2_000
_DAY = 86_400 * NS
_DOT_ENTRY = re.compile(rb"^d.* \.{1,2}/?\r?$", re.M)
_WORDS = (b"iter", b"step", b"checkpoint", b"ckpt", b".distcp", b"epoch", b"ep0-", b"latest", b"-ba", b"last")
_FIRST = 4096
"""Logs are told from listings by this many bytes, so that they cost nothing."""
LISTING = "file listing"
"""`Source.format` of a listing that names checkpoints."""


def sniff_listing(head: bytes) -> tuple[str, bool] | None:
    """(why, nothing but a listing) if the text lists checkpoints, else ``None``."""
    if not any(word in head for word in _WORDS):
        return None
    begin, strange = read_listing(head[:_FIRST])
    if len(begin) * 4 < strange:
        return None
    entries, other = read_listing(head)
    if len(entries) < 2 or other > len(entries):
        return None
    found = find_checkpoints(entries)
    if not found:
        return None
    return f"{len(entries)} lines list files, of {len(found)} checkpoints", other == 0


def set_apart(files: list[tuple[str, Path]], stated: dict[str, tuple[int, int, str]]) -> tuple[list[Found], set[str]]:
    """Checkpoints that lie among the files of a case, and the names of files that are nothing but their parts.

    ``stated`` holds (size, mtime in UTC ns, ``archive`` or ``copy``) where a container states them.
    """
    entries = []
    for name, path in files:
        size, mtime, _ = stated.get(name) or (*_stat(path), "copy")
        entries.append(Entry(name.replace("!", "/"), size, mtime, within_s=1.0, zoned=True, text=name, file=path))
    found = [item for item in find_checkpoints(entries) if item.members]
    parts: set[str] = set()
    for item in found:
        for extra in (item.marker, item.tracker):
            if extra is not None and (extra.size or 0) <= 256:
                parts.add(extra.text)
        parts.update(entry.text for name, entry in item.members.items() if _is_part(name, entry))
    # a log or a dump whose name happens to hold a step makes no checkpoint
    found = [item for item in found if any(entry.text in parts for entry in item.members.values())]
    return found, parts


def _stat(path: Path) -> tuple[int, int]:
    status = path.stat()
    return status.st_size, status.st_mtime_ns


def _is_part(name: str, entry: Entry) -> bool:
    """The content decides: a text is evidence, whatever it is called."""
    assert entry.file is not None
    if not entry.size:
        return True
    with open(entry.file, "rb") as handle:
        head = handle.read(8192)
    base = name.rpartition("/")[2]
    small_json = head.lstrip()[:1] == b"{" and (
        base in METADATA or base.endswith(".index.json") or base == "metadata.json"
    )
    return is_binary(head) or b"\x00" in head[:512] or small_json


def read_checkpoints(case: Case) -> None:
    """Fill ``case.checkpoints`` from the listings of the case and from files that were set apart. Times: UTC ns."""
    facts = facts_of(case)
    for source in case.sources:
        if source.format == LISTING:
            zone = facts.declared.zone_of(source.name)
            data = source.path.read_bytes()
            entries, _ = read_listing(data)
            _settle(case, entries, zone)
            _add(case, _joined(find_checkpoints(entries)), source, _shows_dots(entries, data))
    _add(case, facts.checkpoint_files, None, True)


def _shows_dots(entries: list[Entry], data: bytes) -> bool:
    """True unless it is a plain ``ls``, which hides names that begin with a dot."""
    if any(entry.path.rpartition("/")[2].startswith(".") for entry in entries) or _DOT_ENTRY.search(data):
        return True
    return not any(entry.text.startswith(("-", "d")) for entry in entries)


def _joined(found: list[Found]) -> list[Found]:
    """A folder that one command lists by its path and the next one from inside is one checkpoint."""
    kept = []
    for item in found:
        whole = [o for o in found if not o.members and o is not item and o.root.endswith(f"/{item.root}")]
        if item.members and len(whole) == 1:
            whole[0].members, whole[0].single = item.members, item.single
            whole[0].marker, whole[0].tracker = whole[0].marker or item.marker, whole[0].tracker or item.tracker
        else:
            kept.append(item)
    return kept


def _settle(case: Case, entries: list[Entry], zone: tzinfo | None) -> None:
    """Years and zones that a listing leaves out: the year by which it lies nearest to the rest of the case, and not after it."""
    times = [event.ts for event in case.events if event.quality >= 3 and event.ts > 0]
    last = max(times, default=NO_TIME)
    for entry in entries:
        if entry.mtime == NO_TIME:
            continue
        if entry.yearless:
            entry.mtime = _with_year(entry.mtime, last) if last != NO_TIME else NO_TIME
            entry.yearless = False
        if not entry.zoned and zone is not None and entry.mtime != NO_TIME:
            naive = datetime.fromtimestamp(entry.mtime // NS, UTC).replace(tzinfo=zone)
            offset = naive.utcoffset()
            entry.mtime -= int(offset.total_seconds()) * NS if offset else 0
            entry.zoned = True


def _with_year(ts: int, last: int) -> int:
    year = datetime.fromtimestamp(last // NS, UTC).year
    stamp = datetime.fromtimestamp(ts // NS, UTC)
    for candidate in (year + 1, year, year - 1):
        try:
            moved = int(stamp.replace(year=candidate).timestamp()) * NS
        except ValueError:
            continue
        if moved <= last + _DAY:
            return moved
    return NO_TIME


def _add(case: Case, found: list[Found], source: Source | None, dotfiles: bool) -> None:
    if len(found) > _MOST_CHECKPOINTS:
        where = source.name if source else case.root
        case.coverage.problems.append(
            Problem(where, f"{len(found)} checkpoints: only {_MOST_CHECKPOINTS} were looked at")
        )
        found = found[:_MOST_CHECKPOINTS]
    beside: dict[str, list[Found]] = {}
    for item in found:
        beside.setdefault(item.parent, []).append(item)
    for group in beside.values():
        group.sort(key=lambda item: (item.step if item.step is not None else -1, item.epoch or -1, item.root))
        for item in group:
            case.checkpoints.append(_checkpoint(case, item, group, source, dotfiles))


def _checkpoint(case: Case, item: Found, group: list[Found], source: Source | None, dotfiles: bool) -> Checkpoint:
    faults, doubts = check(item, [other for other in group if other is not item], dotfiles=dotfiles)
    if source is None:
        more, good = inspect(item)
        faults += [fault for fault in more if fault not in faults]
        doubts += good
    files = [entry for entry in item.members.values() if not entry.folder]
    stamped = [e for e in files if e.mtime != NO_TIME] or [
        e for e in (item.folder,) if e is not None and e.mtime != NO_TIME
    ]
    newest = max(stamped, key=lambda e: e.mtime, default=None)
    shown = item.folder or (min(files, key=lambda e: (e.line, e.path)) if files else None)
    sizes = [entry.size for entry in files]
    exact = bool(files) and not any(e.rounded or e.size is None for e in files)
    timed_by = "listing"
    if source is None:
        names = {entry.text for entry in files}
        timed_by = "archive" if names and all(facts_of(case).file_times.get(n) == "archive" for n in names) else "copy"
    return Checkpoint(
        name=item.root,
        step=item.step,
        saved_at=newest.mtime if newest else NO_TIME,
        complete=not faults,
        layout=item.layout,
        files=len(files),
        size=sum(size or 0 for size in sizes) if exact else None,
        timed_by=timed_by if newest else "",
        within_s=newest.within_s if newest else 0.0,
        faults=tuple(faults),
        doubts=(*doubts, *(() if newest is None or newest.zoned else ("its time carries no zone and is read as UTC",))),
        source=source.name if source else item.root,
        line=shown.line if shown and source else 0,
        offset=shown.offset if shown and source else 0,
        text=shown.text if shown and source else f"{len(files)} files",
    )
