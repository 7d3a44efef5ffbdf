"""Robust scores against pandas, and the outliers that they show."""

from __future__ import annotations

import itertools
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from metrics_fleet import POWER, TENSOR, UTIL, change, find, fleet

from aiops.detect.metrics_peers import _network, robust_scores
from aiops.model import Role


def reference(values: np.ndarray, groups: np.ndarray) -> np.ndarray:
    """The same by the book, column by column."""
    frame = pd.DataFrame(values.astype(np.float64))
    by = frame[groups >= 0].groupby(groups[groups >= 0])
    count, median = by.transform("count"), by.transform("median")
    distance = (frame - median).abs()
    spread = distance[groups >= 0].groupby(groups[groups >= 0]).transform("median")
    spread = np.maximum(spread, 0.01 * median.abs())
    return (0.6745 * (frame - median) / spread).where(count > 4).reindex(frame.index).to_numpy()


@pytest.mark.parametrize("size", [2, 4, 8])
def test_the_network_sorts_every_order(size: int) -> None:
    for bits in itertools.product((0, 1), repeat=size):  # enough by the 0-1 principle
        lanes = list(bits)
        for low, high in _network(size):
            lanes[low], lanes[high] = min(lanes[low], lanes[high]), max(lanes[low], lanes[high])
        assert lanes == sorted(bits)


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 10**6), st.lists(st.integers(1, 17), min_size=1, max_size=6), st.floats(0, 0.6))
def test_scores_are_those_of_pandas_with_gaps_and_any_group_size(seed: int, sizes: list[int], missing: float) -> None:
    rng = np.random.default_rng(seed)
    groups = rng.permutation(np.concatenate([np.full(n, i - 1) for i, n in enumerate(sizes)]))
    values = rng.normal(600, 30, (len(groups), 7)).astype(np.float32)
    values[rng.random(values.shape) < missing] = np.nan
    ours, theirs = robust_scores(values, groups), reference(values, groups)
    assert np.array_equal(np.isnan(ours), np.isnan(theirs))
    assert np.allclose(ours, theirs, rtol=1e-4, atol=1e-3, equal_nan=True)


def test_equal_peers_at_zero_are_no_outliers() -> None:
    values = np.zeros((8, 3), dtype=np.float32)
    values[5, 1] = 7
    scores = robust_scores(values, np.zeros(8, dtype=int))
    assert scores[:5].tolist() == [[0, 0, 0]] * 5
    assert scores[5].tolist() == [0, np.inf, 0]


@pytest.mark.parametrize(("name", "value"), [(TENSOR, 0.11), (POWER, 380)])
def test_a_gpu_that_does_less_than_its_peers_is_shown(tmp_path: Path, name: str, value: float) -> None:
    found = [f for f in find(fleet(tmp_path, {(1, 5): [change(name, value)]})) if f.sign == "metric.outlier"]
    assert [(f.node, f.gpu, f.role, f.fields["metric"]) for f in found] == [("gx-01", 5, Role.CONTEXT, name)]
    assert f"{value:g}" in found[0].evidence[0].text


def test_two_roles_on_a_node_are_no_outliers(tmp_path: Path) -> None:
    low = {(1, gpu): [change(TENSOR, 0.11, since=0)] for gpu in (2, 3, 4)}
    assert find(fleet(tmp_path, low)) == []


def test_an_idle_gpu_and_a_short_dip_are_no_outliers(tmp_path: Path) -> None:
    short = [change(TENSOR, 0.11, since=20, until=24)]
    idle = [change(TENSOR, 0.0), change(UTIL, 0)]
    found = find(fleet(tmp_path, {(0, 2): short, (1, 5): idle}))
    assert [f.sign for f in found if f.sign == "metric.outlier"] == []
