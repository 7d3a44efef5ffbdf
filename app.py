"""Entry point of the dashboard: ``aiops dashboard``, or ``streamlit run app.py`` in a checkout."""

from __future__ import annotations

from pathlib import Path

import streamlit as st

from dashboards import gate, state

HERE = Path(__file__).resolve().parent / "dashboards"

st.set_page_config(page_title="aiops", page_icon=str(HERE / "assets" / "mark.svg"), layout="wide")
st.html(HERE / "assets" / "style.css")

if gate.passed():
    page = st.navigation(
        [
            st.Page(state.OPEN_PAGE, title="Open", default=True),
            st.Page(state.INCIDENT_PAGE, title="Incident"),
            st.Page(state.COVERAGE_PAGE, title="Coverage"),
        ],
        position="top",
    )
    page.run()
