"""GPUs that are there but cannot be had."""

from __future__ import annotations

from pathlib import Path

from detect.scheduler_case import find, listing, load, node, one, pending, pod


def machine(name: str, capacity: int = 8, allocatable: int = 8) -> dict[str, object]:
    body = node(name)
    body["status"]["capacity"] = {"nvidia.com/gpu": str(capacity)}
    body["status"]["allocatable"] = {"nvidia.com/gpu": str(allocatable)}
    return body


def test_free_gpus_on_no_single_node(tmp_path: Path) -> None:
    waits = pod("big-0-x", "big", phase="Pending", status=pending())
    case = load(
        tmp_path,
        listing(
            machine("n1"),
            machine("n2"),
            pod("a-0-x", "a", gpus=4, node="n1"),
            pod("b-0-x", "b", gpus=4, node="n2"),
            waits,
        ),
    )
    found = one(case, "sched.fragmentation")
    assert found.fields["free"] == {"n1": 4, "n2": 4} and found.fields["block"] == 8


def test_a_full_cluster_is_not_fragmented(tmp_path: Path) -> None:
    waits = pod("big-0-x", "big", phase="Pending", status=pending())
    case = load(tmp_path, listing(machine("n1"), pod("a-0-x", "a", gpus=4, node="n1"), waits))
    assert "sched.fragmentation" not in find(case)


def test_a_gpu_that_the_plugin_hides(tmp_path: Path) -> None:
    waits = pod("big-0-x", "big", phase="Pending", status=pending())
    case = load(tmp_path, listing(machine("n1", 8, 7), waits))
    found = one(case, "sched.plugin_stale")
    assert (found.node, found.fields["capacity"], found.fields["allocatable"]) == ("n1", 8, 7)
