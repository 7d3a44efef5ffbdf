"""``aiops slack``: the message, to look at or to post."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from aiops.model.report import Report

app = typer.Typer(no_args_is_help=True, help="The incident as a Slack message: preview it or post it.")
_Paths = Annotated[
    list[str], typer.Argument(metavar="PATH...", help="A bundle as for analyze, or a saved JSON report.")
]


def _report(paths: list[str]) -> Report:
    from aiops.cli.saved import report_of

    return report_of(paths)


@app.command("preview")
def preview(paths: _Paths) -> None:
    """Print the blocks as JSON."""
    from aiops.cli import show
    from aiops.redaction import redact_report
    from aiops.report import renderer

    report, _ = redact_report(_report(paths))
    show.write(renderer("slack")(report))


@app.command("post")
def post(
    paths: _Paths,
    channel: Annotated[
        str | None, typer.Option("--channel", help="Channel id; the token is read from SLACK_BOT_TOKEN.")
    ] = None,
    base_url: Annotated[
        str | None, typer.Option("--base-url", help="Another Slack API, for tests and proxies.")
    ] = None,
) -> None:
    """Post to an incoming webhook (AIOPS_SLACK_WEBHOOK) or, with --channel, with a bot token (SLACK_BOT_TOKEN)."""
    import os

    from aiops.cli import show
    from aiops.errors import InputError
    from aiops.slack import post as send

    webhook, token = os.environ.get("AIOPS_SLACK_WEBHOOK"), os.environ.get("SLACK_BOT_TOKEN")
    if channel and not token:
        raise InputError("set SLACK_BOT_TOKEN to post to a channel")
    if not channel and not webhook:
        raise InputError("set AIOPS_SLACK_WEBHOOK, or give --channel and set SLACK_BOT_TOKEN")
    result = send(
        _report(paths),
        webhook=None if channel else webhook,
        token=token if channel else None,
        channel=channel,
        base_url=base_url,
    )
    show.write(f"posted {result.messages} message{'s' if result.messages != 1 else ''}")
