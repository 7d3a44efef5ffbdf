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
    "metric_forms": 15,
    "diagnostics": 40,
    "kubectl_text": 60,
    "checkpoint_folder": 30,
    "beginning": 40,
    "one_file": 12,
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


def test_every_reader_and_sniffer_of_ingest_is_a_target() -> None:
    """By what is called when each target reads its seeds as they are: a new format needs a target, or a seed of one."""
    import pkgutil
    import sys
    from importlib import import_module
    from types import FrameType, FunctionType

    import aiops.ingest

    wanted = set()
    for found in pkgutil.iter_modules(aiops.ingest.__path__, "aiops.ingest."):
        module = import_module(found.name)
        for name, value in vars(module).items():
            own = isinstance(value, FunctionType) and value.__module__ == found.name
            if own and name.startswith(("read_", "sniff")):
                wanted.add(value.__code__)
    called = set()

    def profile(frame: FrameType, event: str, _: object) -> None:
        if event == "call":
            called.add(frame.f_code)

    sys.setprofile(profile)
    try:
        for parser, target in targets.PARSERS.items():
            if parser in ("redaction", "escaping", "saved_report", "model_answer", "catalog", "one_file", "prefix"):
                continue
            for seed in targets.seeds(parser):
                if len(seed) < 100_000:
                    target(seed)
    finally:
        sys.setprofile(None)
    assert sorted(code.co_qualname for code in wanted - called) == []
