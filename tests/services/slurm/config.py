"""Configuration files of a Slurm cluster whose nodes are all processes of this machine."""

from __future__ import annotations

import socket
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

DAEMONS = ("slurmctld", "slurmdbd", "mariadbd")


@dataclass(frozen=True)
class Layout:
    """What the cluster pretends to be, and where its files and ports are.

    Attributes:
        folder: all files of the cluster; short, since a step's socket lies below it (107 characters at most).
        ports: of `DAEMONS` and of every node.
        partitions: name → its nodes; the first is the default.
        gpus: per node, as many CPUs times four and 8,000 MB each.
        missing: node → GPUs that its slurmd does not find.
    """

    folder: Path
    ports: Mapping[str, int]
    partitions: Mapping[str, Sequence[str]]
    gpus: int = 8
    gpu_type: str = "h100"
    cluster: str = "aitrain"
    missing: Mapping[str, int] = field(default_factory=dict)

    @property
    def nodes(self) -> list[str]:
        return list(dict.fromkeys(node for nodes in self.partitions.values() for node in nodes))

    @property
    def munge_socket(self) -> Path:
        return self.folder / "run" / "munge"

    def etc(self, node: str | None = None) -> Path:
        """Folder of slurm.conf; a node that misses GPUs has one of its own."""
        return self.folder / ("etc" if node not in self.missing else f"etc.{node}")


def write(layout: Layout) -> None:
    """Write slurm.conf, gres.conf, slurmdbd.conf and the prolog."""
    prolog = layout.folder / "prolog"
    prolog.write_text(
        f'#!/bin/sh\nif [ -e "{layout.folder}/faults/prolog.$SLURMD_NODENAME" ]; then\n'
        '  echo "prolog: nvidia-smi: Unable to determine the device handle for GPU 0000:3B:00.0: Unknown Error" >&2\n'
        "  exit 1\nfi\nexit 0\n"
    )
    prolog.chmod(0o755)
    for node in (None, *layout.missing):
        etc = layout.etc(node)
        etc.mkdir(exist_ok=True)
        (etc / "slurm.conf").write_text(_slurm(layout, prolog))
        (etc / "gres.conf").write_text(_gres(layout, node))
        (etc / "cgroup.conf").write_text("CgroupAutomount=no\n")
    dbd = layout.folder / "etc" / "slurmdbd.conf"
    dbd.write_text(_slurmdbd(layout))
    dbd.chmod(0o600)  # slurmdbd insists


def _slurm(layout: Layout, prolog: Path) -> str:
    folder, ports, cpus = layout.folder, layout.ports, layout.gpus * 4
    host = socket.gethostname()
    lines = [
        f"ClusterName={layout.cluster}",
        f"SlurmctldHost={host}(127.0.0.1)",
        f"SlurmctldPort={ports['slurmctld']}",
        "SlurmUser=root",
        "SlurmdUser=root",
        # A requeued job is held back for the life of a credential, 120 s by default.
        f"AuthInfo=socket={layout.munge_socket},cred_expire=5",
        "AuthType=auth/munge",
        "CredType=cred/munge",
        f"StateSaveLocation={folder}/state",
        f"SlurmdSpoolDir={folder}/spool/%n",
        f"SlurmctldPidFile={folder}/run/slurmctld",
        f"SlurmdPidFile={folder}/run/slurmd.%n",
        f"SlurmctldLogFile={folder}/log/slurmctld.log",
        f"SlurmdLogFile={folder}/log/slurmd.%n.log",
        "SlurmctldDebug=verbose",
        "SlurmdDebug=info",
        "LogTimeFormat=iso8601_ms",
        f"Prolog={prolog}",
        "MailProg=/bin/true",
        # No cgroups: tests may run in a container that has none to give.
        "ProctrackType=proctrack/linuxproc",
        "TaskPlugin=task/none",
        "JobAcctGatherType=jobacct_gather/linux",
        "JobAcctGatherFrequency=task=1",
        "JobAcctGatherParams=OverMemoryKill",
        "MpiDefault=none",
        "SwitchType=switch/none",
        "CommunicationParameters=NoInAddrAny,NoCtldInAddrAny",
        # A lost node is noticed within seconds instead of minutes.
        "SlurmdTimeout=6",
        "SlurmctldTimeout=10",
        "MessageTimeout=10",
        "KillWait=2",
        "InactiveLimit=0",
        "MinJobAge=3600",
        "ReturnToService=1",
        "JobRequeue=1",
        "RequeueExit=75",
        "SchedulerType=sched/backfill",
        "SchedulerParameters=bf_interval=2,sched_interval=2,batch_sched_delay=0",
        "SelectType=select/cons_tres",
        "SelectTypeParameters=CR_Core_Memory",
        "PriorityType=priority/multifactor",
        "PreemptType=preempt/qos",
        "PreemptMode=REQUEUE",
        # Nodes claim more than the machine has.
        "SlurmdParameters=config_overrides",
        "GresTypes=gpu",
        "AccountingStorageType=accounting_storage/slurmdbd",
        "AccountingStorageHost=localhost",
        f"AccountingStoragePort={ports['slurmdbd']}",
        f"AccountingStoragePass={layout.munge_socket}",
        "AccountingStorageTRES=gres/gpu",
        "AccountingStorageEnforce=limits,qos",
    ]
    lines += [
        f"NodeName={node} NodeHostname={host} NodeAddr=127.0.0.1 Port={ports[node]} CPUs={cpus} Boards=1 "
        f"SocketsPerBoard=2 CoresPerSocket={cpus // 2} ThreadsPerCore=1 RealMemory={layout.gpus * 8000} "
        f"Gres=gpu:{layout.gpu_type}:{layout.gpus} State=UNKNOWN"
        for node in layout.nodes
    ]
    lines += [
        f"PartitionName={name} Nodes={','.join(nodes)} Default={'NO' if index else 'YES'} DefMemPerCPU=100 "
        "MaxTime=7-0 State=UP OverSubscribe=NO"
        for index, (name, nodes) in enumerate(layout.partitions.items())
    ]
    return "\n".join(lines) + "\n"


def _gres(layout: Layout, node: str | None) -> str:
    lines = []
    for name in layout.nodes:
        count = layout.gpus - (layout.missing.get(name, 0) if name == node else 0)
        lines.append(f"NodeName={name} Name=gpu Type={layout.gpu_type} File={layout.folder}/dev/nvidia[0-{count - 1}]")
    return "\n".join(lines) + "\n"


def _slurmdbd(layout: Layout) -> str:
    folder = layout.folder
    return "\n".join(
        [
            "AuthType=auth/munge",
            f"AuthInfo=socket={layout.munge_socket}",
            "DbdHost=localhost",
            f"DbdPort={layout.ports['slurmdbd']}",
            "SlurmUser=root",
            "DebugLevel=info",
            f"LogFile={folder}/log/slurmdbd.log",
            f"PidFile={folder}/run/slurmdbd",
            "StorageType=accounting_storage/mysql",
            "StorageHost=127.0.0.1",
            f"StoragePort={layout.ports['mariadbd']}",
            "StorageUser=slurm",
            "StoragePass=slurm",
            "StorageLoc=slurm_acct_db\n",
        ]
    )
