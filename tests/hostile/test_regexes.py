"""No line makes an expression of the product run away: 8 KB of whatever it likes to begin with, again and again."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from fuzz.targets import within

SIZE = 8192
FILL = ["a", " ", "0", "a ", "1 ", "/", "a.b/", "[[", "(", "rank1 ", "1.1:", "a:", '"a",', "-", "_a1-", "=a", '\\"', "'",
        "A", "é", ", ", "0x0 ", "a=1 "]  # fmt: skip


def adversarial(examples: tuple[str, ...]) -> Iterator[str]:
    """Lines that begin like a match and then go on without an end."""
    for fill in FILL:
        yield (fill * SIZE)[:SIZE]
    for example in examples[:2]:
        half = example[: len(example) // 2]
        for tail in ("a", " ", "0"):
            yield (half + tail * SIZE)[:SIZE]
        yield ((example[:-1] + " ") * SIZE)[:SIZE]
        yield (half * SIZE)[:SIZE]


@pytest.mark.parametrize("text", FILL)
def test_prefixes_come_back(text: str) -> None:
    from aiops.ingest.prefix import parse_prefix

    with within(20):
        for head in ("", "[", "Aug  1 08:00:00 ", "2026-08-01T08:00:00Z ", "n1:1:1 [0] ", "[rank0]: ", "\x1b["):
            parse_prefix((head + text * SIZE)[:SIZE])


@pytest.mark.parametrize(
    "text",
    [
        "password=",
        "token: ",
        "eyJa.",
        "://a:",
        "-----BEGIN A KEY-----",
        "a@",
        "sk-a-",
        "key",
        "name: x value: ",
        "bearer a",
    ]
    + FILL,
)
def test_redaction_comes_back(text: str) -> None:
    from aiops.redaction import Redactor

    redactor = Redactor(ips=True)
    with within(20):
        for head in ("", "password=", "--token ", "://", "name: token, value: "):
            redactor.text((head + text * SIZE)[: 4 * SIZE])


def test_adversarial_lines_are_long() -> None:
    assert all(len(line) == SIZE for line in adversarial(("NVRM: Xid 79",)))
