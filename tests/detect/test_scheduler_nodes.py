"""Kubernetes nodes that go away, come back, or are taken out."""

from __future__ import annotations

from pathlib import Path

from detect.scheduler_case import condition, event, find, job, listing, load, node, one, pod

from aiops.detect.scheduler_messages import oom_victim
from aiops.model import Role


def test_lost_node_under_a_job(tmp_path: Path) -> None:
    gone = node("n1", "Unknown")
    gone["spec"]["taints"] = [
        {"key": "node.kubernetes.io/unreachable", "effect": "NoExecute", "timeAdded": "2026-08-01T08:00:00Z"}
    ]
    case = load(
        tmp_path,
        listing(
            gone,
            node("n2"),
            pod("a-0-x", "a", node="n1"),
            pod("a-1-x", "a", index=1, node="n2"),
            event("NodeNotReady", "Node", "n1", "Node n1 status is now: NodeNotReady", type="Normal"),
            event("NodeNotReady", "Pod", "a-0-x", "Node is not ready"),
        ),
    )
    found = one(case, "sched.node_fail")
    assert (found.role, found.node, found.job, found.count) == (Role.ROOT, "n1", "ml/a", 4)
    assert found.fields["of_job"] is True and found.fields["recovered"] is False


def test_flap_of_a_foreign_node_is_background(tmp_path: Path) -> None:
    case = load(
        tmp_path,
        listing(
            pod("a-0-x", "a", node="n2", pods=1),
            event("NodeNotReady", "Node", "n1", "not ready", "2026-08-01T08:00:00Z"),
            event("NodeReady", "Node", "n1", "ready", "2026-08-01T08:00:05Z"),
        ),
    )
    found = one(case, "sched.node_fail")
    assert (found.role, found.fields["of_job"], found.fields["recovered"]) == (Role.CONTEXT, False, True)


def test_reboot_cordon_and_health_checks(tmp_path: Path) -> None:
    cordoned = node("n2")
    cordoned["spec"]["unschedulable"] = True
    checked = node("n3")
    checked["status"]["conditions"].append(condition("GpuXidError", "True", "CriticalXid", "Xid 79"))
    short = node("n4", capacity={"nvidia.com/gpu": "8"}, allocatable={"nvidia.com/gpu": "7"})
    case = load(
        tmp_path,
        listing(cordoned, checked, short, event("Rebooted", "Node", "n1", "Node n1 has been rebooted, boot id: 1")),
    )
    found = find(case)
    assert found["sched.node_reboot"][0].node == "n1" and found["sched.node_reboot"][0].role is Role.ROOT
    assert found["sched.node_drained"][0].node == "n2"
    assert found["sched.node_problem"][0].fields["message"] == "Xid 79"
    assert found["sched.device_missing"][0].fields["allocatable"] == 7
    assert {found[sign][0].role for sign in ("sched.node_drained", "sched.node_problem", "sched.device_missing")} == {
        Role.CONTEXT
    }


def test_kernel_oom_event_on_a_node(tmp_path: Path) -> None:
    message = "Memory cgroup out of memory: Killed process 17204 (python) total-vm:81231244kB"
    found = one(load(tmp_path, listing(event("OOMKilling", "Node", "n1", message))), "sched.oom_killed")
    assert (found.node, found.fields["pid"], found.fields["process"]) == ("n1", 17204, "python")
    assert oom_victim("System OOM encountered, victim process: ray::IDLE, pid: 5") == (5, "ray::IDLE")


def test_a_node_emptied_by_hand_is_maintenance_unless_it_is_ill(tmp_path: Path) -> None:
    cordoned = node("n1")
    cordoned["spec"] = {"unschedulable": True}
    moved = condition("DisruptionTarget", "True", "EvictionByEvictionAPI", "Eviction API: evicting")
    evicted = pod("a-0-x", "a", node="n1", status={"conditions": [moved]})
    found = one(load(tmp_path, listing(cordoned, evicted)), "sched.node_drained")
    assert (found.role, found.job, found.fields["emptied"]) == (Role.ROOT, "ml/a", True)
    cordoned["status"]["conditions"].append(condition("GpuXidError", "True", "CriticalXid", "Xid 79"))
    assert one(load(tmp_path, listing(cordoned, evicted)), "sched.node_drained").role is Role.CONTEXT


def test_pods_that_ended_just_after_the_cordon_were_drained(tmp_path: Path) -> None:
    cordoned = node("n1")
    taint = {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule", "timeAdded": "2026-08-01T08:00:00Z"}
    cordoned["spec"] = {"unschedulable": True, "taints": [taint]}
    placed = event("Scheduled", "Pod", "a-0-x2k9z", "Successfully assigned ml/a-0-x2k9z to n1", "2026-08-01T06:00:00Z")
    killed = event("Killing", "Pod", "a-0-x2k9z", "Stopping container main", "2026-08-01T08:00:20Z", type="Normal")
    assert (
        one(load(tmp_path, listing(cordoned, job("a"), placed, killed)), "sched.node_drained").fields["emptied"] is True
    )
    early = killed | {"lastTimestamp": "2026-08-01T07:00:00Z"}
    assert (
        one(load(tmp_path, listing(cordoned, job("a"), placed, early)), "sched.node_drained").fields["emptied"] is False
    )


def test_the_taint_manager_only_carries_out_what_the_node_suffered(tmp_path: Path) -> None:
    said = condition(
        "DisruptionTarget", "True", "DeletionByTaintManager", "Taint manager: deleting due to NoExecute taint"
    )
    found = one(load(tmp_path, listing(pod("a-0-x", "a", node="n1", status={"conditions": [said]}))), "sched.evicted")
    assert (found.role, found.fields["by"]) == (Role.ECHO, "taint manager")
