"""The HTML page: self-contained, complete without JavaScript, and deaf to what a log says."""

from __future__ import annotations

import re
from base64 import b64encode
from hashlib import sha256
from html.parser import HTMLParser

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from report.hostile import Hostile, hostile, text
from report.samples import ALL, inconclusive, no_incident, off_bus, two_incidents

from aiops.model.report import TimelineEntry
from aiops.report.html import render

TAGS = {
    "html",
    "head",
    "meta",
    "title",
    "style",
    "script",
    "body",
    "main",
    "footer",
    "article",
    "header",
    "section",
    "h1",
    "h2",
    "h3",
    "h4",
    "p",
    "div",
    "span",
    "small",
    "b",
    "a",
    "dl",
    "dt",
    "dd",
    "ul",
    "ol",
    "li",
    "pre",
    "code",
    "button",
    "details",
    "summary",
    "table",
    "thead",
    "tbody",
    "tr",
    "th",
    "td",
    "figure",
    "figcaption",
    "svg",
    "path",
    "rect",
    "circle",
    "text",
    "g",
}
ATTRIBUTES = {
    "lang",
    "charset",
    "http-equiv",
    "content",
    "name",
    "class",
    "id",
    "href",
    "role",
    "type",
    "open",
    "scope",
    "tabindex",
    "width",
    "height",
    "viewbox",
    "d",
    "x",
    "y",
    "cx",
    "cy",
    "r",
    "rx",
    "text-anchor",
    "aria-label",
    "aria-labelledby",
    "aria-hidden",
}
VOID = {"meta"}


class Page(HTMLParser):
    """What a browser would build, strictly: every element is closed in order."""

    def __init__(self, source: str) -> None:
        super().__init__(convert_charrefs=True)
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.text: list[str] = []
        self.raw: dict[str, str] = {}
        self.open: list[str] = []
        self.feed(source)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert len(attrs) == len(dict(attrs)), "an attribute twice"
        self.elements.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open and self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1] in ("style", "script"):
            self.raw[self.open[-1]] = self.raw.get(self.open[-1], "") + data
        else:
            self.text.append(data)

    def handle_comment(self, data: str) -> None:
        raise AssertionError(f"comment {data!r}")

    def handle_pi(self, data: str) -> None:
        raise AssertionError(f"instruction {data!r}")

    def unknown_decl(self, data: str) -> None:
        raise AssertionError(f"declaration {data!r}")

    def all(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for name, attributes in self.elements if name == tag]

    @property
    def words(self) -> str:
        return re.sub(r"\s+", " ", " ".join(self.text))


def check(source: str) -> Page:
    page = Page(source)
    assert {tag for tag, _ in page.elements} <= TAGS
    assert {name for _, attributes in page.elements for name in attributes} <= ATTRIBUTES
    assert len(page.all("script")) == len(page.all("style")) == 1
    idents = [attributes["id"] for _, attributes in page.elements if "id" in attributes]
    assert len(idents) == len(set(idents))
    for link in page.all("a"):
        assert link["href"] and link["href"].startswith("#") and link["href"][1:] in idents
    return page


def test_the_page_begins_with_what_who_and_next() -> None:
    words = check(render(off_bus())).words.strip()
    start = words.index("Incident almost certain (96%)")
    what, who, step = (
        words.index(part, start)
        for part in (
            "GPU fell off the PCIe bus",
            "Who GPU 5 of gpu-r07-n03",
            "Next Drain gpu-r07-n03 (needs approval); then requeue",
        )
    )
    assert start < what < who < step < words.index("scontrol update NodeName=gpu-r07-n03 State=DRAIN")


def test_no_incident_says_that_nothing_is_to_be_done() -> None:
    words = check(render(no_incident())).words
    assert "Nothing needs to be done" in words and "What to do" not in words


def test_inconclusive_shows_candidates_and_the_broken_archive_at_the_top() -> None:
    words = check(render(inconclusive())).words
    top = words[: words.index("What to do")]
    assert "Candidates: rank 6" in top or "candidates: rank 6" in top
    assert "archive is truncated" in top
    assert "Would decide kernel log of node-b" in words


def test_the_content_policy_allows_exactly_what_is_there() -> None:
    page = check(render(off_bus()))
    policy = next(meta["content"] for meta in page.all("meta") if meta.get("http-equiv") == "Content-Security-Policy")
    hashes = {kind: "sha256-" + b64encode(sha256(body.encode()).digest()).decode() for kind, body in page.raw.items()}
    assert policy == (
        f"default-src 'none'; style-src '{hashes['style']}'; script-src '{hashes['script']}'; "
        "base-uri 'none'; form-action 'none'"
    )


@pytest.mark.parametrize("name", list(ALL))
def test_nothing_is_loaded_from_anywhere(name: str) -> None:
    source = render(ALL[name]())
    page = check(source)
    assert not re.search(r"url\(|@import|fetch\(|XMLHttpRequest|<link|<img|<iframe", source)
    assert all("src" not in attributes for _, attributes in page.elements)


def test_findings_actions_and_timeline_lead_to_the_line() -> None:
    source = render(off_bus())
    page = check(source)
    links = [link["href"] for link in page.all("a")]
    assert links.count("#i1e2") >= 4  # story, action, timeline, finding
    hit = source[source.index('id="i1e2"') :]
    assert re.match(r'id="i1e2"><span class="no">1902</span><span class="text">Nov 28 03:14:07 .*Xid', hit)
    assert '<span class="no">1901</span>' in source and '<span class="no">1905</span>' in source


def test_score_terms_and_objections_are_shown() -> None:
    words = check(render(off_bus())).words
    assert "+4.0 cause seen Xid 79 names the GPU itself f2" in words
    assert "−1.0 contradicted Xid 79 came first" in words
    assert "Speaks against it user code" not in words and "user code cannot take a GPU off the bus" in words


def test_blocked_actions_hide_their_command_behind_the_reason() -> None:
    source = render(off_bus())
    start = source.index("<h3>Reboot gpu-r07-n03</h3>")
    block = source[start : source.index("<h3>", start + 4)]
    reason = block.index("Blocked: the node is not drained yet")
    assert reason < block.index("<details") < block.index("scontrol reboot")


def test_marks_differ_in_shape_not_only_in_colour() -> None:
    lanes = re.search(r'<div class="lanes".*?</svg>', render(off_bus()), re.DOTALL)
    assert lanes
    assert len(re.findall(r'<path [^>]*class="mark mark-cause"', lanes[0])) == 2
    assert len(re.findall(r'<circle [^>]*class="mark mark-effect"', lanes[0])) == 7
    assert len(re.findall(r'<rect [^>]*class="mark mark-context"', lanes[0])) == 2


def test_marks_of_a_lane_do_not_touch_even_in_a_burst() -> None:
    report = off_bus()
    report.incidents[0].timeline = [
        TimelineEntry(ts=f"2026-11-28T03:14:07.{n:03d}Z", entity="n1", text="x", role="effect") for n in range(80)
    ]
    xs = [float(x) for x in re.findall(r'<circle cx="([\d.]+)" cy="[\d.]+" r="9.5"', render(report))]
    assert len(xs) == 80
    assert min(b - a for a, b in zip(xs, xs[1:], strict=False)) >= 19


def test_curves_break_where_samples_are_missing() -> None:
    figure = re.search(r"<figure>.*?GPU_UTIL.*?</figure>", render(off_bus()), re.DOTALL)
    assert figure
    assert "no samples" in figure[0]
    culprit = re.search(r'<path d="([^"]+)" class="curve-culprit"', figure[0])
    assert culprit and culprit[1].count("L") == 13 and "nan" not in figure[0]


def test_broken_series_do_no_harm() -> None:
    report = off_bus()
    report.coverage.series = [
        {},
        {"points": None},
        {"points": [[None, 1], ["x", 2], [1e300, 3], [True, 4], 7, []]},
        {"field": "f", "points": [["2026-11-28T03:00:00Z", float("inf")]]},
        {"field": "g", "role": "boss", "points": [[1_764_000_000, 5], [1_764_000_060, "6"]]},
    ]
    page = check(render(report))
    assert len(page.all("figure")) == 1


def test_every_incident_has_its_own_anchors() -> None:
    page = check(render(two_incidents()))
    assert {"i1", "i2", "i1e1", "i2e1"} <= {attributes.get("id") for _, attributes in page.elements}


@pytest.mark.parametrize("name", list(ALL))
def test_the_same_report_gives_the_same_bytes(name: str) -> None:
    assert render(ALL[name]()) == render(ALL[name]())


@settings(max_examples=60, deadline=None)
@given(hostile)
def test_hostile_text_makes_no_element_and_no_attribute(case: Hostile) -> None:
    report = case.report()
    source = render(report)
    page = check(source)
    clean = Page(render(off_bus()))
    assert page.raw == clean.raw
    assert not re.search(
        "[\x00-\x09\x0b-\x1f\x7f-\x9f\u200b-\u200f\u202a-\u202e\u2066-\u2069]",
        source.replace(page.raw["style"], "").replace(page.raw["script"], ""),
    )


@settings(max_examples=40, deadline=None)
@given(st.lists(text, min_size=3, max_size=3))
def test_hostile_text_does_not_change_the_structure(pool: list[str]) -> None:
    def tags(words: list[str]) -> list[str]:
        report = two_incidents()
        for incident in report.incidents:
            incident.title, incident.evidence[0].text, incident.actions[0].why = (
                "x" + word.replace("\n", " ") for word in words
            )
        return [tag for tag, _ in Page(render(report)).elements]

    assert tags(pool) == tags(["a", "b", "c"])
