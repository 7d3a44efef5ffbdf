"""Text from outside made harmless, once per medium; nothing else in `aiops.report` quotes or escapes.

Telemetry is written by strangers: it may hold terminal sequences, markup, right-to-left overrides or invisible
characters. `plain` shows such characters as visible escapes (``\\x1b``, ``\\u202e``) for every medium; on top of it
each medium has its own functions: `terminal`; `tag` and `html` for HTML; `markdown…`; `slack…`.
"""

from __future__ import annotations

import re
from html import escape as _html_escape

_HIDDEN = re.compile(
    "[\x00-\x08\x0d-\x1f\x7f-\x9f"  # C0 and C1 controls; tab, newline, \v and \f are white space, handled below
    "\xad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180e"  # invisible marks that can hide or reorder text
    "\u200b-\u200f\u2028-\u202e\u2060-\u206f\u3164\ufeff\uffa0\ufff9-\ufffb"
    "\ud800-\udfff"  # lone surrogates cannot be encoded
    "\U000e0000-\U000e0fff]"
)
_SPACE = re.compile(r"[\t\n\v\f]")


def _visible(match: re.Match[str]) -> str:
    code = ord(match.group())
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def plain(text: str) -> str:
    """One line without control, bidi or zero-width characters; white space of any kind becomes a space."""
    return _HIDDEN.sub(_visible, _SPACE.sub(" ", text))


def plain_lines(text: str) -> list[str]:
    """As `plain`, but newlines separate lines and a tab is four spaces; at least one line."""
    return [plain(line.removesuffix("\r").replace("\t", "    ")) for line in text.split("\n")]


def shorten(text: str, length: int) -> str:
    """At most ``length`` characters, with an ellipsis in place of the rest. Never for commands."""
    return text if len(text) <= length else text[: max(length - 1, 0)] + "…"


# --- terminal ---------------------------------------------------------------------------------------------------------

_ASCII = str.maketrans(
    {
        "·": "-",
        "…": "...",
        "–": "-",
        "—": "-",
        "’": "'",
        "‘": "'",
        "“": '"',
        "”": '"',
        "→": "->",
        "×": "x",
        "°": "deg ",
        "≥": ">=",
        "≤": "<=",
        "µ": "u",
        "−": "-",
        "\xa0": " ",
    }
)


def terminal(text: str, *, unicode: bool = True) -> str:
    """One line for a terminal: no escape sequence survives. Without ``unicode`` only ASCII is left."""
    line = plain(text)
    return line if unicode else line.translate(_ASCII).encode("ascii", "backslashreplace").decode("ascii")


# --- HTML -------------------------------------------------------------------------------------------------------------


class Html(str):
    """Markup made by `tag`; every other string is text and is escaped when it becomes a child."""

    __slots__ = ()


Child = Html | str | None
_VOID = frozenset({"meta", "br", "hr"})


def html(text: str) -> Html:
    """Text as markup: what `tag` does to each child that is not `Html`."""
    return text if isinstance(text, Html) else Html(_html_escape("\n".join(plain_lines(text)), quote=True))


def tag(_name: str, *children: Child, **attributes: str | float | bool | None) -> Html:
    """An element. ``class_`` becomes ``class``, ``aria_label`` becomes ``aria-label``.

    ``None`` and ``False`` leave an attribute out, ``True`` gives it no value. Names come from our code, never from a
    report.
    """
    parts = [f"<{_name}"]
    for name, value in attributes.items():
        if value is None or value is False:
            continue
        name = name.rstrip("_").replace("_", "-")
        if value is True:
            parts.append(f" {name}")
            continue
        text = f"{value:.6g}" if isinstance(value, float) else str(value)
        parts.append(f' {name}="{_html_escape(plain(text), quote=True)}"')
    parts.append(">")
    if _name not in _VOID:
        parts.extend(html(child) for child in children if child is not None)
        parts.append(f"</{_name}>")
    return Html("".join(parts))


def join(*children: Child, by: str = "") -> Html:
    """Children side by side, without an element around them."""
    return Html(html(by).join(html(child) for child in children if child is not None))


_WORD = re.compile(r"( ?)(?:(?<![^ ])`([^`]+)`(?=[ .,;:)]|$)|([^ ]+))")
"""A word, or what a writer put between backticks; with the space before it, if any."""


def _words(text: str) -> list[tuple[str, str, bool]]:
    """(space before, word, is code) of one line."""
    return [(m[1], m[2] or m[3], m[2] is not None) for m in _WORD.finditer(" ".join(plain(text).split()))]


# --- Markdown ---------------------------------------------------------------------------------------------------------

_MD_PUNCTUATION = re.compile(r"[\\`*{}\[\]<>|~#$&]|(?<![^\W_])_|_(?![^\W_])")  # no emphasis begins inside a word
_MD_LEADING = re.compile(r"^(\d{1,9})([.)])(?=\s|$)|^([-+=])(?=[-+=\s]|$)")
_EMOJI = r":[\w+'-]*[^\W\d][\w+'-]*:|(?<!\w):\d+:"
_LIVE = re.compile(rf"@|://|www\.|mailto:|xmpp:|#\d|\bGH-\d|{_EMOJI}", re.IGNORECASE)
"""Words that trackers turn into links, mentions, references or emoji even when their punctuation is escaped."""


def markdown(text: str) -> str:
    """Inline text that shows as itself: no markup, link, mention or issue reference; one line.

    Words that trackers make live (``user@host``, ``https://…``, ``#12``) become code, where nothing is live; so does
    what stands between backticks.
    """
    line = "".join(
        space + (markdown_code(word) if code or _LIVE.search(word) else _MD_PUNCTUATION.sub(r"\\\g<0>", word))
        for space, word, code in _words(text)
    )
    return _MD_LEADING.sub(lambda m: f"{m[1]}\\{m[2]}" if m[1] else f"\\{m[3]}", line)


def markdown_code(text: str) -> str:
    """A code span around one line; its fence is longer than any run of backticks inside."""
    line = plain(text)
    fence = "`" * (_longest_run(line) + 1)
    pad = " " if not line.strip(" ") or line[0] in "` " or line[-1] in "` " else ""
    return f"{fence}{pad}{line or ' '}{pad}{fence}"


def markdown_block(lines: list[str], info: str = "", indent: str = "") -> str:
    """A fenced code block; ``info`` comes from our code."""
    body = [shown for line in lines for shown in plain_lines(line)]
    fence = "`" * max(3, max(map(_longest_run, body), default=0) + 1)
    return "\n".join(indent + line for line in (fence + info, *body, fence))


def _longest_run(line: str) -> int:
    return max(map(len, re.findall("`+", line)), default=0)


# --- Slack ------------------------------------------------------------------------------------------------------------

_SLACK_LIVE = re.compile(rf"[*~`|@]|://|www\.|mailto:|{_EMOJI}|^#|(?<![^\W_])_|_(?![^\W_])", re.IGNORECASE)
"""Words that mrkdwn would format, link or turn into emoji."""


def slack(text: str, limit: int = 3000) -> str:
    """mrkdwn that shows as itself, at most ``limit`` characters after escaping; one line.

    Use it in text objects with ``verbatim: true`` only, so that Slack does not search it for links and names.
    """
    out: list[str] = []
    room = limit - len(" …")
    for space, word, code in _words(text):
        # A word at the start of a line could be a quote mark: `&gt;` is one for Slack, too.
        live = code or _SLACK_LIVE.search(word) or (not out and word.startswith(">"))
        shown = space + (slack_code(word, limit - 3) if live else slack_plain(word, limit - 3))
        if len(shown) > room:
            return "".join([*out, " …"])
        out.append(shown)
        room -= len(shown)
    return "".join(out)


def slack_plain(text: str, limit: int = 3000) -> str:
    """``& < >`` escaped and nothing else: for ``plain_text`` objects and the notification text."""
    return _cut_escaped(plain(text), limit)


def slack_code(text: str, limit: int = 3000) -> str:
    """A code span; Slack has no way to show a backtick in one, so it becomes an apostrophe."""
    return f"`{_cut_escaped(plain(text).replace('`', chr(39)) or ' ', limit - 2)}`"


def slack_block(lines: list[str], limit: int = 3000) -> str:
    """A preformatted block of whole lines.

    Raises:
        ValueError: it does not fit into ``limit`` characters; a command must not be cut.
    """
    body = "\n".join(shown.replace("`", "'") for line in lines for shown in plain_lines(line))
    block = f"```\n{_slack_entities(body)}\n```"
    if len(block) > limit:
        raise ValueError(f"{len(block)} characters do not fit into {limit}")
    return block


def _slack_entities(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def _cut_escaped(text: str, limit: int) -> str:
    """Escape and cut without splitting an entity."""
    escaped = _slack_entities(text)
    if len(escaped) <= limit:
        return escaped
    kept = text[:limit]
    while kept and len(_slack_entities(kept)) > limit - 1:
        kept = kept[: -max(1, (len(_slack_entities(kept)) - limit) // 5)]
    return _slack_entities(kept) + "…"
