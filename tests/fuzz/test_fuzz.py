"""A short, seeded share of the fuzzing that ``benchmarks/fuzz.py`` does for minutes."""

from __future__ import annotations

import pytest
from fuzz import targets

INPUTS = {
    "saved_report": 8,
    "catalog": 25,
    "redaction": 40,
    "escaping": 25,
    "archive": 60,
    "metrics": 80,
    "records": 40,
    "case_yaml": 40,
}
"""How many inputs of each parser; 120 where nothing is said."""


@pytest.mark.parametrize("parser", targets.PARSERS)
def test_no_broken_input_breaks_a_parser(parser: str) -> None:
    for seed in range(INPUTS.get(parser, 120)):
        try:
            targets.run_parser(parser, seed)
        except Exception as error:
            raise AssertionError(f"benchmarks/fuzz.py --again {parser}/{seed}") from error


@pytest.mark.parametrize("first", [0, 100])
def test_no_broken_bundle_breaks_the_analysis_or_its_commands(first: int) -> None:
    for seed in range(first, first + 12):
        try:
            targets.run_bundle(seed, formats=seed % 4 == 0)
        except Exception as error:
            raise AssertionError(f"benchmarks/fuzz.py --again bundle/{seed}") from error
