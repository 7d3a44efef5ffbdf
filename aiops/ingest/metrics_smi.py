"""``nvidia-smi -q``, as text or as XML (``-x``): what the driver knows of each GPU of one host at one moment.

Both forms are trees of the same facts, so both become paths (``remapped_rows/pending``) which the catalog of metrics
names. One dump in a file is a snapshot without time, since a dump taken after an incident says since when nothing is
so; a file with several dumps (``-l 60``) is a series.
"""

from __future__ import annotations

import re
import xml.parsers.expat
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime

from aiops.catalog.dcgm import column_key, metric_names
from aiops.ingest.console import host_of_output
from aiops.ingest.metrics_block import SeriesBuilder
from aiops.ingest.metrics_csv import parse_number
from aiops.model import Case, Severity, Source, canonical_pci

FORMATS = ("nvidia-smi -q", "nvidia-smi -q -x")

_MARK = re.compile(rb"^=+ *NVSMI LOG *=+\r?$", re.MULTILINE)
_GPU = re.compile(r"GPU ([0-9A-Fa-f]{4,8}:[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}\.[0-9])\s*$")
_OWN_LINE = re.compile(rb"^\s*(?:[^:\n]{1,80} : |GPU [0-9A-Fa-f:.]+\s*$|[A-Z][\w ./()-]{1,60}$|=+|\r?$)")
_LOST = re.compile(
    r"(?:Unable to determine the device handle for GPU\s*(?:\d+:\s*)?([0-9A-Fa-f:.]{7,16}): .*(?:GPU is lost|Unknown Error|No [Dd]ata).*"
    r"|GPU is lost\. +Reboot the system.*)"
)
TOOL = re.compile(
    r"(?<![^-_./! ])(?:nvidia[-_.]?smi|nvsmi|smi|query|full|xml|out(?:put)?|[qx]|before|after)(?=[-_. ]|$)",
    re.IGNORECASE,
)
"""Words of a file's name that are the command."""
_XML_START = re.compile(rb"<\?xml")
_WORDS = {"yes": 1.0, "no": 0.0, "active": 1.0, "not active": 0.0}
_FABRIC = {"not started": 1.0, "in progress": 2.0, "completed": 3.0}
_FABRIC_FAILED = 4.0
_RECOVERY = {"none": 0.0, "reset": 1.0, "reboot": 2.0, "drain p2p": 3.0, "drain and reset": 4.0}
"""``nvmlGpuRecoveryAction_t`` of ``nvml.h``, in the words of nvidia-smi."""
_DEPTH = 12
_TEXT = 200
_MOST_DOCUMENTS = 10_000
"""XML documents read of one file: a week of ``-l 60``."""


@dataclass(slots=True)
class _Fact:
    value: str
    line: int
    text: str


@dataclass(slots=True)
class _Gpu:
    bus: str
    facts: dict[str, _Fact] = field(default_factory=dict)

    def get(self, path: str) -> str:
        fact = self.facts.get(path)
        return fact.value if fact is not None else ""


@dataclass(slots=True)
class _Dump:
    time: str = ""
    attached: str = ""
    gpus: list[_Gpu] = field(default_factory=list)


def sniff_smi(head: bytes) -> str | None:
    """``nvidia-smi -q`` or ``nvidia-smi -q -x`` if that is what the text is; a log that quotes a dump is not."""
    if head[:1] == b"<":
        return FORMATS[1] if b"<nvidia_smi_log" in head[:4096] else None
    mark = _MARK.search(head)
    if mark is None or head.count(b"\n", 0, mark.start()) > 12:
        return None
    if b"\nTimestamp " not in head[mark.end() :]:
        # Without a time there are no samples: a shortened dump is scanned line by line instead.
        return None
    lines = head[mark.start() :].split(b"\n")[:-1]
    return FORMATS[0] if sum(_OWN_LINE.match(line) is not None for line in lines) * 10 >= len(lines) * 9 else None


def read_smi(builder: SeriesBuilder, source: Source, case: Case, data: bytes) -> None:
    """Read all dumps of a file into ``builder``; a lost GPU becomes an event of the signal ``gpu.lost_message``.

    A GPU has an index only if the dump shows all GPUs of the host: ``-i 3`` prints one, and its index is not told.
    """
    outside: list[tuple[int, str]] = []
    if data[:1] == b"<":
        dumps = list(_xml(builder, data))
    else:
        dumps = list(_text(data.decode("utf-8", "replace"), outside))
    source.node = host_of_output(source, (line for _, line in outside), TOOL)
    for number, line in outside:
        lost = _LOST.search(line)
        if lost is not None:
            _lose(case, source, number, line, canonical_pci(lost[1] or ""))
    for gpu in dumps[-1].gpus if dumps else ():
        said = [fact for fact in gpu.facts.values() if fact.value == "GPU is lost"]
        if said:
            _lose(case, source, said[0].line, said[0].text, canonical_pci(gpu.bus))
    times = [_time(dump.time) for dump in dumps]
    timed = len(dumps) > 1 and None not in times
    if len(dumps) > 1 and not timed:
        builder.problem("dumps without readable times: only the last one is kept")
        dumps = dumps[-1:]
    for dump, time in zip(dumps, times, strict=False):
        whole = dump.attached.isdecimal() and int(dump.attached) == len(dump.gpus)
        for index, gpu in enumerate(dump.gpus):
            _add(builder, gpu, index if whole else None, time if timed else None)


def _lose(case: Case, source: Source, line: int, text: str, pci: str | None) -> None:
    case.events.append(
        "gpu.lost_message",
        source=source.index,
        severity=Severity.FATAL,
        line=line,
        node=source.node,
        fields={"pci": pci} if pci else {},
        text=text.strip()[:_TEXT],
    )


def _add(builder: SeriesBuilder, gpu: _Gpu, index: int | None, time: int | None) -> None:
    import numpy as np

    labels = {"pci_bus_id": gpu.bus, "UUID": gpu.get("uuid"), "modelName": gpu.get("product_name")}
    if index is not None:
        labels["gpu"] = str(index)
    for name, (value, fact) in _values(gpu).items():
        slot = builder.slot(name, labels)
        if slot is None:
            continue
        slot.text, slot.line = fact.text.strip()[:_TEXT], fact.line
        builder.add(slot, None if time is None else np.array([time], dtype=np.int64), np.array([value]))


def _values(gpu: _Gpu) -> dict[str, tuple[float, _Fact]]:
    """Value of each field and the line that tells it; errors of several memories are added up."""
    known = metric_names().smi
    found: dict[str, tuple[float, _Fact]] = {}
    for path, fact in gpu.facts.items():
        name = known.get(path)
        value = _number(fact.value) if name is not None else None
        if name is None or value is None:
            continue
        value *= name.bit or name.scale
        before = found.get(name.field.name)
        if before is None:
            found[name.field.name] = value, fact
        else:
            found[name.field.name] = before[0] + value, fact if value else before[1]
    state, status = gpu.facts.get("fabric/state"), gpu.facts.get("fabric/status")
    if state is not None and state.value.lower() in _FABRIC:
        failed = status is not None and status.value not in ("N/A", "Success", "")
        code = _FABRIC_FAILED if failed else _FABRIC[state.value.lower()]
        found["DCGM_FI_DEV_FABRIC_MANAGER_STATUS"] = code, status if failed and status is not None else state
    action = gpu.facts.get("gpu_recovery_action")
    if action is not None and action.value.lower() in _RECOVERY:
        found["DCGM_FI_DEV_GET_GPU_RECOVERY_ACTION"] = _RECOVERY[action.value.lower()], action
    else:
        for path, words in (("drain_and_reset_recommended", "drain and reset"), ("reset_required", "reset")):
            wanted = gpu.facts.get(f"gpu_reset_status/{path}")
            if wanted is not None and wanted.value.lower() in ("yes", "no"):
                code = _RECOVERY[words] if wanted.value.lower() == "yes" else 0.0
                if code or "DCGM_FI_DEV_GET_GPU_RECOVERY_ACTION" not in found:
                    found["DCGM_FI_DEV_GET_GPU_RECOVERY_ACTION"] = code, wanted
    return found


def _number(text: str) -> float | None:
    word = _WORDS.get(text.lower())
    return word if word is not None else parse_number(text.removesuffix("bank(s)"))


def _text(text: str, outside: list[tuple[int, str]]) -> Iterator[_Dump]:
    """Dumps of the indented form; lines that are no part of one go to ``outside``."""
    dump: _Dump | None = None
    gpu: _Gpu | None = None
    stack: list[tuple[int, str]] = []
    for number, line in enumerate(text.splitlines(), 1):
        bare = line.strip()
        if not bare:
            continue
        if _MARK.match(line.encode()):
            if dump is not None:
                yield dump
            dump, gpu = _Dump(), None
            continue
        key, colon, value = (part.strip() for part in line.partition(" : "))
        indent = len(line) - len(line.lstrip())
        if dump is None or _LOST.search(line):
            outside.append((number, line))
        elif indent == 0:
            gpu = None
            begins = _GPU.match(bare)
            if begins is not None:
                dump.gpus.append(gpu := _Gpu(begins[1]))
                stack = []
            elif key == "Timestamp":
                dump.time = value
            elif key == "Attached GPUs":
                dump.attached = value
            elif not colon:
                outside.append((number, line))
        elif gpu is not None:
            while stack and stack[-1][0] >= indent:
                stack.pop()
            stack.append((indent, column_key(key)))
            if colon and len(stack) <= _DEPTH:
                path = "/".join(part for _, part in stack)
                gpu.facts.setdefault("uuid" if path == "gpu_uuid" else path, _Fact(value, number, line))
    if dump is not None:
        yield dump


def _xml(builder: SeriesBuilder, data: bytes) -> Iterator[_Dump]:
    starts = [match.start() for match in _XML_START.finditer(data)] or [0]
    if len(starts) > _MOST_DOCUMENTS:
        builder.problem(f"{len(starts)} documents: only the last {_MOST_DOCUMENTS} are read")
        del starts[:-_MOST_DOCUMENTS]
    before, counted = 0, 0
    for start, end in zip(starts, [*starts[1:], len(data)], strict=True):
        before += data.count(b"\n", counted, start)
        counted = start
        yield _XmlDump(builder, data[start:end], before).dump


class _XmlDump:
    """One document, read with expat: no external parts and no entities of its own, hence no way to blow up."""

    def __init__(self, builder: SeriesBuilder, data: bytes, before: int) -> None:
        self.dump = _Dump()
        self._before = before
        self._path: list[str] = []
        self._words: list[str] = []
        self._lines = data.split(b"\n")
        self._parser = parser = xml.parsers.expat.ParserCreate()
        parser.StartElementHandler = self._start
        parser.EndElementHandler = self._end
        parser.CharacterDataHandler = self._words.append
        parser.EntityDeclHandler = self._refuse
        try:
            parser.Parse(data, True)
        except (xml.parsers.expat.ExpatError, ValueError) as problem:
            line = before + parser.CurrentLineNumber
            builder.problem(f"line {line}: not valid XML, what stands before it is kept: {problem}", line)

    def _start(self, name: str, attributes: dict[str, str]) -> None:
        if len(self._path) > 4 * _DEPTH:  # nothing of the driver is; the path is looked at for each element
            raise ValueError("its elements are nested too deeply")
        self._path.append(name)
        self._words.clear()
        if self._path[1:] == ["gpu"]:
            self.dump.gpus.append(_Gpu(attributes.get("id", "")))

    def _end(self, name: str) -> None:
        path, value = self._path[1:], "".join(self._words).strip()
        self._path.pop()
        self._words.clear()
        if path == ["timestamp"]:
            self.dump.time = value
        elif path == ["attached_gpus"]:
            self.dump.attached = value
        elif path[:1] == ["gpu"] and value and 1 < len(path) <= _DEPTH:
            line = self._parser.CurrentLineNumber
            text = self._lines[line - 1].decode("utf-8", "replace")
            self.dump.gpus[-1].facts.setdefault("/".join(path[1:]), _Fact(value, self._before + line, text))

    def _refuse(self, *_: object) -> None:
        raise ValueError("it declares entities")


def _time(text: str) -> int | None:
    try:
        moment = datetime.strptime(text, "%a %b %d %H:%M:%S %Y").replace(tzinfo=UTC)
    except ValueError:
        return None
    return int(moment.timestamp()) * 1_000_000_000
