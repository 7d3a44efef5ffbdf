"""Limits and their use from ``scontrol show assoc_mgr``: ``GrpTRES=…,gres/gpu=32(24)`` means 24 of 32 in use."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

_TITLE = "Current Association Manager state"
_OWNER = re.compile(
    r"\s*(?:ClusterName=\S* )?"
    r"(?:Account=(?P<account>\S*) UserName=(?P<user>[^\s(]*)|QOS=(?P<qos>[^\s(]+))"
)
_LIMIT = re.compile(r"\b(?P<name>Grp\w+|Max\w+)=(?P<value>\S*)")
_USED = re.compile(r"(?:(?P<tres>[\w/:.-]+)=)?(?P<limit>\d{1,18})\((?P<used>\d{1,18}(?:\.\d{1,9})?)\)", re.ASCII)


def is_limits(lines: list[str]) -> bool:
    """True if the text is such a listing."""
    return any(line.strip() == _TITLE for line in lines[:5])


class LimitReader:
    """Fed with lines, gives one mapping per limit that is set: ``account``, ``user``, ``qos``, ``name`` of the limit,
    ``resource``, ``limit`` and ``used``."""

    def __init__(self) -> None:
        self._on = False
        self._owner: dict[str, str | None] = {}

    def feed(self, line: str, number: int) -> Iterator[dict[str, Any]]:
        if line.strip() == _TITLE:
            self._on = True
        if not self._on:
            return
        if (owner := _OWNER.match(line)) is not None:
            self._owner = {key: value or None for key, value in owner.groupdict().items()}
            return
        for limit in _LIMIT.finditer(line):
            for item in limit["value"].split(","):
                used = _USED.fullmatch(item)
                if used is not None and self._owner:
                    yield {
                        **self._owner,
                        "name": limit["name"],
                        "resource": used["tres"] or limit["name"],
                        "limit": int(used["limit"]),
                        "used": float(used["used"]),
                    }
