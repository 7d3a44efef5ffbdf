"""The sections of one incident on the HTML page."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence

from aiops.model.report import Action, Evidence, FindingItem, Hypothesis, Incident, Report, ScoreTerm
from aiops.report import words
from aiops.report.cascade import Cascade, Echo, cascade, echoes
from aiops.report.escape import Child, Html, join, plain_lines, shorten, tag
from aiops.report.html_curves import curves
from aiops.report.html_timeline import timeline

MAX_EFFECTS = 8
MAX_OPEN = 12
"""Quotations in sight; the others are one click away."""
MAX_LINE = 4000
"""Characters of one quoted line that are shown."""
_CITATION = re.compile(r"\[([^\[\]]{1,80})\]")


class Anchors:
    """Fragment ids of one incident. They are made of positions, never of text from the report."""

    def __init__(self, incident: Incident, position: int) -> None:
        self.prefix = f"i{position}"
        self.evidence = {e.id: f"{self.prefix}e{n}" for n, e in enumerate(incident.evidence, 1)}
        self.findings = {f.id: f"{self.prefix}f{n}" for n, f in enumerate(incident.findings, 1)}

    def link(self, ident: str) -> Html:
        """The id as a link to where it stands, or as text if it stands nowhere."""
        anchor = self.evidence.get(ident) or self.findings.get(ident)
        return tag("a", ident, href=f"#{anchor}", class_="ref") if anchor else tag("span", ident, class_="ref")

    def links(self, idents: Sequence[str]) -> Html | None:
        return tag("span", join(*map(self.link, idents), by=" "), class_="refs") if idents else None

    def cited(self, text: str) -> Html:
        """Text in which ``[e2]`` and ``[e2, e3]`` are links wherever the report has all these ids."""
        parts: list[Child] = []
        for n, piece in enumerate(_CITATION.split(text)):
            idents = piece.split(", ")
            if n % 2 == 0:
                parts.append(piece)
            elif all(ident in self.evidence or ident in self.findings for ident in idents):
                parts.append(join(*map(self.link, idents), by=" "))
            else:
                parts.append(f"[{piece}]")
        return join(*parts)


def sections(report: Report, incident: Incident, anchors: Anchors) -> list[Html]:
    """Everything below the three lines, most important first. The curves belong to the first incident."""
    story = cascade(incident)
    decided = report.verdict != "inconclusive"
    series = report.coverage.series if incident is report.incidents[0] else []
    parts = [
        _story(incident, anchors),
        _facts(incident),
        _section("What to do", "", _actions(incident, anchors)),
        _section("Cascade", "what caused what, and after how long", _cascade(incident, story) if story else None),
        timeline(incident, anchors.prefix, anchors.links, story),
        _section("Metrics", "culprit against peers", curves(series, incident)),
        _section(
            "Why this cause" if decided else "Candidates",
            "each with the terms of its score",
            _hypotheses(incident, anchors, opened=1 if decided else 3),
        ),
        _section("Evidence", "the line itself and its neighbours", _evidence(incident.evidence, anchors)),
        _findings(incident.findings, anchors),
    ]
    return [part for part in parts if part is not None]


def command_block(commands: Sequence[str]) -> Html | None:
    """Commands as one block with a copy button; whole, never cut."""
    if not commands:
        return None
    return tag(
        "div",
        tag("pre", tag("code", "\n".join(commands)), tabindex="0"),
        tag("button", "copy", type="button", class_="copy"),
        class_="command",
    )


def _section(title: str, note: str, content: Html | None) -> Html | None:
    if content is None:
        return None
    return tag("section", tag("h2", title, tag("small", note) if note else None), content, aria_label=title)


def _story(incident: Incident, anchors: Anchors) -> Html | None:
    told = incident.narrative
    if not told.text:
        return None
    note = words.narrator(told)
    return tag(
        "div", tag("p", anchors.cited(told.text)), tag("p", note, class_="soft") if note else None, class_="story"
    )


def _facts(incident: Incident) -> Html:
    culprit, point = incident.culprit, incident.checkpoint
    identity = [part for part in (culprit.gpu_uuid, f"PCI {culprit.pci}" if culprit.pci else None) if part]
    start = [*words.checkpoint_facts(point), words.checkpoint_rule(point)]
    short = [
        ("Class", incident.failure_class),
        ("Kind", "hardware" if incident.hardware else "not hardware"),
        *words.impact_facts(incident.impact),
    ]
    long = [
        ("Requeue", words.requeue_reason(incident.requeue)),
        ("Checkpoint", "; ".join([words.checkpoint(point) or "none known", *start])),
    ]
    if identity:
        long.append(("Device", " · ".join(identity)))
    others = words.culprits_of(incident)[1:]
    if others:
        long.append(("Also at fault", words.listing([words.culprit_name(c) for c in others], 12)))
    return tag(
        "div",
        tag("dl", *(tag("div", tag("dt", label), tag("dd", value)) for label, value in short), class_="short"),
        tag("dl", *(tag("div", tag("dt", label), tag("dd", value)) for label, value in long), class_="long"),
        class_="facts",
    )


# --- actions ----------------------------------------------------------------------------------------------------------


def _actions(incident: Incident, anchors: Anchors) -> Html | None:
    if not incident.actions:
        return None
    return tag(
        "ol",
        *(_action(number, action, incident, anchors) for number, action in enumerate(incident.actions, 1)),
        class_="actions",
    )


def _action(number: int, action: Action, incident: Incident, anchors: Anchors) -> Html:
    notes: list[Html] = []
    if action.requires_approval:
        notes.append(tag("li", "needs approval", class_="approval"))
    if action.risk != "none":
        notes.append(tag("li", f"{action.risk} risk", class_=f"risk-{action.risk}"))
    reach = words.blast_radius(action.blast_radius)
    if reach:
        notes.append(tag("li", reach))
    if action.scheduler:
        notes.append(tag("li", action.scheduler))
    commands = command_block(action.commands)
    if action.blocked_by and commands:
        commands = tag("details", tag("summary", "command, for when it is free"), commands, class_="undo")
    undo = tag("details", tag("summary", "undo"), command_block(action.undo), class_="undo") if action.undo else None
    return tag(
        "li",
        tag("span", str(number), class_="n"),
        tag(
            "div",
            tag("h3", words.action_name(action, incident.requeue.exclude)),
            tag("p", f"Blocked: {'; '.join(action.blocked_by)}", class_="reason") if action.blocked_by else None,
            tag("p", action.why, anchors.links(action.evidence), class_="why") if action.why else None,
            tag("ul", *notes, class_="tags") if notes else None,
            commands,
            undo,
        ),
        class_="blocked" if action.blocked_by else None,
    )


# --- cascade ----------------------------------------------------------------------------------------------------------


def _cascade(incident: Incident, story: Cascade) -> Html:
    causes = [
        tag(
            "li",
            tag("span", f"{words.duration(step.delay_s)} later", class_="delay") if step.delay_s is not None else None,
            tag("b", step.entry.entity),
            step.entry.text,
        )
        for step in story.causes
    ]
    groups = echoes(story.effects)
    shown = groups[:MAX_EFFECTS]
    longest = max((echo.first.delay_s or 0.0 for echo in shown), default=0.0)
    effects = [tag("li", _arrow(echo.first.delay_s, longest), _effect(echo)) for echo in shown]
    rest = sum(1 + len(echo.others) for echo in groups[MAX_EFFECTS:])
    if rest:
        effects.append(tag("li", tag("div"), tag("div", f"and {rest:,} later ones in the timeline", class_="soft")))
    return tag(
        "div",
        tag("ol", *causes, class_="causes", aria_label="Causes"),
        tag("ol", *effects, class_="effects", aria_label="Effects"),
        class_="cascade",
    )


def _effect(echo: Echo) -> Html:
    others = list(dict.fromkeys(step.entry.entity for step in echo.others))
    more = f"and {words.count(len(echo.others), 'time')} more ({words.listing(others, 6)})" if echo.others else ""
    return tag(
        "div",
        tag("b", echo.first.entry.entity),
        echo.first.entry.text,
        tag("small", more, class_="soft") if more else None,
    )


def _arrow(delay_s: float | None, longest_s: float) -> Html:
    """An arrow whose length grows with the logarithm of the delay."""
    share = math.log1p(max(delay_s or 0.0, 0.0) * 10) / math.log1p(longest_s * 10) if longest_s > 0 else 0.0
    end = 34 + 160 * min(share, 1.0)
    label = "+" + words.duration(delay_s) if delay_s is not None else "time unknown"
    return tag(
        "div",
        tag("span", label),
        tag(
            "svg",
            tag("path", d=f"M0 6H{end - 6:.1f}", class_="shaft"),
            tag("path", d=f"M{end - 8:.1f} 1.5L{end:.1f} 6L{end - 8:.1f} 10.5Z", class_="tip"),
            width=200,
            height=12,
            viewBox="0 0 200 12",
            aria_hidden="true",
        ),
        class_="arrow",
    )


# --- hypotheses -------------------------------------------------------------------------------------------------------


def _hypotheses(incident: Incident, anchors: Anchors, opened: int) -> Html | None:
    if not incident.hypotheses:
        return None
    return tag(
        "ol",
        *(_hypothesis(h, anchors, first=n == 0, opened=n < opened) for n, h in enumerate(incident.hypotheses)),
        class_="hypotheses",
    )


def _hypothesis(hypothesis: Hypothesis, anchors: Anchors, *, first: bool, opened: bool) -> Html:
    share = words.percent(hypothesis.confidence)
    bar = tag(
        "svg",
        tag("rect", width=120, height=8, class_="full"),
        tag("rect", width=round(120 * hypothesis.confidence, 1), height=8, class_="part"),
        width=120,
        height=8,
        class_="bar",
        aria_hidden="true",
    )
    summary = tag(
        "summary",
        tag("span", share, class_="share"),
        bar,
        tag("span", tag("code", hypothesis.failure_class), " ", words.culprit_name(hypothesis.culprit)),
        tag("span", f"score {hypothesis.score:.1f}", class_="score"),
    )
    inside = [
        _terms(hypothesis.terms, anchors),
        _list("Speaks against it", hypothesis.against),
        _list("Would decide", hypothesis.would_decide),
        join(tag("h4", "Explains"), tag("p", anchors.links(hypothesis.explains))) if hypothesis.explains else None,
    ]
    return tag(
        "li",
        tag("details", summary, tag("div", *inside, class_="inside"), open=opened),
        class_="first" if first else None,
    )


def _list(title: str, lines: Sequence[str]) -> Html | None:
    return join(tag("h4", title), tag("ul", *(tag("li", line) for line in lines))) if lines else None


def _terms(terms: Sequence[ScoreTerm], anchors: Anchors) -> Html | None:
    if not terms:
        return None
    largest = max(abs(term.value) for term in terms) or 1.0
    rows = [
        tag(
            "tr",
            tag("td", f"{term.value:+.1f}".replace("-", "−"), class_="num"),
            tag("td", _summand(term.value, largest)),
            tag("td", term.term, class_="keep"),
            tag("td", term.why, anchors.links(term.findings)),
        )
        for term in terms
    ]
    head = tag(
        "tr",
        *(
            tag("th", name, scope="col", class_=css)
            for name, css in (("Score", "num"), ("", None), ("Term", None), ("Why", None))
        ),
    )
    return tag("div", tag("table", tag("thead", head), tag("tbody", *rows), class_="terms"), class_="scroll")


def _summand(value: float, largest: float) -> Html:
    length = min(abs(value) / largest, 1.0) * 38 if math.isfinite(value) else 0.0
    return tag(
        "svg",
        tag(
            "rect",
            x=round(40 if value >= 0 else 40 - length, 1),
            y=2,
            width=round(length, 1),
            height=8,
            class_="plus" if value >= 0 else "minus",
        ),
        tag("path", d="M40 0V12", class_="zero"),
        width=80,
        height=12,
        aria_hidden="true",
    )


# --- evidence and findings --------------------------------------------------------------------------------------------


def _evidence(items: Sequence[Evidence], anchors: Anchors) -> Html | None:
    if not items:
        return None
    quotations = [_quotation(item, f"{anchors.prefix}e{n}") for n, item in enumerate(items, 1)]
    rest = quotations[MAX_OPEN:]
    more = (
        tag(
            "details",
            tag("summary", words.count(len(rest), "more quotation")),
            tag("ol", *rest, class_="evidence"),
            class_="more",
        )
        if rest
        else None
    )
    return join(tag("ol", *quotations[:MAX_OPEN], class_="evidence"), more)


def _quotation(item: Evidence, anchor: str) -> Html:
    text = " ".join(plain_lines(item.text))
    summary = tag(
        "summary",
        tag("span", item.id, class_="id"),
        tag("code", words.place(item)),
        tag("span", words.when(item.ts) if item.ts else "", class_="at"),
        tag("span", shorten(text, 300), class_="quote"),
    )
    lines: list[Child] = []
    for distance, line in enumerate(item.before, -len(item.before)):
        lines.append(_source_line(item.line, distance, line))
    for distance, line in enumerate(item.text.split("\n")):
        lines.append(_source_line(item.line, distance, line, hit=True, anchor=anchor if distance == 0 else None))
    rest = item.text.count("\n") + 1
    for distance, line in enumerate(item.after, rest):
        lines.append(_source_line(item.line, distance, line))
    offset = f" · byte {item.offset:,}" if item.offset is not None else ""
    return tag(
        "li",
        tag(
            "details",
            summary,
            tag(
                "div", tag("ol", *lines), tag("div", item.source + offset, class_="foot"), class_="source", tabindex="0"
            ),
        ),
    )


def _source_line(line: int | None, distance: int, text: str, *, hit: bool = False, anchor: str | None = None) -> Html:
    number = str(line + distance) if line is not None and line + distance > 0 else ""
    return tag(
        "li",
        tag("span", number, class_="no"),
        tag("span", shorten(text, MAX_LINE), class_="text"),
        class_="hit" if hit else None,
        id=anchor,
    )


def _findings(items: Sequence[FindingItem], anchors: Anchors) -> Html | None:
    if not items:
        return None
    day = words.main_day([item.first for item in items])
    head = tag(
        "tr",
        *(
            tag("th", name, scope="col", class_=css)
            for name, css in (
                ("", None),
                ("Finding", None),
                ("On", None),
                ("When", None),
                ("Lines", "num"),
                ("Role", None),
                ("Evidence", None),
            )
        ),
    )
    rows = [
        tag(
            "tr",
            tag("td", item.id),
            tag("td", item.text, " ", tag("code", item.sign, class_="soft")),
            tag("td", item.entity),
            tag("td", words.clock(item.first, day), class_="keep"),
            tag("td", f"{item.count:,}", class_="num"),
            tag("td", f"{item.role}, {item.severity}"),
            tag("td", anchors.links(item.evidence)),
            id=f"{anchors.prefix}f{n}",
        )
        for n, item in enumerate(items, 1)
    ]
    total = sum(item.count for item in items)
    title = f"{words.count(len(items), 'finding')} from {words.count(total, 'line')} or samples"
    return tag(
        "section",
        tag(
            "details",
            tag("summary", title),
            tag("div", tag("table", tag("thead", head), tag("tbody", *rows)), class_="scroll"),
            class_="more",
        ),
        aria_label="Findings",
    )
