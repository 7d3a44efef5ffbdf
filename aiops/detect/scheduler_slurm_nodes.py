"""What Slurm says about nodes: down, drained, rebooted, registered with less than configured."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from aiops.detect.scheduler_evidence import Quotes
from aiops.detect.scheduler_findings import Group, Groups, amount, listing
from aiops.ingest.slurm import NODE_SIGNAL
from aiops.ingest.slurm_values import is_trouble
from aiops.model.case import Case, Job
from aiops.model.event import NO_TIME, Event, Severity
from aiops.model.finding import EvidenceRef, Finding, Role

# Reasons that slurmctld and slurmd write themselves; an administrator's text never takes part here.
_DOWN = re.compile(r"not responding|ResumeTimeout reached|reboot timed out", re.I)
_REBOOT = re.compile(r"unexpectedly rebooted", re.I)
_GRES = re.compile(r"gres/gpu count reported lower than configured(?: \((\d{1,5}) < (\d{1,5})\))?")
_MEMORY = re.compile(r"Low RealMemory(?: \(reported:(\d{1,12}) < [\d.]+% of configured:(\d{1,12})\))?")
_KILL = re.compile(r"Kill task failed")
_OUT = re.compile(r"DRAIN|MAINT|FAIL")
_DOWN_STATE = re.compile(r"DOWN|NOT_RESPONDING|ERROR")
_POWER = re.compile(r"POWER|FUTURE|CLOUD")
_NEAR_NS = 900 * 1_000_000_000


@dataclass(slots=True)
class NodeState:
    """All statements about one node, joined."""

    node: str
    state: str = ""
    reason: str | None = None
    user: str | None = None
    since: int = NO_TIME
    rows: list[Event] = field(default_factory=list)

    @property
    def down(self) -> bool:
        """It does not answer, or came back by surprise."""
        reason = self.reason or ""
        if _POWER.search(self.state) or _idle(self.state):
            return bool(_REBOOT.search(reason))
        return bool(_DOWN_STATE.search(self.state) or _DOWN.search(reason) or _REBOOT.search(reason))

    def quote(self, quotes: Quotes) -> list[EvidenceRef]:
        """Rows that carry the state or the reason."""
        telling = [row for row in self.rows if row.fields.get("reason") or row.fields.get("state")]
        telling.sort(key=lambda row: (not row.fields.get("reason"), row.source, row.line))
        return [quotes.row(row.source, row.line, row.text, row.ts) for row in telling[:2]]


def node_states(case: Case) -> dict[str, NodeState]:
    """State of each node from all listings; the fullest reason and the earliest time count."""
    found: dict[str, NodeState] = {}
    rows = [case.events[index] for index in case.events.by_signal().get(NODE_SIGNAL, ())]
    for row in sorted(rows, key=lambda row: (row.node or "", len(str(row.fields["state"])), row.text)):
        node = found.setdefault(row.node or "", NodeState(row.node or ""))
        node.rows.append(row)
        node.state = str(row.fields["state"]) or node.state
        reason = row.fields["reason"]
        if reason and len(reason) > len(node.reason or ""):
            # sinfo cuts reasons off; the longest one is whole.
            node.reason = reason
        node.user = node.user or row.fields["user"]
        if row.ts != NO_TIME:
            node.since = row.ts if node.since == NO_TIME else min(node.since, row.ts)
    return found


def detect_slurm_nodes(case: Case, quotes: Quotes, states: Mapping[str, NodeState], told: set[str]) -> list[Finding]:
    """``sched.node_fail``, ``sched.node_reboot``, ``sched.gres_mismatch``, ``sched.node_memory_mismatch``,
    ``sched.node_invalid``, ``sched.kill_failed``, ``sched.node_drained``.

    ``told`` names nodes whose failure a job's finding already tells. ``fields["of_job"]`` is False for nodes that ran
    no job of the evidence at that time; these are context.
    """
    groups = Groups()
    jobs = [job for job in case.jobs if job.scheduler == "slurm"]
    users: dict[str, list[Job]] = {}
    for job in jobs:
        for name in _places(job.fields, job.nodes):
            users.setdefault(name, []).append(job)
    for name, state in sorted(states.items()):
        sign = _sign(state)
        if sign is None or (sign in ("sched.node_fail", "sched.node_reboot") and name in told):
            continue
        here = [job.id for job in users.get(name, ()) if _during(job.fields, state)]
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
    return list(_finish(groups))


def _sign(state: NodeState) -> str | None:
    reason = state.reason or ""
    for sign, pattern in (
        ("sched.node_reboot", _REBOOT),
        ("sched.gres_mismatch", _GRES),
        ("sched.node_memory_mismatch", _MEMORY),
        ("sched.kill_failed", _KILL),
    ):
        if pattern.search(reason):
            return sign
    if "INVALID_REG" in state.state:
        return "sched.node_invalid"
    if state.down:
        return "sched.node_fail"
    if _OUT.search(state.state) or (reason and not _idle(state.state)):
        return "sched.node_drained"
    return None


def _idle(state: str) -> bool:
    """A healthy state: a reason that stands beside it is left over."""
    return bool(state) and not is_trouble(state) and not _OUT.search(state)


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
