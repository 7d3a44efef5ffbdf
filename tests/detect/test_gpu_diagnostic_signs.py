"""A failed test of DCGM accuses the GPU that it names, by the sign that its error is."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from aiops.catalog import load_catalog
from aiops.detect.gpu_diagnostics import detect
from aiops.ingest.gpu_diagnostics import read_diagnostics
from aiops.model import Case, Finding, Role, Severity, Source


def findings(*warnings: tuple[str, int, str, dict[str, object]]) -> list[Finding]:
    """Of a document with one failed result for each of test, GPU, status and warning."""
    tests: dict[str, list[dict[str, object]]] = {}
    for test, gpu, status, warning in warnings:
        result = {"entity_group": "GPU", "entity_id": gpu, "status": status, "warnings": [warning] if warning else []}
        tests.setdefault(test, []).append(result)
    categories = [{"category": "Hardware", "tests": [{"name": n, "results": r} for n, r in tests.items()]}]
    text = json.dumps({"DCGM Diagnostic": {"test_categories": categories}}, indent=1)
    case = Case(root="")
    case.sources.append(Source(0, "dcgmi-gx-07.json", Path("d"), len(text), "diagnostics"))
    case.topology.gpu_pci["gx-07", 3] = "0000:5d:00"
    read_diagnostics(case.sources[0], text.encode(), case)
    return detect(case, load_catalog())


@pytest.mark.parametrize(
    ("error", "message", "sign", "role"),
    [
        (85, "GPU 3 had memory errors and row remappings are pending", "metric.row_remap_pending", Role.ROOT),
        (80, "GPU 3 had uncorrectable memory errors and row remapping failed.", "metric.row_remap_failure", Role.ROOT),
        (4, "Detected 2 volatile double-bit ECC error(s) in GPU 3.", "metric.ecc_dbe", Role.ROOT),
        (101, "Detected XID 79 for GPU 3", "metric.xid", Role.ROOT),
        (101, "Detected XID 43 for GPU 3", "metric.xid", Role.ECHO),
        (46, "GPU 3 is running at PCI link width 8X, which is below", "metric.pcie_width", Role.ROOT),
        (84, "GPU 3 had uncorrectable memory errors and 1 rows were remapped", "metric.row_remap", Role.CONTEXT),
        (125, "GPU 3 requires a reset. Recovery action: 1 (GPU_RESET).", "metric.recovery_action", Role.ECHO),
        (52, "Found 117 faulty memory elements on GPU 3", "gpu.wrong_result", Role.ROOT),
        (33, "Detected 5 no_such_field for GPU 3", "gpu.diag_failed", Role.ROOT),
    ],
)
def test_an_error_is_the_sign_of_the_table(error: int, message: str, sign: str, role: Role) -> None:
    warning = {"warning": message, "error_id": error, "error_category": 10, "error_severity": 2}
    (finding,) = findings(("memory", 3, "Fail", warning))
    assert (finding.sign, finding.role) == (sign, role)
    assert (finding.node, finding.gpu, finding.pci) == ("gx-07", 3, "0000:5d:00")
    assert message in finding.text
    assert finding.evidence[0].line > 0


def test_a_failure_without_reason_names_test_and_gpu() -> None:
    (finding,) = findings(("targeted_power", 5, "Fail", {}))
    assert (finding.sign, finding.gpu, finding.severity) == ("gpu.diag_failed", 5, Severity.ERROR)
    assert finding.fields["test"] == "targeted_power"


@pytest.mark.parametrize(
    ("test", "status", "warning"),
    [
        ("memory", "Fail", {"warning": "API call cuInit failed: 'no device'", "error_id": 64, "error_category": 4}),
        ("software", "Fail", {"warning": "Persistence mode for GPU 3 is disabled."}),
        ("pcie", "Warn", {"warning": "The integration test is skipped."}),
    ],
)
def test_a_test_that_could_not_run_accuses_no_gpu(test: str, status: str, warning: dict[str, object]) -> None:
    assert [(f.sign, f.role) for f in findings((test, 3, status, warning))] == [("gpu.diag_setup", Role.CONTEXT)]


def test_the_same_error_of_several_tests_is_one_finding() -> None:
    warning = {"warning": "GPU 3 had memory errors and row remappings are pending", "error_id": 85}
    (finding,) = findings(("software", 3, "Fail", warning), ("memory", 3, "Fail", warning))
    assert finding.count == 2
    assert finding.fields["tests"] == ["software", "memory"]


def test_passing_tests_are_no_finding() -> None:
    assert findings(("memory", 3, "Pass", {}), ("pcie", 3, "Skip", {}), ("pcie", 4, "Not Run", {})) == []
