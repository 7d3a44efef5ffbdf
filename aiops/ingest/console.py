"""Output of a command that somebody saved: which host it is from."""

from __future__ import annotations

import re
from collections.abc import Iterable

from aiops.ingest.describe import host_in_name
from aiops.model.case import Source
from aiops.model.entity import is_host_name

_HOST_LINE = re.compile(r"(?:^|\s)(?:host(?:name)?[:=] *|\S+@)([A-Za-z0-9][\w.-]{0,200}?)(?=[:~\s]|$)", re.IGNORECASE)


def host_of_output(source: Source, lines: Iterable[str], tool: re.Pattern[str]) -> str | None:
    """The host that the case states, a line names (``hostname: n7``, ``root@n7:~#``), or else the file's name.

    Args:
        source: the saved output.
        lines: its lines outside the output proper.
        tool: words of the file's name that are the command and not the host.
    """
    if source.node is not None:
        return source.node
    for line in lines:
        named = _HOST_LINE.search(line)
        if named is not None and is_host_name(named[1]):
            return named[1]
    bare = re.sub(r"(^|[/!._ ])[-_]+|[-_]+(?=[/!. ]|$)", r"\1", tool.sub("", source.name))
    return host_in_name(bare)
