"""Secrets out of text, once, before it leaves the process (model, Slack, shared pages).

A secret becomes ``[redacted:KIND#N]``. Equal secrets get the same ``N`` from the same `Redactor`, so a reader still
sees that two lines carry the same token; the table behind it holds keyed hashes (HMAC-SHA256), never the secret.
Numbers follow the order of first sight: the same texts in the same order give the same output.

What identifies hardware or code stays: GPU UUIDs, PCI ids, git hashes. Under a name that says "password" or
"api_key" a value goes even if it looks like a git hash, since many services hand out such keys.

Every rule runs in time linear in the text: repeats are bounded, or stand last in their pattern.
"""

from __future__ import annotations

import hashlib
import hmac
import ipaddress
import os
import re
import threading
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from aiops.model.report import Report

_PLACEHOLDER = re.compile(r"\[redacted:[a-z-]+#(?:\d+|many)\]")
_PLACEHOLDER_ONLY = re.compile(_PLACEHOLDER.pattern + r"[)\]}>.,;]*\Z")
_TABLE_LIMIT = 1 << 16


@dataclass(frozen=True, slots=True)
class Rule:
    """One kind of secret. The secret is whichever group took part in the match, or the whole match."""

    kind: str
    pattern: re.Pattern[str]
    needles: tuple[str, ...]
    """Lower-case literals; a text without any of them is not searched."""
    accept: Callable[[re.Match[str], str], bool] | None = None
    """Last word on a match: ``(match, secret)``."""


_HARDWARE = re.compile(
    r"(?:(?:GPU|MIG)-)[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}(?:/\d+)*\Z"
    r"|(?:PCI:)?(?:[0-9a-fA-F]{4,8}:)?[0-9a-fA-F]{2}:[0-9a-fA-F]{2}(?:\.[0-7])?\Z"
)
_NOT_A_VALUE = re.compile(
    r"(?:[*xX•.]+|<[^<>]{0,64}>|null|nil|none|true|false|unset|empty|\(?hidden\)?|redacted|"
    r"\$[A-Z_][A-Z0-9_]*|\$\{\w+\}|%\(?\w*\)?s|\{\{?[\w .]*\}?\})\Z",
    re.IGNORECASE,
)
_NUMBER = re.compile(r"[+-]?[\d.,_]{1,12}(?:e[+-]?\d{1,3})?(?:%|ms|s|k|M|B|/s)?\Z")
_MODEL_VOCABULARY = re.compile(
    r"(?:^|[^a-z])(?:eos|bos|pad|unk|sep|cls|mask|special|image|audio|video|start|end|stop|first|last|next|prev|new|"
    r"max|min|num|per|decoder|forced)[_ -]?\Z",
    re.IGNORECASE,
)


def _accept_value(match: re.Match[str], secret: str) -> bool:
    """Is the value behind a telling name a secret, or prose, a number, a mask, or done already?"""
    if _PLACEHOLDER_ONLY.match(secret) or _NOT_A_VALUE.match(secret) or _HARDWARE.match(secret):
        return False
    if match.groupdict().get("scheme"):
        return True
    name = match["name"].lower()
    if name == "pwd":
        return not secret.startswith("/")
    prose = secret.isalpha() and len(secret) < 16 and match["gap"].isspace()
    if name != "token":
        return not (prose and name in _PROSE_NAMES)
    before = match.string[max(0, match.start("name") - 24) : match.start("name")]
    return not (prose or _NUMBER.match(secret) or _MODEL_VOCABULARY.search(before))


_PROSE_NAMES = frozenset({"secret", "authorization", "credential", "credentials"})

_NAME = (
    r"(?P<name>password|passwd|passphrase|(?<![A-Za-z])pwd|(?<=[_-])pass|credentials?|authorization|token|"
    r"secret(?:[_-]?access)?(?:[_-]?key)?|"
    r"(?:api|access|account|auth|private|encryption|signing|master|storage|ssh|license|service)[_-]?key(?:[_-]?id)?|"
    r"x-amz-signature)"
)
_UNQUOTED = (
    r"(?:[^\s\"'`,;&]"
    r"|[,;&](?!\s|\Z|[\w.-]{1,64}\s?[=:])"
    r"|[\"'`](?![\s,;:)\]}>&|\\]|\Z))+"
)
_VALUE = (
    r"(?:\\{1,3}\"(?P<v1>(?:[^\"\\\n]|\\(?!\\{0,3}\"))+)"
    r"|\"(?P<v2>(?:[^\"\\\n]|\\.)+)"
    r"|'(?P<v3>[^'\n]+)"
    rf"|(?P<v4>{_UNQUOTED}))"
)
_SCHEME = r"(?P<scheme>(?:bearer|basic|token|digest|negotiate|apikey)\s{1,4})?"
_QUOTE = r"\\{0,3}[\"']?"
_NEEDLES = ("passw", "passphrase", "pwd", "pass", "credential", "authorization", "token", "secret", "key", "x-amz-sig")


def _has_digit_or_length(match: re.Match[str], secret: str) -> bool:
    return len(secret) >= 20 or any(c.isdigit() for c in secret)


def _is_not_a_unit(match: re.Match[str], secret: str) -> bool:
    return secret.rsplit(".", 1)[-1].lower() not in {
        "service",
        "socket",
        "timer",
        "scope",
        "slice",
        "mount",
        "target",
        "device",
        "path",
        "py",
    }


def _is_mixed(match: re.Match[str], secret: str) -> bool:
    """Base64 of key bytes has all three; a hash in hex or a ruler of one sign has not."""
    return any(c.isdigit() for c in secret) and any(c.islower() for c in secret) and any(c.isupper() for c in secret)


def _is_address(match: re.Match[str], secret: str) -> bool:
    try:
        ipaddress.ip_address(secret)
    except ValueError:
        return False
    return True


def _rule(
    kind: str, pattern: str, *needles: str, flags: int = 0, accept: Callable[[re.Match[str], str], bool] | None = None
) -> Rule:
    return Rule(kind, re.compile(pattern, flags), needles, accept)


RULES: tuple[Rule, ...] = (
    _rule(
        "aws-key",
        r"(?<![A-Za-z0-9])(?:AKIA|ASIA|AGPA|AIDA|AROA|ANPA|ANVA|AIPA)[A-Z0-9]{16}(?![A-Za-z0-9])",
        "akia",
        "asia",
        "agpa",
        "aida",
        "aroa",
        "anpa",
        "anva",
        "aipa",
    ),
    _rule("jwt", r"(?<![\w-])eyJ[\w-]{6,}\.[\w-]{6,}(?:\.[\w-]*)?", "eyj"),
    _rule("api-key", r"(?<![A-Za-z0-9])sk-(?:[A-Za-z]{1,12}(?:\d{2})?-){0,2}[A-Za-z0-9_]{12}[A-Za-z0-9_-]*", "sk-"),
    _rule(
        "api-key",
        r"(?<![A-Za-z0-9])(?:nvapi-[\w-]{20,}|AIza[\w-]{30,}|glpat-[\w-]{16,}|npm_[A-Za-z0-9]{30,})",
        "nvapi-",
        "aiza",
        "glpat-",
        "npm_",
    ),
    _rule("hf-token", r"(?<![A-Za-z0-9])hf_[A-Za-z0-9]{16,}", "hf_"),
    _rule(
        "github-token",
        r"(?<![A-Za-z0-9])(?:gh[pousr]_[A-Za-z0-9]{16,}|github_pat_\w{20,})",
        "ghp_",
        "gho_",
        "ghu_",
        "ghs_",
        "ghr_",
        "github_pat_",
    ),
    _rule("slack-token", r"(?<![A-Za-z0-9])(?:xox[a-z](?:\.xox[a-z])?|xapp)-[A-Za-z0-9-]{8,}", "xox", "xapp-"),
    _rule(
        "webhook",
        r"(?:hooks\.slack\.com/|discord(?:app)?\.com/api/webhooks/|webhook\.office\.com/)"
        r"(?P<v1>[^\s\"'<>]+)",
        "hooks.slack.com/",
        "/webhooks/",
        "webhook.office.com/",
    ),
    _rule(
        "bearer",
        r"(?<![A-Za-z])bearer\s{1,4}(?P<v1>[\w.~+/=-]{8,})",
        "bearer",
        flags=re.IGNORECASE,
        accept=_has_digit_or_length,
    ),
    _rule(
        "url-userinfo",
        r"://(?:(?P<v1>[^\s/?#\"'<>]{1,512})"
        r"|(?P<v2>[^\s/:@\"'<>]{1,128}:(?!\d{1,5}/)[^\s@\"'<>]{1,256}))@",
        "://",
    ),
    _rule(
        "url-signature",
        r"[?&;](?:sig|signature|key|auth)=(?P<v1>[^\s&\"'<>]{6,})",
        "sig=",
        "signature=",
        "key=",
        "auth=",
    ),
    _rule(
        "cookie",
        r"(?<![A-Za-z])cookie[\"']?\s{0,4}:\s{0,4}[\"'\[]?(?P<v1>[^\s\"'\]][^\n\"'\]]*)",
        "cookie",
        flags=re.IGNORECASE,
        accept=lambda match, secret: "=" in secret,
    ),
    _rule(
        "secret",
        rf"{_NAME}{_QUOTE}\]?\s{{0,4}}(?:=>|:=|[:=])(?P<gap>\s{{0,4}}){_SCHEME}{_VALUE}",
        *_NEEDLES,
        flags=re.IGNORECASE,
        accept=_accept_value,
    ),
    _rule(
        "secret",
        rf"(?<![\w-])--?[\w-]{{0,40}}?{_NAME}(?P<gap>\s{{1,4}})(?!-){_VALUE}",
        *_NEEDLES,
        flags=re.IGNORECASE,
        accept=_accept_value,
    ),
    _rule(
        "secret",
        rf"name{_QUOTE}(?P<gap>\s{{0,8}}):\s{{0,8}}{_QUOTE}[\w.-]{{0,64}}?{_NAME}{_QUOTE}"
        rf"\s{{0,4}},?\s{{0,80}}{_QUOTE}value{_QUOTE}\s{{0,4}}:\s{{0,8}}{_VALUE}",
        "value",
        flags=re.IGNORECASE,
        accept=_accept_value,
    ),
    _rule(
        "key-material", r"^[ \t]{0,16}(?P<v1>[A-Za-z0-9+/]{64})[ \t]{0,4}$", "", flags=re.MULTILINE, accept=_is_mixed
    ),
    _rule(
        "email",
        r"(?<![\w.+%-])[\w.+%-]{1,64}@[A-Za-z0-9-]{1,63}"
        r"(?:\.[A-Za-z0-9-]{1,63}){0,8}\.[A-Za-z]{2,24}(?![\w-])",
        "@",
        accept=_is_not_a_unit,
    ),
)
"""In the order they run: what has a shape of its own first, then what only its name gives away."""

ADDRESS_RULES: tuple[Rule, ...] = (
    _rule("ip", r"(?<![\w.])\d{1,3}(?:\.\d{1,3}){3}(?![\w.]*\w)", ".", accept=_is_address),
    _rule("ip", r"(?<![\w:.])(?:[0-9a-fA-F]{0,4}:){2,7}[0-9a-fA-F]{0,4}(?![\w:.])", ":", accept=_is_address),
)

_PEM = re.compile(r"-----(BEGIN|END) [A-Z0-9 ]{0,40}-----")
_PEM_LIMIT = 16_384
"""Characters after which a begin mark without its end is taken for cut off."""
_PEM_BODY = re.compile(r"(?:[A-Za-z0-9+/=\s]|\\[nr])*")
_PEM_LINE = re.compile(r"((?:[A-Za-z0-9+/= \t\r]|\\[nr])*)(?:\n|\Z)")


_SHORTEST = 5
"""Characters of the shortest secret with its name, ``pwd=x``."""
_SHORTEST_ADDRESS = 2
"""``::``"""


class Redactor:
    """Replaces secrets and counts them. Safe to share between threads.

    ``ips=True`` also hides IPv4 and IPv6 addresses; by default they stay, since an incident is often told with them.
    ``key`` is the HMAC key of the table; by default a random one, so that a dump of the table tells nothing.
    """

    def __init__(self, *, ips: bool = False, key: bytes | None = None) -> None:
        self._rules = RULES + (ADDRESS_RULES if ips else ())
        self._shortest = _SHORTEST_ADDRESS if ips else _SHORTEST
        self._key = key or os.urandom(32)
        self._numbers: dict[bytes, int] = {}
        self._lock = threading.Lock()
        self.kinds: Counter[str] = Counter()
        """How many secrets of each kind were replaced."""

    @property
    def count(self) -> int:
        """Secrets replaced so far, repeats included."""
        return self.kinds.total()

    def text(self, text: str) -> str:
        """The text with every known kind of secret replaced; running it again changes nothing."""
        if len(text) < self._shortest:
            return text
        text = self._key_blocks(text)
        lower = text.lower()
        for rule in self._rules:
            for needle in rule.needles:
                if needle in lower:
                    text = rule.pattern.sub(partial(self._replace, rule), text)
                    break
        return text

    def _replace(self, rule: Rule, match: re.Match[str]) -> str:
        group = next((g for g in ("v1", "v2", "v3", "v4") if match.groupdict().get(g) is not None), 0)
        secret = match[group]
        if group == "v4":
            secret = _trim(secret)
        if not secret or _PLACEHOLDER_ONLY.match(secret) or not (rule.accept is None or rule.accept(match, secret)):
            return match[0]
        start = match.start(group) - match.start()
        return match[0][:start] + self._placeholder(rule.kind, secret) + match[0][start + len(secret) :]

    def _placeholder(self, kind: str, secret: str) -> str:
        digest = hmac.digest(self._key, secret.encode("utf-8", "surrogatepass"), hashlib.sha256)
        with self._lock:
            number = self._numbers.get(digest)
            if number is None and len(self._numbers) < _TABLE_LIMIT:
                number = self._numbers[digest] = len(self._numbers) + 1
            self.kinds[kind] += 1
        return f"[redacted:{kind}#{number or 'many'}]"

    def _key_blocks(self, text: str) -> str:
        """PEM blocks by hand: a pattern that looks for the end would search the rest of the text for each start."""
        if "-----" not in text:
            return text
        parts: list[str] = []
        done = 0
        opened: re.Match[str] | None = None

        def cut(start: int, end: int) -> None:
            nonlocal done, opened
            parts.extend((text[done:start], self._block(text[start:end])))
            done, opened = end, None

        for mark in _PEM.finditer(text):
            if opened and (mark[1] == "BEGIN" or mark.start() - opened.end() > _PEM_LIMIT):
                cut(opened.start(), _body_end(text, opened.end()))
            if mark[1] == "BEGIN":
                opened = mark
            else:
                cut(opened.start() if opened else _body_start(text, done, mark.start()), mark.end())
        if opened:
            cut(opened.start(), _body_end(text, opened.end()))
        return "".join((*parts, text[done:]))

    def _block(self, block: str) -> str:
        """A placeholder with as many line breaks as the block had, so that lines below keep their numbers."""
        return self._placeholder("pem", block) + "\n" * block.count("\n")


def _trim(value: str) -> str:
    """Without the punctuation of the sentence or the bracket that an unquoted value stood in."""
    droppable = ".,;" + "".join(closer for closer, opener in _OPENER.items() if opener not in value)
    return value.rstrip(droppable)


_OPENER = {")": "(", "]": "[", "}": "{", ">": "<"}


def _body_end(text: str, start: int) -> int:
    """Where the base64 below an unclosed PEM begin mark ends: at the first line that holds anything else."""
    end = start
    while body := _PEM_LINE.match(text, start):
        start = body.end()
        if body[1].strip():
            end = body.end(1)
        if start == len(text):
            break
    return end


def _body_start(text: str, floor: int, end: int) -> int:
    """Where the base64 lines above a PEM end mark begin, not above ``floor``."""
    start = end
    while start > floor:
        line = text.rfind("\n", floor, start - 1) + 1 or floor
        if not _PEM_BODY.fullmatch(text, line, start) or not text[line:start].strip():
            break
        start = line
    return start


_shared = Redactor()


def redact(text: str, *, redactor: Redactor | None = None) -> str:
    """The text without secrets; without a ``redactor``, numbers are shared by the whole process."""
    return (redactor or _shared).text(text)


def redact_report(report: Report, *, redactor: Redactor | None = None) -> tuple[Report, int]:
    """A copy of the report without secrets, and how many were replaced.

    It can always be encoded: bytes of a file name that are no UTF-8 become visible escapes (``\\xff``).
    Quoted lines are taken together with the lines around them, since a key block spans lines.
    """
    from aiops.model.report import Report

    redactor = redactor or Redactor()
    before = redactor.count
    return Report.model_validate(_walk(report.model_dump(by_alias=True), redactor)), redactor.count - before


def _walk(value: object, redactor: Redactor) -> object:
    if isinstance(value, str):
        return redactor.text(_encodable(value))
    if isinstance(value, list):
        return [_walk(item, redactor) for item in value]
    if isinstance(value, dict):
        if {"before", "text", "after"} <= value.keys():
            value = {**value, **_quotation(value["before"], value["text"], value["after"], redactor)}
        return {_encodable(key): _walk(item, redactor) for key, item in value.items()}
    return value


_SURROGATE = re.compile("[\ud800-\udfff]")


def _encodable(text: str) -> str:
    """Lone surrogates stand for bytes of a name (``os.fsdecode``) or come from JSON; no encoder takes them."""
    return _SURROGATE.sub(lambda m: f"\\x{ord(m[0]) - 0xDC00:02x}" if m[0] >= "\udc80" else f"\\u{ord(m[0]):04x}", text)


def _quotation(before: list[str], text: str, after: list[str], redactor: Redactor) -> dict[str, object]:
    lines = [*before, text, *after]
    redacted = redactor.text("\n".join(lines)).split("\n")
    rebuilt: list[str] = []
    for line in lines:
        height = line.count("\n") + 1
        rebuilt.append("\n".join(redacted[:height]))
        del redacted[:height]
    middle = len(before)
    return {"before": rebuilt[:middle], "text": rebuilt[middle], "after": rebuilt[middle + 1 :]}
