"""The report for a terminal: what, who and what next in three lines, everything else below them."""

from __future__ import annotations

import io
import re

from rich.console import Console
from rich.text import Text

from aiops.model.report import Action, Evidence, Hypothesis, Incident, Report, TimelineEntry
from aiops.report import escape, words
from aiops.report.cascade import cascade
from aiops.report.lead import lead

MIN_WIDTH = 40
MAX_EVIDENCE = 12
"""Quotations shown per incident; the HTML page shows all."""
MAX_TIMELINE = 24
MAX_HYPOTHESES = 4
MAX_INCIDENTS = 3
"""Incidents shown in full; of the others only the three lines."""

_VERDICT_STYLE = {"incident": "bold red", "no_incident": "bold green", "inconclusive": "bold yellow"}
_GLYPHS = {"cause": ("◆", "*", "bold red"), "effect": ("▸", ">", ""), "context": ("·", ".", "dim")}
_LABEL = 12


def render(report: Report, *, width: int = 100, color: bool = False, unicode: bool = True) -> str:
    """Text for people, at most ``width`` cells wide except for commands, which stay whole so that they can be copied.

    Without ``unicode`` the text is ASCII. The caller decides about ``NO_COLOR`` and whether the output is a terminal.
    """
    page = _Page(max(width, MIN_WIDTH), color, unicode)
    total = len(report.incidents)
    if report.verdict == "no_incident" or not total:
        page.lead(report, None)
    else:
        for position, incident in enumerate(report.incidents, 1):
            if position > 1:
                page.blank()
                page.heading(f"Incident {position} of {total}")
            page.lead(report, incident)
            if position == 1 and total > 1:
                page.row("ALSO", words.listing([other.title for other in report.incidents[1:]]), "bold")
            if position <= MAX_INCIDENTS:
                page.incident(incident)
    page.coverage(report)
    return page.text()


class _Page:
    """Lines of text; every string from a report passes `say`."""

    def __init__(self, width: int, color: bool, unicode: bool) -> None:
        self.width = width
        self.unicode = unicode
        self.out = io.StringIO()
        self.console = Console(
            file=self.out,
            width=width,
            color_system="standard" if color else None,
            force_terminal=color,
            force_interactive=False,
            legacy_windows=False,
            highlight=False,
            markup=False,
            emoji=False,
            _environ={},
        )

    def text(self) -> str:
        lines = [line.rstrip(" ") for line in self.out.getvalue().split("\n")]
        return re.sub(r"\n{3,}", "\n\n", "\n".join(lines)).strip("\n") + "\n"

    # --- building blocks ----------------------------------------------------------------------------------------------

    def say(self, text: str, style: str = "") -> Text:
        # A span, not the base style: what is added behind keeps its own look.
        return Text().append(escape.terminal(text, unicode=self.unicode), style=style)

    def hang(self, prefix: Text, body: Text, column: int | None = None) -> None:
        """``body`` wrapped beside ``prefix``, later lines indented to the same column."""
        column = prefix.cell_len if column is None else column
        room = max(self.width - column, 12)
        lines = body.wrap(self.console, room) or [Text("")]
        gap = Text(" " * max(column - prefix.cell_len, 0))
        for number, line in enumerate(lines):
            line.rstrip()
            start = prefix + gap if number == 0 else Text(" " * column)
            self.console.print(start + line, soft_wrap=True)

    def row(self, label: str, value: Text | str, style: str = "dim") -> None:
        self.hang(
            self.say(label, style) + Text(" "),
            self.say(value) if isinstance(value, str) else value,
            max(_LABEL, len(label) + 2),
        )

    def commands(self, commands: list[str], indent: int, style: str = "cyan") -> None:
        for command in commands:
            for line in escape.plain_lines(command):
                self.console.print(Text(" " * indent) + self.say(line, style), soft_wrap=True)

    def heading(self, text: str, note: str = "") -> None:
        self.blank()
        self.hang(self.say(text.upper(), "bold") + Text("  " if note else ""), self.say(note, "dim"))

    def blank(self) -> None:
        self.console.print()

    # --- the report ---------------------------------------------------------------------------------------------------

    def lead(self, report: Report, incident: Incident | None) -> None:
        top = lead(report, incident)
        style = _VERDICT_STYLE[report.verdict]
        label = top.verdict.upper()
        column = max(_LABEL, len(label) + 2)
        what = self.say(top.what, "bold")
        if top.sure:
            what = what + self.say(f"  {top.sure}", style.removeprefix("bold "))
        self.hang(self.say(label, style), what, column)
        self.hang(self.say("WHO", "bold"), self.say(top.who), column)
        self.hang(self.say("NEXT", "bold"), self.say(words.sentence(top.next)), column)
        self.commands(top.commands, column)
        trouble = words.problems(report)
        if trouble and (incident is None or incident is report.incidents[0]):
            self.hang(self.say("CAUTION", "yellow"), self.say(trouble), column)

    def incident(self, incident: Incident) -> None:
        self.blank()
        self.row("class", words.class_of(incident))
        for culprit in words.culprits_of(incident):
            if culprit.gpu_uuid:
                self.row("uuid", culprit.gpu_uuid)
        facts = [f"{label.lower()} {value}" for label, value in words.impact_facts(incident.impact)]
        if facts:
            self.row("impact", ", ".join(facts))
        self.row("checkpoint", words.checkpoint_line(incident.checkpoint))
        self.row("requeue", words.requeue_reason(incident.requeue))
        if incident.narrative.text:
            self.row("story", incident.narrative.text)
            note = words.narrator(incident.narrative)
            if note:
                self.row("", self.say(note, "dim"))
        self._actions(incident)
        self._timeline(incident)
        self._hypotheses(incident)
        self._evidence(incident)

    def _actions(self, incident: Incident) -> None:
        if not incident.actions:
            return
        self.heading("Do")
        for number, action in enumerate(incident.actions, 1):
            self._action(number, action, incident.requeue.exclude)

    def _action(self, number: int, action: Action, exclude: list[str]) -> None:
        head = self.say(words.action_name(action, exclude), "bold" if not action.blocked_by else "dim")
        if action.blocked_by:
            head = head + self.say(f"  blocked: {'; '.join(action.blocked_by)}", "yellow")
        notes = words.action_notes(action)
        if notes:
            head = head + self.say(f"  {', '.join(notes)}", "dim")
        self.hang(Text(f"{number:>2} "), head, 3)
        if action.why:
            self.hang(Text("   "), self.say(action.why) + self._cited(action.evidence))
        self.commands(action.commands, 5, "dim" if action.blocked_by else "cyan")
        for command in action.undo:
            lines = escape.plain_lines(command)
            self.console.print(self.say(f"   undo {lines[0]}", "dim"), soft_wrap=True)
            self.commands(lines[1:], 8, "dim")

    def _cited(self, ids: list[str]) -> Text:
        return self.say(f"  [{' '.join(ids)}]", "dim") if ids else Text("")

    def _timeline(self, incident: Incident) -> None:
        entries = incident.timeline
        if not entries:
            return
        day = words.main_day([e.ts for e in entries])
        self.heading("Timeline", f"UTC{', ' + day if day else ''}")
        story = cascade(incident)
        delays = {s.index: s.delay_s for s in [*story.causes, *story.effects]} if story and self.width >= 100 else {}
        places = _most_telling(entries)
        shown = [entries[i] for i in places]
        times = [words.clock(e.ts, day) for e in shown]
        after = [f"+{words.duration(delay)}" if (delay := delays.get(i)) is not None else "" for i in places]
        time_width, after_width = max(map(len, times)), max(map(len, after))
        entity_width = min(max(len(escape.plain(e.entity)) for e in shown), 22)
        for entry, time, lag in zip(shown, times, after, strict=True):
            glyph, ascii_glyph, style = _GLYPHS[entry.role]
            prefix = self.say(time.ljust(time_width), "dim")
            if after_width:
                prefix = prefix + self.say(f"  {lag.rjust(after_width)}", "dim")
            prefix = prefix + Text(f" {glyph if self.unicode else ascii_glyph} ", style=style)
            name = self.say(escape.shorten(escape.plain(entry.entity), entity_width), "dim")
            text = self.say(entry.text, style if entry.role != "effect" else "") + self._cited(entry.evidence)
            if prefix.cell_len + entity_width + MIN_WIDTH // 2 > self.width:
                self.hang(prefix, name + Text("  ") + text)
                continue
            name.truncate(entity_width, overflow="crop", pad=True)
            self.hang(prefix + name + Text("  "), text)
        if len(entries) > MAX_TIMELINE:
            self.hang(Text("  "), self.say(f"and {len(entries) - MAX_TIMELINE:,} more entries", "dim"))

    def _hypotheses(self, incident: Incident) -> None:
        if not incident.hypotheses:
            return
        self.heading("Why")
        for position, hypothesis in enumerate(incident.hypotheses[:MAX_HYPOTHESES]):
            self._hypothesis(hypothesis, first=position == 0)

    def _hypothesis(self, hypothesis: Hypothesis, *, first: bool) -> None:
        full, empty = ("█", "░") if self.unicode else ("#", ".")
        filled = round(hypothesis.confidence * 10)
        bar = Text(full * filled) + Text(empty * (10 - filled), style="dim")
        share = words.percent(hypothesis.confidence)
        self.hang(
            Text(f"{share:>4} ") + bar + Text("  "),
            self.say(words.hypothesis_name(hypothesis), "bold" if first else "")
            + self.say(f"  score {hypothesis.score:.1f}", "dim"),
        )
        for term in hypothesis.terms if first else []:
            self.hang(
                Text("     ") + self.say(f"{term.value:+.1f}  ", "dim"),
                self.say(f"{term.term}: {term.why}") + self._cited(term.findings),
            )
        for label, lines in (("against", hypothesis.against), ("would decide", hypothesis.would_decide)):
            for line in lines:
                self.hang(Text("     ") + self.say(f"{label}  ", "dim"), self.say(line))

    def _evidence(self, incident: Incident) -> None:
        evidence = incident.evidence
        if not evidence:
            return
        self.heading("Evidence")
        for item in _most_weighty(incident):
            ident = self.say(f"{item.id:>3} ", "bold")
            at = self.say(f"  {words.when(item.ts)}" if item.ts else "", "dim")
            self.hang(ident, self.say(words.place(item)) + at, 4)
            self.hang(Text("    "), self.say(escape.shorten(escape.plain(item.text), 2 * (self.width - 6)), "dim"))
        if len(evidence) > MAX_EVIDENCE:
            self.hang(
                Text("    "),
                self.say(f"and {len(evidence) - MAX_EVIDENCE:,} more in the HTML page (--html FILE)", "dim"),
            )

    def coverage(self, report: Report) -> None:
        read = report.coverage
        self.heading("Read")
        self.hang(Text(""), self.say(words.coverage(read)))
        if read.first or read.last:
            self.row("span", f"{words.when(read.first)} to {words.when(read.last)}")
        if read.missing:
            self.row("gaps", words.listing(read.missing, 8))
        for problem in read.problems[:8]:
            self.row("problem", words.problem(problem), "yellow")
        if len(read.problems) > 8:
            self.row("", f"and {words.count(len(read.problems) - 8, 'more problem')}")
        for note in read.notes[:8]:
            self.row("note", note)


def _most_weighty(incident: Incident) -> list[Evidence]:
    """Quotations to show, in order: those of causes and actions before those of effects, and mere context last."""
    weight: dict[str, int] = dict.fromkeys((ident for action in incident.actions for ident in action.evidence), 0)
    for entry in incident.timeline:
        for ident in entry.evidence:
            weight[ident] = min(weight.get(ident, 3), {"cause": 0, "effect": 1, "context": 2}[entry.role])
    places = sorted(range(len(incident.evidence)), key=lambda i: (weight.get(incident.evidence[i].id, 3), i))
    return [incident.evidence[i] for i in sorted(places[:MAX_EVIDENCE])]


def _most_telling(entries: list[TimelineEntry]) -> list[int]:
    """Places of the entries to show, in order: all causes, then context, then the earliest effects."""
    rank = {"cause": 0, "context": 1, "effect": 2}
    return sorted(sorted(range(len(entries)), key=lambda i: (rank[entries[i].role], i))[:MAX_TIMELINE])
