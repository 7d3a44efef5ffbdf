"""The time axis that all charts share: UTC, with fixed ends."""

from __future__ import annotations

import altair as alt


def time_scale(ends: tuple[int, int]) -> alt.Scale:
    """A UTC scale between two times in epoch milliseconds.

    The ends are expressions: a plain number would mean one thing to a layer with ``x2`` and another to one without,
    and Vega-Lite would join the two domains.
    """
    return alt.Scale(type="utc", domain=[alt.ExprRef(str(int(end))) for end in ends], nice=False)
