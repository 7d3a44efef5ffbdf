"""References to evidence and findings that jump to where they stand on the page."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable

from aiops.report.escape import Child, Html, tag

_CITATION = re.compile(r"\[([a-z]\d+(?:\s*,\s*[a-z]\d+)*)\]")


def anchor(id_: str) -> str:
    """The ``id`` attribute of an evidence or a finding on the page."""
    return "ref-" + re.sub(r"[^A-Za-z0-9-]", "-", id_)


def refs(ids: Iterable[str]) -> Html | None:
    """Ids as small links, ``None`` if there are none."""
    links = [tag("a", id_, class_="aiops-ref", href="#" + anchor(id_)) for id_ in ids]
    return tag("span", *links, class_="aiops-refs") if links else None


def cite(text: str, known: Collection[str]) -> list[Child]:
    """Text whose citations such as ``[e2]`` or ``[e2, e3]`` became links, if the ids are known."""
    parts: list[Child] = []
    end = 0
    for match in _CITATION.finditer(text):
        ids = re.split(r"\s*,\s*", match.group(1))
        if all(id_ in known for id_ in ids):
            parts += [text[end : match.start()], refs(ids)]
            end = match.end()
    return [*parts, text[end:]]
