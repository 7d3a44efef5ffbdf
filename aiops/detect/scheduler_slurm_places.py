"""Slurm nodes as all listings together show them, and which of them a waiting job could be given."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from aiops.detect.scheduler_evidence import Quotes
from aiops.ingest.hostlist import HostlistError
from aiops.ingest.slurm import NODE_SIGNAL
from aiops.ingest.slurm_values import is_trouble, node_names
from aiops.model.case import Case, Job
from aiops.model.event import NO_TIME, Event
from aiops.model.finding import EvidenceRef

OUT_STATES = re.compile(r"DRAIN|MAINT|FAIL")
REBOOTED = re.compile(r"unexpectedly re(?:booted|$)", re.I)
# Texts of slurmctld itself; an administrator's reason never takes part here.
_DOWN = re.compile(r"not responding|ResumeTimeout reached|reboot timed out", re.I)
_DOWN_STATE = re.compile(r"DOWN|NOT_RESPONDING|ERROR")
_POWER = re.compile(r"POWER|FUTURE|CLOUD")
# slurm_protocol_defs.c, job_reason_string and job_state_reason_string: the reason has a code and a sentence.
_NODES_OUT = ("ReqNodeNotAvail", "NodeDown", "Nodes required for job are DOWN")


@dataclass(slots=True)
class NodeState:
    """All statements about one node, joined."""

    node: str
    state: str = ""
    reason: str | None = None
    user: str | None = None
    since: int = NO_TIME
    partitions: tuple[str, ...] = ()
    gpus: int | None = None
    gpus_used: int | None = None
    rows: list[Event] = field(default_factory=list)

    @property
    def down(self) -> bool:
        """It does not answer, or came back by surprise."""
        reason = self.reason or ""
        if _POWER.search(self.state) or is_idle(self.state):
            return bool(REBOOTED.search(reason))
        return bool(_DOWN_STATE.search(self.state) or _DOWN.search(reason) or REBOOTED.search(reason))

    @property
    def out(self) -> bool:
        """It takes no new jobs."""
        # sinfo -R lists nodes that are out without telling their state.
        listed = not self.state and self.reason is not None
        return self.down or listed or bool(OUT_STATES.search(self.state)) or "INVALID_REG" in self.state

    @property
    def gpus_free(self) -> int | None:
        """GPUs that no job holds, if that is told."""
        return None if self.gpus is None or self.gpus_used is None else max(0, self.gpus - self.gpus_used)

    def quote_gpus(self, quotes: Quotes) -> list[EvidenceRef]:
        """The row that tells how many GPUs are in use."""
        rows = [row for row in self.rows if "gpus_used" in row.fields]
        return [
            quotes.row(
                row.source, row.fields.get("gpus_line", row.line), row.fields.get("gpus_text", row.text), NO_TIME
            )
            for row in rows[-1:]
        ]

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
        node.partitions = tuple(sorted({*node.partitions, *row.fields.get("partitions", ())}))
        node.gpus = row.fields.get("gpus", node.gpus)
        node.gpus_used = row.fields.get("gpus_used", node.gpus_used)
        if row.ts != NO_TIME:
            node.since = row.ts if node.since == NO_TIME else min(node.since, row.ts)
    return found


def is_idle(state: str) -> bool:
    """A healthy state: a reason that stands beside it is left over."""
    return bool(state) and not is_trouble(state) and not OUT_STATES.search(state)


def waits_for_nodes(job: Job, nodes: Mapping[str, NodeState]) -> bool:
    """True if the job waits because nodes that it needs are down, drained or reserved.

    JSON of 22.05 says no more than ``Resources`` of such a job. Then the nodes decide: too few of its partition are in
    service, in a listing that also shows nodes which are (one of broken nodes alone says nothing about the others).
    """
    if (job.reason or "").startswith(_NODES_OUT):
        return True
    if job.reason != "Resources" or all(state.out for state in nodes.values()):
        return False
    choice = nodes_of_choice(job, nodes)
    wanted = max((record.node_count or 0 for record in job.fields.get("records", ())), default=0)
    return bool(choice) and sum(not state.out for state in choice.values()) < wanted


def waits_for_a_limit(reason: str | None) -> bool:
    """True if the job waits for a limit of its user, account, QOS or partition, so that no node can help it."""
    word = (reason or "").split(",")[0].strip()
    return word.startswith(("Assoc", "QOS", "MaxTRES")) or word in ("PartitionNodeLimit", "PartitionTimeLimit")


def nodes_of_choice(job: Job, nodes: Mapping[str, NodeState]) -> dict[str, NodeState]:
    """Nodes that the job could be given: those that it names, else those of its partitions; empty if unknown."""
    told = str(job.fields.get("required") or "")
    if not told:
        # "ReqNodeNotAvail, UnavailableNodes:g[01-02]"
        told = (job.reason or "").partition("UnavailableNodes:")[2]
    try:
        named = node_names(told)
    except HostlistError:
        named = ()
    if named:
        return {name: nodes[name] for name in named if name in nodes}
    wanted = {name.strip() for name in (job.queue or "").split(",")}
    return {name: state for name, state in nodes.items() if wanted & set(state.partitions)}
