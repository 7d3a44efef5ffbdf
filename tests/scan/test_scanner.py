"""The scanner finds what each pattern alone finds, at the right lines, with bounded memory."""

from __future__ import annotations

import random
import re
import tracemalloc
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aiops.catalog import load_catalog
from aiops.scan import Scanner, make_scanner
from aiops.scan.engine import make_engine
from aiops.scan.rules import RuleSet, trim_tail

CATALOG = load_catalog()
EXAMPLES = [example for signal in CATALOG.signals for example in signal.examples if "\n" not in example]
XID = b"Aug  1 08:00:00 n1 kernel: NVRM: Xid (PCI:0000:3b:00): 79, GPU has fallen off the bus."


def pairs_by_re(data: bytes) -> set[tuple[int, int]]:
    """(line, rule) of each rule alone with `re`, the reference."""
    found = set()
    rules = RuleSet(CATALOG.signals).rules
    compiled = [(rule.id, re.compile(rule.signal.match[rule.pattern].encode())) for rule in rules]
    for number, line in enumerate(data.split(b"\n"), 1):
        found |= {(number, rule) for rule, regex in compiled if regex.search(line)}
    return found


def pairs(data: bytes, engine: str, block: int = 1 << 20) -> set[tuple[int, int]]:
    scanner = make_scanner(CATALOG, engine=engine, keep=None)
    scanner._block = block
    return {(hit.line, rule) for hit in scanner.scan_bytes(data) for rule, _ in hit.rules}


def corpus(seed: int, lines: int) -> bytes:
    rng = random.Random(seed)
    noise = [
        "step=1 loss=2.5 lr=1e-4",
        "x" * 50,
        "",
        "INFO all good",
        "Aug  1 08:00:00 n1 systemd[1]: Started Session 1.",
    ]
    return "\n".join(rng.choice(EXAMPLES) if rng.random() < 0.3 else rng.choice(noise) for _ in range(lines)).encode()


@pytest.mark.parametrize("engine", ["hyperscan", "re2"])
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_pairs_are_those_of_each_rule_alone(engine: str, seed: int) -> None:
    data = corpus(seed, 400 if engine == "hyperscan" else 100)
    assert pairs(data, engine) == pairs_by_re(data)


@pytest.mark.parametrize("block", [512, 4096])
def test_blocks_do_not_lose_or_shift_hits(block: int) -> None:
    data = corpus(7, 600)
    assert pairs(data, "hyperscan", block) == pairs(data, "hyperscan")


@given(st.lists(st.binary(max_size=60).map(lambda b: b.replace(b"\n", b" ")), max_size=30), st.sampled_from(EXAMPLES))
@settings(max_examples=60, deadline=None)
def test_any_bytes_around_a_line_leave_it_found(noise: list[bytes], example: str) -> None:
    data = b"\n".join([*noise, example.encode(), *noise])
    line = len(noise) + 1
    assert {rule for number, rule in pairs(data, "hyperscan") if number == line} == {
        rule for number, rule in pairs_by_re(example.encode())
    }


def test_trimmed_patterns_hit_the_same_lines() -> None:
    for rule in RuleSet(CATALOG.signals).rules:
        full, trimmed = re.compile(rule.signal.match[rule.pattern]), re.compile(rule.scan)
        for example in EXAMPLES:
            assert bool(full.search(example)) == bool(trimmed.search(example)), rule.scan


@pytest.mark.parametrize(
    ("pattern", "trimmed"),
    [
        ("error: [^\\n]{0,80}", "error: "),
        ("code (?P<n>\\d+)", "code \\d"),
        ("a\\)", "a\\)"),
        ("up(?: again)?", "up"),
        ("one|two.*", "one|two.*"),
        ("x{3,9}", "x{3}"),
        ("(?:a|b)+", "(?:a|b)"),
        ("end$", "end$"),
    ],
)
def test_trim_tail(pattern: str, trimmed: str) -> None:
    assert trim_tail(pattern) == trimmed


def test_storm_is_counted_not_stored_and_an_odd_line_in_it_survives(tmp_path: Path) -> None:
    other = XID.replace(b": 79,", b": 31,")
    path = tmp_path / "kern.log"
    path.write_bytes(b"\n".join([XID] * 30_000 + [other] + [XID] * 30_000) + b"\n")
    scanner = make_scanner(CATALOG, keep=100)
    hits = list(scanner.scan_file(path))
    rule = next(r.id for r in scanner.rules.rules if r.signal.id == "gpu.xid")
    assert sum(weight for hit in hits for found, weight in hit.rules if found == rule) == 60_001
    assert len(hits) < 2_000
    assert any(b": 31," in hit.text for hit in hits)
    assert scanner.lines == 60_001


def test_one_enormous_line_stays_bounded_and_its_hits_are_found(tmp_path: Path) -> None:
    path = tmp_path / "line.log"
    with path.open("wb") as out:
        for _ in range(48):
            out.write(b"a" * (1 << 20))
        out.write(XID)
        for _ in range(16):
            out.write(b"b" * (1 << 20))
        out.write(b"\n" + XID + b"\n")
    scanner = make_scanner(CATALOG)
    tracemalloc.start()
    hits = list(scanner.scan_file(path))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert [hit.line for hit in hits] == [1, 2]
    assert all(b"Xid (PCI:0000:3b:00): 79" in hit.text and len(hit.text) <= 8192 for hit in hits)
    assert peak < 16 << 20


def test_database_is_kept_between_runs_and_a_damaged_one_is_rebuilt(tmp_path: Path) -> None:
    data = corpus(3, 50)

    def lines() -> set[int]:
        # an engine of its own each time: make_scanner would hand out the one in memory
        rules = RuleSet(CATALOG.signals, tmp_path)
        return {hit.line for hit in Scanner(rules, make_engine(rules.program, tmp_path)).scan_bytes(data)}

    first = lines()
    [kept] = list(tmp_path.glob("*.hsdb"))
    [forms] = list(tmp_path.glob("*.json"))
    assert lines() == first
    whole = kept.read_bytes()
    kept.write_bytes(b"damaged")
    forms.write_bytes(b"damaged")
    assert lines() == first
    assert len(kept.read_bytes()) == len(whole)
    assert forms.read_bytes() != b"damaged"


def test_every_example_of_the_catalog_is_found_by_each_rule_that_matches_it() -> None:
    data = "\n".join(EXAMPLES).encode()
    assert pairs(data, "hyperscan") == pairs_by_re(data)
