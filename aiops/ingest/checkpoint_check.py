"""Is a checkpoint complete, as far as the names, sizes and times of its files tell?

A fault is something that a complete checkpoint cannot show; a doubt is something that the listing leaves open.
"""

from __future__ import annotations

import re
from collections import Counter
from statistics import median

from aiops.ingest.checkpoint_layout import METADATA, Found
from aiops.ingest.listing import Entry
from aiops.model.event import NO_TIME

SHRUNK = 0.98
"""A file below this share of its size in the checkpoints before has been cut: states do not shrink."""
SHRUNK_ROUNDED = 0.85
"""The same, where sizes are rounded as by ``ls -h``."""
LEAST = 1 << 16
"""Smaller files (states of schedulers, random numbers) may well differ."""
_SHARDS = re.compile(r"-(\d{5})-of-(\d{5})\.")
_ZERO = re.compile(r"zero_pp_rank_(\d+)_mp_rank_(\d+)_(optim|model)_states\.pt$")
_DISTCP = re.compile(r"^__(\d+)_\d+\.distcp$")
_GRID = re.compile(r"^mp_rank_(\d+)(?:_(\d+))?(?:_(\d+))?$")
_PART = re.compile(r"(?:\.(?:tmp|partial|incomplete|inprogress)(?:[-_.]\w*)?$)|^\.?tmp[-_.]|\(dirty\)", re.I)
_WEIGHT = re.compile(r"\.(?:distcp|pt|pth|ckpt|safetensors|bin|nemo|msgpack|npz|h5)$", re.I)
_MOST = 4


def check(item: Found, others: list[Found], *, dotfiles: bool) -> tuple[list[str], list[str]]:
    """(faults, doubts) of one checkpoint.

    ``others`` are those beside it, oldest first; ``dotfiles`` is true if names that begin with a dot would be shown.
    """
    faults: list[str] = []
    doubts: list[str] = []
    if item.marker is not None:
        faults.append(f"the marker {_short(item.marker.path)} says that it is unfinished")
    if item.staged:
        faults.append(f"it still has its temporary name {_short(item.staged)}")
    if not item.members:
        doubts.append("its files are not listed")
        return faults + _small_folder(item, others), doubts
    left = [name for name in item.members if _PART.search(name)]
    if left:
        faults.append(f"temporary files are left: {_listing(left)}")
    empty = [name for name, entry in item.members.items() if entry.size == 0 and not entry.folder and _is_state(name)]
    if empty:
        faults.append(f"empty: {_listing(empty)}")
    faults += _marks(item, others, dotfiles, doubts)
    faults += _own_gaps(item, doubts)
    faults += _missing(item, others, doubts, faults)
    faults += _shrunk(item, others, doubts)
    faults += _tracker(item, others)
    return list(dict.fromkeys(faults)), list(dict.fromkeys(doubts))


def _small_folder(item: Found, others: list[Found]) -> list[str]:
    """``du -s`` tells how much lies in a folder; the 4096 bytes of ``ls`` do not."""
    own = item.folder
    earlier = [
        o.folder.size for o in others if o.folder and o.folder.rounded and o.folder.size and _order(o) < _order(item)
    ]
    if (
        own is None
        or not own.rounded
        or own.size is None
        or not earlier
        or own.size >= SHRUNK_ROUNDED * median(earlier)
    ):
        return []
    return [f"its folder holds {own.size / median(earlier):.0%} of what the checkpoints before hold"]


def _is_state(name: str) -> bool:
    base = name.rpartition("/")[2]
    return base in METADATA or bool(_WEIGHT.search(base)) or base.startswith(("local rank", "rank ", "file."))


def _marks(item: Found, others: list[Found], dotfiles: bool, doubts: list[str]) -> list[str]:
    """Files that are written last: without them nobody has finished."""
    bases = Counter(name.rpartition("/")[2] for name in item.members)
    faults = []
    if any(base.endswith(".distcp") for base in bases) and ".metadata" not in bases:
        if dotfiles:
            faults.append("no .metadata, which is written after all shards")
        else:
            doubts.append("the listing hides names that begin with a dot, so .metadata could not be seen")
    trainer = re.search(r"(?:^|/)checkpoint-\d+$", item.root) and any(
        b in bases for b in ("optimizer.pt", "scheduler.pt", "training_args.bin")
    )
    if trainer and "trainer_state.json" not in bases:
        faults.append("no trainer_state.json, which the Trainer writes last")
    return faults


def _own_gaps(item: Found, doubts: list[str]) -> list[str]:
    """Gaps that the names themselves show: shard k of n, a grid of ranks."""
    faults = []
    sets: dict[tuple[str, str, int], set[int]] = {}
    for name in item.members:
        if shard := _SHARDS.search(name):
            key = (name[: shard.start()], name[shard.end() :], int(shard[2]))
            sets.setdefault(key, set()).add(int(shard[1]))
    for (stem, _, total), seen in sorted(sets.items()):
        if total <= 99_999 and (gone := [k for k in range(1, total + 1) if k not in seen] if len(seen) < total else []):
            faults.append(f"{len(gone)} of {total} shards of {_short(stem)} are missing: {_numbers(gone)}")
    faults += _zero_grid(item) + _megatron_grid(item)
    ranks = sorted({int(m[1]) for name in item.members if (m := _DISTCP.match(name.rpartition("/")[2]))})
    if ranks and len(ranks) != ranks[-1] + 1:
        doubts.append("not every rank wrote a shard, which is normal for replicated states only")
    rng = sorted({int(m[1]) for name in item.members if (m := re.search(r"(?:rng_state_|local rank )(\d+)", name))})
    if rng and (gone := sorted(set(range(rng[-1] + 1)) - set(rng))) and rng[-1] < 1 << 20:
        if item.layout == "NVRx local":
            doubts.append(f"files of ranks {_numbers(gone)} are not listed; each node keeps only its own")
        else:
            faults.append(f"rng_state of ranks {_numbers(gone)} is missing")
    return faults


def _zero_grid(item: Found) -> list[str]:
    """DeepSpeed: every data-parallel rank of every model-parallel rank writes its optimizer states."""
    faults = []
    for kind in ("optim", "model"):
        seen = {(int(m[1]), int(m[2])) for name in item.members if (m := _ZERO.search(name)) and m[3] == kind}
        if not seen:
            continue
        data, model = max(d for d, _ in seen) + 1, max(m for _, m in seen) + 1
        if data * model > 1 << 20 or len(seen) == data * model:
            continue
        gone = [d for d in range(data) if any((d, m) not in seen for m in range(model))]
        faults.append(f"{kind}_states of data-parallel ranks {_numbers(gone)} are missing")
    return faults


def _megatron_grid(item: Found) -> list[str]:
    """Megatron: one folder for each tensor, pipeline (and expert) rank."""
    seen = {
        tuple(int(part) for part in m.groups() if part is not None)
        for name in item.members
        if (m := _GRID.match(name.split("/")[0]))
    }
    if len({len(point) for point in seen}) != 1 or not seen:
        return []
    sides = [max(point[i] for point in seen) + 1 for i in range(len(next(iter(seen))))]
    total = 1
    for side in sides:
        total *= side
    if total == len(seen) or total > 1 << 16:
        return []
    return [f"{total - len(seen)} of {total} mp_rank folders are missing"]


def _missing(item: Found, others: list[Found], doubts: list[str], known: list[str]) -> list[str]:
    """What all other checkpoints have and this one has not."""
    shapes = [_shape(other) for other in others if other.members and other.layout == item.layout and other is not item]
    if not shapes:
        return []
    own = _shape(item)
    gone = sorted(
        name
        for name in frozenset.intersection(*map(frozenset, shapes)) - set(own)
        if _is_state(name) and not _PART.search(name)
    )
    if not gone:
        return []
    ranks = sorted({int(m[1]) for name in gone if (m := re.search(r"(?:__|rank[ _]|rng_state_)(\d+)", name))})
    mine = {int(m[1]) for name in own if (m := re.search(r"(?:__|rank[ _]|rng_state_)(\d+)", name))}
    if ranks and mine and not known and mine == set(range(min(ranks))) and all(re.search(r"\d", name) for name in gone):
        bases = {name.rpartition("/")[2] for name in own}
        nodes = len(ranks) % 4 == 0 or len(mine) <= len(ranks)
        if nodes and bases & {".metadata", "trainer_state.json"}:
            doubts.append(f"{len(mine)} ranks wrote it, more wrote the others: another world size")
            return []
    whose = f" (ranks {_numbers(ranks)})" if ranks else ""
    return [f"missing although the other checkpoints have it: {_listing(gone)}{whose}"]


def _shape(item: Found) -> dict[str, Entry]:
    """Names of the members, with the step in them made equal."""
    if item.step is None:
        return item.members
    number = re.compile(rf"(?<!\d)0*{item.step}(?!\d)")
    return {
        number.sub("{step}", name) if re.search(r"step|iter|checkpoint", name) else name: e
        for name, e in item.members.items()
    }


def _shrunk(item: Found, others: list[Found], doubts: list[str]) -> list[str]:
    """Files that are smaller than in the checkpoints before."""
    earlier = [
        o for o in others if o is not item and o.members and _order(o) < _order(item) and o.layout == item.layout
    ]
    own = _shape(item)
    shapes = [_shape(other) for other in earlier[-4:]]
    small = []
    for name, entry in own.items():
        before = [e.size for shape in shapes if (e := shape.get(name)) is not None and e.size]
        if not before or entry.size is None or entry.folder or not _is_state(name):
            continue
        usual = median(before)
        limit = SHRUNK_ROUNDED if entry.rounded else SHRUNK
        if usual >= LEAST and 0 < entry.size < limit * usual:
            small.append((name, entry.size, usual))
    if small:
        name, size, usual = min(small, key=lambda s: s[1] / s[2])
        more = f", and {len(small) - 1} more are too small" if len(small) > 1 else ""
        return [f"{_short(name)} has {size / usual:.0%} of its size in the checkpoints before{more}"]
    if not shapes:
        _odd_one_out(own, doubts)
    return []


def _odd_one_out(own: dict[str, Entry], doubts: list[str]) -> None:
    """Without an earlier checkpoint: one shard far smaller than all of its kind."""
    kinds: dict[str, list[tuple[str, int]]] = {}
    for name, entry in own.items():
        if entry.size and not entry.folder and _is_state(name):
            kinds.setdefault(re.sub(r"\d+", "#", name), []).append((name, entry.size))
    for files in kinds.values():
        if len(files) < 4:
            continue
        usual = median(size for _, size in files)
        low = [name for name, size in files if size < 0.5 * usual]
        if usual >= LEAST and 0 < len(low) <= len(files) // 4:
            doubts.append(f"{_listing(low)}: less than half as large as the other shards")


def _tracker(item: Found, others: list[Found]) -> list[str]:
    """Megatron and DeepSpeed name the newest checkpoint in a file that is written after it."""
    tracker = item.tracker
    if tracker is None or tracker.mtime == NO_TIME or item.single or tracker.yearless:
        return []
    if any(_order(other) > _order(item) for other in others):
        return []
    times = [e.mtime for n, e in item.members.items() if e.mtime != NO_TIME and not e.folder and _is_state(n)]
    if times and tracker.mtime + int(tracker.within_s * 1e9) < max(times):
        return [
            f"{_short(tracker.path.rpartition('/')[2])} was last written before it, so the save was never committed"
        ]
    return []


def _order(item: Found) -> tuple[int, int]:
    return (item.step if item.step is not None else -1, item.epoch if item.epoch is not None else -1)


def _short(name: str) -> str:
    return name if len(name) <= 80 else f"{name[:36]}…{name[-40:]}"


def _listing(names: list[str]) -> str:
    names = sorted(names)
    return ", ".join(_short(n) for n in names[:_MOST]) + (
        f" and {len(names) - _MOST} more" if len(names) > _MOST else ""
    )


def _numbers(numbers: list[int]) -> str:
    """``0-3, 7`` of an ascending list."""
    runs: list[list[int]] = []
    for number in numbers:
        if runs and number == runs[-1][1] + 1:
            runs[-1][1] = number
        else:
            runs.append([number, number])
    shown = [str(a) if a == b else f"{a}-{b}" for a, b in runs[:8]]
    return ", ".join(shown) + (" …" if len(runs) > 8 else "")
