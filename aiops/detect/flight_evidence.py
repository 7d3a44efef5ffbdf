"""From records of flight-recorder dumps to quotations that a person can open."""

from __future__ import annotations

from aiops.model.case import Case
from aiops.model.clock import iso
from aiops.model.event import NO_TIME
from aiops.model.finding import EvidenceRef
from aiops.model.flight import FlightDump, GroupStatus, OpState

_WINDOW = 4096
_LONGEST = 900
_CHUNK = 1 << 20


def last_call(dump: FlightDump) -> int | None:
    """Row of the newest operation of a dump; ``None`` if it has none."""
    return max(range(len(dump)), key=lambda row: (dump.record[row], row)) if len(dump) else None


def own_frame(frames: tuple[str, ...]) -> str:
    """The innermost frame that is not PyTorch's own."""
    return next((f for f in frames if "/torch/" not in f and "torch/distributed" not in f), frames[0])


def quote_record(case: Case, dump: FlightDump, row: int) -> EvidenceRef:
    """One record: of a JSON dump as it stands there, of a pickle in words with the byte at which it begins."""
    created = dump.created[row]
    ts = created if created > 0 else NO_TIME
    if case.sources[dump.source].format == "json":
        return _json_line(case, dump, dump.offset[row], ts)
    records = case.flight
    group = records.groups[dump.group[row]]
    state = OpState(dump.state[row]).name.lower()
    signature = records.signatures[dump.signature[row]]
    shape = " ".join(str(list(item)) for item in signature.inputs[:2])
    frames = records.stacks[dump.stack[row]]
    text = (
        f"rank {dump.rank}, record {dump.record[row]}: {records.ops[dump.op[row]]} {shape} {'/'.join(dict.fromkeys(signature.dtypes))}, "
        f"process group {group.name} {group.desc}, sequence {dump.seq[row]}, {state}, issued {iso(created) or 'at an unknown time'}"
        + (f", from {own_frame(frames)}" if frames else "")
    )
    offset = dump.offset[row]
    place = f"record {dump.record[row]}, byte {offset}"
    return EvidenceRef(case.sources[dump.source].name, 0, offset, text, ts, place)


def quote_status(case: Case, dump: FlightDump) -> EvidenceRef:
    """The counters of a dump that holds no operations."""
    if case.sources[dump.source].format == "json":
        return _json_line(case, dump, dump.status_offset, NO_TIME)
    told = [
        (case.flight.groups[i].name, status) for i, status in dump.groups.items() if isinstance(status, GroupStatus)
    ]
    counters = ", ".join(f"{name}: {s.enqueued} issued, {s.completed} completed" for name, s in sorted(told)[:4])
    text = f"rank {dump.rank}: no operation recorded" + (f"; process groups {counters}" if counters else "")
    place = f"pg_status, byte {dump.status_offset}"
    return EvidenceRef(case.sources[dump.source].name, 0, dump.status_offset, text, NO_TIME, place)


def _json_line(case: Case, dump: FlightDump, offset: int, ts: int) -> EvidenceRef:
    """The line of a place in a JSON dump, or of a long line the part from there on."""
    begin = max(0, offset - _WINDOW)
    data = case.read(dump.source, begin, offset - begin + _WINDOW)
    at = offset - begin
    start = data.rfind(b"\n", 0, at) + 1
    end = data.find(b"\n", at)
    end = len(data) if end < 0 else end
    if end - start > _LONGEST or (start == 0 and begin):
        start, end = at, min(end, at + _LONGEST)
    text = data[start:end].decode("utf-8", "replace").strip()
    return EvidenceRef(case.sources[dump.source].name, _line_at(case, dump.source, offset), begin + start, text, ts)


def _line_at(case: Case, source: int, offset: int) -> int:
    line, at = 1, 0
    while at < offset:
        line += case.read(source, at, min(_CHUNK, offset - at)).count(b"\n")
        at += _CHUNK
    return line
