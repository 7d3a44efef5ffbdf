"""Controllers that do not run, webhooks that do not answer, and what admission denies."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from detect.scheduler_case import condition, event, find, listing, load, node, one

from aiops.model import Role


def program(name: str, namespace: str, *, crashes: bool, node: str = "cp-1") -> dict[str, Any]:
    state = (
        {"waiting": {"reason": "CrashLoopBackOff", "message": "back-off 5m0s restarting"}}
        if crashes
        else {"running": {}}
    )
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": namespace, "uid": f"uid-{name}"},
        "spec": {"nodeName": node, "containers": [{"name": "m"}]},
        "status": {
            "phase": "Running",
            "conditions": [condition("Ready", "False" if crashes else "True", "")],
            "containerStatuses": [{"name": "m", "state": state}],
        },
    }


@pytest.mark.parametrize(
    ("name", "namespace", "core"),
    [
        ("kube-apiserver-cp-1", "kube-system", True),
        ("kueue-controller-manager-7d9c5b6f4-x2k9z", "kueue-system", False),
    ],
)
def test_a_controller_that_crashes(tmp_path: Path, name: str, namespace: str, core: bool) -> None:
    found = one(load(tmp_path, listing(node("cp-1"), program(name, namespace, crashes=True))), "sched.control_plane")
    assert found.fields["core"] is core and name.startswith(found.name or "?")


def test_a_replica_that_runs_or_a_lost_node_excuses_it(tmp_path: Path) -> None:
    ill, well = (program(f"etcd-cp-{i}", "kube-system", crashes=i == 1, node=f"cp-{i}") for i in (1, 2))
    assert "sched.control_plane" not in find(load(tmp_path, listing(ill, well)))
    assert "sched.control_plane" not in find(load(tmp_path, listing(ill, node("cp-1", "Unknown"))))


@pytest.mark.parametrize(
    ("message", "sign", "name"),
    [
        (
            'Error creating: Internal error occurred: failed calling webhook "mpod.kb.io": failed to call webhook: '
            'Post "https://kueue-webhook-service.kueue-system.svc:443/mutate--v1-pod": dial tcp: connection refused',
            "sched.webhook_failed",
            "mpod.kb.io",
        ),
        (
            'Error creating: admission webhook "policy.example" denied the request: image is not signed',
            "sched.admission_denied",
            "policy.example",
        ),
        (
            'Error creating: pods "a-0" is forbidden: violates PodSecurity "restricted:latest": hostNetwork',
            "sched.admission_denied",
            None,
        ),
    ],
)
def test_pods_that_cannot_be_created(tmp_path: Path, message: str, sign: str, name: str | None) -> None:
    refused = event("FailedCreate", "Job", "a", message)
    found = one(load(tmp_path, listing(refused)), sign)
    assert (found.job, found.name, found.role) == ("ml/a", name, Role.ROOT)
    later = event("SuccessfulCreate", "Job", "a", "Created pod: a-0", "2026-08-01T09:00:00Z", type="Normal")
    assert one(load(tmp_path, listing(refused, later)), sign).role is Role.CONTEXT
