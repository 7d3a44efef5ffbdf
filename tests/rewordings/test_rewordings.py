"""Every failure class is recognised in the words of several frameworks and releases.

A case is an entry of ``cases/*.yaml``::

    - class: sto.quota                 # or a list of classes that are all right
      name: short and unique
      source: where the wording comes from (project, file, release)
      files: {train.log: "…", kern.log: "…"}
      expect: {rank: 3, node: n7, requeue: fix_first, verdict: incident}   # optional, any part of the answer
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from aiops.config import Settings, default_cache_dir
from aiops.pipeline import analyze_paths

CASES = Path(__file__).parent / "cases"


def cases() -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    for path in sorted(CASES.glob("*.yaml")):
        found += yaml.safe_load(path.read_text(encoding="utf-8")) or []
    return found


@pytest.mark.parametrize("case", cases(), ids=lambda case: case["name"])
def test_rewording(case: dict[str, Any], tmp_path: Path) -> None:
    for name, text in case["files"].items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    report = json.loads(analyze_paths([tmp_path], Settings(cache_dir=default_cache_dir())).to_json())
    expect = dict(case.get("expect") or {})
    if expect.pop("verdict", "incident") == "no_incident":
        assert report["verdict"] == "no_incident", report["incidents"][0]["title"]
        return
    assert report["incidents"], "nothing was found"
    incident = report["incidents"][0]
    wanted = case["class"] if isinstance(case["class"], list) else [case["class"]]
    assert incident["failure_class"] in wanted
    for key, value in expect.items():
        answer = incident["requeue"]["verdict"] if key == "requeue" else incident["culprit"][key]
        assert answer == value, key


def test_every_case_names_its_source() -> None:
    names = [case["name"] for case in cases()]
    assert len(names) == len(set(names))
    assert all(case.get("source") for case in cases())
