"""Who is at fault for a collective that does not complete, from flight-recorder dumps."""

from __future__ import annotations

import json
import os
import random
import shutil
from pathlib import Path

import pytest
from flight_dumps import Job, hung, rounds
from hypothesis import given, settings
from hypothesis import strategies as st

from aiops.config import Settings
from aiops.ingest import open_case
from aiops.model.report import Incident, Report
from aiops.pipeline import analyze

SHARED = (
    Path(os.environ.get("AIOPS_SHARED", Path(__file__).resolve().parents[3] / "shared")) / "data" / "flight_recorder"
)
SETS = {"gpu_error_1st": [12, 14], "lock_gil_2nd": [10, 15]}


def judge(*paths: Path) -> Report:
    settings_ = Settings.from_environment()
    with open_case(paths, settings_) as case:
        return analyze(case, settings_)


def incident(*paths: Path) -> Incident:
    return judge(*paths).incidents[0]


def ranks(found: Incident) -> list[int | None]:
    return [culprit.rank for culprit in found.culprits]


def text(found: Incident, sign: str) -> str:
    return next(item.text for item in found.findings if item.sign == sign)


@pytest.mark.skipif(not SHARED.is_dir(), reason=f"the shared dumps are not here: {SHARED}")
class TestRealDumps:
    @pytest.mark.parametrize("name", sorted(SETS))
    def test_exactly_the_injected_ranks(self, aiops, name: str) -> None:
        first = (SHARED / name / "fault_injection.log").read_text().splitlines()[0]
        injected = json.loads(first.partition(":")[2])
        assert injected == SETS[name]
        done = aiops("analyze", SHARED / name, "--format", "json")
        assert done.returncode == 10, done.stderr.decode()
        found = json.loads(done.stdout)["incidents"][0]
        assert found["failure_class"] == "nccl.missing_rank"
        assert [culprit["rank"] for culprit in found["culprits"]] == injected

    @pytest.mark.parametrize("name", sorted(SETS))
    def test_without_the_injector_s_log_and_with_other_names(self, tmp_path: Path, name: str) -> None:
        files = sorted((SHARED / name).glob("_dump_*"))
        random.Random(name).shuffle(files)
        for number, path in enumerate(files):
            shutil.copyfile(path, tmp_path / f"{number:03d}.dat")
        assert ranks(incident(tmp_path)) == SETS[name]

    def test_a_guilty_rank_without_dump(self, tmp_path: Path) -> None:
        for path in (SHARED / "lock_gil_2nd").glob("_dump_*"):
            if path.name != "_dump_10":
                shutil.copyfile(path, tmp_path / path.name)
        assert ranks(incident(tmp_path)) == [10, 15]

    def test_its_evidence_is_a_record_of_the_dump(self) -> None:
        found = incident(SHARED / "gpu_error_1st")
        quoted = [item for item in found.evidence if item.locator.startswith("record ")]
        assert len(quoted) >= 3
        for item in quoted:
            assert item.offset is not None
            data = (SHARED / "gpu_error_1st" / item.source).read_bytes()
            assert data[item.offset : item.offset + 1] == b"}"
            assert f"record {item.locator.split()[1].rstrip(',')}:" in item.text


@pytest.mark.parametrize("form", ["pickle", "json"])
def test_waiters_of_waiters_are_not_blamed(tmp_path: Path, form: str) -> None:
    found = incident(hung().write(tmp_path / "d", form=form))
    assert found.failure_class == "nccl.missing_rank"
    assert ranks(found) == [3]
    said = text(found, "collective.missing_rank")
    assert "rank 3 never issued it" in said
    assert "train_step (/proj/train.py:" in said
    assert not found.hardware
    assert not {a.action for a in found.actions} & {
        "drain_node",
        "cordon_node",
        "reset_gpu",
        "reboot_node",
        "rma",
        "swap_node",
    }


def test_an_empty_dump_is_the_strongest_sign(tmp_path: Path) -> None:
    found = incident(hung(empty=True).write(tmp_path / "d"))
    assert ranks(found) == [3]
    assert "recorded no operation at all" in text(found, "collective.missing_rank")


def test_a_rank_without_dump(tmp_path: Path) -> None:
    found = incident(hung().write(tmp_path / "d", without=(3,)))
    assert ranks(found) == [3]
    assert "left no dump" in text(found, "collective.missing_rank")


def test_dumps_of_few_ranks_blame_nobody_for_not_being_collected(tmp_path: Path) -> None:
    job = rounds(Job(1, 8, plain=True), 0)
    for rank in range(8):
        job.call(rank, "0", 1, state="scheduled")
    report = judge(job.write(tmp_path / "d", without=(2, 3, 4, 5, 6, 7)))
    assert report.verdict == "inconclusive"
    assert report.incidents[0].failure_class == "nccl.timeout_unattributed"
    assert ranks(report.incidents[0]) == [None]


def test_a_rank_that_complains_itself_is_not_blamed_for_a_lost_dump(tmp_path: Path) -> None:
    job = rounds(Job(1, 4), 2)
    job.all_call("0", 9, state="scheduled")
    folder = job.write(tmp_path / "d", without=(2,))
    (tmp_path / "train.log").write_text(
        "[rank2]:[E801 08:10:11.395820839 ProcessGroupNCCL.cpp:616] [Rank 2] Watchdog caught collective operation timeout: "
        "WorkNCCL(SeqNum=9, OpType=ALLREDUCE, NumelIn=8, NumelOut=8, Timeout(ms)=600000) ran for 600012 milliseconds before timing out.\n"
    )
    assert incident(folder, tmp_path / "train.log").failure_class == "nccl.timeout_unattributed"


def test_the_device_that_stopped_first_although_its_host_went_on(tmp_path: Path) -> None:
    job = rounds(Job(1, 4), 6)
    for rank in range(4):
        done = "scheduled" if rank == 2 else "completed"
        job.call(rank, "0", 7, state=done)
        job.call(rank, "0", 8, state="scheduled")
    found = incident(job.write(tmp_path / "d"))
    assert ranks(found) == [2]
    assert "stopped completing" in text(found, "collective.missing_rank")


def test_a_receiver_of_a_broadcast_may_lag_because_it_waits_elsewhere(tmp_path: Path) -> None:
    """Rank 0 has sent its part and goes on; rank 1 has not received it because its GPU waits for rank 3."""
    job = rounds(Job(2, 2), 4)
    job.call(0, "1", 5, "broadcast")
    job.call(0, "1", 6, "all_reduce", state="started")
    job.call(1, job.dp_group(1), 5, state="started")
    job.call(1, "1", 5, "broadcast", state="scheduled")
    job.call(1, "1", 6, "all_reduce", state="scheduled")
    assert ranks(incident(job.write(tmp_path / "d"))) == [3]


def test_who_is_inside_and_who_has_not_begun(tmp_path: Path) -> None:
    job = rounds(Job(1, 4), 3)
    for rank in range(4):
        job.call(rank, "0", 4, state="scheduled" if rank == 1 else "started")
    found = incident(job.write(tmp_path / "d"))
    assert ranks(found) == [1]
    assert "has not begun it" in text(found, "collective.missing_rank")


def test_all_inside_is_undecided(tmp_path: Path) -> None:
    job = rounds(Job(2, 2), 3)
    job.all_call("0", 4, state="started", retired=True)
    report = judge(job.write(tmp_path / "d"))
    assert report.verdict == "inconclusive"
    assert report.incidents[0].failure_class == "nccl.timeout_unattributed"
    assert "on 4 of them the watchdog gave up" in text(report.incidents[0], "collective.waiting")


def test_a_pipeline_that_waits_for_one_end(tmp_path: Path) -> None:
    job = Job(1, 4, plain=True)
    for rank in range(3):
        job.call(rank, "0", 1, f"send {rank}->{rank + 1}")
    job.call(0, "0", 2, "recv 0<-1", state="scheduled")
    job.call(1, "0", 2, "recv 1<-2", state="scheduled")
    job.call(3, "0", 1, "recv 3<-2")
    job.call(3, "0", 2, "recv 3<-2", state="scheduled")
    found = incident(job.write(tmp_path / "d"))
    assert ranks(found) == [2]


def test_only_members_of_a_group_can_be_missing_from_it(tmp_path: Path) -> None:
    """Ranks 2 and 3 idle outside of the group that stalls; equal numbers of other groups mean nothing."""
    job = rounds(Job(2, 2), 3)
    job.call(0, "1", 4, state="started")
    for seq in range(4, 12):
        job.call(2, "2", seq)
        job.call(3, "2", seq)
    assert ranks(incident(job.write(tmp_path / "d"))) == [1]


def test_a_ring_that_has_turned_over_is_no_gap(tmp_path: Path) -> None:
    job = rounds(Job(2, 2), 40)
    for rank in range(4):
        if rank != 2:
            job.call(rank, job.dp_group(rank) if rank == 0 else job.tp_group(rank), 41, "all_reduce", state="started")
    for rank in range(4):
        job.entries[rank] = job.entries[rank][-(4 + 7 * rank) :]
    assert ranks(incident(job.write(tmp_path / "d"))) == [2]


def test_a_snapshot_of_a_job_that_runs_is_no_incident(tmp_path: Path) -> None:
    folder = hung().write(tmp_path / "d")
    lines = [f"2026-08-01T08:{minute:02d}:00Z step {minute} | loss 2.31 | lr 1e-4" for minute in range(20)]
    (tmp_path / "train.log").write_text("\n".join(lines) + "\n")
    assert judge(folder, tmp_path / "train.log").verdict == "no_incident"


class TestMismatch:
    def job(self) -> Job:
        return rounds(Job(2, 2), 5)

    def check(self, job: Job, folder: Path, guilty: list[int], *words: str) -> None:
        found = incident(job.write(folder))
        assert found.failure_class == "nccl.desync"
        assert found.culprit.kind == "user_code"
        assert ranks(found) == guilty
        for word in words:
            assert word in text(found, "collective.desync")

    def test_operation(self, tmp_path: Path) -> None:
        job = self.job()
        for rank in range(4):
            job.call(rank, "0", 6, "broadcast" if rank == 1 else "all_reduce", state="started")
        self.check(
            job, tmp_path, [1], "rank 1 runs broadcast while others run all_reduce", "train_step (/proj/train.py:"
        )

    def test_size(self, tmp_path: Path) -> None:
        job = self.job()
        for rank in range(4):
            job.call(rank, "0", 6, size=1000 if rank == 2 else 1024, state="started")
        self.check(job, tmp_path, [2], "all_reduce of 1000 elements", "all_reduce of 1024 elements")

    def test_type(self, tmp_path: Path) -> None:
        job = self.job()
        for rank in range(4):
            job.call(rank, "0", 6, dtype="Float" if rank == 0 else "BFloat16", state="started")
        self.check(job, tmp_path, [0], "Float", "BFloat16")

    def test_order(self, tmp_path: Path) -> None:
        job = self.job()
        for rank in range(4):
            one, two = ("all_reduce", "reduce_scatter") if rank != 3 else ("reduce_scatter", "all_reduce")
            job.call(rank, "0", 6, one, state="started")
            job.call(rank, "0", 7, two, state="scheduled")
        self.check(job, tmp_path, [3], "in another order than the others")

    def test_several(self, tmp_path: Path) -> None:
        job = rounds(Job(1, 8), 3)
        for rank in range(8):
            job.call(rank, "0", 6, "barrier" if rank in (2, 5) else "all_reduce", state="started")
        self.check(job, tmp_path, [2, 5], "ranks 2, 5 run barrier")

    def test_two_groups_in_different_orders(self, tmp_path: Path) -> None:
        """0 calls the tensor parallel group first, 1 calls the data parallel group first, and so on around."""
        job = self.job()
        for rank, group in ((0, "1"), (1, "4"), (3, "2"), (2, "3")):
            job.call(rank, group, 6, state="started")
        found = incident(job.write(tmp_path))
        assert found.failure_class == "nccl.desync"
        assert "in a circle" in text(found, "collective.desync")
        assert found.culprit.rank is None

    def test_uneven_parts_are_legal(self, tmp_path: Path) -> None:
        job = self.job()
        for rank in range(4):
            job.call(rank, "0", 6, "all_to_all", size=100 + rank, state="started")
        assert incident(job.write(tmp_path)).failure_class == "nccl.timeout_unattributed"

    def test_what_every_rank_completed_is_past(self, tmp_path: Path) -> None:
        job = self.job()
        for rank in range(4):
            job.call(rank, "0", 6, size=1000 + rank)
            job.call(rank, "0", 7, state="started")
        assert incident(job.write(tmp_path)).failure_class == "nccl.timeout_unattributed"


@given(st.integers(1, 4), st.integers(2, 4), st.data())
@settings(deadline=None, max_examples=25)
def test_one_host_that_hangs_is_found(
    tmp_path_factory: pytest.TempPathFactory, tp: int, dp: int, data: st.DataObject
) -> None:
    """Every rank calls its groups in turn and blocks where a member is not there: only one hangs by itself."""
    if tp * dp < 3:
        dp = 3
    job = rounds(Job(tp, dp), 3)
    guilty = data.draw(st.integers(0, job.world - 1))
    stops = data.draw(st.integers(0, 3))
    issued = {rank: 0 for rank in range(job.world)}
    plan = {rank: [job.tp_group(rank), job.dp_group(rank)] * 2 for rank in range(job.world)}
    while True:
        moved = False
        for rank in range(job.world):
            at = issued[rank]
            if at >= 4 or (rank == guilty and at >= stops):
                continue
            # a rank waits for its last operation before it issues the next
            if at and any(issued[m] < at for m in job.groups[plan[rank][at - 1]]):
                continue
            issued[rank] += 1
            moved = True
        if not moved:
            break
    for rank in range(job.world):
        for at in range(issued[rank]):
            group = plan[rank][at]
            done = all(issued[m] > at for m in job.groups[group])
            job.call(rank, group, 4 + at // 2, state="completed" if done else "started")
    folder = job.write(tmp_path_factory.mktemp("d"))
    report = judge(folder)
    assert [ranks(found) for found in report.incidents] == [[guilty]]


XID = (
    "2026-08-01T08:00:00.{ms}+00:00 n{node} kernel: NVRM: Xid (PCI:0000:{bus:02x}:00): 79, pid=77, name=python, "
    "GPU has fallen off the bus.\n"
)
ORDINARY = "2026-08-01T07:59:5{n}.000000+00:00 n{node} kernel: audit: backlog limit exceeded by unit {n}\n"
INIT = (
    "n{node}:{pid}:{pid} [{dev}] NCCL INFO ncclCommInitRank comm 0xa{rank} rank {rank} nranks 4 cudaDev {dev} nvmlDev {dev} "
    "busId {bus:x}000 commId 0xd39 - Init COMPLETE\n"
)


def logs(folder: Path, *, xid: bool) -> None:
    """Ranks 0 and 1 on n1, 2 and 3 on n2, one GPU each."""
    places = [(rank, 1 + rank // 2, rank % 2, 0x3B + 0x20 * (rank % 2)) for rank in range(4)]
    (folder / "train.log").write_text(
        "".join(INIT.format(rank=r, node=n, dev=d, bus=b, pid=500 + r) for r, n, d, b in places)
    )
    for node in (1, 2):
        lines = [ORDINARY.format(n=n, node=node) for n in range(8)]
        if xid and node == 2:
            lines.append(XID.format(node=2, bus=0x5B, ms="001000"))
        (folder / f"kern-{node}.log").write_text("".join(lines))


def test_a_silent_rank_whose_gpu_died_is_a_matter_of_hardware(tmp_path: Path) -> None:
    hung().write(tmp_path / "dumps")
    logs(tmp_path, xid=True)
    found = incident(tmp_path)
    assert found.failure_class == "gpu.off_bus"
    culprit = found.culprit
    assert (culprit.node, culprit.gpu, culprit.rank, culprit.pci) == ("n2", 1, 3, "0000:5b:00")
    assert found.requeue.exclude == ["n2"]
    assert {"collective.missing_rank", "collective.waiting"} <= {item.sign for item in found.findings}


def test_a_silent_rank_without_a_sign_of_hardware_keeps_its_node(tmp_path: Path) -> None:
    hung().write(tmp_path / "dumps")
    logs(tmp_path, xid=False)
    found = incident(tmp_path)
    assert found.failure_class == "nccl.missing_rank"
    assert (found.culprit.node, found.culprit.gpu, found.culprit.rank) == ("n2", 1, 3)
    assert not found.hardware
    assert found.requeue.exclude == []
