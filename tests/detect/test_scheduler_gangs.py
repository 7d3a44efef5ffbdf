"""Gangs that hold GPUs while they wait, and pods that find no place."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from detect.scheduler_case import condition, event, find, job, listing, load, node, one, pending, pod

from aiops.model import Role


def gang(name: str, running: int, total: int, start: int) -> list[dict[str, Any]]:
    return [
        pod(f"{name}-{i}-x", name, index=i, pods=total, node=f"n{start + i}")
        if i < running
        else pod(f"{name}-{i}-x", name, index=i, pods=total, phase="Pending", status=pending())
        for i in range(total)
    ]


def test_two_gangs_that_wait_for_each_other(tmp_path: Path) -> None:
    case = load(tmp_path, listing(*gang("a", 3, 4, 1), *gang("b", 2, 4, 4), job("a", pods=4), job("b", pods=4)))
    found = find(case)
    assert "sched.unschedulable" not in found, "the partial gang says it all"
    first, second = sorted(found["sched.gang_partial"], key=lambda f: f.job or "")
    assert (first.job, first.fields["held"], first.fields["needed"], first.fields["peers"]) == ("ml/a", 3, 4, ("ml/b",))
    assert first.fields["held_gpus"] == 24 and first.nodes == ("n1", "n2", "n3") and first.node is None
    assert second.fields["held"] == 2 and second.role is Role.ROOT
    assert first.fields["missing_gpus"] == 8 and first.fields["peers_hold"] == {"ml/b": 16}
    assert "hold 24 GPUs; the rest, 8 GPUs, finds no place, as with ml/b (holds 16 GPUs)" in first.text
    assert {first.fields["release"], second.fields["release"]} == {"ml/b"}, "fewer GPUs are given up"


def test_one_partial_gang_is_only_unschedulable(tmp_path: Path) -> None:
    found = find(load(tmp_path, listing(*gang("a", 2, 4, 1), *gang("b", 4, 4, 4))))
    assert "sched.gang_partial" not in found
    (finding,) = found["sched.unschedulable"]
    assert (finding.job, finding.fields["why"], finding.fields["pods"]) == ("ml/a", "insufficient", ("a-2-x", "a-3-x"))
    assert finding.count == 2, "one finding for the gang"


def test_gangs_that_are_still_starting(tmp_path: Path) -> None:
    placed = event(
        "Scheduled", "Pod", "a-0-x", "Successfully assigned ml/a-0-x to n1", "2026-08-01T08:00:00Z", type="Normal"
    )
    last = event("Pulled", "Pod", "a-0-x", "ok", "2026-08-01T08:00:20Z", type="Normal")
    case = load(tmp_path, listing(*gang("a", 1, 2, 1), *gang("b", 1, 2, 4), placed, last))
    assert {f.role for f in find(case)["sched.gang_partial"]} == {Role.CONTEXT}


def test_gangs_that_hold_all_gpus_cannot_be_starting(tmp_path: Path) -> None:
    placed = event("Scheduled", "Pod", "a-0-x", "Successfully assigned ml/a-0-x to n1", type="Normal")
    last = event("Pulled", "Pod", "a-0-x", "ok", "2026-08-01T08:00:20Z", type="Normal")
    pods = [*gang("a", 1, 2, 1), *gang("b", 1, 2, 2), placed, last]
    nodes = [node(f"n{i}", allocatable={"nvidia.com/gpu": "8"}) for i in (1, 2)]
    assert {f.role for f in find(load(tmp_path, listing(*pods, *nodes)))["sched.gang_partial"]} == {Role.ROOT}
    room = node("n3", allocatable={"nvidia.com/gpu": "8"})
    found = find(load(tmp_path, listing(*pods, *nodes, room)))["sched.gang_partial"]
    assert {f.role for f in found} == {Role.CONTEXT}, "there is room for the rest"


def test_volcano_phase_unknown_is_a_partial_gang(tmp_path: Path) -> None:
    def group(name: str) -> dict[str, Any]:
        return {
            "apiVersion": "scheduling.volcano.sh/v1beta1",
            "kind": "PodGroup",
            "metadata": {"name": name, "namespace": "ml"},
            "spec": {"minMember": 8, "queue": "r"},
            "status": {
                "phase": "Unknown",
                "running": 6,
                "conditions": [
                    condition(
                        "Unschedulable",
                        "True",
                        "NotEnoughResources",
                        "2/8 tasks in gang unschedulable: pod group is not ready",
                    )
                ],
            },
        }

    found = find(load(tmp_path, listing(group("g1"), group("g2"))))
    assert [(f.job, f.fields["held"], f.fields["needed"]) for f in found["sched.gang_partial"]] == [
        ("ml/g1", 6, 8),
        ("ml/g2", 6, 8),
    ]


def test_pod_larger_than_any_node(tmp_path: Path) -> None:
    small = node("n1", allocatable={"nvidia.com/gpu": "4"}, capacity={"nvidia.com/gpu": "4"})
    case = load(
        tmp_path,
        listing(
            small,
            pod(
                "a-0-x", "a", phase="Pending", status=pending("0/1 nodes are available: 1 Insufficient nvidia.com/gpu.")
            ),
        ),
    )
    found = one(case, "sched.gang_infeasible")
    assert (found.fields["requested"], found.fields["limit"]) == (8, 4)


def test_stale_podgroups_hold_a_reservation(tmp_path: Path) -> None:
    groups = "NAME STATUS MINMEMBER RUNNINGS AGE\n".replace(" ", "   ") + "".join(
        f"pg-{i}   Inqueue   1          {i}h\n" for i in range(10, 16)
    )
    pods = (
        "NAME   READY   STATUS      RESTARTS   AGE\nold    0/1     Completed   0          6h\n"
        "new    0/1     Pending     0          29s\n"
    )
    refused = event("Unschedulable", "PodGroup", "pg-new", "resource in cluster is overused", type="Normal")
    found = find(load(tmp_path, groups, pods, listing(refused)))
    assert found["sched.unschedulable"][0].fields["why"] == "overused"
    assert found["sched.stale_podgroup"][0].fields["podgroups"] == 6


def test_the_gang_to_release_is_the_less_important_one(tmp_path: Path) -> None:
    pods = [*gang("a", 3, 4, 1), *gang("b", 2, 4, 4)]
    for body in pods:
        body["spec"]["priority"] = 1000 if body["metadata"]["name"].startswith("b") else 0
    found = find(load(tmp_path, listing(*pods)))["sched.gang_partial"]
    assert {f.fields["release"] for f in found} == {"ml/a"}


def test_native_pod_groups_of_each_version(tmp_path: Path) -> None:
    """1.35 has groups inside of the Workload, 1.36 on has objects of their own."""

    def member(name: str, i: int, link: dict[str, Any], running: bool) -> dict[str, Any]:
        body = pod(
            f"{name}-{i}", name, node=f"{name}{i}" if running else None, phase="Running" if running else "Pending"
        )
        body["metadata"] |= {"labels": {}, "ownerReferences": []}
        body["spec"] |= link
        return body if running else body | {"status": {"phase": "Pending", **pending()}}

    old = {
        "apiVersion": "scheduling.k8s.io/v1alpha1",
        "kind": "Workload",
        "metadata": {"name": "a", "namespace": "ml"},
        "spec": {"podGroups": [{"name": "w", "policy": {"gang": {"minCount": 3}}}]},
    }
    new = {
        "apiVersion": "scheduling.k8s.io/v1alpha2",
        "kind": "PodGroup",
        "metadata": {"name": "b", "namespace": "ml"},
        "spec": {"schedulingPolicy": {"gang": {"minCount": 3}}},
    }
    pods = [member("a", i, {"workloadRef": {"name": "a", "podGroup": "w"}}, i < 2) for i in range(3)]
    pods += [member("b", i, {"schedulingGroup": {"podGroupName": "b"}}, i < 1) for i in range(3)]
    found = {f.job: f for f in find(load(tmp_path, listing(old, new, *pods)))["sched.gang_partial"]}
    assert {job: (f.fields["held"], f.fields["needed"]) for job, f in found.items()} == {"ml/a": (2, 3), "ml/b": (1, 3)}


def test_a_native_group_that_was_refused(tmp_path: Path) -> None:
    said = condition(
        "PodGroupInitiallyScheduled", "False", "Unschedulable", "minCount (8) cannot be satisfied: 6 scheduled"
    )
    group = {
        "apiVersion": "scheduling.k8s.io/v1beta1",
        "kind": "PodGroup",
        "metadata": {"name": "g-0", "namespace": "ml"},
        "spec": {"workloadRef": {"workloadName": "llm"}, "schedulingPolicy": {"gang": {"minCount": 8}}},
        "status": {"conditions": [said]},
    }
    found = one(load(tmp_path, listing(group)), "sched.unschedulable")
    assert (found.job, found.fields["why"]) == ("ml/llm", "gang")


def test_events_of_a_wait_that_is_over_do_not_count(tmp_path: Path) -> None:
    group = {
        "apiVersion": "scheduling.volcano.sh/v1beta1",
        "kind": "PodGroup",
        "metadata": {"name": "sft-1", "namespace": "t", "creationTimestamp": "2026-08-01T08:00:00Z"},
        "spec": {"minMember": 2, "queue": "q"},
        "status": {"phase": "Running", "running": 2},
    }
    said = "2/2 tasks in gang unschedulable: pod group is not ready, 2 Pending, 2 minAvailable."
    refused = event("Unschedulable", "PodGroup", "sft-1", said, namespace="t")
    assert "sched.unschedulable" in find(load(tmp_path, listing(refused)))
    assert "sched.unschedulable" not in find(load(tmp_path, listing(group, refused)))


def test_a_lone_gang_of_which_nobody_says_what_it_lacks(tmp_path: Path) -> None:
    def group(said: str) -> dict[str, Any]:
        state = condition("Unschedulable", "True", "NotEnoughResources", said) | {
            "lastTransitionTime": "2026-08-01T08:00:00Z"
        }
        return {
            "apiVersion": "scheduling.volcano.sh/v1beta1",
            "kind": "PodGroup",
            "metadata": {"name": "g1", "namespace": "ml"},
            "spec": {"minMember": 16, "queue": "r"},
            "status": {"phase": "Unknown", "running": 15, "conditions": [state]},
        }

    bare = "1/16 tasks in gang unschedulable: pod group is not ready, 1 Pending, 15 Running, 16 minAvailable"
    why = f"{bare}. Origin reason is w-15: 0/16 nodes are unavailable: 16 Insufficient nvidia.com/gpu."

    def told(said: str, until: str) -> dict[str, Any]:
        seen = event("Unschedulable", "PodGroup", "g1", said, until, namespace="ml")
        return find(load(tmp_path, listing(group(said), seen)))

    (found,) = told(bare, "2026-08-01T09:00:00Z")["sched.gang_partial"]
    assert (found.job, found.fields["held"], found.fields["needed"], found.node) == ("ml/g1", 15, 16, None)
    assert "sched.gang_partial" not in told(bare, "2026-08-01T08:02:00Z"), "its controller may still make it whole"
    stated = told(why, "2026-08-01T09:00:00Z")
    assert "sched.gang_partial" not in stated and stated["sched.unschedulable"][0].fields["why"] == "insufficient"
