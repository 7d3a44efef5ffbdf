"""In the evidence of a whole cluster the incident is about the workload that the fault hit, not about one picked before."""

from __future__ import annotations

from pathlib import Path

import pytest
from detect.scheduler_case import ended, job, listing, load, node, pod

from aiops.pipeline import analyze


@pytest.mark.parametrize("others", [(), ("a",), ("z",), ("a", "z")])
def test_the_job_of_the_cause_is_named_and_no_other(tmp_path: Path, others: tuple[str, ...]) -> None:
    killed = pod("m-0-x", "m", node="n1", phase="Failed", pods=1, status=ended(137, "OOMKilled"))
    running = [pod(f"{name}-0-x", name, node=f"n-{name}", pods=1) for name in others]
    report = analyze(
        load(tmp_path, listing(killed, *running, job("m", pods=1), *(job(name, pods=1) for name in others)))
    )
    first = report.incidents[0]
    assert (first.failure_class, first.culprit.job) == ("host.cgroup_oom", "ml/m")
    assert all(action.target.job in (None, "ml/m") for action in first.actions)


def test_a_lost_node_of_a_job_that_was_not_picked_is_in_scope(tmp_path: Path) -> None:
    gone = pod("m-0-x", "m", node="n1")
    gone["metadata"]["deletionTimestamp"] = "2026-08-01T08:01:00Z"
    objects = [node("n1", "Unknown"), node("n2"), gone, pod("z-0-x", "z", node="n2"), job("m"), job("z")]
    first = analyze(load(tmp_path, listing(*objects))).incidents[0]
    assert (first.culprit.node, first.culprit.job, first.requeue.exclude) == ("n1", "ml/m", ["n1"])
