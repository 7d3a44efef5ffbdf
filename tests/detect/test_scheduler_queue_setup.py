"""Queues that cannot admit anything: the queue is named, and whether anybody waits in it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from detect.scheduler_case import condition, find, listing, load, one, workload

from aiops.model import Role

INACTIVE = "Can't admit new workloads: references missing ResourceFlavor(s): h200."


def queue(
    kind: str, name: str, *conditions: dict[str, Any], namespace: str | None = None, **spec: Any
) -> dict[str, Any]:
    meta = {"name": name} | ({"namespace": namespace} if namespace else {})
    body = {"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": kind, "metadata": meta, "spec": spec}
    return body | {"status": {"conditions": list(conditions)}}


def local(target: str, *conditions: dict[str, Any], **spec: Any) -> dict[str, Any]:
    return queue("LocalQueue", "lq", *conditions, namespace="ml", clusterQueue=target, **spec)


def waits(message: str = "ClusterQueue cq is inactive") -> dict[str, Any]:
    return workload("job-a-1f2c3", condition("QuotaReserved", "False", "Inadmissible", message))


@pytest.mark.parametrize(
    ("objects", "name", "problem"),
    [
        (
            [local("cq"), queue("ClusterQueue", "cq", condition("Active", "False", "FlavorNotFound", INACTIVE))],
            "cq",
            "FlavorNotFound",
        ),
        ([local("cq"), queue("ClusterQueue", "cq", stopPolicy="HoldAndDrain")], "cq", "Stopped"),
        ([local("cq"), queue("ClusterQueue", "other")], "lq", "ClusterQueueMissing"),
        ([local("cq", condition("Active", "False", "ClusterQueueIsInactive", "x"))], "lq", "ClusterQueueMissing"),
        ([local("cq", stopPolicy="Hold"), queue("ClusterQueue", "cq")], "lq", "Stopped"),
    ],
)
def test_a_broken_queue_is_named(tmp_path: Path, objects: list[dict[str, Any]], name: str, problem: str) -> None:
    found = one(load(tmp_path, listing(*objects, waits())), "sched.queue_broken")
    assert (found.name, found.fields["problem"], found.role) == (name, problem, Role.ROOT)
    assert found.job == "ml/a" and found.fields["waiting"] == ("ml/a",)


def test_a_missing_local_queue(tmp_path: Path) -> None:
    other = queue("LocalQueue", "main", namespace="ml", clusterQueue="cq")
    case = load(tmp_path, listing(other, queue("ClusterQueue", "cq"), waits("LocalQueue lq doesn't exist")))
    found = one(case, "sched.queue_broken")
    assert (found.name, found.fields["problem"]) == ("lq", "LocalQueueMissing")
    refused = one(case, "sched.unschedulable")
    assert (refused.fields["why"], refused.name) == ("queue", "lq")


def test_a_stopped_queue_in_which_nobody_waits_is_context(tmp_path: Path) -> None:
    case = load(tmp_path, listing(local("cq"), queue("ClusterQueue", "cq", stopPolicy="Hold")))
    assert one(case, "sched.queue_broken").role is Role.CONTEXT


def test_healthy_queues_say_nothing(tmp_path: Path) -> None:
    ready = condition("Active", "True", "Ready", "Can admit new workloads")
    assert find(load(tmp_path, listing(local("cq", ready), queue("ClusterQueue", "cq", ready)))) == {}


def test_a_closed_volcano_queue(tmp_path: Path) -> None:
    closed = {"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "Queue", "metadata": {"name": "q"}}
    group = {
        "apiVersion": "scheduling.volcano.sh/v1beta1",
        "kind": "PodGroup",
        "metadata": {"name": "g", "namespace": "ml"},
        "spec": {"queue": "q", "minMember": 2},
        "status": {"phase": "Pending"},
    }
    found = one(load(tmp_path, listing(closed | {"status": {"state": "Closed"}}, group)), "sched.queue_broken")
    assert (found.name, found.job, found.fields["problem"]) == ("q", "ml/g", "Closed")


@pytest.mark.parametrize(
    ("state", "message", "why"),
    [
        ("Retry", "Admitting remote lost", "remote"),
        ("Rejected", "Provisioning failed: out of resources in zone a", "capacity"),
        ("Rejected", "denied by the cost controller", "refused"),
    ],
)
def test_admission_checks(tmp_path: Path, state: str, message: str, why: str) -> None:
    body = workload("job-a-1f2c3", condition("QuotaReserved", "True", "QuotaReserved"))
    body["status"]["admissionChecks"] = [{"name": "mk", "state": state, "message": message}]
    found = one(load(tmp_path, listing(body)), "sched.admission_check")
    assert (found.job, found.name, found.fields["why"]) == ("ml/a", "mk", why)


def test_a_worker_cluster_that_is_lost_and_a_check_that_still_waits(tmp_path: Path) -> None:
    """Until the time-out has passed, the remote job is believed to run: nothing but the connection is wrong."""
    body = workload("job-a-1f2c3", condition("Admitted", "True", "Admitted"))
    body["status"] |= {"clusterName": "w1", "admissionChecks": [{"name": "mk", "state": "Ready", "message": "ok"}]}
    lost = {
        "apiVersion": "kueue.x-k8s.io/v1beta2",
        "kind": "MultiKueueCluster",
        "metadata": {"name": "w1"},
        "status": {"conditions": [condition("Active", "False", "ClientConnectionFailed", "connection attempts: 4")]},
    }
    found = find(load(tmp_path, listing(body, lost)))
    assert set(found) == {"sched.cluster_lost"}
    assert (found["sched.cluster_lost"][0].name, found["sched.cluster_lost"][0].job) == ("w1", "ml/a")
