"""The incident: what, who and what next first; then what to do, what happened, and the proof."""

from __future__ import annotations

import streamlit as st

from aiops.model.report import Incident
from aiops.report import words
from aiops.report.escape import Child, tag
from dashboards import opening, state
from dashboards.charts import lanes, metrics, timeline
from dashboards.parts import actions, coverage, downloads, evidence, hypotheses, story, verdict


def main() -> None:
    item = opening.current()
    if item is None:
        return
    index = choose(item)
    state.show_link(item, index)
    report = item.report
    if not report.incidents:
        st.html(verdict.calm(report))
        heading("What this rests on")
        st.html(coverage.facts(report.coverage))
        show(coverage.gaps(report.coverage))
        downloads.show(item)
        return
    incident = report.incidents[index]
    st.html(verdict.headline(report, incident))
    st.html(verdict.cards(incident))
    left, right = st.columns([7, 5], gap="large")
    with left:
        heading("What to do")
        actions.show(incident)
    with right:
        heading("What happened")
        show(story.narrative(incident))
        show(story.chain(incident))
    show_timeline(incident)
    show_metrics(item, incident)
    heading("Hypotheses")
    st.html(hypotheses.table(incident))
    show_proof(incident)
    gaps = coverage.gaps(report.coverage)
    if gaps:
        heading("What this rests on")
        show(gaps)
    heading("Take it with you")
    downloads.show(item)


def choose(item: state.Opened) -> int:
    """The line that says what is open, with a choice if there are several incidents."""
    incidents = item.report.incidents
    index = state.link_index(item.report)
    st.html(coverage.summary(item.label, item.report.coverage))
    if len(incidents) < 2:
        return index
    names = [
        f"{place} of {len(incidents)}: {incident.title} ({words.class_of(incident)})"
        for place, incident in enumerate(incidents, 1)
    ]
    # A select box shows its options as plain text; titles may quote logs.
    return int(
        st.selectbox(
            "Incident",
            range(len(incidents)),
            index=index,
            format_func=names.__getitem__,
            label_visibility="collapsed",
            key=f"incident-of-{item.key}",
        )
    )


def show_timeline(incident: Incident) -> None:
    heading("Timeline", "UTC; drag to move, shift and wheel to zoom, double click to reset")
    window = st.segmented_control(
        "Window",
        lanes.WINDOWS,
        default=lanes.WINDOWS[0],
        required=True,
        label_visibility="collapsed",
        key="timeline-window",
    )
    drawn = timeline.chart(incident, window)
    if drawn is None:
        st.html(tag("p", "No entry of this timeline has a time.", class_="aiops-muted"))
    else:
        st.altair_chart(drawn, width="stretch", key="timeline")
    without = lanes.undated(incident)
    if without:
        st.html(tag("p", "Without a time: ", "; ".join(without), class_="aiops-muted"))


def show_metrics(item: state.Opened, incident: Incident) -> None:
    panels = metrics.panels(item.report.coverage.series)
    if not panels:
        return
    heading("Metrics", "culprit against its peers")
    st.html(metrics.legend(panels))
    cause = lanes.first_cause_ms(incident)
    with st.container(key="metrics"):
        for start in range(0, len(panels), 2):
            for column, panel in zip(st.columns(2, gap="medium"), panels[start : start + 2], strict=False):
                with column:
                    st.html(metrics.title(panel))
                    st.altair_chart(metrics.chart(panel, cause), width="stretch", key=f"metric-{panel.field}")


def show_proof(incident: Incident) -> None:
    heading("Evidence", f"{words.count(len(incident.evidence), 'quotation')}; a line opens to what stands around it")
    needle = st.text_input(
        "Filter evidence",
        placeholder="Filter by text, source or id",
        label_visibility="collapsed",
        key="evidence-filter",
    )
    st.html(evidence.quotations(evidence.matching(incident, needle)))
    heading("Findings", "what the detectors made of it")
    st.html(evidence.findings(incident.findings))


def heading(title: str, hint: str = "") -> None:
    st.html(tag("h2", title, tag("small", hint) if hint else None, class_="aiops-h2"))


def show(part: Child) -> None:
    if part:
        st.html(part)


main()
