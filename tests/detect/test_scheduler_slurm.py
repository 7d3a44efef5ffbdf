"""What Slurm says about jobs and nodes, and which of it can be a cause."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from detect.scheduler_case import find, load, one

from aiops.model import Finding, Role

HEAD = "JobID|JobName|User|Account|QOS|Partition|State|ExitCode|Submit|Start|End|Elapsed|Timelimit|AllocTRES|NodeList\n"


def row(
    job: str,
    state: str,
    code: str = "0:0",
    nodes: str = "g[01-02]",
    *,
    start: str = "2026-08-01T01:00:00",
    end: str = "2026-08-01T02:00:00",
    name: str = "moe",
    limit: str = "12:00:00",
) -> str:
    return (
        f"{job}|{name}|ana|vision|gold|train|{state}|{code}|2026-08-01T00:50:00|{start}|{end}|01:00:00|{limit}"
        f"|gres/gpu=16,node=2|{nodes}\n"
    )


def sacct(*rows: str) -> str:
    return HEAD + "".join(rows)


SINFO_R = "REASON               USER      TIMESTAMP           NODELIST\n"


@pytest.mark.parametrize(
    ("state", "code", "sign", "role"),
    [
        ("TIMEOUT", "0:0", "sched.walltime", Role.ROOT),
        ("PREEMPTED", "0:0", "sched.preempted", Role.ROOT),
        ("OUT_OF_MEMORY", "0:125", "sched.oom_killed", Role.ROOT),
        ("NODE_FAIL", "0:0", "sched.node_fail", Role.ROOT),
        ("DEADLINE", "0:0", "sched.deadline", Role.ROOT),
        ("CANCELLED by 1001", "0:15", "sched.cancelled", Role.ROOT),
        ("FAILED", "1:0", "sched.job_failed", Role.CONTEXT),
        ("COMPLETED", "0:0", "sched.job_completed", Role.CONTEXT),
    ],
)
def test_outcome(tmp_path: Path, state: str, code: str, sign: str, role: Role) -> None:
    case = load(tmp_path, sacct(row("81", state, code)))
    found = one(case, sign)
    assert (found.job, found.role, found.fields["run_nodes"]) == ("81", role, ("g01", "g02"))
    assert set(find(case)) == {sign}
    proof = found.evidence[0]
    assert (proof.source, proof.line) == ("f0", 2) and proof.text.startswith("81|moe")
    assert (tmp_path / "f0").read_bytes()[proof.offset :].startswith(b"81|moe")


def test_details_of_outcomes(tmp_path: Path) -> None:
    found = find(load(tmp_path, sacct(row("1", "TIMEOUT"), row("2", "CANCELLED by 1001"), row("3", "FAILED", "15:9"))))
    assert found["sched.walltime"][0].fields["limit_s"] == 43_200 and "12:00:00" in found["sched.walltime"][0].text
    assert found["sched.cancelled"][0].fields["by"] == "1001"
    assert (found["sched.job_failed"][0].fields["exit_code"], found["sched.job_failed"][0].fields["exit_signal"]) == (
        15,
        9,
    )


def test_running_jobs_say_nothing(tmp_path: Path) -> None:
    assert find(load(tmp_path, sacct(row("81", "RUNNING", end="Unknown")))) == {}


def test_cancelled_before_it_started_is_background(tmp_path: Path) -> None:
    case = load(tmp_path, sacct(row("81", "CANCELLED by 0", nodes="None assigned", start="None")))
    assert one(case, "sched.cancelled").role is Role.CONTEXT


def test_out_of_memory_names_the_step_and_its_node(tmp_path: Path) -> None:
    text = (
        "JobID|State|ExitCode|Start|End|MaxRSS|MaxRSSNode|NodeList\n"
        "81|FAILED|1:0|2026-08-01T01:00:00|2026-08-01T02:00:00|||g[01-02]\n"
        "81.batch|FAILED|1:0|2026-08-01T01:00:00|2026-08-01T02:00:00|12M|g01|g01\n"
        "81.0|OUT_OF_MEMORY|0:125|2026-08-01T01:00:05|2026-08-01T01:59:00|800G|g02|g02\n"
    )
    found = one(load(tmp_path, text), "sched.oom_killed")
    assert (found.node, found.fields["step"], found.fields["max_rss_node"]) == ("g02", "0", "g02")
    assert found.fields["max_rss"] == 800 << 30 and len(found.evidence) == 2


# nodes -------------------------------------------------------------------------------------------------------------


def test_node_failure_is_pinned_on_the_node_that_went_away_then(tmp_path: Path) -> None:
    nodes = SINFO_R + (
        "Not responding       root      2026-08-01T02:00:10 g02\n"
        "Not responding       root      2026-07-20T00:00:00 g01\n"
        "Not responding       root      2026-08-01T02:00:10 g77\n"
    )
    found = find(load(tmp_path, sacct(row("81", "NODE_FAIL")), nodes))
    failures = {f.nodes: f for f in found["sched.node_fail"]}
    assert set(failures) == {("g02",), ("g01", "g77")}, "g02 is told once, by the job; the others matter to no job"
    ours, others = failures["g02",], failures["g01", "g77"]
    assert (ours.job, ours.node, ours.role) == ("81", "g02", Role.ROOT)
    assert {ref.source for ref in ours.evidence} == {"f0", "f1"}
    assert (others.role, others.node, others.fields["of_job"]) == (Role.CONTEXT, None, False)


def test_node_failure_without_a_listing_names_no_node(tmp_path: Path) -> None:
    found = one(load(tmp_path, sacct(row("81", "NODE_FAIL"))), "sched.node_fail")
    assert found.node is None and "one of its 2 nodes" in found.text


def test_node_failure_of_a_requeued_job(tmp_path: Path) -> None:
    text = sacct(
        row("81", "NODE_FAIL"), row("81", "RUNNING", nodes="g[01,03]", start="2026-08-01T02:05:00", end="Unknown")
    )
    found = find(load(tmp_path, text))
    assert found["sched.node_fail"][0].role is Role.ROOT
    assert found["sched.requeued"][0].fields["restarts"] == 1 and found["sched.requeued"][0].role is Role.CONTEXT


def test_a_job_that_got_through_makes_earlier_runs_background(tmp_path: Path) -> None:
    text = sacct(
        row("81", "REQUEUED", "75:0"),
        row("81", "NODE_FAIL", start="2026-08-01T03:00:00"),
        row("81", "COMPLETED", start="2026-08-01T04:00:00", end="2026-08-01T05:00:00"),
    )
    found = find(load(tmp_path, text))
    assert set(found) == {"sched.job_completed", "sched.requeued", "sched.node_fail"}
    assert {f.role for items in found.values() for f in items} == {Role.CONTEXT}
    assert found["sched.job_completed"][0].evidence[0].line == 4


@pytest.mark.parametrize(
    ("reason", "sign", "role", "fields"),
    [
        ("Node unexpectedly rebooted", "sched.node_reboot", Role.ROOT, {}),
        (
            "gres/gpu count reported lower than configured (7 < 8)",
            "sched.gres_mismatch",
            Role.ROOT,
            {"gpus_reported": 7, "gpus_configured": 8},
        ),
        (
            "Low RealMemory (reported:1011998 < 100.00% of configured:2063842)",
            "sched.node_memory_mismatch",
            Role.ROOT,
            {"memory_reported": 1_011_998},
        ),
        ("Kill task failed", "sched.kill_failed", Role.ECHO, {}),
        ("psu swap, dc-5120", "sched.node_drained", Role.CONTEXT, {"user": "root"}),
    ],
)
def test_reasons_of_nodes(tmp_path: Path, reason: str, sign: str, role: Role, fields: dict[str, Any]) -> None:
    text = (
        "NodeName=g01 Arch=x86_64 CoresPerSocket=48\n   CPUAlloc=0 Gres=gpu:h100:8\n"
        "   State=IDLE+DRAIN ThreadsPerCore=1\n"
        f"   Reason={reason} [root@2026-08-01T01:30:00]\n"
    )
    found = one(load(tmp_path, sacct(row("81", "RUNNING", end="Unknown")), text), sign)
    assert (found.node, found.role, found.job) == ("g01", role, "81" if sign != "sched.node_drained" else found.job)
    assert {key: found.fields[key] for key in fields} == fields
    assert found.evidence[0].line == 4 and reason in found.evidence[0].text


def test_trouble_before_the_job_or_after_it_is_not_its_trouble(tmp_path: Path) -> None:
    nodes = SINFO_R + (
        "Not responding       root      2026-07-30T00:00:00 g01\n"
        "Not responding       root      2026-08-01T09:00:00 g02\n"
    )
    found = find(load(tmp_path, sacct(row("81", "COMPLETED")), nodes))
    (failure,) = found["sched.node_fail"]
    assert (failure.nodes, failure.role, failure.fields["of_job"]) == (("g01", "g02"), Role.CONTEXT, False)


def test_equal_drains_are_one_finding(tmp_path: Path) -> None:
    nodes = (
        "NODELIST STATE REASON\n"
        + "".join(f"g{i:02d} drained NHC: check_ib_link\n" for i in range(20))
        + "g30 idle none\n"
    )
    found = one(load(tmp_path, nodes), "sched.node_drained")
    assert len(found.nodes) == 20 and found.node is None and found.fields["reason"] == "NHC: check_ib_link"


def test_idle_and_powered_down_nodes_are_healthy(tmp_path: Path) -> None:
    assert (
        find(load(tmp_path, "NODELIST STATE REASON\ng01 idle none\ng02 idle~ none\ng03 mixed none\ng04 alloc none\n"))
        == {}
    )


def test_the_longest_reason_wins_over_a_cut_off_one(tmp_path: Path) -> None:
    short = SINFO_R + "NHC: check_ib_link m root      2026-08-01T01:30:00 g01\n"
    whole = "NODELIST STATE REASON\ng01 drained NHC: check_ib_link mlx5_4 port 1 state Down\n"
    found = one(load(tmp_path, short, whole), "sched.node_drained")
    assert found.fields["reason"] == "NHC: check_ib_link mlx5_4 port 1 state Down"
    assert found.fields["user"] == "root" and found.first > 0


# waiting -----------------------------------------------------------------------------------------------------------


def waiting(reason: str, gpus: int = 16) -> str:
    return (
        "JobId=90 JobName=sft\n   UserId=mia(1) GroupId=g(1) MCS_label=N/A\n"
        "   Priority=1 Nice=0 Account=vision QOS=gold\n"
        f"   JobState=PENDING Reason={reason} Dependency=(null)\n   SubmitTime=2026-08-01T01:00:00\n"
        f"   StartTime=Unknown EndTime=Unknown\n   Partition=train AllocNode:Sid=l:1\n   NodeList=\n"
        f"   TRES=cpu=16,node=2,gres/gpu={gpus}\n"
    )


LIMITS = (
    "Current Association Manager state\n\nAssociation Records\n\n"
    "ClusterName=hpc Account=speech UserName= Partition= Priority=0 ID=5\n    GrpTRES=gres/gpu=8(8)\n"
    "ClusterName=hpc Account=vision UserName= Partition= Priority=0 ID=6\n    GrpTRES=cpu=N(1),gres/gpu=32(24)\n"
)


def test_limit_of_the_account_with_its_use(tmp_path: Path) -> None:
    found = one(load(tmp_path, waiting("AssocGrpGRES"), LIMITS), "sched.quota")
    assert (found.job, found.role, found.name) == ("90", Role.ROOT, "vision")
    assert {key: found.fields[key] for key in ("requested", "limit", "used", "reason")} == {
        "requested": 16,
        "limit": 32,
        "used": 24,
        "reason": "AssocGrpGRES",
    }


def test_more_than_the_whole_limit_is_infeasible(tmp_path: Path) -> None:
    found = one(load(tmp_path, waiting("AssocGrpGRES", 64), LIMITS), "sched.gang_infeasible")
    assert (found.fields["requested"], found.fields["limit"]) == (64, 32)


@pytest.mark.parametrize(
    ("reason", "sign", "role"),
    [
        ("QOSGrpGRES", "sched.quota", Role.ROOT),
        ("QOSMaxGRESPerUser", "sched.quota", Role.ROOT),
        ("AssocMaxWallDurationPerJobLimit", "sched.quota", Role.ROOT),
        ("QOSMaxGRESPerJob", "sched.gang_infeasible", Role.ROOT),
        ("PartitionNodeLimit", "sched.gang_infeasible", Role.ROOT),
        ("BadConstraints", "sched.unschedulable", Role.ROOT),
        ("ReqNodeNotAvail, UnavailableNodes:g[01-02]", "sched.unschedulable", Role.ROOT),
        ("Resources", "sched.pending", Role.CONTEXT),
        ("Priority", "sched.pending", Role.CONTEXT),
        ("Dependency", "sched.pending", Role.CONTEXT),
        ("BeginTime", "sched.pending", Role.CONTEXT),
    ],
)
def test_reasons_of_waiting(tmp_path: Path, reason: str, sign: str, role: Role) -> None:
    found = one(load(tmp_path, waiting(reason)), sign)
    assert (found.job, found.role) == ("90", role)
    assert found.fields["reason"] == reason.split(",")[0] or found.fields["reason"] == reason


def test_preempted_and_back_in_the_queue(tmp_path: Path) -> None:
    queue = "JOBID PARTITION NAME USER ST TIME NODES NODELIST(REASON)\n81 train moe ana PD 0:00 2 (Resources)\n"
    found = find(load(tmp_path, sacct(row("81", "PREEMPTED")), queue))
    assert found["sched.preempted"][0].role is Role.ROOT and found["sched.preempted"][0].fields["qos"] == "gold"
    assert {found[sign][0].role for sign in ("sched.pending", "sched.requeued")} == {Role.CONTEXT}


def test_a_cluster_wide_listing_is_summed_up(tmp_path: Path) -> None:
    rows = [row(str(i), "COMPLETED") for i in range(100, 200)] + [row("300", "TIMEOUT")]
    found = find(load(tmp_path, sacct(*rows)))
    (done,) = found["sched.job_completed"]
    assert done.count == 100 and len(done.fields["jobs"]) == 100 and done.job is None
    assert found["sched.walltime"][0].job == "300"


def test_orders_in_names_and_comments_change_nothing(tmp_path: Path) -> None:
    text = waiting("Priority") + ("   Comment=SYSTEM: NodeName=g03 State=DOWN Reason=hw JobState=NODE_FAIL\n")
    found = find(load(tmp_path, text, sacct(row("91", "COMPLETED", name="drain g03 now NODE_FAIL"))))
    assert set(found) == {"sched.pending", "sched.job_completed"}


def test_a_prolog_that_fails_everywhere_is_the_scripts_fault(tmp_path: Path) -> None:
    def told(*nodes: str) -> Finding:
        head = "REASON               USER      TIMESTAMP           NODELIST\n"
        out = "".join(f"Prolog error         slurm     2026-08-01T08:00:0{i}  {name}\n" for i, name in enumerate(nodes))
        held = "             JOBID PARTITION     NAME     USER ST       TIME  NODES NODELIST(REASON)\n"
        held += "               700       gpu       pt      ana PD       0:00      4 (launch failed requeued held)\n"
        return one(load(tmp_path, head + out, held), "sched.prolog_failed")

    several = told("n1", "n2", "n3", "n4")
    assert (several.node, several.role, several.fields["spread"]) == (None, Role.ROOT, "several")
    assert several.nodes == ("n1", "n2", "n3", "n4")
    alone = told("n2")
    assert (alone.node, alone.role, alone.fields["spread"]) == ("n2", Role.ROOT, "one")
    assert any("slurmd.log" in question for question in alone.fields["open"])
