"""What the model gets to see of an incident, and what its claims are checked against: the same text.

Everything is plain text in lines that carry their units. Each text is cleaned, redacted, then cut, in this order: a
secret cut in half would no longer be recognised.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Literal

from aiops.copilot.fence import cut, plain
from aiops.model.report import ActionName, Culprit, Evidence, FindingItem, Incident
from aiops.redaction import Redactor

LINE = 300
"""Characters of one line of text."""
MAX_EVIDENCE = 40
MAX_AROUND = 8
"""Quotations that are shown with the lines around them."""
MAX_FINDINGS = 40
MAX_TIMELINE = 30
MAX_CHARACTERS = 24_000
"""All texts together; roughly 8,000 tokens."""

_ID = re.compile(r"[A-Za-z][A-Za-z0-9_.:-]{0,31}")


@dataclass(frozen=True, slots=True)
class Item:
    """A quotation or a finding, under the id that claims cite."""

    id: str
    kind: Literal["quotation", "finding"]
    head: str
    """Source, time, entity, count: written by code."""
    text: str
    """The quoted lines, or the finding's sentence."""
    evidence: tuple[str, ...] = ()
    """Quotations that a finding stands on; empty for a quotation."""


@dataclass(frozen=True, slots=True)
class EvidencePack:
    """One incident, redacted and bounded."""

    facts: tuple[str, ...]
    """What the analysis decided, one line each."""
    timeline: tuple[tuple[str, tuple[str, ...]], ...]
    """(line, ids of its evidence), oldest first."""
    items: dict[str, Item]
    left_out: int
    """Quotations and findings that did not fit."""
    redacted: int
    """Secrets replaced."""
    actions: frozenset[ActionName] = frozenset()
    """Actions that the report proposes and policy does not block."""
    action_targets: frozenset[str] = frozenset()
    """Nodes and jobs that those actions name, lower case."""
    action_gpus: frozenset[int] = frozenset()
    labels: frozenset[str] = frozenset()
    """Lower-case names that are neither nodes nor jobs: classes, signs, actions, the checkpoint."""
    commands: tuple[str, ...] = ()
    """Commands of those actions. They are not shown to the model; a claim may only repeat them word by word."""

    def texts(self) -> list[str]:
        """All text that a stranger may have written."""
        return [
            *self.facts,
            *(line for line, _ in self.timeline),
            *(part for item in self.items.values() for part in (item.head, item.text)),
        ]


@dataclass(slots=True)
class _Writer:
    redactor: Redactor
    room: int = MAX_CHARACTERS
    items: dict[str, Item] = field(default_factory=dict)

    def line(self, text: str, length: int = LINE) -> str:
        return cut(" ".join(self.redactor.text(plain(text)).split()), length)

    def block(self, lines: Iterable[str]) -> str:
        whole = self.redactor.text("\n".join(plain(line) for line in lines))
        return "\n".join(cut(line.rstrip(), LINE) for line in whole.split("\n") if line.strip())

    def add(self, item: Item) -> None:
        size = len(item.head) + len(item.text)
        if size <= self.room and item.id not in self.items and _ID.fullmatch(item.id):
            self.room -= size
            self.items[item.id] = item


def build_pack(incident: Incident, redactor: Redactor) -> EvidencePack:
    """Facts and timeline, then findings with those that the verdict explains first, then their quotations."""
    before = redactor.count
    writer = _Writer(redactor)
    facts = tuple(writer.line(fact) for fact in _facts(incident))
    writer.room -= sum(map(len, facts))
    timeline = _timeline(incident, writer)
    quotations = {evidence.id: evidence for evidence in incident.evidence}
    findings = _by_weight(incident)
    for finding in findings[:MAX_FINDINGS]:
        writer.add(_finding(finding, writer))
    first = [finding.evidence[0] for finding in findings if finding.evidence]
    second = [evidence_id for finding in findings for evidence_id in finding.evidence[1:3]]
    wanted = dict.fromkeys([*first, *second, *quotations])
    for number, evidence in enumerate(quotations[i] for i in wanted if i in quotations):
        if number < MAX_EVIDENCE:
            writer.add(_quotation(evidence, writer, around=3 if number < MAX_AROUND else 0))
    left_out = len(incident.evidence) + len(incident.findings) - len(writer.items)
    allowed = [action for action in incident.actions if not action.blocked_by]
    targets = [name for action in allowed for name in (action.target.node, action.target.job) if name]
    if any(action.action is ActionName.REQUEUE_EXCLUDING_NODE for action in allowed):
        targets += incident.requeue.exclude
    checkpoint = (incident.checkpoint.restore or "").rstrip("/").rpartition("/")[2]
    labels = [
        incident.failure_class,
        *(h.failure_class for h in incident.hypotheses),
        checkpoint,
        *(f.sign for f in incident.findings),
        *(action.action.value for action in incident.actions),
    ]
    return EvidencePack(
        facts=facts,
        timeline=timeline,
        items=writer.items,
        left_out=left_out,
        redacted=redactor.count - before,
        actions=frozenset(action.action for action in allowed),
        action_targets=frozenset(target.lower() for target in targets),
        action_gpus=frozenset(action.target.gpu for action in allowed if action.target.gpu is not None),
        labels=frozenset(label.lower() for label in labels if label),
        commands=tuple(command for action in allowed for command in action.commands),
    )


def _quotation(evidence: Evidence, writer: _Writer, around: int) -> Item:
    lines = [*evidence.before[-around:], evidence.text, *evidence.after[:around]] if around else [evidence.text]
    head = f"{evidence.source}, {evidence.ts or 'time unknown'}"
    return Item(evidence.id, "quotation", writer.line(head, 200), writer.block(lines))


def _finding(finding: FindingItem, writer: _Writer) -> Item:
    span = f"{finding.first or 'time unknown'} to {finding.last}" if finding.last else finding.first or "time unknown"
    head = f"{finding.sign}, {finding.entity}, {finding.severity}, {finding.role}, count {finding.count}, {span}"
    return Item(finding.id, "finding", writer.line(head, 300), writer.line(finding.text), tuple(finding.evidence))


def _by_weight(incident: Incident) -> list[FindingItem]:
    """Findings that the first hypothesis explains, then other possible causes, then echoes and context."""
    explained = set(incident.hypotheses[0].explains) if incident.hypotheses else set()
    role = {"root": 1, "echo": 2, "context": 3}
    return sorted(incident.findings, key=lambda f: 0 if f.id in explained else role[f.role])


def _timeline(incident: Incident, writer: _Writer) -> tuple[tuple[str, tuple[str, ...]], ...]:
    entries = incident.timeline
    if len(entries) > MAX_TIMELINE:
        causes = [entry for entry in entries if entry.role != "context"]
        entries = (causes if len(causes) >= MAX_TIMELINE else entries)[:MAX_TIMELINE]
    start = incident.impact.started or next((entry.ts for entry in entries if entry.role == "cause"), None)
    lines: list[tuple[str, tuple[str, ...]]] = []
    for entry in entries:
        ids = tuple(i for i in entry.evidence if _ID.fullmatch(i))
        after = f" ({offset:+.1f} s)" if (offset := _seconds(start, entry.ts)) is not None else ""
        line = writer.line(f"{entry.ts or 'time unknown'}{after} {entry.entity}: {entry.text} ({entry.role})", 250)
        if len(line) > writer.room // 3:
            break
        writer.room -= len(line)
        lines.append((line, ids))
    return tuple(lines)


def _facts(incident: Incident) -> Iterable[str]:
    yield f"title: {incident.title}"
    yield (
        f"failure class: {incident.failure_class}, confidence {incident.confidence:.2f} "
        f"({round(incident.confidence * 100)} %), {'hardware' if incident.hardware else 'not hardware'}"
    )
    culprits = [incident.culprit, *(c for c in incident.culprits if c != incident.culprit)]
    for culprit in culprits[:16]:
        yield f"culprit: {_culprit(culprit)}"
    if len(culprits) > 1:
        yield f"number of culprits: {len(culprits)}"
    # Words, not digits: a digit here would justify any claim that counts so far.
    for place, hypothesis in zip(("first", "second", "third"), incident.hypotheses, strict=False):
        yield (
            f"{place} hypothesis: {hypothesis.failure_class}, confidence {hypothesis.confidence:.2f} "
            f"({round(hypothesis.confidence * 100)} %), {_culprit(hypothesis.culprit)}, explains "
            f"{', '.join(hypothesis.explains[:20]) or 'nothing'}"
        )
        for label, texts in (("against it", hypothesis.against), ("would decide", hypothesis.would_decide)):
            for text in texts[:3]:
                yield f"{place} hypothesis, {label}: {text}"
    yield from _plan(incident)
    yield from _impact(incident)


def _plan(incident: Incident) -> Iterable[str]:
    requeue, checkpoint = incident.requeue, incident.checkpoint
    exclude = f", exclude {', '.join(requeue.exclude[:16])}" if requeue.exclude else ""
    yield f"requeue: {requeue.verdict}{exclude}: {requeue.why}"
    parts = [f"rule {checkpoint.rule}"]
    parts += [f"restore {checkpoint.restore}"] if checkpoint.restore else []
    parts += [f"step {checkpoint.step}"] if checkpoint.step is not None else []
    parts += [f"saved {checkpoint.saved_at}"] if checkpoint.saved_at else []
    parts += [f"age {checkpoint.age_s:.0f} s"] if checkpoint.age_s is not None else []
    parts += [f"{checkpoint.lost_steps} steps lost"] if checkpoint.lost_steps is not None else []
    yield f"checkpoint: {', '.join(parts)}: {checkpoint.why}"
    for action in incident.actions[:12]:
        target = ", ".join(
            f"{name} {value}"
            for name, value in (("node", action.target.node), ("GPU", action.target.gpu), ("job", action.target.job))
            if value is not None
        )
        state = (
            f"blocked by policy: {'; '.join(action.blocked_by)}"
            if action.blocked_by
            else ("needs approval" if action.requires_approval else "allowed")
        )
        yield f"action {action.action.value}: {target or 'no target'}, {state}: {action.why}"


def _impact(incident: Incident) -> Iterable[str]:
    impact = incident.impact
    if impact.gpus is not None:
        yield f"impact: {impact.gpus} GPUs"
    if impact.gpu_hours_lost is not None:
        yield f"impact: {impact.gpu_hours_lost:.1f} GPU-hours lost"
    for label, ts in (("started", impact.started), ("detected", impact.detected), ("ended", impact.ended)):
        if ts:
            offset = _seconds(impact.started, ts)
            yield f"impact: {label} {ts}" + (f", {offset:.1f} s after the start" if offset else "")


def _seconds(first: str | None, last: str | None) -> float | None:
    """Seconds between two ISO 8601 times, so that no model has to subtract."""
    try:
        return (datetime.fromisoformat(last or "") - datetime.fromisoformat(first or "")).total_seconds()
    except (ValueError, TypeError):
        return None


def _culprit(culprit: Culprit) -> str:
    named = (
        ("node", culprit.node),
        ("GPU", culprit.gpu),
        ("UUID", culprit.gpu_uuid),
        ("PCI", culprit.pci),
        ("rank", culprit.rank),
        ("job", culprit.job),
        ("cluster", culprit.cluster),
        ("name", culprit.name),
    )
    return ", ".join([culprit.kind, *(f"{label} {value}" for label, value in named if value is not None)])
