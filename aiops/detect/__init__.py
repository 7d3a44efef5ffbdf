"""Case → Findings: one module per family of signs, registered under the entry point ``aiops.detectors``.

A detector is a function ``detect(case, catalog) -> list[Finding]``. It looks at one family of signs, asserts nothing
about causes, and gives every assertion its evidence.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib.metadata import entry_points

from aiops.catalog.model import Catalog
from aiops.detect.cohorts import cohorts
from aiops.detect.domains import shared_domains
from aiops.detect.nics import name_gpus
from aiops.detect.repeats import repeats
from aiops.detect.spread import spreads
from aiops.detect.unknown_lines import without_told
from aiops.model.case import Case
from aiops.model.event import NO_TIME
from aiops.model.finding import Finding

Detector = Callable[[Case, Catalog], list[Finding]]

__all__ = ["Detector", "detect", "detectors"]


def detectors() -> dict[str, Detector]:
    """All registered detectors by name, in the order of their names."""
    return {point.name: point.load() for point in sorted(entry_points(group="aiops.detectors"), key=lambda p: p.name)}


def detect(case: Case, catalog: Catalog) -> list[Finding]:
    """Findings of all detectors, earliest first, with ids ``f1``, ``f2``, …"""
    findings: list[Finding] = []
    for name, detector in detectors().items():
        for finding in detector(case, catalog):
            finding.detector = name
            findings.append(finding)
    findings = without_told(findings)
    name_gpus(case, findings)
    repeats(case, findings)
    # what lies between the findings of the others: they hang on one thing, or on too many, or began with one change
    for name, second in (("domains", shared_domains), ("spread", spreads), ("cohorts", cohorts)):
        for finding in second(case, findings):
            finding.detector = name
            findings.append(finding)
    findings.sort(key=_order)
    for number, finding in enumerate(findings, 1):
        finding.id = f"f{number}"
    return findings


def _order(finding: Finding) -> tuple[object, ...]:
    """By time, unknown times last; then by content, so that file names do not matter."""
    unknown = finding.first == NO_TIME
    return (
        unknown,
        0 if unknown else finding.first,
        finding.sign,
        finding.node or "",
        -1 if finding.rank is None else finding.rank,
        finding.text,
    )
