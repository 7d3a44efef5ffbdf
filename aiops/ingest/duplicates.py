"""The same log twice: whole, cut off earlier, or only its end."""

from __future__ import annotations

import hashlib
from collections import defaultdict
from typing import BinaryIO

from aiops.ingest.prefix import NS, parse_prefix
from aiops.model.case import Source
from aiops.model.event import NO_TIME

_EDGE = 4096
_LEAST = 64
"""Files below this many bytes are too short to be told to be a part of another."""
_PROBE = 1 << 16
_WHOLE = 2 << 20
"""Files up to this many bytes are hashed whole."""


def digest(handle: BinaryIO, size: int) -> str:
    """Hash of size, beginning, middle and end: equal files have equal digests, and large ones are not read twice."""
    hasher = hashlib.sha256(str(size).encode())
    span = size if size <= _WHOLE else _WHOLE // 4
    for at in sorted({0, max(0, size // 2 - span // 2), max(0, size - span)}) if span < size else (0,):
        handle.seek(at)
        hasher.update(handle.read(span))
    return hasher.hexdigest()[:16]


def parts_of_others(sources: list[Source]) -> dict[int, tuple[Source, str]]:
    """Position in ``sources`` -> (the longer file that holds all of it, how): copies made at another time, tails, rotations.

    Costs one short read per file; only candidates are compared.
    """
    found: dict[int, tuple[Source, str]] = {}
    heads: dict[bytes, list[int]] = defaultdict(list)
    ends: dict[bytes, list[int]] = defaultdict(list)
    for position, source in enumerate(sources):
        if source.size >= _LEAST:
            with open(source.path, "rb") as handle:
                first = handle.readline(_EDGE)
                handle.seek(max(0, source.size - _EDGE))
                last = handle.read(_EDGE).rstrip().rsplit(b"\n", 1)[-1]
            heads[first.rstrip()].append(position)
            ends[last].append(position)
    for at_end, groups in ((False, heads), (True, ends)):
        for group in groups.values():
            if len(group) < 2:
                continue
            group.sort(key=lambda position: (-sources[position].size, sources[position].digest))
            kept = [group[0]]
            for position in group[1:]:
                if position in found:
                    continue
                # a first line that many ranks share would make this quadratic
                for other in kept[:8]:
                    if other not in found and _holds(sources[other], sources[position], at_end):
                        found[position] = (sources[other], "the end" if at_end else "the beginning")
                        break
                else:
                    kept.append(position)
    return found


def _holds(long: Source, short: Source, at_end: bool) -> bool:
    if short.size >= long.size or short.kind != long.kind or short.rank != long.rank or short.node != long.node:
        return False
    shift = long.size - short.size if at_end else 0
    probes = {0, max(0, short.size - _PROBE), max(0, short.size // 2 - _PROBE // 2)}
    with open(long.path, "rb") as a, open(short.path, "rb") as b:
        for at in sorted(probes):
            a.seek(at + shift)
            b.seek(at)
            want = min(_PROBE, short.size - at)
            part = b.read(want)
            if a.read(want) != part or (at == 0 and not _is_stamped(part)):
                return False
    return True


def _is_stamped(text: bytes) -> bool:
    """Several different times that no second writer would share: two ranks may well say the same few words."""
    times = set()
    for raw in text[:8192].split(b"\n")[:60]:
        prefix = parse_prefix(raw[:300].decode("utf-8", "replace"))
        if prefix.ts != NO_TIME and (prefix.host or prefix.ts % NS):
            times.add(prefix.ts)
    return len(times) >= 3
