"""Faults set on a real Kubernetes control plane: what kubectl collects there, in each of its forms, is judged right."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from services.kubernetes.cluster import KubernetesCluster
from services.kubernetes.crds import install_crds
from services.kubernetes.job_controllers import start_jobset, start_kuberay, start_trainer
from services.kubernetes.kueue import start_kueue
from services.kubernetes.workloads import (
    cluster_queue,
    job,
    job_set,
    local_queue,
    node,
    pytorch_job,
    ray_job,
    template,
    train_job,
    training_runtime,
)
from services.need import need_kubernetes

from aiops.model.report import Incident, Report
from aiops.pipeline import analyze_paths

pytestmark = [pytest.mark.needs_kubernetes, pytest.mark.xdist_group("kubernetes")]

JOB_SETS = "jobsets.jobset.x-k8s.io"
TRAIN_JOBS = "trainjobs.trainer.kubeflow.org"
RAY_KINDS = "rayjobs.ray.io,rayclusters.ray.io"
KUEUE_KINDS = "workloads.kueue.x-k8s.io,localqueues.kueue.x-k8s.io"
FORMS = ("json", "yaml", "text")


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KubernetesCluster]:
    need_kubernetes()
    with KubernetesCluster(tmp_path_factory.mktemp("kubernetes")) as running:
        yield running


@pytest.fixture(scope="module")
def controllers(cluster: KubernetesCluster) -> None:
    """The controllers of JobSet, Kubeflow Trainer and KubeRay, and the schema of PyTorchJob."""
    install_crds(cluster, "jobset", "pytorchjob", "trainjob", "rayjob")
    start_jobset(cluster)
    start_trainer(cluster)
    start_kuberay(cluster)


@pytest.fixture(scope="module")
def kueue(cluster: KubernetesCluster, controllers: None) -> None:
    start_kueue(cluster, frameworks=("jobset", "pytorchjob", "trainjob", "rayjob"), ready_within="15s")


@dataclass
class Place:
    """A namespace with nodes of its own, so that faults do not meet each other."""

    cluster: KubernetesCluster
    name: str
    folder: Path
    kinds: list[str] = field(default_factory=list)
    queues: list[str] = field(default_factory=list)

    def nodes(self, count: int, gpus: int = 8, **more: Any) -> list[str]:
        names = [f"{self.name}-n{i + 1}" for i in range(count)]
        self.cluster.apply(*(node(name, self.name, gpus, **more) for name in names))
        for name in names:
            self.cluster.wait(f"node {name}", lambda name=name: self._open(name))
        return names

    def _open(self, name: str) -> bool:
        body = self.cluster.api("GET", f"/api/v1/nodes/{name}")
        ready = any(c["type"] == "Ready" and c["status"] == "True" for c in body["status"].get("conditions") or [])
        return ready and not any("not-ready" in t["key"] for t in body["spec"].get("taints") or [])

    def list(self, path: str) -> list[dict[str, Any]]:
        group, _, kind = path.rpartition("/")
        base = f"/apis/{group}" if group else "/api/v1"
        return self.cluster.api("GET", f"{base}/namespaces/{self.name}/{kind}")["items"]

    def pods(self, phase: str, owner: str = "") -> list[dict[str, Any]]:
        return [
            pod
            for pod in self.list("pods")
            if pod["status"].get("phase") == phase
            and (not owner or pod["metadata"]["labels"].get("batch.kubernetes.io/job-name") == owner)
        ]

    def until(self, what: str, test: Callable[[], Any], timeout: float = 60) -> Any:
        return self.cluster.wait(f"{self.name}: {what}", test, timeout)

    def until_events(self, *reasons: str) -> None:
        """Events come after the state that they tell of."""
        seen = lambda: {event["reason"] for event in self.list("events")}  # noqa: E731
        self.until(f"events {reasons}", lambda: set(reasons) <= seen())

    def collect(self, form: str) -> Path:
        """What a person on call would collect, in one of the forms."""
        out = self.folder / form
        out.mkdir()
        kinds = ",".join(["pods", "jobs", *self.kinds])
        here, pool = ("-n", self.name), ("-l", f"pool={self.name}")
        if form == "text":
            commands = {
                "describe.txt": ("describe", kinds, *here),
                "nodes-described.txt": ("describe", "nodes", *pool),
                "wide.txt": ("get", kinds, *here, "-o", "wide"),
                "nodes.txt": ("get", "nodes", *pool, "-o", "wide"),
                "events.txt": ("get", "events", *here),
            }
            if self.queues:
                commands["queues.txt"] = ("describe", "clusterqueues.kueue.x-k8s.io", *self.queues)
        else:
            # the two APIs of events, one each
            events = "events" if form == "json" else "events.events.k8s.io"
            commands = {
                "objects": ("get", kinds, *here, "-o", form),
                "events": ("get", events, *here, "-o", form),
                "nodes": ("get", "nodes", *pool, "-o", form),
            }
            if self.queues:
                commands["queues"] = ("get", "clusterqueues.kueue.x-k8s.io", *self.queues, "-o", form)
        for name, command in commands.items():
            (out / name).write_text(self.cluster.kubectl(*command))
        return out

    def judge(self, form: str) -> Report:
        return analyze_paths([self.collect(form)])

    def agreed(self, failure_class: str, requeue: str, *, forms: tuple[str, ...] = FORMS) -> dict[str, Incident]:
        """The first incident of each form of collection; fails unless all of them give this class and advice."""
        found = {}
        for form in forms:
            report = self.judge(form)
            assert report.verdict == "incident", (form, report.verdict, [i.title for i in report.incidents])
            first = report.incidents[0]
            assert (first.failure_class, first.requeue.verdict) == (failure_class, requeue), (form, first.title)
            assert not report.coverage.problems, (form, report.coverage.problems)
            found[form] = first
        return found


@pytest.fixture
def place(cluster: KubernetesCluster, tmp_path: Path, request: pytest.FixtureRequest) -> Place:
    name = re.sub(r"[^a-z]+", "-", request.node.name.removeprefix("test_")).strip("-")
    cluster.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
    account = f"/api/v1/namespaces/{name}/serviceaccounts/default"
    cluster.wait(f"service account of {name}", lambda: cluster.api("GET", account))
    return Place(cluster, name, tmp_path)


def condition(items: list[dict[str, Any]], kind: str, status: str = "True") -> list[dict[str, Any]]:
    """Objects that have a condition in this status."""
    return [
        item
        for item in items
        if any(c["type"] == kind and c["status"] == status for c in item.get("status", {}).get("conditions") or [])
    ]


# what is well ------------------------------------------------------------------------------------------------------


def test_healthy_job(place: Place) -> None:
    place.nodes(2)
    place.cluster.apply(job("fine", place.name, 2, template(place.name, 8, annotations={"aiops-test/exit": "0"})))
    place.until("complete", lambda: condition(place.list("batch/v1/jobs"), "Complete"))
    for form in FORMS:
        assert place.judge(form).verdict == "no_incident", form


def test_running_job(place: Place) -> None:
    place.nodes(2)
    place.cluster.apply(job("runs", place.name, 2, template(place.name, 8)))
    place.until("running", lambda: len(place.pods("Running")) == 2)
    for form in FORMS:
        assert place.judge(form).verdict == "no_incident", form


# waiting -----------------------------------------------------------------------------------------------------------


def kueue_place(place: Place, gpus: int, **spec: Any) -> None:
    place.kinds, place.queues = [KUEUE_KINDS], [place.name]
    place.cluster.apply(cluster_queue(place.name, gpus, **spec), local_queue("main", place.name, place.name))


def admitted(place: Place, count: int) -> None:
    place.until(f"{count} admitted", lambda: len(condition(place.list(f"{KUEUE}/workloads"), "Admitted")) == count)


KUEUE = "kueue.x-k8s.io/v1beta2"


def test_quota(kueue: None, place: Place) -> None:
    place.nodes(3)
    kueue_place(place, 16)
    place.kinds.append("pytorchjobs.kubeflow.org")
    place.cluster.apply(job("first", place.name, 2, template(place.name, 8), queue="main"))
    admitted(place, 1)
    place.until("running", lambda: len(place.pods("Running", "first")) == 2)
    place.cluster.apply(pytorch_job("second", place.name, 2, template(place.name, 8), "main"))
    place.until("refused", lambda: condition(place.list(f"{KUEUE}/workloads"), "QuotaReserved", "False"))
    place.until_events("Pending")
    path = f"/apis/{KUEUE}/clusterqueues/{place.name}"
    place.until("counted", lambda: '"total": "16"' in json.dumps(place.cluster.api("GET", path)["status"]))

    for form, incident in place.agreed("sch.quota", "fix_first").items():
        assert (incident.culprit.kind, incident.culprit.job) == ("scheduler", f"{place.name}/second"), form
        assert "asks for 16" in incident.timeline[0].text and "16 of 16 in use" in incident.timeline[0].text, form


def test_partial_gangs(place: Place) -> None:
    place.nodes(6)
    for name in ("left", "right"):
        place.cluster.apply(job(name, place.name, 3, template(place.name, 8)))
        place.until(f"{name} runs", lambda name=name: len(place.pods("Running", name)) == 3)
    for name in ("left", "right"):
        grown = json.dumps({"spec": {"parallelism": 4, "completions": 4}})
        place.cluster.kubectl("-n", place.name, "patch", "job", name, "--type=merge", "-p", grown)
    place.until("both wait", lambda: len(condition(place.pods("Pending"), "PodScheduled", "False")) == 2)

    for form, incident in place.agreed("sch.gang_partial", "fix_first").items():
        said = incident.timeline[0].text
        assert "3 of 4 pods" in said and "hold 24 GPUs" in said and "(holds 24 GPUs)" in said, (form, said)
        assert incident.actions[0].action == "release_gang", form


def test_full_cluster(place: Place) -> None:
    place.nodes(1)
    place.cluster.apply(job("first", place.name, 1, template(place.name, 8)))
    place.until("running", lambda: len(place.pods("Running")) == 1)
    place.cluster.apply(job("second", place.name, 1, template(place.name, 8)))
    place.until("waits", lambda: condition(place.pods("Pending"), "PodScheduled", "False"))
    place.until_events("FailedScheduling")

    for form, incident in place.agreed("sch.quota", "fix_first").items():
        assert incident.culprit.job == f"{place.name}/second", form


def test_pod_larger_than_any_node(place: Place) -> None:
    place.nodes(2)
    place.cluster.apply(job("huge", place.name, 1, template(place.name, 16)))
    place.until("waits", lambda: condition(place.pods("Pending"), "PodScheduled", "False"))
    place.until_events("FailedScheduling")

    for form, incident in place.agreed("sch.gang_infeasible", "fix_first").items():
        assert "asks for 16 GPUs" in incident.timeline[0].text, form


@pytest.mark.parametrize("fault", ["selector", "taint"])
def test_constraints(place: Place, fault: str) -> None:
    taints = [{"key": "team", "value": "vision", "effect": "NoSchedule"}] if fault == "taint" else []
    place.nodes(1, taints=taints)
    selector = {"nvidia.com/gpu.product": "NVIDIA-B300"} if fault == "selector" else {}
    place.cluster.apply(job("picky", place.name, 1, template(place.name, 8, selector=selector)))
    place.until("waits", lambda: condition(place.pods("Pending"), "PodScheduled", "False"))
    place.until_events("FailedScheduling")

    for form, incident in place.agreed("sch.constraint_mismatch", "fix_first").items():
        assert incident.culprit.kind == "config", form


def test_queue_without_cluster_queue(kueue: None, place: Place) -> None:
    place.nodes(1)
    place.kinds = [KUEUE_KINDS]
    place.cluster.apply(local_queue("main", place.name, "not-there"))
    place.cluster.apply(job("waits", place.name, 1, template(place.name, 8), queue="main"))
    place.until("refused", lambda: condition(place.list(f"{KUEUE}/workloads"), "QuotaReserved", "False"))

    for form, incident in place.agreed("sch.constraint_mismatch", "fix_first").items():
        assert "not-there" in incident.timeline[0].text, form


def test_stopped_queue(kueue: None, place: Place) -> None:
    place.nodes(1)
    kueue_place(place, 16, stopPolicy="Hold")
    place.cluster.apply(job("waits", place.name, 1, template(place.name, 8), queue="main"))
    place.until("refused", lambda: condition(place.list(f"{KUEUE}/workloads"), "QuotaReserved", "False"))

    for form, incident in place.agreed("sch.constraint_mismatch", "fix_first").items():
        assert incident.culprit.name == place.name and "stopped" in incident.timeline[0].text, form


def test_pods_never_ready(kueue: None, place: Place) -> None:
    place.nodes(1)
    kueue_place(place, 16)
    pod = template(place.name, 8, annotations={"aiops-test/unready": "true"})
    place.cluster.apply(job("stuck", place.name, 1, pod, queue="main"))
    admitted(place, 1)
    evicted = lambda: [  # noqa: E731
        c
        for item in condition(place.list(f"{KUEUE}/workloads"), "Evicted")
        for c in item["status"]["conditions"]
        if c["type"] == "Evicted" and c["reason"] == "PodsReadyTimeout"
    ]
    place.until("evicted", evicted, timeout=60)

    place.agreed("sch.podsready_timeout", "fix_first")


def second_waits(place: Place) -> None:
    """What a second job meets in a queue of 16 GPUs whose first job holds them all."""
    place.until("refused", lambda: condition(place.list(f"{KUEUE}/workloads"), "QuotaReserved", "False"))
    place.until_events("Pending")
    path = f"/apis/{KUEUE}/clusterqueues/{place.name}"
    place.until("counted", lambda: '"total": "16"' in json.dumps(place.cluster.api("GET", path)["status"]))
    for form, incident in place.agreed("sch.quota", "fix_first").items():
        assert (incident.culprit.kind, incident.culprit.job) == ("scheduler", f"{place.name}/second"), form
        assert "asks for 16" in incident.timeline[0].text and "16 of 16 in use" in incident.timeline[0].text, form


def test_quota_of_job_sets(kueue: None, place: Place) -> None:
    place.nodes(3)
    kueue_place(place, 16)
    place.kinds.append(JOB_SETS)
    place.cluster.apply(job_set("first", place.name, 2, template(place.name, 8), queue="main"))
    admitted(place, 1)
    place.until("running", lambda: len(place.pods("Running")) == 2)
    place.cluster.apply(job_set("second", place.name, 2, template(place.name, 8), queue="main"))
    second_waits(place)


def test_quota_of_train_jobs(kueue: None, place: Place) -> None:
    place.nodes(3)
    kueue_place(place, 16)
    place.kinds += [TRAIN_JOBS, JOB_SETS]
    place.cluster.apply(training_runtime("torch", place.name, template(place.name, 8)))
    place.cluster.apply(train_job("first", place.name, 2, "torch", queue="main"))
    admitted(place, 1)
    place.until("running", lambda: len(place.pods("Running")) == 2)
    place.cluster.apply(train_job("second", place.name, 2, "torch", queue="main"))
    second_waits(place)


def test_quota_of_ray_jobs(kueue: None, place: Place) -> None:
    place.nodes(3)
    kueue_place(place, 16)
    place.kinds.append(RAY_KINDS)
    place.cluster.apply(ray_job("first", place.name, 2, template(place.name, 8), queue="main"))
    admitted(place, 1)
    place.until("running", lambda: len(place.pods("Running")) == 3)
    place.cluster.apply(ray_job("second", place.name, 2, template(place.name, 8), queue="main"))
    second_waits(place)


def test_ray_worker_larger_than_any_node(controllers: None, place: Place) -> None:
    place.nodes(2)
    place.kinds = [RAY_KINDS]
    place.cluster.apply(ray_job("huge", place.name, 1, template(place.name, 16)))
    place.until("waits", lambda: condition(place.pods("Pending"), "PodScheduled", "False"))
    place.until_events("FailedScheduling")

    for form, incident in place.agreed("sch.gang_infeasible", "fix_first").items():
        assert "asks for 16 GPUs" in incident.timeline[0].text, form


# starting and stopping ---------------------------------------------------------------------------------------------


def test_image_cannot_be_pulled(place: Place) -> None:
    place.nodes(1)
    pod = template(place.name, 8, annotations={"aiops-test/pull": "fail"}, image="registry.example/missing:1")
    place.cluster.apply(job("pull", place.name, 1, pod))
    waits = lambda: [  # noqa: E731
        1 for p in place.pods("Pending") for s in p["status"].get("containerStatuses", []) if "waiting" in s["state"]
    ]
    place.until("waits", waits)

    for form, incident in place.agreed("sch.image_pull", "fix_first").items():
        assert incident.culprit.name == "registry.example/missing:1", form


def test_out_of_memory(place: Place) -> None:
    nodes = place.nodes(1)
    pod = template(place.name, 8, annotations={"aiops-test/exit": "137"})
    place.cluster.apply(job("hungry", place.name, 1, pod))
    place.until("failed", lambda: condition(place.list("batch/v1/jobs"), "Failed"))

    for form, incident in place.agreed("host.cgroup_oom", "fix_first").items():
        assert incident.culprit.node in (None, nodes[0]), form


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


def test_kueue_preemption(kueue: None, place: Place) -> None:
    place.nodes(2)
    kueue_place(place, 16, preemption={"withinClusterQueue": "LowerPriority"})
    classes = {"urgent": 1000, "later": 10}
    for name, value in classes.items():
        body = {"apiVersion": KUEUE, "kind": "WorkloadPriorityClass", "metadata": {"name": name}, "value": value}
        place.cluster.apply(body)
    place.cluster.apply(job("low", place.name, 2, template(place.name, 8), queue="main", priority="later"))
    place.until("low runs", lambda: len(place.pods("Running", "low")) == 2)
    place.cluster.apply(job("high", place.name, 2, template(place.name, 8), queue="main", priority="urgent"))
    place.until("high runs", lambda: len(place.pods("Running", "high")) == 2)
    place.until("low waits", lambda: condition(place.list(f"{KUEUE}/workloads"), "Preempted"))

    for form, incident in place.agreed("sch.preempted", "same_nodes").items():
        said = incident.timeline[0].text
        assert f"{place.name}/low was preempted by {place.name}/high" in said and "16 GPUs" in said, (form, said)


def test_scheduler_preemption(place: Place) -> None:
    place.nodes(1)
    for name, value in (("real-high", 1000), ("real-low", 1)):
        body = {
            "apiVersion": "scheduling.k8s.io/v1",
            "kind": "PriorityClass",
            "metadata": {"name": name},
            "value": value,
        }
        place.cluster.apply(body)
    place.cluster.apply(job("low", place.name, 1, template(place.name, 8, priority_class="real-low"), backoff=6))
    place.until("low runs", lambda: len(place.pods("Running", "low")) == 1)
    place.cluster.apply(job("high", place.name, 1, template(place.name, 8, priority_class="real-high")))
    place.until("high runs", lambda: len(place.pods("Running", "high")) == 1)
    place.until_events("Preempted")

    for form, incident in place.agreed("sch.preempted", "same_nodes").items():
        said = incident.timeline[0].text
        # a description has no uid by which the preemptor is known
        assert f"{place.name}/low" in said and (form == "text" or f"by {place.name}/high" in said), (form, said)


# nodes -------------------------------------------------------------------------------------------------------------


def lost_node(place: Place) -> None:
    """One of the two nodes of a running job vanishes."""
    place.until("running", lambda: len(place.pods("Running")) == 2)
    lost = place.pods("Running")[0]["spec"]["nodeName"]
    place.cluster.node_down(lost)

    def given_up() -> bool:
        return any(p["metadata"].get("deletionTimestamp") for p in place.list("pods") if p["spec"]["nodeName"] == lost)

    place.until("node lost and pods given up", given_up, timeout=90)
    for form in FORMS:
        report = place.judge(form)
        first = report.incidents[0]
        assert report.verdict == "incident" and first.culprit.node == lost, (form, first.title)
        assert first.requeue.verdict == "exclude_nodes" and first.requeue.exclude == [lost], form


def test_lost_node(place: Place) -> None:
    place.nodes(2)
    place.cluster.apply(job("llm", place.name, 2, template(place.name, 8)))
    lost_node(place)


def test_node_lost_under_a_job_set(controllers: None, place: Place) -> None:
    place.nodes(3)
    place.kinds = [JOB_SETS]
    place.cluster.apply(job_set("llm", place.name, 2, template(place.name, 8), restarts=3))
    lost_node(place)


def test_drained_by_hand(place: Place) -> None:
    names = place.nodes(2)
    place.cluster.apply(job("llm", place.name, 2, template(place.name, 8), backoff=6))
    place.until("running", lambda: len(place.pods("Running")) == 2)
    place.cluster.kubectl("drain", names[0], "--ignore-daemonsets", "--force", "--timeout=60s")
    place.until("waits", lambda: condition(place.pods("Pending"), "PodScheduled", "False"))
    place.until_events("FailedScheduling")

    place.agreed("mnt.planned", "same_nodes")
