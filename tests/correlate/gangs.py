"""A gang of ranks on hosts whose order, GPUs and clocks are shuffled: one fault, told by several sources that must be joined."""

from __future__ import annotations

import random
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path

ADDRESSES = ("1b", "3d", "4e", "5f", "9b", "af", "c3", "d8")
FAILED = datetime(2026, 6, 3, 14, 20, 0, tzinfo=UTC)


@dataclass(frozen=True)
class Seat:
    """Where a rank runs; ``gpu`` is the index that the driver gives, which is not the local rank."""

    rank: int
    host: str
    local: int
    gpu: int

    @property
    def pci(self) -> str:
        return f"0000:{ADDRESSES[self.gpu]}:00"


class Gang:
    """``hosts`` machines with ``width`` GPUs each; hosts do not sort as ranks do, nor GPUs as local ranks."""

    def __init__(self, seed: int, hosts: int = 3, width: int = 4) -> None:
        self.rng = random.Random(seed)
        names = [
            f"{word}-{self.rng.randrange(10, 99)}" for word in self.rng.sample(("oak", "fir", "yew", "bay"), hosts)
        ]
        self.seats = []
        for position, host in enumerate(names):
            gpus = self.rng.sample(range(width), width)
            self.seats += [Seat(position * width + n, host, n, gpu) for n, gpu in enumerate(gpus)]
        self.hosts = names
        self.world = hosts * width
        self.zone = timezone(timedelta(hours=self.rng.choice((-7, 0, 2, 9))))
        """Of the kernel logs, which say it in each line; the job writes UTC."""
        self.files: dict[str, list[str]] = {}

    def any_seat(self) -> Seat:
        return self.rng.choice(self.seats)

    def add(self, file: str, *lines: str) -> None:
        self.files.setdefault(file, []).extend(lines)

    def job(self, text: str, before_s: float = 0.0) -> None:
        self.add("train.log", f"{FAILED - timedelta(seconds=before_s):%Y-%m-%dT%H:%M:%S}Z {text}")

    def kernel(self, host: str, text: str, before_s: float = 0.0) -> None:
        at = (FAILED - timedelta(seconds=before_s)).astimezone(self.zone)
        self.add(f"kern-{host}.log", f"{at.isoformat(timespec='microseconds')} {host} kernel: {text}")

    def starts(self) -> None:
        """NCCL tells rank, host, process and PCI address of each rank, in any order."""
        for seat in self.rng.sample(self.seats, len(self.seats)):
            self.job(
                f"{seat.host}:{4000 + seat.local}:{5000 + seat.local} [{seat.local}] NCCL INFO ncclCommInitRank comm 0x7f rank "
                f"{seat.rank} nranks {self.world} cudaDev {seat.local} nvmlDev {seat.gpu} busId {ADDRESSES[seat.gpu]}000 "
                "commId 0x9c1 - Init START",
                3600,
            )
        for step in range(1, 20):
            self.job(f"trainer: step {step}/5000 loss {3.0 - step / 50:.4f} grad_norm 0.41", 3500 - 180 * step)

    def quiet_kernels(self) -> None:
        for host in self.hosts:
            self.kernel(host, "[ 8120.200101] usb 1-1: new high-speed USB device number 3 using xhci_hcd", 3000)

    def timeouts(self, silent: Seat) -> None:
        for seat in self.rng.sample(self.seats, len(self.seats)):
            if seat != silent:
                self.job(
                    f"[rank{seat.rank}]:[E603 14:20:00.4 ProcessGroupNCCL.cpp:616] [Rank {seat.rank}] Watchdog caught collective "
                    "operation timeout: WorkNCCL(SeqNum=9120, OpType=ALLREDUCE, NumelIn=1024, NumelOut=1024, Timeout(ms)=600000) "
                    "ran for 600012 milliseconds before timing out."
                )

    def write(self, folder: Path) -> Path:
        """Under names that say nothing, in shuffled order."""
        names = self.rng.sample(sorted(self.files), len(self.files))
        for number, name in enumerate(names):
            (folder / f"{number}.log").write_text("\n".join(self.files[name]) + "\n", encoding="utf-8")
        return folder
