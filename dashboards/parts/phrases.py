"""Small pieces that several parts of the page use."""

from __future__ import annotations

from aiops.report.escape import Html, tag


def chip(text: str, tone: str = "", *, mono: bool = False) -> Html:
    """A small rounded label; ``tone`` is ``good``, ``amber``, ``red`` or empty."""
    return tag("span", text, class_=" ".join(filter(None, ["aiops-chip", tone, "mono" if mono else ""])))


def sentence(text: str) -> str:
    """With a capital at the beginning."""
    return text[:1].upper() + text[1:]
