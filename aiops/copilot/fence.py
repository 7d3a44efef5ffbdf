"""Log text made safe to show to a model: no hidden characters, and a fence that the text cannot close."""

from __future__ import annotations

import re
import secrets
import unicodedata
from collections.abc import Callable

NonceSource = Callable[[], str]
"""Gives a fresh, unguessable word of letters and digits at each call."""

_LOOK = 20_000
"""Characters of a text that are looked at; no item of a pack is nearly as long."""
_ANSI = re.compile(
    r"\x1b(?:\[[0-?]{0,64}[ -/]{0,8}[@-~]|\][^\x07\x1b\n]{0,512}(?:\x07|\x1b\\)"
    r"|[P^_X][^\x1b\n]{0,512}\x1b\\|.)?"
)
_HIDDEN = frozenset({"Cc", "Cf", "Cs", "Co", "Cn"})
_VARIATION = re.compile("[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u3164\ufe00-\ufe0f\uffa0\U000e0100-\U000e01ef]")


def plain(text: str) -> str:
    """Without terminal sequences, control, zero-width, direction and tag characters; newlines stay, tabs are spaces."""
    if len(text) > _LOOK:
        # Without the last word: half a secret might not be recognised as one.
        text = text[:_LOOK].rstrip().rpartition(" ")[0] or text[:_LOOK]
    text = _ANSI.sub("", text.replace("\r\n", "\n"))
    text = re.sub("[\r\x0b\x0c\u0085\u2028\u2029]", "\n", text).replace("\t", " ")
    if text.isascii() and text.isprintable():
        return text
    return _VARIATION.sub("", "".join(c for c in text if c == "\n" or unicodedata.category(c) not in _HIDDEN))


def cut(text: str, length: int) -> str:
    """At most ``length`` characters: head and tail, since errors put the reason at either end."""
    if len(text) <= length:
        return text
    mark = " […] "
    tail = length // 4
    return text[: length - tail - len(mark)] + mark + text[-tail:]


def new_nonce() -> str:
    """16 hexadecimal characters from the system's random source."""
    return secrets.token_hex(8)


class Fence:
    """Delimiters of one request. The word in them occurs nowhere in the fenced texts."""

    def __init__(self, texts: list[str], source: NonceSource = new_nonce) -> None:
        """Draw words from ``source`` until one occurs in none of the texts.

        Raises:
            ValueError: a hundred words were all in use; such a source is not random.
        """
        for _ in range(100):
            word = source()
            if word and not any(word in text for text in texts):
                self.word = word
                return
        raise ValueError("no delimiter could be found that the text does not contain")

    def wrap(self, name: str, text: str) -> str:
        """``text`` between two lines that only this request knows. ``name`` is ours, never log text."""
        return f"<<<{self.word} {name}>>>\n{text}\n<<<{self.word} end>>>"
