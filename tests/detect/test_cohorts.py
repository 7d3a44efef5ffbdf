"""Faults on the machines that were changed, and on no other."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from aiops.config import Settings, default_cache_dir
from aiops.pipeline import analyze_paths

TASK = "2026-08-01 06:00:00,112 p=4410 u=ops n=ansible | TASK [hca : firmware upgrade] ****************\n"
QUIET = "2026-08-01T05:50:00+00:00 {host} kernel: IPv6: ADDRCONF(NETDEV_CHANGE): eth0: link becomes ready\n"
FLAP = "".join(
    f"2026-08-01T07:{minute:02}:00+00:00 {{host}} kernel: mlx5_core 0000:9a:00.0 ibp154s0: Link {state}\n"
    for minute, state in ((10, "down"), (11, "up"), (20, "down"), (21, "up"), (30, "down"), (31, "up"))
)


def judge(folder: Path, changed: str, ill: str, hosts: str = "abcdefgh") -> Any:
    lines = "".join(f"2026-08-01 06:02:00,112 p=4410 u=ops n=ansible | changed: [n-{c}]\n" for c in changed)
    (folder / "ansible.log").write_text(TASK + lines)
    for host in hosts:
        name = f"n-{host}"
        (folder / f"{name}.log").write_text((QUIET + (FLAP if host in ill else "")).replace("{host}", name))
    return analyze_paths([folder], Settings(cache_dir=default_cache_dir()))


def test_the_change_is_the_cause_and_no_machine_is(tmp_path: Path) -> None:
    report = judge(tmp_path, "efgh", "efgh")
    best = report.incidents[0]
    assert (best.failure_class, best.culprit.node) == ("ctl.rollout", None)
    assert not {action.action.value for action in best.actions} & {
        "drain_node",
        "cordon_node",
        "requeue_excluding_node",
    }
    assert any(f.sign == "ctl.cohort" and "4 of the 4 machines" in f.text for f in best.findings)


@pytest.mark.parametrize(
    ("changed", "ill"),
    [
        ("efgh", "dfgh"),  # one that was not changed shows it as well
        ("efgh", "e"),  # one machine is no cohort
        ("bcdefgh", "fgh"),  # nearly all were changed: chance would do the same
    ],
)
def test_what_is_no_cohort(tmp_path: Path, changed: str, ill: str) -> None:
    report = judge(tmp_path, changed, ill)
    assert all(f.sign != "ctl.cohort" for incident in report.incidents for f in incident.findings)


def test_machines_of_another_job_show_that_the_change_matters(tmp_path: Path) -> None:
    waited = "".join(
        f"[rank{rank}]:[E801 07:39:00.000000001 ProcessGroupNCCL.cpp:683] [Rank {rank}] Watchdog caught collective operation "
        "timeout: WorkNCCL(SeqNum=9, OpType=ALLREDUCE, NumelIn=1, NumelOut=1, Timeout(ms)=600000) ran for 600010 "
        "milliseconds before timing out.\n"
        for rank in (0, 1, 2)
    )
    (tmp_path / "slurm-301.out").write_text("[exiting program after 400 iterations]\n")
    (tmp_path / "slurm-302.out").write_text(waited)
    (tmp_path / "sacct").write_text(
        "JobID|JobName|User|State|ExitCode|Start|End|NodeList|NNodes\n"
        "301|one|ann|COMPLETED|0:0|2026-08-01T06:30:00|2026-08-01T07:30:00|n-[a-d]|4\n"
        "302|two|bob|FAILED|1:0|2026-08-01T06:30:00|2026-08-01T07:39:10|n-[e-h]|4\n".replace(
            "[a-d]", "a,n-b,n-c,n-d"
        ).replace("[e-h]", "e,n-f,n-g,n-h")
    )
    report = judge(tmp_path, "efgh", "efgh")
    assert report.incidents[0].failure_class == "ctl.rollout"


def test_a_change_does_not_explain_the_programs_own_mistake(tmp_path: Path) -> None:
    trace = '[rank{n}]: Traceback (most recent call last):\n[rank{n}]:   File "/w/a.py", line 4, in <module>\n'
    trace += "[rank{n}]:     x = d['tok']\n[rank{n}]: KeyError: 'tok'\n"
    (tmp_path / "train.log").write_text("".join(trace.replace("{n}", str(n)) for n in range(8)))
    report = judge(tmp_path, "efgh", "")
    assert report.incidents[0].failure_class == "usr.exception"
