"""How the job ended, as far as anybody says so."""

from __future__ import annotations

from aiops.catalog.model import Catalog
from aiops.detect.evidence import evidence_rows, in_time, quote, quotes, span
from aiops.detect.progress import progress_points
from aiops.model.case import Case
from aiops.model.event import Event, Severity
from aiops.model.finding import EvidenceRef, Finding, Role

_FAILED = (
    "launcher.exit_record",
    "launcher.failed",
    "launcher.child_failed",
    "srun.task_exit",
    "mpirun.exit",
    "launcher.signal",
    "nccl.watchdog_timeout",
    "slurm.step_cancelled",
)


def detect(case: Case, catalog: Catalog) -> list[Finding]:
    """``job.succeeded`` (a success marker that no failure follows, or the last planned step was reached) and
    ``job.died`` (a launcher or the scheduler reports the end of processes; ROOT, since it may be all that is known)."""
    failed = [event for event in evidence_rows(case, *_FAILED) if str(event.fields.get("code", "1")) != "0"]
    success = [event for event in evidence_rows(case, "train.success") if _counts(event)]
    findings = []
    later = [event for event in success if not any(_follows(bad, event) for bad in failed)]
    if later:
        first, last = span(later)
        findings.append(
            Finding(
                sign="job.succeeded",
                text="The run says that it finished",
                role=Role.CONTEXT,
                severity=Severity.INFO,
                first=first,
                last=last,
                count=len(later),
                evidence=quotes(case, later),
            )
        )
    else:
        final = _final_step(case)
        if final is not None and not failed:
            first, last = span([final])
            findings.append(
                Finding(
                    sign="job.succeeded",
                    text="The last planned step was reached",
                    role=Role.CONTEXT,
                    severity=Severity.INFO,
                    first=first,
                    last=last,
                    evidence=[quote(case, final)],
                    fields={"by": "last step"},
                )
            )
    if failed:
        first, last = span(failed)
        findings.append(
            Finding(
                sign="job.died",
                text="Processes of the job ended abnormally",
                role=Role.ROOT,
                severity=Severity.ERROR,
                first=first,
                last=last,
                count=len(failed),
                ranks=tuple(sorted({e.rank for e in failed if e.rank is not None})),
                evidence=quotes(case, failed),
            )
        )
    elif not findings:
        findings += _by_scheduler(case)
    return findings


def _by_scheduler(case: Case) -> list[Finding]:
    """The one job of the case failed, and nothing but its record tells."""
    if len(case.jobs) != 1 or (case.jobs[0].state or "") not in ("FAILED", "Failed"):
        return []
    job = case.jobs[0]
    evidence = []
    if 0 <= job.source < len(case.sources):
        evidence = [EvidenceRef(case.sources[job.source].name, job.line, 0, job.text, job.ended)]
    code = f" with exit code {job.exit_code}" if job.exit_code else ""
    return [
        Finding(
            sign="job.died",
            text=f"The scheduler records that job {job.id} failed{code}",
            role=Role.ROOT,
            severity=Severity.ERROR,
            first=job.ended,
            last=job.ended,
            job=job.id,
            evidence=evidence,
        )
    ]


def _counts(event: Event) -> bool:
    """A rank or the launcher says it; sentences about others (``waiting until training is finished``) do not count."""
    text = event.text.lower()
    return not any(
        word in text
        for word in (
            "not finished",
            "wait",
            "until",
            "before training",
            "if training",
            "when training",
            "after training",
            "not complete",
            "incomplete",
        )
    )


def _follows(bad: Event, good: Event) -> bool:
    """True if ``bad`` comes after ``good``: by place within a file, by time across files."""
    if bad.source == good.source:
        return bad.line > good.line
    return in_time(bad)[:2] > in_time(good)[:2]


def _final_step(case: Case) -> Event | None:
    last: Event | None = None
    for point in progress_points(case):
        if point.step is not None and point.total and point.step >= point.total:
            last = point.event
    return last
