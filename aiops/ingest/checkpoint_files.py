"""What the bytes of checkpoint files tell without loading them: headers, indexes, trackers and sums. Nothing is unpickled."""

from __future__ import annotations

import hashlib
import json
import re
from pathlib import Path
from typing import Any

from aiops.ingest.checkpoint_layout import Found
from aiops.ingest.listing import Entry

_SMALL = 8 << 20
"""JSON files above this size are not parsed."""
_MOST_HASHED = 4 << 30
_MOST_HEADER = 100 << 20
"""The longest header that the safetensors library accepts, bytes."""
_END_OF_ZIP = b"PK\x05\x06"
_SUMS = re.compile(
    r"^(?:SHA256|SHA512|SHA1|MD5|B2)SUMS?$|\.(?:sha256|sha512|sha1|md5)(?:sums?)?$|^checksums?\.(?:sha256|md5|txt)$",
    re.I,
)
_SUM_LINE = re.compile(r"\\?([0-9a-fA-F]{32,128})[ \t]+\*?(\S.{0,400})$")
_KIND_OF = {32: "md5", 40: "sha1", 64: "sha256", 128: "sha512"}


def inspect(item: Found) -> tuple[list[str], list[str]]:
    """(faults, what was verified) from the bytes of one checkpoint's files; both empty if only a listing is there."""
    faults: list[str] = []
    good: list[str] = []
    cut = []
    for name, entry in sorted(item.members.items()):
        if entry.file is None or not entry.size:
            continue
        why = _cut(name, entry)
        if why:
            cut.append(f"{name}: {why}")
        faults += _json_faults(item, name, entry)
    faults += cut[:4] + ([f"{len(cut) - 4} more files are cut off"] if len(cut) > 4 else [])
    faults += _sums(item, good)
    faults += _tracked(item)
    return faults, good


def _cut(name: str, entry: Entry) -> str:
    assert entry.file is not None and entry.size is not None
    whole = entry.file.stat().st_size == entry.size
    with open(entry.file, "rb") as handle:
        head = handle.read(8)
        if name.endswith(".safetensors"):
            return _safetensors(head, entry.file, entry.size)
        if head.startswith(b"PK\x03\x04") and whole:
            handle.seek(max(0, entry.size - 65_557))
            if _END_OF_ZIP not in handle.read():
                return "the archive ends without its directory, so it was cut off"
    return ""


def _safetensors(head: bytes, path: Path, size: int) -> str:
    """The header states where the last tensor ends (safetensors format: 8 bytes length, JSON, data)."""
    length = int.from_bytes(head, "little") if len(head) == 8 else 0
    if not 2 <= length <= _MOST_HEADER or length + 8 > size:
        return "no valid safetensors header"
    with open(path, "rb") as handle:
        handle.seek(8)
        raw = handle.read(length)
    if len(raw) < length:
        return ""  # only the beginning of the file was kept
    try:
        header = json.loads(raw)
        ends = [int(t["data_offsets"][1]) for name, t in header.items() if name != "__metadata__"]
    except (ValueError, TypeError, KeyError, IndexError, AttributeError, RecursionError):
        return "its safetensors header is no valid JSON"
    expected = 8 + length + max(ends, default=0)
    return f"{size} bytes instead of {expected}, so it was cut off" if size < expected else ""


def _json_faults(item: Found, name: str, entry: Entry) -> list[str]:
    base = name.rpartition("/")[2]
    if base not in ("trainer_state.json", "metadata.json") and not base.endswith(".index.json"):
        return []
    if entry.size is None or entry.size > _SMALL or entry.file is None:
        return []
    document = _load(entry.file)
    if not isinstance(document, dict):
        return [f"{name} is no valid JSON, so it was cut off"]
    if base == "trainer_state.json":
        step = document.get("global_step")
        if isinstance(step, int) and item.step is not None and step != item.step:
            return [f"trainer_state.json says step {step}"]
    weights = document.get("weight_map")
    if base.endswith(".index.json") and isinstance(weights, dict):
        folder = name[: -len(base)]
        wanted = {value for value in weights.values() if isinstance(value, str)}
        gone = sorted(file for file in wanted if folder + file not in item.members)
        if gone:
            return [
                f"{len(gone)} of {len(wanted)} files that {base} lists are missing: {', '.join(g[:80] for g in gone[:3])}"
            ]
    return []


def _load(path: Path) -> Any:
    try:
        return json.loads(path.read_bytes())
    except (ValueError, RecursionError):
        return None


def _sums(item: Found, good: list[str]) -> list[str]:
    """Compare files with the sums that stand beside them (``sha256sum`` and its kin)."""
    faults = []
    left = _MOST_HASHED
    checked = 0
    for name, entry in sorted(item.members.items()):
        base = name.rpartition("/")[2]
        if not _SUMS.search(base) or entry.file is None or not entry.size or entry.size > _SMALL:
            continue
        folder = name[: -len(base)]
        for line in entry.file.read_text("utf-8", "replace").splitlines():
            match = _SUM_LINE.match(line)
            kind = _KIND_OF.get(len(match[1])) if match else None
            if match is None or kind is None:
                continue
            named = folder + match[2].removeprefix("./")
            member = item.members.get(named)
            if member is None:
                faults.append(f"{match[2][:80]} is listed in {base} and missing")
                continue
            if (
                member.file is None
                or member.size is None
                or member.file.stat().st_size != member.size
                or member.size > left
            ):
                continue
            left -= member.size
            checked += 1
            with open(member.file, "rb") as handle:
                if hashlib.file_digest(handle, kind).hexdigest() != match[1].lower():
                    faults.append(f"{match[2][:80]} does not have the {kind} that {base} states")
    if checked and not faults:
        good.append(f"the sums of {checked} files are right")
    return faults[:5]


def _tracked(item: Found) -> list[str]:
    """The tracker's own text, where the file is there: a step (Megatron) or a tag (DeepSpeed)."""
    tracker = item.tracker
    if tracker is None or tracker.file is None or not tracker.size or tracker.size > 200:
        return []
    text = tracker.file.read_text("utf-8", "replace").strip()
    match = re.fullmatch(r"(?:global_step|iter_)?0*(\d{1,12})", text)
    if match and item.step is not None and item.step > int(match[1]):
        return [f"{tracker.path.rpartition('/')[2]} still names {text}, so the save was never committed"]
    return []
