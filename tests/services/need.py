"""Programs that tests of real servers need: skip where they are missing, fail where skipping is forbidden."""

from __future__ import annotations

import os
import shutil
from typing import NoReturn

import pytest


def need(program: str, *alternatives: str) -> str:
    """Path of the program (or of the first alternative found).

    Skips the test if there is none, or fails it when ``AIOPS_TEST_NO_SKIP=1``.
    """
    for name in (program, *alternatives):
        path = shutil.which(name)
        if path:
            return path
    _missing(f"needs the program {program!r}, which is not installed")


def need_root() -> None:
    """Skip or fail, as `need` does, where the test does not run as root."""
    if os.geteuid():
        _missing("needs root")


def _missing(reason: str) -> NoReturn:
    if os.environ.get("AIOPS_TEST_NO_SKIP") == "1":
        pytest.fail(reason)
    pytest.skip(reason)


def need_kubernetes() -> None:
    """The programs of a control plane.

    Where skipping is forbidden they are built (minutes), else the test skips and says how to build them.
    """
    from services.kubernetes.programs import PACKAGES, BuildError, are_built, build

    need("openssl")
    need("go")
    if all(map(are_built, PACKAGES)):
        return
    if os.environ.get("AIOPS_TEST_NO_SKIP") != "1":
        pytest.skip("needs the control plane's programs: build them once with make control-plane")
    try:
        for module in PACKAGES:
            build(module)
    except BuildError as error:
        pytest.fail(str(error))
