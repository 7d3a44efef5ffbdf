"""The host that a log without host names is from."""

from __future__ import annotations

from pathlib import Path

from aiops.config import Settings
from aiops.ingest import open_case

PANIC = "[712044.201101] Kernel panic - not syncing: Fatal exception\n[712044.201155] Kernel Offset: 0x2a000000 from 0xffffffff81000000"


def test_serial_console_is_of_the_host_in_its_login_prompt(tmp_path: Path) -> None:
    (tmp_path / "ttyS0.log").write_text(
        f"[    0.000000] Linux version 5.14.0 (mockbuild)\n\nn7 login: [712044.120331] BUG: kernel NULL pointer dereference\n{PANIC}\n",
        encoding="utf-8",
    )
    with open_case([tmp_path], Settings()) as case:
        assert [source.node for source in case.sources] == ["n7"]


def test_name_of_a_console_log(tmp_path: Path) -> None:
    (tmp_path / "gpu7.console.log").write_text(
        f"[    0.000000] Linux version 5.14.0 (mockbuild)\n{PANIC}\n", encoding="utf-8"
    )
    with open_case([tmp_path], Settings()) as case:
        assert [source.node for source in case.sources] == ["gpu7"]


def test_process_of_jax_is_the_rank_of_its_log(tmp_path: Path) -> None:
    (tmp_path / "a.log").write_text(
        "I0503 01:00:00.000001 1 main.py:61] JAX process: 2 / 4\nI0503 01:00:01.000001 1 main.py:62] step 1 loss 2.0\n",
        encoding="utf-8",
    )
    with open_case([tmp_path], Settings()) as case:
        assert [source.rank for source in case.sources] == [2]
