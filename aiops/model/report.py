"""The report contract ``aiops.report/v1`` as pydantic models.

Additive changes only. The JSON Schema in ``docs/`` is generated from here (``aiops schema``).
Times are ISO 8601 in UTC with a ``Z``; ``null`` means that the evidence does not tell.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

SCHEMA_ID = "aiops.report/v1"

Verdict = Literal["incident", "no_incident", "inconclusive"]
CulpritKind = Literal[
    "gpu",
    "node",
    "link",
    "switch",
    "rank",
    "user_code",
    "config",
    "data",
    "storage",
    "network",
    "scheduler",
    "facility",
    "unknown",
]
RequeueVerdict = Literal["same_nodes", "exclude_nodes", "fix_first", "not_needed"]
CheckpointRule = Literal["C0", "C1", "C2", "C3", "C4", "C5"]
TimelineRole = Literal["cause", "effect", "context"]
Risk = Literal["none", "low", "medium", "high"]


class ActionName(StrEnum):
    """The whole vocabulary of actions."""

    DRAIN_NODE = "drain_node"
    CORDON_NODE = "cordon_node"
    RESET_GPU = "reset_gpu"
    REBOOT_NODE = "reboot_node"
    RMA = "rma"
    SWAP_NODE = "swap_node"
    REQUEUE = "requeue"
    REQUEUE_EXCLUDING_NODE = "requeue_excluding_node"
    HOLD_JOB = "hold_job"
    RESTORE_CHECKPOINT = "restore_checkpoint"
    RESTORE_EARLIER_CHECKPOINT = "restore_earlier_checkpoint"
    FIX_USER_CODE = "fix_user_code"
    FIX_CONFIG = "fix_config"
    FIX_DATA = "fix_data"
    FREE_STORAGE = "free_storage"
    FIX_STORAGE = "fix_storage"
    FIX_NETWORK = "fix_network"
    ADJUST_QUOTA = "adjust_quota"
    RELEASE_GANG = "release_gang"
    WAIT = "wait"
    NOTIFY_OWNER = "notify_owner"
    INVESTIGATE = "investigate"
    NONE = "none"


DISRUPTIVE = frozenset(
    {
        ActionName.DRAIN_NODE,
        ActionName.CORDON_NODE,
        ActionName.RESET_GPU,
        ActionName.REBOOT_NODE,
        ActionName.RMA,
        ActionName.SWAP_NODE,
    }
)
"""Actions that take capacity or hardware away from somebody."""


class _Model(BaseModel):
    model_config = ConfigDict(extra="forbid")


class Culprit(_Model):
    """What is at fault. Only what the evidence shows is filled in."""

    kind: CulpritKind = "unknown"
    cluster: str | None = None
    node: str | None = None
    gpu: int | None = None
    gpu_uuid: str | None = None
    pci: str | None = None
    rank: int | None = None
    job: str | None = None
    name: str | None = None


class ScoreTerm(_Model):
    """One summand of a hypothesis' score, so that the ranking can be checked by hand."""

    term: str
    value: float
    why: str
    findings: list[str] = Field(default_factory=list)


class Hypothesis(_Model):
    """A failure class with a culprit, and how well it explains the findings."""

    failure_class: str
    confidence: float = Field(ge=0, le=1)
    culprit: Culprit = Field(default_factory=Culprit)
    explains: list[str] = Field(default_factory=list)
    against: list[str] = Field(default_factory=list)
    would_decide: list[str] = Field(default_factory=list)
    score: float = 0.0
    terms: list[ScoreTerm] = Field(default_factory=list)


class Requeue(_Model):
    """May the job go back, and where."""

    verdict: RequeueVerdict = "not_needed"
    exclude: list[str] = Field(default_factory=list)
    why: str = ""


class RefusedCheckpoint(_Model):
    """A checkpoint that must not be restored."""

    name: str
    step: int | None = None
    saved_at: str | None = None
    why: str = ""


class CheckpointChoice(_Model):
    """Which checkpoint to start from; the rules are those of ``reference/TAXONOMY.md`` (C0 to C5)."""

    rule: CheckpointRule = "C0"
    restore: str | None = None
    step: int | None = None
    saved_at: str | None = None
    age_s: float | None = None
    lost_steps: int | None = None
    why: str = ""
    saved_from: Literal["log", "listing", "archive", "copy"] | None = None
    """How ``saved_at`` is known; ``copy``: a file time that copying may have changed."""
    pass_as: str | None = None
    """How the framework is told to start from it, where its layout is known."""
    size_bytes: int | None = None
    files: int | None = None
    """Files of it that were seen; ``null`` if it is known from a log only."""
    lost_minutes: float | None = None
    """Training to be done again, from the save to the last step."""
    lost_gpu_hours: float | None = None
    """``lost_minutes`` times the GPUs of the job; a part of the impact, which counts the stall as well."""
    refused: list[RefusedCheckpoint] = Field(default_factory=list)
    """Newer ones that may not be used, the newest first."""
    known: int = 0
    """How many checkpoints the evidence names."""


class ActionTarget(_Model):
    """What an action would touch."""

    cluster: str | None = None
    node: str | None = None
    gpu: int | None = None
    pci: str | None = None
    """PCI address of the GPU, where its index is not known."""
    job: str | None = None


class BlastRadius(_Model):
    """Who else an action touches. ``null`` = the evidence does not tell."""

    nodes: int | None = None
    gpus: int | None = None
    jobs: int | None = None
    note: str = ""


class Action(_Model):
    """One thing to do, with the exact commands of the scheduler that owns the target."""

    action: ActionName
    target: ActionTarget = Field(default_factory=ActionTarget)
    scheduler: Literal["slurm", "kubernetes"] | None = None
    commands: list[str] = Field(default_factory=list)
    undo: list[str] = Field(default_factory=list)
    why: str = ""
    evidence: list[str] = Field(default_factory=list)
    risk: Risk = "none"
    blast_radius: BlastRadius = Field(default_factory=BlastRadius)
    requires_approval: bool = False
    blocked_by: list[str] = Field(default_factory=list)
    done: bool = False
    """The evidence shows that it has been done already: nothing is left to run."""


class Impact(_Model):
    """What the incident cost, as far as the evidence tells."""

    gpus: int | None = None
    gpu_hours_lost: float | None = None
    cost: float | None = None
    started: str | None = None
    detected: str | None = None
    ended: str | None = None


class TimelineEntry(_Model):
    ts: str | None
    entity: str
    text: str
    evidence: list[str] = Field(default_factory=list)
    role: TimelineRole = "context"


class FindingItem(_Model):
    """A detector's assertion, as it stands in the report."""

    id: str
    sign: str
    text: str
    role: Literal["root", "echo", "context"]
    severity: Literal["info", "warning", "error", "fatal"]
    entity: str
    first: str | None = None
    last: str | None = None
    count: int = 1
    evidence: list[str] = Field(default_factory=list)


class Evidence(_Model):
    """A quotation that a person can open: ``source`` + ``line`` (or ``offset``)."""

    id: str
    source: str
    locator: str
    ts: str | None = None
    text: str
    line: int | None = None
    offset: int | None = None
    before: list[str] = Field(default_factory=list)
    """Up to three lines above, as they stand in the source."""
    after: list[str] = Field(default_factory=list)


class Narrative(_Model):
    """The story in a few sentences; ``by`` is ``rules`` or the name of the model that wrote it."""

    text: str = ""
    by: str = "rules"
    unsupported_claims: int = 0
    note: str = ""
    """Why the rules wrote it although a model was asked, if so."""


class Incident(_Model):
    id: str
    title: str
    failure_class: str
    confidence: float = Field(ge=0, le=1)
    hardware: bool
    culprit: Culprit
    culprits: list[Culprit] = Field(default_factory=list)
    hypotheses: list[Hypothesis] = Field(default_factory=list)
    requeue: Requeue = Field(default_factory=Requeue)
    checkpoint: CheckpointChoice = Field(default_factory=CheckpointChoice)
    actions: list[Action] = Field(default_factory=list)
    impact: Impact = Field(default_factory=Impact)
    timeline: list[TimelineEntry] = Field(default_factory=list)
    findings: list[FindingItem] = Field(default_factory=list)
    evidence: list[Evidence] = Field(default_factory=list)
    narrative: Narrative = Field(default_factory=Narrative)


class SourceItem(_Model):
    name: str
    kind: str
    format: str = ""
    node: str | None = None
    rank: int | None = None
    bytes: int = 0
    lines: int = 0
    first: str | None = None
    last: str | None = None


class ProblemItem(_Model):
    source: str
    reason: str
    line: int | None = None


class JobItem(_Model):
    id: str
    name: str | None = None
    scheduler: str | None = None
    state: str | None = None
    nodes: list[str] = Field(default_factory=list)
    gpus: int | None = None


class CoverageReport(_Model):
    """What was read, what could not be, and what nobody collected."""

    sources: list[SourceItem] = Field(default_factory=list)
    kinds: dict[str, int] = Field(default_factory=dict)
    problems: list[ProblemItem] = Field(default_factory=list)
    missing: list[str] = Field(default_factory=list)
    """Kinds of evidence that would have helped and are not there, in words."""
    nodes: list[str] = Field(default_factory=list)
    world_size: int | None = None
    ranks_seen: int | None = None
    jobs: list[JobItem] = Field(default_factory=list)
    first: str | None = None
    last: str | None = None
    notes: list[str] = Field(default_factory=list)
    series: list[dict[str, Any]] = Field(default_factory=list)
    """Down-sampled metric curves for charts: culprit and peers, see `report.curves`."""


class Report(_Model):
    """One answer. Serialise with ``to_json``; it is byte for byte the same for the same input."""

    schema_: Literal["aiops.report/v1"] = Field(default="aiops.report/v1", alias="schema")
    verdict: Verdict
    summary: str = ""
    """One line for people who read nothing else."""
    coverage: CoverageReport = Field(default_factory=CoverageReport)
    incidents: list[Incident] = Field(default_factory=list)

    model_config = ConfigDict(extra="forbid", populate_by_name=True)

    def to_json(self, *, indent: bool = False) -> bytes:
        """UTF-8 JSON in contract order, with a newline at the end."""
        import orjson

        option = orjson.OPT_APPEND_NEWLINE | (orjson.OPT_INDENT_2 if indent else 0)
        return orjson.dumps(self.model_dump(mode="json", by_alias=True), option=option)

    @classmethod
    def from_json(cls, data: bytes) -> Report:
        """Read a report back.

        Raises:
            pydantic.ValidationError: the data is not a report of this schema.
        """
        return cls.model_validate_json(data)

    @property
    def exit_code(self) -> int:
        """0 no incident, 10 incident, 11 inconclusive."""
        return {"no_incident": 0, "incident": 10, "inconclusive": 11}[self.verdict]
