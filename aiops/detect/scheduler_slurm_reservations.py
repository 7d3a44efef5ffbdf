"""Maintenance reservations of Slurm, and the jobs that wait until one is over."""

from __future__ import annotations

from collections.abc import Mapping

from aiops.detect.scheduler_evidence import Quotes
from aiops.detect.scheduler_findings import Group, listing
from aiops.detect.scheduler_slurm_places import NodeState, nodes_of_choice, waits_for_nodes
from aiops.ingest.slurm import RESERVATION_SIGNAL
from aiops.model.case import Case, Job
from aiops.model.event import Event, Severity
from aiops.model.finding import Finding, Role


def detect_reservations(case: Case, quotes: Quotes, nodes: Mapping[str, NodeState]) -> list[Finding]:
    """``sched.maintenance`` for each reservation with the flag ``MAINT``.

    It is a cause (ROOT) while it is active on nodes of a job, and for a job that waits for its nodes; else CONTEXT.
    """
    findings = []
    waiting = [job for job in case.jobs if job.state == "PENDING" and waits_for_nodes(job, nodes)]
    for row in case.events.by_signal().get(RESERVATION_SIGNAL, ()):
        event = case.events[row]
        if "MAINT" not in event.fields["flags"]:
            continue
        held = set(event.fields["nodes"])
        kept = [job for job in waiting if held & set(nodes_of_choice(job, nodes))]
        used = not case.jobs or any(held & {*job.nodes} for job in case.jobs)
        findings.append(_finding(event, kept, used, quotes))
    return findings


def _finding(event: Event, kept: list[Job], used: bool, quotes: Quotes) -> Finding:
    name, held = event.fields["name"], event.fields["nodes"]
    matters = bool(kept) or (used and event.fields["state"] == "ACTIVE")
    group = Group(
        "sched.maintenance",
        job=kept[0].id if len(kept) == 1 else None,
        role=Role.ROOT if matters else Role.CONTEXT,
        severity=Severity.WARNING if matters else Severity.INFO,
        name=name,
        fields={"reservation": name, "state": event.fields["state"]},
    )
    group.nodes.update(dict.fromkeys(held))
    group.note(quotes.row(event.source, event.line, event.text, event.ts), ts=event.ts)
    who = f"; {listing([f'job {job.id}' for job in kept])} waits for them" if kept else ""
    return group.finding(f"Maintenance reservation {name} holds {listing(held)}{who}")
