"""Where ranks ran, as launchers and start-up lines of the training tell it, where NCCL's own lines do not."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from aiops.model.case import Case, RankPlace
from aiops.model.entity import canonical_pci, is_host_name
from aiops.model.event import Event

_RANK = re.compile(r"(?<![\w.-])(?:[Gg]lobal[_ ])?[Rr]ank[ =:]+(\d{1,6})(?!\d)")
_LOCAL = re.compile(r"\b[Ll]ocal[_ ]?[Rr]ank[ =:]+(\d{1,3})(?!\d)")
_HOST = re.compile(r"\b(?:host(?:name)?|node(?:[_ ]?name)?)[ =:]+([A-Za-z][\w.-]{0,252})")
_UUID = re.compile(r"\b(GPU-[0-9a-f]{8}-[0-9a-f-]{27})\b")
_PCI = re.compile(r"\b((?:[0-9A-Fa-f]{4,8}:)?[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}\.[0-7])(?![\w:])")
_SLOTS = re.compile(r"([A-Za-z][\w.-]{0,252}) slots=(\d{1,3})(?: \(ranks? (\d{1,6})-(\d{1,6})\))?")
_MAPPING = re.compile(r"'([A-Za-z][\w.-]{0,252})': \[([\d, ]{1,4000})\]")
_NODE_RANKS = re.compile(r"global_ranks=\[([\d, ]{1,4000})\]")
_MOST_PER_NODE = 256


@dataclass(frozen=True, slots=True)
class _Seat:
    rank: int
    node: str
    local: int | None = None
    pci: str | None = None
    uuid: str | None = None


def join_placements(case: Case, rows: dict[str, list[int]]) -> None:
    """Fill places of ``case.topology`` that nothing better tells; two lines that contradict each other leave a rank unplaced."""
    seats: dict[int, set[_Seat]] = {}
    for row in rows.get("job.placement", ()):
        for seat in _seats(case.events[row]):
            seats.setdefault(seat.rank, set()).add(seat)
    for rank, told in sorted(seats.items()):
        if len({seat.node for seat in told}) != 1:
            continue
        place = case.topology.ranks.setdefault(rank, RankPlace(rank))
        for seat in sorted(told, key=lambda s: (s.pci is None, s.local is None, str(s))):
            if place.node is None:
                place.node, place.sure = seat.node, "a line about the placement"
            if place.node != seat.node:
                continue
            place.local_rank = seat.local if place.local_rank is None else place.local_rank
            place.pci = place.pci or seat.pci
            place.uuid = place.uuid or seat.uuid


def _seats(event: Event) -> Iterator[_Seat]:
    text = event.text[:8000]
    for match in _SLOTS.finditer(text):
        if match[3]:
            first, last = int(match[3]), int(match[4])
            yield from _in_order(match[1], range(first, min(last, first + _MOST_PER_NODE - 1) + 1))
    if "global_rank_mapping" in text:
        for match in _MAPPING.finditer(text):
            yield from _in_order(match[1], _numbers(match[2]))
    here = _NODE_RANKS.search(text)
    if here and event.node:
        yield from _in_order(event.node, _numbers(here[1]))
    local, host, rank = _LOCAL.search(text), _HOST.search(text), _RANK.search(text)
    number = int(rank[1]) if rank else event.rank
    if local and host and number is not None and is_host_name(host[1]):
        pci, uuid = _PCI.search(text), _UUID.search(text)
        yield _Seat(number, host[1], int(local[1]), canonical_pci(pci[1]) if pci else None, uuid[1] if uuid else None)


def _numbers(text: str) -> list[int]:
    return [int(number[:6]) for number in re.findall(r"\d+", text)][:_MOST_PER_NODE]


def _in_order(node: str, ranks: range | list[int]) -> Iterator[_Seat]:
    """Launchers number the ranks of one node by its GPUs."""
    if is_host_name(node):
        for local, rank in enumerate(ranks):
            yield _Seat(rank, node, local)


_DIAGNOSED = re.compile(r"\bGPU:(\d{1,3}) PCI:([0-9A-Fa-f]{4,8}:[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}\.[0-7])")


def join_diagnosed_gpus(case: Case) -> None:
    """GPU index and PCI id of a node, from the health messages that name both (``[DCGM_FR_… GPU:1 PCI:0002:00:00.0]``)."""
    for item in case.objects:
        node, said = _health(item.kind, item.name, item.body)
        for text in said:
            for match in _DIAGNOSED.finditer(text[:4000]):
                pci = canonical_pci(match[2])
                if pci and is_host_name(node):
                    case.topology.gpu_pci.setdefault((node, int(match[1])), pci)


def _health(kind: str, name: str, body: object) -> tuple[str, list[str]]:
    if not isinstance(body, dict):
        return "", []
    about = body.get("involvedObject") or body.get("regarding")
    if kind == "Event" and isinstance(about, dict) and about.get("kind") == "Node":
        said = [body.get("message"), body.get("note")]
        return str(about.get("name", "")), [text for text in said if isinstance(text, str)]
    status = body.get("status")
    conditions = status.get("conditions") if kind == "Node" and isinstance(status, dict) else None
    if not isinstance(conditions, list):
        return "", []
    said = [entry.get("message") for entry in conditions if isinstance(entry, dict)]
    return name, [text for text in said if isinstance(text, str)]
