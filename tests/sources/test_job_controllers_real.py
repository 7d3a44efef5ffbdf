"""JobSet, Kubeflow Trainer and KubeRay under their own controllers on a real control plane, alone and in Kueue's queues."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest
from services.kubernetes.workloads import KUEUE, job_set, ray_job, template, train_job, training_runtime
from sources.place import (
    FORMS,
    JOB_SETS,
    RAY_KINDS,
    TRAIN_JOBS,
    Place,
    admitted,
    condition,
    kueue_place,
    lost_node,
    second_waits,
)

pytestmark = [pytest.mark.needs_kubernetes, pytest.mark.xdist_group("kubernetes")]


Submit = Callable[[Place, str], dict[str, Any]]
QUEUED: dict[str, tuple[list[str], int, Submit]] = {
    "jobset": ([JOB_SETS], 2, lambda p, name: job_set(name, p.name, 2, template(p.name, 8), queue="main")),
    "trainjob": ([TRAIN_JOBS, JOB_SETS], 2, lambda p, name: train_job(name, p.name, 2, "torch", queue="main")),
    "rayjob": ([RAY_KINDS], 3, lambda p, name: ray_job(name, p.name, 2, template(p.name, 8), queue="main")),
}
"""Kind of job -> (kinds to collect, pods of a job of 16 GPUs, a job of that name in the queue)."""


@pytest.mark.parametrize("kind", QUEUED)
def test_quota(kueue: None, place: Place, kind: str) -> None:
    kinds, pods, submit = QUEUED[kind]
    place.nodes(3)
    kueue_place(place, 16)
    place.kinds += kinds
    if kind == "trainjob":
        place.cluster.apply(training_runtime("torch", place.name, template(place.name, 8)))
    place.cluster.apply(submit(place, "first"))
    admitted(place, 1)
    place.until("running", lambda: len(place.pods("Running")) == pods)
    place.cluster.apply(submit(place, "second"))
    second_waits(place)


def test_ray_worker_larger_than_any_node(controllers: None, place: Place) -> None:
    place.nodes(2)
    place.kinds = [RAY_KINDS]
    place.cluster.apply(ray_job("huge", place.name, 1, template(place.name, 16)))
    place.until("waits", lambda: condition(place.pods("Pending"), "PodScheduled", "False"))
    place.until_events("FailedScheduling")

    for form, incident in place.agreed("sch.gang_infeasible", "fix_first").items():
        assert "asks for 16 GPUs" in incident.timeline[0].text, form


def test_job_set_out_of_memory(controllers: None, place: Place) -> None:
    nodes = place.nodes(2)
    place.kinds = [JOB_SETS]
    pod = template(place.name, 8, annotations={"aiops-test/exit": "137"})
    place.cluster.apply(job_set("hungry", place.name, 2, pod))
    place.until("failed", lambda: condition(place.list("jobset.x-k8s.io/v1alpha2/jobsets"), "Failed"))

    for form, incident in place.agreed("host.cgroup_oom", "fix_first").items():
        assert incident.culprit.node in (None, *nodes), form


def test_healthy_job_set(controllers: None, place: Place) -> None:
    place.nodes(2)
    place.kinds = [JOB_SETS]
    pod = template(place.name, 8, annotations={"aiops-test/exit": "0"})
    place.cluster.apply(job_set("fine", place.name, 2, pod))
    place.until("complete", lambda: condition(place.list("jobset.x-k8s.io/v1alpha2/jobsets"), "Completed"))
    for form in FORMS:
        assert place.judge(form).verdict == "no_incident", form


def test_image_of_a_train_job(controllers: None, place: Place) -> None:
    place.nodes(1)
    place.kinds = [TRAIN_JOBS, JOB_SETS]
    pod = template(place.name, 8, annotations={"aiops-test/pull": "fail"}, image="registry.example/missing:1")
    place.cluster.apply(training_runtime("torch", place.name, pod), train_job("pull", place.name, 1, "torch"))
    waits = lambda: [  # noqa: E731
        1 for p in place.pods("Pending") for s in p["status"].get("containerStatuses", []) if "waiting" in s["state"]
    ]
    place.until("waits", waits)

    for form, incident in place.agreed("sch.image_pull", "fix_first").items():
        assert incident.culprit.name == "registry.example/missing:1", form


def test_node_lost_under_a_job_set(controllers: None, place: Place) -> None:
    place.nodes(3)
    place.kinds = [JOB_SETS]
    place.cluster.apply(job_set("llm", place.name, 2, template(place.name, 8), restarts=3))
    place.until("running", lambda: len(place.pods("Running")) == 2)
    lost_node(place)


def test_pod_set_of_a_resource_that_the_queue_does_not_have(kueue: None, place: Place) -> None:
    """KubeRay's submitter asks for CPUs, which a queue of GPUs does not give out."""
    place.nodes(2)
    kueue_place(place, 16)
    place.kinds.append(RAY_KINDS)
    submitted = ray_job("llm", place.name, 2, template(place.name, 8), queue="main")
    submitted["spec"].pop("submissionMode")
    place.cluster.apply(submitted)
    place.until("refused", lambda: condition(place.list(f"{KUEUE}/workloads"), "QuotaReserved", "False"))

    for form, incident in place.agreed("sch.constraint_mismatch", "fix_first").items():
        said = incident.timeline[0].text
        assert re.search("no quota for (cpu|memory), which its pod set submitter asks for", said), (form, said)


def test_train_job_out_of_memory(controllers: None, place: Place) -> None:
    place.nodes(2)
    place.kinds = [TRAIN_JOBS, JOB_SETS]
    pod = template(place.name, 8, annotations={"aiops-test/exit": "137"})
    place.cluster.apply(training_runtime("torch", place.name, pod), train_job("llm", place.name, 2, "torch"))
    place.until("failed", lambda: condition(place.list("trainer.kubeflow.org/v1alpha1/trainjobs"), "Failed"))

    for form, incident in place.agreed("host.cgroup_oom", "fix_first").items():
        assert f"{place.name}/llm" in incident.timeline[0].text, form


def test_job_set_that_fails_without_a_word(controllers: None, place: Place) -> None:
    """Exit code 1 and no log: nobody can say why, and no node is blamed."""
    place.nodes(2)
    place.kinds = [JOB_SETS]
    pod = template(place.name, 8, annotations={"aiops-test/exit": "1"})
    place.cluster.apply(job_set("llm", place.name, 2, pod, restarts=2))
    place.until("failed", lambda: condition(place.list("jobset.x-k8s.io/v1alpha2/jobsets"), "Failed"))

    for form in FORMS:
        report = place.judge(form)
        assert report.verdict == "inconclusive" and not report.incidents[0].requeue.exclude, form


def test_ray_worker_on_a_lost_node(controllers: None, place: Place) -> None:
    place.nodes(3)
    place.kinds = [RAY_KINDS]
    place.cluster.apply(ray_job("llm", place.name, 2, template(place.name, 8)))
    place.until("running", lambda: len(place.pods("Running")) == 3)
    lost_node(place, "worker")
