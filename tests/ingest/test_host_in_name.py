"""The name of a file as the only hint at the host of a plain ``dmesg``."""

from __future__ import annotations

import pytest

from aiops.ingest.describe import host_in_name


@pytest.mark.parametrize(
    ("name", "host"),
    [
        ("dmesg-n1.txt", "n1"),
        ("kern-gpu07.log", "gpu07"),
        ("case/journal-dgx-r3-n07.txt", "dgx-r3-n07"),
        ("gpu07-dmesg", "gpu07"),
        ("gpu07.dmesg", "gpu07"),
        ("gpu07/dmesg.txt", "gpu07"),
        ("node-07.log", "node-07"),
        ("host-3/kern.log", "host-3"),
        ("dmesg-2026-05-01.txt", None),
        ("messages-20260501", None),
        ("dmesg.txt", None),
        ("a1.log", None),
    ],
)
def test_what_the_file_is_does_not_become_part_of_the_host(name: str, host: str | None) -> None:
    assert host_in_name(name) == host
