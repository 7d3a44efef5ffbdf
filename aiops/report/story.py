"""The story in sentences, from the facts of the incident only."""

from __future__ import annotations

from aiops.correlate.model import IncidentDraft, Suspect
from aiops.model import report as r
from aiops.model.event import NO_TIME, Severity
from aiops.model.finding import Finding, Role
from aiops.recommend.plan import describe_suspect
from aiops.report.words import listing

_REQUEUE = {
    "same_nodes": "may go back to the same nodes",
    "exclude_nodes": "may go back without {nodes}",
    "fix_first": "must not go back before the cause is fixed",
    "not_needed": "needs no requeue",
}


_TELLING = (
    "train.slow",
    "collective.timeout",
    "num.nonfinite",
    "sched.node_fail",
    "slurm.node_down",
    "job.died",
    "sched.job_failed",
)
"""What tells a person most about what followed, before teardown messages."""


def summary(report: r.Report, findings: list[Finding]) -> str:
    """One line for people who read nothing else."""
    if report.verdict == "no_incident":
        if any(f.sign in ("sched.job_completed", "job.succeeded") for f in findings):
            return "No incident: the job reached its end."
        return "No incident: nothing in the evidence harmed the job."
    if not report.incidents:
        return (
            "Inconclusive: nothing in these files is known to the analyzer, so it cannot tell whether anything failed."
        )
    incident = report.incidents[0]
    if report.verdict == "inconclusive":
        return f"Inconclusive: {incident.title}"
    return f"{incident.title} (confidence {incident.confidence:.2f})"


def why_no_incident(findings: list[Finding]) -> list[str]:
    """What proves the good end, and which alarming lines were seen and why they do not count."""
    ended = next((f for f in findings if f.sign in ("sched.job_completed", "job.succeeded")), None)
    notes = []
    if ended is not None and ended.evidence:
        ref = ended.evidence[0]
        notes.append(f"the end: {ref.text.strip()[:160]} ({ref.source}, line {ref.line})")
    loud = [f.text for f in findings if f.role == Role.ROOT or (f.role == Role.ECHO and f.severity >= Severity.WARNING)]
    if loud:
        reason = "the job ended well all the same" if ended is not None else "nothing shows that they harmed the job"
        notes.append(f"seen and not counted, since {reason}: {'; '.join(dict.fromkeys(loud[:4]))}")
    return notes


def narrative(incident: r.Incident, draft: IncidentDraft) -> str:
    """What happened, in order: cause, followers, consequence."""
    best = draft.best
    sentences = []
    head = best.causes[0]
    cited = {item.id: item.evidence for item in incident.findings}
    sentences.append(f"{_sentence(head.text)}{_marks(cited.get(head.id, []))}")
    further = [f for f in best.causes[1:] if f.sign != head.sign][:2]
    if further:
        sentences.append(
            "The same is shown by: " + "; ".join(f"{f.text}{_marks(cited.get(f.id, []))}" for f in further) + "."
        )
    followers = [f for f in best.explained if f.first != NO_TIME and not f.inexact and f.first >= best.began]
    if followers:
        first = min(followers, key=lambda f: (_TELLING.index(f.sign) if f.sign in _TELLING else len(_TELLING), f.first))
        delay = ""
        if best.began != NO_TIME and first.first >= best.began:
            seconds = (first.first - best.began) / 1e9
            delay = f" {_duration(seconds)} later" if seconds >= 1 else ""
        sentences.append(f"What followed{delay}: {first.text}{_marks(cited.get(first.id, []))}.")
    others = [
        f
        for f in draft.findings
        if f.role == Role.ROOT and f.severity >= Severity.ERROR and f not in best.causes and f not in best.explained
    ]
    if others:
        sentences.append(f"Not explained by this: {others[0].text}{_marks(cited.get(others[0].id, []))}.")
    if incident.culprit.kind != "unknown":
        sentences.append(f"At fault is {_culprit(best.suspect)}.")
    sentences.append(f"The job {_back(incident.requeue)}.")
    return " ".join(sentences)


def _culprit(suspect: Suspect) -> str:
    """``GPU 3, rank 35 on fjord-021``, or ``the network`` where nothing has a name."""
    if suspect.kind == "scheduler":  # a job that waits or had to make room is not at fault
        return f"the scheduler ({suspect.name})" if suspect.name else "the scheduler"
    name = describe_suspect(suspect)
    common = name.split(" on ")[0] in ("configuration", "data", "facility", "network", "storage")
    return f"the {name}" if common else name


def _back(choice: r.Requeue) -> str:
    """Whether the job may go back, and without what."""
    if choice.verdict == "exclude_nodes" and not choice.exclude:
        return "must not go back before the node at fault is found"
    return _REQUEUE[choice.verdict].format(nodes=listing(choice.exclude, 8))


def _sentence(text: str) -> str:
    return text if text.endswith(".") else text + "."


def _marks(ids: list[str]) -> str:
    return f" [{', '.join(dict.fromkeys(ids[:3]))}]" if ids else ""


def _duration(seconds: float) -> str:
    if seconds < 120:
        return f"{seconds:.0f} s"
    if seconds < 7200:
        return f"{seconds / 60:.0f} min"
    return f"{seconds / 3600:.1f} h"
