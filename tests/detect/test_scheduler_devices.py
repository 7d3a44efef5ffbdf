"""Claims of devices (DRA): what there is, what is taken, what is tainted, and IMEX domains."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from detect.scheduler_case import find, job, listing, load, node, one, pending, pod

from aiops.model import Role

REFUSED = (
    "0/18 nodes are available: 6 cannot allocate all claims, 12 Insufficient nvidia.com/gpu. preemption: 0/18 nodes"
)
GPU_CLASS = {
    "apiVersion": "resource.k8s.io/v1",
    "kind": "DeviceClass",
    "metadata": {"name": "gpu"},
    "spec": {"selectors": [{"cel": {"expression": "device.driver == 'gpu.nvidia.com'"}}]},
}


def claim(name: str, device: str | None = None, count: int = 1) -> dict[str, Any]:
    request = {"name": "gpu", "exactly": {"deviceClassName": "gpu", "count": count}}
    result = {"request": "gpu", "driver": "gpu.nvidia.com", "pool": "n1", "device": device}
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": {"name": name, "namespace": "ml"},
        "spec": {"devices": {"requests": [request]}},
        "status": {"allocation": {"devices": {"results": [result]}}} if device else {},
    }


def slice_of(driver: str, *devices: str, taint: str = "", generation: int = 1) -> dict[str, Any]:
    taints = {"taints": [{"key": taint, "value": "79", "effect": "NoSchedule"}]} if taint else {}
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceSlice",
        "metadata": {"name": f"n1-{driver}-{generation}-{'-'.join(devices)}"},
        "spec": {
            "driver": driver,
            "nodeName": "n1",
            "pool": {"name": "n1", "generation": generation, "resourceSliceCount": 1},
            "devices": [{"name": device} | taints for device in devices],
        },
    }


def waiting() -> dict[str, Any]:
    body = pod("a-0-x", "a", phase="Pending", status=pending(REFUSED), gpus=0)
    body["spec"]["resourceClaims"] = [{"name": "gpu", "resourceClaimName": "want"}]
    return body


@pytest.mark.parametrize(
    ("objects", "why", "numbers"),
    [
        ([slice_of("other.example", "d0")], "no_slices", {}),
        ([slice_of("gpu.nvidia.com", "gpu-0"), claim("b", "gpu-0")], "busy", {"allocated": 1, "tainted": 0}),
        ([slice_of("gpu.nvidia.com", "gpu-0", taint="gpu.nvidia.com/xid")], "tainted", {"tainted": 1, "devices": 1}),
        ([slice_of("gpu.nvidia.com", "gpu-0", "gpu-1")], "selector", {"devices": 2, "allocated": 0}),
        (
            [
                slice_of("gpu.nvidia.com", "gpu-0", "gpu-1"),
                slice_of("gpu.nvidia.com", "gpu-0", generation=2),
                claim("b", "gpu-0"),
            ],
            "busy",
            {"devices": 1},
        ),
    ],
)
def test_why_a_claim_waits(tmp_path: Path, objects: list[dict[str, Any]], why: str, numbers: dict[str, int]) -> None:
    found = one(load(tmp_path, listing(GPU_CLASS, claim("want"), waiting(), job("a"), *objects)), "sched.claims")
    assert (found.fields["why"], found.job, found.role) == (why, "ml/a", Role.ROOT)
    assert found.fields.items() >= numbers.items()


def test_more_devices_than_any_node_has(tmp_path: Path) -> None:
    objects = [GPU_CLASS, claim("want", count=3), waiting(), slice_of("gpu.nvidia.com", "gpu-0", "gpu-1")]
    found = one(load(tmp_path, listing(*objects)), "sched.claims")
    assert found.fields["why"] == "too_many" and "no node has more than 2" in found.text


def test_devices_of_nodes_that_the_pod_may_not_use_do_not_count(tmp_path: Path) -> None:
    there = slice_of("gpu.nvidia.com", "gpu-0")
    elsewhere = slice_of("gpu.nvidia.com", "gpu-7")
    elsewhere["metadata"]["name"] = "n2"
    elsewhere["spec"].update(nodeName="n2", pool={"name": "n2", "generation": 1, "resourceSliceCount": 1})
    picky = waiting()
    picky["spec"]["nodeSelector"] = {"pool": "h200"}
    nodes = [node("n1"), node("n2")]
    nodes[0]["metadata"]["labels"], nodes[1]["metadata"]["labels"] = {"pool": "h200"}, {"pool": "cpu"}
    objects = [GPU_CLASS, claim("want"), picky, there, elsewhere, claim("b", "gpu-0"), *nodes]
    assert one(load(tmp_path, listing(*objects)), "sched.claims").fields["why"] == "busy"


def test_claims_that_wait_because_all_devices_are_in_use_do_not_blame_the_driver(tmp_path: Path) -> None:
    objects = [slice_of("gpu.nvidia.com", "gpu-0"), claim("b", "gpu-0"), claim("want"), waiting()]
    assert one(load(tmp_path, listing(GPU_CLASS, *objects)), "sched.unschedulable").fields["why"] == "insufficient"


def test_a_pod_that_asks_for_gpus_in_both_ways(tmp_path: Path) -> None:
    both = waiting()
    both["spec"]["containers"][0]["resources"] = {"limits": {"nvidia.com/gpu": "8"}}
    objects = [GPU_CLASS, claim("want"), both, slice_of("gpu.nvidia.com", "gpu-0")]
    nodes = [node("n1", allocatable={"cpu": "192"}), node("n2", allocatable={"nvidia.com/gpu": "8"})]
    found = one(load(tmp_path, listing(*objects, *nodes)), "sched.claims")
    assert found.fields["why"] == "mixed" and "no node offers GPUs in both ways" in found.text


def test_a_class_that_does_not_exist_and_a_taint_rule(tmp_path: Path) -> None:
    wrong = GPU_CLASS | {"metadata": {"name": "other"}}
    assert one(load(tmp_path, listing(wrong, claim("want"), waiting())), "sched.claims").fields["why"] == "no_class"
    rule = {
        "apiVersion": "resource.k8s.io/v1beta2",
        "kind": "DeviceTaintRule",
        "metadata": {"name": "inc-42"},
        "spec": {
            "deviceSelector": {"driver": "gpu.nvidia.com", "pool": "n1", "device": "gpu-0"},
            "taint": {"key": "hw", "value": "xid-79", "effect": "NoSchedule"},
        },
    }
    found = find(
        load(tmp_path, listing(GPU_CLASS, claim("want"), waiting(), rule, slice_of("gpu.nvidia.com", "gpu-0")))
    )
    assert found["sched.claims"][0].fields["why"] == "tainted"
    tainted = found["sched.device_tainted"][0]
    assert tainted.node == "n1" and tainted.role is Role.CONTEXT and "inc-42" in tainted.fields["taints"][0]


def test_compute_domains(tmp_path: Path) -> None:
    nodes = [
        {"name": "n1", "cliqueID": "u.1", "status": "Ready"},
        {"name": "n2", "cliqueID": "u.2", "status": "NotReady"},
    ]
    domain = {
        "apiVersion": "resource.nvidia.com/v1beta1",
        "kind": "ComputeDomain",
        "metadata": {"name": "imex", "namespace": "ml"},
        "spec": {"numNodes": 2},
        "status": {"status": "NotReady", "nodes": nodes},
    }
    found = find(load(tmp_path, listing(domain)))
    assert (found["sched.compute_domain"][0].node, found["sched.compute_domain"][0].name) == ("n2", "imex")
    assert found["sched.clique_split"][0].fields["cliques"] == ("u.1", "u.2")


def test_failed_bindings_of_kai(tmp_path: Path) -> None:
    request = {
        "apiVersion": "scheduling.run.ai/v1alpha2",
        "kind": "BindRequest",
        "metadata": {"name": "b", "namespace": "ml"},
        "spec": {"podName": "a-0-x", "selectedNode": "n3"},
        "status": {"phase": "Failed", "reason": "timed out binding volumes", "failedAttempts": 5},
    }
    found = one(load(tmp_path, listing(request, pod("a-0-x", "a", phase="Pending"))), "sched.bind_failed")
    assert (found.job, found.node, found.fields["attempts"]) == ("ml/a", "n3", 5)
