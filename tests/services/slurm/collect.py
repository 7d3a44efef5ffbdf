"""What an operator collects of a job: the same facts as tables, as long listings, as JSON, or as daemons' logs."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from services.slurm.cluster import SlurmCluster

FORMS = ("tables", "listings", "json")
"""Ways of asking that must lead to the same verdict."""

_WIDE = (
    "JobIDRaw,JobID,JobName,User,Account,QOS,Partition,State,ExitCode,DerivedExitCode,Submit,Eligible,Start,End,"
    "Elapsed,Timelimit,NNodes,AllocTRES,ReqTRES,MaxRSS,MaxRSSNode,Reason,NodeList"
)


def collect(cluster: SlurmCluster, folder: Path, form: str, jobs: Sequence[str], nodes: Sequence[str] = ()) -> Path:
    """Fill the folder with the output of Slurm's own commands about the jobs and nodes, and return it."""
    folder.mkdir(parents=True)
    job_list, node_list = ",".join(jobs), ",".join(nodes)
    asked = {
        "tables": {
            "sacct.txt": ["sacct", "-j", job_list, "--duplicates", "--parsable2",
                          "--format=JobID,State,ExitCode,Start,End,NodeList"],
            "squeue.txt": ["squeue", "-t", "all", "-j", job_list, "-o", "%.8i %.9P %.12j %.9a %.8u %.2t %.10M %.5D %.12b %R"],
            "sinfo.txt": ["sinfo", "-N", "-l", "-n", node_list],
            "gpus.txt": ["sinfo", "-N", "-n", node_list, "-O", "NodeList:30,Partition:20,Gres:30,GresUsed:40,StateLong:20"],
            "reasons.txt": ["sinfo", "-R", "-n", node_list],
        },
        "accounting": {"sacct.txt": ["sacct", "-j", job_list]},
        "listings": {
            "accounting.txt": ["sacct", "-j", job_list, "-D", "-P", f"--format={_WIDE}"],
            "jobs.txt": ["scontrol", "show", "job", job_list],
            "nodes.txt": ["scontrol", "show", "node", node_list],
            "queue.txt": ["squeue", "-t", "all", "-j", job_list, "-o", "%i|%P|%j|%u|%T|%M|%l|%D|%b|%S|%R"],
        },
        "json": {
            "sacct.json": ["sacct", "-j", job_list, "--json"],
            "squeue.json": ["squeue", "-t", "all", "-j", job_list, "--json"],
            "sinfo.json": ["sinfo", "-n", node_list, "--json"],
            # 22.05 gives reservations as text only
            "reservations.txt": ["scontrol", "show", "reservation"],
        },
    }  # fmt: skip
    for name, command in asked[form].items():
        if nodes or node_list not in command:
            (folder / name).write_text(cluster.out(*command))
    return folder


def logs(cluster: SlurmCluster, folder: Path, jobs: Sequence[str] = (), nodes: Sequence[str] = ()) -> Path:
    """Logs of the controller, of the database daemon and of the nodes' slurmd, whole, and what the jobs printed."""
    folder.mkdir(parents=True, exist_ok=True)
    for name in ("slurmctld", "slurmdbd", *(f"slurmd.{node}" for node in nodes)):
        (folder / f"{name}.log").write_bytes((cluster.folder / "log" / f"{name}.log").read_bytes())
    for job in jobs:
        printed = cluster.folder / "jobs" / f"{job}.out"
        if printed.exists():
            (folder / f"slurm-{job}.out").write_bytes(printed.read_bytes())
    return folder
