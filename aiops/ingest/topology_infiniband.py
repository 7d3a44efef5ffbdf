"""An InfiniBand fabric as ``ibnetdiscover`` prints it, whole or as its port report (``-p``)."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, field

from aiops.ingest.topology_lines import TopologyFile, clean_name
from aiops.model.domains import Domain, Hierarchy
from aiops.model.entity import is_host_name

_HEAD = re.compile(rb"^# Topology file: generated on|^switchguid=0x|^Switch[ \t]+\d+ \"S-", re.MULTILINE)
_NODE = re.compile(r'^(Switch|Ca|Rt)\s+\d+\s+"([SHR])-(?:0x)?([0-9A-Fa-f]{1,16})"(?:\s+#\s*"([^"]*)")?')
_PORT = re.compile(
    r'^\[(\d{1,4})\](?:\[ext \d+\])?(?:\([0-9A-Fa-fx]+\))?\s+"([SHR])-(?:0x)?([0-9A-Fa-f]{1,16})"\[(\d{1,4})\]([^"]*)(?:"([^"]*)")?'
)
_REPORT = re.compile(
    r"^(CA|SW|RT)\s+\d{1,6}\s+(\d{1,4})\s+0x([0-9A-Fa-f]{1,16})\s+\S+\s+\S+\s+-\s+"
    r"(CA|SW|RT)\s+\d{1,6}\s+(\d{1,4})\s+0x([0-9A-Fa-f]{1,16})\s+\(\s*'(.*)'\s+-\s+'(.*)'\s*\)\s*$"
)
_REPORT_ANY = re.compile(rb"^(?:CA|SW|RT)[ \t]+\d{1,6}[ \t]+\d{1,4}[ \t]+0x[0-9A-Fa-f]{16} ", re.MULTILINE)
_ADAPTER = re.compile(r"(?:HCA-?\d+|(?:mlx|hfi|ib|rocep|qib|bnxt|irdma|efa)\w*|ConnectX\S*|CA-?\d+)$", re.IGNORECASE)
_FACTORY = re.compile(r"Technologies|Voltaire|Aggregation Node|InfiniHost|Mellanox$|NVIDIA$|^$")
"""Descriptions that a device carries from the factory: they name no host and no particular switch."""
_SWITCH_NAME = re.compile(r"^(?:MF0;)?([^:;]+?)(?::[\w./ -]+)?$")


def sniff_infiniband(head: bytes) -> str | None:
    """``ibnetdiscover`` or ``ibnetdiscover -p``."""
    if _HEAD.search(head):
        return "ibnetdiscover"
    reports = len(_REPORT_ANY.findall(head))
    return "ibnetdiscover -p" if reports and reports * 2 > head.count(b"\n") else None


@dataclass(slots=True)
class _Fabric:
    names: dict[str, str] = field(default_factory=dict)
    """GUID -> description of a switch."""
    hosts: list[tuple[str, str, int]] = field(default_factory=list)
    """(description of an adapter, GUID of the switch, line)."""
    trunks: list[tuple[str, str, int]] = field(default_factory=list)
    """(GUID, GUID, line) of two switches."""

    def join(self, here: tuple[str, str, str], there: tuple[str, str, str], line: int) -> None:
        """A cable between two (type, GUID, description)."""
        for kind, guid, said in (here, there):
            if kind == "S":
                self.names[guid] = self.names.get(guid) or said
        ends = here[0] + there[0]
        if ends == "SS":
            self.trunks.append((here[1], there[1], line))
        elif ends == "SH":
            self.hosts.append((there[2], here[1], line))
        elif ends == "HS":
            self.hosts.append((here[2], there[1], line))


def read_infiniband(file: TopologyFile) -> None:
    """Hosts by the switches that their adapters are plugged into, and switches by those above them."""
    fabric = _Fabric()
    own: tuple[str, str, str] | None = None
    for number, line in enumerate(file.text().splitlines(), 1):
        if line[:2] in ("CA", "SW", "RT") and (report := _REPORT.match(line)):
            kinds = {"CA": "H", "SW": "S", "RT": "R"}
            here = (kinds[report[1]], _guid(report[3]), report[7])
            fabric.join(here, (kinds[report[4]], _guid(report[6]), report[8]), number)
        elif head := _NODE.match(line):
            own = (head[2], _guid(head[3]), head[4] or "")
            if own[0] == "S":
                fabric.names[own[1]] = own[2] or fabric.names.get(own[1], "")
        elif line.startswith("["):
            port = _PORT.match(line)
            if port is None or own is None:
                file.problem("a port that is not understood" if port is None else "a port without its device", number)
                continue
            fabric.join(own, (port[2], _guid(port[3]), port[6] or ""), number)
    _add(file, fabric)


def _guid(text: str) -> str:
    return text.lower().zfill(16)


def _add(file: TopologyFile, fabric: _Fabric) -> None:
    domains = _switches(fabric)
    height: dict[str, int] = {}
    nameless = 0
    for said, guid, line in fabric.hosts:
        if "Aggregation Node" in said:
            continue  # the switch's own engine for reductions
        host, port = _host(said)
        if host is None:
            nameless += 1
            continue
        height[guid] = 0
        file.node(host, domains[guid], file.proof(line), port)
    if nameless:
        file.problem(f"{nameless} adapters carry no host name in their description")
    neighbours: dict[str, set[str]] = {}
    for one, other, _ in fabric.trunks:
        neighbours.setdefault(one, set()).add(other)
        neighbours.setdefault(other, set()).add(one)
    level = sorted(height)
    while level:
        above = sorted({peer for guid in level for peer in neighbours.get(guid, ())} - height.keys())
        height.update(dict.fromkeys(above, height[level[0]] + 1))
        level = above
    for one, other, line in fabric.trunks:
        low, high = sorted((one, other), key=lambda guid: (height.get(guid, 1 << 20), guid))
        if low in height and high in height and height[low] < height[high]:
            file.link(domains[low], domains[high], file.proof(line))


def _switches(fabric: _Fabric) -> dict[str, Domain]:
    """A switch by its name if nobody else has it, else by its GUID."""
    guids = {
        *fabric.names,
        *(guid for _, guid, _ in fabric.hosts),
        *(guid for one, other, _ in fabric.trunks for guid in (one, other)),
    }
    names = {guid: _switch_name(fabric.names.get(guid, "")) for guid in guids}
    common = Counter(name for name in names.values() if name)
    return {
        guid: Domain(Hierarchy.NETWORK, "switch", name if name and common[name] == 1 else f"0x{guid}")
        for guid, name in names.items()
    }


def _switch_name(said: str) -> str | None:
    if _FACTORY.search(said):
        return None
    match = _SWITCH_NAME.match(said.strip())
    return clean_name(match[1] if match else said)


def _host(said: str) -> tuple[str | None, str | None]:
    """(host, adapter) of a channel adapter's description: ``n7 HCA-1``, ``n7 mlx5_3``, ``n7``."""
    words = said.split()
    if not words or len(words) > 2 or not is_host_name(words[0]) or _FACTORY.search(said):
        return None, None
    if len(words) == 1:
        return (None, None) if _ADAPTER.match(words[0]) else (words[0], None)
    return (words[0], words[1]) if _ADAPTER.match(words[1]) else (None, None)
