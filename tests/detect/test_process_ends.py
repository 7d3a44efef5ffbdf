"""An abort by which a process gives up on its peers is no crash of its own."""

from __future__ import annotations

from pathlib import Path

import pytest

from aiops.catalog import load_catalog
from aiops.config import Settings
from aiops.detect.process_ends import detect as process_ends
from aiops.ingest import open_case
from aiops.model.finding import Role

JAX = (
    "2026-08-01 08:21:43.570191: F external/xla/xla/pjrt/distributed/client.h:80] Terminating process because the JAX"
    " distributed service detected fatal errors. This most likely indicates that another task died"
)
ABORT = "Fatal Python error: Aborted"


@pytest.mark.parametrize(
    ("lines", "role"),
    [
        ([JAX, ABORT], Role.ECHO),
        ([ABORT], Role.ROOT),
        ([ABORT, JAX], Role.ROOT),
        ([JAX, "Fatal Python error: Segmentation fault"], Role.ROOT),
    ],
)
def test_abort_after_giving_up_is_an_echo(tmp_path: Path, lines: list[str], role: Role) -> None:
    text = "\n".join(["2026-08-01 08:00:00,000 INFO step 1 loss 2.0", *lines])
    (tmp_path / "out.log").write_text(text + "\n", encoding="utf-8")
    with open_case([tmp_path], Settings()) as case:
        found = process_ends(case, load_catalog())
    assert [f.role for f in found if f.sign == "fw.fatal_signal"] == [role]
