"""Output of Slurm's commands, as users collect it, becomes jobs and nodes."""

from __future__ import annotations

import itertools
import json
from pathlib import Path
from typing import Any

import pytest
from detect.scheduler_case import load

from aiops.ingest.slurm import sniff_slurm
from aiops.ingest.slurm_values import gpu_count, job_state, size_bytes, span_seconds, time_ns
from aiops.model import NO_TIME, Case, Job, Severity, TimeQuality

SACCT = """\
JobID|JobName|User|Partition|State|ExitCode|Submit|Start|End|AllocTRES|MaxRSS|NodeList
81|moe|ana|train|NODE_FAIL|0:0|2026-08-01T01:00:00|2026-08-01T01:00:10|2026-08-01T03:00:00|cpu=96,gres/gpu=32,node=4||g[01-04]
81.batch|batch|||CANCELLED|0:15|2026-08-01T01:00:10|2026-08-01T01:00:10|2026-08-01T03:00:00|||g01
81.0|python|||FAILED|15:0|2026-08-01T01:00:12|2026-08-01T01:00:12|2026-08-01T03:00:00||8112M|g[01-04]
81|moe|ana|train|RUNNING|0:0|2026-08-01T03:00:00|2026-08-01T03:02:00|Unknown|cpu=96,gres/gpu=32,node=4||g[01-02,05-06]
81.0|python|||RUNNING|0:0|2026-08-01T03:02:01|2026-08-01T03:02:01|Unknown|||g[01-02,05-06]
"""
FIXED = """\
       JobID    JobName      State ExitCode     Elapsed     MaxRSS        NodeList
------------ ---------- ---------- -------- ----------- ---------- ---------------
     7730914   pano_r50 OUT_OF_ME+    0:125    15:47:12                      vg-09
7730914.bat+      batch OUT_OF_ME+    0:125    15:47:12     18121K           vg-09
   7730914.0     python OUT_OF_ME+    0:125    15:47:07 209712044K           vg-09
     7730915   other job CANCELLED+      0:0    00:00:12             vg-[07-08]
"""
SQUEUE = """\
             JOBID PARTITION     NAME     USER ST       TIME  NODES NODELIST(REASON)
                81     train      moe      ana  R      25:08      4 g[01-02,05-06]
                90     train   my run      bob PD       0:00      2 (ReqNodeNotAvail, UnavailableNodes:g[03-04])
              91_4     train    array      bob CG       0:01      1 g07
"""
SCONTROL_JOB = """\
JobId=90 JobName=my run
   UserId=bob(21007) GroupId=vision(21000) MCS_label=N/A
   Priority=1 Nice=0 Account=vision QOS=normal
   JobState=PENDING Reason=AssocGrpGRES Dependency=(null)
   Requeue=1 Restarts=0 BatchFlag=1 Reboot=0 ExitCode=0:0
   RunTime=00:00:00 TimeLimit=3-00:00:00 TimeMin=N/A
   SubmitTime=2026-08-01T01:02:10 EligibleTime=2026-08-01T01:02:10
   StartTime=Unknown EndTime=Unknown Deadline=N/A
   Partition=train AllocNode:Sid=login2:754597
   ReqNodeList=(null) ExcNodeList=g09
   NodeList=
   NumNodes=2-2 NumCPUs=16 NumTasks=16 CPUs/Task=1 ReqB:S:C:T=0:0:*:*
   TRES=cpu=16,mem=3800000M,node=2,billing=16,gres/gpu=16
   Command=/home/run.sh
   Comment=run: scontrol update NodeName=g05 State=DRAIN Reason=hw JobState=FAILED NodeList=g05
   TresPerNode=gres:gpu:8
"""
SCONTROL_NODE = """\
NodeName=g03 Arch=x86_64 CoresPerSocket=48
   CPUAlloc=0 CPUEfctv=96 CPUTot=96 CPULoad=0.51
   Gres=gpu:h100:8(S:0-1)
   OS=Linux 5.15.0 #123-Ubuntu SMP State=IDLE
   State=DOWN+NOT_RESPONDING ThreadsPerCore=1 TmpDisk=0
   BootTime=2026-07-28T09:12:44 SlurmdStartTime=2026-07-28T09:13:58
   Reason=Not responding [root@2026-08-01T02:59:49]
"""
SINFO = """\
PARTITION AVAIL  TIMELIMIT  NODES  STATE NODELIST
train*       up   infinite      1  down* g03
train*       up   infinite      2 drain$ g[08-09]
train*       up   infinite      1  idle~ g10

REASON               USER      TIMESTAMP           NODELIST
Not responding       slurm     2026-08-01T02:59:49 g03
psu 1 swap scheduled root      2026-07-30T16:20:00 g[08-09]
"""


def by_id(case: Case) -> dict[str, Job]:
    return {job.id: job for job in case.jobs}


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        (SACCT, "sacct"),
        (FIXED, "sacct"),
        (SQUEUE, "squeue"),
        (SCONTROL_JOB, "slurm-show-job"),
        (SCONTROL_NODE, "slurm-show-node"),
        (SINFO, "sinfo"),
        ("Sat Aug  1 08:00:00 2026\nNODELIST PARTITION STATE GRES REASON\ng01 train* idle gpu:8 none\n", "sinfo"),
        ('{"meta": {"Slurm": {"version": {"major": 22}}}, "jobs": []}', "slurm-json"),
        ('{"jobs": [{"account": "a", "accrue_time": {"set": true}}]}', "slurm-json"),
        ("Current Association Manager state\n\nAssociation Records\n", "slurm-limits"),
        ("NodeName=g[01-08] CPUs=32 RealMemory=64000 Gres=gpu:h100:8 State=UNKNOWN\n", None),
        ("[2026-08-01T08:00:00.123] sched: Allocate JobId=81 NodeList=g01 #CPUs=192 Partition=train\n", None),
        ('{"status": "success", "data": {"result": []}}', None),
        ("a|b|c\n1|2|3\n", None),
        ("NAME STATE\nx y\n", None),
        ("STEP LOSS\n1 2.5\n", None),
    ],
)
def test_recognises_content(text: str, kind: str | None) -> None:
    assert sniff_slurm(text.encode()) == kind


def test_accounting_with_a_requeued_job(tmp_path: Path) -> None:
    case = load(tmp_path, SACCT)
    (job,) = case.jobs
    assert (job.id, job.name, job.scheduler, job.queue, job.gpus) == ("81", "moe", "slurm", "train", 32)
    assert (job.state, job.nodes) == ("RUNNING", ("g01", "g02", "g05", "g06"))
    assert job.started == time_ns("2026-08-01T03:02:00") and job.ended == NO_TIME
    first, second = job.fields["incarnations"]
    assert (first["state"], first["nodes"], first["line"]) == ("NODE_FAIL", ("g01", "g02", "g03", "g04"), 2)
    assert (second["state"], second["line"]) == ("RUNNING", 5)
    steps = [
        (step["step"], step["state"], step["exit_code"], step["exit_signal"], step["incarnation"])
        for step in job.fields["steps"]
    ]
    assert sorted(steps) == [
        ("0", "FAILED", 15, None, 0),
        ("0", "RUNNING", 0, None, 1),
        ("batch", "CANCELLED", 0, 15, 0),
    ]
    assert next(step["max_rss"] for step in job.fields["steps"] if step["max_rss"]) == 8112 << 20
    assert job.fields["restarts"] == 1 and job.fields["user"] == "ana"
    assert set(case.topology.node_kinds) == {f"g{i:02d}" for i in range(1, 7)}


def test_fixed_width_with_truncated_words(tmp_path: Path) -> None:
    jobs = by_id(load(tmp_path, FIXED))
    job = jobs["7730914"]
    assert (job.state, job.exit_signal, job.nodes, job.line) == ("OUT_OF_MEMORY", 125, ("vg-09",), 3)
    assert [(step["step"], step["max_rss"]) for step in job.fields["steps"]] == [
        ("0", 209_712_044 << 10),
        ("batch", 18_121 << 10),
    ]
    other = jobs["7730915"]
    assert (other.state, other.nodes, other.fields["elapsed"]) == ("CANCELLED", ("vg-07", "vg-08"), 12)


def test_queue_with_reasons_and_blanks(tmp_path: Path) -> None:
    jobs = by_id(load(tmp_path, SQUEUE))
    assert (jobs["81"].state, jobs["81"].nodes, jobs["81"].fields["elapsed"]) == (
        "RUNNING",
        ("g01", "g02", "g05", "g06"),
        1508,
    )
    waiting = jobs["90"]
    assert (waiting.name, waiting.state, waiting.nodes) == ("my run", "PENDING", ())
    assert waiting.reason == "ReqNodeNotAvail, UnavailableNodes:g[03-04]"
    assert jobs["91_4"].state == "COMPLETING"


def test_show_job_does_not_believe_a_comment(tmp_path: Path) -> None:
    (job,) = load(tmp_path, SCONTROL_JOB).jobs
    assert (job.name, job.state, job.reason, job.nodes, job.gpus) == ("my run", "PENDING", "AssocGrpGRES", (), 16)
    assert job.fields["account"] == "vision" and job.fields["excluded"] == "g09"
    assert job.fields["time_limit"] == 3 * 86_400
    assert job.submitted == time_ns("2026-08-01T01:02:10") and job.started == NO_TIME


def test_show_job_on_one_line(tmp_path: Path) -> None:
    line = " ".join(part.strip() for part in SCONTROL_JOB.splitlines() if "Comment" not in part)
    second = line.replace("JobId=90", "JobId=95 ArrayJobId=94 ArrayTaskId=3").replace("PENDING", "RUNNING")
    jobs = by_id(load(tmp_path, line + "\n" + second + "\n"))
    assert (jobs["90"].state, jobs["90"].name) == ("PENDING", "my run")
    assert (jobs["94_3"].state, jobs["94_3"].fields["raw_id"]) == ("RUNNING", "95")


def test_nodes_are_events_with_reason_and_time(tmp_path: Path) -> None:
    case = load(tmp_path, SCONTROL_NODE, SINFO)
    rows = {(row.source, row.line, row.node): row for row in case.events}
    shown = rows[0, 7, "g03"]
    assert (shown.fields["state"], shown.fields["reason"], shown.fields["user"]) == (
        "DOWN+NOT_RESPONDING",
        "Not responding",
        "root",
    )
    assert (shown.ts, shown.quality, shown.severity) == (
        time_ns("2026-08-01T02:59:49"),
        TimeQuality.PARTIAL,
        Severity.ERROR,
    )
    assert shown.text == "Reason=Not responding [root@2026-08-01T02:59:49]"
    assert shown.fields["gres"] == "gpu:h100:8(S:0-1)"
    assert rows[1, 2, "g03"].fields["state"] == "DOWN+NOT_RESPONDING"
    assert rows[1, 3, "g08"].fields["state"] == "DRAIN+MAINTENANCE"
    assert rows[1, 8, "g09"].fields["reason"] == "psu 1 swap scheduled"
    assert rows[1, 4, "g10"].severity is Severity.INFO and rows[1, 4, "g10"].ts == NO_TIME


def test_a_job_is_joined_over_commands_in_any_order(tmp_path: Path) -> None:
    seen = set()
    for number, files in enumerate(itertools.permutations((SACCT, SQUEUE, SCONTROL_JOB))):
        folder = tmp_path / str(number)
        folder.mkdir()
        jobs = by_id(load(folder, *files))
        seen.add(
            json.dumps(
                {
                    key: [
                        job.state,
                        job.reason,
                        job.nodes,
                        job.gpus,
                        job.name,
                        len(job.fields["steps"]),
                        job.text,
                        job.started,
                        job.fields["restarts"],
                    ]
                    for key, job in sorted(jobs.items())
                }
            )
        )
    assert len(seen) == 1
    jobs = json.loads(seen.pop())
    assert jobs["81"][:2] == ["RUNNING", None]
    assert jobs["90"][:2] == ["PENDING", "AssocGrpGRES"], "scontrol knows better than a queue listing"


def test_finished_job_that_waits_again(tmp_path: Path) -> None:
    accounting = (
        "JobID|State|ExitCode|Start|End|NodeList\n66|PREEMPTED|0:0|2026-08-01T01:00:00|2026-08-01T02:00:00|g01\n"
    )
    queue = "JOBID PARTITION NAME USER ST TIME NODES NODELIST(REASON)\n66 gpu x ana PD 0:00 1 (Resources)\n"
    (job,) = load(tmp_path, accounting, queue).jobs
    assert (job.state, job.reason) == ("PENDING", "Resources")
    assert [run["state"] for run in job.fields["incarnations"]] == ["PREEMPTED", "PENDING"]


def number(value: int | None) -> dict[str, Any]:
    return {"set": value is not None, "infinite": False, "number": value or 0}


def test_json_of_old_and_new_releases(tmp_path: Path) -> None:
    old = {
        "meta": {"Slurm": {"release": "22.05.8"}},
        "jobs": [
            {
                "job_id": 5,
                "name": "a",
                "state": {"current": "FAILED", "reason": "None"},
                "nodes": "g[01-02]",
                "exit_code": {"status": "ERROR", "return_code": 1},
                "array": {"job_id": 0, "task_id": None},
                "time": {
                    "start": 1785546000,
                    "end": 1785549600,
                    "submission": 1785545000,
                    "elapsed": 3600,
                    "limit": 60,
                },
                "tres": {"allocated": [{"type": "gres", "name": "gpu", "count": 16}]},
                "steps": [
                    {
                        "state": "OUT_OF_MEMORY",
                        "step": {"id": 0, "name": "python"},
                        "nodes": {"range": "g02"},
                        "exit_code": {"status": "SIGNALED", "return_code": None, "signal": {"signal_id": 9}},
                        "time": {"start": 1785546001},
                        "tres": {"requested": {"max": [{"type": "mem", "count": 4096, "node": "g02"}]}},
                    }
                ],
            }
        ],
    }
    new = {
        "jobs": [
            {
                "job_id": 6,
                "name": "b",
                "state": {"current": ["CANCELLED"], "reason": "None"},
                "kill_request_user": "mia",
                "nodes": "None assigned",
                "array": {"job_id": 7, "task_id": number(2)},
                "failed_node": "",
                "exit_code": {
                    "status": ["SIGNALED"],
                    "return_code": number(None),
                    "signal": {"id": number(15), "name": "Terminated"},
                },
                "time": {"start": 0, "end": 1785549600, "submission": 1785545000, "limit": number(90)},
                "tres": {"allocated": [], "requested": [{"type": "gres", "name": "gpu", "count": 8}]},
                "steps": [],
            }
        ],
        "meta": {"slurm": {"release": "24.05.1"}},
    }
    queue = {
        "jobs": [
            {
                "job_id": 8,
                "job_state": ["PENDING", "REQUEUED"],
                "state_reason": "BeginTime",
                "restart_cnt": 2,
                "accrue_time": number(0),
                "nodes": "",
                "failed_node": "g03",
                "tres_req_str": "cpu=1024,node=8,gres/gpu=64",
                "start_time": number(1785999999),
                "exit_code": {
                    "status": ["SIGNALED"],
                    "return_code": number(None),
                    "signal": {"id": number(6), "name": "SIGABRT"},
                },
            }
        ]
    }
    raw = {"jobs": [{"job_id": 9, "job_state": "CANCELLED", "exit_code": 15, "nodes": "g[01-04]", "accrue_time": 1}]}
    jobs = by_id(load(tmp_path, old, new, queue, raw))
    first = jobs["5"]
    assert (first.state, first.reason, first.exit_code, first.gpus) == ("FAILED", None, 1, 16)
    assert first.nodes == ("g01", "g02")
    assert (first.ended, first.fields["time_limit"]) == (1785549600 * 10**9, 3600)
    step = first.fields["steps"][0]
    assert (step["step"], step["state"], step["exit_signal"], step["max_rss"], step["nodes"]) == (
        "0",
        "OUT_OF_MEMORY",
        9,
        4096,
        ("g02",),
    )
    second = jobs["7_2"]
    assert (second.state, second.exit_signal, second.fields["cancelled_by"], second.nodes, second.gpus) == (
        "CANCELLED",
        15,
        "mia",
        (),
        8,
    )
    third = jobs["8"]
    assert (third.state, third.reason, third.gpus, third.started) == ("PENDING", "BeginTime", 64, NO_TIME)
    assert third.fields["restarts"] == 2 and third.fields["failed_node"] == "g03"
    assert third.fields["flags"] == ("REQUEUED",)
    assert (jobs["9"].exit_code, jobs["9"].exit_signal) == (0, 15)
    lines = (tmp_path / "f0").read_text().splitlines()
    assert '"job_id": 5' in lines[first.line - 1]


def test_json_nodes_of_old_and_new_releases(tmp_path: Path) -> None:
    old = {
        "meta": {"Slurm": {}},
        "nodes": [
            {
                "name": "g01",
                "state": "down",
                "state_flags": ["DRAIN"],
                "reason": "bad",
                "reason_changed_at": 1785546000,
                "reason_set_by_user": "root",
                "boot_time": 1785000000,
            }
        ],
    }
    show = {
        "nodes": [
            {
                "name": "g02",
                "state": ["IDLE", "DRAIN"],
                "reason": "Kill task failed",
                "reason_changed_at": number(1785546000),
                "boot_time": number(1785000000),
            }
        ]
    }
    rows = {
        "sinfo": [
            {
                "node": {"state": ["MIXED"]},
                "nodes": {"nodes": ["g03", "g04"]},
                "partition": {},
                "reason": {"description": "", "user": "", "time": number(0)},
            }
        ],
        "meta": {"slurm": {}},
    }
    case = load(tmp_path, old, show, rows)
    assert [(row.node, row.fields["state"], row.fields["reason"]) for row in case.events] == [
        ("g01", "DOWN+DRAIN", "bad"),
        ("g02", "IDLE+DRAIN", "Kill task failed"),
        ("g03", "MIXED", None),
        ("g04", "MIXED", None),
    ]
    assert case.events[0].ts == 1785546000 * 10**9


def test_cut_off_json_keeps_whole_jobs(tmp_path: Path) -> None:
    whole = json.dumps(
        {
            "meta": {"Slurm": {}},
            "jobs": [{"job_id": i, "job_state": "RUNNING", "nodes": f"g{i}", "accrue_time": 1} for i in range(1, 6)],
        },
        indent=1,
    )
    case = load(tmp_path, whole[: whole.index('"g4"')])
    assert sorted(by_id(case)) == ["1", "2", "3"]
    assert "malformed" in case.coverage.problems[0].reason and case.coverage.problems[0].line


def test_limits_and_their_use(tmp_path: Path) -> None:
    text = (
        "Current Association Manager state\n\nAssociation Records\n\n"
        "ClusterName=hpc Account=vision UserName= Partition= Priority=0 ID=6\n"
        "    GrpJobs=N(2) GrpJobsAccrue=N(1)\n"
        "    GrpTRES=cpu=N(288),mem=N(5700000),node=4(3),gres/gpu=32(24)\n"
        "    MaxTRESPJ=\n"
        "ClusterName=hpc Account=vision UserName=mia(21007) Partition= Priority=0 ID=7\n"
        "    GrpTRES=gres/gpu=N(16)\n\n"
        "QOS Records\n\nQOS=gold(3)\n    GrpTRES=gres/gpu=64(64)\n"
    )
    case = load(tmp_path, text)
    assert [
        (e.line, e.fields["account"], e.fields["qos"], e.fields["resource"], e.fields["limit"], e.fields["used"])
        for e in case.events
    ] == [
        (7, "vision", None, "node", 4, 3.0),
        (7, "vision", None, "gres/gpu", 32, 24.0),
        (15, None, "gold", "gres/gpu", 64, 64.0),
    ]


@pytest.mark.parametrize(
    ("listed", "reason"),
    [("g[1-200000]", "more than"), ("g[1-", "missing"), ("g1;reboot", "no host name"), ("$(halt)", "no host name")],
)
def test_node_lists_that_must_not_be_believed(tmp_path: Path, listed: str, reason: str) -> None:
    text = f"JobID|State|ExitCode|NodeList\n1|FAILED|1:0|{listed}\n2|COMPLETED|0:0|g1\n"
    case = load(tmp_path, text)
    assert list(by_id(case)) == ["2"] and set(case.topology.nodes) == {"g1"}
    (problem,) = case.coverage.problems
    assert problem.line == 2 and reason in problem.reason


def test_times_without_a_year_are_unknown(tmp_path: Path) -> None:
    text = (
        "JobID State ExitCode Start End Elapsed NodeList\n"
        "----- --------- -------- -------------- -------- -------- ----\n"
        "    5    FAILED      1:0 05-17T02:11:00 06:14:50 00:04:48   g1\n"
    )
    (job,) = load(tmp_path, text).jobs
    assert (job.started, job.ended, job.fields["elapsed"]) == (NO_TIME, NO_TIME, 288)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("2026-08-01T08:00:00", 1_785_571_200),
        ("2026-08-01T10:00:00+02:00", 1_785_571_200),
        ("2026-08-01T08:00:00Z", 1_785_571_200),
        ("Unknown", None),
        ("08:00:00", None),
        ("2026-13-01T08:00:00", None),
    ],
)
def test_times(text: str, value: int | None) -> None:
    assert time_ns(text) == (NO_TIME if value is None else value * 10**9)


@pytest.mark.parametrize(
    ("text", "state"),
    [
        ("CANCELLED by 1001", "CANCELLED"),
        ("OUT_OF_ME+", "OUT_OF_MEMORY"),
        ("CD", "COMPLETED"),
        ("NODE_FAIL", "NODE_FAIL"),
        ("NEWSTATE", "NEWSTATE"),
        ("", None),
    ],
)
def test_states(text: str, state: str | None) -> None:
    assert job_state(text) == state


@pytest.mark.parametrize(
    ("text", "gpus"),
    [
        ("cpu=96,gres/gpu=32,node=4", 32),
        ("gres/gpu=8,gres/gpu:h100=8", 8),
        ("gres/gpu:a=4,gres/gpu:b=2", 6),
        ("gpu:h100:8(S:0-1)", 8),
        ("gpu:8", 8),
        ("gres:gpu:8", 8),
        ("gpu:h100:0(IDX:N/A)", 0),
        ("cpu=4,mem=8G", None),
        ("gres/gpumem=80G", None),
    ],
)
def test_gpus(text: str, gpus: int | None) -> None:
    assert gpu_count(text) == gpus


def test_sizes_and_spans() -> None:
    assert (size_bytes("1.5G"), size_bytes("12K"), size_bytes(""), size_bytes("x")) == (3 << 29, 12_288, None, None)
    assert (span_seconds("1-02:03:04"), span_seconds("25:08"), span_seconds("UNLIMITED")) == (93_784, 1508, None)
