"""What Slurm says about nodes: down, drained, rebooted, registered with less than configured."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from aiops.detect.scheduler_evidence import Quotes
from aiops.detect.scheduler_findings import Group, Groups, amount, listing
from aiops.detect.scheduler_slurm_places import (
    OUT_STATES,
    REBOOTED,
    NodeState,
    is_idle,
    nodes_of_choice,
    waits_for_nodes,
)
from aiops.model.case import Case, Job
from aiops.model.event import NO_TIME, Severity
from aiops.model.finding import Finding, Role

# Reasons that slurmctld and slurmd write themselves; an administrator's text never takes part here.
# sinfo -R and -l show 20 characters of a reason.
_GRES = re.compile(r"gres/gpu count repor(?:ted lower than configured(?: \((\d{1,5}) < (\d{1,5})\))?|$)")
_MEMORY = re.compile(r"Low RealMemory(?: \(reported:(\d{1,12}) < [\d.]+% of configured:(\d{1,12})\))?")
_KILL = re.compile(r"Kill task failed")
_LAUNCH = re.compile(r"launch failed|JobLaunchFailure|^Prolog$")
"""Why a job is held or ended whose prolog failed; it has no nodes any more that would tell which."""
_SEVERAL = 3
_TOGETHER_NS = 900 * 1_000_000_000
_WROTE = "What the script wrote: `prolog failed: rc:… output:…` in slurmd.log of the node"
_SCRIPT = re.compile(r"^(?:Prolog|Epilog) error$|^batch job complete failure$")
_NEAR_NS = 900 * 1_000_000_000


def detect_slurm_nodes(case: Case, quotes: Quotes, states: Mapping[str, NodeState], told: set[str]) -> list[Finding]:
    """``sched.node_fail``, ``sched.node_reboot``, ``sched.gres_mismatch``, ``sched.node_memory_mismatch``,
    ``sched.node_invalid``, ``sched.prolog_failed``, ``sched.kill_failed``, ``sched.node_drained``.

    ``told`` names nodes whose failure a job's finding already tells. ``fields["of_job"]`` is False for nodes that ran
    no job of the evidence at that time; these are context.
    """
    groups = Groups()
    jobs = [job for job in case.jobs if job.scheduler == "slurm"]
    users: dict[str, list[Job]] = {}
    for job in jobs:
        for name in _places(job.fields, job.nodes):
            users.setdefault(name, []).append(job)
    waiting: dict[str, list[str]] = {}
    for job in jobs:
        if job.state == "PENDING" and waits_for_nodes(job, states):
            for name in nodes_of_choice(job, states):
                waiting.setdefault(name, []).append(job.id)
    for name, state in sorted(states.items()):
        sign = _sign(state)
        if sign is None or (sign in ("sched.node_fail", "sched.node_reboot") and name in told):
            continue
        here = [job.id for job in users.get(name, ()) if _during(job.fields, state)] or waiting.get(name, [])
        if sign == "sched.prolog_failed":
            here = here or [job.id for job in jobs if _LAUNCH.search(job.reason or "")]
        ours = bool(here) or not jobs
        # Nodes that matter to nobody here are summed up by their reason.
        alone = ours and sign != "sched.node_drained"
        group = groups.get(sign, name if alone else None, None if alone else state.reason or state.state)
        group.fields.update(reason=state.reason, state=state.state, user=state.user)
        group.fields["of_job"] = bool(here) if jobs else None
        group.name = name if alone else None
        if len(here) == 1:
            group.job = here[0]
        if sign == "sched.node_drained":
            group.role, group.severity = Role.CONTEXT, Severity.INFO
        elif sign == "sched.kill_failed":
            group.role, group.severity = Role.ECHO, Severity.WARNING
        elif not ours:
            group.role, group.severity = Role.CONTEXT, Severity.WARNING
        for ref in state.quote(quotes):
            group.note(ref, ts=state.since, node=name)
    return _script_at_fault(list(_finish(groups)))


def _script_at_fault(findings: list[Finding]) -> list[Finding]:
    """A prolog that fails on several nodes within minutes is the script's fault, or of what it needs: no node is blamed."""
    failed = [f for f in findings if f.sign == "sched.prolog_failed" and f.role == Role.ROOT and f.node]
    times = sorted(f.first for f in failed if f.first != NO_TIME)
    for finding in failed:
        finding.fields = {**finding.fields, "spread": "one", "open": (_WROTE,)}
    if len(failed) < _SEVERAL or (times and times[-1] - times[0] > _TOGETHER_NS):
        return findings
    lead = min(failed, key=lambda f: (f.first == NO_TIME, f.first, f.node or ""))
    lead.nodes = tuple(sorted(str(f.node) for f in failed))
    lead.text = (
        f"The prolog or epilog failed on {len(failed)} nodes within minutes ({listing(lead.nodes)}), which were drained"
    )
    lead.fields = {**lead.fields, "spread": "several"}
    lead.evidence = [ref for f in failed[:3] for ref in f.evidence[:1]]
    lead.job = lead.job if len({f.job for f in failed}) == 1 else None
    lead.count, lead.node, lead.name = len(failed), None, None
    return [f for f in findings if f is lead or f not in failed]


def _sign(state: NodeState) -> str | None:
    reason = state.reason or ""
    for sign, pattern in (
        ("sched.node_reboot", REBOOTED),
        ("sched.gres_mismatch", _GRES),
        ("sched.node_memory_mismatch", _MEMORY),
        ("sched.kill_failed", _KILL),
        ("sched.prolog_failed", _SCRIPT),
    ):
        if pattern.search(reason):
            return sign
    if "INVALID_REG" in state.state:
        return "sched.node_invalid"
    if state.down:
        return "sched.node_fail"
    if OUT_STATES.search(state.state) or (reason and not is_idle(state.state)):
        return "sched.node_drained"
    return None


def _places(fields: Mapping[str, object], nodes: tuple[str, ...]) -> set[str]:
    """Nodes of all runs of a job."""
    told = fields.get("incarnations")
    runs = told if isinstance(told, tuple) else ()
    return {*nodes, *(name for run in runs for name in run["nodes"])}


def _during(fields: Mapping[str, object], state: NodeState) -> bool:
    """The node's trouble began while one of the job's runs used it, or not long after; True if times are unknown."""
    if state.since == NO_TIME:
        return True
    told = fields.get("incarnations")
    records = fields.get("records")
    runs = (
        [(run["started"], run["ended"], run["nodes"]) for run in told]
        if isinstance(told, tuple)
        else [
            (record.started, record.ended, record.nodes)
            for record in (records if isinstance(records, tuple) else ())
            if record.step is None
        ]
    )
    for started, ended, nodes in runs:
        if state.node not in nodes:
            continue
        if (started == NO_TIME or started <= state.since) and (ended == NO_TIME or state.since <= ended + _NEAR_NS):
            return True
    return False


def _finish(groups: Groups) -> Iterator[Finding]:
    texts = {
        "sched.node_fail": "did not respond",
        "sched.node_reboot": "rebooted unexpectedly",
        "sched.gres_mismatch": "registered with fewer GPUs than configured",
        "sched.node_memory_mismatch": "registered with less memory than configured",
        "sched.node_invalid": "registered with an invalid configuration",
        "sched.prolog_failed": "drained because its prolog or epilog failed",
        "sched.kill_failed": "drained because processes of a job could not be killed",
    }
    for sign, said in texts.items():
        for group in groups.of(sign):
            _counts(group)
            who = f"Node {listing(group.nodes)}" if len(group.nodes) == 1 else f"{len(group.nodes)} nodes"
            why = f" ({group.fields['reason']})" if group.fields["reason"] else ""
            yield group.finding(f"{who} {said}{why}")
    for group in groups.of("sched.node_drained"):
        count = len(group.nodes)
        why = f": {group.fields['reason']}" if group.fields["reason"] else ""
        yield group.finding(f"{amount(count, 'node')} out of service ({listing(group.nodes)}){why}")


def _counts(group: Group) -> None:
    for pattern, have, want in (
        (_GRES, "gpus_reported", "gpus_configured"),
        (_MEMORY, "memory_reported", "memory_configured"),
    ):
        match = pattern.search(group.fields["reason"] or "")
        if match and match[1]:
            group.fields.update({have: int(match[1]), want: int(match[2])})
