"""What happens to containers: pulled, set up, killed, ended; one finding per gang."""

from __future__ import annotations

from pathlib import Path

import pytest
from detect.scheduler_case import NO_GPU, ended, event, find, listing, load, one, pod, waiting

from aiops.detect.scheduler_messages import pull_failure
from aiops.model import Role


@pytest.mark.parametrize(
    ("message", "why"),
    [
        ("pull access denied, repository does not exist or may require authorization", "denied"),
        ("failed to resolve reference: r.example/t:1: not found", "not_found"),
        ("rpc error: code = DeadlineExceeded desc = context deadline exceeded", "timeout"),
        ("x509: bad certificate", "other"),
    ],
)
def test_image_pull(tmp_path: Path, message: str, why: str) -> None:
    assert pull_failure(message) == why
    case = load(
        tmp_path,
        listing(
            pod("a-1-x", "a", index=1, node="n2", phase="Pending", status=waiting("ErrImagePull", message)),
            event("Failed", "Pod", "a-1-x", "Error: ImagePullBackOff"),
        ),
    )
    found = one(case, "sched.image_pull")
    assert (found.role, found.job, found.node) == (Role.ROOT, "ml/a", "n2")
    assert (found.fields["image"], found.fields["why"], found.count) == ("r.example/t:1", why, 2)


def test_a_pull_that_succeeded_later_is_background(tmp_path: Path) -> None:
    case = load(
        tmp_path,
        listing(
            event("Failed", "Pod", "a-0-x", 'Failed to pull image "r/t:1": i/o timeout', "2026-08-01T08:00:00Z"),
            event("Pulled", "Pod", "a-0-x", "Successfully pulled image", "2026-08-01T08:02:00Z", type="Normal"),
        ),
    )
    assert one(case, "sched.image_pull").role is Role.CONTEXT


def test_table_events_without_times_still_tell_what_came_later(tmp_path: Path) -> None:
    table = (
        "LAST SEEN   TYPE      REASON             OBJECT      MESSAGE\n"
        f"3m          Warning   FailedScheduling   pod/a-0-x   {NO_GPU}\n"
        "2m          Normal    Scheduled          pod/a-0-x   Successfully assigned ml/a-0-x to n1\n"
        f"1m          Warning   FailedScheduling   pod/b-0-x   {NO_GPU}\n"
    )
    found = find(load(tmp_path, table))
    assert found["sched.pending"][0].fields["pods"] == ("a-0-x",)
    assert found["sched.unschedulable"][0].fields["pods"] == ("b-0-x",)


@pytest.mark.parametrize(
    ("reason", "message", "what"),
    [
        ("FailedMount", 'MountVolume.SetUp failed for volume "ckpt" : timed out', "volume"),
        ("FailedCreatePodSandBox", 'plugin type="cni" failed: no IP addresses', "network"),
        ("FailedPrepareDynamicResources", "NodePrepareResources failed", "device"),
        ("FailedCreatePodSandBox", "runc create failed", "runtime"),
    ],
)
def test_container_setup(tmp_path: Path, reason: str, message: str, what: str) -> None:
    found = one(load(tmp_path, listing(event(reason, "Pod", "a-0-x", message))), "sched.container_setup")
    assert found.fields["what"] == what and found.role is Role.ROOT
    assert found.name == ("ckpt" if what == "volume" else None)


def test_oom_kill_needs_the_reason(tmp_path: Path) -> None:
    case = load(
        tmp_path,
        listing(
            pod("a-0-x", "a", index=0, node="n1", phase="Failed", gpus=1, status=ended(137, "OOMKilled")),
            pod("a-1-x", "a", index=1, node="n2", phase="Failed", gpus=1, status=ended(137, "Error")),
            pod("a-2-x", "a", index=2, node="n3", phase="Failed", gpus=1, status=ended(1, "Error")),
        ),
    )
    found = find(case)
    (oom,) = found["sched.oom_killed"]
    assert (oom.role, oom.node, oom.rank, oom.fields["pods"]) == (Role.ROOT, "n1", 0, ("a-0-x",))
    exits = {f.fields["exit_code"]: f for f in found["sched.container_exit"]}
    assert exits[137].fields["signal"] == 9 and exits[137].rank == 1 and exits[137].role is Role.CONTEXT
    assert exits[1].fields["reason"] == "Error"


def test_oom_of_the_previous_run(tmp_path: Path) -> None:
    status = {
        "containerStatuses": [
            {
                "name": "main",
                "restartCount": 3,
                "state": {"running": {}},
                "lastState": {
                    "terminated": {"exitCode": 137, "reason": "OOMKilled", "finishedAt": "2026-08-01T08:00:00Z"}
                },
            }
        ]
    }
    case = load(tmp_path, listing(pod("a-0-x", "a", node="n1", pods=1, status=status)))
    found = one(case, "sched.oom_killed")
    assert (found.node, found.rank, found.fields["pod_ranks"]) == ("n1", None, (0, 7)), (
        "which of eight ranks is not told"
    )


def test_exits_of_a_gang_are_one_finding_that_knows_who_fell_first(tmp_path: Path) -> None:
    case = load(
        tmp_path,
        listing(
            *(
                pod(
                    f"a-{i}-x",
                    "a",
                    index=i,
                    pods=8,
                    node=f"n{i}",
                    phase="Failed",
                    status=ended(1, at=f"2026-08-01T08:00:{30 - i * (i == 5):02d}Z"),
                )
                for i in range(8)
            )
        ),
    )
    found = one(case, "sched.container_exit")
    assert (found.count, len(found.nodes), found.fields["first_pod"]) == (8, 8, "a-5-x")
    assert len(found.evidence) <= 6
