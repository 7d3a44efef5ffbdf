"""Faults that lie on the machines which were changed, and on none that were not: the change is the cause, not each machine.

How likely chance alone would pick changed machines only is counted; a change that stands beside a fault proves nothing.
"""

from __future__ import annotations

import re
from math import comb

from aiops.detect.evidence import evidence_rows, known, quote
from aiops.model.case import Case
from aiops.model.event import NO_TIME, Event, Severity
from aiops.model.finding import EvidenceRef, Finding, Role

_CHANCE = 0.1
"""Probability of the same picture without any connection, at most."""
_FEWEST = 2
_SINCE_NS = 7 * 86_400 * 10**9
"""Faults that begin later after the change are not looked at."""
_SECTION = 1 << 16
_CHANGED = re.compile(rb"^[^\n]{0,120}?\bchanged: \[([\w.-]{1,253})\]", re.M)
"""Ansible's default callback names each host below the task."""
_NEXT = re.compile(rb"\n[^\n]{0,120}?(?:TASK|PLAY|RUNNING HANDLER) (?:\[|RECAP)")
_NOT_OF_A_MACHINE = (
    "py.",
    "data.",
    "train.",
    "num.",
    "job.",
    "sched.job",
    "log.",
    "ckpt.",
    "proc.",
    "collective.",
    "ctl.",
)


def cohorts(case: Case, findings: list[Finding]) -> list[Finding]:
    """``ctl.cohort`` for the sign that most changed machines show and no other does; these signs become echoes of it."""
    changes = evidence_rows(case, "ctl.change")
    if not changes:
        return []
    changed = _hosts(case, changes)
    if len(changed) < _FEWEST:
        return []
    for sign in sorted({f.sign for f in findings if _counts(f)}):
        own = [f for f in findings if f.sign == sign and _counts(f)]
        ill = {str(f.node) for f in own}
        if len(ill) < _FEWEST or not ill <= set(changed) or 2 * len(ill) < len(changed):
            continue
        others = _watched(case, own) - set(changed)
        total = len(changed) + len(others)
        if not others or comb(len(changed), len(ill)) / comb(total, len(ill)) > _CHANCE:
            continue
        if not all(_after(finding, changed[str(finding.node)]) for finding in own):
            continue
        for finding in findings:
            if finding.node in ill and _counts(finding):
                finding.role = Role.ECHO
        return [_finding(case, changed, others, own, ill)]
    return []


def _watched(case: Case, own: list[Finding]) -> set[str]:
    """Machines of which the same kind of evidence was collected: silence of the others tells nothing."""
    kind_of = {source.name: source.kind for source in case.sources}
    kinds = {kind_of.get(ref.source) for finding in own for ref in finding.evidence}
    return {node for node, names in case.topology.nodes.items() if kinds & {kind_of.get(name) for name in names}}


def _counts(finding: Finding) -> bool:
    return (
        finding.role == Role.ROOT
        and finding.severity >= Severity.ERROR
        and finding.node is not None
        and not finding.sign.startswith(_NOT_OF_A_MACHINE)
    )


def _hosts(case: Case, changes: list[Event]) -> dict[str, Event]:
    """The hosts that were changed, each with the line that tells of it first."""
    found: dict[str, Event] = {}
    for event in changes:
        host = event.fields.get("host") or event.node
        if host:
            found.setdefault(str(host), event)
        if "TASK [" in event.text:
            section = case.read(event.source, event.offset, _SECTION)
            following = _NEXT.search(section)
            for match in _CHANGED.finditer(section[: following.start() if following else len(section)]):
                found.setdefault(match[1].decode(), event)
    return {host: event for host, event in found.items() if host in case.topology.nodes}


def _after(finding: Finding, change: Event) -> bool:
    if finding.first == NO_TIME or not known(change):
        return False
    return 0 <= finding.first - change.ts <= _SINCE_NS


def _finding(case: Case, changed: dict[str, Event], others: set[str], own: list[Finding], ill: set[str]) -> Finding:
    events = list({event.index: event for event in changed.values()}.values())
    what = next((str(event.fields["what"]) for event in events if event.fields.get("what")), "a change")
    evidence: list[EvidenceRef] = [quote(case, event) for event in events[:2]]
    evidence += [ref for finding in own[:3] for ref in finding.evidence[:1]]
    return Finding(
        sign="ctl.cohort",
        text=f"{len(ill)} of the {len(changed)} machines that got {what} show the same fault since, none of the {len(others)} "
        f"others does: {own[0].text}",
        role=Role.ROOT,
        severity=Severity.ERROR,
        first=min(event.ts for event in events if known(event)),
        last=max(finding.last for finding in own),
        nodes=tuple(sorted(ill)),
        name=what,
        count=len(ill),
        fields={"what": what, "sign": own[0].sign, "changed": tuple(sorted(changed)), "members": tuple(sorted(ill))},
        evidence=evidence,
    )
