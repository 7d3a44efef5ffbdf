"""``aiops catalog`` and ``aiops explain``: look into the knowledge, and check it."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from aiops.errors import InputError

if TYPE_CHECKING:
    from aiops.catalog import Catalog, FailureClass, Signal

app = typer.Typer(no_args_is_help=True, help="Signals, failure classes and playbooks: list, show, check.")
_Extra = Annotated[list[Path] | None, typer.Option("--catalog", help="Directory with a site's own entries.")]


def _load(extra: list[Path] | None) -> Catalog:
    from aiops.catalog import load_catalog
    from aiops.config import Settings

    return load_catalog((*Settings.from_environment().catalog_dirs, *(extra or ())))


@app.command("list")
def list_entries(
    what: Annotated[str, typer.Argument(help="failures, signals or playbooks.")] = "failures", catalog: _Extra = None
) -> None:
    """List entries, one a line: id and title."""
    from aiops.cli import show

    loaded = _load(catalog)
    rows: list[tuple[str, str]]
    if what == "failures":
        rows = [(f.id, f.title) for f in loaded.failures.values()]
    elif what == "signals":
        rows = [(s.id, s.title) for s in loaded.signals]
    elif what == "playbooks":
        rows = [(p.id, " → ".join(step.action for step in p.steps)) for p in loaded.playbooks.values()]
    else:
        raise InputError(f"unknown kind of entry {what!r}; choose failures, signals or playbooks")
    width = max(len(name) for name, _ in rows)
    show.write("\n".join(f"{name:{width}}  {title}" for name, title in sorted(rows)))


@app.command("show")
def show_entry(
    name: Annotated[str, typer.Argument(help="Id of a failure class or signal, or an Xid such as 79.")],
    catalog: _Extra = None,
) -> None:
    """Show one entry with everything it says."""
    explain([name], catalog)


@app.command("lint")
def lint(catalog: _Extra = None) -> None:
    """Check every entry: one sentence for each mistake, and exit code 2 if there is one; notes do not change the exit code."""
    from aiops.catalog.lint import lint_catalog, lint_notes
    from aiops.cli import show

    loaded = _load(catalog)
    mistakes = lint_catalog(loaded)
    if mistakes:
        show.write("\n".join(mistakes))
        raise typer.Exit(2)
    for note in lint_notes(loaded):
        show.write(f"note: {note}")
    show.write(
        f"{len(loaded.signals)} signals, {len(loaded.failures)} failure classes, {len(loaded.playbooks)} playbooks: no mistakes"
    )


@app.command("test")
def test(
    text: Annotated[str, typer.Argument(help="A log line; - reads lines from standard input.")], catalog: _Extra = None
) -> None:
    """Say which signals a line hits and which failure classes they are signs of."""
    import sys

    from aiops.catalog.lint import signals_of_line
    from aiops.cli import show

    loaded = _load(catalog)
    lines = sys.stdin.read().splitlines() if text == "-" else [text]
    hits = 0
    for line in lines:
        for signal, fields in signals_of_line(loaded, line):
            hits += 1
            classes = sorted(
                {
                    f.id
                    for f, cause in loaded.causes_by_sign.get(signal.id, ())
                    if cause.matches(signal.id, fields) or not cause.where
                }
            )
            show.write(show.plain(f"{signal.id}  {fields or ''}  → {', '.join(classes) or 'no class by itself'}"))
    if not hits:
        show.write("no signal")
        raise typer.Exit(11)


def explain(
    terms: Annotated[
        list[str],
        typer.Argument(
            metavar="TERM", help="A failure class, signal, playbook, or an Xid or SXid code (79, xid 79, sxid 20034)."
        ),
    ],
    catalog: _Extra = None,
) -> None:
    """Explain a failure class, a signal, a playbook, an Xid or an SXid code."""
    from aiops.cli import show

    term = " ".join(terms)
    loaded = _load(catalog)
    code = re.fullmatch(r"\s*(s?xid)?[\s:.=-]*(\d{1,6})\s*", term, re.I)
    if term in loaded.failures:
        show.write(_failure(loaded, loaded.failures[term]))
    elif term in loaded.by_id:
        show.write(_signal(loaded, loaded.by_id[term]))
    elif term in loaded.playbooks:
        show.write("\n".join([term, *_steps(loaded, term)]))
    elif code:
        show.write(_code(loaded, int(code[2]), sxid=(code[1] or "").lower() == "sxid" or int(code[2]) >= 10_000))
    else:
        near = [n for n in (*loaded.failures, *loaded.by_id, *loaded.playbooks) if term.lower() in n.lower()][:8]
        raise InputError(
            f"nothing is known as {show.plain(term)!r}"
            + (f"; similar: {', '.join(near)}" if near else "; see 'aiops catalog list failures'")
        )


def _steps(catalog: Catalog, playbook: str) -> list[str]:
    return [
        f"  {number}. {step.action}: {step.why}" for number, step in enumerate(catalog.playbooks[playbook].steps, 1)
    ]


def _failure(catalog: Catalog, failure: FailureClass) -> str:
    lines = [
        f"{failure.id}: {failure.title}",
        "",
        f"at fault      {failure.culprit}{' (hardware)' if failure.hardware else ''}",
        f"requeue       {failure.requeue}",
        f"checkpoint    rule {failure.checkpoint}",
        f"source        {failure.source}",
        "",
        "signs",
    ]
    lines += [f"  {_sign(c.sign, c.where)}  weight {c.weight:g}" for c in failure.causes]
    if failure.contradicts:
        lines += [
            "speaks against it",
            *(f"  {_sign(c.sign, c.where)}  weight {c.weight:g}: {c.why}" for c in failure.contradicts),
        ]
    if failure.effects:
        lines += [
            "what follows from it",
            "  " + ", ".join(dict.fromkeys(_sign(e.sign, e.where) for e in failure.effects)),
        ]
    if failure.decides:
        lines += ["what would decide", *(f"  {text}" for text in failure.decides)]
    lines += [
        "what to do",
        *(
            f"  {number}. {step.action}: {step.why}"
            for number, step in enumerate(catalog.playbooks[failure.playbook].steps, 1)
        ),
    ]
    return "\n".join(lines)


def _sign(sign: str, where: object) -> str:
    if not where:
        return sign
    assert hasattr(where, "items")
    return f"{sign}[{', '.join(f'{k}={chr(124).join(map(str, v))}' for k, v in where.items())}]"


def _signal(catalog: Catalog, signal: Signal) -> str:
    classes = sorted({f.id for f, _ in catalog.causes_by_sign.get(signal.id, ())})
    return "\n".join(
        [
            f"{signal.id}: {signal.title}",
            "",
            f"appears in    {', '.join(sorted(signal.kinds))} lines",
            f"role          {signal.role.value}",
            f"source        {signal.source}",
            f"sign of       {', '.join(classes) or 'nothing by itself'}",
            "examples",
            *(f"  {example}" for example in signal.examples),
        ]
    )


def _code(catalog: Catalog, code: int, *, sxid: bool) -> str:
    table, word = (catalog.sxids, "SXid") if sxid else (catalog.xids, "Xid")
    entry = table.get(code)
    if entry is None:
        raise InputError(f"{word} {code} is not in the catalog")
    sign, field = ("nvswitch.sxid", "sxid") if sxid else ("gpu.xid", "xid")
    classes = [
        f
        for f, cause in catalog.causes_by_sign.get(sign, ())
        if str(code) in {str(v) for v in cause.where.get(field, ())}
    ]
    lines = [
        f"{word} {code}: {entry.name}",
        "",
        f"category      {entry.category}",
        f"severity      {entry.severity}",
        f"NVIDIA says   {entry.action}",
        f"source        {entry.source}",
    ]
    lines += [f"sign of       {failure.id}: {failure.title} (requeue: {failure.requeue})" for failure in classes]
    if not classes:
        lines.append("sign of       no failure class by itself")
    return "\n".join(lines)
