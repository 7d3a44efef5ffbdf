"""The password in front of every page, if the server was started with one."""

from __future__ import annotations

import hmac
import os

import streamlit as st

from aiops.dashboard import TOKEN_VARIABLE

_PASSED = "aiops_gate_passed"


def passed() -> bool:
    """Whether this session may see the pages; asks for the password if it may not yet."""
    token = os.environ.get(TOKEN_VARIABLE, "")
    if not token or st.session_state.get(_PASSED):
        return True
    with st.form("gate", width=420):
        st.html("<h1 class='aiops-h1'>aiops</h1>")
        entered = st.text_input("Password of this dashboard", type="password")
        sent = st.form_submit_button("Enter", type="primary")
    if sent and hmac.compare_digest(entered.encode(), token.encode()):
        st.session_state[_PASSED] = True
        st.rerun()
    elif sent:
        st.error("This is not the password.")
    return False
