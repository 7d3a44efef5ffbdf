"""Kills by the kernel's OOM killer: one for each node and victim, with its cgroup and, where known, its rank."""

from __future__ import annotations

import re
from dataclasses import replace

from aiops.catalog.model import Catalog
from aiops.detect.evidence import evidence_rows, in_time
from aiops.detect.launcher import recorded_exits
from aiops.detect.signals import finding_of
from aiops.model.case import Case
from aiops.model.event import Event
from aiops.model.finding import Finding

_CGROUP = re.compile(r"task_memcg=([^,\s]+)")
_SERVICE = re.compile(r"^/system\.slice/(?!slurm|docker|containerd|cri|kube|k8s|ray|pbs|lsf|condor)[\w@.-]+\.service\b")
_NOTICE = re.compile(r"\bKill process ")


def oom_kills(case: Case, catalog: Catalog) -> list[Finding]:
    """``kernel.oom_kill`` for each node and victim's name (fields ``pid``, ``process``, ``cgroup``, ``limit``).

    Older kernels announce a kill and then report it: both lines are one kill. A service of the machine that ran into its
    own memory limit is no part of a job; its finding carries ``foreign``.
    """
    records = {
        (event.node, str(event.fields["pid"])): event
        for event in evidence_rows(case, "kernel.oom_victim")
        if event.fields.get("pid")
    }
    groups: dict[tuple[str | None, str, bool], list[Event]] = {}
    seen: set[tuple[str | None, str, int]] = set()
    events = evidence_rows(case, "kernel.oom_kill")
    told = {(e.node, str(e.fields["pid"])) for e in events if not _NOTICE.search(e.text)}
    for event in events:
        key = (event.node, str(event.fields["pid"]))
        if _NOTICE.search(event.text) and key in told:
            continue
        if (*key, event.ts) in seen:
            continue
        seen.add((*key, event.ts))
        record = records.get(key)
        cgroup = _cgroup(record)
        limited = record is not None and "MEMCG" in str(record.fields.get("constraint"))
        foreign = bool(limited and _SERVICE.match(cgroup))
        scope = event.fields.get("scope") or ("Memory cgroup out of memory" if limited else "Out of memory")
        fields = {**event.fields, "scope": scope, "cgroup": cgroup, "limit": "cgroup" if "cgroup" in scope else "node"}
        if foreign:
            fields["foreign"] = True
        groups.setdefault((event.node, str(event.fields["process"]), foreign), []).append(replace(event, fields=fields))
    signal = catalog.by_id["kernel.oom_kill"]
    findings = []
    for group in groups.values():
        finding = finding_of(case, signal, sorted(group, key=in_time))
        ranks = _ranks(case, group)
        if len(ranks) == 1:
            finding.rank = ranks[0]
        finding.ranks = tuple(ranks)
        findings.append(finding)
    return findings


def _cgroup(record: Event | None) -> str:
    match = _CGROUP.search(record.text) if record is not None else None
    return match[1] if match else ""


def _ranks(case: Case, events: list[Event]) -> list[int]:
    """Ranks whose process ids were killed, by NCCL's lines or by the launcher's record of the exit."""
    pids = {(event.node, int(event.fields["pid"])) for event in events}
    placed = {place.rank for place in case.topology.ranks.values() if (place.node, place.pid) in pids}
    # a launcher may write the full host name where the kernel log has the short one
    short = {(node.split(".")[0], pid) for node, pid in pids if node}
    told = {rank for host, pid, rank in recorded_exits(case) if (host.split(".")[0], pid) in short}
    return sorted(placed | told)
