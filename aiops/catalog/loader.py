"""Read the catalog's YAML and CSV files into types, naming file and entry in every error."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from aiops.catalog.documents import read_documents
from aiops.catalog.model import Catalog, Confidence, FailureClass, Playbook, Replaced, Sign, Signal, Step, XidCode
from aiops.errors import CatalogError
from aiops.model.event import Severity
from aiops.model.finding import Role
from aiops.resources import catalog_dir

LINE_KINDS = frozenset({"kernel", "training", "scheduler", "text"})

_SIGNAL_KEYS = {
    "id",
    "title",
    "match",
    "in",
    "severity",
    "role",
    "about",
    "says",
    "split",
    "anchored",
    "detector",
    "examples",
    "not",
    "source",
}
_FAILURE_KEYS = {
    "id",
    "title",
    "culprit",
    "hardware",
    "causes",
    "effects",
    "contradicts",
    "decides",
    "checkpoint",
    "requeue",
    "playbook",
    "remedy",
    "source",
    "test",
    "prior",
    "explains_death",
    "stops_job",
}
_SIGN_KEYS = {"sign", "where", "weight", "on", "within", "expected", "why", "despite_success", "requeue"}
_STEP_KEYS = {"action", "why", "needs", "risk", "approval", "check", "by"}


_loaded: dict[tuple[Path, ...], Catalog] = {}
_MOST_LOADED = 4


def load_catalog(extra: Iterable[Path] = (), cache_dir: Path | None = None) -> Catalog:
    """The built-in catalog, then each directory of ``extra`` on top (same id = replaced); read once in a process.

    Parsed files are kept in ``cache_dir`` for the next process.

    Raises:
        CatalogError: an entry is malformed; the message names file and entry.
    """
    directories = tuple(Path(p) for p in extra)
    if directories not in _loaded:
        while len(_loaded) >= _MOST_LOADED:
            del _loaded[next(iter(_loaded))]
        _loaded[directories] = _load(directories, cache_dir)
    return _loaded[directories]


def _load(extra: tuple[Path, ...], cache_dir: Path | None) -> Catalog:
    signals: dict[str, Signal] = {}
    failures: dict[str, FailureClass] = {}
    playbooks: dict[str, Playbook] = {}
    groups: dict[str, list[Any]] = {}
    raw_failures: list[tuple[Path, Mapping[str, Any]]] = []
    places: dict[tuple[str, str], Path] = {}
    replaced: list[Replaced] = []
    of_site: set[str] = set()

    def note(kind: str, name: str, path: Path) -> None:
        before = places.get((kind, name))
        if before is not None:
            replaced.append(Replaced(kind, name, before.name, path.name, _base(before) != _base(path)))
        places[kind, name] = path

    files = [file for base in (catalog_dir(), *extra) for file in _files(base)]
    confidence = catalog_dir() / "confidence.yaml"
    *values, coefficients = read_documents([*(path for _, path in files), confidence], cache_dir)
    for (what, path), value in zip(files, values, strict=True):
        for entry in _entries(path, value):
            if what == "signals":
                signal = _signal(path, entry)
                note("signal", signal.id, path)
                signals[signal.id] = signal
                if _base(path) != catalog_dir():
                    of_site.add(signal.id)
            elif what == "playbooks":
                playbook = _playbook(path, entry)
                note("playbook", playbook.id, path)
                playbooks[playbook.id] = playbook
            elif set(entry) == {"group", "signs"}:
                groups[str(entry["group"])] = list(entry["signs"])
            else:
                raw_failures.append((path, entry))
    for path, entry in raw_failures:
        failure = _failure(path, entry, groups)
        note("class", failure.id, path)
        failures[failure.id] = failure
    return Catalog(
        signals=tuple(signals.values()),
        failures=failures,
        playbooks=playbooks,
        xids=_codes(catalog_dir() / "xid.csv", "xid"),
        sxids=_codes(catalog_dir() / "sxid.csv", "sxid"),
        confidence=_confidence(confidence, coefficients),
        site_signals=frozenset(of_site),
        replaced=tuple(replaced),
    )


def _base(path: Path) -> Path:
    """The catalog directory that a file belongs to."""
    return path.parent.parent if path.parent.name in ("signals", "failures") else path.parent


def _files(base: Path) -> Iterator[tuple[str, Path]]:
    """(what a file holds, its path) of a catalog directory."""
    if not base.is_dir():
        raise CatalogError(f"{base}: no such catalog directory")
    for path in sorted((base / "signals").glob("*.y*ml")):
        yield "signals", path
    for path in (base / "failures.yaml", *sorted((base / "failures").glob("*.y*ml"))):
        if path.exists():
            yield "failures", path
    path = base / "playbooks.yaml"
    if path.exists():
        yield "playbooks", path


def _entries(path: Path, data: Any) -> Iterator[Mapping[str, Any]]:
    if data is None:
        return
    if not isinstance(data, list):
        raise CatalogError(f"{path}: the file must be a list of entries, each beginning with '- id:'")
    for number, entry in enumerate(data, 1):
        if not isinstance(entry, dict):
            raise CatalogError(f"{path}: entry {number} is not a mapping")
        if "id" not in entry and "group" not in entry:
            raise CatalogError(f"{path}: entry {number} has no 'id'")
        yield entry


def _check_keys(path: Path, what: str, entry: Mapping[str, Any], allowed: set[str], required: Iterable[str]) -> None:
    unknown = sorted(set(entry) - allowed)
    if unknown:
        raise CatalogError(f"{path}: {what}: unknown key {unknown[0]!r}; known: {', '.join(sorted(allowed))}")
    for key in required:
        if entry.get(key) in (None, "", []):
            raise CatalogError(f"{path}: {what}: {key!r} is missing")


def _texts(path: Path, what: str, value: Any) -> tuple[str, ...]:
    if value is None:
        return ()
    values = value if isinstance(value, list) else [value]
    for item in values:
        if not isinstance(item, str):
            raise CatalogError(f"{path}: {what}: {item!r} must be text (put it in quotes)")
    return tuple(values)


def _signal(path: Path, entry: Mapping[str, Any]) -> Signal:
    what = f"signal {entry.get('id')!r}"
    _check_keys(path, what, entry, _SIGNAL_KEYS, ("id", "title", "match", "in", "examples", "source"))
    kinds = frozenset(_texts(path, what, entry["in"]))
    if not kinds <= LINE_KINDS:
        raise CatalogError(
            f"{path}: {what}: 'in' knows {', '.join(sorted(LINE_KINDS))}, not {sorted(kinds - LINE_KINDS)[0]!r}"
        )
    try:
        severity = Severity[str(entry.get("severity", "error")).upper()]
        role = Role(str(entry.get("role", "root")))
    except (KeyError, ValueError) as error:
        raise CatalogError(
            f"{path}: {what}: {error.args[0]!r} is no severity (info, warning, error, fatal) "
            "or role (root, echo, context)"
        ) from None
    return Signal(
        id=str(entry["id"]),
        title=str(entry["title"]),
        match=_texts(path, what, entry["match"]),
        kinds=kinds,
        severity=severity,
        role=role,
        about=str(entry.get("about", "rank")),
        says=dict(entry.get("says") or {}),
        split=_texts(path, what, entry.get("split")),
        anchored=bool(entry.get("anchored", False)),
        detector=str(entry.get("detector", "signals")),
        examples=_texts(path, what, entry["examples"]),
        counter_examples=_texts(path, what, entry.get("not")),
        source=str(entry["source"]),
        file=path.name,
    )


def _sign(path: Path, what: str, entry: Any) -> Sign:
    if isinstance(entry, str):
        return Sign(sign=entry)
    if not isinstance(entry, dict):
        raise CatalogError(f"{path}: {what}: a sign is a name or a mapping, not {entry!r}")
    _check_keys(path, f"{what}: sign", entry, _SIGN_KEYS, ("sign",))
    where = {str(k): tuple(v) if isinstance(v, list) else (v,) for k, v in (entry.get("where") or {}).items()}
    return Sign(
        sign=str(entry["sign"]),
        where=where,
        weight=_number(path, what, "weight", entry.get("weight", 0.0)),
        on=str(entry.get("on", "any")),
        within=_number(path, what, "within", entry.get("within", 3600.0)),
        expected=str(entry.get("expected", "")),
        why=str(entry.get("why", "")),
        despite_success=bool(entry.get("despite_success", False)),
        requeue=str(entry.get("requeue", "")),
    )


def _number(path: Path, what: str, key: str, value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise CatalogError(f"{path}: {what}: {key!r} must be a number, not {value!r}")
    return float(value)


def _signs(path: Path, what: str, entries: Any, groups: Mapping[str, list[Any]]) -> tuple[Sign, ...]:
    signs: list[Sign] = []
    for entry in entries or ():
        if isinstance(entry, str) and entry.startswith("@"):
            if entry[1:] not in groups:
                raise CatalogError(f"{path}: {what}: no group {entry!r}")
            signs += _signs(path, what, groups[entry[1:]], groups)
        else:
            signs.append(_sign(path, what, entry))
    return tuple(signs)


def _failure(path: Path, entry: Mapping[str, Any], groups: Mapping[str, list[Any]]) -> FailureClass:
    what = f"failure class {entry.get('id')!r}"
    _check_keys(
        path,
        what,
        entry,
        _FAILURE_KEYS,
        ("id", "title", "culprit", "checkpoint", "requeue", "playbook", "source", "test"),
    )
    return FailureClass(
        id=str(entry["id"]),
        title=str(entry["title"]),
        culprit=str(entry["culprit"]),
        hardware=bool(entry.get("hardware", False)),
        causes=_signs(path, what, entry.get("causes"), groups),
        effects=_signs(path, what, entry.get("effects"), groups),
        contradicts=_signs(path, what, entry.get("contradicts"), groups),
        decides=_texts(path, what, entry.get("decides")),
        checkpoint=str(entry["checkpoint"]),
        requeue=str(entry["requeue"]),
        playbook=str(entry["playbook"]),
        source=str(entry["source"]),
        test=str(entry["test"]),
        remedy=str(entry.get("remedy", "")),
        prior=float(entry.get("prior", 0.0)),
        explains_death=bool(entry.get("explains_death", True)),
        stops_job=_number(path, what, "stops_job", entry.get("stops_job", 0.0)),
        file=path.name,
    )


def _playbook(path: Path, entry: Mapping[str, Any]) -> Playbook:
    what = f"playbook {entry.get('id')!r}"
    _check_keys(path, what, entry, {"id", "steps"}, ("id", "steps"))
    steps = []
    for raw in entry["steps"]:
        _check_keys(path, f"{what}: step", raw, _STEP_KEYS, ("action", "why"))
        steps.append(
            Step(
                action=str(raw["action"]),
                why=str(raw["why"]),
                needs=_texts(path, what, raw.get("needs")),
                risk=str(raw.get("risk", "none")),
                approval=bool(raw.get("approval", False)),
                check=_texts(path, what, raw.get("check")),
                by=str(raw.get("by", "")),
            )
        )
    return Playbook(id=str(entry["id"]), steps=tuple(steps))


def _confidence(path: Path, data: Any) -> Confidence:
    values = {str(entry["id"]): entry.get("value") for entry in _entries(path, data)}
    try:
        return Confidence(**{name: float(value) for name, value in values.items() if value is not None})
    except (TypeError, ValueError) as error:
        raise CatalogError(f"{path}: the coefficients are intercept, score and gap, each a number: {error}") from None


def _codes(path: Path, key: str) -> dict[int, XidCode]:
    if not path.exists():
        return {}
    with open(path, encoding="utf-8", newline="") as handle:
        return {
            int(row[key]): XidCode(
                int(row[key]), row["name"], row["category"], row["severity"], row["recommended_action"], row["source"]
            )
            for row in csv.DictReader(handle)
        }
