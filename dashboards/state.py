"""What one browser session has open. The address bar carries enough to open a bundled incident again."""

from __future__ import annotations

from dataclasses import dataclass

import streamlit as st

from aiops.model.report import Incident, Report

_OPEN = "aiops_open"

OPEN_PAGE = "dashboards/pages/open.py"
INCIDENT_PAGE = "dashboards/pages/incident.py"
COVERAGE_PAGE = "dashboards/pages/coverage.py"


@dataclass(frozen=True, slots=True)
class Opened:
    """A report and where it came from."""

    key: str
    """What a link says after ``incident=``; ``upload`` cannot be opened again from a link."""
    label: str
    """Name for people: may be the name of an uploaded file, so it is plain text."""
    report: Report


def opened() -> Opened | None:
    """The report that this session looks at."""
    value = st.session_state.get(_OPEN)
    return value if isinstance(value, Opened) else None


def remember(item: Opened) -> None:
    st.session_state[_OPEN] = item


def link_key() -> str | None:
    """The incident that the address bar asks for."""
    key = st.query_params.get("incident")
    return None if key is None else str(key)


def link_index(report: Report) -> int:
    """Which incident of the report the address bar asks for; the first if it asks for none that exists."""
    text = str(st.query_params.get("i", "0"))
    index = int(text) if text.isascii() and text.isdigit() and len(text) < 6 else 0
    return index if index < len(report.incidents) else 0


def link(item: Opened, index: int = 0) -> dict[str, str]:
    """Query parameters of an incident."""
    return {"incident": item.key, "i": str(index)}


def show_link(item: Opened, index: int) -> None:
    """Make the address bar say what is on the screen."""
    wanted = link(item, index)
    if {name: st.query_params.get(name) for name in wanted} != wanted:
        st.query_params.from_dict(wanted)


def selected(item: Opened) -> tuple[int, Incident | None]:
    """Index and incident on the screen, ``(0, None)`` if the report has none."""
    index = link_index(item.report)
    return index, item.report.incidents[index] if item.report.incidents else None
