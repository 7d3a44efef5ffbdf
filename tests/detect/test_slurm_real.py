"""Faults set on a real Slurm cluster, collected with its own commands in several forms, and judged."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from services.need import need, need_root
from services.slurm.cluster import PROGRAMS, SlurmCluster
from services.slurm.collect import FORMS, collect, logs
from services.slurm.processes import until

from aiops.model.report import Report
from aiops.pipeline import analyze_paths

pytestmark = [pytest.mark.needs_slurm, pytest.mark.xdist_group("slurm")]

PARTITIONS = {
    "train": ["hx-01", "hx-02"],
    "gang": ["hx-03", "hx-04", "hx-05"],
    "shared": ["hx-06"],
    "frag": ["hx-07", "hx-08"],
    "maint": ["hx-09"],
    "prolog": ["hx-10"],
    "gres": ["hx-11"],
    "drain": ["hx-12"],
}
WAIT = "srun sleep 900"
NHC = "NHC: check_hw_ib: No IB port mlx5_3:1 is ACTIVE (LinkUp 400 Gb/sec)."
EATS_MEMORY = "srun python3 -c 'import time; x = bytearray(900 << 20); time.sleep(60)'"
RAISES = "srun python3 -c 'raise ValueError(\"vocabulary of 50257 tokens, but token 50304 was asked for\")'"


@dataclass(frozen=True)
class Fault:
    """What is collected of a fault, and what must be said of it."""

    failure: str | None
    """Failure class, or ``None`` for no incident."""
    nodes: tuple[str, ...]
    requeue: str = "not_needed"
    node: str | None = None
    actions: tuple[str, ...] = ()
    logged: str | None = None
    """Class if the logs are there, too, where that differs."""
    said: tuple[str, ...] = field(default=())
    """Words of the summary or the story."""


FAULTS = {
    "completed": Fault(None, ("hx-01",)),
    "raises": Fault("unk.none", ("hx-01",), "same_nodes", logged="usr.exception"),
    "memory": Fault("unk.none", ("hx-01",), "same_nodes", logged="host.cgroup_oom"),
    "limited": Fault("usr.walltime", ("hx-01",), "same_nodes", actions=("requeue",)),
    "cancelled": Fault("usr.cancel", ("hx-01",), "same_nodes", actions=("notify_owner",)),
    "loops": Fault("sch.crash_loop", ("hx-01",), "fix_first", actions=("fix_user_code",)),
    "requeued": Fault("unk.suspect", ("hx-03", "hx-04", "hx-05"), "not_needed", "hx-04", ("investigate",)),
    "node_fail": Fault("unk.suspect", ("hx-04",), "exclude_nodes", "hx-04", ("requeue_excluding_node",)),
    "low": Fault("sch.preempted", ("hx-06",), "same_nodes", actions=("wait",)),
    "scattered": Fault("sch.fragmentation", ("hx-07", "hx-08"), "fix_first", actions=("wait",), said=("3 on one",)),
    "over_quota": Fault("sch.quota", ("hx-01", "hx-02"), "fix_first", actions=("adjust_quota",), said=("small",)),
    "reserved": Fault("mnt.planned", ("hx-09",), "same_nodes", actions=("wait",)),
    "too_many": Fault("sch.constraint_mismatch", ("hx-01",), "fix_first", actions=("fix_config",), said=("16 GPUs",)),
    "too_wide": Fault("sch.gang_infeasible", ("hx-01", "hx-02"), "fix_first"),
    "prolog": Fault("unk.suspect", ("hx-10",), "exclude_nodes", "hx-10", ("investigate",), said=("prolog",)),
    "missing_gpus": Fault("sch.gres_mismatch", ("hx-11",), "fix_first", "hx-11", ("fix_config",)),
    "on_draining": Fault(None, ("hx-12",)),
    "wants_drained": Fault("unk.suspect", ("hx-12",), "exclude_nodes", "hx-12", said=("check_hw_ib",)),
}


@dataclass
class Collected:
    folder: Path
    jobs: dict[str, str]
    refused: str
    """What sbatch said when nodes cannot meet a request."""


@pytest.fixture(scope="module")
def collected(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Collected]:
    need_root()
    for program in PROGRAMS:
        need(program)
    folder = tmp_path_factory.mktemp("slurm")
    with SlurmCluster(PARTITIONS, missing={"hx-11": 4}) as cluster:
        done = Collected(folder, *_set_faults(cluster))
        for name, fault in FAULTS.items():
            job = [done.jobs[name]]
            for form in FORMS:
                collect(cluster, folder / name / form, form, job, fault.nodes)
            logs(cluster, collect(cluster, folder / name / "logs", "tables", job, fault.nodes), job, fault.nodes)
        cluster.stop_controller()
        down = collect(cluster, folder / "controller" / "down", "accounting", [done.jobs["on_draining"]])
        (down / "squeue.err").write_text(cluster.run("squeue").stderr)
        (down / "sbatch.err").write_text(cluster.run("sbatch", "--wrap=true").stderr)
    yield done


def _set_faults(cluster: SlurmCluster) -> tuple[dict[str, str], str]:
    """Submit everything at once on nodes of its own, and wait until all faults show."""
    cluster.out("sacctmgr", "-i", "add", "qos", "high", "Priority=1000", "Preempt=normal")
    cluster.out("sacctmgr", "-i", "add", "account", "small", "GrpTRES=gres/gpu=4")
    cluster.out("sacctmgr", "-i", "add", "user", "nobody", "Account=small")
    cluster.out("sacctmgr", "-i", "modify", "user", "nobody", "set", "qos=normal,high")
    cluster.out(
        "scontrol", "create", "reservation", "ReservationName=maint_q3", "StartTime=now+30minutes", "Duration=120",
        "Flags=MAINT,IGNORE_JOBS", "Users=root", "Nodes=hx-09",
    )  # fmt: skip
    cluster.break_prolog("hx-10")
    one = "--gpus-per-node=1"
    jobs = {
        "completed": cluster.submit("completed", "srun true", one),
        "raises": cluster.submit("raises", RAISES, one),
        "memory": cluster.submit("memory", EATS_MEMORY, one, "--mem=100"),
        "limited": cluster.submit("limited", WAIT, one),
        "cancelled": cluster.submit("cancelled", WAIT, one),
        "loops": cluster.submit("loops", "echo step 100; exit 75", one),
        "requeued": cluster.submit("requeued", WAIT, "-p", "gang", "-N2", "--gpus-per-node=4"),
        "node_fail": cluster.submit("node_fail", WAIT, "-p", "gang", "-w", "hx-04", one, "--no-requeue"),
        "low": cluster.submit("low", WAIT, "-p", "shared", "--gpus-per-node=8"),
        "left": cluster.submit("left", WAIT, "-p", "frag", "-w", "hx-07", "--gpus-per-node=5"),
        "right": cluster.submit("right", WAIT, "-p", "frag", "-w", "hx-08", "--gpus-per-node=5"),
        "quota": cluster.submit("quota", WAIT, "-A", "small", "--gpus-per-node=3"),
        "reserved": cluster.submit("reserved", WAIT, "-p", "maint", "--gpus-per-node=8", "--time=120"),
        "prolog": cluster.submit("prolog", "srun true", "-p", "prolog", "--gpus-per-node=8"),
        "on_draining": cluster.submit("on_draining", WAIT, "-p", "drain", "--gpus-per-node=4"),
    }
    runs = ("limited", "cancelled", "requeued", "node_fail", "low", "left", "right", "quota", "on_draining")
    until("jobs run", lambda: all(cluster.state(jobs[name])[0] == "RUNNING" for name in runs))
    cluster.kill_node("hx-04")
    # A time limit is at least one minute; a new end, not in the past when it arrives, makes the job run into it.
    cluster.out("scontrol", "update", f"JobId={jobs['limited']}", "EndTime=now+5")
    cluster.out("scancel", jobs["cancelled"])
    cluster.out("scontrol", "update", "NodeName=hx-12", "State=DRAIN", f"Reason={NHC}")
    jobs["high"] = cluster.submit("high", WAIT, "-p", "shared", "--gpus-per-node=8", "--qos=high")
    jobs["scattered"] = cluster.submit("scattered", WAIT, "-p", "frag", "--gpus-per-node=6")
    jobs["over_quota"] = cluster.submit("over_quota", WAIT, "-A", "small", "--gpus-per-node=3")
    jobs["too_wide"] = cluster.submit("too_wide", WAIT, "-N5")
    jobs["missing_gpus"] = cluster.submit("missing_gpus", WAIT, "-p", "gres", "--gpus-per-node=8")
    jobs["wants_drained"] = cluster.submit("wants_drained", WAIT, "-p", "drain", "--gpus-per-node=8")
    refused = cluster.run("sbatch", "--job-name=too_many", "--gpus-per-node=16", "--wrap=true").stderr
    jobs["too_many"] = cluster.out("squeue", "-h", "-t", "all", "-n", "too_many", "-o", "%i").strip()
    expected = {
        "completed": "COMPLETED", "raises": "FAILED", "memory": "FAILED", "limited": "TIMEOUT",
        "cancelled": "CANCELLED", "node_fail": "NODE_FAIL", "low": "PENDING",
        "too_many": "FAILED",
    }  # fmt: skip
    for name, state in expected.items():
        until(f"{name} is {state}", lambda name=name, state=state: cluster.state(jobs[name])[0] == state, 90)
    reasons = {
        "scattered": "Resources", "over_quota": "AssocGrpGRES", "too_wide": "PartitionNodeLimit",
        "reserved": "ReqNodeNotAvail, Reserved for maintenance", "prolog": "launch failed requeued held",
        "missing_gpus": "Nodes required for job are DOWN, DRAINED or reserved for jobs in higher priority partitions",
        "wants_drained": "Nodes required for job are DOWN, DRAINED or reserved for jobs in higher priority partitions",
    }  # fmt: skip
    for name, reason in reasons.items():
        until(f"{name}: {reason}", lambda name=name, reason=reason: cluster.state(jobs[name]) == ("PENDING", reason))
    where = ["squeue", "-h", "-j", jobs["requeued"], "-o", "%T %N"]
    until("it runs elsewhere", lambda: cluster.out(*where).strip() == "RUNNING hx-[03,05]")
    done = ["sacct", "-nXD", "-j", jobs["loops"], "-o", "state"]
    until("it loops", lambda: cluster.out(*done).count("REQUEUED") >= 3)
    return jobs, refused


def judged(folder: Path) -> Report:
    report = analyze_paths([folder])
    assert [p for p in report.coverage.problems if p.reason != "empty"] == []
    return report


def verdict(report: Report) -> tuple[str | None, str | None, str]:
    """(class, node, requeue) of the first incident."""
    if not report.incidents:
        return None, None, "not_needed"
    first = report.incidents[0]
    return first.failure_class, first.culprit.node, first.requeue.verdict


@pytest.mark.parametrize("form", [*FORMS, "logs"])
@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_is_judged_right(collected: Collected, name: str, form: str) -> None:
    fault = FAULTS[name]
    report = judged(collected.folder / name / form)
    failure, node, requeue = verdict(report)
    logged = form == "logs" and fault.logged is not None
    assert failure == (fault.logged if logged else fault.failure), report.summary
    if fault.failure is None:
        return
    incident = report.incidents[0]
    assert incident.culprit.job == collected.jobs[name]
    assert logged or requeue == fault.requeue
    assert fault.node is None or node == fault.node
    assert logged or set(fault.actions) <= {action.action for action in incident.actions}
    told = incident.model_dump_json()
    assert all(word in told for word in fault.said), told


def test_logs_name_who_took_the_gpus(collected: Collected) -> None:
    report = judged(collected.folder / "low" / "logs")
    assert f"was preempted by job {collected.jobs['high']}" in report.model_dump_json()


def test_a_node_that_is_out_is_not_taken_out_again(collected: Collected) -> None:
    (incident,) = judged(collected.folder / "wants_drained" / "listings").incidents
    assert [a.commands for a in incident.actions if a.action in ("cordon_node", "drain_node")] in ([], [[]])


def test_a_controller_that_is_down(collected: Collected) -> None:
    report = judged(collected.folder / "controller" / "down")
    assert verdict(report)[0] == "ctl.api_down"


def test_a_refused_submission(collected: Collected, tmp_path: Path) -> None:
    (tmp_path / "sbatch.err").write_text(collected.refused)
    assert verdict(judged(tmp_path))[0] in ("sch.gang_infeasible", "sch.constraint_mismatch")
