"""Times as people and documents write them."""

from __future__ import annotations

from datetime import UTC, datetime

from aiops.model.event import NO_TIME


def iso(ts: int) -> str | None:
    """UTC time stamp with milliseconds where it has any, from nanoseconds since 1970; ``None`` for an unknown time."""
    if ts == NO_TIME or ts <= 0:
        return None
    try:
        moment = datetime.fromtimestamp(ts // 1_000_000_000, UTC)
    except (OverflowError, OSError, ValueError):
        return None
    millis = ts // 1_000_000 % 1000
    return moment.strftime("%Y-%m-%dT%H:%M:%S") + (f".{millis:03d}" if millis else "") + "Z"
