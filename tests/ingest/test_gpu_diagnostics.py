"""Results of ``dcgmi diag`` and ``dcgmi health``: every failure with its test, GPU and line, in every form."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aiops.catalog import load_catalog
from aiops.catalog.dcgm_errors import dcgm_errors, error_of
from aiops.catalog.lint import DETECTOR_SIGNS
from aiops.ingest.gpu_diagnostics import read_diagnostics, sniff_diagnostics
from aiops.model import Case, Source

PENDING = "GPU 3 had memory errors and row remappings are pending"


def results(fail: dict[int, dict[str, object]]) -> list[dict[str, object]]:
    return [
        {"entity_group": "GPU", "entity_group_id": 1, "entity_id": gpu, "status": "Pass", **fail.get(gpu, {})}
        for gpu in range(8)
    ]


FAIL = {"status": "Fail", "warnings": [{"warning": PENDING, "error_id": 85, "error_category": 10, "error_severity": 6}]}
DIAG4 = {
    "DCGM Diagnostic": {
        "test_categories": [
            {
                "category": "Deployment",
                "tests": [{"name": "software", "results": results({3: FAIL}), "test_summary": {"status": "Fail"}}],
            },
            {
                "category": "Hardware",
                "tests": [{"name": "memory", "results": results({}), "test_summary": {"status": "Pass"}}],
            },
        ]
    },
    "entity_groups": [
        {
            "entities": [{"device_id": "2330", "entity_id": 3, "serial_num": "165"}],
            "entity_group": "GPU",
            "entity_group_id": 1,
        }
    ],
    "metadata": {"version": "4.2.3", "Driver Version Detected": "550.90.07"},
}
DIAG3 = {
    "DCGM GPU Diagnostic": {
        "test_categories": [
            {
                "category": "Hardware",
                "tests": [
                    {
                        "name": "Memory",
                        "results": [
                            {"gpu_id": "0", "status": "PASS"},
                            {"gpu_id": "3", "status": "FAIL", "warnings": [{"warning": PENDING, "error_id": 85}]},
                        ],
                    }
                ],
            }
        ]
    },
    "version": "3.3.5",
}
DIAG2 = {
    "DCGM GPU Diagnostic": {
        "test_categories": [
            {
                "category": "Hardware",
                "tests": [{"name": "GPU Memory", "results": [{"gpu_ids": "3", "status": "Fail", "warnings": PENDING}]}],
            }
        ]
    }
}
TABLE4 = """\
Successfully ran diagnostic for group.
+---------------------------+------------------------------------------------+
| Diagnostic                | Result                                         |
+===========================+================================================+
|-----  Metadata  ----------+------------------------------------------------|
| DCGM Version              | 4.2.3                                          |
| Driver Version Detected   | 550.90.07                                      |
|-----  Deployment  --------+------------------------------------------------|
| software                  | Fail                                           |
|                           | GPU0: Pass                                     |
|                           | GPU3: Fail                                     |
| Warning: GPU3             | GPU 3 had memory errors and row remappings ar  |
|                           | e pending                                      |
+-----  Hardware  ----------+------------------------------------------------+
| memory                    | Pass                                           |
|                           | GPU0: Pass                                     |
|                           | GPU3: Skip                                     |
+---------------------------+------------------------------------------------+
"""
TABLE3 = """\
Successfully ran diagnostic for group.
+---------------------------+------------------------------------------------+
| Diagnostic                | Result                                         |
+===========================+================================================+
|-----  Deployment  --------+------------------------------------------------|
| Denylist                  | Pass                                           |
+-----  Hardware  ----------+------------------------------------------------+
| GPU Memory                | Fail - GPU: 3                                  |
| Warning                   | GPU 3 had memory errors and row remappings     |
|                           | are pending                                    |
| Diagnostic                | Fail - GPUs: 1, 5                              |
+-----  Stress  ------------+------------------------------------------------+
| Targeted Stress           | Pass - All                                     |
| Targeted Power            | Skip - All                                     |
+---------------------------+------------------------------------------------+
"""
HEALTH = """\
+---------------------------+----------------------------------------------------------+
| Health Monitor Report                                                                |
+===========================+==========================================================+
| Overall Health            | Failure                                                  |
| GPU                       |                                                          |
| -> 3                      | Failure                                                  |
|    -> Errors              |                                                          |
|       -> Memory system    | Failure                                                  |
|                           | GPU 3 had memory errors and row remappings are           |
|                           | pending                                                  |
|       -> PCIe system      | Warning                                                  |
|                           | Detected more than 8 PCIe replays per minute for GPU 3   |
|                           | : 41                                                     |
| NvSwitch                  |                                                          |
| -> 7                      | Warning                                                  |
+---------------------------+----------------------------------------------------------+
"""
HEALTH_JSON = {
    "body": {
        "GPU": {
            "children": {
                "3": {
                    "children": {
                        "Errors": {"children": {"Memory system": {"overflow": [PENDING], "value": "Failure"}}}
                    },
                    "value": "Failure",
                }
            }
        },
        "Overall Health": {"value": "Failure"},
    },
    "header": ["Health Monitor Report"],
}


def read(text: str, name: str = "dcgmi-diag-gx-07.json") -> Case:
    case = Case(root="")
    case.sources.append(Source(0, name, Path(name), len(text), "diagnostics"))
    read_diagnostics(case.sources[0], text.encode(), case)
    return case


def told(case: Case) -> list[tuple[object, ...]]:
    return [(e.fields.get("test"), e.fields.get("gpu"), e.fields.get("error"), e.fields["status"]) for e in case.events]


@pytest.mark.parametrize(
    ("text", "form", "expected"),
    [
        (json.dumps(DIAG4, indent=2), "dcgmi diag -j", [("software", 3, 85, "fail")]),
        (json.dumps(DIAG4), "dcgmi diag -j", [("software", 3, 85, "fail")]),
        (json.dumps({"iterations": [DIAG4, DIAG4]}), "dcgmi diag -j", [("software", 3, 85, "fail")] * 2),
        (json.dumps(DIAG3), "dcgmi diag -j", [("Memory", 3, 85, "fail")]),
        (json.dumps(DIAG2), "dcgmi diag -j", [("GPU Memory", 3, None, "fail")]),
        (TABLE4, "dcgmi diag", [("software", 3, None, "fail")]),
        (
            TABLE3,
            "dcgmi diag",
            [("GPU Memory", 3, None, "fail"), ("Diagnostic", 1, None, "fail"), ("Diagnostic", 5, None, "fail")],
        ),
        (HEALTH, "dcgmi health", [("Memory system", 3, None, "failure"), ("PCIe system", 3, None, "warning")]),
        (json.dumps(HEALTH_JSON), "dcgmi health -j", [("Memory system", 3, None, "failure")]),
    ],
)
def test_each_form_tells_test_and_gpu(text: str, form: str, expected: list[tuple[object, ...]]) -> None:
    assert sniff_diagnostics(text.encode()) == form
    case = read(text)
    assert told(case) == expected
    assert case.coverage.problems == []
    first = case.events[0]
    assert first.node == "gx-07"
    assert error_of(first.fields.get("error"), str(first.fields["message"])) is dcgm_errors()[85]
    assert text.splitlines()[first.line - 1].strip().startswith(first.text[:300])
    assert text.encode()[first.offset :].lstrip().startswith(first.text[:60].encode())


def test_what_passes_is_no_event() -> None:
    passed = json.loads(json.dumps(DIAG4).replace('"Fail"', '"Pass"').replace('"warnings"', '"info"'))
    assert len(read(json.dumps(passed)).events) == 0
    assert len(read(TABLE4.replace("Fail", "Pass")).events) == 0
    assert len(read(HEALTH.replace("Failure", "Healthy").replace("Warning", "Healthy")).events) == 0


def test_damaged_json_is_named_with_its_line() -> None:
    case = read(json.dumps(DIAG4, indent=1)[:400])
    assert len(case.events) == 0
    assert case.coverage.problems[0].line is not None


def test_other_content_is_not_taken_for_a_diagnosis() -> None:
    assert sniff_diagnostics(b'{"status":"success","data":{"resultType":"matrix","result":[]}}') is None
    log = "".join(f"step {i} loss {i}.1\n" for i in range(99))
    assert sniff_diagnostics((log + TABLE4).encode()) is None
    assert sniff_diagnostics(b"| Name | Result |\n|---|---|\n| a | b |\n") is None


def test_every_error_of_the_table_is_found_by_its_message_and_has_a_sign() -> None:
    catalog = load_catalog()
    for error in dcgm_errors().values():
        assert error_of(None, error.example) is error, error.name
        known = error.sign in catalog.by_id or error.sign in DETECTOR_SIGNS or error.sign.startswith("metric.")
        assert known, error.sign


@settings(max_examples=60, deadline=None)
@given(
    st.sampled_from([json.dumps(DIAG4, indent=1), json.dumps(DIAG3), TABLE4, TABLE3, HEALTH, json.dumps(HEALTH_JSON)]),
    st.integers(0, 2000),
    st.integers(0, 40),
    st.text(max_size=20),
)
def test_changes_anywhere_never_raise(whole: str, at: int, gone: int, noise: str) -> None:
    case = read(whole[:at] + noise + whole[at + gone :])
    for event in case.events:
        assert event.fields["status"] in ("fail", "failure", "warn", "warning")


@settings(max_examples=40, deadline=None)
@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(max_size=5),
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(
                st.sampled_from(["tests", "results", "status", "warnings", "children", "body", "GPU"]),
                inner,
                max_size=4,
            )
        ),
        max_leaves=20,
    )
)
def test_any_json_is_survived(value: object) -> None:
    for form in ("DCGM Diagnostic", "body"):
        read(json.dumps({form: value, "header": ["Health Monitor Report"]}))
        read(json.dumps({"DCGM Diagnostic": {"test_categories": [{"tests": [value]}]}}))
