"""From hit lines to events: time, host, rank and the fields of the rule that hit."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any

from aiops.catalog.model import Signal
from aiops.ingest.prefix import ANSI, Prefix, parse_prefix, parse_stamp
from aiops.model.case import Case, Source
from aiops.model.event import NO_TIME, TimeQuality
from aiops.scan import HitLine, RuleSet

_KINDS_OF_FILE = {
    "kernel": frozenset({"kernel"}),
    "training": frozenset({"training"}),
    "scheduler": frozenset({"scheduler"}),
    "text": frozenset({"text", "training", "scheduler"}),
}
_KERNEL_ONLY = frozenset({"kernel"})
_LOOK_BACK = 4096
_EXCEPTION_LINE = re.compile(r"(?:\[rank\d+\]: ?)?[\w.]{1,120}(?:Error|Exception)\b: ")
_OPEN_QUOTE = re.compile(r"(?<![\w'])'(?=\S)")
_CLOSE_QUOTE = re.compile(r"(?<=[^\s=(\[:,])'(?!\w)")
_CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f]")


@dataclass(slots=True)
class Pending:
    """Corrections that need the whole case: stamps without year, stamps since boot, NCCL lines without rank."""

    yearless: list[int] = field(default_factory=list)
    uptime: list[tuple[int, str | None]] = field(default_factory=list)
    """(row, node) of stamps that count from boot."""
    boot: dict[str, list[tuple[int, int, bool]]] = field(default_factory=dict)
    """node -> (civil ts, uptime, yearless) pairs from lines that carry both."""
    by_pid: list[tuple[int, str, int]] = field(default_factory=list)
    """(row, host, pid) of lines whose rank is known only through the process id."""
    zoneless: int = 0
    zoned: int = 0


class Extractor:
    """Turns the hit lines of one case into rows of its event table."""

    def __init__(self, case: Case, rules: RuleSet) -> None:
        self._case = case
        self._rules = rules.rules
        self.pending = Pending()

    def add(self, source: Source, hit: HitLine, *, task_labels: bool) -> None:
        """Add the events of one hit line; a rule that does not fit the kind of line adds none."""
        raw = ANSI.sub(b"", hit.text) if b"\x1b" in hit.text else hit.text
        if b"\r" in raw:
            raw = raw.replace(b"\r", b" ")
        text = raw.decode("utf-8", "replace")
        prefix = parse_prefix(text, task_labels=task_labels)
        kinds = _KERNEL_ONLY if prefix.kernel and source.kind == "training" else _KINDS_OF_FILE[source.kind]
        stamped = False
        for rule_id, count in sorted(hit.rules):
            rule = self._rules[rule_id]
            signal = rule.signal
            if not (signal.kinds & kinds):
                continue
            match = signal.regexes[rule.pattern].search(text)
            if match is None or (signal.anchored and match.start() > prefix.start + 2):
                continue
            if not stamped:
                self._stamp(source, hit, prefix)
                stamped = True
            self._append(source, hit, prefix, signal, match, count, text)

    def _append(
        self, source: Source, hit: HitLine, prefix: Prefix, signal: Signal, match: re.Match[str], count: int, text: str
    ) -> None:
        fields: dict[str, Any] = {**signal.says, **{k: v for k, v in match.groupdict().items() if v is not None}}
        if prefix.pod:
            fields["pod"] = prefix.pod
        if prefix.local_rank is not None:
            fields["local"] = prefix.local_rank
        rank = prefix.rank
        if rank is None and signal.about == "rank" and str(fields.get("rank", "")).isdigit():
            rank = int(fields["rank"])
        if rank is None and prefix.task is not None:
            rank = prefix.task
        node = fields.get("host") or prefix.host or source.node
        row = self._case.events.append(
            signal.id,
            source=source.index,
            ts=prefix.ts,
            quality=prefix.quality,
            severity=signal.severity,
            offset=hit.offset,
            line=hit.line,
            node=node,
            rank=rank if rank is not None else source.rank,
            count=count,
            fields=fields,
            text=_CONTROL.sub(" ", text[:1000]).strip(),
            quoted=_inside_quotation(text, prefix.start, match.start()),
        )
        if prefix.yearless:
            self.pending.yearless.append(row)
        if prefix.quality == TimeQuality.UPTIME:
            self.pending.uptime.append((row, node))
        if rank is None and source.rank is None and prefix.pid is not None and prefix.host:
            self.pending.by_pid.append((row, prefix.host, prefix.pid))

    def _stamp(self, source: Source, hit: HitLine, prefix: Prefix) -> None:
        """Note what the stamp says about the clocks, or take the stamp of a line above."""
        if prefix.quality == TimeQuality.NONE:
            self._inherit(source, hit, prefix)
        elif prefix.quality == TimeQuality.EXACT:
            if prefix.zoned:
                self.pending.zoned += 1
            else:
                self.pending.zoneless += 1
        if prefix.uptime != NO_TIME and prefix.quality > TimeQuality.UPTIME and prefix.host:
            pairs = self.pending.boot.setdefault(prefix.host, [])
            if len(pairs) < 50:
                pairs.append((prefix.ts, prefix.uptime, prefix.yearless))

    def _inherit(self, source: Source, hit: HitLine, prefix: Prefix) -> None:
        begin = max(0, hit.offset - _LOOK_BACK)
        if begin == hit.offset:
            return
        above = self._case.read(source.index, begin, hit.offset - begin)
        for raw in reversed(above.split(b"\n")[:-1][-40:]):
            line = ANSI.sub(b"", raw[:300]).decode("utf-8", "replace")
            other = parse_prefix(line)
            if other.quality == TimeQuality.NONE:
                parse_stamp(line, other.start, other)
            if other.quality >= TimeQuality.PARTIAL:
                prefix.ts, prefix.quality, prefix.yearless = other.ts, TimeQuality.INHERITED, other.yearless
                return


def _inside_quotation(text: str, start: int, at: int) -> bool:
    """True if the match stands between double quotes or backticks of a line that is not a structured record.

    Prompts, samples and log lines that quote other logs are data. What an exception itself quotes is its message.
    """
    before = text[start:at]
    if not any(mark in before for mark in "\"`'"):
        return False
    if _EXCEPTION_LINE.match(text, start):
        return False
    if before.lstrip().startswith("{") and text.rstrip().endswith("}"):
        return False
    opened = len(_OPEN_QUOTE.findall(before)) - len(_CLOSE_QUOTE.findall(before))
    return before.count('"') % 2 == 1 or before.count("`") % 2 == 1 or opened > 0
