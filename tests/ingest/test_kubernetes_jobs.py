"""Workload objects of all common controllers become jobs with state, size and queue."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from detect.scheduler_case import job, listing, load, pod

GPU = {"spec": {"containers": [{"resources": {"limits": {"nvidia.com/gpu": "8"}}}]}}


def thing(
    api: str,
    kind: str,
    spec: dict[str, Any],
    status: dict[str, Any] | None = None,
    labels: dict[str, str] | None = None,
) -> dict[str, Any]:
    return {
        "apiVersion": api,
        "kind": kind,
        "metadata": {"name": "x", "namespace": "ml", "labels": labels or {}},
        "spec": spec,
        "status": status or {},
    }


def true(name: str, reason: str, at: str = "2026-08-01T08:00:00Z") -> dict[str, Any]:
    return {"type": name, "status": "True", "reason": reason, "lastTransitionTime": at}


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (
            job(
                "x",
                pods=4,
                status={"conditions": [true("FailureTarget", "BackoffLimitExceeded")]},
                labels={"kueue.x-k8s.io/queue-name": "q"},
            ),
            ("FailureTarget", "BackoffLimitExceeded", 32, "q", 4),
        ),
        (job("x", status={"active": 2}), ("Running", None, 16, None, 2)),
        (
            thing(
                "jobset.x-k8s.io/v1alpha2",
                "JobSet",
                {
                    "replicatedJobs": [
                        {"replicas": 2, "template": {"spec": {"parallelism": 4, "template": GPU}}},
                        {"template": {"spec": {"template": {"spec": {"containers": []}}}}},
                    ]
                },
                {"conditions": [true("Completed", "AllJobsCompleted")]},
            ),
            ("Completed", "AllJobsCompleted", 64, None, 9),
        ),
        (
            thing(
                "trainer.kubeflow.org/v1alpha1",
                "TrainJob",
                {
                    "trainer": {
                        "numNodes": 4,
                        "resourcesPerNode": {"requests": {"nvidia.com/gpu": 8}, "limits": {"nvidia.com/gpu": "8"}},
                    }
                },
                {"conditions": [true("Failed", "DeadlineExceeded")]},
            ),
            ("Failed", "DeadlineExceeded", 32, None, 4),
        ),
        (
            thing(
                "kubeflow.org/v1",
                "PyTorchJob",
                {
                    "pytorchReplicaSpecs": {
                        "Master": {"replicas": 1, "template": GPU},
                        "Worker": {"replicas": 3, "template": GPU},
                    }
                },
                {"conditions": [true("Created", "PyTorchJobCreated"), true("Running", "PyTorchJobRunning")]},
            ),
            ("Running", "PyTorchJobRunning", 32, None, 4),
        ),
        (
            thing(
                "ray.io/v1",
                "RayJob",
                {
                    "rayClusterSpec": {
                        "headGroupSpec": {"template": {}},
                        "workerGroupSpecs": [{"replicas": 2, "template": GPU}],
                    }
                },
                {"jobStatus": "RUNNING", "jobDeploymentStatus": "Failed", "reason": "DeadlineExceeded"},
            ),
            ("Failed", "DeadlineExceeded", 16, None, 3),
        ),
        (
            thing(
                "batch.volcano.sh/v1alpha1",
                "Job",
                {"minAvailable": 3, "queue": "r", "tasks": [{"replicas": 4, "template": GPU}]},
                {"state": {"phase": "Pending"}, "retryCount": 1},
            ),
            ("Pending", None, 32, "r", 3),
        ),
        (
            thing(
                "kueue.x-k8s.io/v1beta2",
                "Workload",
                {"queueName": "q", "podSets": [{"count": 4, "template": GPU}]},
                {"conditions": [{"type": "QuotaReserved", "status": "False", "reason": "WaitingForQuota"}]},
            ),
            ("Pending", "WaitingForQuota", 32, "q", 4),
        ),
        (
            thing(
                "scheduling.volcano.sh/v1beta1",
                "PodGroup",
                {"minMember": 8, "queue": "r"},
                {"phase": "Unknown", "running": 6, "conditions": [{"reason": "NotEnoughResources"}]},
            ),
            ("Unknown", "NotEnoughResources", None, "r", 8),
        ),
    ],
)
def test_workload(tmp_path: Path, body: dict[str, Any], expected: tuple[Any, ...]) -> None:
    found = load(tmp_path, body).jobs[0]
    assert (found.state, found.reason, found.gpus, found.queue, found.fields["min_member"]) == expected
    assert (found.id, found.scheduler, found.namespace, found.kind) == ("ml/x", "kubernetes", "ml", body["kind"])


def test_a_queue_entry_names_the_gang_that_it_is_for(tmp_path: Path) -> None:
    owned = thing("kueue.x-k8s.io/v1beta2", "Workload", {})
    owned["metadata"]["ownerReferences"] = [{"kind": "JobSet", "name": "llm", "controller": True}]
    named = thing("kueue.x-k8s.io/v1beta2", "Workload", {})
    named["metadata"]["name"] = "pytorchjob-vit-1f2c3"
    assert {found.id: found.fields["gang"] for found in load(tmp_path, listing(owned, named, job("a"))).jobs} == {
        "ml/x": "ml/llm",
        "ml/pytorchjob-vit-1f2c3": "ml/vit",
        "ml/a": "ml/a",
    }


def test_pods_alone_tell_of_a_job(tmp_path: Path) -> None:
    case = load(tmp_path, listing(pod("a-0-x", "a", index=0, node="n1"), pod("a-1-x", "a", index=1, node="n2")))
    (found,) = case.jobs
    assert (found.id, found.kind, found.gpus, found.nodes, found.state) == ("ml/a", "Job", 16, ("n1", "n2"), None)
    assert found.fields["pods"] == {"a-0-x": "n1", "a-1-x": "n2"}


def test_service_pods_are_no_jobs(tmp_path: Path) -> None:
    body = pod("exporter-x", "exporter", gpus=0, command=["run"])
    body["metadata"]["labels"] = {}
    body["metadata"]["ownerReferences"] = [{"kind": "DaemonSet", "name": "exporter", "controller": True}]
    assert load(tmp_path, body).jobs == []


def test_end_and_state_come_from_the_newest_dump(tmp_path: Path) -> None:
    old = job("a", status={"active": 2})
    new = job(
        "a", status={"conditions": [true("Complete", "CompletionsReached")], "completionTime": "2026-08-01T09:00:00Z"}
    )
    old["metadata"]["resourceVersion"], new["metadata"]["resourceVersion"] = "10", "20"
    for number, files in enumerate(([old, new], [new, old])):
        folder = tmp_path / str(number)
        folder.mkdir()
        (found,) = load(folder, *files).jobs
        assert (found.state, found.ended) == ("Complete", 1_785_574_800_000_000_000)
