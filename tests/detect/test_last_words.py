"""A log that ends in an error which nobody has a rule for is not called healthy; one that goes on, or ends well, is."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from aiops.pipeline import analyze_paths

STEPS = "".join(
    f"2026-08-01 08:{i:02d}:00,123 INFO [rank 0] trainer.py:318 step={i} loss=2.{900 - i}\n" for i in range(40)
)
ERROR = "2026-08-01 08:40:02,123 ERROR [rank 0] quux.py:9 could not obtain a frobnicator lease\n"
SACCT = "JobID|JobName|State|ExitCode|NodeList\n77|pretrain|COMPLETED|0:0|n1\n"


def verdict(folder: Path, log: str, **others: str) -> tuple[str, str]:
    (folder / "train.log").write_text(log)
    for name, text in others.items():
        (folder / name).write_text(text)
    report = json.loads(analyze_paths([folder]).to_json())
    return report["verdict"], report["incidents"][0]["failure_class"] if report["incidents"] else ""


def test_an_unknown_error_at_the_end_leaves_the_case_open(tmp_path: Path) -> None:
    assert verdict(tmp_path, STEPS + ERROR) == ("inconclusive", "unk.none")
    report = json.loads(analyze_paths([tmp_path]).to_json())
    assert any(
        "frobnicator" in e["text"] and e["locator"].startswith("line 41") for e in report["incidents"][0]["evidence"]
    )
    assert {action["action"] for action in report["incidents"][0]["actions"]}.isdisjoint(
        {"drain_node", "cordon_node", "reboot_node"}
    )


@pytest.mark.parametrize(
    ("log", "others"),
    [
        (STEPS + ERROR + STEPS.replace("08:", "09:"), {}),
        (STEPS + ERROR.replace("ERROR", "WARNING").replace("could", "error: could"), {}),
        (STEPS + ERROR + "Training finished successfully\n", {}),
        (STEPS + ERROR, {"sacct.txt": SACCT}),
    ],
    ids=["training goes on", "a warning", "success marker", "the scheduler saw it end well"],
)
def test_it_is_healthy_where_something_says_so(tmp_path: Path, log: str, others: dict[str, str]) -> None:
    assert verdict(tmp_path, log, **others)[0] == "no_incident"


def test_a_process_group_that_was_aborted_is_no_healthy_end(tmp_path: Path) -> None:
    torn = (
        "[rank0]:[E801 08:40:07.000000001 ProcessGroupNCCL.cpp:2068] [PG ID 0 PG GUID 0(default_pg) Rank 0] Process group "
        "watchdog thread terminated with exception: NCCL error: remote process exited or there was a network error, NCCL "
        "version 2.21.5\nncclRemoteError: A call failed possibly due to a network error or a remote process exiting "
        "prematurely.\nLast error:\nsocketProgress: Connection closed by remote peer 10.8.0.2<40110>\n"
    )
    assert verdict(tmp_path, STEPS + torn) == ("inconclusive", "unk.none")
    report = json.loads(analyze_paths([tmp_path]).to_json())
    assert all(f["sign"] != "log.last_error" for f in report["incidents"][0]["findings"]), "a heading is no error"


def test_an_unknown_line_stands_once(tmp_path: Path) -> None:
    verdict(tmp_path, STEPS + ERROR)
    told = [f.text for f in analyze_paths([tmp_path]).incidents[0].findings if "frobnicator" in f.text]
    assert told == [f"The log ends with an error that no rule knows: {ERROR.strip()}"]


def test_the_last_line_of_an_exception_is_no_unknown_line(tmp_path: Path) -> None:
    stack = 'Traceback (most recent call last):\n  File "/app/eval.py", line 77, in metrics\n    return ids[key]\n'
    log = "".join(f"[rank{r}]: {line}\n" for r in range(4) for line in (stack + f"KeyError: 'doc-{r}-x'").splitlines())
    verdict(tmp_path, STEPS + log)
    incident = analyze_paths([tmp_path]).incidents[0]
    assert incident.failure_class == "usr.exception"
    assert not any("No rule knows" in finding.text for finding in incident.findings)
