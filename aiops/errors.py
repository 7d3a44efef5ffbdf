"""The errors a user can meet, each with the exit code of the report contract.

AiopsError
├── InputError        bad input or usage: names the file and the line, exit code 2
├── CatalogError      a broken catalog entry: names the file and the entry, exit code 2
└── SourceError       a live source (Prometheus, Slack, a model) failed, exit code 3
"""

from __future__ import annotations


class AiopsError(Exception):
    """Root of all errors that are shown to the user without a traceback."""

    exit_code = 2


class InputError(AiopsError):
    """The input cannot be analysed; the message names the path (and line, if any)."""

    def __init__(self, reason: str, *, path: str | None = None, line: int | None = None) -> None:
        where = "" if path is None else path if line is None else f"{path}:{line}"
        super().__init__(f"{where}: {reason}" if where else reason)
        self.reason = reason
        self.path = path
        self.line = line


class CatalogError(AiopsError):
    """A catalog file or entry is wrong."""


class SourceError(AiopsError):
    """A live source could not be read or written."""

    exit_code = 3
