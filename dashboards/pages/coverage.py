"""What was read of the open case, what could not be, and what nobody collected."""

from __future__ import annotations

import streamlit as st

from aiops.report.escape import tag
from dashboards import opening, state
from dashboards.parts import coverage

item = opening.current()
if item is not None:
    state.show_link(item, state.link_index(item.report))
    read = item.report.coverage
    st.html(coverage.summary(item.label, read))
    st.html(coverage.facts(read))
    gaps = coverage.gaps(read)
    if gaps:
        st.html(gaps)
    if read.jobs:
        st.html(tag("h2", "Jobs", class_="aiops-h2"))
        st.html(coverage.jobs(read.jobs))
    st.html(tag("h2", "Sources", class_="aiops-h2"))
    needle = st.text_input(
        "Filter sources", placeholder="Filter by name, kind or node", label_visibility="collapsed", key="source-filter"
    )
    st.html(coverage.sources(read.sources, needle))
