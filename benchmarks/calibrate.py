"""Fit the confidence on labelled cases, and say how well it would do on cases it has not seen.

A logistic model of two features of the winning hypothesis — its score, and its distance to the best rival of another class — gives the
probability that the class is right. Cross-validated by origin and family: all cases of one family in one origin are held out together.

    python benchmarks/calibrate.py            # prints the coefficients for aiops/catalog/confidence.yaml and the figures for docs/
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parent))
from labelled import labelled_cases

from aiops.catalog import load_catalog
from aiops.config import Settings, default_cache_dir
from aiops.correlate import confidence_features, correlate
from aiops.detect import detect
from aiops.ingest import open_case


def main() -> None:
    from sklearn.linear_model import LogisticRegression
    from sklearn.model_selection import GroupKFold

    catalog, settings = load_catalog(), Settings(cache_dir=default_cache_dir())
    rows, right, groups = [], [], []
    for case in labelled_cases():
        with case.bundle() as folder, open_case([folder], settings) as opened:
            drafts = correlate(opened, detect(opened, catalog), catalog)
        if drafts:
            rows.append(confidence_features(drafts[0].hypotheses))
            right.append(drafts[0].best.failure.id in case.accept)
            groups.append(f"{case.origin}/{case.family}")
    x, y = np.array(rows), np.array(right)
    print(f"{len(y)} judged cases, {y.sum()} right, {len(set(groups))} groups")
    held = np.zeros(len(y))
    for train, test in GroupKFold(n_splits=min(10, len(set(groups)))).split(x, y, groups):
        held[test] = LogisticRegression(C=1.0).fit(x[train], y[train]).predict_proba(x[test])[:, 1]
    model = LogisticRegression(C=1.0).fit(x, y)
    print(f"intercept: {model.intercept_[0]:.3f}\nscore: {model.coef_[0][0]:.3f}\ngap: {model.coef_[0][1]:.3f}")
    table(held, y)


def table(held: np.ndarray, y: np.ndarray) -> None:
    """Reliability of the held-out probabilities, and the expected calibration error over five bins."""
    edges = [0.0, 0.5, 0.7, 0.85, 0.95, 1.0001]
    error = 0.0
    print("\n| stated | cases | right | mean stated |\n|---|---|---|---|")
    for low, high in zip(edges, edges[1:], strict=False):
        inside = (held >= low) & (held < high)
        if inside.any():
            error += inside.mean() * abs(held[inside].mean() - y[inside].mean())
            print(
                f"| {low:.2f}–{min(high, 1):.2f} | {inside.sum()} | {y[inside].mean():.2f} | {held[inside].mean():.2f} |"
            )
    brier = float(np.mean((held - y) ** 2))
    print(
        f"\nexpected calibration error {error:.3f}, Brier score {brier:.3f} (always saying the base rate: {y.mean() * (1 - y.mean()):.3f})"
    )


if __name__ == "__main__":
    main()
