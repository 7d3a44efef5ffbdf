"""The words that every surface shares: times, durations, confidence, culprits and actions as plain text.

Nothing here is escaped; the renderers do that for their medium.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from datetime import UTC, datetime

from aiops.model.entity import NO_MACHINE
from aiops.model.report import (
    Action,
    BlastRadius,
    CheckpointChoice,
    CoverageReport,
    Culprit,
    Evidence,
    Hypothesis,
    Impact,
    Incident,
    Narrative,
    ProblemItem,
    Report,
    Requeue,
)

VERDICTS = {"incident": "Incident", "no_incident": "No incident", "inconclusive": "Inconclusive"}

_CONFIDENCE = ((0.95, "almost certain"), (0.8, "very likely"), (0.6, "likely"), (0.35, "possible"), (0.0, "weak"))


# --- numbers and times ------------------------------------------------------------------------------------------------


def percent(value: float) -> str:
    """``0.961`` → ``96%``; only a true 1 is ``100%`` and only a true 0 is ``0%``."""
    whole = round(value * 100)
    if whole >= 100 and value < 1:
        return ">99%"
    if whole <= 0 and value > 0:
        return "<1%"
    return f"{whole}%"


def confidence_word(value: float) -> str:
    """``almost certain``, ``very likely``, ``likely``, ``possible`` or ``weak``."""
    return next((word for floor, word in _CONFIDENCE if value >= floor), "weak")


def confidence(value: float) -> str:
    """``almost certain (96%)``."""
    return f"{confidence_word(value)} ({percent(value)})"


def moment(ts: str | None) -> datetime | None:
    """An ISO 8601 time in UTC, or ``None`` if there is none or it cannot be read; without a zone it is UTC."""
    if not ts:
        return None
    try:
        value = datetime.fromisoformat(ts)
        return value.replace(tzinfo=UTC) if value.tzinfo is None else value.astimezone(UTC)
    except (ValueError, OverflowError):
        return None


def seconds_between(first: str | None, last: str | None) -> float | None:
    """Seconds from ``first`` to ``last``, if both are known."""
    a, b = moment(first), moment(last)
    return None if a is None or b is None else (b - a).total_seconds()


def clock(ts: str | None, day: str | None = None) -> str:
    """Time of day with milliseconds where there are any, with the date unless it is ``day`` (``YYYY-MM-DD``)."""
    at = moment(ts)
    if at is None:
        return _unreadable(ts) or "time unknown"
    time = at.strftime("%H:%M:%S") + (f".{at.microsecond // 1000:03d}" if at.microsecond else "")
    date = at.date().isoformat()
    return time if date == day else f"{date} {time}"


def when(ts: str | None) -> str:
    """``2026-11-28 03:14:07 UTC``."""
    at = moment(ts)
    return f"{at.date().isoformat()} {at:%H:%M:%S} UTC" if at else _unreadable(ts) or "unknown"


def _unreadable(ts: str | None) -> str:
    """A time that is none, as it stands, but not longer than a time."""
    return "" if ts is None else ts if len(ts) <= 32 else ts[:31] + "…"


def main_day(times: Sequence[str | None]) -> str | None:
    """The date most of the times fall on, to be written once instead of on every line."""
    days = [at.date().isoformat() for at in map(moment, times) if at]
    return max(sorted(set(days)), key=days.count) if days else None


def duration(seconds: float) -> str:
    """``490 ms``, ``1.5 s``, ``15 min 36 s``, ``3 h 24 min``, ``2 d 4 h``."""
    if not math.isfinite(seconds):
        return "unknown"
    if seconds < 0:
        return "-" + duration(-seconds)
    if seconds < 0.9995:
        return f"{round(seconds * 1000)} ms" if seconds else "0 s"
    if seconds < 9.95:
        return f"{seconds:.1f}".removesuffix(".0") + " s"
    whole = round(seconds)
    for big, small, size, part in (("d", "h", 86_400, 3_600), ("h", "min", 3_600, 60), ("min", "s", 60, 1)):
        if whole >= size:
            rest = whole % size // part
            return f"{whole // size} {big}" + (f" {rest} {small}" if rest else "")
    return f"{whole} s"


def size(count: int) -> str:
    """Bytes as ``612 B``, ``10.2 kB``, ``8.2 MB`` (powers of 1000)."""
    value = float(count)
    for unit in ("B", "kB", "MB", "GB"):
        if value < 1000:
            return f"{value:.0f} {unit}" if unit == "B" or value >= 100 else f"{value:.1f} {unit}"
        value /= 1000
    return f"{value:.1f} TB"


def number(value: float) -> str:
    """A measured value in few digits: ``0``, ``0.71``, ``41``, ``1,234``, ``1.92M``."""
    if not math.isfinite(value):
        return "?"
    for floor, unit in ((1e12, "T"), (1e9, "G"), (1e6, "M")):
        if abs(value) >= floor:
            return f"{value / floor:.3g}{unit}"
    return f"{value:,.0f}" if abs(value) >= 100 or value == int(value) else f"{value:.3g}"


def count(value: int, noun: str) -> str:
    """``1 node``, ``8 nodes``, ``1,204 lines``."""
    return f"{value:,} {noun if value == 1 else noun + 's'}"


def sentence(text: str) -> str:
    """With a capital first letter."""
    return text[:1].upper() + text[1:]


def listing(items: Sequence[str], most: int = 3) -> str:
    """``a, b and c``, or ``a, b, c and 5 more``."""
    shown = list(items[:most])
    if len(items) > most:
        return f"{', '.join(shown)} and {len(items) - most:,} more"
    return " and ".join(filter(None, [", ".join(shown[:-1]), *shown[-1:]]))


# --- culprits ---------------------------------------------------------------------------------------------------------

_NAMED = {**NO_MACHINE, "switch": "switch", "link": "link"}


def culprit_name(culprit: Culprit) -> str:
    """Shortest name that a person can walk to: ``GPU 5 of gpu-r07-n03``, ``rank 6``, ``user code: train.py:212``."""
    kind = culprit.kind
    on = f" of {culprit.node}" if culprit.node else ""
    if kind == "gpu":
        which = f"GPU {culprit.gpu}" if culprit.gpu is not None else f"GPU {culprit.gpu_uuid or culprit.pci or ''}"
        return f"{which.strip()}{on}" if which.strip() != "GPU" else f"a GPU{on}"
    if kind == "node":
        return culprit.node or culprit.name or "a node"
    if kind == "rank":
        which = f"rank {culprit.rank}" if culprit.rank is not None else culprit.name or "a rank"
        return f"{which} on {culprit.node}" if culprit.node else which
    if kind == "unknown":
        return culprit.name or "culprit unknown"
    where = f" on {culprit.node}" if culprit.node else ""
    if kind == "link":
        return f"link: {culprit.name or culprit.pci}{on}" if culprit.name or culprit.pci else f"link{on}"
    return f"{_NAMED[kind]}: {culprit.name}" if culprit.name else f"{_NAMED[kind]}{where}"


def culprit_details(culprit: Culprit) -> list[str]:
    """What else identifies it, without repeating `culprit_name` and without the UUID, which nobody reads aloud."""
    details = [
        f"PCI {culprit.pci}" if culprit.pci and culprit.pci not in culprit_name(culprit) else None,
        f"node {culprit.node}" if culprit.node and culprit.node not in culprit_name(culprit) else None,
        f"GPU {culprit.gpu}" if culprit.gpu is not None and culprit.kind != "gpu" else None,
        f"rank {culprit.rank}" if culprit.rank is not None and culprit.kind != "rank" else None,
        f"job {culprit.job}" if culprit.job else None,
        f"cluster {culprit.cluster}" if culprit.cluster else None,
    ]
    return [detail for detail in details if detail]


def culprits_of(incident: Incident) -> list[Culprit]:
    """All at fault, the first one first; each name once."""
    named = {culprit_name(culprit): culprit for culprit in reversed([incident.culprit, *incident.culprits])}
    return list(reversed(named.values()))


def class_of(incident: Incident) -> str:
    """``gpu.off_bus, hardware``."""
    return f"{incident.failure_class}, {'hardware' if incident.hardware else 'not hardware'}"


# --- what to do -------------------------------------------------------------------------------------------------------

_ACTIONS = {
    "drain_node": "Drain {node}",
    "cordon_node": "Cordon {node}",
    "reset_gpu": "Reset {gpu}",
    "reboot_node": "Reboot {node}",
    "rma": "Send in {gpu} (RMA)",
    "swap_node": "Swap {node} for a spare",
    "requeue": "Requeue {job}",
    "requeue_excluding_node": "Requeue {job} without {bad}",
    "hold_job": "Hold {job}",
    "restore_checkpoint": "Restore the checkpoint",
    "restore_earlier_checkpoint": "Restore an earlier checkpoint",
    "fix_user_code": "Fix the user code",
    "fix_config": "Fix the configuration",
    "fix_data": "Fix the data",
    "free_storage": "Free storage",
    "fix_storage": "Repair the storage",
    "fix_network": "Repair the network",
    "adjust_quota": "Adjust the quota",
    "release_gang": "Release the gang of {job}",
    "wait": "Wait",
    "notify_owner": "Tell the owner of {job}",
    "investigate": "Investigate {what}",
    "none": "Nothing to do",
}


def action_name(action: Action, exclude: Sequence[str] = ()) -> str:
    """``Drain gpu-r07-n03``; ``exclude`` are the nodes of the requeue verdict."""
    target = action.target
    node = target.node or "the node"
    job = f"job {target.job}" if target.job else "the job"
    which = target.pci if target.gpu is None else target.gpu
    gpu = f"GPU {which} of {node}" if which is not None else f"the GPU of {node}" if target.node else "the GPU"
    what = target.node or (job if target.job else "further")
    return _ACTIONS[action.action.value].format(
        node=node, job=job, gpu=gpu, what=what, bad=listing(exclude) or "the node at fault"
    )


def action_notes(action: Action) -> list[str]:
    """Risk, approval and reach: ``needs approval``, ``low risk``, ``touches 1 node, 8 GPUs``."""
    if action.done:
        return ["done already"]
    notes = ["needs approval"] if action.requires_approval else []
    if action.risk != "none":
        notes.append(f"{action.risk} risk")
    reach = blast_radius(action.blast_radius)
    return [*notes, reach] if reach else notes


def blast_radius(radius: BlastRadius) -> str:
    """``touches 1 node, 8 GPUs, no job (no other job runs there)``; empty if nothing is known."""
    known = [
        (n, noun) for n, noun in ((radius.nodes, "node"), (radius.gpus, "GPU"), (radius.jobs, "job")) if n is not None
    ]
    reach = (
        "touches " + ", ".join(count(n, noun) for n, noun in known if n)
        if any(n for n, _ in known)
        else ("touches nothing" if known else "")
    )
    return f"{reach} ({radius.note})" if reach and radius.note else reach or radius.note


def requeue(choice: Requeue, job: str | None) -> str:
    """``requeue job 81234 without gpu-r07-n03``."""
    what = f"job {job}" if job else "the job"
    if choice.verdict == "exclude_nodes":
        if not choice.exclude:
            return f"requeue {what} only without the node at fault"
        return f"requeue {what} without {listing(choice.exclude, 8)}"
    return {
        "same_nodes": f"requeue {what} on the same nodes",
        "fix_first": f"requeue {what} only after the fix",
        "not_needed": "no requeue needed",
    }[choice.verdict]


def checkpoint(choice: CheckpointChoice) -> str:
    """``step 41500``, a path, or ``the start``; empty if no checkpoint is known."""
    if choice.step is not None:
        return f"step {choice.step}"
    if choice.restore:
        return choice.restore
    return "the start" if choice.rule == "C3" else ""


def requeue_reason(choice: Requeue) -> str:
    """The verdict and its reason: ``exclude gpu-r07-n03: the fault is one GPU``."""
    verdict = {
        "exclude_nodes": f"exclude {listing(choice.exclude, 8) or 'the node at fault'}",
        "same_nodes": "same nodes",
        "fix_first": "fix first",
        "not_needed": "not needed",
    }[choice.verdict]
    return f"{verdict}: {_clause(choice.why)}" if choice.why else verdict


def checkpoint_line(choice: CheckpointChoice) -> str:
    """Everything about the choice in one line, with the rule and its reason."""
    facts = ", ".join([checkpoint(choice) or "none known", *checkpoint_facts(choice)])
    return f"{facts} ({checkpoint_rule(choice)})"


def checkpoint_rule(choice: CheckpointChoice) -> str:
    """``rule C0: newest complete checkpoint``."""
    return f"rule {choice.rule}{': ' + _clause(choice.why) if choice.why else ''}"


def _clause(text: str) -> str:
    """A sentence as part of another one."""
    return text.rstrip().removesuffix(".")


def checkpoint_facts(choice: CheckpointChoice) -> list[str]:
    """Path, time, age and loss of the chosen checkpoint, as far as known."""
    facts = [choice.restore] if choice.restore and choice.restore != checkpoint(choice) else []
    if choice.saved_at:
        facts.append(f"saved {when(choice.saved_at)}")
    if choice.age_s is not None:
        facts.append(f"{duration(choice.age_s)} before the failure")
    if choice.lost_steps is not None:
        facts.append(f"{count(choice.lost_steps, 'step')} lost")
    if choice.lost_gpu_hours:
        facts.append(f"{choice.lost_gpu_hours:g} GPU-hours to do again")
    if choice.pass_as:
        facts.append(f"pass {choice.pass_as}")
    return facts


def job_of(incident: Incident) -> str | None:
    """The job that the incident is about, if any."""
    return incident.culprit.job or next((a.target.job for a in incident.actions if a.target.job), None)


# --- the rest of the report -------------------------------------------------------------------------------------------


def impact_facts(impact: Impact) -> list[tuple[str, str]]:
    """(label, value) of what is known about the cost and the times."""
    facts: list[tuple[str, str]] = []
    if impact.gpus is not None:
        facts.append(("Hit", count(impact.gpus, "GPU")))
    if impact.gpu_hours_lost is not None and round(impact.gpu_hours_lost, 1):
        cost = f", cost {impact.cost:,.2f}" if impact.cost is not None else ""
        facts.append(("Lost", f"{impact.gpu_hours_lost:,.1f} GPU-hours{cost}"))
    if impact.started:
        facts.append(("Began", when(impact.started)))
    noticed = seconds_between(impact.started, impact.detected)
    if impact.detected:
        facts.append(("Noticed", when(impact.detected) if noticed is None else f"after {duration(noticed)}"))
    lasted = seconds_between(impact.started, impact.ended)
    if impact.ended:
        facts.append(("Ended", when(impact.ended) if lasted is None else f"after {duration(lasted)}"))
    return facts


def hypothesis_name(hypothesis: Hypothesis) -> str:
    """``gpu.off_bus: GPU 5 of gpu-r07-n03``."""
    return f"{hypothesis.failure_class}: {culprit_name(hypothesis.culprit)}"


def narrator(told: Narrative) -> str:
    """Who wrote the story and what was taken out of it; empty if the rules wrote it and nothing was."""
    notes = [] if told.by == "rules" else [f"written by {told.by}"]
    if told.unsupported_claims:
        notes.append(f"{count(told.unsupported_claims, 'unsupported claim')} removed")
    return "; ".join([*notes, *([told.note] if told.note else [])])


def place(item: Evidence) -> str:
    """Where a quotation stands: ``source:line``, or the source with the locator (``metrics.json (sample)``)."""
    if item.line is not None or not item.locator:
        return _with_line(item.source, item.line)
    return item.locator if item.source in item.locator else f"{item.source} ({item.locator})"


def problem(item: ProblemItem) -> str:
    """``pods.tar.gz: archive is truncated``, with the line where there is one."""
    return f"{_with_line(item.source, item.line)}: {item.reason}"


def _with_line(source: str, line: int | None) -> str:
    return source if line is None else f"{source}:{line}"


def problems(report: Report) -> str:
    """One line about what could not be read, for the top of the page; empty if all was read."""
    found = [item for item in report.coverage.problems if not item.reason.startswith("the same content as ")]
    if not found:
        return ""
    more = f" (and {count(len(found) - 1, 'more problem')})" if len(found) > 1 else ""
    return f"{problem(found[0])}{more}"


def coverage(read: CoverageReport) -> str:
    """``70 sources, 904.9 MB: 65 training, 2 slurm; 8 nodes; 64 of 64 ranks``."""
    kinds = ", ".join(f"{n:,} {kind}" for kind, n in sorted(read.kinds.items(), key=lambda item: (-item[1], item[0])))
    parts = [
        f"{count(len(read.sources), 'source')}, {size(sum(s.bytes for s in read.sources))}"
        + (f": {kinds}" if kinds else "")
    ]
    if read.nodes:
        parts.append(count(len(read.nodes), "node"))
    if read.world_size:
        seen = "?" if read.ranks_seen is None else f"{read.ranks_seen:,}"
        parts.append(f"{seen} of {count(read.world_size, 'rank')}")
    return "; ".join(parts)
