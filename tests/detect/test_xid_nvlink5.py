"""The registers of NVLink5 lines decide where the driver's word is missing; Xid 154 decides above both."""

from __future__ import annotations

from pathlib import Path

import pytest

from aiops.catalog import load_catalog
from aiops.catalog.nvlink5 import decode
from aiops.config import Settings, default_cache_dir
from aiops.detect.xid import detect
from aiops.ingest import open_case
from aiops.model.finding import Role

LINE = "NVRM: Xid (PCI:0000:04:00): {}"


@pytest.mark.parametrize(
    ("text", "fatal", "action"),
    [
        # status of SAW_MVB: 0x2 needs a reset, 0x4 nothing (layout of driver 575 and of older ones)
        ("144, SAW_MVB XC0 i0 Link 00 (0x00000001 0x00000002 0x00000000)", True, "RESET_GPU"),
        ("144, SAW_MVB XC0 i0 Link 00 (0x00000001 0x00000004 0x00000000)", False, "IGNORE"),
        ("144, SAW_MVB XC0 i0 Link 00 (0x00000021 0x00000010 0x00000000)", True, "RESET_GPU"),
        ("145, RLW_REMAP XC0 i0 Link 00 (0x00000004 0x00000040 0x00000000)", True, "RESET_GPU"),
        # bits 20 to 25 of intrInfo tell why a link went down
        ("149, NETIR_LINK_EVT XC0 i0 Link 08 (0x00400011 0x00000000 0x00000000)", True, "RESET_GPU"),
        ("149, NETIR_BER_EVENT XC0 i0 Link 08 (0x00000013 0x00000001 0x00000000)", False, "IGNORE"),
        # unknown registers tell nothing
        ("145, RLW_REMAP XC0 i0 Link 00 (0x00000004 0x0f000000 0x00000000)", None, ""),
        ("146, TLW_CTRL XC0 i0 Link 00", None, ""),
    ],
)
def test_registers_decide_without_the_word(text: str, fatal: bool | None, action: str) -> None:
    error = decode(int(text[:3]), LINE.format(text))
    assert error is not None
    assert (error.fatal, error.action) == (fatal, action)


@pytest.mark.parametrize(
    ("word", "fatal"), [("Fatal", True), ("Nonfatal", False), ("Non-fatal", False), ("Link Fatal", True)]
)
def test_the_drivers_word_decides_where_it_stands(word: str, fatal: bool) -> None:
    error = decode(145, LINE.format(f"145, RLW_REMAP {word} XC0 i0 Link 02 (0x00000004 0x00000040 0x0)"))
    assert error is not None
    assert (error.fatal, error.unit, error.link) == (fatal, "RLW_REMAP", 2)


def test_other_codes_have_no_sub_code() -> None:
    assert decode(79, LINE.format("79, GPU has fallen off the bus. Fatal")) is None


def test_the_sub_code_is_found_behind_process_and_name() -> None:
    error = decode(
        149, LINE.format("149, pid='<unknown>', name=<unknown>, NETIR_LINK_EVT Fatal XC0 i0 Link 08 (0x004505c6 0x0)")
    )
    assert error is not None
    assert (error.unit, error.action, error.remote) == ("NETIR_LINK_EVT", "RESET_GPU", True)


@pytest.mark.parametrize(
    ("messages", "role", "fatal"),
    [
        (["145, RLW_REMAP Nonfatal XC0 i0 Link 00 (0x00000004 0x00000004 0x0)"], Role.CONTEXT, False),
        (
            [
                "145, RLW_REMAP Nonfatal XC0 i0 Link 00 (0x00000004 0x00000004 0x0)",
                "154, GPU recovery action changed from 0x0 (None) to 0x1 (GPU Reset Required)",
            ],
            Role.ROOT,
            True,
        ),
        (
            [
                "145, RLW_REMAP Nonfatal XC0 i0 Link 00 (0x00000004 0x00000004 0x0)",
                "154, GPU recovery action changed from 0x1 (GPU Reset Required) to 0x0 (None)",
            ],
            Role.CONTEXT,
            False,
        ),
        (["149, NETIR_LINK_EVT XC0 i0 Link 08 (0x00400011 0x00000000 0x0)"], Role.ROOT, True),
    ],
)
def test_findings_follow_the_decoded_severity(tmp_path: Path, messages: list[str], role: Role, fatal: bool) -> None:
    text = "".join(f"Aug  1 08:00:{i:02d} n7 kernel: {LINE.format(m)}\n" for i, m in enumerate(messages))
    (tmp_path / "kern.log").write_text(text, encoding="utf-8")
    with open_case([tmp_path], Settings(cache_dir=default_cache_dir())) as case:
        found = next(f for f in detect(case, load_catalog()) if f.fields["xid"] != 154)
    assert (found.role, found.fields["fatal"]) == (role, fatal)
