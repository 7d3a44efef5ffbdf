"""What the correlator hands on: incidents with ranked hypotheses, before actions and wording."""

from __future__ import annotations

from dataclasses import dataclass, field

from aiops.catalog.model import FailureClass
from aiops.model.event import NO_TIME
from aiops.model.finding import Finding

UNSEEN = 0.3
"""Confidence that is taken off where nearly nothing of the domain at fault was observed."""


@dataclass(slots=True)
class Suspect:
    """A culprit candidate; only what the evidence shows."""

    kind: str
    node: str | None = None
    gpu: int | None = None
    pci: str | None = None
    uuid: str | None = None
    rank: int | None = None
    job: str | None = None
    name: str | None = None
    members: tuple[str, ...] = ()
    """Nodes that hang on the switch, rack or feed at fault; they are victims, to be avoided and not to be touched."""


@dataclass(frozen=True, slots=True)
class Term:
    """One summand of a score."""

    name: str
    value: float
    why: str
    findings: tuple[str, ...] = ()


@dataclass(slots=True)
class Hypothesis:
    """A failure class with a suspect, and how well it explains the findings."""

    failure: FailureClass
    suspect: Suspect
    causes: list[Finding]
    """Findings that are signs of it, the strongest first."""
    explained: list[Finding] = field(default_factory=list)
    against: list[str] = field(default_factory=list)
    terms: list[Term] = field(default_factory=list)
    confidence: float = 0.0
    unseen: list[str] = field(default_factory=list)
    """What was not collected of the suspect although it was of its peers, in words."""
    outlived: bool = False
    """It stops a job at once, and this job began after it and trained."""

    @property
    def follows_gpu(self) -> bool:
        """The same software-looking fault hits one GPU in several jobs: then the GPU is at fault (TAXONOMY, rule of 13 and 31)."""
        return bool(self.causes) and bool(self.causes[0].fields.get("same_gpu"))

    @property
    def hardware(self) -> bool:
        """The class is one of hardware, or the fault follows the GPU."""
        return self.failure.hardware or self.follows_gpu

    @property
    def score(self) -> float:
        """Sum of all terms."""
        return sum(term.value for term in self.terms)

    @property
    def coverage(self) -> float:
        """Share of its confidence that stands although a part of the domain at fault has no evidence: 1 if all of it has."""
        seen = self.causes[0].fields.get("seen_share", 1.0) if self.causes else 1.0
        return 1.0 - UNSEEN * (1.0 - float(seen))

    @property
    def open_questions(self) -> list[str]:
        """What would decide it: what its findings leave open in this case, then what the class always asks."""
        asked = [str(question) for finding in self.causes for question in finding.fields.get("open", ())]
        return list(dict.fromkeys([*self.unseen, *asked, *self.failure.decides]))

    @property
    def began(self) -> int:
        """Time of its first sign, or `NO_TIME`."""
        exact = [f.first for f in self.causes if f.first != NO_TIME and not f.inexact]
        return min(exact or [f.first for f in self.causes if f.first != NO_TIME], default=NO_TIME)


@dataclass(slots=True)
class JobScope:
    """Which job the case is about, and what belongs to it."""

    job: str | None = None
    name: str | None = None
    scheduler: str | None = None
    namespace: str | None = None
    kind: str | None = None
    nodes: frozenset[str] = frozenset()
    gpus: int | None = None
    from_output: bool = False
    """The job is known by its own output; otherwise everything in the case is in scope."""
    namespaces: frozenset[str] = frozenset()
    """Kubernetes namespaces of which workloads or pods were collected; of others only events tell."""
    elsewhere: frozenset[str] = frozenset()
    """Nodes that are known to serve other jobs, for a job that was asked for by name and has no nodes yet."""
    other_files: frozenset[str] = frozenset()
    """Names of the files that are known to be those of other jobs."""
    asked: bool = False
    """The job is known because accounting or ``scontrol`` was asked for it by its id."""
    eligible: frozenset[str] | None = None
    """Nodes that a job without any could be given; ``None`` if that is unknown."""


@dataclass(slots=True)
class IncidentDraft:
    """One incident: its findings, and the hypotheses in order."""

    hypotheses: list[Hypothesis]
    findings: list[Finding]
    scope: JobScope
    suspects: list[Suspect]
    verdict: str
    """``incident`` or ``inconclusive``."""
    job_failed: bool = True
    """A job died, stalls or waits because of it (as opposed to a condition that harms nothing yet)."""

    @property
    def best(self) -> Hypothesis:
        """The winning hypothesis."""
        return self.hypotheses[0]
