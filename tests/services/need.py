"""Programs that tests of real servers need: skip where they are missing, fail where skipping is forbidden."""

from __future__ import annotations

import os
import shutil

import pytest


def need(program: str, *alternatives: str) -> str:
    """Path of the program (or of the first alternative found).

    Skips the test if there is none, or fails it when ``AIOPS_TEST_NO_SKIP=1``.
    """
    for name in (program, *alternatives):
        path = shutil.which(name)
        if path:
            return path
    reason = f"needs the program {program!r}, which is not installed"
    if os.environ.get("AIOPS_TEST_NO_SKIP") == "1":
        pytest.fail(reason)
    pytest.skip(reason)
