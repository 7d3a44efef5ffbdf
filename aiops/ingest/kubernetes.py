"""Kubernetes objects and events from files: dumps, watch streams, exports, ``kubectl`` tables and descriptions.

Every object is kept in `Case.objects`; events also become rows ``k8s.event`` of the event table, nodes and pods fill
the topology, and workload objects become jobs.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

import orjson

from aiops.ingest.kubernetes_documents import plain_text, read_documents
from aiops.ingest.kubernetes_events import append_event, is_event
from aiops.ingest.kubernetes_fields import mapping, text
from aiops.ingest.kubernetes_text import sniff_kubectl, text_objects
from aiops.ingest.kubernetes_topology import Placement
from aiops.model.case import Case, KubernetesObject, Problem, Source

_JSON = re.compile(rb'"apiVersion"\s*:\s*"[\w./-]{1,100}"|"kind"\s*:\s*"[A-Z][A-Za-z]*List"')
_JSON_KIND = re.compile(rb'"kind"\s*:\s*"[A-Z][A-Za-z0-9]*"')
_JSON_EVENT = re.compile(rb'"(?:involvedObject|regarding)"\s*:\s*\{')
_WATCH = re.compile(rb'^\s*\{\s*"type"\s*:\s*"(?:ADDED|MODIFIED|DELETED|BOOKMARK|ERROR)"\s*,\s*"object"')
_AUDIT = re.compile(rb'"apiVersion"\s*:\s*"audit\.k8s\.io/')
_YAML = re.compile(rb"^(?:- )?apiVersion:[ \t]*['\"]?[\w./-]{1,100}['\"]?[ \t]*\r?$", re.MULTILINE)
_YAML_KIND = re.compile(rb"^ *(?:- )?kind:[ \t]*['\"]?[A-Z][A-Za-z0-9]*['\"]?[ \t]*\r?$", re.MULTILINE)
_YAML_FIRST = re.compile(rb"\s*(?:(?:#[^\n]*|---[^\n]*)\n\s*)*(?:- )?(?:apiVersion|kind|metadata|items|spec):")
_MAX_NESTING = 5


def sniff_kubernetes(head: bytes) -> str | None:
    """Format of a Kubernetes dump, told by its first bytes, or ``None``.

    ``kubernetes-json``, ``kubernetes-yaml``, ``kubernetes-watch``, ``kubernetes-audit``, ``kubectl-table`` or
    ``kubectl-describe``.
    """
    head = plain_text(head)
    start = head.lstrip()
    if start[:1] in (b"{", b"["):
        if not _may_be_objects(start.split(b"\n", 1)[0]):
            return None
        if _AUDIT.search(head):
            return "kubernetes-audit"
        if _WATCH.match(head):
            return "kubernetes-watch"
        if _JSON.search(head) and (_JSON_KIND.search(head) or b'"items"' in head):
            return "kubernetes-json"
        return "kubernetes-json" if _JSON_EVENT.search(head) and b'"reason"' in head else None
    if _YAML_FIRST.match(head) and _YAML.search(head) and _YAML_KIND.search(head):
        return "kubernetes-yaml"
    return sniff_kubectl(head[:20_000].decode("utf-8", "replace"))


def _may_be_objects(line: bytes) -> bool:
    """False for JSON lines of a program that logs about objects without being a dump of them."""
    try:
        first = orjson.loads(line)
    except orjson.JSONDecodeError:
        return True
    if not isinstance(first, Mapping):
        return True
    return (
        is_event(first)
        or not first.keys().isdisjoint({"items", "object", "event"})
        or ("kind" in first and "apiVersion" in first)
    )


def read_objects(source: Source, data: bytes, case: Case) -> None:
    """Add all objects of the file to the case.

    What cannot be parsed is skipped and named in ``case.coverage.problems`` with its line.
    """
    data = plain_text(data)
    source.lines = source.lines or data.count(b"\n")
    placement = Placement(case, source)
    if form := sniff_kubectl(data[:20_000].decode("utf-8", "replace")):
        known = len(case.objects)
        for body, line in text_objects(data.decode()):
            _add(body, "", line, source, case, placement)
        if len(case.objects) == known and form == "kubectl-describe":
            case.coverage.problems.append(Problem(source.name, "no object could be read from this description"))
    else:
        _read_documents(source, data, case, placement)
    placement.settle()


def _read_documents(source: Source, data: bytes, case: Case, placement: Placement) -> None:
    documents = read_documents(data)
    for reason, line in documents.problems:
        case.coverage.problems.append(Problem(source.name, reason, line))
    if documents.bad > len(documents.problems):
        hidden = documents.bad - len(documents.problems)
        case.coverage.problems.append(Problem(source.name, f"{hidden} more parts are malformed"))
    # In a list the place of an item has to be searched for; a part that is one object begins at its own line.
    finder = _LineFinder(data)
    for part, line in documents.parts:
        for body, kind, own in _flatten(part, "", 0):
            if kind == "Status":
                message = text(body, "message") or text(body, "reason") or "no message"
                case.coverage.problems.append(Problem(source.name, f"the API server answered: {message}", line))
            else:
                _add(body, kind, line if own else finder.line(body, line), source, case, placement)


def _flatten(value: Any, kind: str, depth: int) -> Iterator[tuple[Mapping[str, Any], str, bool]]:
    """(object, kind, stands alone) of everything inside lists, watch events and exporters' wrappers.

    ``kind`` is that of the enclosing list, for items that do not repeat it.
    """
    if depth > _MAX_NESTING:
        return
    if isinstance(value, list):
        for item in value:
            for body, item_kind, _ in _flatten(item, kind, depth + 1):
                yield body, item_kind, False
        return
    if not isinstance(value, Mapping):
        return
    own = text(value, "kind")
    items = value.get("items")
    if isinstance(items, list) and (not own or own.endswith("List")):
        yield from _flatten(items, own[:-4], depth + 1)
    elif text(value, "apiVersion").startswith("audit.k8s.io/"):
        yield value, "AuditEvent", depth == 0
        for part in ("requestObject", "responseObject"):
            if is_event(mapping(value, part)):
                yield mapping(value, part), "Event", depth == 0
                break
    elif own or is_event(value) or (kind and "metadata" in value):
        yield value, own or kind or "Event", depth == 0
    else:
        for wrapper in ("object", "event"):
            if isinstance(value.get(wrapper), Mapping):
                for body, inner, _ in _flatten(value[wrapper], "", depth + 1):
                    yield body, inner, depth == 0
                return


def _add(body: Mapping[str, Any], kind: str, line: int, source: Source, case: Case, placement: Placement) -> None:
    kind = kind or text(body, "kind")
    if kind == "Secret":
        # Its values have no use here and must not reach any output.
        body = {key: value for key, value in body.items() if key not in ("data", "stringData")}
    meta = mapping(body, "metadata")
    item = KubernetesObject(kind, text(meta, "name"), text(meta, "namespace") or None, body, source.index, line)
    case.objects.append(item)
    if kind == "Event":
        if (node := append_event(case, source.index, body, line)) is not None:
            placement.add_node(node)
    else:
        placement.add(item)


class _LineFinder:
    """Lines of the items of a list, found by their names in one pass from top to bottom."""

    _PATIENCE = 3

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0
        self._line = 1
        self._misses = 0
        self._json = data.lstrip()[:1] in (b"{", b"[")

    def line(self, body: Mapping[str, Any], default: int) -> int:
        """Line on which the item's name stands, else ``default``."""
        name = text(body, "metadata", "name") or text(body, "involvedObject", "name") or text(body, "message")
        if not name or self._misses > self._PATIENCE:
            return default
        needle = f'"{name}"' if self._json else f"name: {name}\n"
        found = self._data.find(needle.encode(), self._at)
        if found < 0:
            self._misses += 1
            return default
        self._line += self._data.count(b"\n", self._at, found)
        # One byte on, so that the next item of the same name is not found here again.
        self._at = found + 1
        return self._line
