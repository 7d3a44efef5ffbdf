"""One list of checkpoints from logs, listings and files: what the log says of a save and what lies on the disk are told together."""

from __future__ import annotations

import re
from dataclasses import replace
from statistics import median

from aiops.detect.checkpoint_lines import failed_saves, logged_checkpoints, unfinished_saves
from aiops.model.case import Case, Checkpoint
from aiops.model.event import NO_TIME

NS = 1_000_000_000
_NEAR_S = 300.0
"""A save of the log and a listed one whose times differ by less are the same, where the log's step is only inferred."""
_QUARTER_NS = 900 * NS
_KEY = "detect.checkpoints"


def known_checkpoints(case: Case) -> list[Checkpoint]:
    """Every checkpoint that the evidence names, complete or not, oldest first; found once and kept."""
    known = case.memo.get(_KEY)
    if known is None:
        known = case.memo[_KEY] = _ordered(_join(case))
    found: list[Checkpoint] = known
    return found


def _join(case: Case) -> list[Checkpoint]:
    listed = _once(case.checkpoints)
    logged = logged_checkpoints(case)
    pairs = {id(point): _partner(point, listed) for point in logged}
    shift = _zone_shift([(point, pairs[id(point)]) for point in logged])
    if shift:
        listed_at = {id(p): replace(p, saved_at=p.saved_at - shift) for p in listed if _zoneless(p)}
        pairs = {key: listed_at.get(id(p), p) if p else None for key, p in pairs.items()}
        listed = [listed_at.get(id(p), p) for p in listed]
    joined: dict[str, Checkpoint] = {}
    taken: set[str] = set()
    for point in logged:
        partner = pairs[id(point)]
        if partner is None:
            _keep(joined, point.name, _deleted(point, logged, pairs))
        else:
            taken.add(partner.name)
            _keep(joined, partner.name, _both(point, partner))
    folders = {_folder(p.name) for p in logged if p.step is not None and "/" in p.name}
    folders |= {_folder(name) for name in taken}
    for point in listed:
        if point.name not in taken:
            _keep(joined, point.name, _of_another_run(point, folders, listed))
    return [_with_log_faults(case, point) for point in joined.values()] + unfinished_saves(case, list(joined.values()))


def _folder(name: str) -> str:
    return name.rstrip("/").rpartition("/")[0]


def _of_another_run(point: Checkpoint, folders: set[str], listed: list[Checkpoint]) -> Checkpoint:
    """A listing may show more runs than the one of the log: their checkpoints are none of its own."""
    own = {_folder(p.name) for p in listed} & folders
    if own and _folder(point.name) not in own:
        return replace(
            point, complete=False, faults=(*point.faults, f"it is of another run: the log saves to {min(own)}")
        )
    if not own and len(beside := {_folder(p.name) for p in listed}) > 1:
        return replace(
            point,
            doubts=(
                *point.doubts,
                f"{len(beside)} folders of checkpoints are listed and no log tells which is the job's",
            ),
        )
    return point


def _deleted(point: Checkpoint, logged: list[Checkpoint], pairs: dict[int, Checkpoint | None]) -> Checkpoint:
    """Savers keep the newest few: one that is gone from its folder, where later ones are listed, cannot be restored."""
    folder = point.name.rpartition("/")[0]
    if point.inferred_step or point.step is None:
        return point
    for other in logged:
        partner = pairs[id(other)]
        if partner is not None and other.name.rpartition("/")[0] == folder and (other.step or 0) > point.step:
            return replace(
                point, complete=False, faults=(f"it is not in its folder any more ({partner.source} lists later ones)",)
            )
    return point


def _once(points: list[Checkpoint]) -> list[Checkpoint]:
    """Each checkpoint once: the listing that shows most of its files counts, the times of a listing before those of copies."""
    best: dict[str, Checkpoint] = {}
    for point in points:
        other = best.get(point.name)
        if other is None or (point.files, point.timed_by != "copy") > (other.files, other.timed_by != "copy"):
            best[point.name] = point
    return list(best.values())


def _partner(point: Checkpoint, listed: list[Checkpoint]) -> Checkpoint | None:
    """The listed checkpoint that a line of the log speaks of."""
    near = [p for p in listed if _same_step(point, p)]
    base = point.name.rstrip("/").rpartition("/")[2]
    exact = [p for p in near if p.name == point.name]
    named = [p for p in near if p.name.rpartition("/")[2] == base]
    tails = [p for p in named if _tail(point.name, p.name) == max(_tail(point.name, q.name) for q in named)]
    if exact or named:
        return (exact or tails)[0] if len(exact or tails) == 1 else None
    loose = "/" not in point.name or point.inferred_step
    return near[0] if len(near) == 1 and loose else None


def _same_step(logged: Checkpoint, listed: Checkpoint) -> bool:
    if logged.inferred_step:
        apart = (
            abs(logged.saved_at - listed.saved_at) / NS if NO_TIME not in (logged.saved_at, listed.saved_at) else None
        )
        ahead = 0 if logged.step is None or listed.step is None else listed.step - logged.step
        return listed.step is not None and (
            ahead == 0 or (apart is not None and apart <= _NEAR_S + listed.within_s and ahead > 0)
        )
    return logged.step == listed.step and (logged.step is not None or logged.name == listed.name)


def _tail(one: str, other: str) -> int:
    """How many parts at the end of two paths are equal."""
    pairs = zip(reversed(one.strip("/").split("/")), reversed(other.strip("/").split("/")), strict=False)
    count = 0
    for a, b in pairs:
        if a != b:
            break
        count += 1
    return count


def _both(logged: Checkpoint, listed: Checkpoint) -> Checkpoint:
    """The log's time and proof, the listing's files; the name is the one that is a path, the log's if both are."""
    path = (
        logged.name
        if "/" in logged.name and not logged.inferred_step and _is_place(logged.name, listed.name)
        else listed.name
    )
    return replace(
        listed,
        name=path if "/" in path or "/" not in logged.name else logged.name,
        saved_at=logged.saved_at if logged.saved_at != NO_TIME else listed.saved_at,
        timed_by="log" if logged.saved_at != NO_TIME else listed.timed_by,
        within_s=0.0 if logged.saved_at != NO_TIME else listed.within_s,
        doubts=tuple(
            d for d in listed.doubts if logged.saved_at == NO_TIME or not d.startswith("its time carries no zone")
        ),
        event=logged.event,
    )


def _is_place(logged: str, listed: str) -> bool:
    """The log's path is used where it is absolute or the listing's is only one of the bundle."""
    return logged.startswith("/") or "://" in logged or not listed.startswith("/")


def _zoneless(point: Checkpoint) -> bool:
    return point.saved_at != NO_TIME and any(d.startswith("its time carries no zone") for d in point.doubts)


def _zone_shift(pairs: list[tuple[Checkpoint, Checkpoint | None]]) -> int:
    """Nanoseconds by which listed times without a zone are ahead of the log's, from checkpoints that both name; else 0."""
    apart = [
        listed.saved_at - logged.saved_at
        for logged, listed in pairs
        if listed is not None and _zoneless(listed) and logged.saved_at != NO_TIME and not logged.inferred_step
    ]
    if not apart:
        return 0
    shift = round(median(apart) / _QUARTER_NS) * _QUARTER_NS
    fits = all(abs(difference - shift) <= _NEAR_S * NS for difference in apart)
    return shift if fits and abs(shift) <= 14 * 4 * _QUARTER_NS else 0


def _keep(points: dict[str, Checkpoint], name: str, point: Checkpoint) -> None:
    other = points.get(name)
    if other is None or _age(point) > _age(other):
        points[name] = point


def _with_log_faults(case: Case, point: Checkpoint) -> Checkpoint:
    """A checkpoint that the log says could not be saved is none, whatever lies there."""
    for failed in failed_saves(case):
        same = failed.step is not None and failed.step == point.step
        named = (
            bool(failed.path)
            and re.search(rf"(?:^|/){re.escape(failed.path.rpartition('/')[2])}$", point.name) is not None
        )
        later = point.event is not None and failed.event.index != point.event and point.saved_at != NO_TIME
        if (same or named) and not (later and failed.event.ts != NO_TIME and point.saved_at > failed.event.ts):
            return replace(
                point,
                complete=False,
                faults=(*point.faults, f"the log says that its save failed: {failed.event.text[:120]}"),
            )
    return point


def _age(point: Checkpoint) -> tuple[bool, int, int]:
    return (point.saved_at != NO_TIME, point.saved_at, point.step if point.step is not None else -1)


def _ordered(points: list[Checkpoint]) -> list[Checkpoint]:
    """By time where all times are sure, else by step: a run that was set back counts its steps anew."""
    sure = all(point.saved_at != NO_TIME and point.timed_by != "copy" for point in points)
    if not sure and all(point.step is not None for point in points):
        return sorted(points, key=lambda p: (p.step or 0, _age(p), p.name))
    return sorted(points, key=lambda p: (*_age(p), p.name))
