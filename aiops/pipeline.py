"""The corridor as code: evidence in, one verdict out.

``sources → ingest → detect → correlate → recommend → report``; every surface walks it through here.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from aiops.config import Settings
from aiops.model.case import Case
from aiops.model.report import Report
from aiops.progress import Progress, silent


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

    Raises:
        aiops.errors.InputError: a path is missing or unreadable, or nothing in it can be used.
    """
    from aiops.ingest import open_case

    settings = settings or Settings.from_environment()
    with open_case(paths, settings, progress) as case:
        return analyze(case, settings, progress)
