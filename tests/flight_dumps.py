"""Flight-recorder dumps as PyTorch writes them, of a small job with tensor and data parallel groups."""

from __future__ import annotations

import json
import pickle
from pathlib import Path
from typing import Any

BEGAN = 1_785_571_200_000_000_000
"""2026-08-01T08:00:00Z"""
STEP = 1_000_000


class Job:
    """``tp`` × ``dp`` ranks; rank = position in the data parallel group × tp + position in the tensor parallel group."""

    def __init__(self, tp: int, dp: int, *, plain: bool = False) -> None:
        self.world = tp * dp
        self.groups: dict[str, list[int]] = {"0": list(range(self.world))}
        self.plain = plain
        if not plain:
            for d in range(dp):
                self.groups[str(1 + d)] = [d * tp + t for t in range(tp)]
            for t in range(tp):
                self.groups[str(1 + dp + t)] = [d * tp + t for d in range(dp)]
        self.entries: dict[int, list[dict[str, Any]]] = {rank: [] for rank in range(self.world)}
        self.dp = dp

    def tp_group(self, rank: int) -> str:
        return next(name for name, ranks in self.groups.items() if 1 <= int(name) <= self.dp and rank in ranks)

    def dp_group(self, rank: int) -> str:
        return next(name for name, ranks in self.groups.items() if int(name) > self.dp and rank in ranks)

    def of(self, rank: int) -> list[str]:
        return [name for name, ranks in self.groups.items() if rank in ranks]

    def call(
        self, rank: int, group: str, seq: int, op: str = "all_reduce", state: str = "completed", **more: Any
    ) -> None:
        """Record one operation; ``more`` replaces fields of the record."""
        entries = self.entries[rank]
        number = more.pop("record_id", entries[-1]["record_id"] + 1 if entries else 0)
        size = more.pop("size", 1024)
        dtype = more.pop("dtype", "Float")
        p2p = op.startswith(("send", "recv"))
        created = more.pop("time_created_ns", BEGAN + number * STEP)
        entry = {
            "frames": [
                {"name": "all_reduce", "filename": "/opt/torch/distributed/distributed_c10d.py", "line": 2810},
                {"name": "train_step", "filename": "/proj/train.py", "line": 120 + seq % 7},
            ],
            "record_id": number,
            "pg_id": self.of(rank).index(group),
            "process_group": (group, "default_pg" if group == "0" else "undefined"),
            "collective_seq_id": 0 if p2p else seq,
            "p2p_seq_id": seq if p2p else 0,
            "op_id": seq,
            "profiling_name": f"nccl:{op}",
            "time_created_ns": created,
            "input_sizes": [[size]],
            "input_dtypes": [dtype],
            "output_sizes": [[size]],
            "output_dtypes": [dtype],
            "state": state,
            "time_discovered_started_ns": None if state == "scheduled" else created + 1000,
            "time_discovered_completed_ns": created + 2000 if state == "completed" else None,
            "retired": state == "completed",
            "timeout_ms": 600_000,
            "is_p2p": p2p,
        }
        entries.append({**entry, **more})

    def all_call(self, group: str, seq: int, op: str = "all_reduce", **more: Any) -> None:
        for rank in self.groups[group]:
            self.call(rank, group, seq, op, **more)

    def dump(self, rank: int, version: str = "2.9") -> dict[str, Any]:
        config = {
            name: {"name": name, "desc": "default_pg" if name == "0" else "undefined", "ranks": str(self.groups[name])}
            for name in self.of(rank)
        }
        return {"version": version, "pg_config": config, "entries": self.entries[rank]}

    def write(self, folder: Path, *, form: str = "pickle", without: tuple[int, ...] = (), protocol: int = 2) -> Path:
        folder.mkdir(parents=True, exist_ok=True)
        for rank in range(self.world):
            if rank in without:
                continue
            content = self.dump(rank)
            if form == "json":
                (folder / f"nccl_trace_rank_{rank}.json").write_text(json.dumps(content, sort_keys=True))
            else:
                (folder / f"nccl_trace_rank_{rank}").write_bytes(pickle.dumps(content, protocol))
        return folder


def rounds(job: Job, count: int) -> Job:
    """Completed rounds of one tensor parallel and one data parallel operation on every rank."""
    for seq in range(1, count + 1):
        for rank in range(job.world):
            job.call(rank, job.tp_group(rank), seq, "_all_gather_base")
            job.call(rank, job.dp_group(rank), seq, "all_reduce")
    return job


def hung(*, empty: bool = False) -> Job:
    """Four ranks; the host of rank 3 issues nothing after eight rounds: 1 and 2 wait for it, 0 waits for 2."""
    job = rounds(Job(2, 2), 8)
    for rank in (0, 1):
        job.call(rank, job.tp_group(rank), 9, "_all_gather_base")
        job.call(rank, job.dp_group(rank), 9, "all_reduce", state="started")
    job.call(2, job.tp_group(2), 9, "_all_gather_base", state="started")
    if empty:
        job.entries[3].clear()
    return job
