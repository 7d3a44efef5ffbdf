"""Documents of a Kubernetes dump: one JSON value, JSON lines, JSON after JSON, or YAML; whole or cut off."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import orjson

_ITEMS = re.compile(r'"items"\s*:\s*\[')
_BLANK = re.compile(r"[\s,]*")
_YAML_ITEMS = re.compile(rb"^items:[ \t]*\r?$", re.MULTILINE)
_YAML_ITEM = re.compile(rb"^([ \t]*)- ", re.MULTILINE)
_YAML_DOCUMENT = re.compile(rb"^---(?:[ \t].*)?\r?$", re.MULTILINE)
_LOG_START = "==== START logs for container "
_LOG_END = "\n==== END logs for container "
_MAX_PROBLEMS = 20
_MAX_RESUMES = 200
"""Failures after which a list is given up: each costs a pass over the text above it."""


@dataclass(slots=True)
class Documents:
    """What could be read of a file."""

    parts: list[tuple[Any, int]] = field(default_factory=list)
    """(parsed value, line on which it begins, from 1)."""
    problems: list[tuple[str, int]] = field(default_factory=list)
    """(reason, line on which reading failed), the first few."""
    bad: int = 0
    """All parts that could not be read."""

    def fail(self, reason: str, line: int) -> None:
        self.bad += 1
        if self.bad <= _MAX_PROBLEMS:
            self.problems.append((reason, line))


def plain_text(data: bytes) -> bytes:
    """UTF-8 without a byte order mark; UTF-16 (PowerShell redirections) is converted, broken bytes are replaced."""
    if data[:2] in (b"\xff\xfe", b"\xfe\xff"):
        return data.decode("utf-16", "replace").encode()
    if data[:3] == b"\xef\xbb\xbf":
        data = data[3:]
    try:
        data.decode()
    except UnicodeDecodeError:
        return data.decode("utf-8", "replace").encode()
    return data


def read_documents(data: bytes) -> Documents:
    """Parse what `plain_text` returned; never raises on content."""
    found = Documents()
    if data.lstrip()[:1] in (b"{", b"["):
        _read_json(data, found)
    else:
        _read_yaml(data, found)
    return found


class _Lines:
    """Line numbers of rising positions, in one pass over the text."""

    def __init__(self, text: str | bytes, line: int = 1) -> None:
        self._text = text
        self._at = 0
        self._line = line

    def at(self, position: int) -> int:
        if isinstance(self._text, str):
            self._line += self._text.count("\n", self._at, position)
        else:
            self._line += self._text.count(b"\n", self._at, position)
        self._at = max(self._at, position)
        return self._line


def _read_json(data: bytes, found: Documents) -> None:
    try:
        found.parts.append((orjson.loads(data), 1))
        return
    except orjson.JSONDecodeError:
        pass  # Not one whole value: lines, several values, or cut off.
    start = len(data) - len(data.lstrip())
    first = data[start:].split(b"\n", 1)[0]
    try:
        orjson.loads(first)
    except orjson.JSONDecodeError:
        _read_json_values(data.decode(), found)
    else:
        _read_json_lines(data, found)


def _read_json_lines(data: bytes, found: Documents) -> None:
    for number, line in enumerate(data.split(b"\n"), 1):
        if not line.strip():
            continue
        try:
            found.parts.append((orjson.loads(line), number))
        except orjson.JSONDecodeError as error:
            found.fail(f"not a JSON object: {error.msg}", number)


def _read_json_values(text: str, found: Documents) -> None:
    """JSON values one after the other, each over many lines; a list that is cut off gives the items before the cut."""
    decoder = json.JSONDecoder()
    lines = _Lines(text)
    at = _skip(text, 0)
    while at < len(text):
        try:
            value, end = decoder.raw_decode(text, at)
        except (ValueError, RecursionError) as error:
            items = _ITEMS.search(text, at)
            if items is None:
                found.fail(f"malformed JSON: {_message(error)}", lines.at(_position(error, at)))
            else:
                _read_json_items(text, items.end(), lines, found)
            return
        found.parts.append((value, lines.at(at)))
        at = _skip(text, end)


def cut_off_list(text: str, key: str) -> list[Any]:
    """Whole items of the list ``key`` of a JSON text that is cut off somewhere behind its beginning."""
    found = Documents()
    start = re.search(rf'"{re.escape(key)}"\s*:\s*\[', text)
    if start is not None:
        _read_json_items(text, start.end(), _Lines(text), found)
    return [part for part, _ in found.parts]


def _read_json_items(text: str, at: int, lines: _Lines, found: Documents) -> None:
    decoder = json.JSONDecoder()
    at = _skip(text, at)
    indent = text[text.rfind("\n", 0, at) + 1 : at]
    again = re.compile(r"\n" + re.escape(indent) + r"(?=\{)") if not indent.strip() else None
    while at < len(text) and text[at] != "]":
        try:
            value, end = decoder.raw_decode(text, at)
        except (ValueError, RecursionError) as error:
            found.fail(f"malformed or cut-off JSON: {_message(error)}", lines.at(_position(error, at)))
            follower = again.search(text, at + 1) if again and found.bad < _MAX_RESUMES else None
            if follower is None:
                return
            at = follower.end()
            continue
        found.parts.append((value, lines.at(at)))
        at = _skip(text, end)


def _skip(text: str, at: int) -> int:
    """Behind blanks, and behind the logs that ``kubectl cluster-info dump`` prints between the objects."""
    while True:
        match = _BLANK.match(text, at)
        at = match.end() if match else at
        if not text.startswith(_LOG_START, at):
            return at
        end = text.find(_LOG_END, at)
        at = text.find("\n", end + 1) if end >= 0 else -1
        if at < 0:
            return len(text)


def _position(error: Exception, default: int) -> int:
    return error.pos if isinstance(error, json.JSONDecodeError) else default


def _message(error: Exception) -> str:
    if isinstance(error, json.JSONDecodeError):
        return error.msg
    return "nested too deeply" if isinstance(error, RecursionError) else "a number with too many digits"


def _read_yaml(data: bytes, found: Documents) -> None:
    # Documents are cut apart first, so that a broken one does not take its neighbours with it.
    lines = _Lines(data)
    for start, end in _cuts(data, _YAML_DOCUMENT):
        chunk = data[start:end]
        if not chunk.strip():
            continue
        line = lines.at(start)
        value, failure = _load_yaml(chunk)
        if failure is None:
            if value is not None:
                found.parts.append((value, line + chunk[: len(chunk) - len(chunk.lstrip())].count(b"\n")))
        elif not _read_yaml_items(chunk, line, found):
            _keep_front(chunk, line, failure, found)


def _cuts(data: bytes, pattern: re.Pattern[bytes]) -> Iterator[tuple[int, int]]:
    start = 0
    for match in pattern.finditer(data):
        yield start, match.start()
        start = match.end()
    yield start, len(data)


def _read_yaml_items(chunk: bytes, line: int, found: Documents) -> bool:
    """Items of a List whose document does not parse as a whole; False if it is no List."""
    head = _YAML_ITEMS.search(chunk)
    first = _YAML_ITEM.search(chunk, head.end()) if head else None
    if first is None:
        return False
    lines = _Lines(chunk, line)
    item = re.compile(rb"^" + first[1] + rb"- ", re.MULTILINE)
    starts = [match.start() for match in item.finditer(chunk, first.start())]
    # Keys of the List itself may follow its last item.
    foot = re.compile(rb"^" + first[1] + rb"[A-Za-z]", re.MULTILINE).search(chunk, starts[-1])
    ends = [*starts[1:], foot.start() if foot else len(chunk)]
    for start, end in zip(starts, ends, strict=True):
        value, failure = _load_yaml(chunk[start:end])
        if failure is not None:
            _keep_front(chunk[start:end], lines.at(start), failure, found)
        elif isinstance(value, list):
            found.parts.extend((part, lines.at(start)) for part in value)
    return True


def _keep_front(chunk: bytes, line: int, failure: tuple[str, int], found: Documents) -> None:
    """A document that is cut off inside a line still tells what stands above."""
    reason, above = failure
    found.fail(f"malformed or cut-off YAML: {reason}", line + above)
    value, again = _load_yaml(chunk[: chunk.rstrip().rfind(b"\n") + 1])
    if again is None:
        parts = value if isinstance(value, list) else [value]
        # Without its name, what is left of an object says nothing.
        found.parts.extend((part, line) for part in parts if isinstance(part, dict) and part.get("metadata"))


def _load_yaml(chunk: bytes) -> tuple[Any, tuple[str, int] | None]:
    """(value, None), or (None, (reason, lines above the error))."""
    import yaml

    try:
        return yaml.load(chunk, _loader()), None
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark
        return None, (error.problem or "syntax error", mark.line if mark else 0)
    except (yaml.YAMLError, RecursionError, ValueError) as error:
        return None, (str(error).split("\n", 1)[0], 0)


_LOADER: list[Any] = []


def _loader() -> Any:
    """``CSafeLoader`` that leaves time stamps as text, as the API's JSON has them."""
    if not _LOADER:
        import yaml

        class PlainTimes(yaml.CSafeLoader):
            yaml_implicit_resolvers = {
                char: [(tag, rule) for tag, rule in rules if not tag.endswith(":timestamp")]
                for char, rules in yaml.CSafeLoader.yaml_implicit_resolvers.items()
            }

        _LOADER.append(PlainTimes)
    return _LOADER[0]
