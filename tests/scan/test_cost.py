"""The linter names rules that slow every scan, and the scanner finds their lines all the same."""

from __future__ import annotations

from dataclasses import replace

from aiops.catalog import load_catalog
from aiops.catalog.lint import lint_catalog, lint_notes
from aiops.scan.literals import literal_sets
from aiops.scan.rules import RuleSet

CATALOG = load_catalog()
XID = CATALOG.by_id["gpu.xid"]


def with_signal(pattern: str, example: str) -> list[str]:
    signal = replace(XID, id="site.x", match=(pattern,), examples=(example,), counter_examples=())
    return [note for note in lint_notes(replace(CATALOG, signals=(signal,))) if "site.x" in note]


def test_a_rule_without_a_rare_word_is_named() -> None:
    [note] = with_signal(r"step \d+ took (?:\d{4,}) s", "step 3 took 4000 s")
    assert "'step '" in note or "' took '" in note
    assert not with_signal(r"step \d+ gave a gyroscope warning", "step 3 gave a gyroscope warning")


def test_a_rule_with_one_rare_word_is_looked_for_by_it() -> None:
    signal = replace(
        XID, match=(r"rank \d+ [^\n]{0,40}lost its gyroscope",), examples=("rank 3 has lost its gyroscope",)
    )
    [rule] = RuleSet((signal,)).rules
    assert rule.core == ("lost its gyroscope",)


def test_signals_that_say_the_same_are_named() -> None:
    twin = replace(XID, id="site.twin")
    notes = lint_notes(replace(CATALOG, signals=(XID, twin)))
    assert any("gpu.xid and site.twin" in note for note in notes)


def test_a_cause_that_hits_ordinary_lines_is_a_mistake() -> None:
    signal = replace(XID, id="site.x", match=("Accepted publickey for",), examples=("Accepted publickey for a",))
    assert any(
        "site.x" in text and "ordinary line" in text for text in lint_catalog(replace(CATALOG, signals=(signal,)))
    )


def test_literals_of_patterns() -> None:
    assert literal_sets(r"rank \d+: (?:lost|gone) for good") == [[("rank ",), (": lost for good", ": gone for good")]]
    assert literal_sets(r"[Ll]oss is (?:nan|inf)|abc") == [
        [("Loss is nan", "Loss is inf", "loss is nan", "loss is inf")],
        [("abc",)],
    ]
    assert literal_sets(r"(?i:error) \d+") == [[]]
    assert literal_sets(r"^(?:a: )?StopIteration(?:: |$)") == [[("StopIteration",)]]
    assert literal_sets(r"(?:optional)?\d") == [[]]
