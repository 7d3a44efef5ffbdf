"""Clocks that fall on a whole fleet or node while the load stays."""

from __future__ import annotations

from pathlib import Path

import pytest
from metrics_fleet import CLOCK, POWER, REASONS, TEMP, UTIL, Change, change, find, fleet

from aiops.config import Settings, default_cache_dir
from aiops.model import Finding, Role
from aiops.pipeline import analyze_paths

LIMIT = "DCGM_FI_DEV_POWER_MGMT_LIMIT"
LOW = [change(CLOCK, 1245.0), change(POWER, 400.0), change(UTIL, 99.0), change(REASONS, 4)]


def drops(folder: Path, changes: dict[tuple[int, int], list[Change]], nodes: int = 3) -> list[Finding]:
    every = {(n, g): changes.get((n, g), []) for n in range(nodes) for g in range(8)}
    return [f for f in find(fleet(folder, every, nodes=nodes)) if f.sign == "metric.clock_drop"]


def all_of(changes: list[Change], nodes: int = 3) -> dict[tuple[int, int], list[Change]]:
    return {(n, g): changes for n in range(nodes) for g in range(8)}


def test_a_fleet_that_slows_at_once(tmp_path: Path) -> None:
    (found,) = drops(tmp_path, all_of(LOW))
    assert (found.role, found.node, found.fields["spread"], found.fields["why"]) == (Role.ROOT, None, "fleet", "")
    assert found.text.startswith("The clocks of 24 GPUs on 3 nodes fell from 19") and "400 W" in found.text


def test_a_lower_limit_is_named(tmp_path: Path) -> None:
    limit = [*LOW, lambda values, i: values.update({LIMIT: 450.0 if i >= 20 else 700.0})]
    (found,) = drops(tmp_path, all_of(limit))
    assert found.fields["why"] == "limit" and "from 700 to 450 W" in found.text


def test_a_single_node_that_slows(tmp_path: Path) -> None:
    (found,) = drops(tmp_path, {(1, g): LOW for g in range(8)})
    assert (found.node, found.fields["spread"]) == ("gx-01", "node")


@pytest.mark.parametrize(
    "changes",
    [
        [change(CLOCK, 1500.0), change(POWER, 690.0), change(UTIL, 99.0)],  # heavier work at the same limit
        [change(CLOCK, 345.0), change(POWER, 90.0), change(UTIL, 0.0)],  # nothing runs any more
        [change(CLOCK, 1245.0), change(POWER, 130.0), change(UTIL, 100.0)],  # all wait in a collective
        [change(CLOCK, 1245.0, 20, 28), change(POWER, 400.0, 20, 28)],  # it came back
        [change(CLOCK, 1245.0), change(POWER, 400.0), change(REASONS, 0x40)],  # heat has its own sign
    ],
)
def test_what_is_no_drop(tmp_path: Path, changes: list[Change]) -> None:
    assert drops(tmp_path, all_of(changes)) == []


def test_one_gpu_is_compared_with_its_peers_elsewhere(tmp_path: Path) -> None:
    assert drops(tmp_path, {(1, 3): LOW}) == []


def test_several_nodes_at_once_share_a_cause(tmp_path: Path) -> None:
    (found,) = drops(tmp_path, {(n, g): LOW for n in (1, 2) for g in range(8)}, nodes=5)
    assert (found.node, found.fields["spread"], found.nodes) == (None, "part", ("gx-01", "gx-02"))


def test_nodes_that_slow_at_different_times_share_none(tmp_path: Path) -> None:
    late = [change(name, value, 32) for name, value in ((CLOCK, 1245.0), (POWER, 400.0), (UTIL, 99.0))]
    mixed = {(1, g): LOW for g in range(8)} | {(2, g): late for g in range(8)}
    assert drops(tmp_path, mixed, nodes=5) == []


def test_a_row_that_gets_hot_is_the_coolings_matter(tmp_path: Path) -> None:
    hot = [change(CLOCK, 1200.0), change(TEMP, 87.0), change(REASONS, 0x40)]
    fleet(tmp_path, all_of(hot, nodes=4), nodes=4)
    best = analyze_paths([tmp_path], Settings(cache_dir=default_cache_dir())).incidents[0]
    assert (best.failure_class, best.culprit.kind, best.culprit.node) == ("pwr.thermal_throttle", "facility", None)
    assert best.requeue.verdict == "same_nodes" and not best.requeue.exclude
    assert not {a.action.value for a in best.actions} & {"cordon_node", "drain_node", "requeue_excluding_node"}


def test_one_hot_node_stays_the_nodes_matter(tmp_path: Path) -> None:
    hot = [change(CLOCK, 1200.0), change(TEMP, 87.0), change(REASONS, 0x40)]
    fleet(tmp_path, {(1, g): hot for g in range(8)}, nodes=4)
    best = analyze_paths([tmp_path], Settings(cache_dir=default_cache_dir())).incidents[0]
    assert (best.failure_class, best.culprit.node) == ("pwr.thermal_throttle", "gx-01")
