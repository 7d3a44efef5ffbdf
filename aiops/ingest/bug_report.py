"""``nvidia-bug-report.log``: one file of many tools' output; only what comes from the kernel and the journal is a log."""

from __future__ import annotations

import re
from pathlib import Path

_HEAD = b"Start of NVIDIA bug report log file"
_RULE = re.compile(rb"_{20,}\s*$")
_LOG = re.compile(rb"dmesg|journalctl|/var/log/(?:messages|syslog|kern|dmesg)|kernel log|fabricmanager|nvswitch", re.I)


def is_bug_report(head: bytes) -> bool:
    """True if a file is the report of NVIDIA's script."""
    return _HEAD in head[:4096]


def keep_logs(path: Path, target: Path) -> tuple[int, int]:
    """Copy the report with all sections that are no log blanked, so that lines and offsets stay; (sections, kept ones).

    A section begins with a rule of underscores, an empty line and its heading (``*** /path`` or the command).
    """
    sections = kept = 0
    keep = False
    expect = False
    with open(path, "rb") as source, open(target, "wb") as out:
        while line := source.readline(1 << 20):
            if _RULE.match(line):
                keep, expect = False, True
            elif expect and line.strip():
                sections += 1
                keep = _LOG.search(line) is not None
                kept += keep
                expect = False
            elif line.startswith(b"*** "):
                keep = _LOG.search(line) is not None
                kept += keep
                sections += 1
            out.write(line if keep else b" " * (len(line) - 1) + line[-1:] if line[-1:] == b"\n" else b" " * len(line))
    return sections, kept
