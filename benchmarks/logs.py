"""Seeded log generator for the benchmarks: ordinary lines of training jobs and kernels, and a share of lines that rules hit."""

from __future__ import annotations

import random
from pathlib import Path

from aiops.catalog import load_catalog


def ordinary(rng: random.Random, step: int, rank: int) -> str:
    """One line as healthy runs print them by the thousand; about one in eight carries a loss."""
    kind = rng.randrange(16)
    clock = f"{step // 3600 % 24:02d}:{step // 60 % 60:02d}:{step % 60:02d}"
    if kind < 2:
        return (
            f"2026-08-01 {clock},{rng.randrange(1000):03d} INFO [rank {rank}] trainer.py:318 step={step} loss={2 + rng.random():.4f} "
            f"lr=2.00e-04 step_time={1.4 + rng.random() / 10:.3f}s data_time=0.014s"
        )
    if kind < 6:
        return (
            f"gx-n{rank // 8}:{7000 + rank}:{7000 + rank} [{rank % 8}] NCCL INFO Channel {rng.randrange(32):02d}/0 : {rank}[{rank % 8}] -> "
            f"{rank + 1}[{rank % 8}] via P2P/CUMEM/read"
        )
    if kind < 10:
        return (
            f"2026-08-01 {clock},{rng.randrange(1000):03d} DEBUG [rank {rank}] loader.py:88 fetched shard {rng.randrange(9999):05d} "
            f"({rng.randrange(4096)} records, {rng.random():.3f} s), queue {rng.randrange(64)}"
        )
    if kind < 13:
        return (
            f"2026-08-01 {clock},{rng.randrange(1000):03d} INFO [rank {rank}] memory.py:41 allocated {rng.random() * 70:.2f} GiB, reserved "
            f"{rng.random() * 75:.2f} GiB, peak {rng.random() * 75:.2f} GiB"
        )
    if kind < 15:
        return f"Aug  1 {clock} gx-n{rank // 8} systemd[1]: Started Session {rng.randrange(99999)} of User svc-mon."
    return (
        f"Aug  1 {clock} gx-n{rank // 8} kernel: [{step}.{rng.randrange(999999):06d}] cni0: port {rng.randrange(99)}"
        f"(veth{rng.randrange(16**6):06x}) entered blocking state"
    )


def write_log(path: Path, size: int, *, errors: float, seed: int, rank: int = 0) -> None:
    """Write about ``size`` bytes; a share ``errors`` of the lines are examples of the catalog's signals."""
    rng = random.Random(seed)
    examples = sorted(
        {e for s in load_catalog().signals if s.role.value != "context" for e in s.examples if "\n" not in e}
    )
    written, step = 0, 0
    with path.open("w", encoding="utf-8") as out:
        while written < size:
            block = []
            for _ in range(2000):
                step += rng.random() < 0.05
                if rng.random() < errors:
                    clock = f"2026-08-01 {step // 3600 % 24:02d}:{step // 60 % 60:02d}:{step % 60:02d},000"
                    block.append(f"{clock} ERROR [rank {rank}] {rng.choice(examples)}")
                else:
                    block.append(ordinary(rng, step, rank))
            text = "\n".join(block) + "\n"
            written += len(text)
            out.write(text)
