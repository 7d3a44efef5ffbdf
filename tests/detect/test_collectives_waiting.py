"""Who is missing, who runs something else, and what the others wait for."""

from __future__ import annotations

from pathlib import Path

import pytest

from aiops.catalog import load_catalog
from aiops.config import Settings, default_cache_dir
from aiops.detect.collectives import detect
from aiops.ingest import open_case
from aiops.model.finding import Finding, Role

WATCHDOG = (
    "[rank{rank}]:[E801 08:10:11.{rank}95820839 ProcessGroupNCCL.cpp:616] [Rank {rank}] Watchdog caught collective operation timeout: "
    "WorkNCCL(SeqNum={seq}, OpType={op}, NumelIn=8, NumelOut=8, Timeout(ms)=600000) ran for 600012 milliseconds before timing out."
)
STATUS = (
    "[rank{rank}]:[E801 08:10:12.095820839 ProcessGroupNCCL.cpp:2268] [PG ID {pg} PG GUID {pg}({name}) Rank {rank}]  failure detected by "
    "watchdog at work sequence id: {seq} PG status: last enqueued work: {seq}, last completed work: {done}"
)
COLL = (
    "n1:{pid}:{pid} [{rank}] NCCL INFO {op}: opCount {count:x} sendbuff 0x1 recvbuff 0x2 count {size} datatype 7 op 0 root 0 "
    "comm 0xa{rank} [nranks=4] stream 0x3"
)
INIT = (
    "n1:{pid}:{pid} [{rank}] NCCL INFO ncclCommInitRank comm 0xa{rank} rank {rank} nranks 4 cudaDev {rank} nvmlDev {rank} "
    "busId {rank}000 commId 0xd39 - Init START"
)


def signs(tmp_path: Path, *lines: str) -> dict[str, Finding]:
    (tmp_path / "train.log").write_text("\n".join(lines) + "\n", encoding="utf-8")
    with open_case([tmp_path], Settings(cache_dir=default_cache_dir())) as case:
        return {finding.sign: finding for finding in detect(case, load_catalog())}


def operations(*calls: tuple[int, int, str, int]) -> list[str]:
    lines = [INIT.format(pid=500 + rank, rank=rank) for rank in range(4)]
    return lines + [
        COLL.format(pid=500 + rank, rank=rank, count=count, op=op, size=size) for rank, count, op, size in calls
    ]


def test_the_rank_with_another_operation_at_one_number_is_the_odd_one(tmp_path: Path) -> None:
    calls = [(rank, 16, "AllReduce", 128) for rank in (0, 1, 3)]
    found = signs(tmp_path, *operations(*calls, (2, 16, "AllGather", 128)))
    assert found["collective.desync"].rank == 2
    assert found["collective.desync"].fields["odd"] == "AllGather"


def test_another_size_of_the_same_operation_is_a_mismatch(tmp_path: Path) -> None:
    calls = [(rank, 16, "AllReduce", 128) for rank in (0, 1, 2)]
    found = signs(tmp_path, *operations(*calls, (3, 16, "AllReduce", 64)))
    assert found["collective.desync"].rank == 3


def test_point_to_point_calls_differ_in_healthy_runs(tmp_path: Path) -> None:
    found = signs(
        tmp_path, *operations((0, 16, "Send", 128), (1, 16, "Recv", 128), (2, 16, "Send", 8), (3, 16, "Recv", 8))
    )
    assert "collective.desync" not in found


def test_the_rank_whose_last_operation_lies_behind_is_missing(tmp_path: Path) -> None:
    calls = [(rank, count, "AllReduce", 8) for count in (1, 2, 3) for rank in range(4) if (rank, count) != (1, 3)]
    waiting = [WATCHDOG.format(rank=rank, seq=4, op="ALLREDUCE") for rank in (0, 2, 3)]
    found = signs(tmp_path, *operations(*calls), *waiting)
    assert found["collective.missing_rank"].ranks == (1,)


def test_equal_numbers_of_two_process_groups_are_no_mismatch(tmp_path: Path) -> None:
    lines = [
        WATCHDOG.format(rank=0, seq=9, op="ALLREDUCE").replace("[Rank 0]", "[PG ID 0 PG GUID 0(default_pg) Rank 0]"),
        WATCHDOG.format(rank=1, seq=9, op="ALLGATHER").replace("[Rank 1]", "[PG ID 3 PG GUID 7(mesh_tp) Rank 1]"),
    ]
    assert "collective.desync" not in signs(tmp_path, *lines)


def test_lagging_counts_only_within_one_process_group(tmp_path: Path) -> None:
    own = "[PG ID 0 PG GUID 0(default_pg) Rank {rank}]"
    lines = [
        WATCHDOG.format(rank=rank, seq=88, op="ALLREDUCE").replace(f"[Rank {rank}]", own.format(rank=rank))
        for rank in range(3)
    ]
    lines += [STATUS.format(rank=rank, pg=0, name="default_pg", seq=88, done=87) for rank in range(3)]
    lines += [STATUS.format(rank=rank, pg=5, name="mesh_tp", seq=12, done=12) for rank in range(3)]
    found = signs(tmp_path, *lines)
    assert "collective.missing_rank" not in found
    assert found["collective.all_entered"].role is Role.ROOT


@pytest.mark.parametrize(
    ("line", "ranks"),
    [
        ("[rank0]: RuntimeError: Ranks 2, 5 failed to pass monitoredBarrier in 300000 ms", (2, 5)),
        ("\t     [3] finished collective #119, but didn't join collective #120 (count from 1)", (3,)),
        (
            "[rank0]: To our best knowledge, ranks [1, 4] are the lagging ranks that caused this timeout. They never joined",
            (1, 4),
        ),
    ],
)
def test_the_process_group_names_the_missing_ranks(tmp_path: Path, line: str, ranks: tuple[int, ...]) -> None:
    found = signs(tmp_path, "2026-08-01 08:00:00,000 INFO [rank 0] step=1 loss=2.1", line)
    assert found["collective.missing_rank"].ranks == ranks


def test_a_rank_that_left_the_loop_is_named_only_if_it_is_alone(tmp_path: Path) -> None:
    steps = [f"2026-08-01 08:00:0{rank},000 INFO [rank {rank}] step=40 loss=2.1" for rank in range(4)]
    waiting = [WATCHDOG.format(rank=rank, seq=4, op="ALLREDUCE") for rank in (0, 1, 3)]
    left = "2026-08-01 08:00:05,000 INFO [rank 2] epoch 0 done, starting evaluation"
    assert signs(tmp_path, *steps, left, *waiting)["collective.left_loop"].rank == 2
    everybody = [left.replace("rank 2", f"rank {rank}") for rank in range(4)]
    assert "collective.left_loop" not in signs(tmp_path, *steps, *everybody, *waiting)


def test_rank_0_is_busy_only_while_the_others_wait_for_it(tmp_path: Path) -> None:
    busy = "2026-08-01 08:09:00,000 INFO [rank 0] Map (num_proc=16):  41%|####1     | 4100000/10000000"
    waiting = [WATCHDOG.format(rank=rank, seq=1, op="BARRIER") for rank in (1, 2, 3)]
    assert signs(tmp_path, busy, *waiting)["collective.rank0_busy"].rank == 0
    trained = "2026-08-01 08:09:50,000 INFO [rank 0] step=1 loss=2.1"
    assert "collective.rank0_busy" not in signs(tmp_path, busy, trained, *waiting)
    assert "collective.rank0_busy" not in signs(tmp_path, busy, "2026-08-01 08:09:50,000 INFO [rank 1] ready")


def test_horovod_names_each_missing_rank_on_a_line(tmp_path: Path) -> None:
    stall = (
        "[2026-08-01 08:10:11.412119: W horovod/common/stall_inspector.cc:107] One or more tensors were submitted to be "
        "reduced, gathered or broadcasted by subset of ranks"
    )
    names = "[DistributedOptimizer_Allreduce/cond/HorovodAllreduce_grads_0]"
    told = ["[1,0]<stderr>:" + line for line in (stall, "Missing ranks:", f"5: {names}", f"6!: {names}")]
    assert signs(tmp_path, *told, *told)["collective.missing_rank"].ranks == (5, 6)
