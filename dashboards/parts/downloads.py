"""The report as files, made by the same renderers as on the command line."""

from __future__ import annotations

import re
from functools import partial

import streamlit as st

from aiops.report import renderer
from dashboards.state import Opened

FILES = (
    ("JSON", "json", "json", "application/json"),
    ("Markdown", "md", "md", "text/markdown"),
    ("HTML", "html", "html", "text/html"),
)
"""Label, renderer, suffix, media type."""


def show(item: Opened) -> None:
    """Draw one button per format."""
    with st.container(horizontal=True, key="downloads"):
        for label, name, suffix, mime in FILES:
            # A callable: most readers download nothing, so nothing is rendered until they do.
            st.download_button(
                label,
                partial(render, item, name),
                file_name=file_name(item.key, suffix),
                mime=mime,
                key=f"download-{name}",
                on_click="ignore",
                icon=":material/download:",
            )


def render(item: Opened, name: str) -> bytes:
    """The whole report in one format, UTF-8."""
    return renderer(name)(item.report).encode()


def file_name(key: str, suffix: str) -> str:
    """A name that is safe on any system."""
    return f"aiops-{re.sub('[^A-Za-z0-9-]+', '-', key).strip('-') or 'report'}.{suffix}"
