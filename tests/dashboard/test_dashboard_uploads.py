"""What a browser sends must not choose where it is written."""

from __future__ import annotations

import io
import os
import stat
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aiops.errors import InputError
from dashboards import uploads


def named(name: str, content: bytes = b"x") -> io.BytesIO:
    file = io.BytesIO(content)
    file.name = name
    return file


@pytest.mark.parametrize(
    "name, parts",
    [
        ("kern.log", ["kern.log"]),
        ("../../etc/cron.d/x", ["etc", "cron.d", "x"]),
        ("/etc/passwd", ["etc", "passwd"]),
        ("..\\..\\boot.ini", ["boot.ini"]),
        ("node1;reboot.log", ["node1_reboot.log"]),
        ("<script>alert(1)</script>.log", ["_script_alert_1_", "script_.log"]),
        ("-rf", ["rf"]),
        (".bashrc", ["bashrc"]),
        ("..", ["unnamed"]),
        ("", ["unnamed"]),
        ("a\x00b\x1b[2J.log", ["a_b_2J.log"]),
    ],
)
def test_names_are_made_harmless(name: str, parts: list[str]) -> None:
    assert [part.lstrip("_") for part in uploads.safe_parts(name)] == [part.lstrip("_") for part in parts]


@given(st.text(max_size=400))
def test_no_name_leaves_the_directory(name: str) -> None:
    root = Path("/srv/room")
    path = Path(os.path.normpath(root.joinpath(*uploads.safe_parts(name))))
    assert root in path.parents
    assert all(len(part.encode()) <= 100 and part.isprintable() for part in path.parts)


def test_files_are_private_and_gone_afterwards() -> None:
    with uploads.stored([named("logs/rank0.log", b"a"), named("logs/rank0.log", b"b")]) as (root, files):
        assert [file.read_bytes() for file in files] == [b"a", b"b"], "equal names must not overwrite each other"
        assert stat.S_IMODE(root.stat().st_mode) == 0o700
        assert {stat.S_IMODE(file.stat().st_mode) for file in files} == {0o600}
        assert uploads.entry_points(root, files) == [root]
        assert uploads.entry_points(root, files[:1]) == files[:1]
    assert not root.exists()


def test_files_are_gone_after_an_error() -> None:
    with pytest.raises(RuntimeError), uploads.stored([named("a.log")]) as (root, _):
        raise RuntimeError
    assert not root.exists()


def test_a_full_disk_is_a_message() -> None:
    class Full(io.BytesIO):
        name = "a.log"

        def read(self, size: int | None = -1, /) -> bytes:
            raise OSError(28, os.strerror(28))

    with pytest.raises(InputError, match="No space left"), uploads.stored([Full()]):
        pass
