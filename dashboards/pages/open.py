"""Start page: drop what was collected, or open an incident that comes with the product."""

from __future__ import annotations

import streamlit as st

from aiops.report.escape import tag
from dashboards import analysis, bundles, opening, state

asked = state.link_key()
if asked is not None:
    # A link names an incident, whatever page it was copied from.
    st.switch_page(state.INCIDENT_PAGE, query_params={"incident": asked, "i": str(st.query_params.get("i", "0"))})

st.html(
    tag(
        "div",
        tag("h1", "What happened to the job?"),
        tag(
            "p",
            "Drop what was collected: kernel logs, rank logs, sacct output, Kubernetes objects, metrics, "
            "or an archive of all of it. File names do not matter.",
        ),
        class_="aiops-intro",
    )
)

kind = st.segmented_control(
    "What to drop",
    ["Files or an archive", "A folder", "Pasted lines"],
    required=True,
    default="Files or an archive",
    label_visibility="collapsed",
    key="upload-kind",
)
with st.form("upload", border=False):
    uploads = []
    pasted = ""
    if kind == "Pasted lines":
        pasted = st.text_area(
            "Log lines", height=180, placeholder="dmesg, a rank's last lines, a pod's events", key="pasted"
        )
    else:
        uploads = st.file_uploader(
            "Evidence",
            key=f"uploads-{kind}",
            label_visibility="collapsed",
            accept_multiple_files="directory" if kind == "A folder" else True,
        )
    sent = st.form_submit_button("Analyse", type="primary")

if sent:
    found = opening.pasted(pasted) if pasted.strip() else opening.uploaded(uploads) if uploads else None
    if found:
        state.remember(found)
        st.switch_page(state.INCIDENT_PAGE, query_params=state.link(found))
    elif not uploads and not pasted.strip():
        analysis.show_problem("Nothing to analyse yet", "Choose files, or paste lines, first.")

on_this_machine = bundles.given()
examples = bundles.bundled()
for title, offered in (("On this machine", on_this_machine), ("Incidents to try", examples)):
    if not offered:
        continue
    st.html(tag("h2", title, class_="aiops-h2"))
    with st.container(key="offers-" + title.split()[-1].lower()):
        for bundle in offered.values():
            with st.container(horizontal=True, vertical_alignment="center", key=f"offer-{bundle.key}"):
                st.html(tag("div", tag("b", bundle.title), tag("p", bundle.story), class_="aiops-offer"))
                if st.button("Open", key=f"open-{bundle.key}"):
                    st.switch_page(state.INCIDENT_PAGE, query_params={"incident": bundle.key, "i": "0"})
