"""Colours that stay legible on the light and on the dark page, and the shapes that say the same without colour."""

from __future__ import annotations

CAUSE = "#d9483b"
EFFECT = "#d18a1b"
CONTEXT = "#7f8a9b"
PEER = "#8f9bb0"
TEXT = "#7c8698"
MEDIAN = "#5b86d6"

ROLE_COLORS = {"cause": CAUSE, "effect": EFFECT, "context": CONTEXT}
ROLE_SHAPES = {"cause": "diamond", "effect": "circle", "context": "square"}
