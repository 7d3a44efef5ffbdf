"""Escaping: hostile text shows as itself and does nothing."""

from __future__ import annotations

import html as stdlib_html

import pytest
from hypothesis import given
from hypothesis import strategies as st
from report.hostile import text

from aiops.report import escape

HIDDEN = {
    chr(c)
    for c in [
        *range(0x20),
        *range(0x7F, 0xA0),
        *range(0x200B, 0x2010),
        *range(0x2028, 0x202F),
        *range(0x2060, 0x2070),
        0xFEFF,
        0xAD,
    ]
}


@given(text)
def test_plain_is_one_line_without_hidden_characters(value: str) -> None:
    assert not HIDDEN & set(escape.plain(value))


def test_hidden_characters_are_shown_not_dropped() -> None:
    assert escape.plain("a\x1b[31m\u202eb\r\x00") == "a\\x1b[31m\\u202eb\\x0d\\x00"
    assert escape.plain("a\ud800b") == "a\\ud800b"
    assert escape.plain("one\ntwo\tthree") == "one two three"


def test_lines_keep_their_structure() -> None:
    assert escape.plain_lines("a\r\n\tb\n") == ["a", "    b", ""]


@given(text)
def test_terminal_without_unicode_is_ascii(value: str) -> None:
    assert escape.terminal(value, unicode=False).isascii()


def test_a_tag_escapes_text_and_attributes_but_not_tags() -> None:
    made = escape.tag("p", escape.tag("b", "<i>"), "&", title='"><x', class_="a", hidden=True, lang=None)
    assert made == '<p title="&quot;&gt;&lt;x" class="a" hidden><b>&lt;i&gt;</b>&amp;</p>'


@given(text)
def test_html_text_reads_back_as_the_plain_text(value: str) -> None:
    assert stdlib_html.unescape(escape.html(value)) == "\n".join(escape.plain_lines(value))


@given(st.lists(text, min_size=1, max_size=4))
def test_a_fence_is_longer_than_any_backticks_inside(lines: list[str]) -> None:
    first, *body, last = escape.markdown_block(lines, "sh").split("\n")
    assert first == last + "sh"
    assert set(last) == {"`"}
    assert all(last not in line for line in body)


@given(text, st.integers(20, 400))
def test_slack_text_keeps_its_limit_and_splits_no_entity(value: str, limit: int) -> None:
    for shown in (escape.slack(value, limit), escape.slack_plain(value, limit), escape.slack_code(value, limit)):
        assert len(shown) <= limit
        assert "<" not in shown and ">" not in shown
        assert "&" not in shown.replace("&amp;", "").replace("&lt;", "").replace("&gt;", "")


@given(text)
def test_slack_prose_has_no_live_word_outside_code(value: str) -> None:
    outside = escape.slack(value).split("`")[::2]
    for word in ("://", "www.", "@", "*", "~"):
        assert not any(word in part for part in outside)


def test_slack_never_cuts_a_command() -> None:
    with pytest.raises(ValueError, match="do not fit"):
        escape.slack_block(["scontrol " + "x" * 3000])


def test_quoted_commands_in_prose_stay_code() -> None:
    assert escape.markdown("run `lspci -vvv`, then wait") == "run `lspci -vvv`, then wait"
    assert escape.slack("run `lspci -vvv`, then wait") == "run `lspci -vvv`, then wait"


def test_ordinary_words_are_not_disfigured() -> None:
    line = "GPU 5 of gpu-r07-n03 at 03:14:07: 27.5 GPU-hours"
    assert escape.markdown(line) == line
    assert escape.slack(line) == line
