"""One report of several jobs that were collected together, each judged by itself."""

from __future__ import annotations

from aiops.model import report as r

_RANK = {"incident": 0, "inconclusive": 1, "no_incident": 2}


def merge_reports(coverage: r.CoverageReport, parts: list[tuple[str, r.Report]]) -> r.Report:
    """``parts`` are (job, report); ``coverage`` is that of everything that was read.

    The surest incident comes first. An incident that several jobs meet stands once for each of them, since each must be
    requeued; a further incident of a machine that no job met stands once.
    """
    parts = sorted(parts, key=lambda part: (_RANK[part[1].verdict], -_confidence(part[1]), part[0]))
    merged = r.Report(verdict=parts[0][1].verdict, coverage=coverage)
    seen: set[tuple[str, str | None, str | None]] = set()
    for _, report in parts:
        for number, incident in enumerate(report.incidents):
            key = (incident.failure_class, incident.culprit.node, incident.culprit.pci)
            if number == 0 or key not in seen:
                merged.incidents.append(incident)
            seen.add(key)
    jobs = [job for job, _ in parts]
    told = [f"the logs are of {len(jobs)} runs that share no node ({', '.join(jobs)}): each is judged by itself"]
    for job, report in parts:
        told += [f"{job}: {note}" for note in report.coverage.notes if note not in coverage.notes]
        coverage.series += [curve for curve in report.coverage.series if curve not in coverage.series]
    coverage.notes = [*told, *coverage.notes]
    merged.summary = "; ".join(f"{job}: {report.summary}" for job, report in parts)
    return merged


def _confidence(report: r.Report) -> float:
    return report.incidents[0].confidence if report.incidents else 0.0
