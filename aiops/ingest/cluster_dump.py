"""``kubectl cluster-info dump`` on standard output: lists of objects, and between them the logs of all containers."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from aiops.ingest.spool import Spool

_LIST = re.compile(rb'"kind": "[A-Za-z]+List"')
_START = re.compile(rb"==== START logs for container ([\w.-]{1,253}) of pod ([\w.-]{1,253})/([\w.-]{1,253}) ====\s*$")
_END = b"==== END logs for container "
_LINE = 1 << 20


def with_logs(plain: list[tuple[str, Path]], spool: Spool) -> Iterator[tuple[str, Path]]:
    """The files, and behind each dump the logs in it: ``dump.txt!namespace/pod/container.log``."""
    for name, path in plain:
        yield name, path
        try:
            with open(path, "rb") as handle:
                head = handle.read(4096)
                if head.lstrip()[:1] != b"{" or not _LIST.search(head):
                    continue
                handle.seek(0)
                for part, log in _logs(handle, spool):
                    yield f"{name}!{part}", log
        except OSError:
            continue  # Whoever reads the file itself says what is wrong with it.


def _logs(handle: BinaryIO, spool: Spool) -> Iterator[tuple[str, Path]]:
    while line := handle.readline(_LINE):
        if not (line.startswith(b"====") and (start := _START.match(line))):
            continue
        container, namespace, pod = (part.decode() for part in start.groups())
        target, size = spool.new_file(), 0
        with open(target, "wb") as out:
            while (line := handle.readline(_LINE)) and not line.startswith(_END):
                if not spool.reserve(len(line)):
                    return
                size += out.write(line)
        if size:
            yield f"{namespace}/{pod}/{container}.log", target
