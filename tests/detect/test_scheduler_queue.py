"""Quotas, queues and preemption: who waits for what, and who lost the place to whom."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from detect.scheduler_case import (
    CLUSTER_QUEUE,
    QUOTA,
    TOO_MUCH,
    condition,
    event,
    find,
    job,
    listing,
    load,
    one,
    pod,
    workload,
)

from aiops.model import Role


def test_quota_tells_what_was_asked_and_what_is_there(tmp_path: Path) -> None:
    case = load(
        tmp_path,
        listing(
            job("a", pods=4),
            workload("job-a-1f2c3", condition("QuotaReserved", "False", "WaitingForQuota", QUOTA)),
            CLUSTER_QUEUE,
        ),
    )
    found = one(case, "sched.quota")
    assert (found.role, found.job, found.name) == (Role.ROOT, "ml/a", "cq")
    assert {key: found.fields[key] for key in ("requested", "limit", "used", "missing")} == {
        "requested": 32,
        "limit": 64,
        "used": 56,
        "missing": 24,
    }
    quoted = (tmp_path / "f0").read_text().splitlines()[found.evidence[0].line - 1]
    assert "insufficient unused quota" in quoted, "the evidence points at the line that says so"


def test_request_above_every_flavor_is_infeasible_not_quota(tmp_path: Path) -> None:
    found = find(
        load(tmp_path, listing(workload("job-a-1f2c3", condition("QuotaReserved", "False", "Pending", TOO_MUCH))))
    )
    assert "sched.quota" not in found
    (finding,) = found["sched.gang_infeasible"]
    assert (finding.job, finding.fields["requested"], finding.fields["limit"]) == ("ml/a", 72, 48)
    assert finding.fields["pod_set"] == "main"


def test_admitted_workload_is_not_blamed_for_an_old_event(tmp_path: Path) -> None:
    case = load(
        tmp_path,
        listing(
            workload("job-a-1f2c3", condition("QuotaReserved", "True", "QuotaReserved")),
            event("Pending", "Workload", "job-a-1f2c3", QUOTA),
        ),
    )
    assert find(case) == {}


def test_event_speaks_for_a_workload_that_was_not_collected(tmp_path: Path) -> None:
    wait = event("Pending", "Workload", "job-a-1f2c3", QUOTA, "2026-08-01T08:00:00Z")
    assert one(load(tmp_path, listing(wait)), "sched.quota").job == "ml/a"
    admitted = event("Admitted", "Workload", "job-a-1f2c3", "Admitted by ClusterQueue cq", "2026-08-01T08:10:00Z")
    assert one(load(tmp_path, listing(wait, admitted)), "sched.quota").role is Role.CONTEXT


def test_namespace_quota(tmp_path: Path) -> None:
    message = (
        'Error creating: pods "a-0" is forbidden: exceeded quota: team, requested: requests.nvidia.com/gpu=8, '
        "used: requests.nvidia.com/gpu=32, limited: requests.nvidia.com/gpu=32"
    )
    refused = event("FailedCreate", "Job", "a", message)
    found = one(load(tmp_path, listing(refused)), "sched.quota")
    assert (found.job, found.name, found.fields["limit"]) == ("ml/a", "team", "requests.nvidia.com/gpu=32")
    later = event("SuccessfulCreate", "Job", "a", "Created pod: a-0", "2026-08-01T09:00:00Z", type="Normal")
    assert one(load(tmp_path, listing(refused, later)), "sched.quota").role is Role.CONTEXT


@pytest.mark.parametrize(
    ("reason", "message", "sign", "why"),
    [
        (
            "TopologyPlacementFailed",
            'couldn\'t assign flavors to pod set main: topology "t" allows to fit only 56 out of 64 pod(s)',
            "sched.unschedulable",
            "topology",
        ),
        (
            "NoMatchingFlavor",
            "couldn't assign flavors to pod set main: untolerated taint {gpu true NoSchedule} in flavor x",
            "sched.unschedulable",
            "taint",
        ),
        (
            "Inadmissible",
            "couldn't assign flavors to pod set main: flavor x doesn't match node affinity",
            "sched.unschedulable",
            "selector",
        ),
        ("WaitingForPreemptedWorkloads", "", "sched.pending", None),
    ],
)
def test_other_refusals(tmp_path: Path, reason: str, message: str, sign: str, why: str | None) -> None:
    case = load(tmp_path, listing(workload("job-a-1f2c3", condition("QuotaReserved", "False", reason, message))))
    found = one(case, sign)
    assert found.fields.get("why") == why
    assert (found.role is Role.CONTEXT) == (sign == "sched.pending")


def test_kai_and_volcano_queues(tmp_path: Path) -> None:
    kai = {
        "apiVersion": "scheduling.run.ai/v2alpha2",
        "kind": "PodGroup",
        "metadata": {"name": "k", "namespace": "ml"},
        "spec": {"queue": "research"},
        "status": {
            "schedulingConditions": [
                {
                    "reasons": [
                        {
                            "reason": "OverLimit",
                            "message": "limit reached",
                            "details": {
                                "queueDetails": {
                                    "name": "research",
                                    "queueResourceLimits": {"nvidia.com/gpu": "32"},
                                    "queueAllocatedResources": {"nvidia.com/gpu": "24"},
                                    "podGroupRequestedResources": {"nvidia.com/gpu": "16"},
                                }
                            },
                        }
                    ]
                }
            ]
        },
    }
    volcano = event(
        "Unschedulable",
        "PodGroup",
        "v",
        "queue resource quota insufficient: insufficient nvidia.com/gpu",
        type="Normal",
    )
    found = {f.job: f for f in find(load(tmp_path, listing(kai, volcano)))["sched.quota"]}
    assert found["ml/k"].fields["limit"] == 32 and found["ml/k"].fields["requested"] == 16
    assert found["ml/k"].name == "research" and found["ml/v"].role is Role.ROOT


PREEMPTED = (
    "Preempted to accommodate a workload (UID: uid-w2, JobUID: uid-b) due to prioritization in the ClusterQueue; "
    "preemptor effective priority: 2000 (base: 2000, boost: 0)"
)


def test_preemption_names_the_preemptor_and_explains_the_wait(tmp_path: Path) -> None:
    case = load(
        tmp_path,
        listing(
            job("a"),
            job("b"),
            workload("job-b-11111", condition("Admitted", "True", "Admitted"), owner="b", uid="uid-w2"),
            workload(
                "job-a-22222",
                condition("Evicted", "True", "Preempted", PREEMPTED),
                condition("Preempted", "True", "InClusterQueue", PREEMPTED),
                condition("QuotaReserved", "False", "WaitingForQuota", QUOTA),
            ),
            event("EvictedDueToPreempted", "Workload", "job-a-22222", PREEMPTED, type="Normal"),
        ),
    )
    found = find(case)
    (lost,) = found["sched.preempted"]
    assert (lost.job, lost.role, lost.fields["by"], lost.fields["path"]) == (
        "ml/a",
        Role.ROOT,
        "ml/b",
        "InClusterQueue",
    )
    assert lost.fields["priority"] == 2000 and lost.count == 2
    assert found["sched.quota"][0].role is Role.ECHO, "it waits because it was preempted"


def test_a_chain_of_preemptions_names_who_has_the_gpus_in_the_end(tmp_path: Path) -> None:
    def lost(name: str, taker: str) -> dict[str, object]:
        told = PREEMPTED.replace("uid-w2", f"uid-w-{taker}").replace("uid-b", f"uid-{taker}")
        said = (condition("Evicted", "True", "Preempted", told), condition("Preempted", "True", "InClusterQueue", told))
        return workload(f"job-{name}-11111", *said, owner=name, uid=f"uid-w-{name}")

    found = find(
        load(
            tmp_path,
            listing(
                *(job(name) for name in "abc"),
                lost("a", "b"),
                lost("b", "c"),
                workload("job-c-11111", condition("Admitted", "True", "Admitted"), owner="c", uid="uid-w-c"),
                *(pod(f"c-{i}-x", "c", index=i, node=f"n{i}") for i in range(2)),
            ),
        )
    )["sched.preempted"]
    first, second = sorted(found, key=lambda finding: finding.job or "")
    assert first.fields["chain"] == ("ml/b", "ml/c") and "itself preempted by ml/c" in first.text
    assert (second.fields["by"], second.fields["by_gpus"], second.fields["by_nodes"]) == ("ml/c", 16, ("n0", "n1"))


def test_a_workload_that_is_requeued_again_and_again(tmp_path: Path) -> None:
    waits = workload("job-a-1f2c3", condition("QuotaReserved", "False", "Pending", "x"))
    waits["status"]["requeueState"] = {"count": 4}
    assert one(load(tmp_path, listing(waits)), "sched.requeue_loop").fields["attempts"] == 4
    runs = pod("a-0-x", "a", node="n1")
    assert "sched.requeue_loop" not in find(load(tmp_path, listing(waits, runs))), "it runs now"
    waits["status"]["requeueState"] = {"count": 2}
    assert "sched.requeue_loop" not in find(load(tmp_path, listing(waits)))


def test_preemption_by_the_default_scheduler(tmp_path: Path) -> None:
    status = {
        "conditions": [condition("DisruptionTarget", "True", "PreemptionByScheduler", "default-scheduler: preempting")]
    }
    case = load(
        tmp_path,
        listing(
            pod("a-0-x", "a", node="n1", phase="Failed", status=status),
            event("Preempted", "Pod", "a-0-x", "Preempted by pod uid-b on node n1", type="Normal"),
            job("b"),
        ),
    )
    lost = one(case, "sched.preempted")
    assert (lost.job, lost.node, lost.fields["by"]) == ("ml/a", "n1", "ml/b")


def test_pods_ready_timeout_after_back_off(tmp_path: Path) -> None:
    case = load(
        tmp_path,
        listing(
            workload(
                "job-a-22222",
                condition("Evicted", "True", "Deactivated", "The workload is deactivated"),
                condition("DeactivationTarget", "True", "RequeuingLimitExceeded"),
                condition("QuotaReserved", "False", "Pending", "The workload is deactivated"),
            )
        ),
    )
    assert one(case, "sched.pods_ready_timeout").job == "ml/a"


def test_evicted_pods_of_a_gang_are_one_finding(tmp_path: Path) -> None:
    status = {
        "reason": "Evicted",
        "message": "The node was low on resource: memory. Threshold quantity: 1Gi, available: 4Ki.",
    }
    case = load(
        tmp_path,
        listing(*(pod(f"a-{i}-x", "a", index=i, pods=4, node="n1", phase="Failed", status=status) for i in range(4))),
    )
    found = one(case, "sched.evicted")
    assert (found.node, found.fields["resource"], found.fields["own_limit"], found.count) == ("n1", "memory", False, 4)


def test_eviction_told_by_an_event_is_placed_on_the_node_under_pressure(tmp_path: Path) -> None:
    case = load(
        tmp_path,
        listing(
            event("Evicted", "Pod", "a-0", "The node had condition: [DiskPressure]. ", source={"component": "kubelet"}),
            event("NodeHasDiskPressure", "Node", "n3", "Node n3 status is now: NodeHasDiskPressure", type="Normal"),
        ),
    )
    found = one(case, "sched.evicted")
    assert (found.node, found.fields["resource"]) == ("n3", "ephemeral-storage")
    assert one(case, "sched.node_pressure").role is Role.CONTEXT


def test_deletion_by_a_person_is_a_cancel(tmp_path: Path) -> None:
    def audit(user: str) -> str:
        return (
            json.dumps(
                {
                    "kind": "Event",
                    "apiVersion": "audit.k8s.io/v1",
                    "verb": "delete",
                    "user": {"username": user},
                    "objectRef": {"resource": "jobs", "namespace": "ml", "name": "a"},
                    "requestReceivedTimestamp": "2026-08-01T08:00:00.000000Z",
                }
            )
            + "\n"
        )

    case = load(
        tmp_path, audit("mia@example.com") + audit("system:serviceaccount:kube-system:generic-garbage-collector")
    )
    found = one(case, "sched.cancelled")
    assert (found.job, found.fields["by"]) == ("ml/a", "mia@example.com")


@pytest.mark.parametrize("ready", ["True", "False"])
def test_a_workload_that_is_admitted_again_after_the_time_out(tmp_path: Path, ready: str) -> None:
    again = workload(
        "job-a-1f2c3", condition("Admitted", "True", "Admitted"), condition("PodsReady", ready, "WaitForStart")
    )
    told = event(
        "EvictedDueToPodsReadyTimeout", "Workload", "job-a-1f2c3", "Exceeded the PodsReady timeout ml/job-a-1f2c3"
    )
    found = find(load(tmp_path, listing(again, told)))
    assert ("sched.pods_ready_timeout" in found) == (ready == "False")
