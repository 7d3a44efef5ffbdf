"""A message in parts that Slack takes: no more blocks and no more characters than it allows."""

from __future__ import annotations

import json
from typing import Any

Message = dict[str, Any]
"""``{"text": notification text, "blocks": [...]}``."""

MAX_BLOCKS = 50
MAX_CHARACTERS = 12_000
"""Of all blocks of a message as JSON. Slack refuses messages of about 13,000 with ``msg_blocks_too_long``."""


def split(message: Message, *, most: int = MAX_BLOCKS, characters: int = MAX_CHARACTERS) -> list[Message]:
    """The message, or several that hold its blocks in order; cuts fall on dividers where there are any.

    Each part has a notification text, the later ones with their number: screen readers read nothing else.
    """
    chunks = _chunks(message["blocks"], most, characters)
    if len(chunks) == 1:
        return [{**message, "blocks": chunks[0]}]
    return [
        {
            **message,
            "blocks": chunk,
            "text": message["text"] if number == 1 else f"({number}/{len(chunks)}) {message['text']}",
        }
        for number, chunk in enumerate(chunks, 1)
    ]


def _chunks(blocks: list[dict[str, Any]], most: int, characters: int) -> list[list[dict[str, Any]]]:
    chunks: list[list[dict[str, Any]]] = []
    rest = blocks
    while rest:
        end = room = 0
        while end < min(len(rest), most) and (end == 0 or room + _size(rest[end]) <= characters):
            room += _size(rest[end])
            end += 1
        if end < len(rest):
            dividers = [i for i in range(1, end + 1) if rest[i]["type"] == "divider"]
            end = dividers[-1] if dividers else end
        chunks.append(rest[:end])
        rest = rest[end:]
        while rest and rest[0]["type"] == "divider":
            rest = rest[1:]
    return chunks or [[]]


def _size(block: dict[str, Any]) -> int:
    return len(json.dumps(block, ensure_ascii=False))
