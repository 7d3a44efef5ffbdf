"""The report as Markdown: a ticket, or the beginning of a post-mortem."""

from __future__ import annotations

from collections.abc import Sequence

from aiops.model.report import Action, Evidence, Hypothesis, Incident, Report
from aiops.report import words
from aiops.report.cascade import cascade
from aiops.report.escape import markdown, markdown_block, markdown_code, shorten
from aiops.report.lead import lead

MAX_EVIDENCE = 12
"""Quotations per incident; a ticket is not an archive."""
MAX_TIMELINE = 60
MAX_LINE = 600

_TO_FILL_IN = (
    "Status: draft, written by rules; confirmed by:",
    "Trigger and contributing factors beyond the cause above:",
    "What went well, what did not, where we were lucky:",
    "Open questions:",
    "Follow-ups (what, owner, due, link):",
)


def render(report: Report, *, postmortem: bool = True) -> str:
    """CommonMark. ``postmortem`` adds the headings that only people can fill in, below each incident."""
    parts: list[str] = []
    if report.verdict == "no_incident" or not report.incidents:
        parts.append(_lead(report, None, ""))
    else:
        total = len(report.incidents)
        for position, incident in enumerate(report.incidents, 1):
            parts.append(_lead(report, incident, f" {position} of {total}" if total > 1 else ""))
            parts += _incident(incident)
            if postmortem and report.verdict == "incident":
                parts.append(_section("To fill in", [f"- {line}" for line in _TO_FILL_IN]))
    parts.append(_read(report))
    return "\n\n".join(part for part in parts if part) + "\n"


def _lead(report: Report, incident: Incident | None, which: str) -> str:
    """Heading, who, next; then the first command and trouble with the input."""
    top = lead(report, incident)
    sure = f" — {top.sure}" if top.sure else ""
    lines = [
        f"# {top.verdict}{which}: {markdown(top.what)}{sure}",
        f"- **Who:** {markdown(top.who)}",
        f"- **Next:** {markdown(words.sentence(top.next))}",
    ]
    if top.commands:
        lines += ["", markdown_block(top.commands, "sh", "  "), ""]
    trouble = words.problems(report)
    if trouble and (incident is None or incident is report.incidents[0]):
        lines.append(f"- **Caution:** {markdown(trouble)}")
    return "\n".join(lines).rstrip("\n")


def _incident(incident: Incident) -> list[str]:
    return [
        _summary(incident),
        _actions(incident),
        _timeline(incident),
        _hypotheses(incident.hypotheses),
        _evidence(incident.evidence),
    ]


def _section(title: str, lines: Sequence[str]) -> str:
    return "\n".join([f"## {title}", "", *lines]) if lines else ""


def _summary(incident: Incident) -> str:
    told = incident.narrative
    lines = [markdown(told.text), ""] if told.text else []
    note = words.narrator(told)
    if note:
        lines += [f"({markdown(note)})", ""]
    facts = [
        ("Class", f"{markdown_code(incident.failure_class)}, {'hardware' if incident.hardware else 'not hardware'}")
    ]
    facts += [
        (
            "Culprit",
            markdown(
                " · ".join(
                    filter(None, [words.culprit_name(culprit), *words.culprit_details(culprit), culprit.gpu_uuid])
                )
            ),
        )
        for culprit in words.culprits_of(incident)
    ]
    facts += [(label, markdown(value)) for label, value in words.impact_facts(incident.impact)]
    facts += [
        ("Requeue", markdown(words.requeue_reason(incident.requeue))),
        ("Checkpoint", markdown(words.checkpoint_line(incident.checkpoint))),
    ]
    return _section("Summary", [*lines, *(f"- {label}: {value}" for label, value in facts)])


def _actions(incident: Incident) -> str:
    lines: list[str] = []
    for action in incident.actions:
        lines += _action(action, incident.requeue.exclude)
    return _section("What to do", lines).rstrip("\n")


def _action(action: Action, exclude: Sequence[str]) -> list[str]:
    notes = words.action_notes(action)
    head = f"- [ ] **{markdown(words.action_name(action, exclude))}**"
    if action.blocked_by:
        head += f" — blocked: {markdown('; '.join(action.blocked_by))}"
    lines = [head + (f" — {markdown(', '.join(notes))}" if notes else "")]
    if action.why:
        lines.append(f"  {markdown(action.why)}{_cited(action.evidence)}")
    if action.commands:
        lines += ["", markdown_block(action.commands, "sh", "  ")]
    if action.undo:
        lines += ["", "  Undo:", "", markdown_block(action.undo, "sh", "  ")]
    return [*lines, ""]


def _cited(ids: Sequence[str]) -> str:
    return f" ({markdown(', '.join(ids))})" if ids else ""


def _timeline(incident: Incident) -> str:
    entries = incident.timeline[:MAX_TIMELINE]
    day = words.main_day([entry.ts for entry in entries])
    story = cascade(incident)
    lags = {step.index: step.delay_s for step in [*story.causes, *story.effects]} if story else {}
    lines = []
    for index, entry in enumerate(entries):
        lag = lags.get(index)
        after = f" (+{words.duration(lag)})" if lag is not None else ""
        role = "" if entry.role == "context" else f" **{entry.role}**"
        lines.append(
            f"- {markdown(words.clock(entry.ts, day))}{after}{role} {markdown(entry.entity)}: "
            f"{markdown(entry.text)}{_cited(entry.evidence)}"
        )
    if len(incident.timeline) > MAX_TIMELINE:
        lines.append(f"- and {len(incident.timeline) - MAX_TIMELINE:,} more entries")
    return _section(f"Timeline (UTC{', ' + day if day else ''})", lines)


def _hypotheses(hypotheses: Sequence[Hypothesis]) -> str:
    lines = []
    for hypothesis in hypotheses:
        lines.append(
            f"- **{words.percent(hypothesis.confidence)}** {markdown_code(hypothesis.failure_class)} "
            f"{markdown(words.culprit_name(hypothesis.culprit))}, score {hypothesis.score:.1f}"
        )
        lines += [
            f"  - {term.value:+.1f} {markdown(term.term)}: {markdown(term.why)}{_cited(term.findings)}"
            for term in hypothesis.terms
        ]
        lines += [f"  - against: {markdown(line)}" for line in hypothesis.against]
        lines += [f"  - would decide: {markdown(line)}" for line in hypothesis.would_decide]
    return _section("Why", lines)


def _evidence(evidence: Sequence[Evidence]) -> str:
    lines: list[str] = []
    for item in evidence[:MAX_EVIDENCE]:
        at = f", {markdown(words.when(item.ts))}" if item.ts else ""
        lines += [
            f"**{markdown(item.id)}** {markdown_code(words.place(item))}{at}",
            "",
            markdown_block(_quotation(item), "text"),
            "",
        ]
    if len(evidence) > MAX_EVIDENCE:
        lines.append(f"and {len(evidence) - MAX_EVIDENCE:,} more")
    return _section("Evidence", lines).rstrip("\n")


def _quotation(item: Evidence) -> list[str]:
    """The line with its neighbours; ``>`` marks the line itself where there are neighbours."""
    if not item.before and not item.after:
        return [shorten(item.text, MAX_LINE)]
    return [
        *(f"  {shorten(line, MAX_LINE)}" for line in item.before),
        f"> {shorten(item.text, MAX_LINE)}",
        *(f"  {shorten(line, MAX_LINE)}" for line in item.after),
    ]


def _read(report: Report) -> str:
    read = report.coverage
    lines = [f"- {markdown(words.coverage(read))}"]
    if read.first or read.last:
        lines.append(f"- Span: {markdown(words.when(read.first))} to {markdown(words.when(read.last))}")
    if read.missing:
        lines.append(f"- Gaps: {markdown(words.listing(read.missing, 8))}")
    lines += [f"- Problem: {markdown(words.problem(problem))}" for problem in read.problems[:20]]
    if len(read.problems) > 20:
        lines.append(f"- and {words.count(len(read.problems) - 20, 'more problem')}")
    lines += [f"- Note: {markdown(note)}" for note in read.notes[:20]]
    return _section("What was read", lines)
