"""Fit the confidence on labelled cases, and say how well it would do on cases it has not seen.

A logistic model of two features of the winning hypothesis — its score, and its distance to the best rival of another class — gives the
probability that the class is right. The labelled cases alone cannot teach doubt: the catalog knows them nearly all. So each case is
judged a second time without the classes that would be right; what is named then is wrong. Those count ``UNKNOWN`` each, so that
about one named verdict in nine is wrong, as it was on labelled cases before their words were looked at. Cross-validated
by origin and family: all cases of one family in one origin are held out together, in both forms.

    python benchmarks/calibrate.py            # prints the coefficients for aiops/catalog/confidence.yaml and the figures for docs/
"""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parent))
from labelled import Labelled, labelled_cases

from aiops.catalog import Catalog, load_catalog
from aiops.config import Settings, default_cache_dir
from aiops.correlate import confidence_features, correlate
from aiops.detect import detect
from aiops.ingest import open_case

UNKNOWN = 0.5


def main() -> None:
    from sklearn.linear_model import LogisticRegression
    from sklearn.model_selection import GroupKFold

    catalog, settings = load_catalog(), Settings(cache_dir=default_cache_dir())
    rows, right, groups, weights = [], [], [], []
    for case in labelled_cases():
        for known, features, named in judge(case, catalog, settings):
            rows.append(features)
            right.append(named in case.accept)
            groups.append(f"{case.origin}/{case.family}")
            weights.append(1.0 if known else UNKNOWN)
    x, y, w = np.array(rows), np.array(right), np.array(weights)
    print(
        f"{(w == 1).sum()} cases judged with the whole catalog, {y.sum()} right; {(w < 1).sum()} named without their class"
    )
    held = np.zeros(len(y))
    for train, test in GroupKFold(n_splits=min(10, len(set(groups)))).split(x, y, groups):
        fitted = LogisticRegression(C=1.0).fit(x[train], y[train], sample_weight=w[train])
        held[test] = fitted.predict_proba(x[test])[:, 1]
    model = LogisticRegression(C=1.0).fit(x, y, sample_weight=w)
    print(f"intercept: {model.intercept_[0]:.3f}\nscore: {model.coef_[0][0]:.3f}\ngap: {model.coef_[0][1]:.3f}")
    table(held, y, w)


def judge(case: Labelled, catalog: Catalog, settings: Settings) -> Iterator[tuple[bool, tuple[float, float], str]]:
    """(with the whole catalog?, features, class named) of the first incident; without the right classes only if something is named."""
    unknowing = {k: v for k, v in catalog.failures.items() if k not in case.accept}
    with case.bundle() as folder, open_case([folder], settings) as opened:
        findings = detect(opened, catalog)
        drafts = correlate(opened, findings, catalog)
        if drafts:
            yield True, confidence_features(drafts[0].hypotheses), drafts[0].best.failure.id
        drafts = correlate(opened, findings, dataclasses.replace(catalog, failures=unknowing)) if case.accept else []
        if drafts and not drafts[0].best.failure.id.startswith("unk."):
            yield False, confidence_features(drafts[0].hypotheses), drafts[0].best.failure.id


def table(held: np.ndarray, y: np.ndarray, w: np.ndarray) -> None:
    """Reliability of the held-out probabilities (weighted), and the expected calibration error over five bins."""
    edges = [0.0, 0.5, 0.7, 0.85, 0.95, 1.0001]
    error = 0.0
    print("\n| stated | cases | weight | right | mean stated |\n|---|---|---|---|---|")
    for low, high in zip(edges, edges[1:], strict=False):
        inside = (held >= low) & (held < high)
        if inside.any():
            share = w[inside].sum() / w.sum()
            true, stated = np.average(y[inside], weights=w[inside]), np.average(held[inside], weights=w[inside])
            error += share * abs(stated - true)
            print(
                f"| {low:.2f}–{min(high, 1):.2f} | {inside.sum()} | {w[inside].sum():.1f} | {true:.2f} | {stated:.2f} |"
            )
    brier, base = np.average((held - y) ** 2, weights=w), np.average(y, weights=w)
    print(f"\nexpected calibration error {error:.3f}; Brier score {brier:.3f}, of a constant {base * (1 - base):.3f}")


if __name__ == "__main__":
    main()
