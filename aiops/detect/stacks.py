"""Stack dumps of many processes: which one stands somewhere else than the rest."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass

from aiops.catalog.model import Catalog
from aiops.detect.evidence import evidence_rows, quotes, span
from aiops.model.case import Case
from aiops.model.event import Event, Severity
from aiops.model.finding import Finding, Role

_READ = 6_000
_ABOVE = 400
_WHO = re.compile(
    r"\b(?:srun task|task|[Rr]ank|RANK|rank_|MPI rank)[ :=_#]{0,2}(\d{1,6})\b|--(?:local[_-])?rank[ =](\d{1,6})\b|\brank(\d{1,6})\b"
)
_NODE = re.compile(r"\b(?:node|host|hostname|on)[ :=]{1,2}([A-Za-z][\w.-]{1,62}\d[\w.-]*)")
_FRAME = re.compile(
    r"^ {2,}(?:File \"(?P<file>[^\"]+)\", line \d+ in (?P<old>\S+)|(?P<name>[\w<>.:~ ]+?) \((?P<where>[^)]+)\))"
)
_HEAD = re.compile(r"^(?:Process \d+: |Thread |Current thread )")

_KINDS = (
    (
        "loader",
        re.compile(
            r"torch/utils/data/dataloader\.py|multiprocessing/queues\.py|_get_data|_try_get_data|prefetch|queue\.py"
        ),
    ),
    (
        "lock",
        re.compile(
            r"acquire|_acquireLock|lll_lock_wait|pthread_mutex_lock|take_gil|PyGILState|wait_for_tstate_lock|thread_pool|ThreadPool|at_fork|fork_exec"
        ),
    ),
    (
        "collective",
        re.compile(
            r"distributed_c10d\.py|c10d|nccl|Nccl|gloo|all_?reduce|all_?gather|reduce_?scatter|barrier|broadcast|p2p_communication|batch_isend"
            r"|megatron/core/pipeline_parallel|send_forward|recv_forward|MPI_|synchronize|cudaStreamSynchronize|cuda/streams\.py|_item|\.item\b"
        ),
    ),
    (
        "file",
        re.compile(
            r"\b(?:open|read|readinto|stat|fsync|write|flush|lstat|listdir|scandir)\b|\bvfs_|nfs_|ll_file|ceph_"
        ),
    ),
)


@dataclass(slots=True)
class Dump:
    """The main thread of one process."""

    event: Event
    rank: int | None
    node: str | None
    pid: str
    frames: list[str]
    kind: str
    loader_below: bool
    """A frame of the data loader stands anywhere in the stack."""


def detect(case: Case, catalog: Catalog) -> list[Finding]:
    """``fw.dataloader_stuck`` or ``fw.deadlock_stack`` (both ROOT, with ``rank`` and ``node`` of the odd process) from
    py-spy or faulthandler dumps of several processes; fields ``odd``, ``others``, ``processes``."""
    dumps = _dumps(case)
    if len(dumps) < 2:
        return []
    kinds = Counter(dump.kind for dump in dumps)
    usual, many = kinds.most_common(1)[0]
    odd = [dump for dump in dumps if dump.kind != usual]
    if not odd or many * 2 <= len(dumps) or usual == "loader":
        return []
    stuck = [dump for dump in odd if dump.kind in ("loader", "lock", "file")] or odd
    if len(stuck) * 2 >= len(dumps):
        return []
    loader = any(dump.loader_below for dump in stuck)
    head = min(stuck, key=lambda dump: (dump.rank is None, dump.rank if dump.rank is not None else 0, dump.pid))
    place = case.topology.ranks.get(head.rank) if head.rank is not None else None
    first, last = span([head.event])
    who = f"Rank {head.rank}" if head.rank is not None else f"Process {head.pid}"
    where = "the data loader" if loader else head.frames[0] if head.frames else "another place"
    ranks = tuple(sorted(dump.rank for dump in stuck if dump.rank is not None))
    return [
        Finding(
            sign="fw.dataloader_stuck" if loader else "fw.deadlock_stack",
            text=f"{who} stands in {where} while {many} of {len(dumps)} processes stand in a {usual}",
            role=Role.ROOT,
            severity=Severity.ERROR,
            first=first,
            last=last,
            node=head.node or (place.node if place else None),
            rank=head.rank,
            ranks=ranks,
            gpu=place.gpu if place else None,
            count=len(stuck),
            fields={
                "odd": head.kind,
                "others": usual,
                "processes": len(dumps),
                "frame": head.frames[0] if head.frames else "",
            },
            evidence=quotes(case, [dump.event for dump in stuck[:3]]),
        )
    ]


def _dumps(case: Case) -> list[Dump]:
    events = sorted(evidence_rows(case, "fw.stack"), key=lambda e: (e.source, e.offset))
    found: list[Dump] = []
    process: Event | None = None
    for number, event in enumerate(events):
        if event.text.startswith("Process "):
            process = event
            following = events[number + 1] if number + 1 < len(events) else None
            if following is None or not _main(following, event):
                continue
            found.append(_dump(case, process, following))
        elif process is None and "most recent call first" in event.text and event.text.startswith("Current"):
            found.append(_dump(case, event, event))
    return found


def _main(thread: Event, process: Event) -> bool:
    return thread.source == process.source and thread.text.startswith(("Thread", "Current"))


def _dump(case: Case, head: Event, thread: Event) -> Dump:
    begin = max(0, head.offset - _ABOVE)
    above = case.read(head.source, begin, head.offset - begin).decode("utf-8", "replace").split("\n\n")[-1]
    title = f"{above.splitlines()[-1] if above.strip() else ''} {head.text}"
    body = case.read(thread.source, thread.offset, _READ).decode("utf-8", "replace").splitlines()[1:]
    frames = []
    for line in body:
        frame = _FRAME.match(line)
        if frame is None:
            break
        frames.append(line.strip())
    who = _WHO.search(title)
    node = _NODE.search(title)
    rank = int(next(group for group in who.groups() if group)) if who else head.rank
    pid = re.search(r"\d+", head.text)
    top = "\n".join(frames[:4])
    kind = next((name for name, pattern in _KINDS if pattern.search(top)), "computation")
    return Dump(
        event=thread,
        rank=rank,
        node=(node[1] if node else None) or head.node,
        pid=pid[0] if pid else "?",
        frames=frames,
        kind=kind,
        loader_below=any(_KINDS[0][1].search(frame) for frame in frames[:12]) and kind != "collective",
    )
