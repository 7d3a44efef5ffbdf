"""Types of the catalog: what can be seen (signals), what can fail (failure classes), what to do (playbooks)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from aiops.model.event import Severity
from aiops.model.finding import Role


@dataclass(frozen=True)
class Signal:
    """One kind of log line."""

    id: str
    title: str
    """What the line means, for people; may name fields in braces."""
    match: tuple[str, ...]
    """Regular expressions (Python and Hyperscan dialect in common) that hit within one line."""
    kinds: frozenset[str]
    """Kinds of line it may appear in: ``kernel``, ``training``, ``scheduler``, ``text``."""
    severity: Severity
    role: Role
    about: str
    """What the line is about: ``node``, ``gpu``, ``rank``, ``nic``, ``job``, ``storage`` or ``none``."""
    says: Mapping[str, Any]
    """Constant fields; named groups of ``match`` are fields as well."""
    split: tuple[str, ...]
    """Fields that make findings of this signal distinct."""
    anchored: bool
    """The match must stand at the start of the message, behind time stamp and prefixes."""
    detector: str
    """Detector that turns the events into findings; ``signals`` makes one finding per entity."""
    examples: tuple[str, ...]
    counter_examples: tuple[str, ...]
    source: str
    file: str

    @cached_property
    def regexes(self) -> tuple[re.Pattern[str], ...]:
        """``match`` compiled for reading groups out of a hit line."""
        return tuple(self.regex(number) for number in range(len(self.match)))

    @cached_property
    def _compiled(self) -> dict[int, re.Pattern[str]]:
        return {}

    def regex(self, number: int) -> re.Pattern[str]:
        """One pattern of ``match``, compiled when it is first asked for: a case hits few of a signal's patterns."""
        found = self._compiled.get(number)
        if found is None:
            found = self._compiled[number] = re.compile(self.match[number])
        return found


@dataclass(frozen=True, slots=True)
class Sign:
    """A reference to findings: their sign and conditions on their fields."""

    sign: str
    where: Mapping[str, tuple[Any, ...]] = field(default_factory=dict)
    weight: float = 0.0
    on: str = "any"
    """Where relative to the culprit: ``same`` (GPU or rank), ``node``, ``peers``, ``any``."""
    within: float = 3600.0
    """Seconds after the first cause in which it is expected."""
    expected: str = ""
    """Kind of coverage (``kernel``, ``training``, ``metrics``) under which its absence speaks against the class."""
    why: str = ""
    despite_success: bool = False
    """It counts although the job reached its end with code 0, such as a measured divergence of the loss."""
    requeue: str = ""
    """Whether the job may go back if this cause decides, where that differs from the class's own ``requeue``."""

    def matches(self, sign: str, fields: Mapping[str, Any]) -> bool:
        """True if a finding with this sign and these fields is meant."""
        if sign != self.sign and not (self.sign.endswith(".*") and sign.startswith(self.sign[:-1])):
            return False
        return all(str(fields.get(name)) in {str(v) for v in allowed} for name, allowed in self.where.items())


@dataclass(frozen=True, slots=True)
class FailureClass:
    """One way in which a job or the cluster below it fails."""

    id: str
    title: str
    culprit: str
    """Kind of culprit, one of the report's culprit kinds."""
    hardware: bool
    causes: tuple[Sign, ...]
    effects: tuple[Sign, ...]
    contradicts: tuple[Sign, ...]
    decides: tuple[str, ...]
    """Observations that would decide where this class is uncertain."""
    checkpoint: str
    """Rule C0 to C5 of the taxonomy."""
    requeue: str
    playbook: str
    source: str
    test: str
    """A fixture's name, or ``line: …`` with a line that must lead to a cause of this class."""
    prior: float = 0.0
    remedy: str = ""
    """What mends it, in a sentence or two; playbooks put it where they say ``{fix}`` or ``{where}``."""
    explains_death: bool = True
    """False for conditions that harm no running job by themselves."""
    stops_job: float = 0.0
    """Seconds after its last sign within which a job that it hits has stopped; 0 if jobs may run on for long."""

    file: str = ""

    @property
    def family(self) -> str:
        """The part of the id before the dot."""
        return self.id.split(".", 1)[0]


@dataclass(frozen=True, slots=True)
class Step:
    """One step of a playbook."""

    action: str
    why: str
    needs: tuple[str, ...] = ()
    """Facts without which the step is left out: ``node``, ``gpu``, ``job``, ``checkpoint``, ``hostname``."""
    risk: str = "none"
    approval: bool = False
    check: tuple[str, ...] = ()
    """Read-only shell commands that prove the cause before or after the step; may name ``{node}``, ``{pci}``…"""
    by: str = ""
    """The action whose commands do it, where the action has none of its own."""


@dataclass(frozen=True, slots=True)
class Playbook:
    """What to do about a class of failures, in order."""

    id: str
    steps: tuple[Step, ...]


@dataclass(frozen=True)
class XidCode:
    """One row of ``xid.csv`` or ``sxid.csv``."""

    code: int
    name: str
    category: str
    severity: str
    action: str
    source: str


@dataclass(frozen=True, slots=True)
class Confidence:
    """Coefficients of the logistic model that turns score and distance into a probability, see ``confidence.yaml``."""

    intercept: float = -2.5
    score: float = 0.55
    gap: float = 0.3


@dataclass(frozen=True, slots=True)
class Replaced:
    """An entry that a later one of the same id took the place of."""

    kind: str
    """``signal``, ``class`` or ``playbook``."""
    id: str
    before: str
    """File that it was in."""
    after: str
    """File of the entry that counts."""
    site: bool
    """True if a site's directory replaced it on purpose; false if one directory holds both."""


@dataclass(frozen=True)
class Catalog:
    """All knowledge of one run: built-in plus the site's own."""

    signals: tuple[Signal, ...]
    failures: Mapping[str, FailureClass]
    playbooks: Mapping[str, Playbook]
    xids: Mapping[int, XidCode]
    sxids: Mapping[int, XidCode]
    confidence: Confidence = Confidence()
    site_signals: frozenset[str] = frozenset()
    """Ids of the signals that a site's own directory brings."""
    replaced: tuple[Replaced, ...] = ()
    """Entries whose id came twice, in the order of the files."""

    @cached_property
    def by_id(self) -> Mapping[str, Signal]:
        """Signals by id."""
        return {s.id: s for s in self.signals}

    @cached_property
    def causes_by_sign(self) -> Mapping[str, tuple[tuple[FailureClass, Sign], ...]]:
        """Failure classes that name a sign as a cause; a trailing ``.*`` is kept as written."""
        found: dict[str, list[tuple[FailureClass, Sign]]] = {}
        for failure in self.failures.values():
            for cause in failure.causes:
                found.setdefault(cause.sign, []).append((failure, cause))
        return {sign: tuple(pairs) for sign, pairs in found.items()}
