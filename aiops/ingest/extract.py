"""From hit lines to events: time, host, rank and the fields of the rule that hit."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any

from aiops.catalog.model import Signal
from aiops.ingest.facts import facts_of
from aiops.ingest.linemap import LineMap, line_map
from aiops.ingest.prefix import ANSI, NS, Prefix, parse_prefix, parse_stamp
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
_JOINED = re.compile(r"commId 0x[0-9a-f]{6,20}(?= [^\n]{0,80}- Init COMPLETE)")
_SAME_BOOT = 120 * NS
_EXCEPTION_LINE = re.compile(r"(?:\[rank\d+\]: ?)?[\w.]{1,120}(?:Error|Exception)\b: ")
_OPEN_QUOTE = re.compile(r"(?<![\w'])'(?=\S)")
_CLOSE_QUOTE = re.compile(r"(?<=[^\s=(\[:,])'(?!\w)")
_MESSAGE_FIELD = re.compile(r'(?<![\w.-])(?:msg|message|err|error)="((?:[^"\\]|\\.)*)("?)')
"""The message of a logfmt line stands in quotes, as any value there does: no quotation."""
_KLOG_PLACE = re.compile(r"[\w./-]{1,120}:\d{1,6}\] ?$")
_CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f]")


_SAID = 100_000
"""Lines remembered to compare the clocks of hosts, and to see a line that stands in two files."""
_FEW_WORDS = 16
"""Messages shorter than this many characters are not told apart from others."""


@dataclass(slots=True)
class Pending:
    """Corrections that need the whole case: stamps without year, stamps since boot, NCCL lines without rank."""

    yearless: list[int] = field(default_factory=list)
    uptime: list[tuple[int, str | None]] = field(default_factory=list)
    """(row, node) of stamps that count from boot."""
    boot: dict[str, list[tuple[int, int, bool]]] = field(default_factory=dict)
    """node -> (civil ts, uptime, yearless) pairs from lines that carry both, one or more for each boot."""
    by_pid: list[tuple[int, str | None, int]] = field(default_factory=list)
    """(row, host, pid) of lines whose rank is known only through the process id."""
    local: list[int] = field(default_factory=list)
    """Rows whose stamp carries no zone and whose file has a stated one."""
    said: dict[str, list[int]] = field(default_factory=dict)
    """Message without stamp and host -> rows of hosts' own lines that say it."""
    zoneless: int = 0
    zoned: int = 0


class Extractor:
    """Turns the hit lines of one case into rows of its event table."""

    def __init__(self, case: Case, rules: RuleSet) -> None:
        self._case = case
        self._rules = rules.rules
        self._declared = facts_of(case).declared
        self._lines: dict[str, int] = {}
        self._source = -1
        self._local = False
        self._map: LineMap | None = None
        self.repeated: dict[tuple[int, int], int] = {}
        """(source, source that has them as well) -> lines left out because both hold the same line."""
        self.pending = Pending()

    def add(self, source: Source, hit: HitLine, *, task_labels: bool) -> None:
        """Add the events of one hit line; a rule that does not fit the kind of line adds none."""
        if source.index != self._source:
            self._source = source.index
            self._map = line_map(self._case, source.index)
            self._local = self._declared.zone_of(source.name) is not None
        raw = ANSI.sub(b"", hit.text) if b"\x1b" in hit.text else hit.text
        if b"\x00" in raw:
            raw = raw.replace(b"\x00", b" ")
        if b"\r" in raw:
            self._add_parts(source, hit, raw, task_labels)
            return
        self._add_text(source, hit, raw.decode("utf-8", "replace"), hit.offset, hit.rules, task_labels)

    def _add_parts(self, source: Source, hit: HitLine, raw: bytes, task_labels: bool) -> None:
        """A progress bar rewrites its line: each state is a line of its own, with its own stamp and offset."""
        at = 0
        left = sorted(hit.rules)
        for part in raw.split(b"\r"):
            text = part.decode("utf-8", "replace")
            found = [(rule, count) for rule, count in left if self._match(rule, text)]
            if found:
                self._add_text(source, hit, text, hit.offset + at, found, task_labels)
                left = [pair for pair in left if pair not in found]
            at += len(part) + 1
        if left:
            self._add_text(
                source, hit, raw.replace(b"\r", b" ").decode("utf-8", "replace"), hit.offset, left, task_labels
            )

    def _match(self, rule_id: int, text: str) -> bool:
        rule = self._rules[rule_id]
        return rule.signal.regex(rule.pattern).search(text) is not None

    def _add_text(
        self, source: Source, hit: HitLine, text: str, offset: int, rules: list[tuple[int, int]], task_labels: bool
    ) -> None:
        prefix = parse_prefix(text, task_labels=task_labels)
        kinds = _KERNEL_ONLY if prefix.kernel and source.kind == "training" else _KINDS_OF_FILE[source.kind]
        stamped = False
        first = True
        shown = ""
        for rule_id, count in sorted(rules):
            rule = self._rules[rule_id]
            signal = rule.signal
            if not (signal.kinds & kinds):
                continue
            match = signal.regex(rule.pattern).search(text)
            if match is None or (signal.anchored and match.start() > prefix.start + 2):
                continue
            if not stamped:
                if self._stands_elsewhere(source, prefix, text):
                    return
                self._stamp(source, offset, prefix)
                stamped = True
                shown = _CONTROL.sub(" ", text[:1000]).strip()
            self._append(source, hit, offset, prefix, signal, match, count, text, shown, first)
            first = False

    def _stands_elsewhere(self, source: Source, prefix: Prefix, text: str) -> bool:
        """True if another file holds the same line of the same host at the same time: an excerpt, a rotation, a second copy."""
        if not (prefix.kernel and prefix.host and prefix.quality >= TimeQuality.PARTIAL):
            return False
        first = self._lines.get(text)
        if first is None:
            if len(self._lines) < _SAID:
                self._lines[text] = source.index
            return False
        if first == source.index:
            return False
        pair = (source.index, first)
        self.repeated[pair] = self.repeated.get(pair, 0) + 1
        return True

    def _append(
        self,
        source: Source,
        hit: HitLine,
        offset: int,
        prefix: Prefix,
        signal: Signal,
        match: re.Match[str],
        count: int,
        text: str,
        shown: str,
        first: bool,
    ) -> None:
        """``first`` event of its line: where hosts are compared, what a line says counts once."""
        fields: dict[str, Any] = dict(signal.says)
        if match.re.groupindex:
            fields.update((name, value) for name, value in match.groupdict().items() if value is not None)
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
            offset=offset,
            line=self._map.line_at(offset) if self._map else hit.line,
            node=node,
            rank=rank if rank is not None else source.rank,
            count=count,
            fields=fields,
            text=shown,
            quoted=_inside_quotation(text, prefix.start, match.start()),
        )
        self._remember(row, source, prefix, node, rank, text if first else "")

    def _remember(
        self, row: int, source: Source, prefix: Prefix, node: str | None, rank: int | None, text: str
    ) -> None:
        """What the whole case must settle about a row; no ``text`` if an earlier row of its line has told it."""
        pending = self.pending
        if prefix.yearless:
            pending.yearless.append(row)
        if prefix.quality == TimeQuality.UPTIME:
            pending.uptime.append((row, node))
        elif self._local and not prefix.zoned and prefix.quality != TimeQuality.NONE:
            pending.local.append(row)
        if rank is None and source.rank is None and prefix.pid is not None:
            pending.by_pid.append((row, prefix.host, prefix.pid))
        if node and prefix.ts != NO_TIME and prefix.quality != TimeQuality.INHERITED and len(pending.said) < _SAID:
            message = text[prefix.start :].strip()
            joined = _JOINED.search(message)
            if joined:
                # all ranks leave NCCL's initialisation together
                pending.said.setdefault(joined[0], []).append(row)
            elif len(message) >= _FEW_WORDS and (prefix.kernel or source.kind != "training"):
                pending.said.setdefault(message[:400].replace(node, "@"), []).append(row)

    def _stamp(self, source: Source, offset: int, prefix: Prefix) -> None:
        """Note what the stamp says about the clocks, or take the stamp of a line above."""
        if prefix.quality == TimeQuality.NONE:
            self._inherit(source, offset, prefix)
        elif prefix.quality == TimeQuality.EXACT:
            if prefix.zoned:
                self.pending.zoned += 1
            elif not self._local:
                self.pending.zoneless += 1
        if prefix.uptime != NO_TIME and prefix.quality > TimeQuality.UPTIME and prefix.host:
            pairs = self.pending.boot.setdefault(prefix.host, [])
            start = prefix.ts - prefix.uptime
            near = sum(abs(ts - uptime - start) < _SAME_BOOT for ts, uptime, _ in pairs)
            if near < 9 and len(pairs) < 200:
                pairs.append((prefix.ts, prefix.uptime, prefix.yearless))

    def _inherit(self, source: Source, offset: int, prefix: Prefix) -> None:
        begin = max(0, offset - _LOOK_BACK)
        if begin == offset:
            return
        above = self._case.read(source.index, begin, offset - begin)
        for raw in reversed(above.split(b"\n")[:-1][-40:]):
            line = ANSI.sub(b"", raw[:300]).decode("utf-8", "replace")
            other = parse_prefix(line)
            if other.quality == TimeQuality.NONE:
                parse_stamp(line, other.start, other)
            if other.quality >= TimeQuality.PARTIAL:
                prefix.ts, prefix.quality, prefix.yearless = other.ts, TimeQuality.INHERITED, other.yearless
                prefix.zoned = other.zoned
                return


def _inside_quotation(text: str, start: int, at: int) -> bool:
    """True if the match stands between double quotes or backticks of a line that is not a structured record.

    Prompts, samples and log lines that quote other logs are data. What an exception itself quotes is its message.
    """
    before = _without_fields(text, start, at)
    if not any(mark in before for mark in "\"`'"):
        return False
    if _EXCEPTION_LINE.match(text, start):
        return False
    if before.lstrip().startswith("{") and text.rstrip().endswith("}"):
        return False
    opened = len(_OPEN_QUOTE.findall(before)) - len(_CLOSE_QUOTE.findall(before))
    return before.count('"') % 2 == 1 or before.count("`") % 2 == 1 or opened > 0


def _without_fields(text: str, start: int, at: int) -> str:
    """What stands before a match in the message, without the quotes that logfmt and klog put around a message."""
    before = text[start:at]
    if '"' not in before:
        return before
    if text.count('"', 0, start) % 2:  # of ``time="…"``
        before = before.replace('"', "", 1)
    if before.startswith('"') and _KLOG_PLACE.search(text, max(0, start - 130), start):
        before = f"msg={before}"
    return _MESSAGE_FIELD.sub(lambda field: "" if field[2] else field[1].replace('\\"', '"'), before)
