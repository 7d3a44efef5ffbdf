"""Every bundled incident is judged right in every labelled field, and the answer depends on the content only."""

from __future__ import annotations

import datetime as dt
import json
import os
import random
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from aiops.evaluate import load_truth, score
from aiops.model.entity import is_host_name

FIXTURES = Path(__file__).resolve().parent.parent / "fixtures"
NAMES = sorted(path.parent.name for path in FIXTURES.glob("*/truth.yaml"))


def run_analyze(path: Path, hash_seed: int) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        [sys.executable, "-m", "aiops", "analyze", str(path), "--format", "json"],
        capture_output=True,
        check=False,
        timeout=180,
        stdin=subprocess.DEVNULL,
        env={**os.environ, "NO_COLOR": "1", "PYTHONHASHSEED": str(hash_seed)},
    )


class Answers:
    """Runs of the command line, each done once and two at a time."""

    def __init__(self, scratch: Path) -> None:
        self._scratch = scratch
        self._pool = ThreadPoolExecutor(max_workers=2)
        self._runs: dict[tuple[str, str], Future[subprocess.CompletedProcess[bytes]]] = {}

    def want(self, name: str, how: str = "plain") -> Future[subprocess.CompletedProcess[bytes]]:
        """``how`` is ``plain``, ``again`` (same input, other hash seed) or ``renamed`` (other names and order)."""
        key = (name, how)
        if key not in self._runs:
            bundle = FIXTURES / name / "bundle"
            path = self._renamed(name) if how == "renamed" else bundle
            self._runs[key] = self._pool.submit(run_analyze, path, 2 if how == "again" else 1)
        return self._runs[key]

    def report(self, name: str, how: str = "plain") -> dict[str, Any]:
        done = self.want(name, how).result()
        assert done.returncode in (0, 10, 11), done.stderr.decode("utf-8", "replace")
        return json.loads(done.stdout)

    def _renamed(self, name: str) -> Path:
        """A flat copy whose file names say nothing and sort in another order."""
        target = self._scratch / f"{name}-renamed"
        target.mkdir()
        files = sorted(path for path in (FIXTURES / name / "bundle").rglob("*") if path.is_file())
        random.Random(name).shuffle(files)
        for number, path in enumerate(files):
            shutil.copyfile(path, target / f"{number:03d}.dat")
        return target

    def close(self) -> None:
        self._pool.shutdown(cancel_futures=True)


@pytest.fixture(scope="session")
def answers(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Iterator[Answers]:
    answers = Answers(tmp_path_factory.mktemp("fixtures"))
    wanted = {
        item.callspec.params["name"]
        for item in request.session.items
        if item.path == Path(__file__) and hasattr(item, "callspec")
    }
    if "PYTEST_XDIST_WORKER" not in os.environ:  # there each worker runs only what its own tests ask for
        for name in sorted(wanted):
            answers.want(name)
    yield answers
    answers.close()


def bundle_text(name: str) -> str:
    files = sorted(path for path in (FIXTURES / name / "bundle").rglob("*") if path.is_file())
    return "\n".join(path.read_text(encoding="utf-8", errors="replace") for path in files)


def test_at_least_a_dozen_bundles_join_two_kinds_of_evidence() -> None:
    assert len(NAMES) >= 14
    for name in NAMES:
        files = [path for path in (FIXTURES / name / "bundle").rglob("*") if path.is_file()]
        assert len(files) >= 2, name
        assert sum(path.stat().st_size for path in files) < 120_000, f"{name} is too long to read"


@pytest.mark.parametrize("name", NAMES)
def test_answer_is_right_in_every_labelled_field(answers: Answers, name: str) -> None:
    report = answers.report(name)
    text = bundle_text(name)
    truth = load_truth(FIXTURES / name)

    def known(host: str) -> bool:
        from aiops.ingest.hostlist import expand_hostlist

        lists = {h for found in re.findall(r"[A-Za-z][\w.-]*\[[0-9,-]+\]", text) for h in expand_hostlist(found)}
        return is_host_name(host) and (host in lists or re.search(rf"(?<!\w){re.escape(host)}(?!\w)", text) is not None)

    result = score(report, truth.label, known)
    wrong = {field: _shown(report, field) for field, good in result.items() if good is False}
    assert not wrong, f"{name}: {wrong}"


def _shown(report: dict[str, Any], field: str) -> Any:
    first = (report["incidents"] or [{}])[0]
    return {
        "verdict": report["verdict"],
        "class_top1": first.get("failure_class"),
        "class_best": first.get("failure_class"),
        "hardware": first.get("hardware"),
        "requeue": first.get("requeue"),
        "exclude": first.get("requeue"),
        "actions_required": [a["action"] for a in first.get("actions", [])],
        "actions_forbidden": [a["action"] for a in first.get("actions", [])],
        "safe": [(a["action"], a["target"]) for a in first.get("actions", [])],
        **dict.fromkeys(("checkpoint_rule", "checkpoint_step", "checkpoint_restore"), first.get("checkpoint")),
    }.get(field, first.get("culprit"))


@pytest.mark.parametrize("name", NAMES)
def test_exit_code_says_the_verdict(answers: Answers, name: str) -> None:
    done = answers.want(name).result()
    verdict = answers.report(name)["verdict"]
    assert done.returncode == {"no_incident": 0, "incident": 10, "inconclusive": 11}[verdict]


@pytest.mark.parametrize("name", NAMES)
def test_same_input_twice_gives_the_same_bytes(answers: Answers, name: str) -> None:
    assert answers.want(name).result().stdout == answers.want(name, "again").result().stdout


@pytest.mark.parametrize("name", NAMES)
def test_file_names_and_order_do_not_change_the_answer(answers: Answers, name: str) -> None:
    assert _essence(answers.report(name, "renamed")) == _essence(answers.report(name))


def _essence(report: dict[str, Any]) -> dict[str, Any]:
    parts = []
    for incident in report["incidents"]:
        culprit = {key: incident["culprit"].get(key) for key in ("kind", "node", "gpu", "pci", "rank", "job")}
        parts.append(
            {
                "class": incident["failure_class"],
                "culprit": culprit,
                "requeue": incident["requeue"]["verdict"],
                "exclude": incident["requeue"]["exclude"],
                "step": incident["checkpoint"]["step"],
                "actions": [action["action"] for action in incident["actions"]],
            }
        )
    return {"verdict": report["verdict"], "incidents": parts}


@pytest.mark.parametrize("name", NAMES)
def test_everything_cited_exists(answers: Answers, name: str) -> None:
    for incident in answers.report(name)["incidents"]:
        evidence = {item["id"] for item in incident["evidence"]}
        findings = {item["id"] for item in incident["findings"]}
        cited = [e for part in ("actions", "timeline", "findings") for item in incident[part] for e in item["evidence"]]
        assert set(cited) <= evidence
        assert {f for hypothesis in incident["hypotheses"] for f in hypothesis["explains"]} <= findings
        assert {f for h in incident["hypotheses"] for term in h["terms"] for f in term["findings"]} <= findings
        assert incident["failure_class"] == incident["hypotheses"][0]["failure_class"]


@pytest.mark.parametrize("name", NAMES)
def test_evidence_is_quoted_from_the_line_it_names(answers: Answers, name: str) -> None:
    quoted = 0
    for incident in answers.report(name)["incidents"]:
        assert incident["evidence"], f"{name}: an incident without evidence"
        for item in incident["evidence"]:
            source = FIXTURES / name / "bundle" / item["source"]
            assert source.is_file(), item
            data = source.read_bytes()
            lines = data.decode("utf-8", "replace").split("\n")
            if item["line"]:
                assert f"line {item['line']}" in item["locator"], item
                where = item["line"] - 1
            else:
                assert item["offset"] is not None, f"neither line nor offset: {item}"
                where = data[: item["offset"]].count(b"\n")
            if _squeezed(item["text"]) not in _squeezed(lines[where]):
                assert source.suffix in (".json", ".jsonl", ".yaml"), f"not quoted as it stands: {item}"
                _assert_read_from_document(item, lines, where)
            quoted += 1
    if load_truth(FIXTURES / name).label["verdict"] == "incident":
        assert quoted >= 2, f"{name}: an incident needs more than one quotation"


def _squeezed(text: str) -> str:
    """Without what a quotation may change: runs of white space and the mark of a cut."""
    return re.sub(r"\s+", " ", text).strip().removesuffix("…").rstrip()


def _assert_read_from_document(item: dict[str, Any], lines: list[str], where: int) -> None:
    """A field of a JSON or YAML document is retold as one line; everything in it must stand there."""
    sample = re.fullmatch(r"(\w+)\{(.*)\} (\S+)", item["text"])
    if sample:
        at = int(dt.datetime.fromisoformat(item["ts"]).timestamp())
        parts = [sample[1], *re.findall(r'="([^"]*)"', sample[2]), f'[{at},"{sample[3]}"]']
        near = lines[where]
    else:
        name, _, said = item["text"].partition(": ")
        # The words of our own are lower case and without digits; names, reasons and numbers come from the document.
        parts = [word for word in re.findall(r"[\w.-]*[A-Z0-9][\w.-]*", said) if word not in ("True", "False")]
        near = "\n".join(lines[max(0, where - 30) : where + 30])
        assert not parts or any(part in lines[where] for part in parts), item
        own = re.split("[ /]", name)[-1]
        assert own in "\n".join(lines), item
        parts = parts or [own]
    assert parts and not [part for part in parts if part not in near], item
