"""The report as JSON, the contract itself."""

from __future__ import annotations

from aiops.model.report import Report


def render(report: Report, *, indent: bool = False) -> str:
    """One JSON object with a newline at the end, see `Report.to_json`."""
    return report.to_json(indent=indent).decode()
