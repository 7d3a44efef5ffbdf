"""Who ran where, from what the logs say: ranks, hosts, GPUs, processes."""

from __future__ import annotations

import re
from collections import Counter

from aiops.ingest.extract import Pending
from aiops.ingest.facts import facts_of
from aiops.ingest.outputs import join_outputs, speakers, urgency
from aiops.ingest.placement import join_diagnosed_gpus, join_placements
from aiops.model.case import Case, RankPlace, Topology
from aiops.model.entity import canonical_pci, is_host_name

_PROCESS = re.compile(r"(?:^|[\s\]:])([A-Za-z0-9][\w.-]{0,252}):(\d{1,10}):\d{1,10} \[")
"""``host:pid:tid [`` of an NCCL line, behind whatever labels and stamps a collector writes."""
_WORLD = re.compile(r"world[_ ]size ?[=:] ?(\d{1,6})(?!\d)")


_MOST_RANKS = 1_000_000
"""Beyond this many ranks a list of tasks is taken for damage."""


def join_identities(case: Case, pending: Pending) -> None:
    """Fill ``case.topology`` from events and correct rows whose rank or node only the whole case tells."""
    topology = case.topology
    events = case.events
    by_pid: dict[tuple[str, int], int] = {}
    worlds: Counter[int] = Counter()
    rows = events.by_signal()
    join_outputs(case)
    for row in _in_order_of_jobs(case, rows.get("nccl.init_rank", [])):
        event = events[row]
        head = _PROCESS.search(event.text, 0, 400)
        rank, world = int(event.fields["rank"]), int(event.fields["nranks"])
        worlds[world] += 1
        if head is None:
            continue
        host, pid = head[1], int(head[2])
        _note_comm(topology, event.fields, rank, world, host, pid, by_pid, max(worlds))
    if worlds:
        topology.world_size = max(worlds)
    for row in rows.get("train.start", ()):
        match = _WORLD.search(events[row].text)
        if match and int(match[1]) > 1:
            topology.world_size = max(topology.world_size or 0, int(match[1]))
    _place_by_attempt(case, rows.get("nccl.init_rank", []))
    join_placements(case, rows)
    join_diagnosed_gpus(case)
    _from_launchers(case, rows)
    _one_name_each(case)
    hosts_of_pid: dict[int, set[int]] = {}
    for (_, pid), rank in by_pid.items():
        hosts_of_pid.setdefault(pid, set()).add(rank)
    for row, host, pid in pending.by_pid:
        found = by_pid.get((host, pid)) if host else None
        if found is None and len(hosts_of_pid.get(pid, ())) == 1:
            # a label such as Ray's names the process but not the host as NCCL names it
            found = next(iter(hosts_of_pid[pid]))
        if found is not None:
            events.move(row, rank=found)
    for row in range(len(events)):
        node = events[row].node
        if node and is_host_name(node):
            topology.nodes.setdefault(node, set()).add(case.sources[events[row].source].name)
    for source in case.sources:
        if source.node and is_host_name(source.node):
            topology.nodes.setdefault(source.node, set()).add(source.name)
    _declared(case)
    _complete(topology)


def _in_order_of_jobs(case: Case, rows: list[int]) -> list[int]:
    """The rows as they stand, those of the job that will be judged last: of two placements of a rank the later stands."""
    heard = speakers(case)
    if len(heard) < 2:
        return rows
    order = {job.id: number for number, job in enumerate(sorted(case.jobs, key=urgency), 1)}
    return sorted(rows, key=lambda row: order.get(case.sources[case.events[row].source].job or "", 0))


def _place_by_attempt(case: Case, rows: list[int]) -> None:
    """Give lines of a rank that ran on several hosts in turn the host of their own attempt: the topology knows the last one."""
    starts: dict[tuple[int, int], list[tuple[int, str]]] = {}
    hosts: dict[int, set[str]] = {}
    largest = max((int(case.events[row].fields["nranks"]) for row in rows), default=0)
    for row in rows:
        event = case.events[row]
        head = _PROCESS.search(event.text, 0, 400)
        if head is None or int(event.fields["nranks"]) < largest:
            continue
        rank = int(event.fields["rank"])
        starts.setdefault((event.source, rank), []).append((event.line, head[1]))
        hosts.setdefault(rank, set()).add(head[1])
    moved = {rank for rank, names in hosts.items() if len(names) > 1}
    if not moved:
        return
    for row in range(len(case.events)):
        event = case.events[row]
        if event.rank not in moved or event.node is not None:
            continue
        own = starts.get((event.source, event.rank or 0), [])
        before = max((start for start in own if start[0] <= event.line), default=None)
        if before is not None and is_host_name(before[1]):
            case.events.move(row, node=before[1])


def _note_comm(
    topology: Topology,
    fields: object,
    rank: int,
    world: int,
    host: str,
    pid: int,
    by_pid: dict[tuple[str, int], int],
    largest: int,
) -> None:
    """One line of NCCL's initialisation. Sub-communicators number their own ranks, so only the largest counts."""
    assert isinstance(fields, dict)
    if world < largest:
        return
    place = topology.ranks.get(rank)
    if place is not None and place.node != host and place.sure == "NCCL initialisation" and place.pid != pid:
        # two jobs or two attempts: the later placement stands
        place = None
    if place is None:
        place = topology.ranks[rank] = RankPlace(rank)
    place.node, place.pid, place.sure = host, pid, "NCCL initialisation"
    device = fields.get("nvml") or fields.get("dev")
    if device is not None and str(device).isdigit():
        place.local_rank = int(fields["dev"])
        place.gpu = int(device)
    bus = bus_id(str(fields.get("busid", "")))
    if bus:
        place.pci = bus
        if place.gpu is not None:
            topology.gpu_pci.setdefault((host, place.gpu), bus)
    by_pid[(host, pid)] = rank


def _one_name_each(case: Case) -> None:
    """In a container the host name is the pod's: put the node that the pod ran on in its place, wherever a pod object or a
    collector tells; likewise other names of a node that ``case.yaml`` lists."""
    facts = facts_of(case)
    pods = {**_scheduled(case), **facts.pod_nodes}
    for item in case.objects:
        spec = item.body.get("spec")
        if item.kind != "Pod" or not isinstance(spec, dict):
            continue
        node = spec.get("nodeName")
        if isinstance(node, str) and is_host_name(node):
            for name in (item.name, spec.get("hostname")):
                if isinstance(name, str):
                    pods[name] = node
    nodes = {**pods, **facts.declared.aliases}
    nodes = {name: facts.declared.aliases.get(node, node) for name, node in nodes.items()}
    if not nodes:
        return
    for place in case.topology.ranks.values():
        if place.node in nodes:
            place.pod = place.node if place.node in pods else place.pod
            place.node = nodes[place.node]
    for row in range(len(case.events)):
        name = case.events[row].node
        if name in nodes:
            case.events.move(row, node=nodes[name])
    for source in case.sources:
        if source.node in nodes:
            source.node = nodes[source.node]
    for (name, index), pci in list(case.topology.gpu_pci.items()):
        if name in nodes:
            del case.topology.gpu_pci[(name, index)]
            case.topology.gpu_pci.setdefault((nodes[name], index), pci)


_ASSIGNED = re.compile(r"Successfully assigned (?:[\w.-]+/)?([\w.-]+) to ([\w.-]+)")


def _scheduled(case: Case) -> dict[str, str]:
    """Node of each pod as the scheduler's events tell it; a pod that was bound to several nodes is left out."""
    found: dict[str, set[str]] = {}
    for item in case.objects:
        message = item.body.get("message") or item.body.get("note")
        if item.kind == "Event" and isinstance(message, str) and (match := _ASSIGNED.match(message)):
            found.setdefault(match[1], set()).add(match[2])
    return {pod: node for pod, nodes in found.items() if len(nodes) == 1 and is_host_name(node := next(iter(nodes)))}


def _declared(case: Case) -> None:
    """What ``case.yaml`` states of ranks and GPUs stands above what logs say."""
    declared, topology = facts_of(case).declared, case.topology
    if declared.world_size:
        topology.world_size = declared.world_size
    topology.gpu_pci.update(declared.gpu_pci)
    for stated in declared.ranks:
        place = topology.ranks.setdefault(stated.rank, RankPlace(stated.rank))
        for name in ("node", "local_rank", "gpu", "pci", "uuid", "pod"):
            value = getattr(stated, name)
            if value is not None:
                setattr(place, name, value)
        place.sure = "case.yaml"


_BLOCK = re.compile(
    r"host +: (?P<host>[\w.-]+)[^\n]*\n[^\n]*?rank +: (?P<rank>\d{1,9}) \(local_rank: (?P<local>\d{1,9})\)[^\n]*\n[^\n]*?exitcode"
)


_LAUNCHERS = ("launcher.exit_record", "launcher.failed", "launcher.child_failed", "launcher.closing", "launcher.signal")


def tasks_are_launchers(case: Case) -> bool:
    """True if srun's tasks are torchrun's agents, one for each node, so that a task's number is no rank."""
    rows = case.events.by_signal()
    return any(not case.events[row].quoted for name in _LAUNCHERS for row in rows.get(name, ()))


def _from_launchers(case: Case, rows: dict[str, list[int]]) -> None:
    """Hosts of ranks from torchrun's summary and srun's messages, where NCCL's lines do not tell."""
    for row in rows.get("launcher.exit_record", ()):
        event = case.events[row]
        begin = max(0, event.offset - 400)
        text = case.read(event.source, begin, event.offset - begin + 40).decode("utf-8", "replace")
        blocks = list(_BLOCK.finditer(text))
        block = blocks[-1] if blocks else None
        if block:
            place = case.topology.ranks.setdefault(int(block["rank"]), RankPlace(int(block["rank"])))
            if place.node is None and is_host_name(block["host"]):
                place.node, place.local_rank, place.sure = block["host"], int(block["local"]), "the launcher's summary"
    if tasks_are_launchers(case):
        return
    for row in rows.get("srun.task_exit", ()):
        event = case.events[row]
        for part in re.findall(r"(\d{1,9})(?:-(\d{1,9}))?", str(event.fields["tasks"])):
            if len(case.topology.ranks) > _MOST_RANKS:
                return
            first, last = int(part[0]), int(part[1] or part[0])
            for rank in range(first, min(last, first + 4096) + 1):
                place = case.topology.ranks.setdefault(rank, RankPlace(rank))
                if place.node is None and is_host_name(str(event.fields["host"])):
                    place.node, place.sure = str(event.fields["host"]), "srun"


def bus_id(text: str) -> str | None:
    """PCI id of NCCL's ``busId``: the digits of ``0000:ab:00.0`` without leading zeros, so ``ab000``."""
    if not text:
        return None
    digits = text.zfill(9)
    return canonical_pci(f"{digits[:-5].zfill(4)[-4:]}:{digits[-5:-3]}:{digits[-3:-1]}")


def _complete(topology: Topology) -> None:
    """Fill PCI ids and GPU indices of ranks from each other, where a source joins them."""
    index_of = {(node, pci): index for (node, index), pci in topology.gpu_pci.items()}
    for place in topology.ranks.values():
        if place.node is None:
            continue
        if place.gpu is None and place.pci:
            place.gpu = index_of.get((place.node, place.pci))
        if place.gpu is None and place.local_rank is not None:
            place.gpu = place.local_rank
        if place.pci is None and place.gpu is not None:
            place.pci = topology.gpu_pci.get((place.node, place.gpu))
        if place.uuid is None and place.pci:
            place.uuid = topology.gpu_uuid.get((place.node, place.pci))
