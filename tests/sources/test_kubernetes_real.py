"""Faults set on a real Kubernetes control plane: what kubectl collects there, in each of its forms, is judged right."""

from __future__ import annotations

import json
import shlex

import pytest
from services.kubernetes.devices import claim_template, claiming, device_class, resource_slice
from services.kubernetes.workloads import KUEUE, job, local_queue, native_gang, pytorch_job, template
from sources.place import FORMS, KUEUE_KINDS, Place, admitted, condition, kueue_place, lost_node, second_waits

NATIVE = "scheduling.k8s.io/v1alpha2"
pytestmark = [pytest.mark.needs_kubernetes, pytest.mark.xdist_group("kubernetes")]


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


def test_quota(kueue: None, place: Place) -> None:
    place.nodes(3)
    kueue_place(place, 16)
    place.kinds.append("pytorchjobs.kubeflow.org")
    place.cluster.apply(job("first", place.name, 2, template(place.name, 8), queue="main"))
    admitted(place, 1)
    place.until("running", lambda: len(place.pods("Running", "first")) == 2)
    place.cluster.apply(pytorch_job("second", place.name, 2, template(place.name, 8), "main"))
    second_waits(place)


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

    # the command that is offered does what it says: the other gang gets its place
    action = incident.actions[0]
    assert action.requires_approval
    (command,) = action.commands
    place.cluster.kubectl(*shlex.split(command)[1:])
    freed = str(incident.culprit.job).partition("/")[2]
    other = {"left": "right", "right": "left"}[freed]
    place.until("the other gang is whole", lambda: len(place.pods("Running", other)) == 4)


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


def test_native_gang_without_room(place: Place) -> None:
    place.nodes(3)
    place.kinds = ["podgroups.scheduling.k8s.io", "workloads.scheduling.k8s.io"]
    place.cluster.apply(*native_gang("first", place.name, 2, template(place.name, 8)))
    place.until("running", lambda: len(place.pods("Running", "first")) == 2)
    for form in FORMS:
        assert place.judge(form, "running").verdict == "no_incident", form
    place.cluster.apply(*native_gang("second", place.name, 2, template(place.name, 8)))
    place.until("waits", lambda: condition(place.list(f"{NATIVE}/podgroups"), "PodGroupScheduled", "False"))
    place.until_events("FailedScheduling")

    for form, incident in place.agreed("sch.quota", "fix_first").items():
        assert incident.culprit.job == f"{place.name}/second", form
        assert not place.pods("Running", "second"), "all or none"


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


def test_lost_node(place: Place) -> None:
    place.nodes(2)
    place.cluster.apply(job("llm", place.name, 2, template(place.name, 8)))
    place.until("running", lambda: len(place.pods("Running")) == 2)
    lost_node(place)


def test_drained_by_hand(place: Place) -> None:
    names = place.nodes(2)
    place.cluster.apply(job("llm", place.name, 2, template(place.name, 8), backoff=6))
    place.until("running", lambda: len(place.pods("Running")) == 2)
    place.cluster.kubectl("drain", names[0], "--ignore-daemonsets", "--force", "--timeout=60s")
    place.until("waits", lambda: condition(place.pods("Pending"), "PodScheduled", "False"))
    place.until_events("FailedScheduling")

    place.agreed("mnt.planned", "same_nodes")


# devices by claim --------------------------------------------------------------------------------------------------


def claims_place(place: Place, devices: int) -> None:
    """A node whose driver publishes so many GPUs, which pods get by claim."""
    place.kinds = ["resourceclaims.resource.k8s.io", "resourceclaimtemplates.resource.k8s.io"]
    place.cluster_kinds = ["resourceslices.resource.k8s.io"]
    (only,) = place.nodes(1, gpus=0)
    place.cluster.apply(device_class(), resource_slice(only, place.name, devices))
    place.cluster.apply(*(claim_template(f"gpus-{count}", place.name, count) for count in (4, 8)))


def claim_waits(place: Place, name: str, devices: int) -> None:
    place.cluster.apply(job(name, place.name, 1, claiming(template(place.name, 0), f"gpus-{devices}")))
    place.until("waits", lambda: condition(place.pods("Pending"), "PodScheduled", "False"))
    place.until_events("FailedScheduling")


def test_claim_of_more_devices_than_a_node_has(place: Place) -> None:
    claims_place(place, 4)
    claim_waits(place, "big", 8)
    for form, incident in place.agreed("sch.gang_infeasible", "fix_first").items():
        assert "8 are asked for, and no node has more than 4" in incident.timeline[0].text, form


def test_claim_while_another_job_has_the_devices(place: Place) -> None:
    claims_place(place, 4)
    place.cluster.apply(job("first", place.name, 1, claiming(template(place.name, 0), "gpus-4")))
    place.until("running", lambda: len(place.pods("Running")) == 1)
    claim_waits(place, "second", 4)
    for form, incident in place.agreed("sch.quota", "fix_first").items():
        assert incident.culprit.job == f"{place.name}/second", form
        said = [entry.text for entry in incident.timeline]
        assert any("4 devices of gpu.nvidia.com 4 are allocated" in text for text in said), (form, said)
