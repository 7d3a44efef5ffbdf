"""``case.yaml``: what a person knows about a case and the files do not say. See docs/ingest.md for the schema."""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import timedelta, timezone, tzinfo
from pathlib import Path
from typing import Any, NoReturn

from aiops.catalog.topology import level_words, plural_words
from aiops.errors import InputError
from aiops.ingest.stamps import ZONES
from aiops.ingest.topology_inventory import Walker
from aiops.ingest.topology_lines import TopologyFile
from aiops.ingest.topology_yaml import YamlFile
from aiops.model.case import Case, Source
from aiops.model.domains import Edge
from aiops.model.entity import canonical_pci, is_host_name

NAMES = ("case.yaml", "case.yml")
KINDS = (
    "kernel",
    "training",
    "scheduler",
    "text",
    "metrics",
    "diagnostics",
    "kubernetes",
    "slurm",
    "topology",
    "listing",
    "flight_recorder",
    "ignore",
)
SCHEDULERS = ("slurm", "kubernetes")
_LARGEST = 8 << 20


@dataclass(frozen=True, slots=True)
class DeclaredFile:
    """What is stated about the files that a glob names."""

    pattern: str
    line: int
    kind: str | None = None
    node: str | None = None
    rank: int | None = None
    pod: str | None = None
    job: str | None = None
    zone: tzinfo | None = None
    ahead_s: float = 0.0
    """Seconds by which this clock is ahead: they are subtracted."""


@dataclass(frozen=True, slots=True)
class DeclaredRank:
    """Where a rank ran."""

    rank: int
    node: str | None = None
    local_rank: int | None = None
    gpu: int | None = None
    pci: str | None = None
    uuid: str | None = None
    pod: str | None = None


@dataclass(slots=True)
class Declared:
    """The content of a ``case.yaml``; empty without one."""

    path: str = ""
    zone: tzinfo | None = None
    year: int | None = None
    job_id: str | None = None
    job_name: str | None = None
    scheduler: str | None = None
    files: list[DeclaredFile] = field(default_factory=list)
    world_size: int | None = None
    ranks: list[DeclaredRank] = field(default_factory=list)
    aliases: dict[str, str] = field(default_factory=dict)
    """Other name of a node -> its name."""
    gpu_pci: dict[tuple[str, int], str] = field(default_factory=dict)
    edges: list[Edge] = field(default_factory=list)
    """What nodes hang on."""

    def about(self, name: str) -> DeclaredFile | None:
        """The first entry whose glob fits a file's name in the case; ``*`` fits ``/`` as well."""
        return next((item for item in self.files if fnmatch.fnmatchcase(name, item.pattern)), None)

    def zone_of(self, name: str) -> tzinfo | None:
        """Zone of stamps that carry none."""
        item = self.about(name)
        return (item.zone if item else None) or self.zone


def is_case_yaml(name: str) -> bool:
    """True for the file of that name at the top of a directory or an archive."""
    base = re.split(r"[/!]", name)[-1]
    return base in NAMES and name.count("/") + name.count("!") <= 2


def read_case_yaml(path: Path, name: str) -> Declared:
    """Read and check the file.

    Raises:
        InputError: it is no YAML or says something that the schema does not know; names the file and the line.
    """
    import yaml

    text = path.read_bytes()[: _LARGEST + 1]
    if len(text) > _LARGEST:
        raise InputError("larger than 8 MiB", path=name)
    try:
        root = yaml.compose(text.decode("utf-8"), Loader=yaml.SafeLoader)
    except UnicodeDecodeError:
        raise InputError("is not UTF-8", path=name) from None
    except (yaml.YAMLError, RecursionError) as error:
        mark = getattr(error, "problem_mark", None)
        reason = getattr(error, "problem", None) or str(error).split("\n")[0]
        raise InputError(f"not valid YAML: {reason}", path=name, line=mark.line + 1 if mark else None) from None
    return _Reader(name, path, text).case(root) if root is not None else Declared(path=name)


class _Reader:
    """Walks the parsed tree; every complaint names its line."""

    def __init__(self, name: str, path: Path, data: bytes) -> None:
        self._name = name
        self._scratch = Case(name)
        file = TopologyFile(Source(0, name, path, len(data)), data, self._scratch)
        self._places = Walker(file, YamlFile(file))

    def case(self, root: Any) -> Declared:
        found = Declared(path=self._name)
        for key, node in self._pairs(
            root, ("version", "timezone", "year", "job", "scheduler", "files", "topology", "ranks"), "case.yaml"
        ):
            if key == "version":
                if self._integer(node, 1, 1 << 20) != 1:
                    self._fail(node, "only version 1 is known")
            elif key == "timezone":
                found.zone = self._zone(node)
            elif key == "year":
                found.year = self._integer(node, 1990, 2199)
            elif key == "scheduler":
                found.scheduler = self._choice(node, SCHEDULERS)
            elif key == "job":
                self._job(node, found)
            elif key == "files":
                found.files = [self._file(item) for item in self._items(node)]
            elif key == "ranks":
                found.ranks = self._ranks(node)
            else:
                self._topology(node, found)
        return found

    def _job(self, node: Any, found: Declared) -> None:
        if self._is_scalar(node):
            found.job_id = self._text(node)
            return
        for key, value in self._pairs(node, ("id", "name", "scheduler"), "job"):
            if key == "id":
                found.job_id = self._text(value)
            elif key == "name":
                found.job_name = self._text(value)
            else:
                found.scheduler = self._choice(value, SCHEDULERS)

    def _file(self, node: Any) -> DeclaredFile:
        values: dict[str, Any] = {}
        allowed = ("path", "kind", "node", "rank", "pod", "job", "timezone", "clock_ahead_s")
        for key, value in self._pairs(node, allowed, "an entry of files"):
            if key == "path":
                values["pattern"] = self._text(value)
            elif key == "kind":
                values["kind"] = self._choice(value, KINDS)
            elif key == "node":
                values["node"] = self._host(value)
            elif key == "rank":
                values["rank"] = self._integer(value, 0, 10_000_000)
            elif key == "pod":
                values["pod"] = self._host(value)
            elif key == "job":
                values["job"] = self._text(value)
            elif key == "timezone":
                values["zone"] = self._zone(value)
            elif key == "clock_ahead_s":
                values["ahead_s"] = self._number(value)
        if "pattern" not in values:
            self._fail(node, "an entry of files needs a path")
        return DeclaredFile(line=self._line(node), **values)

    def _topology(self, node: Any, found: Declared) -> None:
        for key, value in self._pairs(node, ("world_size", "ranks", "nodes", *sorted(plural_words())), "topology"):
            if key == "world_size":
                found.world_size = self._integer(value, 1, 10_000_000)
            elif key == "ranks":
                found.ranks = self._ranks(value)
            elif key == "nodes":
                self._nodes(value, found)
            else:
                self._places.domains(value, level_words()[key], None, 0)
        for problem in self._scratch.coverage.problems:
            raise InputError(problem.reason, path=self._name, line=problem.line)
        found.edges = self._scratch.topology.tree.edges

    def _nodes(self, node: Any, found: Declared) -> None:
        for name, key_node, body in self._open_pairs(node, "nodes"):
            self._check_host(key_node, name)
            self._places.attributes(name, body)
            for key, value in self._pairs(body, ("aliases", "gpus", *sorted(level_words())), f"node {name}"):
                if key in level_words():
                    continue
                if key == "aliases":
                    for item in self._items(value):
                        found.aliases[self._host(item)] = name
                    continue
                for index, index_node, pci in self._open_pairs(value, "gpus"):
                    bus = canonical_pci(self._text(pci))
                    if not index.isdecimal() or len(index) > 4 or bus is None:
                        self._fail(index_node, "gpus maps an index to a PCI id such as 0000:3b:00.0")
                    found.gpu_pci[(name, int(index))] = bus

    def _ranks(self, node: Any) -> list[DeclaredRank]:
        if node.id == "sequence":
            return [self._rank(item, None) for item in node.value]
        found = []
        for text, key_node, body in self._open_pairs(node, "ranks"):
            first, _, last = text.partition("-")
            if not first.isdecimal() or (last and not last.isdecimal()) or len(text) > 17:
                self._fail(key_node, "ranks are numbers or ranges such as 0-7")
            begin, end = int(first), int(last or first)
            if end < begin or end - begin > 1_000_000:
                self._fail(key_node, "the range of ranks is empty or too long")
            if self._is_scalar(body):
                host = self._host(body)
                local = last != ""
                found += [
                    DeclaredRank(rank, host, local_rank=rank - begin if local else None)
                    for rank in range(begin, end + 1)
                ]
            elif last:
                self._fail(key_node, "a range of ranks names one node")
            else:
                found.append(self._rank(body, begin))
        return found

    def _rank(self, node: Any, rank: int | None) -> DeclaredRank:
        values: dict[str, Any] = {} if rank is None else {"rank": rank}
        for key, value in self._pairs(node, ("rank", "node", "local_rank", "gpu", "pci", "uuid", "pod"), "a rank"):
            if key in ("rank", "local_rank", "gpu"):
                values[key] = self._integer(value, 0, 10_000_000)
            elif key in ("node", "pod"):
                values[key] = self._host(value)
            elif key == "pci":
                bus = canonical_pci(self._text(value))
                if bus is None:
                    self._fail(value, "is no PCI id such as 0000:3b:00.0")
                values[key] = bus
            else:
                values[key] = self._text(value)
        if "rank" not in values:
            self._fail(node, "an entry of ranks needs a rank")
        return DeclaredRank(**values)

    # what a node may be

    def _pairs(self, node: Any, allowed: tuple[str, ...], what: str) -> Iterator[tuple[str, Any]]:
        for key, key_node, value in self._open_pairs(node, what):
            if key not in allowed:
                self._fail(key_node, f"{what} has no {key!r}; known are {', '.join(allowed)}")
            yield key, value

    def _open_pairs(self, node: Any, what: str) -> Iterator[tuple[str, Any, Any]]:
        if node.id != "mapping":
            self._fail(node, f"{what} must be a mapping")
        seen: set[str] = set()
        for key_node, value in node.value:
            key = self._text(key_node)
            if key in seen:
                self._fail(key_node, f"{key!r} stands twice in {what}")
            seen.add(key)
            yield key, key_node, value

    def _items(self, node: Any) -> list[Any]:
        if node.id != "sequence":
            self._fail(node, "must be a list")
        return list(node.value)

    @staticmethod
    def _is_scalar(node: Any) -> bool:
        return bool(node.id == "scalar")

    def _text(self, node: Any) -> str:
        if not self._is_scalar(node) or not node.value.strip():
            self._fail(node, "must be a word or a number")
        return str(node.value)

    def _integer(self, node: Any, least: int, most: int) -> int:
        text = self._text(node)
        if not re.fullmatch(r"[+-]?[0-9]{1,9}", text) or not least <= int(text) <= most:
            self._fail(node, f"{text!r} is no whole number from {least} to {most}")
        return int(text)

    def _number(self, node: Any) -> float:
        text = self._text(node)
        if not re.fullmatch(r"[+-]?[0-9]{1,12}(?:\.[0-9]{1,9})?", text):
            self._fail(node, f"{text!r} is no number of seconds")
        return float(text)

    def _choice(self, node: Any, allowed: tuple[str, ...]) -> str:
        text = self._text(node)
        if text not in allowed:
            self._fail(node, f"{text!r} is none of {', '.join(allowed)}")
        return text

    def _host(self, node: Any) -> str:
        text = self._text(node)
        self._check_host(node, text)
        return text

    def _check_host(self, node: Any, text: str) -> None:
        if not is_host_name(text):
            self._fail(node, f"{text!r} is no host name")

    def _zone(self, node: Any) -> tzinfo:
        text = self._text(node)
        zone = zone_named(text)
        if zone is None:
            self._fail(node, f"{text!r} is no time zone: write Europe/Berlin, +02:00 or UTC")
        return zone

    @staticmethod
    def _line(node: Any) -> int:
        return int(node.start_mark.line) + 1

    def _fail(self, node: Any, reason: str) -> NoReturn:
        raise InputError(reason, path=self._name, line=self._line(node))


def zone_named(text: str) -> tzinfo | None:
    """A zone of the IANA data base, an offset such as ``+02:00``, or an abbreviation of `stamps.ZONES`."""
    match = re.fullmatch(r"([+-])(\d\d):?(\d\d)?", text)
    if match:
        minutes = int(match[2]) * 60 + int(match[3] or 0)
        if minutes >= 24 * 60:
            return None
        return timezone(timedelta(minutes=minutes if match[1] == "+" else -minutes), text)
    if text in ZONES:
        return timezone(timedelta(minutes=ZONES[text]), text)
    if len(text) > 64:  # no zone is; each part of the name is looked up by a call in a call
        return None
    from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

    try:
        return ZoneInfo(text)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        return None
