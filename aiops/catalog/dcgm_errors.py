"""Errors of DCGM's diagnostics and health watches: which sign each of them is."""

from __future__ import annotations

import csv
import functools
import re
from dataclasses import dataclass

from aiops.resources import catalog_dir


@dataclass(frozen=True, slots=True)
class DcgmError:
    """One row of ``dcgm_errors.csv``. Source: ``dcgm_errors.h`` of DCGM 4.6, whose numbers have not changed since 2.4."""

    id: int
    name: str
    sign: str
    """Sign of a finding; errors that are not in the table are the sign ``gpu.diag_failed``."""
    match: re.Pattern[str]
    """Its message, for output that has no numbers."""
    example: str


@functools.cache
def dcgm_errors() -> dict[int, DcgmError]:
    """The built-in table by number."""
    with open(catalog_dir() / "dcgm_errors.csv", encoding="utf-8", newline="") as handle:
        return {
            int(row["id"]): DcgmError(
                int(row["id"]), row["name"], row["sign"], re.compile(row["match"]), row["example"]
            )
            for row in csv.DictReader(handle)
        }


def error_of(number: int | None, message: str) -> DcgmError | None:
    """The error of a number if that is given, else of a message; ``None`` if the table has none."""
    errors = dcgm_errors()
    if number is not None:
        return errors.get(number)
    return next((error for error in errors.values() if error.match.search(message)), None)
