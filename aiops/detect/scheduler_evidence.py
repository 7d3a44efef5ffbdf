"""Quotations that prove what an object, an event or a job record says, at the line where it says so."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from aiops.ingest.kubernetes_events import KubernetesEvent
from aiops.model.case import Case, KubernetesObject
from aiops.model.event import NO_TIME
from aiops.model.finding import EvidenceRef

_LARGEST = 64 << 20
_SPAN = 4_000
"""Lines of an object that are searched for the place."""
_TEXT_LIMIT = 600
_ABOVE = 25
"""Lines above the name of an event that may hold its message: the API server sorts keys, and ``metadata`` comes late."""


class Quotes:
    """Finds lines in the case's sources; each source is read once, and only if it is quoted."""

    def __init__(self, case: Case) -> None:
        self._case = case
        self._data: dict[int, tuple[bytes, list[int]]] = {}

    def object(self, item: KubernetesObject, said: str, ts: int = NO_TIME, *needles: str) -> EvidenceRef:
        """What an object says. ``needles`` are texts near the place, most telling first."""
        where = f"{item.namespace}/{item.name}" if item.namespace else item.name
        line, offset = self._place(item.source, item.line, needles)
        return self.ref(item.source, line, offset, f"{item.kind} {where}: {said}", ts)

    def event(self, item: KubernetesObject, event: KubernetesEvent) -> EvidenceRef:
        """What an event says, at its message."""
        if self._case.sources[item.source].format.startswith("kubectl"):
            # A row that people read is quoted as it stands.
            data, starts = self._load(item.source)
            if 0 < item.line <= len(starts):
                begin = starts[item.line - 1]
                end = starts[item.line] if item.line < len(starts) else len(data)
                return self.ref(item.source, item.line, begin, data[begin:end].decode("utf-8", "replace"), event.last)
        line, offset = self._place(item.source, item.line, (event.message, event.reason), above=_ABOVE)
        return self.ref(item.source, line, offset, event.line, event.last)

    def row(self, source: int, line: int, text: str, ts: int = NO_TIME) -> EvidenceRef:
        """A row of a table or a record of a text."""
        return self.ref(source, line, self._offset(source, line), text, ts)

    def ref(self, source: int, line: int, offset: int, text: str, ts: int) -> EvidenceRef:
        flat = " ".join(text.split())
        flat = flat if len(flat) <= _TEXT_LIMIT else flat[: _TEXT_LIMIT - 1] + "…"
        return EvidenceRef(self._case.sources[source].name, line, offset, flat, ts)

    def _load(self, source: int) -> tuple[bytes, list[int]]:
        found = self._data.get(source)
        if found is None:
            try:
                data = self._case.read(source, 0, _LARGEST) if self._case.sources[source].size <= _LARGEST else b""
            except OSError:
                data = b""  # The file went away: the object's own line has to do.
            starts = [0, *(match.end() for match in re.finditer(rb"\n", data))]
            found = self._data[source] = (data, starts)
        return found

    def _offset(self, source: int, line: int) -> int:
        _, starts = self._load(source)
        return starts[line - 1] if 0 < line <= len(starts) else 0

    def _place(self, source: int, line: int, needles: tuple[str, ...], above: int = 0) -> tuple[int, int]:
        """(line, offset) of the first needle that is found from ``line`` on, or nearer in the ``above`` lines before it;
        else of ``line`` itself."""
        data, starts = self._load(source)
        if not 0 < line <= len(starts):
            return line, 0
        begin = starts[line - 1]
        end = starts[line + _SPAN] if line + _SPAN < len(starts) else len(data)
        for needle in needles:
            # Quotes are written in different ways in JSON and YAML, so only the text before the first one counts.
            plain = re.split(r"[\"'\\\n]", needle, maxsplit=1)[0].strip()[:60]
            at = data.find(plain.encode(), begin, end) if len(plain) > 2 else -1
            found = line + data.count(b"\n", begin, at) if at >= 0 else 0
            back = (
                data.rfind(plain.encode(), starts[max(0, line - 1 - above)], begin) if above and len(plain) > 2 else -1
            )
            if back >= 0:
                before = line - 1 - data.count(b"\n", back, begin - 1)
                found = before if not found or line - before < found - line else found
            if found:
                return found, starts[found - 1]
        return line, begin


def condition_text(condition: Mapping[str, Any]) -> str:
    """``QuotaReserved=False WaitingForQuota: message`` of a condition."""
    head = f"{condition.get('type', '')}={condition.get('status', '')} {condition.get('reason') or ''}".strip()
    message = condition.get("message")
    return f"{head}: {message}" if message else head
