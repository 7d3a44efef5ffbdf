"""How a case was read, for people: what each file was taken for and why, who ran where, which clocks are off."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from aiops.ingest.facts import Facts, facts_of
from aiops.model.case import Case, RankPlace, Source
from aiops.model.clock import iso
from aiops.model.event import TimeQuality

_MOST_FILES = 500
_MOST_RANKS = 64
_MOST_DOMAINS = 200
_MOST_SOURCES = 20
_MOST_CHILDREN = 16
_QUALITY = {
    TimeQuality.EXACT: "exact",
    TimeQuality.PARTIAL: "year assumed",
    TimeQuality.UPTIME: "since boot",
    TimeQuality.INHERITED: "from a line above",
    TimeQuality.NONE: "none",
}


def explain(case: Case) -> str:
    """Plain text without a verdict, files in the order of their names."""
    return "\n".join(_lines(case, facts_of(case))) + "\n"


def _lines(case: Case, facts: Facts) -> Iterator[str]:
    qualities: dict[int, Counter[str]] = {}
    for event in case.events:
        qualities.setdefault(event.source, Counter())[_QUALITY[event.quality]] += event.count
    problems: dict[str, list[str]] = {}
    for problem in case.coverage.problems:
        where = f"line {problem.line}: " if problem.line else ""
        problems.setdefault(problem.source, []).append(where + problem.reason)
    if facts.declared.path:
        yield f"stated in {_plain(facts.declared.path)}: what it says stands above what is inferred"
        yield ""
    sources = sorted(case.sources, key=lambda source: source.name)
    yield f"FILES       {len(sources)} read, {len(problems)} with remarks"
    for source in sources[:_MOST_FILES]:
        yield from _file(source, facts, qualities.get(source.index, Counter()), problems.pop(source.name, []))
    if len(sources) > _MOST_FILES:
        yield f"  … and {len(sources) - _MOST_FILES} more"
    for name in sorted(problems)[:_MOST_FILES]:
        yield f"  {_plain(name)}"
        for reason in problems[name]:
            yield f"    problem   {_plain(reason)}"
    yield ""
    yield from _ranks(case)
    yield ""
    yield from _tree(case)
    yield from _clocks(case, facts)
    if facts.duplicates:
        yield ""
        yield f"DUPLICATES  {len(facts.duplicates)}"
        for name, other in sorted(facts.duplicates)[:_MOST_FILES]:
            yield f"  {_plain(name)} repeats {_plain(other)}"


def _file(source: Source, facts: Facts, quality: Counter[str], problems: list[str]) -> Iterator[str]:
    yield f"  {_plain(source.name)}"
    form = f", {source.format}" if source.format else ""
    yield f"    kind      {source.kind}{form}: {_plain(facts.why.get(source.index, 'its content'))}"
    if source.node:
        yield f"    host      {_plain(source.node)}: {facts.node_why.get(source.index, 'its content')}"
    if source.rank is not None:
        yield f"    rank      {source.rank}: {facts.rank_why.get(source.index, 'its content')}"
    if source.pod:
        yield f"    pod       {_plain(source.pod)}"
    if source.lines:
        yield f"    lines     {source.lines:,}"
    first, last = iso(source.first_ts), iso(source.last_ts)
    if first:
        yield f"    times     {first} to {last} (of lines that matter)"
    if quality:
        counts = ", ".join(f"{name} {count:,}" for name, count in sorted(quality.items()))
        yield f"    stamps    {counts}; zone: {facts.zones.get(source.index, 'as written, else UTC')}"
    for reason in problems:
        yield f"    problem   {_plain(reason)}"


def _ranks(case: Case) -> Iterator[str]:
    topology = case.topology
    ranks = [topology.ranks[rank] for rank in sorted(topology.ranks)]
    size = f" of {topology.world_size}" if topology.world_size else ""
    yield f"RANKS       {len(ranks)}{size} placed"
    for place in ranks[:_MOST_RANKS]:
        yield f"  {_place(place)}"
    if len(ranks) > _MOST_RANKS:
        yield f"  … and {len(ranks) - _MOST_RANKS} more"


def _tree(case: Case) -> Iterator[str]:
    """Domains with what hangs on them and the line that says so, the highest first."""
    tree, nics = case.topology.tree, case.topology.gpu_nics
    if tree.edges:
        domains = tree.domains()
        yield f"TOPOLOGY    {len(tree.nodes())} nodes under {len(domains)} domains"
        for domain in sorted(domains, key=lambda d: (d.hierarchy, -tree.height(d), d))[:_MOST_DOMAINS]:
            yield f"  {domain.hierarchy}: {_plain(str(domain))}, {len(tree.members(domain))} nodes"
            told: dict[str, list[str]] = {}
            for edge in tree.children(domain):
                port = f" ({edge.port})" if edge.port else ""
                told.setdefault(f"{edge.proof.source}:{edge.proof.line or '?'}", []).append(f"{edge.child}{port}")
            for where, names in list(told.items())[:_MOST_SOURCES]:
                more = f" and {len(names) - _MOST_CHILDREN} more" if len(names) > _MOST_CHILDREN else ""
                yield f"    {_plain(', '.join(names[:_MOST_CHILDREN]))}{more} — {_plain(where)}"
            if len(told) > _MOST_SOURCES:
                yield f"    … and {len(told) - _MOST_SOURCES} more lines"
        if len(domains) > _MOST_DOMAINS:
            yield f"  … and {len(domains) - _MOST_DOMAINS} more"
        yield ""
    if nics:
        yield f"GPU AND NIC {len(nics)} GPUs"
        for (node, gpu), near in sorted(nics.items())[:_MOST_RANKS]:
            yield f"  {_plain(node)} GPU {gpu}: {_plain(', '.join(f'{nic} {how}' for nic, how in near[:3])) or 'no NIC'}"
        yield ""


def _place(place: RankPlace) -> str:
    parts = [f"rank {place.rank}: {_plain(place.node or 'host unknown')}"]
    if place.pod:
        parts.append(f"pod {_plain(place.pod)}")
    if place.gpu is not None:
        parts.append(f"GPU {place.gpu}")
    if place.pci:
        parts.append(place.pci)
    return ", ".join(parts) + (f" — {_plain(place.sure)}" if place.sure else "")


def _clocks(case: Case, facts: Facts) -> Iterator[str]:
    yield "CLOCKS"
    for note in case.notes:
        yield f"  {_plain(note)}"
    for node, starts in sorted(facts.boots.items()):
        yield f"  {_plain(node)} booted at {', '.join(iso(start) or '?' for start in starts[-5:])}"
    for skew in facts.skews:
        if not skew.corrected:
            yield (
                f"  {_plain(skew.node)} and {_plain(skew.reference)} agree: {skew.seconds:+.1f} s "
                f"±{skew.spread:.1f} s from {skew.pairs} events"
            )
    if not case.notes and not facts.boots and not facts.skews:
        yield "  nothing had to be assumed"


def _plain(text: str) -> str:
    """Names and words of the input without control characters: they end on a terminal."""
    return "".join(c if c.isprintable() else f"\\x{ord(c):02x}" for c in text)[:400]
