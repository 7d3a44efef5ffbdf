"""Events as flat records, the form in which `aiops scan` prints them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from aiops.model.case import Case
from aiops.model.clock import iso
from aiops.model.entity import canonical_pci
from aiops.model.event import NO_TIME, TimeQuality


def event_records(case: Case) -> Iterator[dict[str, Any]]:
    """All events in the order of their sources: ``ts`` (ISO 8601 UTC or null), ``source``, ``entity``, ``kind``, ``severity``,
    ``fields``, ``locator``, ``text``; ``count`` if a record stands for several lines, ``quoted`` if it is quoted text."""
    for event in case.events:
        fields = dict(event.fields)
        for name in ("xid", "sxid"):
            if str(fields.get(name, "")).isdigit():
                fields[name] = int(fields[name])
        if "pci" in fields:
            fields["pci"] = canonical_pci(str(fields["pci"])) or fields["pci"]
        known = event.ts != NO_TIME and event.quality not in (TimeQuality.NONE, TimeQuality.UPTIME)
        record: dict[str, Any] = {
            "ts": iso(event.ts) if known else None,
            "source": case.sources[event.source].name,
            "entity": _entity(event.node, event.rank, fields),
            "kind": event.signal,
            "severity": event.severity.name.lower(),
            "fields": fields,
            "locator": {"line": event.line, "offset": event.offset},
            "text": event.text,
        }
        if event.count > 1:
            record["count"] = event.count
        if event.quoted:
            record["quoted"] = True
        yield record


def _entity(node: str | None, rank: int | None, fields: dict[str, Any]) -> dict[str, Any]:
    entity: dict[str, Any] = {"kind": "unknown", "node": node, "rank": rank}
    if "pci" in fields and "xid" in fields:
        entity["kind"] = "gpu"
    elif rank is not None:
        entity["kind"] = "rank"
    elif node is not None:
        entity["kind"] = "node"
    return entity
