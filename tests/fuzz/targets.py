"""What is fuzzed: each function takes hostile bytes and must come back, with an answer or with an error for the user."""

from __future__ import annotations

import contextlib
import io
import signal
import tempfile
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from random import Random
from types import FrameType
from typing import Any

from fuzz.commands import check_commands

from aiops.config import Limits, Settings, default_cache_dir
from aiops.errors import AiopsError
from aiops.model.case import Case, Source

SECONDS = 30
"""No mutated file of at most 1 MB may take longer."""


class Hang(AssertionError):
    """A parser did not come back."""


@contextlib.contextmanager
def within(seconds: int) -> Iterator[None]:
    """Raise `Hang` in the main thread if the block takes longer."""

    def ring(_signal: int, _frame: FrameType | None) -> None:
        raise Hang(f"no answer within {seconds} s")

    before = signal.signal(signal.SIGALRM, ring)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def settings() -> Settings:
    """Small limits, and the scanner cache of the test run."""
    limits = Limits(max_files=2_000, max_unpacked_bytes=64 << 20, ratio_floor=4 << 20, max_document_bytes=8 << 20)
    return Settings(limits=limits, cache_dir=default_cache_dir())


def _read(reader: Callable[[Source, bytes, Case], None], kind: str, data: bytes) -> None:
    case = Case(root="", sources=[Source(0, "m", Path("m"), len(data), kind)])
    reader(case.sources[0], data, case)
    for event in case.events:
        str(event)


def metrics(data: bytes) -> None:
    from aiops.ingest.metrics import read_metrics, sniff_metrics

    sniff_metrics(data[: 1 << 16])
    _read(read_metrics, "metrics", data)


def kubernetes(data: bytes) -> None:
    from aiops.ingest.kubernetes import read_objects, sniff_kubernetes

    sniff_kubernetes(data[: 1 << 16])
    _read(read_objects, "kubernetes", data)


def slurm(data: bytes) -> None:
    from aiops.ingest.slurm import read_slurm, sniff_slurm

    sniff_slurm(data[: 1 << 16])
    _read(read_slurm, "slurm", data)


def topology(data: bytes) -> None:
    """Each reader is given the bytes, whatever they look like."""
    from aiops.ingest.topology import _READERS, read_topology, sniff_topology

    sniff_topology(data[: 1 << 16])
    for form in _READERS:
        case = Case(root="", sources=[Source(0, "m", Path("m"), len(data), "topology", form)])
        read_topology(case.sources[0], data, case)
        for domain in case.topology.tree.domains():
            case.topology.tree.members(domain)
            case.topology.tree.height(domain)


def flight_recorder(data: bytes) -> None:
    from aiops.ingest.flight_recorder import finish_flight_records, read_flight_recorder, sniff_flight_recorder

    sniff_flight_recorder(data[: 1 << 16])
    for form in ("pickle", "json"):
        case = Case(root="", sources=[Source(0, "m", Path("m"), len(data), "flight_recorder", form)])
        read_flight_recorder(case.sources[0], data, case)
        finish_flight_records(case)


def listing(data: bytes) -> None:
    from aiops.ingest.checkpoints import sniff_listing
    from aiops.ingest.listing import read_listing

    sniff_listing(data[: 1 << 16])
    entries, other = read_listing(data)
    assert other >= 0 and all(0 <= entry.offset <= len(data) for entry in entries)


def records(data: bytes) -> None:
    """Unwrapped text keeps every byte at its place, whatever the form is taken for."""
    from aiops.ingest.unwrap import sniff_wrapped, unwrap

    forms = {sniff_wrapped(data[: 1 << 16]), "journald export", "journald json-pretty", "dmesg json", "cri", ""}
    with tempfile.TemporaryDirectory() as directory:
        path, target = Path(directory) / "a", Path(directory) / "b"
        path.write_bytes(data)
        for form in sorted(forms):
            lines, _ = unwrap(path, form, target, data[: 1 << 16])
            assert target.stat().st_size == len(data)
            assert lines.line_at(len(data)) >= 0


def case_yaml(data: bytes) -> None:
    from aiops.ingest.case_yaml import read_case_yaml

    with tempfile.NamedTemporaryFile(suffix=".yaml") as handle:
        handle.write(data)
        handle.flush()
        with contextlib.suppress(AiopsError):
            read_case_yaml(Path(handle.name), "case.yaml")


def hostlist(data: bytes) -> None:
    from aiops.ingest.hostlist import HostlistError, expand_hostlist

    for line in data.decode("utf-8", "replace").split("\n")[:50]:
        with contextlib.suppress(HostlistError):
            assert len(expand_hostlist(line, 1000)) <= 1000


def prefix(data: bytes) -> None:
    from aiops.ingest.prefix import parse_prefix

    for line in data.decode("utf-8", "replace").split("\n")[:2000]:
        parsed = parse_prefix(line[:8192], task_labels=line[:1].isdigit())
        assert 0 <= parsed.start <= len(line)


def redaction(data: bytes) -> None:
    from aiops.redaction import Redactor

    text = data[: 1 << 16].decode("utf-8", "replace")
    once = Redactor().text(text)
    assert Redactor().text(once) == once


def escaping(data: bytes) -> None:
    from aiops.report import escape

    text = data[:8192].decode("utf-8", "surrogateescape")
    for function in (
        escape.plain,
        escape.terminal,
        escape.markdown,
        escape.markdown_code,
        escape.slack,
        escape.slack_code,
    ):
        shown = function(text)
        assert "\n" not in shown and "\x1b" not in shown
        shown.encode()
    assert len(escape.slack(text, 200)) <= 200 and len(escape.slack_code(text, 200)) <= 200
    assert "<script" not in escape.tag("p", text, title=text).lower()


def saved_report(data: bytes) -> None:
    from aiops.cli.saved import report_of

    with tempfile.NamedTemporaryFile(suffix=".json") as handle:
        handle.write(b'{"schema":"aiops.report/v1",' + data.lstrip()[1:] if data.lstrip()[:1] == b"{" else data)
        handle.flush()
        with contextlib.suppress(AiopsError):
            _render(report_of([handle.name]), table=False)


def model_answer(data: bytes) -> None:
    from aiops.copilot.answer import read_answer

    with contextlib.suppress(ValueError):
        read_answer(data.decode("utf-8", "replace"))


def catalog(data: bytes) -> None:
    from aiops.catalog.loader import load_catalog

    with tempfile.TemporaryDirectory() as directory:
        base = Path(directory)
        (base / "signals").mkdir()
        (base / "signals" / "site.yaml").write_bytes(data)
        with contextlib.suppress(AiopsError):
            load_catalog((base,))


def archive(data: bytes) -> None:
    """Spool the bytes as a file of a case; nothing may land outside the private directory."""
    from aiops.ingest.spool import Spool

    with tempfile.TemporaryDirectory() as directory:
        base = Path(directory)
        (base / "in").mkdir()
        (base / "spool").mkdir()
        (base / "in" / "file").write_bytes(data)
        with contextlib.suppress(AiopsError):
            for _, path in Spool(base / "spool", settings().limits).find([str(base / "in")]):
                assert path.is_relative_to(base)
        assert {p.name for p in base.iterdir()} == {"in", "spool"}
        assert not any(p.is_symlink() for p in base.rglob("*"))


def everything(files: list[tuple[str, bytes]], formats: bool = True) -> Any:
    """The whole corridor over a bundle; commands of the report are checked. Returns the report, or None."""
    from aiops.pipeline import analyze_paths

    with tempfile.TemporaryDirectory() as directory:
        for name, data in files:
            path = Path(directory) / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)
        try:
            report = analyze_paths([directory], settings())
        except AiopsError:
            return None
    check_commands(report, b"\n".join(data for _, data in files))
    if formats:
        _render(report)
    return report


def _render(report: Any, table: bool = True) -> None:
    from aiops.report import renderer
    from aiops.triage.rows import row_of
    from aiops.triage.summary import summarize

    for name in ("json", "text", "md", "html", "slack"):
        shown = renderer(name)(report)
        shown.encode()
    if not table:  # triage reads its own reports only, and makes them again if they are damaged
        return
    import orjson

    row = row_of("bundle", orjson.loads(report.to_json()), path="reports/x.json", seconds=1.0)
    summarize([row])
    from aiops.triage.table import write_table

    with tempfile.TemporaryDirectory() as directory:
        write_table([row], Path(directory) / "t.parquet")


PARSERS: dict[str, Callable[[bytes], None]] = {
    "metrics": metrics,
    "kubernetes": kubernetes,
    "slurm": slurm,
    "topology": topology,
    "flight_recorder": flight_recorder,
    "listing": listing,
    "records": records,
    "case_yaml": case_yaml,
    "hostlist": hostlist,
    "prefix": prefix,
    "redaction": redaction,
    "escaping": escaping,
    "saved_report": saved_report,
    "model_answer": model_answer,
    "catalog": catalog,
    "archive": archive,
}


@cache
def seeds(parser: str) -> tuple[bytes, ...]:
    """Real input of a parser to start from."""
    from fuzz.mutation import ROOT, corpus

    files = corpus()
    if parser == "metrics":
        return tuple(d for n, d in files if b"DCGM" in d[:4000] or b"node_" in d[:4000] or b"metric" in d[:300])
    if parser == "kubernetes":
        return tuple(d for n, d in files if b"apiVersion" in d or b"metadata" in d[:3000])
    if parser == "slurm":
        return tuple(d for n, d in files if "sacct" in n or "squeue" in n) + _SLURM
    if parser == "topology":
        return _TOPOLOGY
    if parser == "flight_recorder":
        return _dumps()
    if parser == "listing":
        return _LISTINGS
    if parser == "records":
        return _RECORDS
    if parser == "case_yaml":
        return _CASE_YAML
    if parser == "hostlist":
        return (b"gpu-r[01-04,07]-n[1-8],login1\nn[1-3]\n", b"a[1-2]b[3-4]c[[5-6],7]\n")
    if parser == "catalog":
        return tuple(p.read_bytes()[:3000] for p in sorted((ROOT / "aiops/catalog/signals").glob("*.yaml")))
    if parser == "model_answer":
        return (b'{"claims":[{"text":"GPU 3 fell off the bus.","evidence":["e1"]}]}', b'```json\n{"a":[1]}\n```')
    if parser == "saved_report":
        return _reports()
    if parser == "archive":
        return _archives()
    return tuple(d for _, d in files)


_LISTINGS = (
    b"/ckpt:\ntotal 24\ndrwxr-xr-x 2 u g 4096 2026-08-01 08:00 step-100\n-rw-r--r-- 1 u g 1.5G Aug  1 08:01 model.pt\n"
    b"\n/ckpt/step-100:\ntotal 8\n-rw-r--r-- 1 u g 8192 Aug  1  2026 __0_0.distcp\nlrwxrwxrwx 1 u g 8 Aug  1 08:02 latest -> step-100\n",
    b"  File: /ckpt/step-5/a.pt\n  Size: 4096      \tBlocks: 8          IO Block: 4096   regular file\n"
    b"Modify: 2026-08-01 08:00:00.000000000 +0000\n",
    b"1.2G\t/ckpt/step-100/a.pt\n4.0K\t/ckpt/latest\n",
    b"/ckpt\n\xe2\x94\x9c\xe2\x94\x80\xe2\x94\x80 [4.0K Aug  1 08:00]  step-1\n"
    b"\xe2\x94\x82   \xe2\x94\x94\xe2\x94\x80\xe2\x94\x80 [ 12G Aug  1 08:00]  a.pt\n",
    b"2026-08-01 08:00:00    5368709120 run/step-100/model.safetensors\n                           PRE step-200/\n",
)
_RECORDS = (
    b'{"log":"NVRM: Xid (PCI:0000:3b:00): 79\\n","stream":"stderr","time":"2026-08-01T08:00:00.5Z"}\n' * 3,
    b'{"MESSAGE":"x","__REALTIME_TIMESTAMP":"1785571200000000","_HOSTNAME":"n7","_BOOT_ID":"ab"}\n' * 3,
    b"__CURSOR=s=1\n__REALTIME_TIMESTAMP=1785571200000000\n_HOSTNAME=n7\nMESSAGE\n\x05\x00\x00\x00\x00\x00\x00\x00a\nb\nc\n\n",
    b'{\n\t"__CURSOR" : "s=1",\n\t"MESSAGE" : "x",\n\t"_HOSTNAME" : "n7"\n}\n',
    b'{\n   "dmesg": [\n      {\n         "pri": 6,\n         "time":     1.5,\n         "msg": "x"\n      }\n   ]\n}\n',
    b"2026-08-01T08:00:00.5Z stdout P first \n2026-08-01T08:00:00.6Z stdout F second\n" * 3,
    b"\x1b[31mred\x1b[0m\n 1%|#\r 2%|##\r\n\x00\x00\n",
    b'{"time":"2026-08-01T08:00:00Z","level":"ERROR","message":"x","exc_info":"Traceback\\n  a\\nValueError: x","rank":3}\n'
    * 3,
)
_CASE_YAML = (
    b"version: 1\ntimezone: Europe/Berlin\nyear: 2026\njob: {id: 77, name: a, scheduler: slurm}\nfiles:\n"
    b"  - {path: 'a/*.log', kind: kernel, node: n7, timezone: '+00:00', clock_ahead_s: 10}\n  - {path: b.log, rank: 3, job: 78}\n"
    b"topology:\n  world_size: 16\n  ranks: {0-7: n1, 8-15: n2}\n  nodes: {n1: {gpus: {0: '0000:3b:00'}}}\n",
)
_TOPOLOGY = (
    b"SwitchName=l1 Nodes=n[1-4]\nSwitchName=l2 \\\n Nodes=n[5-8]\nSwitchName=s Switches=l[1-2]\nBlockName=b Nodes=n1\n",
    b"- topology: a\n  tree:\n    switches:\n      - switch: s\n        children: l1\n      - switch: l1\n        nodes: n[1-2]\n",
    b'switchguid=0x1(1)\nSwitch 36 "S-0000000000000001" # "MF0;l1:MQM9700/U1" base port 0 lid 4 lmc 0\n'
    b'[1] "H-0000000000000002"[1](2) # "n1 mlx5_0" lid 6 4xNDR\n[9] "S-0000000000000003"[3] # "sp" lid 5 4xNDR\n',
    b"CA 19 1 0x98039b0300ab1234 4x EDR - SW 2 12 0x98039b0300ab0002 ( 'n1 mlx5_0' - 'MF0;l1:SB7800/U1' )\n",
    b"\tGPU0\tGPU1\tNIC0\tCPU Affinity\nGPU0\t X \tNV18\tPXB\t0-51\nGPU1\tNV18\t X \tSYS\t0-51\n\nNIC Legend:\n\n  NIC0: mlx5_0\n",
    b"leaves:\n  - name: l1\n    uplinks: [s]\n    hosts: [{node: n1, rack: R1}, n2]\nracks: {R1: {nodes: [n1], pdu: P1, row: A}}\n",
    b"hostname,rack,leaf switch,pdu_a\nn1,R1,l1,P1\nn2,R1,l1,P1\n",
)
_SLURM = (
    b'{"jobs":[{"job_id":7,"name":"a","state":{"current":["FAILED"]},"nodes":"n[1-2]","time":{"start":1785571200,'
    b'"end":1785571300},"exit_code":{"return_code":1}}]}',
    b"JobId=7 JobName=a\n   UserId=x(1) JobState=FAILED Reason=NonZeroExitCode\n   NodeList=n[1-4]\n",
    b"NodeName=n1 Arch=x86_64 State=DOWN+DRAIN\n   Reason=gpu gone [root@2026-08-01T08:00:00]\n   Gres=gpu:8\n",
    b"NODELIST STATE REASON\nn[1-3] drained bad\n",
)


@cache
def _dumps() -> tuple[bytes, ...]:
    from flight_dumps import hung

    with tempfile.TemporaryDirectory() as directory:
        for name in ("pickle", "json"):
            hung().write(Path(directory) / name, form=name)
        return tuple(path.read_bytes() for path in sorted(Path(directory).glob("*/*")))


@cache
def _reports() -> tuple[bytes, ...]:
    from fuzz.mutation import bundles

    found = []
    for _, files in bundles()[:6]:
        report = everything(files, formats=False)
        if report is not None:
            found.append(bytes(report.to_json()))
    return tuple(found)


@cache
def _archives() -> tuple[bytes, ...]:
    import bz2
    import gzip
    import lzma
    import tarfile
    import zipfile

    import zstandard

    text = b"Aug  1 08:00:01 gx-n7 kernel: NVRM: Xid (PCI:0000:3b:00): 79, GPU has fallen off the bus.\n" * 30
    found = [gzip.compress(text, mtime=0), bz2.compress(text), lzma.compress(text), zstandard.compress(text)]
    found.append(found[0] + b"trailing garbage" + found[0])
    for form in (tarfile.GNU_FORMAT, tarfile.PAX_FORMAT, tarfile.USTAR_FORMAT):
        out = io.BytesIO()
        with tarfile.open(fileobj=out, mode="w", format=form) as tar:
            for name in ("a.log", "d/" * 40 + "b.log", "c.log.gz", "a.log"):
                info = tarfile.TarInfo(name)
                body = found[0] if name.endswith("gz") else text
                info.size = len(body)
                with contextlib.suppress(ValueError):
                    tar.addfile(info, io.BytesIO(body))
        found.append(out.getvalue())
    for method in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA):
        out = io.BytesIO()
        with zipfile.ZipFile(out, "w", method) as packed:
            packed.writestr("a.log", text)
            packed.writestr("inner.tar", found[5])
            packed.writestr("b/c.gz", found[0])
        found.append(out.getvalue())
    return tuple(found)


def mutated(name: str, seed: int) -> bytes:
    """The input that a seed means for a parser."""
    from fuzz.mutation import Mutator

    rng = Random(f"{name}/{seed}")
    start = seeds(name)
    return Mutator(rng, list(start)).mutate(rng.choice(start))


def run_parser(name: str, seed: int) -> None:
    """Read one mutated input; raises what the parser raises."""
    data = mutated(name, seed)
    with within(SECONDS):
        PARSERS[name](data)


def mutated_bundle(seed: int) -> list[tuple[str, bytes]]:
    """A bundled incident with some of its files broken."""
    from fuzz.mutation import Mutator, bundles, corpus

    rng = Random(f"bundle/{seed}")
    _, files = rng.choice(bundles())
    mutator = Mutator(rng, [data for _, data in corpus()])
    share = rng.choice((0.2, 0.6, 1.0))
    return [(name, mutator.mutate(data) if rng.random() < share else data) for name, data in files]


def run_bundle(seed: int, formats: bool = True) -> None:
    """Analyse one mutated bundle and render it in every format."""
    with within(2 * SECONDS):
        everything(mutated_bundle(seed), formats)
