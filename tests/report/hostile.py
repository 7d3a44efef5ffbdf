"""Reports in which every string that may come from outside is hostile."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from hypothesis import strategies as st
from report.samples import ALL

from aiops.model.report import Report

MARKER = "pwned"

WEAPONS = [
    f"<script>{MARKER}()</script>",
    f"</style><script>{MARKER}()</script>",
    f'"><img src=x onerror={MARKER}()>',
    f"' onmouseover='{MARKER}()",
    "</title></main></body>",
    "<!-- ",
    "]]>",
    "&lt;b&gt;",
    "&#60;b&#62;",
    "<svg/onload=1>",
    f"[{MARKER}](https://evil.example/x)",
    f"![{MARKER}](https://evil.example/x.png)",
    "https://evil.example/a_b_c",
    "www.evil.example",
    "mailto:me@evil.example",
    "<https://evil.example>",
    f"# {MARKER}",
    f"## {MARKER} ##",
    "| a | b |\n|---|---|\n| c | d |",
    "```\ncode\n```",
    "~~~",
    "````````",
    "`` ` ``",
    "---",
    "===",
    "- [ ] item",
    "1. item",
    "> quote",
    "    indented",
    "\\",
    "\\\\`",
    "*b* _i_ ~s~ **x** __y__",
    "@root",
    "@channel #12 GH-7 org/repo#3",
    "[x]: https://evil.example",
    "[^1]: note",
    "<!channel>",
    "<!here|here>",
    "<@U012AB3CD>",
    "<#C012AB3CD>",
    "<https://evil.example|harmless>",
    "<!subteam^S1>",
    ":skull: :+1:",
    "*bold*",
    "_it_ ~st~ `c`",
    "&&&&<<<<>>>>",
    "\x1b[31mred\x1b[0m",
    "\x1b]8;;https://evil.example\x07link\x1b]8;;\x07",
    "\x1b]0;title\x07",
    "\x9b31m",
    "\x08\x08",
    "a\rb",
    "\x00",
    "\x7f",
    "\u202egnp.exe",
    "\u2066x\u2069",
    "\u200bzero\u200dwidth\ufeff",
    "\u2028line\u2029",
    "[bold red]rich[/bold red]",
    "[link=https://evil.example]x[/link]",
    "日本語のログ",
    "e\u0301\u0301\u0301",
    "🔥" * 9,
    "\t\ttab",
    "\n\n\n",
    "",
    " ",
    "x" * 400,
    "<" * 400,
    "a b " * 150,
    "node1;reboot",
    "$(reboot)",
    "\U000e0041tag",
]

text = st.one_of(
    st.sampled_from(WEAPONS),
    st.lists(st.sampled_from(WEAPONS), min_size=2, max_size=4).map(" ".join),
    st.lists(st.sampled_from(WEAPONS), min_size=2, max_size=4).map("".join),
    st.text(st.characters(exclude_categories=["Cs"]), max_size=60),
    st.text("`*_~<>&[]()!#@|\\:/ \n\x1b\u202e-=+.1a", max_size=60),
)

_OURS = {"schema", "verdict", "rule", "scheduler", "action", "risk", "severity"}


def poison(value: Any, pool: list[str], path: tuple[str, ...] = ()) -> Any:
    """The same shape with every free string replaced, going round through ``pool``."""
    if isinstance(value, dict):
        return {
            poison(key, pool, (*path, "key")) if path[-1:] == ("kinds",) else key: poison(item, pool, (*path, key))
            for key, item in value.items()
        }
    if isinstance(value, list):
        return [poison(item, pool, path) for item in value]
    if not isinstance(value, str) or _is_ours(path):
        return value
    pool.append(pool.pop(0))
    return pool[-1]


def _is_ours(path: tuple[str, ...]) -> bool:
    name = path[-1] if path else ""
    return name in _OURS or (name == "kind" and "sources" not in path) or (name == "role" and "series" not in path)


@dataclass(frozen=True)
class Hostile:
    """A sample and the texts that replace its own; small, so that a failing example can be read."""

    sample: str
    pool: list[str]
    readable_times: bool
    """Keep the times, so that drawings and cascades are made."""

    def report(self) -> Report:
        """The poisoned report."""
        report = ALL[self.sample]()
        report.coverage.sources = report.coverage.sources[:3]
        data = report.model_dump(mode="json", by_alias=True)
        poisoned = poison(data, list(self.pool))
        if self.readable_times:
            _copy_times(data, poisoned)
        return Report.model_validate(poisoned)


hostile = st.builds(
    Hostile,
    st.sampled_from(["off_bus", "inconclusive", "two_incidents"]),
    st.lists(text, min_size=1, max_size=7),
    st.booleans(),
)


def _copy_times(source: Any, target: Any) -> None:
    if isinstance(source, dict):
        for key, item in source.items():
            if key in ("ts", "first", "last", "started", "detected", "ended", "saved_at", "points"):
                target[key] = item
            elif key in target:
                _copy_times(item, target[key])
    elif isinstance(source, list):
        for one, other in zip(source, target, strict=True):
            _copy_times(one, other)
