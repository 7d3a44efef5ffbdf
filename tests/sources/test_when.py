"""Times and durations as people write them."""

from __future__ import annotations

import pytest

from aiops.errors import InputError
from aiops.sources.when import parse_duration, parse_when, rfc3339

NOW = 1_785_571_200 * 10**9 + 5


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("2026-08-01T08:00:00Z", 1_785_571_200),
        ("2026-08-01T08:00:00", 1_785_571_200),
        ("2026-08-01 08:00", 1_785_571_200),
        ("2026-08-01", 1_785_542_400),
        ("2026-08-01T10:00:00+02:00", 1_785_571_200),
        ("1785571200", 1_785_571_200),
    ],
)
def test_absolute_times(text: str, seconds: int) -> None:
    assert parse_when(text, NOW) == seconds * 10**9


@pytest.mark.parametrize(
    ("text", "delta"),
    [
        ("now", 0),
        ("now-2h", -7200),
        ("now - 90s", -90),
        ("-1h30m", -5400),
        ("now+1.5m", 90),
        ("NOW-1d", -86_400),
    ],
)
def test_relative_times(text: str, delta: int) -> None:
    assert parse_when(text, NOW) == NOW + delta * 10**9


@pytest.mark.parametrize("text", ["2026-08-01T08:00:00.123456789Z", "1785571200.123456789"])
def test_nanoseconds_are_kept(text: str) -> None:
    assert parse_when(text, NOW) == 1_785_571_200_123_456_789


@pytest.mark.parametrize("text", ["", "yesterday", "now-", "now-2", "2h", "2026-13-01", "12", "1785571200000"])
def test_anything_else_is_refused_with_a_hint(text: str) -> None:
    with pytest.raises(InputError, match="RFC 3339"):
        parse_when(text, NOW)


def test_durations() -> None:
    assert [parse_duration(t) for t in ("30", "30s", "1h30m", "500ms")] == [
        30 * 10**9,
        30 * 10**9,
        5400 * 10**9,
        5 * 10**8,
    ]
    for text in ("", "h", "1x", "0s", "-5s", "1h 30m"):
        with pytest.raises(InputError):
            parse_duration(text)


def test_times_are_written_as_utc() -> None:
    assert rfc3339(1_785_571_200 * 10**9) == "2026-08-01T08:00:00Z"
    assert rfc3339(1_785_571_200 * 10**9 + 250_000_000) == "2026-08-01T08:00:00.250Z"
