"""Files of our own that stand in a case directory and are no evidence."""

from __future__ import annotations


def sniff_manifest(head: bytes) -> str | None:
    """``collected`` for the manifest of `aiops collect`, ``report`` for a saved report, else ``None``."""
    start = head[:400].lstrip()
    if not start.startswith(b"{"):
        return None
    if b'"aiops.report/' in start:
        return "report"
    if b'"aiops.collected/' in start:
        return "collected"
    return None
