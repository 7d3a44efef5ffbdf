"""The parts of the page: what they say, and that no text of a case becomes markup."""

from __future__ import annotations

from html.parser import HTMLParser
from typing import Any

import pytest
from report import samples

from aiops.model.report import Report
from dashboards.parts import actions, coverage, evidence, hypotheses, links, story, verdict

EVIL = '"><script>alert(1)</script><img src=x onerror=alert(2)> [x](javascript:alert(3)) :red[y] \x1b]0;z\x07'


class Elements(HTMLParser):
    """Collects the elements, attributes and text of a fragment."""

    def __init__(self, fragment: str) -> None:
        super().__init__()
        self.names: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []
        self.text = ""
        self.feed(fragment)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.names.append(tag)
        self.attributes += attrs

    def handle_data(self, data: str) -> None:
        self.text += data


def all_parts(report: Report) -> dict[str, str]:
    """Every fragment that the pages show of a report."""
    made = {
        "summary": coverage.summary("label", report.coverage),
        "facts": coverage.facts(report.coverage),
        "sources": coverage.sources(report.coverage.sources),
        "jobs": coverage.jobs(report.coverage.jobs),
        "gaps": coverage.gaps(report.coverage) or "",
        "calm": verdict.calm(report),
    }
    for case in report.incidents:
        made |= {
            "headline": verdict.headline(report, case),
            "cards": verdict.cards(case),
            "story": story.narrative(case) or "",
            "chain": story.chain(case) or "",
            "hypotheses": hypotheses.table(case),
            "evidence": evidence.quotations(case.evidence),
            "findings": evidence.findings(case.findings),
        }
        made |= {f"action{i}": actions.head(i, item) for i, item in enumerate(case.actions)}
    return made


def poisoned(value: Any, key: str = "") -> Any:
    """The report with every free text replaced by something nasty."""
    kept = {
        "schema",
        "verdict",
        "kind",
        "role",
        "severity",
        "action",
        "scheduler",
        "risk",
        "rule",
        "ts",
        "first",
        "last",
        "saved_at",
        "started",
        "detected",
        "ended",
    }
    if isinstance(value, dict):
        return {k: poisoned(v, k) for k, v in value.items()}
    if isinstance(value, list):
        return [poisoned(v, key) for v in value]
    return EVIL if isinstance(value, str) and key not in kept else value


@pytest.mark.parametrize("name", samples.ALL)
def test_text_of_a_case_never_becomes_markup(name: str) -> None:
    report = samples.ALL[name]()
    evil = Report.model_validate(poisoned(report.model_dump(by_alias=True)))
    honest_parts = all_parts(report)
    for part, fragment in all_parts(evil).items():
        seen = Elements(fragment)
        assert not {"script", "img"} & set(seen.names), part
        assert set(seen.names) <= set(Elements(honest_parts[part]).names) | {"div", "p", "span", "ul", "li", "a"}, part
        for attribute, value in seen.attributes:
            assert not attribute.startswith("on"), part
            assert attribute != "href" or str(value).startswith("#ref-"), part
        assert "\x1b" not in fragment and "\x07" not in fragment, part


def test_what_who_next_come_first() -> None:
    report = samples.off_bus()
    text = Elements(verdict.headline(report, report.incidents[0])).text
    what, who, next_ = (text.index(word) for word in ("GPU fell off the PCIe bus", "GPU 5 of gpu-r07-n03", "Drain"))
    assert what < who < next_
    assert "96%" in text and "gpu.off_bus" in text


def test_inconclusive_asks_for_what_decides() -> None:
    report = samples.inconclusive()
    text = Elements(verdict.headline(report, report.incidents[0])).text
    assert "inconclusive" in text and "kernel log of node-b" in text and "Candidates" in text


def test_no_incident_is_calm() -> None:
    fragment = verdict.calm(samples.no_incident())
    assert "No incident" in fragment and "good" in fragment and "1,204 NCCL warnings" in fragment


def test_actions_show_approval_risk_and_block() -> None:
    drain, *_, rma = samples.off_bus().incidents[0].actions
    text = Elements(actions.head(1, drain)).text
    assert "needs approval" in text and "low risk" in text and "1 node, 8 GPUs" in text and "blocked" not in text
    text = Elements(actions.head(5, rma)).text
    assert "blocked" in text and "diagnostics have not run" in text and "high risk" in text


def test_every_term_of_the_score_is_shown() -> None:
    case = samples.off_bus().incidents[0]
    text = Elements(hypotheses.table(case)).text
    for item in case.hypotheses:
        assert all(term.term in text and term.why in text for term in item.terms)
        assert all(note in text for note in (*item.against, *item.would_decide))
    assert "-0.20" in text and "+9.40" in text


def test_evidence_opens_at_its_line() -> None:
    case = samples.off_bus().incidents[0]
    fragment = evidence.quotations(case.evidence)
    text = Elements(fragment).text
    assert "logs/gpu-r07-n03/kern.log:1902" in text
    assert "1899Nov 28 03:13:58" in text and "1902Nov 28 03:14:07 gpu-r07-n03 kernel: NVRM: Xid" in text
    assert [item.id for item in evidence.matching(case, "watchdog")] == ["e5"]
    assert [item.id for item in evidence.matching(case, "SACCT.txt")] == ["e7"]
    assert 'id="ref-e2"' in fragment


def test_citations_become_links_only_for_known_ids() -> None:
    parts = links.cite("seen [e1, e2], not [e9] [x]", {"e1", "e2"})
    assert [str(part) for part in parts if part and "href" in part] == [str(links.refs(["e1", "e2"]))]
    assert str(parts[-1]) == ", not [e9] [x]"


def test_coverage_filters_and_says_what_is_missing() -> None:
    read = samples.inconclusive().coverage
    text = Elements(str(coverage.gaps(read))).text
    assert all(item in text for item in read.missing) and all(item.reason in text for item in read.problems)
    shown = Elements(coverage.sources(read.sources, "RANK11")).text
    assert "rank11.log" in shown and "rank12.log" not in shown
