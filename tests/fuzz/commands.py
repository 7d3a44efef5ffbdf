"""The grammar of every command that a report may offer, written independently of the code that makes them."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from functools import cache
from typing import Any

HOST = r"[A-Za-z0-9](?:[A-Za-z0-9._-]{0,251}[A-Za-z0-9])?"
KUBE = r"[a-z0-9](?:[a-z0-9.-]{0,251}[a-z0-9])?"
JOB = r"[0-9]{1,12}(?:_[0-9]{1,9})?"
PCI = r"[0-9a-f]{4}:[0-9a-f]{2}:[0-9a-f]{2}"
REASON = r"aiops:inc[0-9]{1,3}:[a-z0-9_.]{1,80}"
_SUSPEND = (
    r'\{"spec":\{(?:"suspend":(?:true|false)|"active":(?:true|false)|"runPolicy":\{"suspend":(?:true|false)\})\}\}'
)

ALLOWED = [
    re.compile(pattern)
    for pattern in (
        rf"scontrol update NodeName=(?P<host>{HOST}) State=(?:DRAIN Reason={REASON}|RESUME)",
        rf"scontrol reboot ASAP nextstate=RESUME reason={REASON} (?P<host>{HOST})",
        rf"scontrol cancel_reboot (?P<host>{HOST})",
        rf"scontrol (?:requeue|requeuehold|hold|release) {JOB}",
        rf"scontrol update JobId={JOB} ExcNodeList=(?P<hosts>(?:{HOST}(?:,{HOST})*)?)",
        rf"scontrol show job {JOB}",
        r"sacctmgr show assoc tree format=account,user,grptres,maxtres",
        rf"kubectl (?:cordon|uncordon) (?P<host>{KUBE})",
        rf"kubectl drain (?P<host>{KUBE}) --ignore-daemonsets --delete-emptydir-data --timeout=10m",
        rf"kubectl debug node/(?P<host>{KUBE}) -it --image=busybox -- chroot /host systemctl reboot",
        rf"kubectl -n {KUBE} patch [a-z]{{2,40}} {KUBE} --type merge -p {_SUSPEND}",
        rf"kubectl -n {KUBE} delete (?:job|jobset|rayjob|trainjob|pytorchjob|mpijob) {KUBE}",
        rf"nvidia-smi --gpu-reset -i {PCI}\.0",
    )
]
_COMMENT = re.compile(rf" {{2,}}# on (?P<hosts>{HOST}(?:, ?{HOST})*)(?:, (?:only )?when [a-zA-Z ]+)?$")
_SLOT = re.compile(r"<[A-Za-z ]{2,30}>")
"""What a person has to fill in. Only in commands that look at something."""
EVERYTHING = frozenset({"all", "localhost", "localhost.localdomain", "default"})
"""Names that a scheduler takes for every node, or that name no node."""


def words_of(command: str) -> str:
    """The words of a command as a shell sees them, its comment left out; one line and printable ASCII only."""
    assert command.isascii() and command.isprintable(), command
    words = shlex.split(command, comments=True)
    assert not any(set(word) & set(" \t") for word in words), command
    return " ".join(words)


def hosts_of(command: str) -> list[str]:
    """Hosts that a command touches. Fails if the command is none of the known ones."""
    comment = _COMMENT.search(command)
    on = [host.strip() for host in comment["hosts"].split(",")] if comment else []
    bare = command[: comment.start()] if comment else command
    if any(_shape(check).fullmatch(bare) for check in _checks()):
        return on
    words = words_of(command)
    for pattern in ALLOWED:
        match = pattern.fullmatch(words)
        if match is not None:
            groups = match.groupdict()
            return on + [host for host in [groups.get("host"), *(groups.get("hosts") or "").split(",")] if host]
    raise AssertionError(f"not a known command: {command!r}")


@cache
def _checks() -> tuple[str, ...]:
    """The catalog's own commands that look at something; a person wrote them."""
    from aiops.catalog import load_catalog

    steps = (step for playbook in load_catalog().playbooks.values() for step in playbook.steps)
    return tuple(sorted({check for step in steps for check in step.check}))


@cache
def _shape(check: str) -> re.Pattern[str]:
    """A check with its slots filled: by a name of the right grammar, or by words for a person."""
    filled = {"pci": rf"{PCI}(?:\.0)?|[0-9]{{1,3}}|{_SLOT.pattern}", "node": rf"{HOST}|<node>", "job": rf"{JOB}|<job>"}
    parts = re.split(r"\{(\w+)\}", check)
    return re.compile("".join(f"(?:{filled[p]})" if n % 2 else re.escape(p) for n, p in enumerate(parts)))


def commands_of(report: Any) -> Iterator[str]:
    """Every command and undo of a report."""
    for incident in report.incidents:
        for action in incident.actions:
            yield from action.commands
            yield from action.undo


def check_commands(report: Any, bundle: bytes) -> int:
    """Every command is a known one, and every host in it is written in the bundle. Returns how many there were."""
    text = bundle.replace(b"\x00", b"") + b"\n" + bundle.decode("utf-16", "ignore").encode("utf-8", "ignore")
    number = 0
    for command in commands_of(report):
        number += 1
        for host in hosts_of(command):
            assert host.lower() not in EVERYTHING, command
            assert _names(host, text), f"{host!r} is not in the bundle: {command}"
    for incident in report.incidents:
        for node in incident.requeue.exclude:
            assert re.fullmatch(HOST, node) and node.lower() not in EVERYTHING, node
    return number


def _names(host: str, text: bytes) -> bool:
    """True if the bundle writes the name out, or as a member of a host list (``n[01-12]``)."""
    if host.encode() in text:
        return True
    stem = host.rstrip("0123456789")
    return bool(stem) and re.search(re.escape(stem.encode()) + rb"[0-9]*\[", text) is not None
