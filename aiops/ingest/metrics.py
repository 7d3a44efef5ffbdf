"""Metric samples of GPUs: which format it is, by content, and into the case as arrays."""

from __future__ import annotations

import re

from aiops.ingest.metrics_block import SeriesBuilder
from aiops.ingest.metrics_dmon import FORMATS as DMON_FORMATS
from aiops.ingest.metrics_dmon import read_dmon, sniff_dmon
from aiops.ingest.metrics_parquet import MAGIC as PARQUET
from aiops.ingest.metrics_smi import FORMATS as SMI_FORMATS
from aiops.ingest.metrics_smi import read_smi, sniff_smi
from aiops.ingest.metrics_smi_table import FORMAT as SMI_TABLE
from aiops.ingest.metrics_smi_table import read_smi_table, sniff_smi_table
from aiops.model import Case, Source

_SERIES = re.compile(rb'"metric"\s*:\s*\{')
_VALUES = re.compile(rb'"values?"\s*:\s*\[')
_RESULT = re.compile(rb'"(?:result|resultType)"\s*:')
_REFUSAL = re.compile(rb'"status"\s*:\s*"error".*"errorType"\s*:', re.DOTALL)
_COMMENT = re.compile(rb"# (?:HELP|TYPE|UNIT) [a-zA-Z_:][a-zA-Z0-9_:]* ?")
_SAMPLE = re.compile(
    rb'[a-zA-Z_:][a-zA-Z0-9_:]*(\{(?:[^"{}]|"(?:[^"\\]|\\.)*")*\})?\s+'
    rb"(?:[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?|[+-]?Inf|NaN)(?:\s+-?\d+(?:\.\d+)?)?(?:\s+#.*)?"
)
_HEAD = 65_536
_LINES = 60


def sniff_metrics(head: bytes) -> str | None:
    """``prometheus_json``, ``exposition``, ``gpu_csv``, ``parquet``, or a form of `metrics_smi` or `metrics_dmon`, else ``None``.

    Args:
        head: beginning of the content; 4 KiB are enough as a rule, more than 64 KiB are not looked at.
    """
    if head.startswith(PARQUET):
        return "parquet"
    head = head[:_HEAD].removeprefix(b"\xef\xbb\xbf").lstrip()
    if b"\0" in head[:256] or not head:
        return None
    console = sniff_smi(head) or sniff_dmon(head) or sniff_smi_table(head)
    if console is not None:
        return console
    if head[:1] in b"{[":
        series = _SERIES.search(head) and _VALUES.search(head)
        empty = b'"data"' in head and b'"resultType"' in head
        if series or empty or _REFUSAL.search(head):
            return "prometheus_json" if _RESULT.search(head) or series or _REFUSAL.search(head) else None
        return None
    if _is_exposition(head):
        return "exposition"
    return "gpu_csv" if _is_gpu_csv(head) else None


def read_metrics(source: Source, data: bytes | memoryview, case: Case) -> None:
    """Append the samples of a source to ``case.series`` and tell the topology what the labels say.

    Damaged parts are left out and recorded in ``case.coverage.problems`` with their line or position.
    Sets ``source.first_ts`` and ``source.last_ts``, and ``source.node`` if all samples are of one node.
    """
    content = bytes(data).removeprefix(b"\xef\xbb\xbf")
    builder = SeriesBuilder(source, case)
    form = sniff_metrics(content[:_HEAD])
    source.format = source.format or form or ""
    if form == "prometheus_json":
        from aiops.ingest.metrics_prometheus import read_prometheus

        read_prometheus(builder, content)
    elif form == "exposition":
        from aiops.ingest.metrics_exposition import read_exposition

        read_exposition(builder, content)
    elif form in SMI_FORMATS:
        read_smi(builder, source, case, content)
    elif form == SMI_TABLE:
        read_smi_table(builder, source, content)
    elif form in DMON_FORMATS:
        read_dmon(builder, source, content)
    elif form == "parquet":
        from aiops.ingest.metrics_parquet import read_parquet

        read_parquet(builder, content)
    elif form == "gpu_csv":
        from aiops.ingest.metrics_csv import read_csv

        read_csv(builder, content)
    else:
        builder.problem("no metric samples in a format that is known")
    if not builder.finish() and form is not None:
        builder.problem("no metric samples in it")
    if form not in (None, "prometheus_json", "parquet") and not source.lines:
        source.lines = content.count(b"\n") + (not content.endswith(b"\n"))


def _is_exposition(head: bytes) -> bool:
    lines = head.split(b"\n")
    if len(lines) > 1:
        lines.pop()  # may be cut
    lines = [line.strip() for line in lines if line.strip()][:_LINES]
    if not lines or not (lines[0].startswith(b"#") or _SAMPLE.fullmatch(lines[0])):
        return False
    comments = samples = labelled = 0
    for line in lines:
        if line.startswith(b"#"):
            comments += _COMMENT.match(line) is not None
        elif (match := _SAMPLE.fullmatch(line)) is not None:
            samples += 1
            labelled += match[1] is not None
    others = sum(not line.startswith(b"#") for line in lines) - samples
    return samples > 0 and (comments > 0 or labelled > 0) and others <= max(2, samples // 5)


def _is_gpu_csv(head: bytes) -> bool:
    from aiops.ingest.metrics_csv import header_of

    first = head[:_HEAD].decode("utf-8", errors="replace")
    return any(mark in first for mark in ",;\t") and header_of(first) is not None
