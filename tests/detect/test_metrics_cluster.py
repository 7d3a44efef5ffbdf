"""kube-state-metrics: nodes that were lost and containers that ended, where no object and no event was collected."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import pytest
from metrics_fleet import STEP, T0, add, find

from aiops.config import Settings, default_cache_dir
from aiops.model import Case, Finding, Role
from aiops.pipeline import analyze_paths

Row = tuple[str, dict[str, str], Sequence[float | None]]


def cluster(folder: Path, *rows: Row, monitor: str = "10.2.1.9:8080") -> list[Finding]:
    result = [
        {
            "metric": {"__name__": name, "instance": monitor, "job": "kube-state-metrics", **labels},
            "values": [[T0 + STEP * i, f"{value:g}"] for i, value in enumerate(values) if value is not None],
        }
        for name, labels, values in rows
    ]
    case = Case(root=str(folder))
    add(
        case, folder / "ksm.json", json.dumps({"status": "success", "data": {"resultType": "matrix", "result": result}})
    )
    return [finding for finding in find(case) if finding.sign.startswith("sched.")]


def ready(node: str, lost: range, samples: int = 30) -> list[Row]:
    """The three series of the condition Ready, as the exporter writes them."""
    return [
        (
            "kube_node_status_condition",
            {"node": node, "condition": "Ready", "status": status},
            [float((i in lost) == (status == "unknown") and status != "false") for i in range(samples)],
        )
        for status in ("true", "false", "unknown")
    ]


def ended(pod: str, since: int, owner: str, samples: int = 30) -> list[Row]:
    labels = {"namespace": "t", "pod": pod, "container": "main"}
    reason = "kube_pod_container_status_last_terminated_reason"
    return [
        ("kube_pod_info", {"namespace": "t", "pod": pod, "node": "gx-04", "created_by_name": owner}, [1.0] * samples),
        (reason, {**labels, "reason": "OOMKilled"}, [None] * since + [1.0] * (samples - since)),
    ]


def test_a_node_that_is_lost_is_named(tmp_path: Path) -> None:
    lost = cluster(tmp_path, *ready("gx-01", range(20, 30)), *ready("gx-02", range(0)), *ready("gx-03", range(0)))
    assert [(f.sign, f.node, f.role, f.fields["ready"]) for f in lost] == [
        ("sched.node_fail", "gx-01", Role.ROOT, "Unknown")
    ]
    assert 'status="unknown"' in lost[0].evidence[-1].text and lost[0].evidence[-1].text.endswith(" 1")


@pytest.mark.parametrize("lost", [range(30), range(0), range(20, 23)])
def test_a_node_that_was_never_ready_or_soon_back_is_no_cause(tmp_path: Path, lost: range) -> None:
    found = cluster(tmp_path, *ready("gx-01", lost), *ready("gx-02", range(0)))
    assert all(f.role == Role.CONTEXT for f in found)


def test_all_nodes_at_once_are_not_blamed_one_by_one(tmp_path: Path) -> None:
    rows = [row for n in range(4) for row in ready(f"gx-{n:02d}", range(15, 30))]
    assert {f.role for f in cluster(tmp_path, *rows)} == {Role.CONTEXT}


def test_the_only_workload_lost_a_container(tmp_path: Path) -> None:
    (found,) = cluster(tmp_path, *ended("llm-2", 20, "llm"))
    assert (found.sign, found.node, found.role) == ("sched.oom_killed", "gx-04", Role.ROOT)
    assert found.first == (T0 + 20 * STEP) * 10**9


def test_a_container_that_ended_before_the_window_or_of_another_workload_is_context(tmp_path: Path) -> None:
    assert [f.role for f in cluster(tmp_path, *ended("llm-2", 0, "llm"))] == [Role.CONTEXT]
    limits = "kube_pod_container_resource_limits"
    gpu: Row = (limits, {"namespace": "t", "pod": "llm-0", "resource": "nvidia_com_gpu"}, [8.0] * 30)
    assert [f.role for f in cluster(tmp_path, gpu, *ended("web-7d", 20, "web"))] == [Role.CONTEXT]


def test_the_exporters_own_machine_is_not_the_objects_node(tmp_path: Path) -> None:
    (found,) = cluster(tmp_path, *ended("llm-2", 20, "llm")[1:], monitor="monitor-1:8080")
    assert found.node is None


def test_a_job_that_trained_through_lost_reports_did_not_fail(tmp_path: Path) -> None:
    rows = [row for n in range(4) for row in ready(f"gx-{n:02d}", range(10, 18))]
    cluster(tmp_path, *rows)
    steps = "".join(f"2026-08-01 08:{i:02d}:00,123 INFO [rank 0] step={i} loss=2.{900 - i}\n" for i in range(50))
    (tmp_path / "train.log").write_text(steps)
    assert analyze_paths([tmp_path], Settings(cache_dir=default_cache_dir())).verdict == "no_incident"


def test_a_container_beside_the_one_with_the_gpus_ends_no_training(tmp_path: Path) -> None:
    limits = "kube_pod_container_resource_limits"
    gpu: Row = (
        limits,
        {"namespace": "t", "pod": "llm-2", "container": "train", "resource": "nvidia_com_gpu"},
        [8.0] * 30,
    )
    assert [f.role for f in cluster(tmp_path, gpu, *ended("llm-2", 20, "llm"))] == [Role.CONTEXT]
