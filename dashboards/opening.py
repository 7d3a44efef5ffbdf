"""The ways in: a bundle on this machine, an upload, pasted lines, a report that was saved before."""

from __future__ import annotations

import io
from collections.abc import Sequence

import streamlit as st
from pydantic import ValidationError

from aiops.errors import AiopsError
from aiops.model.report import SCHEMA_ID, Report
from aiops.report import words
from dashboards import analysis, bundles, state, uploads
from dashboards.bundles import Bundle
from dashboards.state import Opened

UPLOAD_KEY = "upload"
_SCHEMA_WITHIN_BYTES = 200
_REPORT_MAX_BYTES = 64 << 20


def current() -> Opened | None:
    """What the address bar asks for, analysed if need be; else what the session has open.

    ``None`` after a message on the screen if there is nothing to show.
    """
    item, key = state.opened(), state.link_key()
    if item is not None and key in (None, item.key):
        return item
    if key is None:
        analysis.show_problem("Nothing is open", "Drop a bundle or choose a bundled incident first.")
    elif key == UPLOAD_KEY:
        analysis.show_problem(
            "This upload is gone", "Uploads live only in the browser session that sent them. Drop it again."
        )
    elif (chosen := bundles.find(key)) is None:
        analysis.show_problem("This link leads nowhere", f"There is no incident named {key!r} here.")
    elif (found := bundle(chosen)) is not None:
        state.remember(found)
        st.rerun()
    if st.button("Open something else", type="primary"):
        st.switch_page(state.OPEN_PAGE)
    return None


def bundle(chosen: Bundle) -> Opened | None:
    """Analyse a bundle on this machine, with the progress on the screen; ``None`` after a message if it fails."""
    report = analysis.run(chosen.title, [chosen.path])
    return None if report is None else Opened(chosen.key, chosen.title, report)


def uploaded(files: Sequence[uploads.Upload]) -> Opened | None:
    """Analyse uploaded files, or open an uploaded report; ``None`` after a message if it fails."""
    label = files[0].name if len(files) == 1 else words.count(len(files), "uploaded file")
    if len(files) == 1 and (saved := saved_report(files[0])) is not None:
        return Opened(UPLOAD_KEY, label, saved)
    try:
        with uploads.stored(files) as (root, stored):
            report = analysis.run(label, uploads.entry_points(root, stored), hide=root)
    except AiopsError as error:
        analysis.show_problem("This upload cannot be kept", str(error))
        return None
    return None if report is None else Opened(UPLOAD_KEY, label, report)


def pasted(text: str) -> Opened | None:
    """Analyse lines from the clipboard."""
    file = io.BytesIO(text.encode())
    file.name = "pasted.log"
    return uploaded([file])


def saved_report(file: uploads.Upload) -> Report | None:
    """The report in ``aiops analyze --format json`` output, ``None`` if the file is something else.

    Leaves the file at its beginning.
    """
    start = file.read(_SCHEMA_WITHIN_BYTES)
    file.seek(0)
    if SCHEMA_ID.encode() not in start:
        return None
    data = file.read(_REPORT_MAX_BYTES + 1)
    file.seek(0)
    try:
        return Report.from_json(data) if len(data) <= _REPORT_MAX_BYTES else None
    except ValidationError:
        return None
