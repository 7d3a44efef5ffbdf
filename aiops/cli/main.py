"""Entry point ``aiops``: the commands, and how errors become exit codes."""

from __future__ import annotations

import gc
import os
import signal
import sys
from typing import Annotated

import typer

# nothing that happens to be installed shall look into a report; looking for such plugins costs time as well
os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")

from aiops.cli import analyze, catalog, collect, demo, scan, slack, surfaces, triage
from aiops.errors import AiopsError

app = typer.Typer(
    name="aiops",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
    help="Incident analyzer for GPU training clusters: evidence in, one verdict out, with proof and the next command.",
    epilog="Exit codes: 0 no incident, 10 incident, 11 inconclusive, 2 bad input or usage, 3 a source failed.",
)


def _version(value: bool) -> None:
    if value:
        from aiops import __version__

        typer.echo(f"aiops {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Options of all commands."""


app.command("analyze")(analyze.analyze)
app.command("demo")(demo.demo)
app.command("scan")(scan.scan)
app.command("explain")(catalog.explain)
app.add_typer(catalog.app, name="catalog")
app.command("triage")(triage.triage)
app.add_typer(collect.app, name="collect")
app.add_typer(slack.app, name="slack")
app.command("dashboard")(surfaces.dashboard)
app.command("schema")(surfaces.schema)


def main() -> None:
    """Run the command line; never shows a traceback for an error of the input, of a source or of the system."""
    _open_standard_streams()
    # a case is a million small objects that stay: looking through them for cycles again and again finds nothing
    gc.set_threshold(100_000, 50, 1000)
    # the default would end the process on the spot and leave unpacked evidence behind
    signal.signal(signal.SIGTERM, lambda number, _frame: sys.exit(128 + number))
    try:
        app()
    except AiopsError as error:
        sys.stderr.write(f"aiops: {_one_line(error)}\n")
        raise SystemExit(error.exit_code) from None
    except BrokenPipeError:
        # the reader of our output went away (``aiops scan … | head``); keep the interpreter from complaining at exit
        _discard_output()
        raise SystemExit(0) from None
    except OSError as error:
        # a full disk, a closed output, a directory that vanished: the system's words say it, a traceback does not
        where = f"{error.filename}: " if isinstance(error.filename, str) else ""
        sys.stderr.write(f"aiops: {_one_line(f'{where}{error.strerror or error}')}\n")
        _discard_output()
        raise SystemExit(2) from None
    except KeyboardInterrupt:
        sys.stderr.write("aiops: interrupted\n")
        raise SystemExit(130) from None


def _open_standard_streams() -> None:
    """Python has ``None`` for a stream that is closed (``>&-``); then nobody wants what is written there."""
    if sys.stdout is None:
        sys.stdout = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115 - for the whole process
    if sys.stderr is None:
        sys.stderr = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115


def _discard_output() -> None:
    """Nothing more can be written: the interpreter must not try again, and complain, when it ends."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)


def _one_line(error: Exception | str) -> str:
    """Names in messages come from the input: no control characters reach the terminal."""
    return "".join(c if c.isprintable() else f"\\x{ord(c):02x}" for c in str(error))
