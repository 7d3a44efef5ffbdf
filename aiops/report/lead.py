"""The first three lines of every surface: what, who, what next."""

from __future__ import annotations

from dataclasses import dataclass, field

from aiops.model.report import Action, ActionName, Incident, Report
from aiops.report import words

_SAID_BY_REQUEUE = frozenset({ActionName.REQUEUE, ActionName.REQUEUE_EXCLUDING_NODE})
_SAID_BY_CHECKPOINT = frozenset({ActionName.RESTORE_CHECKPOINT, ActionName.RESTORE_EARLIER_CHECKPOINT})


@dataclass(frozen=True, slots=True)
class Lead:
    """Plain text; ``what`` is the title, ``sure`` the confidence in words and number (empty if nothing is wrong)."""

    verdict: str
    what: str
    sure: str
    who: str
    next: str
    commands: list[str] = field(default_factory=list)
    """Commands of the action that ``next`` names first; empty if it has none."""


def lead(report: Report, incident: Incident | None = None) -> Lead:
    """The three lines about ``incident`` (by default the first one)."""
    incident = incident or (report.incidents[0] if report.incidents else None)
    verdict = words.VERDICTS[report.verdict]
    if report.verdict == "no_incident":
        what = report.summary.removeprefix(f"{verdict}: ")
        return Lead(
            verdict,
            what or (incident.title if incident else "nothing went wrong"),
            "",
            "nobody is at fault",
            "nothing needs to be done",
        )
    if incident is None:
        return Lead(
            verdict,
            report.summary or "the evidence does not decide",
            "",
            "culprit unknown",
            _decide([], report.coverage.missing) or "collect more evidence",
        )
    sure = words.confidence(incident.confidence)
    first = _first_action(incident)
    commands = list(first.commands) if first else []
    if report.verdict == "inconclusive":
        wanted = [item for hypothesis in incident.hypotheses for item in hypothesis.would_decide]
        step = _decide(wanted, report.coverage.missing) or "collect more evidence"
        then = f"{step}; {_requeue(report, incident)}"
        return Lead(verdict, incident.title, sure, _candidates(incident), then, commands)
    return Lead(verdict, incident.title, sure, _culprits(incident), _next(report, incident, first), commands)


def _culprits(incident: Incident) -> str:
    first, *others = words.culprits_of(incident)
    more = f"; also {words.listing([words.culprit_name(c) for c in others])}" if others else ""
    return " · ".join([words.culprit_name(first), *words.culprit_details(first)]) + more


def _candidates(incident: Incident) -> str:
    if not incident.hypotheses:
        return _culprits(incident)
    names = [
        f"{words.culprit_name(h.culprit)} ({h.failure_class}, {words.percent(h.confidence)})"
        for h in incident.hypotheses
    ]
    return f"{'candidates' if len(names) > 1 else 'candidate'}: {words.listing(names)}"


def _decide(wanted: list[str], missing: list[str]) -> str:
    if wanted:
        return f"to decide, get: {wanted[0]}"
    return f"to decide, collect more; there is {words.listing(missing)}" if missing else ""


def _first_action(incident: Incident) -> Action | None:
    """The first one of the list that is not blocked; a restore is said by the requeue that follows it."""
    free = [a for a in incident.actions if not a.blocked_by and a.action is not ActionName.NONE and not a.done]
    if free and free[0].action in _SAID_BY_CHECKPOINT and len(free) > 1 and free[1].action in _SAID_BY_REQUEUE:
        return free[1]
    return free[0] if free else None


def _requeue(report: Report, incident: Incident) -> str:
    job = words.job_of(incident)
    if report.verdict == "inconclusive" and incident.requeue.verdict == "fix_first":
        return f"do not requeue {f'job {job}' if job else 'the job'} yet"
    phrase = words.requeue(incident.requeue, job)
    start = words.checkpoint(incident.checkpoint)
    return phrase if not start or incident.requeue.verdict == "not_needed" else f"{phrase}, from {start}"


def _next(report: Report, incident: Incident, first: Action | None) -> str:
    then = _requeue(report, incident)
    if first is None:
        blocked = next((a for a in incident.actions if a.blocked_by), None)
        if blocked is None:
            return then
        name = words.action_name(blocked, incident.requeue.exclude)
        return f"{then}; blocked: {name} ({'; '.join(blocked.blocked_by)})"
    if first.action in _SAID_BY_REQUEUE:
        return then
    name = words.action_name(first, incident.requeue.exclude)
    approval = " (needs approval)" if first.requires_approval else ""
    link = "; then" if incident.requeue.verdict in ("exclude_nodes", "same_nodes") else ";"
    return f"{name[:1].lower()}{name[1:]}{approval}{link} {then}"
