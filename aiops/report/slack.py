"""The report as Slack blocks: one root message per incident, to be edited in place as things change.

Limits of Slack that hold here: 50 blocks, 150 characters in a header, 3,000 in a text object, 10 fields of 2,000.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from aiops.model.report import Action, Evidence, Incident, Report
from aiops.report import words
from aiops.report.escape import plain, shorten, slack, slack_block, slack_code, slack_plain
from aiops.report.lead import lead

Block = dict[str, Any]
Message = dict[str, Any]
"""``{"text": notification text, "blocks": [...]}``, ready for ``chat.postMessage`` or an incoming webhook."""

MAX_ACTIONS = 5
MAX_QUOTES = 3
_HEADER, _TEXT, _FIELD, _FALLBACK = 150, 3000, 2000, 600
_LINE = 1200
"""Share of a text object that one line of it may take."""
_QUOTE = 280
_TOO_LONG = "_The command is too long for Slack; take it from the report._"


def render(report: Report, *, indent: bool = False) -> str:
    """JSON text of the first message, see `blocks`."""
    import orjson

    return orjson.dumps(blocks(report), option=orjson.OPT_INDENT_2 if indent else None).decode() + "\n"


def blocks(report: Report) -> Message:
    """The message about the most important incident (or about there being none)."""
    return messages(report)[0]


def messages(report: Report) -> list[Message]:
    """One message per incident, most important first; at least one."""
    if report.verdict == "no_incident" or not report.incidents:
        return [_message(report, None, 0)]
    return [_message(report, incident, position) for position, incident in enumerate(report.incidents, 1)]


def _message(report: Report, incident: Incident | None, position: int) -> Message:
    top = lead(report, incident)
    total = len(report.incidents)
    which = f" {position} of {total}" if incident and total > 1 else ""
    title = f"{top.verdict}{which}: {top.what}"
    cause = f"*Cause*  {slack_code(incident.failure_class, 200)}, {top.sure}\n" if incident and top.sure else ""
    out: list[Block] = [
        {"type": "header", "text": {"type": "plain_text", "text": slack_plain(title, _HEADER), "emoji": False}},
        _section(f"{cause}*Who*  {slack(top.who, _LINE)}\n*Next*  {slack(words.sentence(top.next), _LINE)}"),
    ]
    if top.commands:
        out.append(_section(_commands(top.commands, _TEXT)))
    trouble = words.problems(report) if position <= 1 else ""
    if trouble:
        out.append(_section(f"*Caution*  {slack(trouble, 1000)}"))
    if incident:
        out += _body(report, incident)
    out.append(_context(report, incident))
    fallback = f"{title}. {words.sentence(top.next)}."
    return {"text": slack_plain(fallback, _FALLBACK), "blocks": out}


def _body(report: Report, incident: Incident) -> list[Block]:
    fields = _fields(incident)
    out = [fields] if fields["fields"] else []
    story = slack(incident.narrative.text, 1800)
    if story:
        note = words.narrator(incident.narrative)
        out.append(_section(story + (f"\n({slack(note, 400)})" if note else "")))
    decide = [line for hypothesis in incident.hypotheses for line in hypothesis.would_decide]
    if report.verdict == "inconclusive" and decide:
        out.append(_section("\n".join(["*Would decide*", *(f"• {slack(line, 500)}" for line in decide[:4])])))
    if incident.actions:
        out.append({"type": "divider"})
    out += [
        _section(_action(number, action, incident.requeue.exclude))
        for number, action in enumerate(incident.actions[:MAX_ACTIONS], 1)
    ]
    if len(incident.actions) > MAX_ACTIONS:
        out.append(_section(f"and {words.count(len(incident.actions) - MAX_ACTIONS, 'more action')} in the report"))
    quotes = _quotes(incident)
    if quotes:
        out += [{"type": "divider"}, *map(_section, quotes)]
    return out


def _section(text: str) -> Block:
    return {"type": "section", "text": _mrkdwn(text)}


def _mrkdwn(text: str) -> dict[str, Any]:
    # With verbatim Slack does not go looking for links, channels and names in the text.
    return {"type": "mrkdwn", "text": text, "verbatim": True}


def _commands(commands: Sequence[str], limit: int) -> str:
    try:
        return slack_block(list(commands), limit)
    except ValueError:
        return _TOO_LONG


def _fields(incident: Incident) -> Block:
    """Where, when and how much, in two columns."""
    impact = dict(words.impact_facts(incident.impact))
    point = incident.checkpoint
    facts = [
        ("Job", words.job_of(incident)),
        ("Node", incident.culprit.node),
        ("Lost", impact.get("Lost")),
        ("Checkpoint", ", ".join(filter(None, [words.checkpoint(point), point.restore if point.step else None]))),
        ("Began", impact.get("Began")),
        ("Noticed", impact.get("Noticed")),
        ("Hit", impact.get("Hit")),
        ("Cluster", incident.culprit.cluster),
    ]
    return {
        "type": "section",
        "fields": [_mrkdwn(f"*{label}*\n{slack(value, _FIELD - 20)}") for label, value in facts if value],
    }


def _action(number: int, action: Action, exclude: Sequence[str]) -> str:
    notes = words.action_notes(action)
    head = f"*{number}.*  {slack(words.action_name(action, exclude), 300)}"
    if notes:
        head += f"  ·  {slack(', '.join(notes), 300)}"
    lines = [head]
    if action.blocked_by:
        lines.append(f"*Blocked:* {slack('; '.join(action.blocked_by), 500)}")
    if action.why:
        lines.append(slack(action.why, 500))
    text = "\n".join(lines)
    if action.commands and not action.blocked_by:
        text += "\n" + _commands(action.commands, _TEXT - len(text) - 1)
    return text


def _quotes(incident: Incident) -> list[str]:
    """The shortest way to the proof: what the actions and the causes cite, each line cut to fit on a phone."""
    wanted = [ident for action in incident.actions for ident in action.evidence]
    wanted += [ident for entry in reversed(incident.timeline) if entry.role == "cause" for ident in entry.evidence]
    known = {item.id: item for item in incident.evidence}
    chosen: dict[str, Evidence] = {ident: known[ident] for ident in wanted if ident in known}
    chosen.update((item.id, item) for item in incident.evidence if item.id not in chosen)
    return [
        f"{slack_code(item.id, 40)} {slack(words.place(item), 400)}\n"
        + slack_block([shorten(plain(item.text), _QUOTE)], 2400)
        for item in list(chosen.values())[:MAX_QUOTES]
    ]


def _context(report: Report, incident: Incident | None) -> Block:
    parts: list[str] = [report.schema_]
    if incident:
        by = incident.narrative.by
        parts += [f"told by {by}", words.count(len(incident.evidence), "quotation")]
    parts.append(words.coverage(report.coverage))
    others = [other.title for other in report.incidents if other is not incident] if incident else []
    if others:
        parts.append(f"also: {words.listing(others)}")
    return {"type": "context", "elements": [_mrkdwn(slack(" · ".join(parts), 1500))]}
