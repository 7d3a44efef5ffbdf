"""What no rule knows: lines that look like errors, grouped by their constant words."""

from __future__ import annotations

import re
import string
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from aiops.scan.engine import make_engine
from aiops.scan.rules import Program
from aiops.scan.scanner import Scanner

SAMPLE = 24 << 20
"""Bytes looked at in a case, shared by its files."""
_LEAST = 64 << 10
_SMALL, _TOGETHER = 16 << 10, 256 << 10
"""Bytes of a small file, and of small files looked at as one."""
_EXEMPLARS = 600
_SHOWN = 400
_LOOKS_BAD = (
    r"\b(?:ERROR|FATAL|CRITICAL|PANIC|SEVERE)\b",
    r"\b(?:[Ee]rror|[Ff]atal|[Pp]anic|[Ff]ailed|[Ff]ailure|[Aa]bort(?:ed|ing)?|[Cc]orrupt(?:ed)?|[Rr]efused|[Dd]enied)\b",
    r"[a-z](?:Error|Exception)\b",
    r"\b(?:[Cc]annot|[Uu]nable to|[Tt]imed out|[Uu]nreachable|[Uu]nexpected)\b",
)
_HARMLESS = re.compile(rb"\b(?:INFO|DEBUG|TRACE|info|debug|notice)\b|^frame #")
_VARYING = bytes(range(0x30, 0x3A)) + b"abcdefABCDEF" + string.punctuation.encode()
_NUMBER = re.compile(r"\d|^[\w.-]*/[\w./-]*$|^[0-9a-f]{8,}$")
_ALIKE = 0.6
"""Share of equal words from which on two lines of equal length are one template (Drain's default is 0.4 to 0.5;
error lines are short)."""


@dataclass(slots=True)
class Template:
    """Lines with the same constant words."""

    words: list[str]
    """``<*>`` stands for what differs."""
    count: int
    """Lines of the sample."""
    files: set[int]
    file: int
    """Where its first line stands: number of the file in the caller's list."""
    offset: int
    text: str


def unknown_templates(files: Sequence[tuple[Path, int]], known: Scanner, sample: int = SAMPLE) -> list[Template]:
    """Templates of error-looking lines that no rule of ``known`` hits, in order of appearance.

    ``files`` are (path, size). Of large files the beginning and the end are looked at, ``sample`` bytes in all.

    Raises:
        OSError: a file cannot be read.
    """
    keys: dict[bytes, Template] = {}
    share = max(_LEAST, sample // max(1, len(files)))
    for number, offset, line in _bad_lines_of(files, share):
        key = line.translate(None, _VARYING)
        found = keys.get(key)
        if found is not None:
            found.count += 1
            found.files.add(number)
        elif len(keys) < _EXEMPLARS:
            text = line[:_SHOWN].decode("utf-8", "replace")
            keys[key] = Template(_masked(text), 1, {number}, number, offset, text)
    exemplars = list(keys.values())
    taken = (
        {hit.line for hit in known.scan_bytes("\n".join(t.text for t in exemplars).encode())} if exemplars else set()
    )
    return _grouped(template for line, template in enumerate(exemplars, 1) if line not in taken)


def _bad_lines_of(files: Sequence[tuple[Path, int]], share: int) -> Iterator[tuple[int, int, bytes]]:
    """(number of the file, offset, line); small files that follow each other are read as one."""
    starts: list[int] = []
    texts: list[bytes] = []
    first = length = 0
    for number, (path, size) in enumerate(files):
        small = size <= min(share, _SMALL)
        if texts and (not small or length >= _TOGETHER):
            yield from _bad_lines_together(first, starts, texts)
            starts, texts, length = [], [], 0
        if not small:
            for offset, line in _bad_lines(path, size, share):
                yield number, offset, line
            continue
        first = first if texts else number
        starts.append(length)
        texts.append(path.read_bytes()[:size] + b"\n")
        length += len(texts[-1])
    if texts:
        yield from _bad_lines_together(first, starts, texts)


def _bad_lines_together(first: int, starts: list[int], texts: list[bytes]) -> Iterator[tuple[int, int, bytes]]:
    for hit in _error_words().scan_bytes(b"".join(texts)):
        if _looks_bad(hit.text):
            number = bisect_right(starts, hit.offset) - 1
            yield first + number, hit.offset - starts[number], hit.text


def _looks_bad(line: bytes) -> bool:
    """Indented lines are parts of a record; healthy levels say what the line is."""
    return line[:1] not in b" \t" and not _HARMLESS.search(line, 0, 120)


def _bad_lines(path: Path, size: int, share: int) -> Iterator[tuple[int, bytes]]:
    """(offset, line) of lines at the beginning and at the end that look like errors."""
    windows = [(0, size)] if size <= share else [(0, share // 4), (size - share * 3 // 4, share * 3 // 4)]
    scanner = _error_words()
    with open(path, "rb") as handle:
        for begin, length in windows:
            handle.seek(begin)
            data = handle.read(length)
            skip = data.find(b"\n") + 1 if begin else 0
            for hit in scanner.scan_bytes(data[skip:]):
                if _looks_bad(hit.text):
                    yield begin + skip + hit.offset, hit.text


@lru_cache(maxsize=1)
def _error_words() -> Scanner:
    program = Program(
        size=1,
        finds=tuple((expression, (0,)) for expression in _LOOKS_BAD),
        confirm={},
        anchored=frozenset(),
        ordinary=frozenset(),
        names={0: "words of errors"},
    )
    return Scanner(program, make_engine(program), keep=2_000)


def _masked(text: str) -> list[str]:
    return ["<*>" if _NUMBER.search(word) else word for word in text.split()][:60]


def _grouped(templates: Iterator[Template]) -> list[Template]:
    """Drain in small: lines of equal length that share most words are one template."""
    groups: dict[int, list[Template]] = {}
    order: list[Template] = []
    for template in templates:
        for other in groups.setdefault(len(template.words), []):
            same = sum(a == b for a, b in zip(template.words, other.words, strict=True))
            if same >= _ALIKE * len(template.words):
                other.words = [a if a == b else "<*>" for a, b in zip(template.words, other.words, strict=True)]
                other.count += template.count
                other.files |= template.files
                break
        else:
            groups[len(template.words)].append(template)
            order.append(template)
    return order
