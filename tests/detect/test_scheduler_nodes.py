"""Kubernetes nodes that go away, come back, or are taken out."""

from __future__ import annotations

from pathlib import Path

from detect.scheduler_case import condition, event, find, listing, load, node, one, pod

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
