"""Read Python tracebacks out of logs, interleaved or not."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from aiops.ingest.linemap import line_map
from aiops.ingest.prefix import ANSI, Prefix, parse_stamp
from aiops.model.case import Case
from aiops.model.event import Event, TimeQuality

_WINDOW = 48 << 10
_HEAD = "Traceback (most recent call last):"
_FRAME = re.compile(r'^\s+File "(?P<file>[^"\n]{1,400})", line (?P<line>\d{1,9})(?:, in (?P<func>[^\n]{1,120}))?')
_RAISED = re.compile(r"^(?P<type>[A-Za-z_][\w.]{0,120})(?:: ?(?P<message>.*))?$")
_LIBRARY = re.compile(
    r"/(?:site|dist)-packages/|/lib/python\d|^<|/(?:torch|transformers|lightning|deepspeed|megatron|accelerate|ray|"
    r"nemo|jax|flax)/|/bin/(?:torchrun|accelerate|deepspeed)$|importlib"
)
_LOADER = re.compile(r"torch/utils/data/|/data/(?:dataset|loader)|webdataset|/datasets/|fetch\.py|dataloader")
_LINKS = ("During handling of the above exception", "The above exception was the direct cause")
_LABELS = r"(?:\[default\d+\]:|\[rank\d+\]: ?|\[\d+,\d+\]<std(?:out|err)>:|\d{1,5}: |\[pod/[^\]\n]{1,500}\] )+"
_LABEL = re.compile(rf"^{_LABELS}")
_LABEL_BEFORE = re.compile(rf"{_LABELS}$")


@dataclass(slots=True)
class Traceback:
    """One stack with the exception that ended it."""

    event: Event
    type: str
    """Qualified name as printed, for example ``torch.OutOfMemoryError``."""
    message: str
    frames: list[tuple[str, int, str]] = field(default_factory=list)
    """(file, line, function), outermost first."""
    last_line: int = 0
    """Line number of the exception line in the source."""
    raised_at: int = 0
    """Byte offset of the exception line."""
    wraps: bool = False
    """Another exception was raised while this one was handled; this one came first."""
    raw: str = ""
    """The exception line as it stands."""

    @property
    def short_type(self) -> str:
        """Type without its module."""
        return self.type.rsplit(".", 1)[-1]

    @property
    def user_frame(self) -> tuple[str, int, str] | None:
        """The innermost frame outside of installed libraries: the user's line."""
        for frame in reversed(self.frames):
            if not _LIBRARY.search(frame[0]):
                return frame
        return None

    @property
    def in_loader(self) -> bool:
        """The stack passes through a data loader or data set."""
        return any(
            _LOADER.search(file) or function in ("__getitem__", "collate_fn", "__next__", "_next_data")
            for file, _, function in self.frames
        )


def read_traceback(case: Case, event: Event) -> Traceback | None:
    """The traceback that begins on the line of ``event``; ``None`` if the log ends before its exception."""
    raw = case.read(event.source, event.offset, _WINDOW)
    lines = ANSI.sub(b"", raw).decode("utf-8", "replace").split("\n")
    offsets = _offsets(raw)
    head = lines[0]
    at = head.find(_HEAD)
    if at < 0:
        return None
    before = head[:at]
    strip, label = _line_head(before)
    frames: list[tuple[str, int, str]] = []
    for number, line in enumerate(lines[1:], 1):
        match = strip.match(line)
        if match is None or (not label and _LABEL.match(line)):
            continue  # another rank's line in between
        body = line[match.end() :]
        frame = _FRAME.match(body)
        if frame:
            frames.append((frame["file"], int(frame["line"]), frame["func"] or ""))
            continue
        if not body.strip() or body[0] in " \t" or not frames:
            if frames and body.startswith(" ") and len(frames) > 400:
                return None
            continue
        raised = _RAISED.match(body.rstrip())
        if raised is None or not _is_exception_name(raised["type"]):
            continue
        raised_at = event.offset + offsets[min(number, len(offsets) - 1)]
        records = line_map(case, event.source)
        return Traceback(
            event,
            raised["type"],
            (raised["message"] or "").strip()[:600],
            frames,
            # lines of a record's text are no lines of the file that a person has
            last_line=records.line_at(raised_at) if records else event.line + number,
            raised_at=raised_at,
            wraps=_wrapped(lines[number + 1 : number + 8]),
            raw=body.strip()[:1000],
        )
    return None


def _line_head(before: str) -> tuple[re.Pattern[str], str]:
    """What every line of the traceback begins with, from what stands before its first word: stamp and rank label."""
    own = _LABEL_BEFORE.search(before) or _LABEL.match(before)
    label = own[0] if own else ""
    front = before[: own.start()] if own else before
    behind = before[own.end() :] if own else ""
    pattern = _stamp_pattern(front) + re.escape(label) + _stamp_pattern(behind)
    return re.compile(pattern), label


def _stamp_pattern(text: str) -> str:
    """A pattern for the same head with another time; empty if the text is no time stamp (a progress bar, say)."""
    if not text.strip():
        return ""
    prefix = Prefix()
    parse_stamp(text.lstrip(), 0, prefix)
    if prefix.quality == TimeQuality.NONE:
        return ""
    return re.sub(r"(?:\\?\d)+", r"\\d+", re.escape(text.rstrip())) + r" ?"


def _offsets(raw: bytes) -> list[int]:
    found, at = [0], raw.find(b"\n")
    while at >= 0:
        found.append(at + 1)
        at = raw.find(b"\n", at + 1)
    return found


def _is_exception_name(name: str) -> bool:
    last = name.rsplit(".", 1)[-1]
    return bool(
        re.search(
            r"(?:Error|Exception|Exit|Interrupt|Warning|Timeout|Iteration|Failure|Fault|NotFound|Invalid|Denied|Refused"
            r"|NotMet|Missing|gaierror|timeout|Empty|Full|Aborted|Cancelled)\w*$",
            last,
        )
    ) or ("." in name and last[:1].isupper())


def _wrapped(following: list[str]) -> bool:
    return any(link in line for line in following for link in _LINKS)
