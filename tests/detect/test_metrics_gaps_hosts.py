"""Silence of monitoring, and hosts whose disks fill up."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from metrics_fleet import CLOCK, POWER, STEP, T0, TEMP, USED, UTIL, Change, add, change, find, fleet

from aiops.model import Case, Finding, Role


def silence(since: int, until: int) -> list[Change]:
    def gone(values: dict[str, float | None], i: int) -> None:
        if since <= i < until:
            for name in list(values):
                values[name] = None

    return [gone]


def gaps(case: Case) -> list[tuple[str | None, object, object, Role]]:
    return [(f.node, f.fields["minutes"], f.fields["returned"], f.role) for f in find(case) if f.sign == "metric.gap"]


def test_a_silence_of_all_nodes_is_one_gap(tmp_path: Path) -> None:
    everyone = {(n, g): silence(15, 25) for n in range(3) for g in range(8)}
    assert gaps(fleet(tmp_path, everyone, nodes=3)) == [(None, 11.0, True, Role.CONTEXT)]


@pytest.mark.parametrize(("until", "minutes", "back"), [(25, 11.0, True), (99, 25.0, False)])
def test_a_silence_of_one_node_is_its_gap(tmp_path: Path, until: int, minutes: float, back: bool) -> None:
    one = {(1, g): silence(15, until) for g in range(8)}
    assert gaps(fleet(tmp_path, one, nodes=3)) == [("gx-01", minutes, back, Role.CONTEXT)]


def test_short_silences_and_one_gpu_are_no_gap(tmp_path: Path) -> None:
    few = {(1, g): silence(15, 17) for g in range(8)}
    lost = {(2, 3): [change(name, None) for name in (TEMP, CLOCK, UTIL, POWER, USED)]}
    assert gaps(fleet(tmp_path, few | lost, nodes=3)) == []


def disks(folder: Path, free: Callable[[int], float | None], **labels: str) -> list[Finding]:
    pairs = [[T0 + STEP * i, f"{value:g}"] for i in range(20) if (value := free(i)) is not None]
    metric = {
        "__name__": "node_filesystem_avail_bytes",
        "instance": "gx-07:9100",
        "device": "/dev/nvme0n1p2",
        "mountpoint": "/local",
        "fstype": "xfs",
    } | labels
    document = {"status": "success", "data": {"resultType": "matrix", "result": [{"metric": metric, "values": pairs}]}}
    case = Case(root=str(folder))
    add(case, folder / "node.json", json.dumps(document))
    return find(case)


def test_a_disk_that_fills_up_is_named(tmp_path: Path) -> None:
    (finding,) = disks(tmp_path, lambda i: max(0.0, 9e11 - 9e10 * i))
    assert (finding.sign, finding.node, finding.name) == ("host.disk_full", "gx-07", "/local")
    assert finding.first == (T0 + 10 * STEP) * 10**9
    assert len(finding.evidence) == 2


@pytest.mark.parametrize(
    ("free", "labels"),
    [
        (lambda i: 0.0, {"fstype": "squashfs"}),
        (lambda i: 0.0, {}),
        (lambda i: 0.0 if i == 12 else 8e11, {}),
        (lambda i: None if i > 10 else 8e11, {}),
        (lambda i: max(0.0, 9e11 - 9e10 * i), {"fstype": "tmpfs"}),
    ],
)
def test_what_was_full_before_or_is_always_full_is_no_finding(
    tmp_path: Path, free: Callable[[int], float | None], labels: dict[str, str]
) -> None:
    assert disks(tmp_path, free, **labels) == []
