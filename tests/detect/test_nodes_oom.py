"""Kills by the kernel: each once, of the right scope, and a machine's own service is no part of the job."""

from __future__ import annotations

from pathlib import Path

from aiops.catalog import load_catalog
from aiops.config import Settings, default_cache_dir
from aiops.detect.oom import oom_kills
from aiops.ingest import open_case
from aiops.model.finding import Finding

KILL = "Memory cgroup out of memory: Killed process {} ({}) total-vm:91231232kB, anon-rss:62914560kB, file-rss:1024kB"
RECORD = (
    "oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),cpuset=/,mems_allowed=0-1,"
    "oom_memcg={0},task_memcg={0},task={1},pid={2},uid=0"
)


def findings(directory: Path, *messages: str, output: str = "") -> list[Finding]:
    text = "".join(f"Aug  1 08:00:{i:02d} n7 kernel: {m}\n" for i, m in enumerate(messages))
    (directory / "kern.log").write_text(text, encoding="utf-8")
    if output:
        (directory / "out.log").write_text(output, encoding="utf-8")
    with open_case([directory], Settings(cache_dir=default_cache_dir())) as case:
        return oom_kills(case, load_catalog())


def test_a_kill_in_a_jobs_cgroup(tmp_path: Path) -> None:
    cgroup = "/system.slice/slurmstepd.scope/job_771/step_0/user/task_3"
    (found,) = findings(tmp_path, RECORD.format(cgroup, "python", 31877), KILL.format(31877, "python"))
    assert (found.node, found.fields["cgroup"], found.fields["limit"]) == ("n7", cgroup, "cgroup")
    assert "foreign" not in found.fields


def test_a_service_that_ran_into_its_own_limit_is_not_of_the_job(tmp_path: Path) -> None:
    record = RECORD.format("/system.slice/node_exporter.service", "node_exporter", 99)
    (found,) = findings(tmp_path, record, KILL.format(99, "node_exporter"))
    assert found.fields["foreign"] is True


def test_announcement_and_report_of_an_old_kernel_are_one_kill(tmp_path: Path) -> None:
    (found,) = findings(
        tmp_path,
        "Out of memory: Kill process 5511 (python) score 912 or sacrifice child",
        "Killed process 5511 (python), UID 1004, total-vm:91231232kB, anon-rss:62914560kB, file-rss:0kB, shmem-rss:4kB",
    )
    assert (found.count, found.fields["limit"]) == (1, "node")


def test_the_victims_process_id_names_its_rank(tmp_path: Path) -> None:
    output = "".join(
        f"n7:{31870 + r}:{31870 + r} [{r}] NCCL INFO comm 0x1 rank {r} nranks 4 cudaDev {r} nvmlDev {r} busId {r + 1}a000 - Init COMPLETE\n"
        for r in range(4)
    )
    (found,) = findings(tmp_path, KILL.format(31872, "python"), output=output)
    assert found.rank == 2
