"""What to do, in order: commands with copy buttons, risk, who must agree, how to undo."""

from __future__ import annotations

import streamlit as st

from aiops.model.report import Action, Incident
from aiops.report import words
from aiops.report.escape import Html, tag
from dashboards.parts.links import refs
from dashboards.parts.phrases import chip, sentence

_RISK_TONE = {"none": "good", "low": "", "medium": "amber", "high": "red"}


def show(incident: Incident) -> None:
    """Draw all actions of an incident."""
    if not incident.actions:
        st.html(tag("p", "No action is proposed.", class_="aiops-muted"))
    for position, item in enumerate(incident.actions, 1):
        with st.container(border=True, key=f"action-{position}" + ("-blocked" if item.blocked_by else "")):
            st.html(head(position, item))
            if item.commands:
                st.code("\n".join(item.commands), language="bash", wrap_lines=True)
            if item.undo:
                with st.expander("Undo"):
                    st.code("\n".join(item.undo), language="bash", wrap_lines=True)


def head(position: int, item: Action) -> Html:
    """Name, chips, reason and what stands in the way of one action."""
    chips = [chip("no risk" if item.risk == "none" else f"{item.risk} risk", _RISK_TONE[item.risk])]
    chips += [chip("needs approval", "amber")] if item.requires_approval else []
    chips += [chip("blocked", "red")] if item.blocked_by else []
    chips += [chip(item.scheduler)] if item.scheduler else []
    reach = words.blast_radius(item.blast_radius)
    reasons = [tag("li", reason) for reason in item.blocked_by]
    return tag(
        "div",
        tag(
            "div",
            tag("span", str(position), class_="nr"),
            tag("div", tag("strong", words.action_name(item)), tag("span", *chips, class_="chips"), class_="name"),
            class_="title",
        ),
        tag("p", item.why, " ", refs(item.evidence)) if item.why or item.evidence else None,
        tag("p", sentence(reach), class_="muted") if reach else None,
        tag("div", tag("b", "Blocked by policy"), tag("ul", *reasons), class_="blocked") if reasons else None,
        class_="aiops-action",
    )
