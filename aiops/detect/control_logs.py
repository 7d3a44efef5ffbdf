"""Messages of controllers and node agents in plain text: which of them can be about the job of the case."""

from __future__ import annotations

import re

from aiops.catalog.model import Catalog
from aiops.detect.evidence import evidence_rows, in_time, job_of, known
from aiops.detect.signals import finding_of
from aiops.model.case import Case
from aiops.model.event import Event, Severity
from aiops.model.finding import Finding, Role

# A submission that slurmctld refused became no job, so it is about none that is on record.
_REFUSED = re.compile(r"\] (?:error: )?_slurm_rpc_(?:submit_batch_job|allocate_resources): ")
_MARGIN_NS = 120 * 1_000_000_000


def detect(case: Case, catalog: Catalog) -> list[Finding]:
    """One finding for each job and signal whose detector is ``control_logs`` (before the start) or ``control_stops`` (an end).

    A job that trained has been admitted, placed, pulled and started, so that such messages in another file are about
    other workloads (CONTEXT). A message that something was stopped is about others if the job trained on after it.
    """
    rows = case.events.by_signal()
    findings = []
    trained = evidence_rows(case, "train.progress", "train.step")
    sources = {event.source for event in trained}
    last = max((event.ts for event in trained if known(event)), default=0)
    for signal in catalog.signals:
        if signal.detector not in ("control_logs", "control_stops") or signal.id not in rows:
            continue
        events = sorted((case.events[row] for row in rows[signal.id] if not case.events[row].quoted), key=in_time)
        if not events:
            continue
        about_others = (
            trained and all(event.source not in sources for event in events)
            if signal.detector == "control_logs"
            else bool(last) and all(_before(event, last) for event in events)
        )
        by_job: dict[str | None, list[Event]] = {}
        for event in events:
            by_job.setdefault(job_of(event), []).append(event)
        for job, of_job in by_job.items():
            finding = finding_of(case, signal, of_job)
            refused = job is None and bool(case.jobs) and all(_REFUSED.search(event.text) for event in of_job)
            if about_others or refused:
                finding.role, finding.severity = Role.CONTEXT, Severity.INFO
            findings.append(finding)
    return findings


def _before(event: Event, last: int) -> bool:
    return known(event) and event.ts + _MARGIN_NS < last
