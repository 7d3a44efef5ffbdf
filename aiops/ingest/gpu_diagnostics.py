"""``dcgmi diag`` and ``dcgmi health -c``, as JSON and as tables: which test of which GPU failed, and why.

Each failure becomes an event of the signal `DIAGNOSTIC`, which has no pattern: `detect.gpu_diagnostics` reads it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from aiops.catalog.dcgm_errors import error_of
from aiops.ingest.console import host_of_output
from aiops.model.case import Case, Problem, Source
from aiops.model.event import Severity

DIAGNOSTIC = "gpu.diagnostic"

_JSON = re.compile(rb'"DCGM (?:GPU )?Diagnostic"\s*:|"Health Monitor Report"')
_JSON_START = re.compile(rb"(?:\xef\xbb\xbf)?(?:[^{}\n]{0,200}\n){0,4}\s*\{")
"""A document, after a prompt or the name of the host at most."""
_TABLE = re.compile(rb"^\| (?:Diagnostic +\| Result +\||Health Monitor Report +)", re.MULTILINE)
_TABLE_LINE = re.compile(rb"^\s*(?:[|+].*|Successfully ran diagnostic.*)?\r?$")
_TOOL = re.compile(
    r"(?<![^-_./! ])(?:dcgmi?|diag(?:nostics?)?|health|check|gpu|level|[rl]?[1-4]|json|out(?:put)?|before|after)(?=[-_. ]|$)",
    re.IGNORECASE,
)
_BAD = {"fail": Severity.ERROR, "failure": Severity.ERROR, "warn": Severity.WARNING, "warning": Severity.WARNING}
_GPU = re.compile(r"\bGPU ?(\d{1,3})\b")
_GPU_LIST = re.compile(r"^(fail|warn)\w{0,20}\s{0,9}-\s{0,9}(all|GPUs?:[\d, ]+)", re.IGNORECASE)
_RESULT = re.compile(r"^(?:GPU ?(\d{1,3}): *)?(pass|fail|warn|skip|not run)\w*\b", re.IGNORECASE)
_WARNING = re.compile(r"^(?:Warning|Error)(?:: *(?:GPU ?(\d{1,3}))?)?$", re.IGNORECASE)
_HEAD = 65_536
_DEPTH = 6
_MOST = 2_000
_TEXT = 400
_MESSAGE = 1000
"""Characters kept of a message; each is searched for the words of every error."""


@dataclass(frozen=True, slots=True)
class _Failure:
    test: str
    status: str
    gpu: int | None
    message: str
    line: int = 0
    text: str = ""
    number: int | None = None
    category: int | None = None


def sniff_diagnostics(head: bytes) -> str | None:
    """``dcgmi diag`` or ``dcgmi health``, as JSON or as a table, if the whole text is that."""
    if _JSON_START.match(head) is not None:
        match = _JSON.search(head)
        return None if match is None else "dcgmi health -j" if b"Health" in match[0] else "dcgmi diag -j"
    match = _TABLE.search(head)
    if match is None:
        return None
    lines = head.split(b"\n")
    own = sum(_TABLE_LINE.match(line) is not None for line in lines)
    if own * 10 < len(lines) * 8:
        return None
    return "dcgmi health" if b"Health" in match[0] else "dcgmi diag"


def read_diagnostics(source: Source, data: bytes, case: Case) -> None:
    """Append an event for each failed test and each warning of a GPU."""
    text = data.decode("utf-8-sig", "replace")
    lines = text.splitlines()
    source.lines = source.lines or len(lines)
    form = sniff_diagnostics(data[:_HEAD]) or source.format
    source.format = source.format or form
    table, health = not form.endswith("-j"), form.startswith("dcgmi health")
    begin = 0 if table else text.find("{")
    outside = [line for line in lines if line[:1] not in "|+"] if table else text[:begin].splitlines()
    source.node = host_of_output(source, outside, _TOOL)
    if source.node is not None:
        case.topology.nodes.setdefault(source.node, set()).add(source.name)
    if table:
        failures = _health_table(lines) if health else _diag_table(lines)
    else:
        try:
            document, _ = json.JSONDecoder().raw_decode(text, begin)
        except (ValueError, RecursionError) as problem:
            line = getattr(problem, "lineno", None)
            reason = f"not valid JSON, so that no result was read: {problem}"
            case.coverage.problems.append(Problem(source.name, reason, line))
            return
        failures = _health_json(document) if health else _diag_json(document)
    starts = _offsets(data)
    for count, failure in enumerate(failures):
        if count >= _MOST:
            case.coverage.problems.append(
                Problem(source.name, f"more than {_MOST} failed results; the rest is left out")
            )
            return
        line = failure.line or _line_of(lines, failure.message or failure.status)
        shown = failure.text or (lines[line - 1].strip() if line else failure.message)
        fields = {"test": failure.test, "status": failure.status, "gpu": failure.gpu, "message": failure.message}
        fields |= {"error": failure.number, "category": failure.category}
        case.events.append(
            DIAGNOSTIC,
            source=source.index,
            severity=_BAD[failure.status],
            line=line,
            offset=starts[line - 1] if 0 < line <= len(starts) else 0,
            node=source.node,
            fields={key: value for key, value in fields.items() if value is not None},
            text=shown[:_TEXT],
        )


def _offsets(data: bytes) -> list[int]:
    starts, position = [0], data.find(b"\n")
    while position >= 0:
        starts.append(position + 1)
        position = data.find(b"\n", position + 1)
    return starts


def _line_of(lines: list[str], message: str) -> int:
    """Number of the line of a JSON document that holds a message, 0 if none does."""
    for wanted in (json.dumps(message)[1:-1], json.dumps(message, ensure_ascii=False)[1:-1]):
        for number, line in enumerate(lines, 1):
            if wanted and wanted in line:
                return number
    return 0


def _diag_json(value: Any, depth: int = 0) -> Iterator[_Failure]:
    """Results wherever they stand: below the diagnostic, or below one of its iterations."""
    if depth > _DEPTH:
        return
    if isinstance(value, list):
        for item in value:
            yield from _diag_json(item, depth + 1)
    elif isinstance(value, dict):
        if isinstance(value.get("tests"), list):
            for test in value["tests"]:
                if isinstance(test, dict):
                    yield from _test_json(test)
            return
        for key, item in value.items():
            if key != "entity_groups":
                yield from _diag_json(item, depth + 1)


def _test_json(test: Mapping[str, Any]) -> Iterator[_Failure]:
    name = str(test.get("name", ""))[:80]
    results = test.get("results")
    for result in results if isinstance(results, list) else ():
        if not isinstance(result, dict):
            continue
        status = str(result.get("status", "")).lower()
        if status not in _BAD:
            continue
        gpus = _gpus_of(result)
        told = result.get("warnings", result.get("warning"))
        warnings = told or [None] if isinstance(told, list) else [told]
        for warning in warnings:
            said = warning if isinstance(warning, dict) else {"warning": warning}
            message = str(said.get("warning") or "")[:_MESSAGE]
            named = _GPU.search(message)
            own: list[int | None] = [*gpus] or [int(named[1]) if named else None]
            for gpu in own:
                yield _Failure(
                    name,
                    status,
                    gpu,
                    message,
                    number=_int(said.get("error_id")),
                    category=_int(said.get("error_category")),
                )


def _gpus_of(result: Mapping[str, Any]) -> list[int]:
    """GPUs of a result: an entity since DCGM 4, before that a number or a list of numbers as text."""
    if "entity_id" in result:
        return (
            [int(result["entity_id"])]
            if result.get("entity_group") == "GPU" and _int(result["entity_id"]) is not None
            else []
        )
    told = str(result.get("gpu_id", result.get("gpu_ids", "")))
    return [int(word) for word in re.findall(r"\d{1,3}", told)]


def _int(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 10**6 else None


def _index(text: str) -> int | None:
    """Number of a GPU; `int` refuses thousands of digits."""
    return int(text) if text.isdecimal() and len(text) < 5 else None


def _health_json(document: Any) -> Iterator[_Failure]:
    body = document.get("body") if isinstance(document, dict) else None
    groups = body.get("GPU") if isinstance(body, dict) else None
    for number, gpu in _children(groups):
        for _, errors in _children(gpu):
            for system, found in _children(errors):
                status = str(found.get("value", "")).lower()
                if status in _BAD:
                    told = found.get("overflow", [])
                    parts = told if isinstance(told, list) else [told]
                    message = " ".join(
                        str(part.get("value", part) if isinstance(part, dict) else part) for part in parts
                    )
                    yield _Failure(system, status, _index(number), message[:_MESSAGE])


def _children(value: Any) -> Iterator[tuple[str, Mapping[str, Any]]]:
    below = value.get("children") if isinstance(value, dict) else None
    for name, child in below.items() if isinstance(below, dict) else ():
        if isinstance(child, dict):
            yield str(name)[:80], child


def _cells(lines: list[str]) -> Iterator[tuple[int, str, str]]:
    """Line number and the two cells of each row; rules and headings between them have empty cells."""
    for number, line in enumerate(lines, 1):
        bare = line.strip()
        parts = bare.strip("|").split("|")
        if bare.startswith("|") and len(parts) == 2 and not bare.startswith("|--"):
            yield number, parts[0].rstrip(), parts[1].strip()


def _diag_table(lines: list[str]) -> Iterator[_Failure]:
    """Rows ``| Diagnostic | Fail - GPU: 3 |`` (until DCGM 3) or ``| | GPU3: Fail |``, with warnings below them."""
    test, status = "", ""
    gpus: list[int | None] = [None]
    open_: tuple[list[int | None], str, int] | None = None
    waiting: dict[int | None, tuple[str, str, int]] = {}
    parts: list[str] = []

    def closed() -> Iterator[_Failure]:
        nonlocal open_
        if open_ is not None:
            whole = _joined(parts)
            named = _GPU.search(whole)
            for gpu in open_[0]:
                own = gpu if gpu is not None or named is None else int(named[1])
                waiting.pop(own, None)
                yield _Failure(test, open_[1], own, whole, open_[2], lines[open_[2] - 1].strip())
        open_ = None
        parts.clear()

    def silent() -> Iterator[_Failure]:
        """Failures for which no warning was printed."""
        for gpu, (name, verdict, number) in waiting.items():
            yield _Failure(name, verdict, gpu, "", number, lines[number - 1].strip())
        waiting.clear()

    for number, left, right in _cells(lines):
        name = left.strip()
        warning, result = _WARNING.match(name), _RESULT.match(right)
        if warning is not None and status in _BAD:
            if open_ is None or name:
                yield from closed()
            open_ = [int(warning[1])] if warning[1] else list(gpus), status, number
            parts.append(right)
        elif name == "" and result is not None and result[1]:
            yield from closed()
            verdict = result[2].lower()
            if verdict in _BAD:
                gpus, status = [int(result[1])], verdict
                waiting[int(result[1])] = test, verdict, number
                waiting.pop(None, None)
        elif name == "" and open_ is not None:
            parts.append(right)
        elif name and name != "Info" and not name.startswith("Info:"):
            yield from closed()
            yield from silent()
            test, status = name[:80], result[2].lower() if result else ""
            named_gpus = _GPU_LIST.match(right)
            gpus = [*map(int, re.findall(r"\d{1,3}", named_gpus[2]))] if named_gpus else []
            gpus = gpus or [None]
            if status in _BAD:
                waiting = {gpu: (test, status, number) for gpu in gpus}
        else:
            yield from closed()
    yield from closed()
    yield from silent()


def _joined(parts: list[str]) -> str:
    """A message that a table broke into cells: between words until DCGM 3, anywhere since."""
    ways = " ".join(parts)[:_MESSAGE], "".join(parts)[:_MESSAGE]
    return next((way for way in ways if error_of(None, way) is not None), ways[0])


def _health_table(lines: list[str]) -> Iterator[_Failure]:
    """Rows ``| -> 3 | Failure |`` of a GPU, ``| -> Memory system | Failure |`` of a part of it, and its message below."""
    group, gpu = "", None
    open_: tuple[str, str, int | None, int] | None = None
    parts: list[str] = []

    def closed() -> Iterator[_Failure]:
        if open_ is not None:
            yield _Failure(
                open_[0], open_[1], open_[2], _joined(parts)[:_MESSAGE], open_[3], lines[open_[3] - 1].strip()
            )

    for number, left, right in _cells(lines):
        depth = len(left) - len(left.lstrip())
        name = left.strip().removeprefix("->").strip()
        if not name:
            if not parts and open_ is not None:
                open_ = open_[0], open_[1], open_[2], number
            parts.append(right)
            continue
        yield from closed()
        open_, parts = None, []
        if "->" not in left:
            group = name
        elif group.startswith("GPU") and name.isdecimal():
            gpu = _index(name)
        elif group.startswith("GPU") and depth > 1 and name != "Errors" and right.lower() in _BAD:
            open_ = name[:80], right.lower(), gpu, number
    yield from closed()
