"""Heads of log lines: every usual time stamp, label and wrapper."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aiops.ingest.prefix import parse_prefix
from aiops.model.clock import iso
from aiops.model.event import NO_TIME, TimeQuality

NAMED_ZONES = ("UTC", "CET", "CEST", "EST", "PDT", "JST", "IST")

# (line, time in UTC or None, message)
LINES = [
    ("2026-01-02 03:04:05,123 - INFO - hello", "2026-01-02T03:04:05.123Z", "hello"),
    ("2026-01-02T03:04:05.123456789Z hello", "2026-01-02T03:04:05.123Z", "hello"),
    ("2026-01-02 03:04:05:250 hello", "2026-01-02T03:04:05.250Z", "hello"),
    ("2026-01-02T03:04:05+0130 hello", "2026-01-02T01:34:05Z", "hello"),
    ("2026/01/02 03:04:05 CET hello", "2026-01-02T02:04:05Z", "hello"),
    ("20260102T030405Z hello", "2026-01-02T03:04:05Z", "hello"),
    ("20260102 03:04:05.5 hello", "2026-01-02T03:04:05.500Z", "hello"),
    ("[02/Jan/2026:03:04:05 +0100] hello", "2026-01-02T02:04:05Z", "hello"),
    ('10.0.0.1 - - [02/Jan/2026:03:04:05 +0000] "GET /"', "2026-01-02T03:04:05Z", '"GET /"'),
    ("Fri, 02 Jan 2026 03:04:05 GMT hello", "2026-01-02T03:04:05Z", "hello"),
    ("Fri Jan  2 03:04:05 2026 hello", "2026-01-02T03:04:05Z", "hello"),
    ("Fri Jan  2 03:04:05 PM UTC 2026 hello", "2026-01-02T15:04:05Z", "hello"),
    ("Jan 02, 2026 12:04:05 AM hello", "2026-01-02T00:04:05Z", "hello"),
    ("02 Jan 2026 03:04:05,123 WARN hello", "2026-01-02T03:04:05.123Z", "hello"),
    ("01/02/2026 03:04:05 PM - INFO - hello", "2026-01-02T15:04:05Z", "hello"),
    ("13/02/2026 03:04:05 hello", "2026-02-13T03:04:05Z", "hello"),
    ("26/01/02 03:04:05 INFO hello", "2026-01-02T03:04:05Z", "hello"),
    ("1767323045.123456 hello", "2026-01-02T03:04:05.123Z", "hello"),
    ("1767323045123 hello", "2026-01-02T03:04:05.123Z", "hello"),
    ("1767323045123456 hello", "2026-01-02T03:04:05.123Z", "hello"),
    ("1767323045123456789 hello", "2026-01-02T03:04:05.123Z", "hello"),
    ("E0000 00:00:1767323045.123456   1234 cuda_dnn.cc:9] hello", "2026-01-02T03:04:05.123Z", "hello"),
    ("I20260102 03:04:05.123456 1234 x.cc:9] hello", "2026-01-02T03:04:05.123Z", "hello"),
    ("I0102 03:04:05.123456   12345 main.go:12] hello", "1972-01-02T03:04:05.123Z", "hello"),
    ("[rank3]:[W102 03:04:05.123 ProcessGroupNCCL.cpp:12] hello", "1972-01-02T03:04:05.123Z", "hello"),
    ("INFO 01-02 03:04:05 hello", "1972-01-02T03:04:05Z", "hello"),
    ("[NeMo W 2026-01-02 03:04:05 nemo_logging:349] hello", "2026-01-02T03:04:05Z", "hello"),
    ('time="2026-01-02T03:04:05Z" level=error', "2026-01-02T03:04:05Z", "level=error"),
    ("(RayTrainWorker pid=12, ip=10.0.0.7) 2026-01-02 03:04:05,1 hello", "2026-01-02T03:04:05.100Z", "hello"),
    ("[pod/train-3/main] 2026-01-02T03:04:05.5Z hello", "2026-01-02T03:04:05.500Z", "hello"),
    ("2026-01-02T03:04:05.5Z stderr F [rank3]: 2026-01-02 04:04:05 hello", "2026-01-02T03:04:05.500Z", "hello"),
    ("Job 12 began at 2026-01-02 03:04:05", None, "Job 12 began at 2026-01-02 03:04:05"),
    ("12:34:56 hello", None, "12:34:56 hello"),
    ("2026-13-41 99:99:99 hello", None, "2026-13-41 99:99:99 hello"),
]


@pytest.mark.parametrize(("line", "time", "message"), LINES, ids=[line for line, _, _ in LINES])
def test_stamps(line: str, time: str | None, message: str) -> None:
    prefix = parse_prefix(line)
    assert (iso(prefix.ts) if prefix.ts != NO_TIME else None) == time
    assert line[prefix.start :] == message
    assert prefix.yearless == (time is not None and time.startswith("1972"))


@pytest.mark.parametrize(
    ("line", "host", "message"),
    [
        ("Jan  2 03:04:05 n7 kernel: [12345.678901] NVRM: Xid", "n7", "NVRM: Xid"),
        ("Jan 02 03:04:05.123456 n7 kernel: NVRM: Xid", "n7", "NVRM: Xid"),
        ("<3>Jan  2 03:04:05 n7 kernel: NVRM: Xid", "n7", "NVRM: Xid"),
        ('<165>1 2026-01-02T03:04:05.1Z n7 kernel - - [a@1 b="c"][d@1 e="f"] NVRM: Xid', "n7", "NVRM: Xid"),
        ("Fri 2026-01-02 03:04:05 CET n7 kernel: NVRM: Xid", "n7", "NVRM: Xid"),
        ("[ 1234.567890] n7 kernel: NVRM: Xid", "n7", "NVRM: Xid"),
        ("n07: [Fri Jan  2 03:04:05 2026] NVRM: Xid", "n07", "NVRM: Xid"),
        ("2026-01-02T03:04:05,123456+00:00 NVRM: Xid", None, "NVRM: Xid"),
        ("kern  :err   : [  123.456789] NVRM: Xid", None, "NVRM: Xid"),
        ("3,1234,123456789,-;NVRM: Xid", None, "NVRM: Xid"),
        ("[Jan 2 03:04] NVRM: Xid", None, "NVRM: Xid"),
    ],
)
def test_system_logs_name_the_host(line: str, host: str | None, message: str) -> None:
    prefix = parse_prefix(line)
    assert prefix.kernel
    assert prefix.host == host
    assert line[prefix.start :] == message


def test_seconds_since_boot() -> None:
    for line in ("[  123.456789] x", "3,9,123456789,-;x", "<3>[  123.456789] x"):
        prefix = parse_prefix(line)
        assert (prefix.uptime, prefix.quality) == (123_456_789_000, TimeQuality.UPTIME)


def test_labels() -> None:
    assert parse_prefix("[default3]:[rank11]: x").rank == 11
    assert parse_prefix("[default3]:x").local_rank == 3
    assert parse_prefix("12: x", task_labels=True).task == 12
    assert parse_prefix("12: x").task is None
    assert parse_prefix("(Worker pid=77, ip=10.0.0.7) x").pid == 77
    assert parse_prefix("[rank: 5] x").rank == 5
    assert parse_prefix("rank-3: 2026-01-02 03:04:05 x").host is None


civil = st.datetimes(
    min_value=__import__("datetime").datetime(1990, 1, 1), max_value=__import__("datetime").datetime(2100, 1, 1)
)


@given(
    civil,
    st.sampled_from(
        ["%Y-%m-%d %H:%M:%S.%f", "%Y/%m/%d %H:%M:%S,%f", "[%d/%b/%Y:%H:%M:%S +0000]", "%Y-%m-%dT%H:%M:%SZ"]
    ),
)
@settings(max_examples=200, deadline=None)
def test_what_is_written_is_read(moment, form) -> None:
    from datetime import UTC

    prefix = parse_prefix(moment.strftime(form) + " hello")
    exact = int(moment.replace(tzinfo=UTC, microsecond=0).timestamp()) * 10**9
    assert prefix.ts // 10**9 * 10**9 == exact
    assert prefix.quality == TimeQuality.EXACT


@given(st.text(max_size=300) | st.from_regex(r"[\[(<]?[0-9A-Z][0-9/:. ,\-a-zA-Z\]]{0,60}", fullmatch=True))
@settings(max_examples=500, deadline=None)
def test_any_text_is_survived(text: str) -> None:
    prefix = parse_prefix(text)
    assert 0 <= prefix.start <= len(text) + 1
    assert prefix.quality == TimeQuality.NONE or prefix.ts != NO_TIME
