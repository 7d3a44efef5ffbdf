"""Why jobs wait and loop, on trimmed output of Slurm 22.05; `test_slurm_real` makes the same faults on a cluster."""

from __future__ import annotations

from pathlib import Path

import pytest
from detect.scheduler_case import find, load, one

from aiops.model import Role
from aiops.pipeline import analyze_paths
from aiops.recommend.naming import named_for

DOWN = "Nodes required for job are DOWN, DRAINED or reserved for jobs in higher priority partitions"


def job(reason: str, *, partition: str = "frag", gpus: int = 6, state: str = "PENDING") -> str:
    return (
        "JobId=15 JobName=moe\n   UserId=ana(1) GroupId=root(0) MCS_label=N/A\n"
        "   Priority=1 Nice=0 Account=research QOS=normal\n"
        f"   JobState={state} Reason={reason.replace(' ', '_')} Dependency=(null)\n"
        "   Requeue=1 Restarts=0 BatchFlag=1 Reboot=0 ExitCode=0:0\n   StartTime=Unknown EndTime=Unknown\n"
        f"   Partition={partition} AllocNode:Sid=localhost:31502\n   ReqNodeList=(null) ExcNodeList=(null)\n"
        f"   NodeList=\n   NumNodes=1 NumCPUs=1 NumTasks=1\n   TRES=cpu=1,node=1,billing=1,gres/gpu={gpus}\n"
        f"   TresPerNode=gres:gpu:{gpus}\n"
    )


def node(name: str, used: int, *, partition: str = "frag", state: str = "MIXED", reason: str | None = None) -> str:
    return (
        f"NodeName={name} Arch=x86_64 CoresPerSocket=16 \n   CPUAlloc=1 CPUEfctv=32 CPUTot=32 CPULoad=12.52\n"
        f"   Gres=gpu:h100:8\n   State={state} ThreadsPerCore=1 TmpDisk=0 Weight=1 Owner=N/A MCS_label=N/A\n"
        f"   Partitions={partition} \n   CfgTRES=cpu=32,mem=62.50G,billing=32,gres/gpu=8\n"
        f"   AllocTRES={f'cpu=1,mem=100M,gres/gpu={used}' if used else ''}\n"
        + (f"   Reason={reason} [root@2026-11-29T23:56:45]\n" if reason else "")
        + "\n"
    )


def test_gpus_that_are_free_in_the_wrong_places(tmp_path: Path) -> None:
    found = one(load(tmp_path, job("Resources"), node("n07", 5) + node("n08", 5)), "sched.fragmentation")
    assert (found.job, found.role, found.fields["free"]) == ("15", Role.ROOT, {"n07": 3, "n08": 3})
    assert "6 GPUs are free on 2 nodes, at most 3 on one" in found.text
    assert [(ref.line, ref.text) for ref in found.evidence if "AllocTRES" in ref.text] == [
        (7, "AllocTRES=cpu=1,mem=100M,gres/gpu=5"),
        (15, "AllocTRES=cpu=1,mem=100M,gres/gpu=5"),
    ]


@pytest.mark.parametrize(
    "nodes",
    [
        node("n07", 5) + node("n08", 6),  # too few in all
        node("n07", 5) + node("n08", 0),  # one fits: another job is before it
        node("n07", 5) + node("n08", 5, state="MIXED+DRAIN", reason="psu swap"),  # not to be had
        node("n07", 5, partition="other") + node("n08", 5, partition="other"),
        node("n07", 5).replace("AllocTRES", "Other") + node("n08", 5).replace("AllocTRES", "Other"),
    ],
)
def test_what_is_no_fragmentation(tmp_path: Path, nodes: str) -> None:
    assert "sched.fragmentation" not in find(load(tmp_path, job("Resources"), nodes))


@pytest.mark.parametrize("reason", [DOWN, "ReqNodeNotAvail", "ReqNodeNotAvail, UnavailableNodes:n[11-12]"])
def test_nodes_that_are_out_are_named_with_their_reasons(tmp_path: Path, reason: str) -> None:
    nodes = node("n12", 0, partition="drain", state="IDLE+DRAIN", reason="NHC: check_ps") + node("n01", 0)
    found = one(load(tmp_path, job(reason, partition="drain"), nodes), "sched.unschedulable")
    assert (found.job, found.nodes, found.fields["why"]) == ("15", ("n12",), "drained")
    assert "n12 (NHC: check_ps)" in found.text


def test_resources_alone_mean_nodes_that_are_out_if_too_few_others_are_there(tmp_path: Path) -> None:
    out = node("n12", 0, partition="drain", state="IDLE+DRAIN", reason="NHC: check_ps")
    waits = job("Resources", partition="drain")
    found = one(load(tmp_path, waits, out + node("n01", 0)), "sched.unschedulable")
    assert (found.nodes, found.job) == (("n12",), "15")
    for number, nodes in enumerate((out, out + node("n13", 8, partition="drain"))):
        (tmp_path / str(number)).mkdir()
        assert "sched.unschedulable" not in find(load(tmp_path / str(number), waits, nodes))


def test_a_node_that_lost_gpus_is_why_a_job_waits_for_it(tmp_path: Path) -> None:
    table = (
        "NODELIST   NODES PARTITION       STATE CPUS    S:C:T MEMORY TMP_DISK WEIGHT AVAIL_FE REASON              \n"
        "n11            1      gres       inval 32     2:16:1  64000        0      1   (null) gres/gpu count repor\n"
    )
    found = one(load(tmp_path, job(DOWN, partition="gres"), table), "sched.gres_mismatch")
    assert (found.node, found.job, found.role) == ("n11", "15", Role.ROOT)


RESERVATION = (
    "ReservationName=maint_0801 StartTime=2026-11-30T00:26:32 EndTime=2026-11-30T02:26:32 Duration=02:00:00\n"
    "   Nodes=n[07-09] NodeCnt=3 CoreCnt=96 Features=(null) PartitionName=(null) Flags={flags},SPEC_NODES\n"
    "   TRES=cpu=96\n   Users=root Groups=(null) Accounts=(null) Licenses=(null) State=INACTIVE BurstBuffer=(null)\n"
)


def test_a_reservation_explains_a_wait_that_accounting_does_not(tmp_path: Path) -> None:
    files = (job("ReqNodeNotAvail"), node("n07", 0, state="IDLE+PLANNED"), RESERVATION.format(flags="MAINT"))
    found = one(load(tmp_path, *files), "sched.maintenance")
    assert (found.job, found.role, found.nodes) == ("15", Role.ROOT, ("n07", "n08", "n09"))
    assert found.evidence[0].line == 1 and "ReservationName=maint_0801" in found.evidence[0].text


def test_reservations_that_explain_nothing(tmp_path: Path) -> None:
    case = load(tmp_path, job("Resources"), node("n07", 0), RESERVATION.format(flags="MAINT"))
    assert find(case)["sched.maintenance"][0].role is Role.CONTEXT
    (tmp_path / "course").mkdir()
    assert "sched.maintenance" not in find(load(tmp_path / "course", RESERVATION.format(flags="IGNORE_JOBS")))


def test_a_request_that_no_node_can_meet(tmp_path: Path) -> None:
    found = one(load(tmp_path, job("BadConstraints", gpus=16, state="FAILED")), "sched.unschedulable")
    assert (found.fields["why"], found.job) == ("selector", "15") and "16 GPUs" in found.text


def attempts(count: int, codes: str = "75:0", last: str = "24|PENDING|0:0|Unknown|Unknown|None assigned\n") -> str:
    rows = "".join(
        f"24|REQUEUED|{codes}|2026-11-29T23:{50 + n}:01|2026-11-29T23:{50 + n}:02|n01\n" for n in range(count)
    )
    return "JobID|State|ExitCode|Start|End|NodeList\n" + rows + last


def test_equal_ends_of_one_job_are_a_loop(tmp_path: Path) -> None:
    found = one(load(tmp_path, attempts(3)), "sched.requeue_loop")
    assert (found.job, found.fields["attempts"], found.fields["exit_code"]) == ("24", 3, 75)


@pytest.mark.parametrize(
    "table",
    [
        attempts(2),
        attempts(3, codes="0:0"),
        attempts(3, last="24|COMPLETED|0:0|2026-11-30T00:10:00|2026-11-30T00:20:00|n01\n"),
    ],
)
def test_what_is_no_loop(tmp_path: Path, table: str) -> None:
    assert "sched.requeue_loop" not in find(load(tmp_path, table))


def test_a_cut_off_column_of_squeue(tmp_path: Path) -> None:
    table = (
        "   JOBID PARTITION         NAME     USER ST       TIME NODES TRES_PER_NOD NODELIST(REASON)\n"
        "      17      frag    scattered   nobody PD       0:00     1   gres:gpu:6 (Resources)\n"
    )
    (job,) = load(tmp_path, table).jobs
    assert (job.fields["gpus_per_node"], job.reason) == (6, "Resources")


NODE_JSON = (
    '{"meta": {"Slurm": {"release": "22.05.8"}}, "nodes": [{"name": "n10", "state": "idle", "state_flags": ["DRAIN"], '
    '"partitions": ["prolog"], "tres": "cpu=32,gres/gpu=8", "tres_used": "", "boot_time": 1795991979, '
    '"reason": "Prolog error", "reason_changed_at": 1795996593, "slurmd_start_time": 1795996569, "cores": 16}]}'
)
LOG = (
    "[2026-11-29T23:56:09.363] Node configuration differs from hardware: CPUs=32:2(hw) Boards=1:1(hw)\n"
    "[2026-11-29T23:56:09.383] slurmd version 22.05.8 started\n"
    "[2026-11-29T23:56:33.325] error: prolog failed: rc:1 output:prolog: /scratch is no mount point\n"
    "[2026-11-29T23:56:33.325] error: [job 13] prolog failed status=1:0\n"
)


def test_queue_and_nodes_as_json_are_not_taken_for_an_inventory_of_racks(tmp_path: Path) -> None:
    (tmp_path / "sinfo.json").write_text(NODE_JSON)
    (tmp_path / "slurmd.log").write_text(LOG)
    (tmp_path / "sacct.txt").write_text(
        "JobID|State|ExitCode|Start|End|NodeList\n"
        "13|REQUEUED|0:0|2026-11-29T23:56:33|2026-11-29T23:56:33|n10\n"
        "13|PENDING|0:0|Unknown|Unknown|None assigned\n"
    )
    report = analyze_paths([tmp_path])
    assert {source.name: source.kind for source in report.coverage.sources} == {
        "sinfo.json": "slurm",
        "sacct.txt": "slurm",
        "slurmd.log": "scheduler",
    }
    (incident,) = report.incidents
    assert (incident.culprit.node, incident.requeue.verdict, incident.requeue.exclude) == (
        "n10",
        "exclude_nodes",
        ["n10"],
    )


CONTROLLER = (
    "[2026-11-29T23:56:09.400] error: Setting node n11 state to INVAL with reason:gres/gpu count reported lower than "
    "configured (4 < 8)\n"
    "[2026-11-29T23:56:33.279] sched: Allocate JobId=8 NodeList=n06 #CPUs=1 Partition=shared\n"
    "[2026-11-29T23:56:45.855] preempted JobId=8 has been requeued to reclaim resources for JobId=14\n"
    "[2026-11-29T23:56:45.922] _slurm_rpc_submit_batch_job: Requested node configuration is not available\n"
    "[2026-11-29T23:57:09.406] Time limit exhausted for JobId=3\n"
    "[2026-11-29T23:57:13.419] Killing JobId=7 on failed node n04\n"
)


@pytest.mark.parametrize(
    ("job", "state", "node", "failure"),
    [
        ("8", "PREEMPTED", "n06", "sch.preempted"),
        ("3", "TIMEOUT", "n01", "usr.walltime"),
        ("7", "NODE_FAIL", "n04", "unk.suspect"),
        ("5", "COMPLETED", "n01", None),
    ],
)
def test_the_controllers_log_speaks_of_everybodys_jobs(
    tmp_path: Path, job: str, state: str, node: str, failure: str | None
) -> None:
    (tmp_path / "slurmctld.log").write_text(CONTROLLER)
    (tmp_path / "sacct.txt").write_text(
        f"JobID|State|ExitCode|Start|End|NodeList\n{job}|{state}|0:0|2026-11-29T23:56:33|2026-11-29T23:57:13|{node}\n"
    )
    report = analyze_paths([tmp_path])
    assert [incident.failure_class for incident in report.incidents] == ([failure] if failure else [])
    assert failure != "sch.preempted" or "preempted by job 14" in report.model_dump_json()


def test_a_machine_that_slurm_bridge_knows_by_another_name(tmp_path: Path) -> None:
    labels = {"slinky.slurm.net/slurm-nodename": "slinky-3"}
    node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "ip-10-0-0-7", "labels": labels}}
    case = load(tmp_path, node)
    assert named_for(case, "slurm", ["ip-10-0-0-7", "n1"]) == ["slinky-3", "n1"]
    assert named_for(case, "kubernetes", ["ip-10-0-0-7"]) == ["ip-10-0-0-7"]
    labels["slinky.slurm.net/slurm-nodename"] = "n1; scontrol reboot ALL"
    (tmp_path / "hostile").mkdir()
    assert named_for(load(tmp_path / "hostile", node), "slurm", ["ip-10-0-0-7"]) == ["ip-10-0-0-7"]
