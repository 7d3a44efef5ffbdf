"""Prompt templates: Markdown with front matter in ``prompts/``, filled in one pass."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from aiops.copilot.evidence_pack import EvidencePack
from aiops.copilot.fence import Fence, NonceSource, new_nonce
from aiops.errors import AiopsError

_PARTS = re.compile(r"^## (\w+)[ \t]*$", re.MULTILINE)
_SLOT = re.compile(r"\{\{(\w+)\}\}")


@dataclass(frozen=True, slots=True)
class Prompt:
    """A template: ``parts`` by heading, each with ``{{slots}}``."""

    id: str
    version: int
    purpose: str
    parts: Mapping[str, str]

    def fill(self, part: str, values: Mapping[str, str]) -> str:
        """The part with its slots filled. What fills a slot is not searched for slots again.

        Raises:
            KeyError: the part, or a slot's value, is missing.
        """
        return _SLOT.sub(lambda match: values[match[1]], self.parts[part])


def load_prompt(name: str) -> Prompt:
    """Read ``prompts/NAME.md``.

    Raises:
        AiopsError: the file is missing, or is not a template.
    """
    import yaml

    from aiops.resources import resource

    path = resource(f"prompts/{name}.md")
    pieces = path.read_text(encoding="utf-8").split("---\n", 2)
    if len(pieces) != 3 or pieces[0]:
        raise AiopsError(f"prompts/{name}.md: no front matter")
    head = yaml.safe_load(pieces[1])
    texts = _PARTS.split(pieces[2])
    parts = {heading: text.strip() for heading, text in zip(texts[1::2], texts[2::2], strict=True)}
    try:
        return Prompt(str(head["id"]), int(head["version"]), str(head["purpose"]), parts)
    except (KeyError, TypeError, ValueError) as error:
        raise AiopsError(f"prompts/{name}.md: the front matter needs id, version and purpose") from error


def narrative_messages(prompt: Prompt, pack: EvidencePack, nonces: NonceSource = new_nonce) -> list[tuple[str, str]]:
    """(role, text) messages that ask for the narrative of a pack; all material stands inside one fence each."""
    fence = Fence(pack.texts(), nonces)
    blocks = [fence.wrap("facts", "\n".join(pack.facts))]
    if pack.timeline:
        lines = [f"{line} [{', '.join(ids)}]" if ids else line for line, ids in pack.timeline]
        blocks.append(fence.wrap("timeline", "\n".join(lines)))
    for item in pack.items.values():
        stands_on = [i for i in item.evidence if i in pack.items]
        foot = f"\nstands on: {', '.join(stands_on)}" if stands_on else ""
        blocks.append(fence.wrap(f"{item.kind} {item.id}", f"({item.head})\n{item.text}{foot}"))
    omitted = f"{pack.left_out} further items were left out for lack of room.\n\n" if pack.left_out else ""
    values = {"nonce": fence.word, "material": "\n\n".join(blocks), "omitted": omitted}
    return [("system", prompt.fill("system", values)), ("user", prompt.fill("user", values))]
