"""InfiniBand ports in node_exporter's metrics."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from metrics_fleet import STEP, T0, add, find

from aiops.model import Case, Finding, Role

STATE, DOWNED = "node_infiniband_state_id", "node_infiniband_link_downed_total"
SYMBOL, RATE = "node_infiniband_symbol_error_total", "node_infiniband_rate_bytes_per_second"
HEALTHY = {STATE: 4.0, DOWNED: 3.0, SYMBOL: 0.0, RATE: 5e10}
Value = Callable[[int], float | None]


def ports(folder: Path, changes: dict[tuple[int, str], dict[str, Value]], nodes: int = 6) -> list[Finding]:
    """Six ports of each node, the last one never in use."""
    result = []
    for node in range(nodes):
        for number in range(6):
            device = f"mlx5_{number}"
            for name, usual in HEALTHY.items():
                usual = 1.0 if name == STATE and number == 5 else usual
                made = changes.get((node, device), {}).get(name, lambda _, usual=usual: usual)
                pairs = [[T0 + STEP * i, f"{value:g}"] for i in range(30) if (value := made(i)) is not None]
                labels = {"__name__": name, "device": device, "port": "1", "instance": f"gx-{node:02d}:9100"}
                result.append({"metric": labels, "values": pairs})
    case = Case(root=str(folder))
    add(case, folder / "ib.json", json.dumps({"status": "success", "data": {"resultType": "matrix", "result": result}}))
    return find(case)


def test_healthy_ports_and_one_that_is_not_in_use_are_silent(tmp_path: Path) -> None:
    assert ports(tmp_path, {}) == []


@pytest.mark.parametrize(
    ("sign", "changes", "count"),
    [
        ("net.link_down", {STATE: lambda i: 4 if i < 15 else 1, DOWNED: lambda i: 3 if i < 15 else 4}, 1),
        ("net.link_flap", {DOWNED: lambda i: 3 + (i > 10) + (i > 14) + (i > 18)}, 3),
        ("metric.port_errors", {SYMBOL: lambda i: 40 * max(0, i - 10)}, 760),
        ("metric.port_slow", {RATE: lambda i: 5e10 if i < 10 else 2.5e10}, 1),
        ("metric.port_slow", {RATE: lambda i: 2.5e10}, 1),
    ],
)
def test_a_faulty_port_is_named_with_its_sample(
    tmp_path: Path, sign: str, changes: dict[str, Value], count: int
) -> None:
    (finding,) = ports(tmp_path, {(2, "mlx5_3"): changes})
    assert (finding.sign, finding.node, finding.name, finding.count) == (sign, "gx-02", "mlx5_3", count)
    assert finding.role is Role.ROOT
    assert all("mlx5_3" in ref.text or ref.line for ref in finding.evidence)


@pytest.mark.parametrize(
    "changes",
    [
        {DOWNED: lambda i: 3 if i < 15 else i - 15 if i < 17 else 1},  # reboot: the counter begins anew
        {SYMBOL: lambda i: 9000 if i < 15 else 0},
        {SYMBOL: lambda i: 5 * (i // 10)},
        {STATE: lambda i: 2 if i == 12 else 4},
        {RATE: lambda i: None if 5 < i < 20 else 5e10},
    ],
)
def test_resets_gaps_and_single_samples_are_no_fault(tmp_path: Path, changes: dict[str, Value]) -> None:
    assert [f for f in ports(tmp_path, {(2, "mlx5_3"): changes}) if f.role is Role.ROOT] == []


def test_errors_on_all_ports_are_no_fault_of_one(tmp_path: Path) -> None:
    rising = {(n, f"mlx5_{d}"): {SYMBOL: lambda i: 40.0 * i} for n in range(6) for d in range(6)}
    assert ports(tmp_path, rising) == []


def test_a_link_that_came_back_once_is_context(tmp_path: Path) -> None:
    (finding,) = ports(tmp_path, {(2, "mlx5_3"): {DOWNED: lambda i: 3 + (i > 10)}})
    assert (finding.sign, finding.role) == ("net.link_down", Role.CONTEXT)


def test_a_node_with_other_adapters_has_no_slow_link(tmp_path: Path) -> None:
    assert ports(tmp_path, {(2, f"mlx5_{d}"): {RATE: lambda i: 2.5e10} for d in range(6)}) == []
