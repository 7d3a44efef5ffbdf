"""What every hypothesis of a case is weighed against, worked out once: a case may have hundreds of them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property

from aiops.catalog.model import FailureClass, Sign
from aiops.correlate.clocks import Apart
from aiops.correlate.model import JobScope
from aiops.correlate.scope import in_scope, shows_failure
from aiops.model.event import NO_TIME, Severity
from aiops.model.finding import Finding, Role

_HOUR = 3600.0
_NEAR_HOUR = 600.0
"""Sources without a time zone are read as UTC: a distance this close to whole hours may be none at all."""
_DECISIVE = 6.0
"""Weight from which a contradiction settles that a class is not the cause."""
_RIVAL = 2.0
"""Weight from which a sign may be the cause instead."""


@dataclass(frozen=True)
class Scene:
    """The findings of a case as one job sees them."""

    findings: list[Finding]
    scope: JobScope
    strongest: Mapping[str, float]
    """Id of a finding -> the highest weight that any class gives to it."""
    apart: Apart
    outlived: set[str] = field(default_factory=set)
    """Ids of findings that are best a sign of a fault which the job survived, or which something decisive speaks against:
    that no other hypothesis explains them says nothing."""

    @cached_property
    def near(self) -> list[Finding]:
        """Findings that concern the job, in their order."""
        return [finding for finding in self.findings if in_scope(finding, self.scope)]

    @cached_property
    def _by_sign(self) -> dict[str, list[Finding]]:
        found: dict[str, list[Finding]] = {}
        for finding in self.near:
            found.setdefault(finding.sign, []).append(finding)
        return found

    def matching(self, sign: Sign) -> Iterator[Finding]:
        """Findings of the job that a sign means."""
        near = self.near if sign.sign.endswith(".*") else self._by_sign.get(sign.sign, ())
        return (finding for finding in near if sign.matches(finding.sign, finding.fields))

    @cached_property
    def failed(self) -> int:
        """When the job began to fail: its first follower, or when the waiters of a time-out began to wait."""
        times = []
        for finding in self.near:
            if finding.role != Role.ECHO or finding.first == NO_TIME or finding.inexact:
                continue
            began = finding.fields.get("began")
            times.append(began if isinstance(began, int) and began > 0 else finding.first)
        return min(times, default=NO_TIME)

    @cached_property
    def ended(self) -> bool:
        """The job ran and failed."""
        return any(shows_failure(f) and f.sign != "sched.unschedulable" for f in self.near)

    @cached_property
    def died(self) -> bool:
        """Something of the job failed, or somebody heard of it."""
        return any(f.role == Role.ECHO and f.severity >= Severity.WARNING or shows_failure(f) for f in self.near)

    @cached_property
    def progress(self) -> list[Finding]:
        """Findings that say until when training went on."""
        return [f for f in self.findings if f.sign == "train.progress" and f.last != NO_TIME]

    def refuted(self, failure: FailureClass) -> bool:
        """Something that speaks decisively against a class is there."""
        return any(sign.weight >= _DECISIVE and any(self.matching(sign)) for sign in failure.contradicts)

    def survived(self, failure: FailureClass, causes: list[Finding]) -> float:
        """Seconds for which training went on after a fault of a kind that stops its job; 0 if it need not have survived.

        Only a fault before the first step counts: a job that a fault stopped may have been started again within its output.
        """
        end = max((f.last for f in causes if f.last != NO_TIME), default=NO_TIME)
        began = min((f.first for f in self.progress if f.first != NO_TIME), default=NO_TIME)
        if not failure.stops_job or NO_TIME in (end, began) or any(f.inexact for f in causes):
            return 0.0
        beyond = (max(f.last for f in self.progress) - end) / 1e9
        shifted = beyond > _HOUR - _NEAR_HOUR and abs(beyond - round(beyond / _HOUR) * _HOUR) < _NEAR_HOUR
        return beyond if (began - end) / 1e9 > failure.stops_job and not shifted else 0.0

    @cached_property
    def rivals(self) -> list[Finding]:
        """Findings that may be the cause instead and whose time is known."""
        return [
            f
            for f in self.signs
            if self.strongest[f.id] >= _RIVAL and f.first != NO_TIME and not f.inexact and f.id not in self.outlived
        ]

    @cached_property
    def signs(self) -> list[Finding]:
        """Findings that are a sign of some class."""
        return [f for f in self.findings if f.id in self.strongest]

    @cached_property
    def cuda_errors(self) -> list[Finding]:
        """CUDA errors of the job's ranks; running out of memory is no sign of a GPU."""
        return [f for f in self.near if f.sign.startswith("cuda.") and f.sign != "cuda.oom"]
