"""Which rules make every scan slower, and which say the same as another."""

from __future__ import annotations

import re
from collections.abc import Iterator

from aiops.catalog.model import Catalog, Signal
from aiops.model.finding import Role
from aiops.scan.literals import literal_sets
from aiops.scan.ordinary import LINES, TEXT
from aiops.scan.rules import RuleSet


def costly_rules(rules: RuleSet) -> Iterator[tuple[Signal, str, str]]:
    """(signal, pattern, why) of rules whose every literal stands in ordinary lines, so that the engine wakes up on them.

    Rules that are meant for ordinary lines, such as progress, are left out.
    """
    for rule in rules.rules:
        if rule.core or rule.id in rules.ordinary:
            continue
        words = sorted(
            {
                min((text for text in literals if text in TEXT), key=len)
                for sets in literal_sets(rule.scan)
                for literals in sets
                if any(text in TEXT for text in literals)
            }
        )
        if words:
            pattern = rule.signal.match[rule.pattern]
            yield rule.signal, pattern, f"the scanner stops at {', '.join(map(repr, words[:3]))} in ordinary lines"


def ordinary_hits(catalog: Catalog) -> Iterator[tuple[Signal, str]]:
    """(signal, line) of signals that may be causes and that hit a line of healthy runs."""
    for signal in catalog.signals:
        if signal.role is Role.CONTEXT:
            continue
        for line in LINES:
            if any(regex.search(line) for regex in signal.regexes):
                yield signal, line
                break


def overlapping(catalog: Catalog) -> Iterator[tuple[Signal, Signal]]:
    """(signal, other): all examples of ``signal`` are hit by ``other`` as well, and the other way round."""
    texts = {signal.id: "\n".join(signal.examples) for signal in catalog.signals}
    regexes = {signal.id: [re.compile(m, re.M) for m in signal.match] for signal in catalog.signals}

    def covers(one: Signal, other: Signal) -> bool:
        if not any(regex.search(texts[other.id]) for regex in regexes[one.id]):
            return False
        return all(any(regex.search(example) for regex in regexes[one.id]) for example in other.examples)

    by_kind = list(catalog.signals)
    for i, signal in enumerate(by_kind):
        for other in by_kind[i + 1 :]:
            if signal.kinds & other.kinds and covers(signal, other) and covers(other, signal):
                yield signal, other


def unreachable(catalog: Catalog) -> Iterator[tuple[Signal, str]]:
    """(signal, pattern) of patterns that no example of their signal proves: nobody knows whether they ever match."""
    for signal in catalog.signals:
        for pattern, regex in zip(signal.match, signal.regexes, strict=True):
            if not any(regex.search(example) for example in signal.examples):
                yield signal, pattern
