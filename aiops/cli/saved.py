"""A report from a bundle, or from a JSON file that holds one."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from aiops.errors import InputError

if TYPE_CHECKING:
    from aiops.model.report import Report


def report_of(paths: list[str]) -> Report:
    """Analyse ``paths``, or read the one JSON report that they name.

    Raises:
        InputError: the path cannot be read or holds neither.
    """
    if len(paths) == 1 and Path(paths[0]).is_file():
        with open(paths[0], "rb") as handle:
            head = handle.read(400)
        if b'"aiops.report/' in head:
            from pydantic import ValidationError

            from aiops.model.report import Report

            try:
                report = Report.from_json(Path(paths[0]).read_bytes())
                report.to_json()
                return report
            except ValidationError as error:
                first = error.errors()[0]
                raise InputError(
                    f"no valid report: {'.'.join(map(str, first['loc']))}: {first['msg']}", path=paths[0]
                ) from None
            except TypeError as problem:  # what JSON can hold and our own reports cannot: 10**30
                raise InputError(f"no valid report: {problem}", path=paths[0]) from None
    from aiops.pipeline import analyze_paths

    return analyze_paths(paths)
