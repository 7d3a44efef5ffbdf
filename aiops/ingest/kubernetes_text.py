"""What ``kubectl`` prints for people: tables and descriptions, one after the other, perhaps with the commands between."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from aiops.ingest.kubernetes_describe import described_objects, is_described, starts_description
from aiops.ingest.kubernetes_tables import TableReader, header_of, is_prompt


def sniff_kubectl(head: str) -> str | None:
    """``kubectl-table`` or ``kubectl-describe`` if the text begins with one, perhaps below the command that printed it."""
    lines = head.splitlines(keepends=True)
    for number, line in enumerate(lines[:8]):
        if not line.strip() or is_prompt(line):
            continue
        if header_of(line.rstrip("\r\n")) is not None:
            return "kubectl-table"
        return "kubectl-describe" if is_described("".join(lines[number:])) else None
    return None


def text_objects(text: str) -> Iterator[tuple[dict[str, Any], int]]:
    """(object, line) of all tables and descriptions."""
    table = TableReader()
    described: list[tuple[int, str]] = []
    for number, line in enumerate(text.splitlines(), 1):
        begins = starts_description(line)
        if described and (begins or is_prompt(line) or header_of(line) is not None):
            yield from described_objects(described)
            described = []
        if begins or described:
            described.append((number, line))
        elif not line.strip() or is_prompt(line):
            table.close()
        elif (body := table.read(line)) is not None:
            yield body, number
    if described:
        yield from described_objects(described)
