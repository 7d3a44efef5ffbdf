"""Logs inside of records: text, host and time come out, offsets stay."""

from __future__ import annotations

import json
import struct
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aiops.config import Settings, default_cache_dir
from aiops.ingest import open_case
from aiops.ingest.unwrap import needs_cleaning, sniff_wrapped, unwrap

XID = "NVRM: Xid (PCI:0000:3b:00): 79, pid=1234, name=python, GPU has fallen off the bus."
T = 1_767_323_045_123_456  # 2026-01-02T03:04:05.123456Z
NS = T * 1000


def read(path: Path, *more: Path):
    return open_case([path, *more], Settings(cache_dir=default_cache_dir()))


def xid_of(case):
    rows = [event for event in case.events if event.signal == "gpu.xid"]
    assert len(rows) == 1
    return rows[0]


def journal(**fields) -> dict[str, object]:
    return {
        "__CURSOR": "s=1",
        "__REALTIME_TIMESTAMP": str(T),
        "__MONOTONIC_TIMESTAMP": "5000000",
        "_BOOT_ID": "b1",
        "PRIORITY": "3",
        "_HOSTNAME": "n7",
        "_TRANSPORT": "kernel",
        "SYSLOG_IDENTIFIER": "kernel",
        **fields,
    }


@pytest.mark.parametrize("message", [XID, list(XID.encode())], ids=["text", "bytes"])
def test_journald_lines(tmp_path: Path, message) -> None:
    lines = [journal(MESSAGE=None), journal(MESSAGE="usb 1-1: new device"), journal(MESSAGE=message)]
    path = tmp_path / "j.json"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    with read(tmp_path) as case:
        event = xid_of(case)
        assert (event.node, event.ts, event.line) == ("n7", NS, 3)
        assert path.read_bytes()[: event.offset].count(b"\n") == 2
        assert (case.sources[0].kind, case.sources[0].node) == ("kernel", "n7")


def test_journald_export_and_pretty(tmp_path: Path) -> None:
    fields = journal(MESSAGE=XID)
    text = b"__CURSOR=s=0\n_HOSTNAME=n7\nMESSAGE=hello there\n__REALTIME_TIMESTAMP=1767323045000000\n\n"
    message = fields.pop("MESSAGE")
    text += b"".join(f"{k}={v}\n".encode() for k, v in fields.items())
    text += b"MESSAGE\n" + struct.pack("<Q", len(message)) + message.encode() + b"\n\n"
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "journal.export").write_bytes(text)
    with read(tmp_path / "a") as case:
        event = xid_of(case)
        assert (event.node, event.ts, event.line) == ("n7", NS, 14)
    (tmp_path / "b").mkdir()
    rows = [journal(MESSAGE="hello"), journal(MESSAGE=XID)]
    (tmp_path / "b" / "j").write_text("".join(json.dumps(row, indent="\t") + "\n" for row in rows))
    with read(tmp_path / "b") as case:
        event = xid_of(case)
        assert (event.node, event.ts) == ("n7", NS)
        assert (tmp_path / "b" / "j").read_text().split("\n")[event.line - 1].strip().startswith('"MESSAGE"')


def test_dmesg_json_takes_its_boot_time_from_the_kernel(tmp_path: Path) -> None:
    entries = [
        {"pri": 6, "time": 1.5, "msg": "rtc_cmos 00:01: setting system clock to 2026-01-02T03:04:05 UTC (1767323045)"},
        {"pri": 3, "time": 11.5, "msg": XID},
    ]
    (tmp_path / "d.json").write_text(json.dumps({"dmesg": entries}, indent=3))
    with read(tmp_path) as case:
        event = xid_of(case)
        assert event.ts == 1_767_323_055 * 10**9
        assert "Xid" in (tmp_path / "d.json").read_text().split("\n")[event.line - 1]


TRACE = [
    "Traceback (most recent call last):",
    '  File "/home/u/train.py", line 12, in <module>',
    "    main()",
    'FileNotFoundError: [Errno 2] No such file or directory: "/data/x"',
]


def test_docker_lines_hold_a_traceback(aiops, tmp_path: Path) -> None:
    rows = [
        {"log": line + "\n", "stream": "stderr", "time": f"2026-01-02T03:04:0{i}.5Z"} for i, line in enumerate(TRACE)
    ]
    (tmp_path / "c.log").write_text("".join(json.dumps(row) + "\n" for row in rows))
    report = json.loads(aiops("analyze", tmp_path, "--format", "json").stdout)
    incident = report["incidents"][0]
    assert incident["failure_class"].startswith(("usr.", "data."))
    assert any("FileNotFoundError" in item["text"] and item["line"] == 4 for item in incident["evidence"])


@pytest.mark.parametrize(
    "record",
    [
        {
            "@timestamp": "2026-01-02T03:04:05.123456Z",
            "message": XID,
            "host": {"name": "n7"},
            "log.syslog.appname": "kernel",
        },
        {"date": T / 1e6, "MESSAGE": XID, "_HOSTNAME": "n7", "SYSLOG_IDENTIFIER": "kernel", "_TRANSPORT": "kernel"},
        {"timestamp": T, "msg": XID, "hostname": "n7", "program": "kernel"},
        {
            "resourceLogs": [
                {
                    "resource": {"attributes": [{"key": "host.name", "value": {"stringValue": "n7"}}]},
                    "scopeLogs": [
                        {
                            "logRecords": [
                                {
                                    "timeUnixNano": str(NS),
                                    "body": {"stringValue": XID},
                                    "attributes": [{"key": "appname", "value": {"stringValue": "kernel"}}],
                                }
                            ]
                        }
                    ],
                }
            ]
        },
    ],
    ids=["ecs", "fluent-bit", "vector", "otel"],
)
def test_collectors(tmp_path: Path, record) -> None:
    (tmp_path / "x.jsonl").write_text(json.dumps(record) + "\n")
    with read(tmp_path) as case:
        event = xid_of(case)
        assert event.node == "n7"
        assert abs(event.ts - NS) < 1_000_000


def test_container_lines_that_were_split_are_joined(tmp_path: Path) -> None:
    first, rest = (
        "torch.OutOfMemoryError: CUDA out",
        " of memory. Tried to allocate 2.00 GiB. GPU 3 has a total capacity of 79 GiB",
    )
    (tmp_path / "0.log").write_text(
        "2026-01-02T03:04:05.1Z stderr F step 1 loss 2.0\n"
        f"2026-01-02T03:04:06.1Z stderr P {first}\n2026-01-02T03:04:06.1Z stderr F {rest}\n"
        "2026-01-02T03:04:07.1Z stderr F the end\n"
    )
    with read(tmp_path) as case:
        found = [event for event in case.events if "Tried to allocate" in event.text]
        assert found
        assert found[0].line == 2


def test_a_node_and_a_pod_are_joined_by_the_collector(tmp_path: Path) -> None:
    rows = [
        {
            "time": f"2026-01-02T03:04:0{i}Z",
            "log": f"train-{i}:71:71 [0] NCCL INFO comm 0x1 rank {i} nranks 2 cudaDev 0 nvmlDev 0 busId 3b000 commId 0x2 - Init COMPLETE",
            "kubernetes": {"pod_name": f"train-{i}", "container_name": "c", "host": f"gpu-node-{i}"},
        }
        for i in range(2)
    ]
    (tmp_path / "fluent.json").write_text("".join(json.dumps(row) + "\n" for row in rows))
    with read(tmp_path) as case:
        assert {rank: place.node for rank, place in case.topology.ranks.items()} == {0: "gpu-node-0", 1: "gpu-node-1"}
        assert case.topology.ranks[1].pod == "train-1"


def test_progress_bars_colours_and_nuls(tmp_path: Path) -> None:
    raw = (
        b"\x00\x00\x00start\n\x1b[32m10%|#  | 1/10\x1b[0m\r20%|## | 2/10\rtorch.OutOfMemoryError: CUDA out of memory. Tried to "
        b"allocate 2.00 GiB.\r30%|###| 3/10\nRuntime\x1b[31mError: NCCL\x1b[0m error\n"
    )
    path = tmp_path / "log"
    path.write_bytes(raw)
    with read(tmp_path) as case:
        event = next(event for event in case.events if "Tried to allocate" in event.text)
        assert event.line == 2
        assert event.text.startswith("torch.OutOfMemoryError")
        line = raw[event.offset :].split(b"\r")[0]
        assert line.startswith(b"torch.") or b"torch." in raw[event.offset - 9 : event.offset + 40]
        assert case.sources[0].lines == 3


def test_utf16_with_and_without_a_mark(tmp_path: Path) -> None:
    text = f"Jan  2 03:04:05 n7 kernel: {XID}\n" * 3
    for name, data in (("a", text.encode("utf-16")), ("b", text.encode("utf-16-le"))):
        folder = tmp_path / name
        folder.mkdir()
        (folder / "kern.log").write_bytes(data)
        with read(folder) as case:
            assert case.events[0].node == "n7"


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=12), inner, max_size=4),
    max_leaves=8,
)
names = st.sampled_from(
    ["MESSAGE", "message", "log", "body", "time", "ts", "@timestamp", "_HOSTNAME", "host", "pri", "rank", "kubernetes",
     "resourceLogs", "exc_info", "__REALTIME_TIMESTAMP", "__MONOTONIC_TIMESTAMP", "_BOOT_ID", "stream", "SYSLOG_IDENTIFIER"]
)  # fmt: skip


@given(st.lists(st.dictionaries(names, json_values, max_size=6), max_size=8), st.binary(max_size=40))
@settings(max_examples=150, deadline=None)
def test_every_byte_keeps_its_place(tmp_path_factory, records, junk: bytes) -> None:
    folder = tmp_path_factory.mktemp("u")
    raw = b"\n".join(json.dumps(record).encode() for record in records) + b"\n" + junk
    path, target = folder / "in", folder / "out"
    path.write_bytes(raw)
    for form in ("json lines", "docker json", "cri", "journald export", "journald json-pretty", "dmesg json", ""):
        lines, _ = unwrap(path, form, target, raw)
        assert target.stat().st_size == len(raw), form
        if form in ("json lines", ""):
            assert lines.line_at(len(raw)) == raw.count(b"\n") + 1


@given(st.binary(max_size=600))
@settings(max_examples=300, deadline=None)
def test_any_bytes_are_sniffed(head: bytes) -> None:
    assert isinstance(sniff_wrapped(head), str)
    assert isinstance(needs_cleaning(head), bool)


def test_the_line_of_an_exception_is_that_of_its_record(aiops, tmp_path: Path) -> None:
    stack = "\n".join(
        ["Traceback (most recent call last):", *[f'  File "train.py", line {n}, in f{n}\n    f()' for n in range(9)],
         "FileNotFoundError: [Errno 2] No such file or directory: '/data/shard-7'"]
    )  # fmt: skip
    rows = [{"time": f"2026-01-02T03:04:0{n}Z", "level": "INFO", "message": f"step {n}"} for n in range(5)]
    rows[3] |= {"level": "ERROR", "message": "training failed", "exc_info": stack}
    (tmp_path / "c.log").write_text("".join(json.dumps(row) + "\n" for row in rows))
    report = json.loads(aiops("analyze", tmp_path, "--format", "json").stdout)
    lines = {item["line"] for item in report["incidents"][0]["evidence"] if "FileNotFoundError" in item["text"]}
    assert lines == {4}
