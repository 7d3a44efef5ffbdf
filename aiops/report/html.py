"""The report as one self-contained HTML page: no request leaves it, and it works without JavaScript."""

from __future__ import annotations

from base64 import b64encode
from functools import cache
from hashlib import sha256
from pathlib import Path

from aiops.model.report import CoverageReport, Incident, JobItem, Report, SourceItem
from aiops.report import words
from aiops.report.escape import Child, Html, join, tag
from aiops.report.html_incident import Anchors, command_block, sections
from aiops.report.lead import lead

_TEMPLATES = Path(__file__).with_name("templates")
MAX_SOURCES = 500
"""Rows of the table of sources; the rest is counted."""


def render(report: Report) -> str:
    """The page, UTF-8 text. Its content policy allows this style, this script, and nothing else."""
    style, script = _template("page.css"), _template("page.js")
    policy = (
        f"default-src 'none'; style-src '{_digest(style)}'; script-src '{_digest(script)}'; "
        "base-uri 'none'; form-action 'none'"
    )
    top = lead(report)
    head = tag(
        "head",
        _lines(
            tag("meta", charset="utf-8"),
            tag("meta", http_equiv="Content-Security-Policy", content=policy),
            tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
            tag("meta", name="color-scheme", content="light dark"),
            tag("meta", name="generator", content="aiops"),
            tag("title", f"{top.verdict}: {top.what}"),
            tag("style", Html(style)),
        ),
    )
    body = tag(
        "body",
        _lines(
            tag("main", _lines(*_articles(report), _coverage(report.coverage)), id="main"),
            tag("footer", "Times are UTC. Written by aiops from the evidence above; read a command before you run it."),
            tag("button", "light / dark", type="button", id="theme", aria_label="Switch between light and dark"),
            tag("script", Html(script)),
        ),
    )
    return f"<!doctype html>\n{tag('html', _lines(head, body), lang='en')}\n"


@cache
def _template(name: str) -> str:
    return "\n" + (_TEMPLATES / name).read_text(encoding="utf-8")


def _digest(text: str) -> str:
    return f"sha256-{b64encode(sha256(text.encode()).digest()).decode()}"


def _lines(*children: Child) -> Html:
    return join("", *children, "", by="\n")


def _articles(report: Report) -> list[Html]:
    if report.verdict == "no_incident" or not report.incidents:
        return [tag("article", _lead(report, None, 0), aria_label="Verdict")]
    return [
        tag(
            "article",
            _lines(_lead(report, incident, position), *sections(report, incident, Anchors(incident, position))),
            id=f"i{position}",
            aria_label=f"Incident {position} of {len(report.incidents)}",
        )
        for position, incident in enumerate(report.incidents, 1)
    ]


def _lead(report: Report, incident: Incident | None, position: int) -> Html:
    """What, who, next; then a line about trouble with the input and the way to the other incidents."""
    top = lead(report, incident)
    total = len(report.incidents)
    which = f" {position} of {total}" if position and total > 1 else ""
    trouble = words.problems(report) if position <= 1 else ""
    others = [tag("a", other.title, href=f"#i{n}") for n, other in enumerate(report.incidents, 1) if n != position]
    return tag(
        "header",
        tag("p", top.verdict + which, tag("span", top.sure) if top.sure else None, class_="verdict"),
        tag("h1" if position <= 1 else "h2", top.what, class_="what"),
        tag(
            "dl",
            tag("dt", "Who"),
            tag("dd", top.who),
            tag("dt", "Next"),
            tag("dd", words.sentence(top.next), command_block(top.commands)),
        ),
        tag("p", tag("a", trouble, href="#read"), class_="caution", role="status") if trouble else None,
        tag("p", "Also: ", join(*others, by=" · "), class_="others") if others and position == 1 else None,
        class_=f"lead tone-{report.verdict}",
    )


# --- what was read ----------------------------------------------------------------------------------------------------


def _coverage(read: CoverageReport) -> Html:
    facts: list[tuple[str, Child]] = [("Read", words.coverage(read))]
    if read.first or read.last:
        facts.append(("Span", f"{words.when(read.first)} to {words.when(read.last)}"))
    if read.missing:
        facts.append(("Gaps", words.listing(read.missing, 12)))
    facts += [("Job", _job(job)) for job in read.jobs[:20]]
    facts += [("Problem", words.problem(problem)) for problem in read.problems[:50]]
    if len(read.problems) > 50:
        facts.append(("", f"and {words.count(len(read.problems) - 50, 'more problem')}"))
    facts += [("Note", note) for note in read.notes[:50]]
    rows = [tag("tr", tag("th", label, scope="row", class_="keep"), tag("td", value)) for label, value in facts]
    return tag(
        "section",
        _lines(
            tag("h2", "What was read", id="read-title"),
            tag("div", tag("table", tag("tbody", *rows), class_="read"), class_="scroll"),
            _sources(read.sources),
        ),
        id="read",
        aria_labelledby="read-title",
    )


def _job(job: JobItem) -> str:
    parts = [
        job.id,
        job.name or "",
        job.scheduler or "",
        job.state or "",
        words.count(len(job.nodes), "node") if job.nodes else "",
        words.count(job.gpus, "GPU") if job.gpus is not None else "",
    ]
    return " · ".join(part for part in parts if part)


def _sources(sources: list[SourceItem]) -> Html | None:
    if not sources:
        return None
    head = tag(
        "tr",
        *(
            tag("th", name, scope="col", class_=css)
            for name, css in (
                ("Source", None),
                ("Kind", None),
                ("Of", None),
                ("Lines", "num"),
                ("Size", "num"),
                ("From", None),
                ("To", None),
            )
        ),
    )
    day = words.main_day([source.last for source in sources])
    rows = [
        tag(
            "tr",
            tag("td", source.name, class_="mono"),
            tag("td", " ".join(filter(None, (source.kind, source.format)))),
            tag("td", " ".join(filter(None, (source.node, None if source.rank is None else f"rank {source.rank}")))),
            tag("td", f"{source.lines:,}", class_="num"),
            tag("td", words.size(source.bytes), class_="num"),
            tag("td", words.clock(source.first, day) if source.first else "", class_="keep"),
            tag("td", words.clock(source.last, day) if source.last else "", class_="keep"),
        )
        for source in sources[:MAX_SOURCES]
    ]
    rest = len(sources) - MAX_SOURCES
    more = tag("p", f"and {words.count(rest, 'more source')}") if rest > 0 else None
    return tag(
        "details",
        tag("summary", words.count(len(sources), "source")),
        tag("div", tag("table", tag("thead", head), tag("tbody", *rows)), more, class_="scroll"),
        class_="more sources",
    )
