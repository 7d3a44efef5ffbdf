"""How workloads end, and what must not be said about healthy or foreign ones."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from detect.scheduler_case import (
    CLUSTER_QUEUE,
    condition,
    ended,
    event,
    find,
    job,
    listing,
    load,
    node,
    one,
    pending,
    pod,
    workload,
)

from aiops.model import Role


def test_completed_job_turns_its_troubles_into_background(tmp_path: Path) -> None:
    done = job("a", status={"conditions": [condition("Complete", "True", "CompletionsReached")]})
    status = {
        "containerStatuses": [
            {
                "name": "main",
                "state": {"terminated": {"exitCode": 0, "reason": "Completed"}},
                "lastState": {"terminated": {"exitCode": 137, "reason": "OOMKilled"}},
            }
        ]
    }
    case = load(tmp_path, listing(done, pod("a-0-x", "a", node="n1", phase="Succeeded", status=status)))
    found = find(case)
    assert found["sched.job_completed"][0].job == "ml/a"
    assert found["sched.oom_killed"][0].role is Role.CONTEXT


def test_failed_jobset_is_told_once_with_what_hangs(tmp_path: Path) -> None:
    jobset = {
        "apiVersion": "jobset.x-k8s.io/v1alpha2",
        "kind": "JobSet",
        "metadata": {"name": "js", "namespace": "ml"},
        "spec": {"replicatedJobs": []},
        "status": {
            "restarts": 2,
            "conditions": [condition("Failed", "True", "FailedJobs", "jobset failed (first failed job: js-node-0)")],
        },
    }
    child = job("js-node-0", status={"conditions": [condition("Failed", "True", "BackoffLimitExceeded")]})
    child["metadata"]["ownerReferences"] = [{"kind": "JobSet", "name": "js", "controller": True}]
    hanging = pod("js-node-0-0-x", "js-node-0", node="n1")
    hanging["metadata"]["labels"]["jobset.sigs.k8s.io/jobset-name"] = "js"
    hanging["metadata"]["deletionTimestamp"] = "2026-08-01T08:00:00Z"
    found = find(load(tmp_path, listing(jobset, child, hanging)))
    (failed,) = found["sched.job_failed"]
    assert (failed.job, failed.role, failed.fields["terminating"]) == ("ml/js", Role.CONTEXT, ("js-node-0-0-x",))
    assert "first failed job: js-node-0" in failed.fields["message"]
    assert found["sched.requeued"][0].fields["restarts"] == 2


def test_deadline_of_a_job(tmp_path: Path) -> None:
    case = load(tmp_path, job("a", status={"conditions": [condition("Failed", "True", "DeadlineExceeded")]}))
    assert (one(case, "sched.walltime").job, one(case, "sched.walltime").role) == ("ml/a", Role.ROOT)


def test_healthy_objects_say_nothing(tmp_path: Path) -> None:
    running = {"containerStatuses": [{"name": "main", "restartCount": 0, "state": {"running": {}}}]}
    case = load(
        tmp_path,
        listing(
            job("a", status={"active": 2}),
            *(pod(f"a-{i}-x", "a", index=i, node=f"n{i}", status=running) for i in range(2)),
            node("n0"),
            node("n1"),
            workload("job-a-22222", condition("Admitted", "True", "Admitted")),
            CLUSTER_QUEUE,
            event("Scheduled", "Pod", "a-0-x", "Successfully assigned ml/a-0-x to n0", type="Normal"),
        ),
    )
    assert find(case) == {}


def test_other_workloads_carry_their_own_name(tmp_path: Path) -> None:
    case = load(
        tmp_path,
        listing(
            job("a", status={"conditions": [condition("Complete", "True", "CompletionsReached")]}),
            pod(
                "csv-export-29371",
                "csv",
                node="n9",
                phase="Failed",
                gpus=0,
                namespace="etl",
                status=ended(137, "OOMKilled"),
            ),
        ),
    )
    found = find(case)
    assert {f.job for items in found.values() for f in items} == {"ml/a", "etl/csv"}
    assert found["sched.oom_killed"][0].fields["workload"] == "Job etl/csv"


def test_the_newest_of_several_dumps_counts(tmp_path: Path) -> None:
    old, new = pod("a-0-x", "a", phase="Pending", status=pending()), pod("a-0-x", "a", node="n1")
    old["metadata"]["resourceVersion"], new["metadata"]["resourceVersion"] = "5", "9"
    assert find(load(tmp_path, new, old)) == {}


def test_hostile_names_stay_out_of_nodes(tmp_path: Path) -> None:
    case = load(
        tmp_path,
        listing(
            event("Rebooted", "Node", "n1;reboot", "x"),
            event("NodeNotReady", "Node", "$(halt)", "x"),
            pod("a-0-x", "a", node="a b", phase="Failed", status=ended(1)),
        ),
    )
    assert all(f.node is None and f.nodes == () for items in find(case).values() for f in items)


def test_broken_objects_do_not_stop_the_rest(tmp_path: Path) -> None:
    strange: list[Any] = [
        {
            "apiVersion": "v1",
            "kind": kind,
            "metadata": {"name": "x", "namespace": 5},
            "spec": [],
            "status": {"conditions": ["x", None, {"type": 1}], "containerStatuses": [{}, 3]},
        }
        for kind in ("Pod", "Node", "Job", "JobSet", "Workload", "PodGroup", "RayJob", "ClusterQueue")
    ]
    case = load(tmp_path, listing(*strange, job("a", status={"conditions": [condition("Failed", "True", "X")]})))
    assert [f.job for f in find(case)["sched.job_failed"]] == ["ml/a"]
