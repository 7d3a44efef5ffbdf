"""Logs inside of records: journald, Docker and CRI, JSON lines, `dmesg -J`; and text that a terminal would show differently.

Each becomes a plain file in which every record keeps its byte offset: what a record's text is shorter than the record is filled
with blanks. Offsets of the plain file are therefore those of the original, and evidence points at the line a person has.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

from aiops.ingest.linemap import LineMap
from aiops.ingest.prefix import ANSI
from aiops.ingest.records import Seen, is_record, plain_lines

_LONGEST = 8 << 20
"""A line beyond this is no record; it is copied as it is."""
_BLOCK = 4 << 20
_SPLIT = 8_000
"""Runtimes split lines of 16 KB; a shorter one without a newline has lost it on the way."""
_CRI = re.compile(
    rb"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d{1,9})?(?:Z|[+-]\d\d:\d\d)) (std(?:out|err)) ([FP])[\w:,=]{0,40} (.*)",
    re.S,
)
_LABELLED_JSON = re.compile(rb"(\[pod/[\w.-]{1,253}/[\w.-]{1,253}\] (?:\d{4}-\d\d-\d\dT[\d:.]{8,18}Z )?)(\{.*)", re.S)
_DMESG_FIELD = re.compile(rb'^\s*+(?:\{|\},\s*+\{)?+\s*+"(pri|fac|time|msg)": *(.*?),?\s*$')
_LONE_RETURN = re.compile(rb"\r(?!\n|$)")


def sniff_wrapped(head: bytes) -> str:
    """How the lines of a file are wrapped, from a sample of it; empty if they are not."""
    start = head[:4096].lstrip()
    if start.startswith((b"__CURSOR=", b"__REALTIME_TIMESTAMP=")):
        return "journald export"
    if re.match(rb'\{\s*"dmesg" ?: ?\[', start):
        return "dmesg json"
    if re.match(rb'\{\r?\n\s+"(?:__CURSOR|_|MESSAGE|SYSLOG_|PRIORITY)', start) and b'"MESSAGE"' in head:
        return "journald json-pretty"
    lines = [line for line in head.split(b"\n")[:200] if line.strip(b"\x00\r\t \x1e")]
    if len(lines) > 1 and len(head) >= 1 << 14:
        lines.pop()
    return _sniff_lines(lines) if lines else ""


def _sniff_lines(lines: list[bytes]) -> str:
    found: dict[str, int] = {}
    for line in lines[:100]:
        name = _sniff_line(line.strip(b"\x00\r\t \x1e"))
        if name:
            found[name] = found.get(name, 0) + 1
    cri = [m for m in map(_CRI.match, lines[:100]) if m]
    if len(cri) * 2 > len(lines[:100]) and any(m[3] == b"P" or m[4].startswith(b"{") for m in cri):
        return "cri"
    if sum(found.values()) * 10 >= len(lines[:100]) * 3:
        return max(sorted(found), key=lambda name: found[name])
    return ""


def _sniff_line(line: bytes) -> str:
    labelled = _LABELLED_JSON.match(line)
    text = labelled[2] if labelled else line
    body = _json(text) if text.startswith(b"{") else None
    if not is_record(body):
        return ""
    assert isinstance(body, dict)
    if "MESSAGE" in body and ("__REALTIME_TIMESTAMP" in body or "_HOSTNAME" in body):
        return "journald json"
    if "log" in body and "time" in body and "stream" in body and "kubernetes" not in body:
        return "docker json"
    return "json lines"


def needs_cleaning(head: bytes) -> bool:
    """True if a terminal would show the text differently: colours, progress bars that return, NULs of a crash."""
    return b"\x1b" in head or b"\x00" in head or _LONE_RETURN.search(head) is not None


def unwrap(path: Path, form: str, target: Path, sample: bytes) -> tuple[LineMap, Seen]:
    """Write the plain text of ``path`` to ``target``; ``form`` is an answer of `sniff_wrapped`, or empty to clean only.

    Raises:
        OSError: a file cannot be read or written.
    """
    lines, seen = LineMap(path), Seen()
    with open(path, "rb") as source, open(target, "wb") as out:
        if form == "journald export":
            _export(source, out, lines, seen)
        elif form == "journald json-pretty":
            _pretty(source, out, lines, seen)
        elif form == "dmesg json":
            _dmesg(source, out, lines)
        elif form:
            _settle_base(sample, seen)
            _records(source, out, lines, seen, partial=form in ("cri", "docker json"))
        else:
            _clean(source, out, lines)
    return lines, seen


def _settle_base(sample: bytes, seen: Seen) -> None:
    """The host and the pod that all records of the sample come from need not stand on each line."""
    probe = Seen()
    for line in sample.split(b"\n")[:400]:
        body = _json(line.strip(b"\x00\r\x1e ")) if b"{" in line[:4] else None
        if isinstance(body, dict):
            plain_lines(body, probe)
    seen.base_host = next(iter(probe.hosts)) if len(probe.hosts) == 1 else None
    seen.base_pod = next(iter(probe.pods)) if len(probe.pods) == 1 else None


def _records(source: IO[bytes], out: IO[bytes], lines: LineMap, seen: Seen, *, partial: bool) -> None:
    """One record a line; ``partial`` joins what a container runtime has split because it was long."""
    position = 0
    held, held_size = b"", 0
    for raw in _lines(source):
        lines.count(raw, position)
        position += len(raw)
        text, part = _plain(raw, seen) if len(raw) < _LONGEST else (raw.rstrip(b"\n"), False)
        if held_size and not part and partial:
            # the head of the first part stands for all
            text = held + _behind_head(raw, text)
        elif held_size and part:
            held, held_size = held + _behind_head(raw, text), held_size + len(raw)
            if held_size > _LONGEST:
                _put(out, held, held_size)
                held, held_size = b"", 0
            continue
        elif part and partial:
            held, held_size = text, len(raw)
            continue
        _put(out, text, held_size + len(raw), newline=raw.endswith(b"\n"))
        held, held_size = b"", 0
    if held_size:
        _put(out, held, held_size)


def _lines(source: IO[bytes]) -> Iterator[bytes]:
    while raw := source.readline(_LONGEST):
        yield raw


def _plain(raw: bytes, seen: Seen) -> tuple[bytes, bool]:
    """(text of a line, whether the next line goes on with it)."""
    line = raw.rstrip(b"\r\n").lstrip(b"\x00\x1e")
    cri = _CRI.match(line)
    if cri:
        inner = _json(cri[4]) if cri[4].startswith(b"{") else None
        text = plain_lines(inner, seen) if isinstance(inner, dict) and is_record(inner) else None
        if text is not None:
            return text.encode("utf-8", "replace"), cri[3] == b"P"
        return cri[1] + b" " + cri[4], cri[3] == b"P"
    labelled = _LABELLED_JSON.match(line)
    body = _json(labelled[2] if labelled else line) if labelled or line.startswith(b"{") else None
    if not is_record(body):
        return line, False
    assert isinstance(body, dict)
    log = body.get("log")
    part = (
        isinstance(log, str) and "stream" in body and "time" in body and len(log) >= _SPLIT and not log.endswith("\n")
    )
    if isinstance(log, str) and log.startswith("{"):
        inner = _json(log.encode("utf-8", "replace"))
        if is_record(inner):
            # what the collector knows, and above it what the program says itself
            body = {**{k: v for k, v in body.items() if k not in ("log", "message")}, **inner}
    text = plain_lines(body, seen)
    if text is None:
        return line, False
    return (labelled[1] if labelled else b"") + text.encode("utf-8", "replace"), part and not labelled


def _behind_head(raw: bytes, text: bytes) -> bytes:
    cri = _CRI.match(raw.rstrip(b"\r\n"))
    if cri:
        return cri[4]
    body = _json(raw)
    log = body.get("log") if isinstance(body, dict) else None
    return log.rstrip("\n").encode("utf-8", "replace") if isinstance(log, str) else text


def _export(source: IO[bytes], out: IO[bytes], lines: LineMap, seen: Seen) -> None:
    """Journal Export Format (systemd, JOURNAL_EXPORT_FORMATS): fields line by line, binary ones with their size before them."""
    body: dict[str, Any] = {}
    start = position = 0
    number, said_at = 0, 0
    while True:
        raw = source.readline(_LONGEST)
        if raw.strip(b"\r\n") and raw:
            number += 1
            position += len(raw)
            name, equals, value = raw.rstrip(b"\n").partition(b"=")
            if name == b"MESSAGE":
                said_at = number
            if not equals:
                size = source.read(8)
                value, length, newlines = _binary(source, int.from_bytes(size, "little"))
                position += len(size) + length
                number += newlines + size.count(b"\n")
            if len(body) < 400:
                body[name.decode("ascii", "replace")] = value[:_LONGEST].decode("utf-8", "replace")
            continue
        number += bool(raw)
        position += len(raw)
        if body:
            lines.note(start, said_at or number)
            text = plain_lines(body, seen)
            _put(out, (text or "").encode("utf-8", "replace"), position - start)
        elif raw:
            out.write(b"\n" * len(raw))
        if not raw:
            lines.total = number
            return
        body, start, said_at = {}, position, 0


def _binary(source: IO[bytes], size: int) -> tuple[bytes, int, int]:
    """(beginning of a binary field, bytes read with the newline behind it, newlines among them)."""
    kept, length, newlines = b"", 0, 0
    while length <= size:
        part = source.read(min(_BLOCK, size + 1 - length))
        if not part:
            break
        if len(kept) < _LONGEST:
            kept += part
        length += len(part)
        newlines += part.count(b"\n")
    return kept[:size], length, newlines


def _pretty(source: IO[bytes], out: IO[bytes], lines: LineMap, seen: Seen) -> None:
    held: list[bytes] = []
    start = position = number = said_at = 0
    for raw in _lines(source):
        number += 1
        position += len(raw)
        held.append(raw)
        if raw.lstrip().startswith(b'"MESSAGE"'):
            said_at = number
        if raw.rstrip(b"\r\n,") != b"}" and position - start < _LONGEST:
            continue
        body = _json(b"".join(held).strip().rstrip(b","))
        text = plain_lines(body, seen) if isinstance(body, dict) else None
        lines.note(start, said_at or number)
        _put(out, b"" if text is None else text.encode("utf-8", "replace"), position - start)
        held, start, said_at = [], position, 0
    if position > start:
        _put(out, b"", position - start)
    lines.total = number


def _dmesg(source: IO[bytes], out: IO[bytes], lines: LineMap) -> None:
    fields: dict[bytes, bytes] = {}
    position = 0
    for raw in _lines(source):
        lines.count(raw, position)
        position += len(raw)
        match = _DMESG_FIELD.match(raw)
        text = b""
        if match:
            fields[match[1]] = match[2].strip(b'" ')
            if match[1] == b"msg":
                said = _json(match[2])
                when = fields.get(b"time", b"")
                head = b"[%s] " % when.rjust(12) if re.fullmatch(rb"\d+\.\d+", when) else when + b" " if when else b""
                text = head + (said.encode("utf-8", "replace") if isinstance(said, str) else match[2])
                fields = {}
        _put(out, text, len(raw))


def _clean(source: IO[bytes], out: IO[bytes], lines: LineMap) -> None:
    """Colours away, each state of a progress bar a line of its own, NULs blanks."""
    position = 0
    rest = b""
    while True:
        block = source.read(_BLOCK)
        lines.count(block, position)
        position += len(block)
        data = rest + block
        cut = max(data.rfind(b"\n"), data.rfind(b"\r", 0, max(0, len(data) - 1))) + 1 if block else len(data)
        if cut == 0 and len(data) > _LONGEST:
            cut = len(data)
        rest = data[cut:]
        _clean_block(data[:cut], out)
        if not block:
            return


def _clean_block(data: bytes, out: IO[bytes]) -> None:
    if b"\x00" in data:
        data = data.replace(b"\x00", b" ")
    if b"\r" in data:
        data = data.replace(b"\r\n", b" \n").replace(b"\r", b"\n")
    if b"\x1b" not in data:
        out.write(data)
        return
    for line in data.splitlines(keepends=True):
        if b"\x1b" in line:
            _put(out, ANSI.sub(b"", line.rstrip(b"\n")), len(line), newline=line.endswith(b"\n"))
        else:
            out.write(line)


def _put(out: IO[bytes], text: bytes, size: int, *, newline: bool = True) -> None:
    """Write a record's text into exactly ``size`` bytes."""
    room = size - 1 if newline else size
    if len(text) > room:
        text = text[: max(0, room)]
    out.write(text)
    blanks = room - len(text)
    while blanks > 0:
        out.write(b" " * min(blanks, _BLOCK))
        blanks -= _BLOCK
    if newline and size:
        out.write(b"\n")


def _json(text: bytes) -> Any:
    import orjson

    try:
        return orjson.loads(text)
    except orjson.JSONDecodeError:
        return None
