"""Prose of schedulers and kubelets, where no field tells the same."""

from __future__ import annotations

from pathlib import Path

import pytest
from detect.scheduler_case import NO_GPU, condition, job, load, one

from aiops.detect.scheduler_messages import evicted_for, kueue_refusal, placement_reasons, placement_why
from aiops.model import Severity


@pytest.mark.parametrize(
    ("message", "why"),
    [
        (NO_GPU, "insufficient"),
        (
            "0/9 nodes are available: 3 node(s) had untolerated taint {node-role.kubernetes.io/control-plane: }, "
            "6 cannot allocate all claims. preemption: x",
            "claims",
        ),
        ("0/7 nodes are available: 7 node(s) didn't match Pod's node affinity/selector.", "selector"),
        (
            "0/4 nodes are available: 1 node(s) had untolerated taint {node-role.kubernetes.io/control-plane: }, "
            "3 node(s) didn't match Pod's node affinity/selector.",
            "selector",
        ),
        ("0/4 nodes are available: 4 node(s) had untolerated taint {team: vision}.", "taint"),
        ("0/4 nodes are available: 4 node(s) were unschedulable.", "cordoned"),
        ("0/4 nodes are available: 4 node(s) didn't match pod anti-affinity rules.", "affinity"),
        ("0/4 nodes are available: pod has unbound immediate PersistentVolumeClaims.", "volume"),
        (
            "2/8 tasks in gang unschedulable: pod group is not ready, 2 Pending. Origin reason is w-6: "
            "0/40 nodes are unavailable: 38 Insufficient nvidia.com/gpu, 2 node(s) were unschedulable.",
            "insufficient",
        ),
        ("something new", "other"),
    ],
)
def test_placement_messages(message: str, why: str) -> None:
    assert placement_why(message) == why


def test_placement_reasons_are_counted() -> None:
    assert placement_reasons(NO_GPU) == {"node(s) were unschedulable": 2, "Insufficient nvidia.com/gpu": 6}


def test_kueue_messages_with_several_pod_sets() -> None:
    busy = "insufficient unused quota for nvidia.com/gpu in flavor a, 8 more needed"
    over = "insufficient quota for nvidia.com/gpu in flavor a, request > maximum capacity (16 > 8)"
    first = kueue_refusal(
        f"couldn't assign flavors to pod set m: {busy}; couldn't assign flavors to pod set w: {over}, {busy}"
    )
    assert first.why == "quota", "one flavor could hold pod set w later"
    second = kueue_refusal(
        f"couldn't assign flavors to pod set m: {busy}; couldn't assign flavors to pod set w: {over}"
    )
    assert (second.why, second.pod_set, second.requested, second.limit) == ("infeasible", "w", 16, 8)


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        ("The node was low on resource: ephemeral-storage. Threshold quantity: 1", ("ephemeral-storage", False)),
        ("The node had condition: [PIDPressure]. ", ("pids", False)),
        ("Pod ephemeral local storage usage exceeds the total limit of containers 10Gi. ", ("ephemeral-storage", True)),
        ("unknown", (None, False)),
    ],
)
def test_eviction_messages(message: str, expected: tuple[str | None, bool]) -> None:
    assert evicted_for(message) == expected


def test_severity_follows_role(tmp_path: Path) -> None:
    case = load(tmp_path, job("a", status={"conditions": [condition("Complete", "True", "CompletionsReached")]}))
    assert one(case, "sched.job_completed").severity is Severity.INFO
