"""A dump of ``nvidia-smi -q`` accuses the GPU that it shows to be ill, with the line as proof, and nobody else."""

from __future__ import annotations

from pathlib import Path

import pytest
from metrics_fleet import add, find
from smi_dump import dump, gpu_tree, xml

from aiops.model import Case, Finding, Role

HEALTHY = {index: gpu_tree(index) for index in range(8)}


def findings(folder: Path, text: str) -> list[Finding]:
    case = Case(root=str(folder))
    add(case, folder / "nvidia-smi-gx-07.txt", text)
    return find(case)


@pytest.mark.parametrize("form", [dump, xml])
def test_a_healthy_host_is_silent(tmp_path: Path, form: object) -> None:
    assert findings(tmp_path, form(HEALTHY)) == []  # type: ignore[operator]


@pytest.mark.parametrize("form", [dump, xml])
@pytest.mark.parametrize(
    ("sign", "changes", "role", "shown"),
    [
        ("metric.row_remap_pending", {"pending": "Yes", "rows": "1"}, Role.ROOT, "Yes"),
        ("metric.row_remap_failure", {"failed": "Yes"}, Role.ROOT, "Yes"),
        ("metric.ecc_dbe", {"dram": "2"}, Role.ROOT, "2"),
        ("metric.ecc_dbe", {"aggregate": "4"}, Role.CONTEXT, "4"),
        ("metric.pcie_width", {"width": "8x"}, Role.ROOT, "8x"),
        ("metric.power_brake", {"brake": "Active"}, Role.ROOT, "Active"),
    ],
)
def test_the_sick_gpu_is_named_with_its_line(
    tmp_path: Path, form: object, sign: str, changes: dict[str, str], role: Role, shown: str
) -> None:
    text = form(HEALTHY | {3: gpu_tree(3, **changes)})  # type: ignore[operator]
    (finding,) = findings(tmp_path, text)
    assert (finding.sign, finding.node, finding.gpu, finding.role) == (sign, "gx-07", 3, role)
    proof = finding.evidence[0]
    assert shown in proof.text
    assert text.splitlines()[proof.line - 1].strip() == proof.text
    assert text.encode()[proof.offset :].lstrip().startswith(proof.text.encode())


@pytest.mark.parametrize(
    "changes", [{"gen": "1"}, {"replays": "99999"}, {"thermal": "Active"}, {"rows": "3"}, {"correctable": "40"}]
)
def test_what_a_moment_cannot_show_is_no_finding(tmp_path: Path, changes: dict[str, str]) -> None:
    assert findings(tmp_path, dump(HEALTHY | {3: gpu_tree(3, **changes)})) == []


def test_a_node_that_is_not_in_the_fabric_is_one_finding(tmp_path: Path) -> None:
    (finding,) = findings(tmp_path, dump({index: gpu_tree(index, state="In Progress") for index in range(8)}))
    assert (finding.sign, finding.node, finding.gpu) == ("metric.fabric_state", "gx-07", None)
    (finding,) = findings(tmp_path, dump(HEALTHY | {2: gpu_tree(2, status="Failure")}))
    assert (finding.sign, finding.gpu, finding.fields["state"]) == ("metric.fabric_state", 2, 4)
    assert findings(tmp_path, dump({index: gpu_tree(index, state="N/A") for index in range(8)})) == []


@pytest.mark.parametrize(
    ("changes", "sign", "role"),
    [
        ({"action": "Reset"}, "metric.recovery_action", Role.ECHO),
        ({"action": "Drain and Reset"}, "metric.recovery_action", Role.ECHO),
        ({"none": "2"}, "metric.banks_left", Role.CONTEXT),
    ],
)
def test_what_the_driver_asks_for_is_no_cause(tmp_path: Path, changes: dict[str, str], sign: str, role: Role) -> None:
    (finding,) = findings(tmp_path, dump(HEALTHY | {3: gpu_tree(3, **changes)}))
    assert (finding.sign, finding.gpu, finding.role) == (sign, 3, role)
