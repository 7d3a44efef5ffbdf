"""The corridor as code: evidence in, one verdict out.

``sources → ingest → detect → correlate → recommend → report``; every surface walks it through here.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from aiops.config import Settings
from aiops.model.case import Case
from aiops.model.report import Report
from aiops.progress import Progress, silent

if TYPE_CHECKING:
    from aiops.ingest.job_logs import JobFiles


def analyze(case: Case, settings: Settings | None = None, progress: Progress = silent) -> Report:
    """Judge a case. Deterministic: the same case gives the same report."""
    from aiops.catalog import load_catalog
    from aiops.correlate import correlate
    from aiops.detect import detect
    from aiops.recommend import recommend
    from aiops.redaction import redact_report
    from aiops.report.build import build_report

    settings = settings or Settings()
    catalog = load_catalog(settings.catalog_dirs, settings.cache_dir)
    progress("detect", 0, 1)
    findings = detect(case, catalog)
    progress("correlate", 0, 1)
    incidents = correlate(case, findings, catalog)
    progress("report", 0, 1)
    plans = [recommend(case, incident, catalog, settings) for incident in incidents]
    report = build_report(case, findings, incidents, plans, settings)
    # once, before anything leaves: every surface shows the same text, and none of them a secret
    return redact_report(report)[0]


def analyze_paths(paths: Sequence[str | Path], settings: Settings | None = None, progress: Progress = silent) -> Report:
    """Read files, directories, archives or ``-`` into a case and judge it.

    The output of several jobs that share no node is several cases: what one of them says must not explain the other, and
    its checkpoint must not be restored there.

    Raises:
        aiops.errors.InputError: a path is missing or unreadable, or nothing in it can be used.
    """
    from aiops.ingest import open_case
    from aiops.ingest.job_logs import files_of_jobs

    settings = settings or Settings.from_environment()
    with open_case(paths, settings, progress) as case:
        jobs = [] if "-" in map(str, paths) else files_of_jobs(case)
        if not jobs:
            return analyze(case, settings, progress)
        return _analyze_jobs(case, jobs, paths, settings, progress)


def _analyze_jobs(
    case: Case, jobs: list[JobFiles], paths: Sequence[str | Path], settings: Settings, progress: Progress
) -> Report:
    from aiops.ingest import open_case
    from aiops.redaction import redact_report
    from aiops.report.coverage import build_coverage
    from aiops.report.merge import merge_reports

    parts = []
    for files in jobs:
        with open_case(
            paths, settings, progress, leave_out=files.others, job=files.job if files.known else None
        ) as part:
            parts.append((files.job, analyze(part, settings, progress)))
    whole = Report(verdict="no_incident", coverage=build_coverage(case, [], []))
    return merge_reports(redact_report(whole)[0].coverage, parts)
