"""Sources that name the same thing differently are joined right, whatever the order of ranks, hosts, GPUs and time zones."""

from __future__ import annotations

from pathlib import Path

import pytest
from correlate.gangs import FAILED, Gang

from aiops.config import Settings, default_cache_dir
from aiops.model.report import DISRUPTIVE, Report
from aiops.pipeline import analyze_paths

SEEDS = range(4)


def judge(folder: Path) -> Report:
    return analyze_paths([folder], Settings(cache_dir=default_cache_dir()))


@pytest.mark.parametrize("seed", SEEDS)
def test_an_xid_leads_to_the_rank_on_that_gpu(seed: int, tmp_path: Path) -> None:
    gang = Gang(seed)
    seat = gang.any_seat()
    gang.starts()
    gang.quiet_kernels()
    gang.kernel(seat.host, f"[ 9999.1] NVRM: Xid (PCI:{seat.pci}): 79, GPU has fallen off the bus.", 610)
    gang.timeouts(seat)
    culprit = judge(gang.write(tmp_path)).incidents[0].culprit
    assert (culprit.node, culprit.pci, culprit.gpu, culprit.rank) == (seat.host, seat.pci, seat.gpu, seat.rank)


@pytest.mark.parametrize("seed", SEEDS)
def test_an_index_that_shifted_after_the_loss_does_not_mislead(seed: int, tmp_path: Path) -> None:
    """The surviving GPUs are counted anew; their table names other GPUs under the old numbers."""
    gang = Gang(seed)
    seat = min(gang.seats, key=lambda s: (s.gpu, s.host))
    gang.starts()
    gang.quiet_kernels()
    gang.kernel(seat.host, f"[ 9999.1] NVRM: Xid (PCI:{seat.pci}): 79, GPU has fallen off the bus.", 610)
    left = sorted((s for s in gang.seats if s.host == seat.host and s != seat), key=lambda s: s.gpu)
    rows = [f"{FAILED:%Y/%m/%d %H:%M:%S}.000, {n}, 0000{s.pci.upper()}.0, 41, 0 %" for n, s in enumerate(left)]
    gang.add("smi.csv", "timestamp, index, pci.bus_id, temperature.gpu, utilization.gpu [%]", *rows)
    gang.timeouts(seat)
    culprit = judge(gang.write(tmp_path)).incidents[0].culprit
    assert (culprit.node, culprit.pci, culprit.rank) == (seat.host, seat.pci, seat.rank)


@pytest.mark.parametrize("seed", SEEDS)
def test_a_silent_rank_leads_to_its_host_and_its_kernel(seed: int, tmp_path: Path) -> None:
    gang = Gang(seed)
    seat = gang.any_seat()
    gang.starts()
    gang.quiet_kernels()
    gang.timeouts(seat)
    report = judge(gang.write(tmp_path))
    culprit = report.incidents[0].culprit
    assert (culprit.node, culprit.rank, culprit.gpu) == (seat.host, seat.rank, seat.gpu)
    assert not [a for a in report.incidents[0].actions if a.action in DISRUPTIVE]


@pytest.mark.parametrize("seed", SEEDS)
def test_trouble_of_another_host_is_no_reason(seed: int, tmp_path: Path) -> None:
    """One rank raises in the user's code; a GPU of a neighbour reports a remapped row, and a host that is not ours lost a GPU."""
    gang = Gang(seed)
    seat = gang.any_seat()
    gang.starts()
    gang.quiet_kernels()
    gang.kernel(gang.rng.choice(gang.hosts), "[ 9000.1] NVRM: Xid (PCI:0000:3d:00): 63, Row remap event", 900)
    gang.kernel("pine-01", "[ 9000.1] NVRM: Xid (PCI:0000:3d:00): 79, GPU has fallen off the bus.", 30)
    for line in (
        "Traceback (most recent call last):",
        '  File "/home/u/train.py", line 88, in step',
        "    loss = head(batch['labels'])",
        "KeyError: 'labels'",
    ):
        gang.job(f"[rank{seat.rank}]: {line}")
    report = judge(gang.write(tmp_path))
    first = report.incidents[0]
    assert first.failure_class.startswith("usr.") and first.culprit.rank == seat.rank
    assert not [
        a for i in report.incidents for a in i.actions if a.action in DISRUPTIVE and a.target.node in gang.hosts
    ]


@pytest.mark.parametrize("told", ["slots", "mapping", "self"])
@pytest.mark.parametrize("seed", SEEDS[:2])
def test_a_launchers_placement_joins_a_rank_to_its_gpu(seed: int, told: str, tmp_path: Path) -> None:
    """Without NCCL's lines: DeepSpeed's host file, its mapping of ranks, or a start-up line of each rank."""
    gang = Gang(seed)
    seat = gang.any_seat()
    by_host = {host: [s for s in gang.seats if s.host == host] for host in gang.hosts}
    if told == "slots":
        parts = [
            f"{host} slots={len(seats)} (ranks {seats[0].rank}-{seats[-1].rank})" for host, seats in by_host.items()
        ]
        gang.job("hostfile: " + ", ".join(parts), 3600)
    elif told == "mapping":
        ranks = {host: [s.rank for s in seats] for host, seats in by_host.items()}
        gang.job(f"[INFO] [launch.py:158:main] global_rank_mapping=defaultdict(<class 'list'>, {ranks})", 3600)
    else:
        for s in gang.rng.sample(gang.seats, len(gang.seats)):
            gang.job(f"[rank{s.rank}]: host {s.host} local_rank {s.local} device cuda:{s.local} pci {s.pci}.0", 3600)
    gang.job(f"trainer: step 1/50 loss 2.5 world_size={gang.world}", 3500)
    gang.quiet_kernels()
    gang.timeouts(seat)
    culprit = judge(gang.write(tmp_path)).incidents[0].culprit
    assert (culprit.node, culprit.rank) == (seat.host, seat.rank)
    if told == "self":
        assert culprit.pci == seat.pci


@pytest.mark.parametrize(("apart_s", "both"), [(0.4, True), (40.0, False)])
def test_two_events_closer_than_the_clocks_have_no_order(apart_s: float, both: bool, tmp_path: Path) -> None:
    """Two hosts lose a GPU each, in different ways: one of them came first only if the clocks can tell."""
    gang = Gang(1)
    early, late = gang.seats[0], gang.seats[-1]
    gang.starts()
    gang.quiet_kernels()
    gang.kernel(
        early.host, f"[ 9999.1] NVRM: Xid (PCI:{early.pci}): 119, pid=1, name=python, Timeout waiting for RPC", apart_s
    )
    gang.kernel(late.host, f"[ 9999.1] NVRM: Xid (PCI:{late.pci}): 79, GPU has fallen off the bus.")
    hypotheses = judge(gang.write(tmp_path)).incidents[0].hypotheses
    first = {h.culprit.node for h in hypotheses if any(term.term == "comes first" for term in h.terms)}
    assert first == ({early.host, late.host} if both else {early.host})
