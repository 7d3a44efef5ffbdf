#!/usr/bin/env python3
"""A real Slurm cluster with accounting on one machine: munge, MariaDB, slurmdbd, slurmctld and a slurmd per node.

    cluster.py [--nodes 4] [--gpus 8]

Prints ``SLURM_CONF=…`` when all nodes are idle and runs until it is interrupted. Everything listens on loopback
(slurmdbd of 22.05 on all addresses, it has no such option). Needs root: slurmd becomes the user of each job, and the
GPUs are device files, made with mknod, that are another /dev/null.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import secrets
import shutil
import signal
import socket
import stat
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from services.slurm.config import DAEMONS, Layout, write
from services.slurm.processes import descendants, kill, listeners, stop, until

_STARTS = 3
_PLAIN_IO = "--innodb-use-native-aio=0"
"""Without io_uring, which virtual machines of test runs have in all states of repair."""
PROGRAMS = ("munged", "mariadbd", "mariadb-install-db", "slurmdbd", "slurmctld", "slurmd", "sacct", "squeue", "sinfo")
"""What must be installed; Debian's packages are named in `.ci/run`."""
USER = "nobody"
"""Owner of the jobs."""


class SlurmCluster:
    """Context manager: ``with SlurmCluster({"train": ["n01", "n02"]}) as cluster: cluster.run("squeue")``.

    Args:
        partitions: name → its nodes; the first is the default.
        gpus: of each node.
        missing: node → GPUs that its slurmd does not find when it registers.
    """

    def __init__(
        self, partitions: Mapping[str, Sequence[str]], *, gpus: int = 8, missing: Mapping[str, int] | None = None
    ) -> None:
        # pytest's own folders are too deep for unix sockets and closed to other users.
        self.folder = Path(tempfile.mkdtemp(prefix="sl"))
        self.folder.chmod(0o755)
        nodes = dict.fromkeys(node for names in partitions.values() for node in names)
        self.layout = Layout(
            self.folder, dict(zip((*DAEMONS, *nodes), _free_ports(len(DAEMONS) + len(nodes)), strict=True)),
            partitions, gpus, missing=missing or {},
        )  # fmt: skip
        self._running: dict[str, subprocess.Popen[bytes]] = {}

    def __enter__(self) -> SlurmCluster:
        try:
            self._prepare()
            self._munge()
            self._database()
            self.start_controller()
            for node in self.layout.nodes:
                self.start_node(node)
            ready = set(self.layout.nodes) - set(self.layout.missing)
            until("nodes are idle", lambda: ready <= set(self.out("sinfo", "-hN", "-t", "idle", "-o", "%N").split()))
        except BaseException as error:
            error.add_note(self._logs())
            self.stop()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    # commands -----------------------------------------------------------------------------------------------------

    def run(self, *command: str) -> subprocess.CompletedProcess[str]:
        """One of Slurm's commands against this cluster."""
        env = {**os.environ, "SLURM_CONF": str(self.layout.etc() / "slurm.conf"), "TZ": "UTC"}
        return subprocess.run(command, env=env, capture_output=True, text=True, timeout=120, check=False, cwd="/tmp")

    def out(self, *command: str) -> str:
        """Its output.

        Raises:
            RuntimeError: the command failed.
        """
        done = self.run(*command)
        if done.returncode:
            raise RuntimeError(f"{' '.join(command)}: {done.stderr.strip()}")
        return done.stdout

    def submit(self, name: str, script: str, *options: str) -> str:
        """Job id of a batch job; the script is the body of a shell script."""
        path = self.folder / "jobs" / name
        path.write_text(f"#!/bin/bash\n{script}\n")
        return self.out(
            "sbatch", "--parsable", f"--uid={USER}", f"--job-name={name}", "--chdir=/tmp",
            f"--output={self.folder}/jobs/%j.out", "--open-mode=append", *options, str(path),
        ).strip()  # fmt: skip

    def state(self, job: str) -> tuple[str, str]:
        """(state, reason) as squeue has them."""
        state, _, reason = self.out("squeue", "-h", "-t", "all", "-j", job, "-o", "%T|%r").strip().partition("|")
        return state, reason

    # faults ---------------------------------------------------------------------------------------------------------

    def start_node(self, node: str) -> None:
        env = {"SLURM_CONF": str(self.layout.etc(node) / "slurm.conf")}
        self._spawn(f"slurmd.{node}", ["slurmd", "-D", "-N", node], env)

    def kill_node(self, node: str) -> None:
        """Loss of power: slurmd, its step daemons and all processes of jobs on the node."""
        slurmd = self._running.pop(f"slurmd.{node}")
        # The process of a job outlives its slurmd, so all are looked for before the first is killed.
        kill(descendants([slurmd.pid, *listeners(self.folder / "spool" / node)]))
        slurmd.wait()

    def break_prolog(self, node: str) -> None:
        (self.folder / "faults" / f"prolog.{node}").touch()

    def start_controller(self) -> None:
        process = self._spawn("slurmctld", ["slurmctld", "-D"])
        until("slurmctld answers", lambda: "UP" in self.run("scontrol", "ping").stdout, process=process)

    def stop_controller(self) -> None:
        stop(self._running.pop("slurmctld"))

    def stop(self) -> None:
        """Stop what was started and remove its files; safe to call twice."""
        kill(pid for node in self.layout.nodes for pid in descendants(listeners(self.folder / "spool" / node)))
        nodes = [name for name in self._running if name.startswith("slurmd.")]
        for name in nodes:
            self._running[name].terminate()
        for name in (*nodes, "slurmctld", "slurmdbd", "mariadbd", "munged"):
            if name in self._running:
                stop(self._running.pop(name))
        shutil.rmtree(self.folder, ignore_errors=True)

    # start ----------------------------------------------------------------------------------------------------------

    def _prepare(self) -> None:
        if os.geteuid():
            raise PermissionError("slurmd and mknod need root")
        for name in ("etc", "run", "log", "state", "spool", "dev", "jobs", "faults"):
            (self.folder / name).mkdir()
        (self.folder / "jobs").chmod(0o777)
        for node in self.layout.nodes:
            (self.folder / "spool" / node).mkdir()
        for gpu in range(self.layout.gpus):
            # A plain file is refused ("is not a valid character or block device"); nobody opens this one.
            path = self.folder / "dev" / f"nvidia{gpu}"
            os.mknod(path, 0o666 | stat.S_IFCHR, os.makedev(1, 3))
        write(self.layout)

    def _munge(self) -> None:
        run, key = self.folder / "run", self.folder / "etc" / "munge.key"
        key.write_bytes(secrets.token_bytes(128))
        key.chmod(0o400)
        process = self._spawn(
            "munged",
            ["munged", "--foreground", "--force", f"--socket={self.layout.munge_socket}", f"--key-file={key}",
             f"--pid-file={run}/munged", f"--seed-file={self.folder}/state/seed",
             f"--log-file={self.folder}/log/munged.log"],
        )  # fmt: skip
        ask = ["munge", f"--socket={self.layout.munge_socket}", "-n"]
        until("munged answers", lambda: not subprocess.run(ask, capture_output=True).returncode, process=process)

    def _database(self) -> None:
        data, socket_ = self.folder / "mariadb", self.folder / "run" / "mysql"
        self._tables(data)
        process = self._spawn(
            "mariadbd",
            ["mariadbd", "--no-defaults", "--user=root", f"--datadir={data}", f"--socket={socket_}",
             f"--port={self.layout.ports['mariadbd']}", "--bind-address=127.0.0.1",
             "--innodb-buffer-pool-size=64M", "--innodb-log-file-size=16M", "--innodb-lock-wait-timeout=900",
             "--innodb-flush-log-at-trx-commit=0", "--skip-log-bin", "--performance-schema=OFF",
             "--skip-name-resolve", f"--pid-file={self.folder}/run/mariadbd", _PLAIN_IO],
        )  # fmt: skip
        ask = ["mariadb", "--no-defaults", f"--socket={socket_}", "-uroot", "-e"]
        until(
            "mariadbd answers",
            lambda: not subprocess.run([*ask, "select 1"], capture_output=True).returncode,
            process=process,
        )
        grant = (
            "create database slurm_acct_db; create user 'slurm'@'127.0.0.1' identified by 'slurm';"
            "grant all on slurm_acct_db.* to 'slurm'@'127.0.0.1';"
        )
        subprocess.run([*ask, grant], check=True, capture_output=True, timeout=60)
        self._accounting()
        self.out("sacctmgr", "-i", "add", "cluster", self.layout.cluster)
        self.out("sacctmgr", "-i", "add", "account", "research", "Description=research", "Organization=research")
        self.out("sacctmgr", "-i", "add", "user", "root", USER, "Account=research", "AdminLevel=None")

    def _tables(self, data: Path) -> None:
        """The database's own tables; seen to fail once in a while on a busy machine, and then to work.

        Raises:
            RuntimeError: it fails each time.
        """
        command = ["mariadb-install-db", "--no-defaults", "--user=root", f"--datadir={data}", "--skip-test-db",
                   "--auth-root-authentication-method=normal", "--innodb-log-file-size=16M", _PLAIN_IO]  # fmt: skip
        for _ in range(_STARTS):
            shutil.rmtree(data, ignore_errors=True)
            done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
            if not done.returncode:
                return
        raise RuntimeError(f"mariadb-install-db: {(done.stderr + done.stdout)[-1500:]}")

    def _accounting(self) -> None:
        """slurmdbd gives up at the first answer of a fresh database that it does not like; systemd would start it again."""
        for left in reversed(range(_STARTS)):
            process = self._spawn("slurmdbd", ["slurmdbd", "-D"])
            try:
                until("slurmdbd answers", self._accounts, process=process)
            except RuntimeError:
                if not left or process.poll() is None:
                    raise
            else:
                return

    def _accounts(self) -> bool:
        return not self.run("sacctmgr", "-n", "show", "cluster").returncode

    def _spawn(self, name: str, command: list[str], env: Mapping[str, str] | None = None) -> subprocess.Popen[bytes]:
        with open(self.folder / "log" / f"{name}.out", "ab") as log:
            process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True, cwd="/",
                env={**os.environ, "SLURM_CONF": str(self.layout.etc() / "slurm.conf"), "TZ": "UTC", **(env or {})},
            )  # fmt: skip
        self._running[name] = process
        return process

    def _logs(self) -> str:
        logs = sorted(self.folder.glob("log/*"))
        return "\n".join(f"{path.name}: {path.read_text(errors='replace')[-600:]}" for path in logs)


def _free_ports(count: int) -> list[int]:
    held = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    try:
        return [server.getsockname()[1] for server in held]
    finally:
        for server in held:
            server.close()


def main() -> None:
    """Run a cluster with one partition until interrupted."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nodes", type=int, default=4)
    parser.add_argument("--gpus", type=int, default=8)
    asked = parser.parse_args()
    nodes = [f"n{number:02d}" for number in range(1, asked.nodes + 1)]
    with SlurmCluster({"train": nodes}, gpus=asked.gpus) as cluster:
        print(f"SLURM_CONF={cluster.layout.etc()}/slurm.conf", flush=True)
        signal.signal(signal.SIGTERM, lambda *_: sys.exit())
        with contextlib.suppress(KeyboardInterrupt):
            signal.pause()


if __name__ == "__main__":
    main()
