"""Dumps of PyTorch's flight recorder, pickle or JSON, versions 1 and 2, into ``case.flight``.

Field names: `torch/csrc/distributed/c10d/FlightRecorder.hpp` and ``FlightRecorderDetail.hpp`` of PyTorch 2.2 to 2.10.
"""

from __future__ import annotations

import re
from collections.abc import Hashable, Mapping
from typing import Any, TypeVar

import orjson

from aiops.ingest.flight_ranks import name_ranks
from aiops.ingest.pickle_values import Refused, load_values, looks_like_pickle
from aiops.model.case import Case, Problem, Source
from aiops.model.flight import (
    NO_SEQ,
    FlightDump,
    FlightRecords,
    GroupStatus,
    OpState,
    ProcessGroup,
    Signature,
)

_OWN = (b"pg_config", b"profiling_name", b"collective_seq_id")
_JSON = re.compile(rb'"(?:profiling_name|collective_seq_id|pg_config)"\s*:')
_RECORD = re.compile(rb'"record_id"\s*:\s*\d')
_STATUS = re.compile(rb'"pg_status"\s*:')
_STATES = {"scheduled": OpState.SCHEDULED, "started": OpState.STARTED, "completed": OpState.COMPLETED}
_FRAMES = 24
_MOST = (1 << 62) - 1
_RANKS = 200_000
_P2P = ("send", "recv")
_KEY = "ingest.flight"

T = TypeVar("T", bound=Hashable)


def sniff_flight_recorder(head: bytes) -> str | None:
    """``pickle`` or ``json`` if the bytes begin a dump of the flight recorder."""
    if looks_like_pickle(head):
        return "pickle" if any(word in head for word in _OWN) else None
    if head[:64].lstrip()[:1] in (b"{", b"[") and _JSON.search(head):
        return "json"
    return None


def read_flight_recorder(source: Source, data: bytes | memoryview, case: Case) -> None:
    """Append the dump of a source to ``case.flight``.

    What cannot be read is recorded in ``case.coverage.problems``; such a dump stays in the list, since it proves
    that its rank wrote one.
    """
    content = bytes(data)
    dump = FlightDump(source.index, rank=source.rank, sure="case.yaml" if source.rank is not None else "")
    case.flight.dumps.append(dump)
    try:
        loaded = load_values(content) if source.format == "pickle" else None
        value = loaded.value if loaded else orjson.loads(content)
    except (Refused, orjson.JSONDecodeError) as error:
        dump.readable = False
        case.coverage.problems.append(Problem(source.name, f"flight-recorder dump not read: {error}"))
        return
    starts = loaded.starts if loaded else None
    if loaded and not loaded.complete:
        dump.complete = False
        reason = f"the pickle ends in the middle, at byte {loaded.ends_at}: the operations before it were read"
        case.coverage.problems.append(Problem(source.name, reason))
    reader = case.memo.setdefault(_KEY, _Reader(case.flight))
    assert isinstance(reader, _Reader)
    odd = reader.read(dump, value, starts)
    if starts is None:
        _places(dump, content)
    if odd:
        case.coverage.problems.append(Problem(source.name, odd))
    times = [ts for ts in dump.created if ts > 0]
    if times:
        source.first_ts, source.last_ts = min(times), max(times)
    source.lines = 0 if starts is not None else content.count(b"\n")


def finish_flight_records(case: Case) -> None:
    """When all dumps are read: which rank wrote which, one dump for each rank, and the size of the world."""
    case.memo.pop(_KEY, None)
    if not case.flight.dumps:
        return
    name_ranks(case)
    members = {rank for group in case.flight.groups for rank in group.ranks}
    members |= {dump.rank for dump in case.flight.dumps if dump.rank is not None}
    if members and case.topology.world_size is None:
        case.topology.world_size = max(members) + 1


def _places(dump: FlightDump, content: bytes) -> None:
    """Byte offsets of the records of a JSON dump: they stand in the order in which they were parsed."""
    found = [match.start() for match in _RECORD.finditer(content)]
    if len(found) == len(dump):
        for row, offset in enumerate(found):
            dump.offset[row] = offset
    status = _STATUS.search(content)
    dump.status_offset = status.start() if status else 0


class _Reader:
    """Turns parsed dumps into columns; names, shapes and stacks that many records share are kept once."""

    def __init__(self, records: FlightRecords) -> None:
        self._records = records
        self._index: dict[Hashable, int] = {}
        self._ranks: dict[str, tuple[int, ...]] = {}
        self._intern(("stack", ()), records.stacks, ())

    def _intern(self, key: Hashable, table: list[T], value: T) -> int:
        found = self._index.get(key)
        if found is None:
            found = self._index[key] = len(table)
            table.append(value)
        return found

    def read(self, dump: FlightDump, value: Any, starts: Mapping[int, int] | None) -> str:
        """Fill the columns of a dump; returns what was left out, in words, or nothing."""
        if isinstance(value, list):  # before version 1.1 a dump was the list of its entries
            value = {"version": "1.0", "entries": value}
        if not isinstance(value, dict) or not {"entries", "pg_config", "pg_status"} & value.keys():
            dump.readable = False
            return "flight-recorder dump not read: it has neither entries nor process groups"
        dump.version = str(value.get("version", ""))[:20]
        groups = self._config(dump, value.get("pg_config"))
        entries = value.get("entries")
        ids: dict[str, set[int]] = {}
        left_out = 0
        frames: dict[int, str] = {}
        for entry in entries if isinstance(entries, list) else ():
            if not isinstance(entry, dict) or not isinstance(entry.get("profiling_name"), str):
                left_out += 1
                continue
            group = self._group_of(dump, entry, groups)
            ids.setdefault(str(entry.get("pg_id")), set()).add(group)
            self._entry(dump, entry, group, frames)
            dump.offset.append(starts.get(id(entry), 0) if starts else 0)
        status = value.get("pg_status")
        if isinstance(status, dict):
            dump.status_offset = starts.get(id(status), 0) if starts else 0
            self._status(dump, status, ids)
        return f"{left_out} records are no operations: left out" if left_out else ""

    def _config(self, dump: FlightDump, config: Any) -> dict[str, int]:
        """Groups that the rank belongs to: name -> index."""
        found: dict[str, int] = {}
        if not isinstance(config, dict):
            return found
        for key, info in config.items():
            name, desc, ranks = str(key), "", info
            if isinstance(info, dict):
                name, desc = str(info.get("name", key)), str(info.get("desc", ""))
                ranks = info.get("ranks")
            index = self._group(name, self._members(ranks), desc)
            found[name] = index
            dump.groups[index] = None
        return found

    def _members(self, ranks: Any) -> tuple[int, ...]:
        """``"[0, 1]"`` of version 2, a list of version 1."""
        if isinstance(ranks, str):
            known = self._ranks.get(ranks)
            if known is None:
                numbers = re.findall(r"\d{1,9}", ranks)
                known = self._ranks[ranks] = tuple(sorted({int(n) for n in numbers if int(n) < _RANKS}))
            return known
        if isinstance(ranks, (list, tuple)):
            return tuple(sorted({n for n in ranks if isinstance(n, int) and 0 <= n < _RANKS}))
        return ()

    def _group(self, name: str, ranks: tuple[int, ...], desc: str) -> int:
        group = ProcessGroup(name[:200], ranks, desc[:200])
        return self._intern(("group", name, ranks), self._records.groups, group)

    def _group_of(self, dump: FlightDump, entry: Mapping[str, Any], groups: dict[str, int]) -> int:
        named = entry.get("process_group", entry.get("pg_name"))
        desc = ""
        if isinstance(named, (list, tuple)) and named:
            named, desc = str(named[0]), str(named[1]) if len(named) > 1 else ""
        name = named if isinstance(named, str) else str(entry.get("pg_id", "0"))
        index = groups.get(name)
        if index is None:
            index = groups[name] = self._group(name, (), desc)
            dump.groups[index] = None
        return index

    def _entry(self, dump: FlightDump, entry: Mapping[str, Any], group: int, frames: dict[int, str]) -> None:
        name = entry["profiling_name"].rpartition(":")[2][:120]
        p2p = bool(entry.get("is_p2p", name.startswith(_P2P)))
        seq = entry.get("p2p_seq_id") if p2p and "p2p_seq_id" in entry else entry.get("collective_seq_id")
        dump.record.append(_int(entry.get("record_id"), len(dump.record)))
        dump.created.append(_int(entry.get("time_created_ns"), 0))
        dump.seq.append(_int(entry.get("seq_id") if seq is None else seq, NO_SEQ))
        dump.group.append(group)
        dump.op.append(self._intern(("op", name), self._records.ops, name))
        dump.signature.append(self._signature(entry))
        dump.stack.append(self._stack(entry.get("frames"), frames))
        dump.state.append(_STATES.get(str(entry.get("state")), OpState.SCHEDULED))
        dump.p2p.append(p2p)
        dump.retired.append(entry.get("retired") is True)

    def _signature(self, entry: Mapping[str, Any]) -> int:
        inputs, outputs = _sizes(entry.get("input_sizes")), _sizes(entry.get("output_sizes"))
        dtypes = _words(entry.get("input_dtypes")) + _words(entry.get("output_dtypes"))
        key = ("sig", inputs, outputs, dtypes)
        found = self._index.get(key)
        if found is None:
            found = self._intern(key, self._records.signatures, Signature(inputs, outputs, dtypes))
        return found

    def _stack(self, frames: Any, known: dict[int, str]) -> int:
        """Frames are shared within a dump: each is put into words once."""
        if not isinstance(frames, list):
            return 0
        words = []
        for frame in frames[:_FRAMES]:
            text = known.get(id(frame))
            if text is None and isinstance(frame, dict):
                text = f"{frame.get('name', '?')} ({frame.get('filename', '?')}:{frame.get('line', '?')})"[:300]
                known[id(frame)] = text
            if text is not None:
                words.append(text)
        stack = tuple(words)
        return self._intern(("stack", stack), self._records.stacks, stack)

    def _status(self, dump: FlightDump, status: Mapping[Any, Any], ids: Mapping[str, set[int]]) -> None:
        """Counters are kept under the group's local number; which group that is, entries tell, or the order of creation."""
        known = {number: next(iter(groups)) for number, groups in ids.items() if len(groups) == 1}
        names = {index: self._records.groups[index].name for index in dump.groups}
        if len(status) == len(names) and all(name.isdigit() for name in names.values()):
            in_order = sorted(names, key=lambda index: int(names[index]))
            numbers = sorted((str(key) for key in status if str(key).isdigit()), key=int)
            guess = dict(zip(numbers, in_order, strict=False))
            if len(numbers) == len(in_order) and all(guess.get(n) == g for n, g in known.items()):
                known = guess
        for key, counters in status.items():
            group = known.get(str(key))
            if group is None or not isinstance(counters, dict):
                continue
            dump.groups[group] = GroupStatus(
                _int(counters.get("last_enqueued_collective"), NO_SEQ),
                _int(counters.get("last_completed_collective"), NO_SEQ),
            )


def _int(value: Any, default: int) -> int:
    """A counter, also as JSON writes it into strings; damage gives the default."""
    if isinstance(value, str) and re.fullmatch(r"-?\d{1,18}", value):
        value = int(value)
    if isinstance(value, float) and abs(value) < _MOST:
        value = int(value)
    return value if isinstance(value, int) and -_MOST <= value <= _MOST else default


def _sizes(value: Any) -> tuple[tuple[int, ...], ...]:
    if not isinstance(value, (list, tuple)):
        return ()
    return tuple(
        tuple(n for n in item if isinstance(n, int)) if isinstance(item, (list, tuple)) else () for item in value
    )


def _words(value: Any) -> tuple[str, ...]:
    return tuple(str(item)[:40] for item in value) if isinstance(value, (list, tuple)) else ()
