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
from pathlib import Path
from typing import Any

import pytest

from aiops.config import Settings, default_cache_dir
from aiops.errors import InputError
from aiops.evaluate import VARIANTS, load_truth, load_variants, materialise, score
from aiops.model.entity import is_host_name
from aiops.model.report import DISRUPTIVE
from aiops.pipeline import analyze_paths

FIXTURES = Path(__file__).resolve().parent.parent / "fixtures"
NAMES = sorted(path.parent.name for path in FIXTURES.glob("*/truth.yaml"))
VARIED = sorted(path.parent.name for path in FIXTURES.glob("*/variants.yaml"))
CHILD = """
import sys
from aiops.config import Settings, default_cache_dir
from aiops.pipeline import analyze_paths
for line in sys.stdin:
    sys.stdout.write(analyze_paths([line.strip()], Settings(cache_dir=default_cache_dir())).to_json().decode().strip() + "\\n")
    sys.stdout.flush()
"""


class Answers:
    """Reports of every bundle and its variants, each made once."""

    def __init__(self, scratch: Path) -> None:
        self._scratch = scratch
        self._child: subprocess.Popen[str] | None = None
        self._reports: dict[tuple[str, str], str] = {}

    def text(self, name: str, how: str = "bundle") -> str:
        """``how``: a variant, ``renamed`` (other file names and order) or ``again`` (a process with other hash seed)."""
        if (name, how) not in self._reports:
            self._reports[name, how] = self._again(name) if how == "again" else self._here(self.path(name, how))
        return self._reports[name, how]

    def report(self, name: str, how: str = "bundle") -> dict[str, Any]:
        return json.loads(self.text(name, how))

    def path(self, name: str, how: str) -> Path:
        if how == "bundle":
            return FIXTURES / name / "bundle"
        target = self._scratch / name / how
        if not target.exists():
            target.parent.mkdir(exist_ok=True)
            if how == "renamed":
                self._rename(name, target)
            else:
                materialise(FIXTURES / name, how, target)
        return target

    @staticmethod
    def _here(path: Path) -> str:
        return analyze_paths([path], Settings(cache_dir=default_cache_dir())).to_json().decode().strip()

    def _again(self, name: str) -> str:
        if self._child is None:
            env = {**os.environ, "PYTHONHASHSEED": "2"}
            self._child = subprocess.Popen(
                [sys.executable, "-c", CHILD], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=env
            )
        assert self._child.stdin and self._child.stdout
        self._child.stdin.write(f"{FIXTURES / name / 'bundle'}\n")
        self._child.stdin.flush()
        return self._child.stdout.readline().strip()

    @staticmethod
    def _rename(name: str, target: Path) -> None:
        """A flat copy whose file names say nothing and sort in another order."""
        target.mkdir()
        files = sorted(path for path in (FIXTURES / name / "bundle").rglob("*") if path.is_file())
        random.Random(name).shuffle(files)
        for number, path in enumerate(files):
            shutil.copyfile(path, target / f"{number:03d}.dat")

    def close(self) -> None:
        if self._child is not None:
            assert self._child.stdin
            self._child.stdin.close()
            self._child.wait(timeout=60)


@pytest.fixture(scope="session")
def answers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Answers]:
    answers = Answers(tmp_path_factory.mktemp("fixtures"))
    yield answers
    answers.close()


def text_of(folder: Path) -> str:
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    return "\n".join(path.read_text(encoding="utf-8", errors="replace") for path in files)


def test_sixty_bundles_join_two_kinds_of_evidence_and_have_their_variants(answers: Answers) -> None:
    assert len(NAMES) >= 60
    assert NAMES == VARIED
    for name in NAMES:
        files = [path for path in (FIXTURES / name / "bundle").rglob("*") if path.is_file()]
        assert len(files) >= 2, name
        assert sum(path.stat().st_size for path in files) < 120_000, f"{name} is too long to read"


@pytest.mark.parametrize("name", NAMES)
def test_answer_is_right_in_every_labelled_field(answers: Answers, name: str) -> None:
    assert_right(answers, name, "bundle")


def assert_right(answers: Answers, name: str, how: str) -> None:
    report = answers.report(name, how)
    text = text_of(answers.path(name, how))

    def known(host: str) -> bool:
        from aiops.ingest.hostlist import expand_hostlist

        lists = {h for found in re.findall(r"[A-Za-z][\w.-]*\[[0-9,-]+\]", text) for h in expand_hostlist(found)}
        return is_host_name(host) and (host in lists or re.search(rf"(?<!\w){re.escape(host)}(?!\w)", text) is not None)

    result = score(report, load_truth(FIXTURES / name).label, known)
    wrong = {field: _shown(report, field) for field, good in result.items() if good is False}
    assert not wrong, f"{name}: {wrong}"


@pytest.mark.parametrize("name", VARIED)
def test_without_the_fault_there_is_no_incident(answers: Answers, name: str) -> None:
    report = answers.report(name, "clean")
    told = [(i["failure_class"], i["title"]) for i in report["incidents"]]
    assert (report["verdict"], told) == ("no_incident", [])


@pytest.mark.parametrize("name", VARIED)
def test_a_louder_unrelated_event_changes_nothing(answers: Answers, name: str) -> None:
    assert_right(answers, name, "decoy")
    report, plain = answers.report(name, "decoy"), answers.report(name)
    assert report["verdict"] == plain["verdict"]
    assert _essence(report)["incidents"][:1] == _essence(plain)["incidents"][:1]
    blamed = {action["target"]["node"] for i in plain["incidents"] for action in i["actions"]}
    harmed = {
        (action["action"], action["target"]["node"])
        for incident in report["incidents"]
        for action in incident["actions"]
        if action["action"] in DISRUPTIVE
    }
    assert not {(action, node) for action, node in harmed if node not in blamed}


@pytest.mark.parametrize("name", VARIED)
def test_variants_are_as_whole_as_the_bundle(answers: Answers, name: str) -> None:
    """A twin is the same job that went well, not an empty directory; a decoy adds and takes nothing away."""
    plain, clean, decoy = (answers.report(name, how) for how in VARIANTS)
    assert set(plain["coverage"]["kinds"]) <= set(decoy["coverage"]["kinds"])
    assert all(known in plain["coverage"]["problems"] for r in (clean, decoy) for known in r["coverage"]["problems"])
    assert len(plain["coverage"]["kinds"]) <= len(clean["coverage"]["kinds"])
    assert len(text_of(answers.path(name, "decoy"))) > len(text_of(answers.path(name, "bundle")))
    assert all(len(load_variants(FIXTURES / name)[how].story) > 30 for how in ("clean", "decoy"))


def test_a_variant_that_does_not_fit_its_bundle_is_named(tmp_path: Path) -> None:
    (tmp_path / "bundle").mkdir()
    (tmp_path / "bundle" / "kern.log").write_text("one\ntwo\nthree\n")
    says = "clean: {story: s, edit: {kern.log: [%s]}}\ndecoy: {story: s}\n"
    for number, (step, reason) in enumerate(
        [
            ("{drop: four}", "no line with 'four'"),
            ("{cut_from: two, to: one}", "no line with 'one' after that"),
            ("{replace: {four: five}}", "nowhere 'four'"),
            ("{sub: {'^f': g}}", "nothing like '^f'"),
            ("{delete: two}", "no change that is known"),
        ]
    ):
        (tmp_path / "variants.yaml").write_text(says % step)
        with pytest.raises(InputError, match=re.escape(reason)):
            materialise(tmp_path, "clean", tmp_path / f"out-{number}")
    (tmp_path / "variants.yaml").write_text(says % "{cut_from: two, to: three}, {insert: zero, before: one}")
    assert (materialise(tmp_path, "clean", tmp_path / "out") / "kern.log").read_text() == "zero\none\nthree\n"


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


@pytest.mark.parametrize("name", ["xid79-slurm", "healthy-ugly"])
def test_command_line_says_the_same_and_exits_with_the_verdict(answers: Answers, name: str, aiops: Any) -> None:
    done = aiops("analyze", FIXTURES / name / "bundle", "--format", "json")
    assert done.stdout.decode().strip() == answers.text(name)
    assert done.returncode == {"no_incident": 0, "incident": 10}[answers.report(name)["verdict"]]


@pytest.mark.parametrize("name", NAMES)
def test_same_input_twice_gives_the_same_bytes(answers: Answers, name: str) -> None:
    assert answers.text(name) == answers.text(name, "again")


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
        parts = [
            word
            for word in re.findall(r"[\w.-]+/[\w.-]+|[\w.-]*[A-Z0-9][\w.-]*", said)
            if word not in ("True", "False")
        ]
        near = "\n".join(lines[max(0, where - 30) : where + 30])
        assert not parts or any(part in lines[where] for part in parts), item
        own = re.split("[ /]", name)[-1]
        assert own in "\n".join(lines), item
        parts = parts or [own]
    assert parts and not [part for part in parts if part not in near], item
