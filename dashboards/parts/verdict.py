"""The three lines that answer what, who and what next, and the cards right below them."""

from __future__ import annotations

from collections.abc import Sequence

from aiops.model.report import Incident, Report
from aiops.report import words
from aiops.report.escape import Html, tag
from aiops.report.lead import lead
from dashboards.parts.phrases import chip, sentence

_REQUEUE = {
    "same_nodes": "Same nodes are fine",
    "exclude_nodes": "Without the bad nodes",
    "fix_first": "Not before the fix",
    "not_needed": "Not needed",
}
_TONE = {"same_nodes": "good", "not_needed": "good", "fix_first": "red", "exclude_nodes": "amber"}
_RULES = {
    "C0": "newest complete checkpoint",
    "C1": "newest one older than the first anomaly",
    "C2": "save first, then act",
    "C3": "none needed, no progress was made",
    "C4": "distrust the newest, verify it or fall back one",
    "C5": "older than the first anomaly, and skip the data window",
}


def headline(report: Report, incident: Incident) -> Html:
    """What happened, who is at fault, what to do next."""
    said = lead(report, incident)
    open_question = report.verdict == "inconclusive"
    chips = [
        chip(incident.failure_class, mono=True),
        chip("hardware" if incident.hardware else "not hardware"),
        chip(said.sure),
    ]
    if open_question:
        chips.insert(0, chip("inconclusive", "amber"))
    who = words.listing([words.culprit_name(culprit) for culprit in words.culprits_of(incident)])
    details = [chip(detail, mono=True) for detail in words.culprit_details(incident.culprit)]
    if open_question:
        who, details = sentence(said.who), []
    return tag(
        "section",
        _line("What", incident.title, chips),
        _line("Who", who, details),
        _line("Next", sentence(said.next), []),
        class_="aiops-head open" if open_question else "aiops-head",
    )


def calm(report: Report) -> Html:
    """The page of a report without incidents: nothing is wrong, or nothing can be said and what would help."""
    said = lead(report)
    what = tag("p", sentence(said.what), class_="big")
    if report.verdict == "no_incident":
        return tag("section", tag("h1", said.verdict), what, class_="aiops-calm good")
    return tag(
        "section",
        tag("h1", said.verdict),
        what,
        tag("p", f"{sentence(said.next)}.", class_="muted"),
        class_="aiops-calm open",
    )


def cards(incident: Incident) -> Html:
    """May the job go back, from which checkpoint, and what it cost."""
    return tag("div", _requeue(incident), _checkpoint(incident), _impact(incident), class_="aiops-cards")


def _line(label: str, value: str, chips: Sequence[Html]) -> Html:
    return tag(
        "div",
        tag("div", label, class_="label"),
        tag("div", tag("div", value, class_="value"), tag("div", *chips, class_="chips") if chips else None),
        class_="line",
    )


def _card(title: str, value: str, facts: Sequence[tuple[str, str]], why: str, tone: str = "") -> Html:
    rows = [tag("div", tag("dt", label), tag("dd", fact)) for label, fact in facts]
    return tag(
        "article",
        tag("h3", title),
        tag("div", value, class_=f"big {tone}".strip()),
        tag("p", why) if why else None,
        tag("dl", *rows) if rows else None,
        class_="aiops-card",
    )


def _requeue(incident: Incident) -> Html:
    choice = incident.requeue
    facts = [("Exclude", words.listing(choice.exclude, 8))] if choice.exclude else []
    job = words.job_of(incident)
    facts += [("Job", job)] if job else []
    return _card("Requeue", _REQUEUE[choice.verdict], facts, choice.why, _TONE[choice.verdict])


def _checkpoint(incident: Incident) -> Html:
    choice = incident.checkpoint
    name = words.checkpoint(choice) if choice.step is not None or choice.rule == "C3" else ""
    if choice.rule == "C3":
        name = "None needed"
    facts = [("Restore", choice.restore)] if choice.restore else []
    facts += [("Saved", words.when(choice.saved_at))] if choice.saved_at else []
    facts += [("Age", f"{words.duration(choice.age_s)} before the failure")] if choice.age_s is not None else []
    facts += [("Lost", words.count(choice.lost_steps, "step"))] if choice.lost_steps is not None else []
    facts += [("Rule", f"{choice.rule}, {_RULES[choice.rule]}")]
    value = sentence(name) or ("See path" if choice.restore else "None known")
    return _card("Checkpoint", value, facts, choice.why)


def _impact(incident: Incident) -> Html:
    impact = incident.impact
    facts = words.impact_facts(impact)
    if impact.gpu_hours_lost is not None:
        return _card(
            "Impact",
            f"{impact.gpu_hours_lost:,.1f} GPU-hours lost",
            [
                *((label, text) for label, text in facts if label != "Lost"),
                *([("Cost", f"{impact.cost:,.2f}")] if impact.cost is not None else []),
            ],
            "",
        )
    return _card(
        "Impact",
        words.count(impact.gpus, "GPU") + " hit" if impact.gpus is not None else "Not known",
        [(label, text) for label, text in facts if label != "Hit"],
        "",
    )
