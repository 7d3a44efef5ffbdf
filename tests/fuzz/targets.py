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


def metric_forms(data: bytes) -> None:
    """Each reader of samples is given the bytes, whatever they look like."""
    from aiops.ingest.metrics_block import SeriesBuilder
    from aiops.ingest.metrics_csv import read_csv
    from aiops.ingest.metrics_dmon import read_dmon, sniff_dmon
    from aiops.ingest.metrics_exposition import read_exposition
    from aiops.ingest.metrics_parquet import read_parquet
    from aiops.ingest.metrics_prometheus import read_prometheus
    from aiops.ingest.metrics_smi import read_smi, sniff_smi
    from aiops.ingest.metrics_smi_table import read_smi_table, sniff_smi_table

    for sniff in (sniff_smi, sniff_smi_table, sniff_dmon):
        sniff(data[: 1 << 16])
    readers: list[Callable[[SeriesBuilder, Source, Case], object]] = [
        lambda builder, source, _: read_dmon(builder, source, data),
        lambda builder, source, _: read_smi_table(builder, source, data),
        lambda builder, source, case: read_smi(builder, source, case, data),
        lambda builder, *_: read_prometheus(builder, data),
        lambda builder, *_: read_exposition(builder, data),
        lambda builder, *_: read_csv(builder, data),
        lambda builder, *_: read_parquet(builder, data),
    ]
    for read in readers:
        case = Case(root="", sources=[Source(0, "m", Path("m"), len(data), "metrics")])
        builder = SeriesBuilder(case.sources[0], case)
        read(builder, case.sources[0], case)
        builder.finish()
        for block in case.series:
            assert block.values.shape == (len(block.fields), len(block.entities), len(block.times))


def diagnostics(data: bytes) -> None:
    """Results of ``dcgmi``, read in each form, whatever they look like."""
    from aiops.ingest.gpu_diagnostics import read_diagnostics, sniff_diagnostics

    sniff_diagnostics(data[: 1 << 16])
    for form in ("dcgmi diag -j", "dcgmi health -j", "dcgmi diag", "dcgmi health"):
        case = Case(root="", sources=[Source(0, "m", Path("m"), len(data), "diagnostics", form)])
        read_diagnostics(case.sources[0], data, case)
        for event in case.events:
            str(event)
            assert 0 <= event.offset <= len(data)


def kubectl_text(data: bytes) -> None:
    """Tables and descriptions, with a beginning that makes sure that they are read as such."""
    from aiops.ingest.kubernetes import read_objects
    from aiops.ingest.kubernetes_text import sniff_kubectl, text_objects

    text = data.decode("utf-8", "replace")
    sniff_kubectl(text[:20_000])
    for body, line in text_objects(text):
        assert isinstance(body, dict) and line >= 0
    for head in (b"Name: a\nNamespace: b\nLabels: <none>\n", b"NAME   READY   STATUS   RESTARTS   AGE\n"):
        _read(read_objects, "kubernetes", head + data)


def checkpoint_folder(data: bytes) -> None:
    """The bytes as each of the files of a checkpoint that is looked into."""
    from aiops.ingest.checkpoint_check import check
    from aiops.ingest.checkpoint_files import inspect
    from aiops.ingest.checkpoints import set_apart

    with tempfile.TemporaryDirectory() as directory:
        files = []
        for name in _CHECKPOINT_FILES:
            path = Path(directory) / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)
            files.append((name, path))
        found, parts = set_apart(files, {})
        assert parts <= set(_CHECKPOINT_FILES)
        for item in found:
            inspect(item)
            check(item, [other for other in found if other is not item], dotfiles=True)


_CHECKPOINT_FILES = (
    "ckpt/latest_checkpointed_iteration.txt", "ckpt/iter_0000100/mp_rank_00/model_optim_rng.pt", "hf/checkpoint-5/SHA256SUMS",
    "hf/checkpoint-5/trainer_state.json", "hf/checkpoint-5/model.safetensors.index.json", "hf/checkpoint-5/optimizer.pt",
    "hf/checkpoint-5/model-00001-of-00002.safetensors", "dcp/step-7/.metadata", "dcp/step-7/__0_0.distcp", "orbax/3/metadata.json",
    "orbax/3/_CHECKPOINT_METADATA", "hf/checkpoint-9/trainer_state.json", "hf/checkpoint-9/optimizer.pt",
)  # fmt: skip


def big_reports(data: bytes) -> None:
    """The parts of a report of NVIDIA's script and of a dump of a cluster keep their places."""
    from aiops.ingest.bug_report import is_bug_report, keep_logs
    from aiops.ingest.cluster_dump import with_logs
    from aiops.ingest.spool import Spool

    with tempfile.TemporaryDirectory() as directory:
        path, target = Path(directory) / "a", Path(directory) / "b"
        path.write_bytes(data)
        is_bug_report(data)
        keep_logs(path, target)
        kept = target.read_bytes()
        assert len(kept) == len(data) and kept.count(b"\n") == data.count(b"\n")
        for name, log in with_logs([("a", path)], Spool(Path(directory), settings().limits)):
            assert name == "a" or log.stat().st_size <= len(data)


def beginning(data: bytes) -> None:
    """What is told from the first bytes of any file: its kind, its host, its rank, when its kernel started."""
    from aiops.ingest.describe import boot_time, describe
    from aiops.ingest.facts import Facts
    from aiops.ingest.files import _DOCUMENTS
    from aiops.ingest.sniff import KINDS, sniff

    head = data[: 1 << 16]
    what = sniff(head, _DOCUMENTS)
    assert what.kind in KINDS
    for kind in ("kernel", "training"):
        describe(Source(0, "m", Path("m"), len(data), kind), 0, head, Facts())
    boot_time(head)


def one_file(data: bytes) -> None:
    """The whole corridor over one file of any kind, with a log beside it that makes an incident."""
    everything([("f", data), ("kern.log", _LOG)], formats=False)


_LOG = b"2026-08-01T08:00:01Z gx-n7 kernel: NVRM: Xid (PCI:0000:3b:00): 79, pid=42, GPU has fallen off the bus.\n"


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
    from aiops.ingest.checkpoints import LISTING, read_checkpoints, sniff_listing
    from aiops.ingest.listing import read_listing

    sniff_listing(data[: 1 << 16])
    entries, other = read_listing(data)
    assert other >= 0 and all(0 <= entry.offset <= len(data) for entry in entries)
    with tempfile.NamedTemporaryFile() as handle:
        handle.write(data)
        handle.flush()
        read_checkpoints(Case(root="", sources=[Source(0, "m", Path(handle.name), len(data), "listing", LISTING)]))


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
    "metric_forms": metric_forms,
    "diagnostics": diagnostics,
    "kubectl_text": kubectl_text,
    "checkpoint_folder": checkpoint_folder,
    "big_reports": big_reports,
    "beginning": beginning,
    "one_file": one_file,
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
    if parser == "metric_forms":
        return _samples()
    if parser == "diagnostics":
        return _DIAGNOSTICS
    if parser == "kubectl_text":
        return _kubectl()
    if parser == "checkpoint_folder":
        return _CHECKPOINT_SEEDS
    if parser == "big_reports":
        return _BIG_REPORTS
    if parser in ("beginning", "one_file"):
        return tuple(data for name in _WITH_SEEDS for data in seeds(name))
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


_WITH_SEEDS = (
    "metric_forms", "diagnostics", "kubectl_text", "big_reports", "topology", "slurm", "listing", "records", "flight_recorder",
    "prefix", "archive",
)  # fmt: skip
"""Parsers whose seeds have all forms of files among them."""
_DMON = (
    b"#Date       Time        gpu     pwr  gtemp  sbecc  dbecc\n#YYYYMMDD   HH:MM:SS    Idx       W      C   errs   errs\n"
    b" 20261103   11:20:31      0     641     61      2      0\n 20261103   11:20:31      1      92     41      -      -\n"
    * 2,
    b"#Entity         GPUTL       TMPTR       XIDER       NOSUCH\nID                          C\n"
    b"GPU 0           99          61          0           7\nGPU 1           0           92          79          N/A\n"
    b"GPU-I 3   1   2   3   4\n",
    b"# Entity            NRELT     NRCLT\n      Id\n    GPU 0 LINK 3    17        0\n    GPU 0 LINK 4    0         2\n",
)
_SMI_TABLE = (
    b"root@gx-07:~# nvidia-smi\nTue Nov  3 11:20:31 2026\n"
    b"| NVIDIA-SMI 550.90.07              Driver Version: 550.90.07      CUDA Version: 12.4     |\n"
    b"|   0  NVIDIA H100 80GB HBM3          On  |   00000000:18:00.0 Off |                    0 |\n"
    b"| N/A   34C    P0             70W /  700W |       4MiB /  81559MiB |      0%      Default |\n"
    b"|   1  NVIDIA H100 80GB HBM3          On  |   00000000:2A:00.0 Off |                    3 |\n"
    b"| N/A   ERR!   P0            N/A  /  700W |   70112MiB /  81559MiB |     99%      Default |\n"
)
_DIAGNOSTICS = (
    b'{"DCGM Diagnostic":{"test_categories":[{"category":"Hardware","tests":[{"name":"memory","results":[{"entity_group":"GPU",\n'
    b'"entity_id":3,"status":"Fail","warnings":[{"warning":"GPU 3 had memory errors","error_id":85,"error_category":10}]}]}]}]}}\n',
    b'{"DCGM GPU Diagnostic":{"test_categories":[{"tests":[{"name":"Memory","results":[{"gpu_ids":"1,3","status":"FAIL",\n'
    b'"warnings":"GPU 3 had memory errors"}]}]}]},"version":"3.3.5"}\n',
    b'{"body":{"GPU":{"children":{"3":{"children":{"Errors":{"children":{"Memory system":{"overflow":["bad"],"value":"Failure"}}}},\n'
    b'"value":"Failure"}}}},"header":["Health Monitor Report"]}\n',
    b"| Diagnostic                | Result                                         |\n"
    b"| software                  | Fail               |\n"
    b"|                           | GPU3: Fail         |\n| Warning: GPU3             | GPU 3 had memory errors and row remappings ar  |\n"
    b"|                           | e pending          |\n| Diagnostic                | Fail - GPUs: 1, 5  |\n| Warning | x |\n",
    b"| Health Monitor Report                                  |\n| GPU                       |                                    |\n"
    b"| -> 3                      | Failure   |\n|    -> Errors              |           |\n|       -> Memory system    | Failure   |\n"
    b"|                           | GPU 3 had memory errors       |\n",
)
_BIG_REPORTS = (
    b"Start of NVIDIA bug report log file.\n\n____________________________________________\n\n*** /proc/cmdline\n*** ls: -r\nquiet\n"
    b"____________________________________________\n\ndmesg:\n\n[   12.345678] NVRM: Xid (PCI:0000:3b:00): 79, pid=1, x\n",
    b'{\n    "kind": "NodeList",\n    "apiVersion": "v1",\n    "items": [\n        {"metadata": {"name": "n1"}}\n    ]\n}\n'
    b"==== START logs for container main of pod ml/a-0 ====\nTraceback (most recent call last):\nValueError: x\n"
    b"==== END logs for container main of pod ml/a-0 ====\n",
)
_CHECKPOINT_SEEDS = (
    b'{"global_step": 5, "epoch": 1.0}', b'{"weight_map": {"a": "model-00001-of-00002.safetensors", "b": "../x", "c": 3}}',
    b"\x40\x00\x00\x00\x00\x00\x00\x00" + b'{"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}}'.ljust(64) + b"\x00" * 4,
    b"PK\x03\x04" + b"\x00" * 40 + b"PK\x05\x06" + b"\x00" * 18, b"100\n", b"iter_0000100",
    b"d41d8cd98f00b204e9800998ecf8427e  optimizer.pt\nd41d8cd98f00b204e9800998ecf8427e *./nothing.pt\n" * 2,
)  # fmt: skip
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
def _samples() -> tuple[bytes, ...]:
    import pyarrow
    import pyarrow.parquet
    from smi_dump import dump, gpu_tree, xml

    gpus = {index: gpu_tree(index, pending="Yes", dram="3") for index in range(2)}
    table = pyarrow.table({"timestamp": [1785571200, 1785571210], "gpu": [0, 1], "DCGM_FI_DEV_GPU_TEMP": [50.0, 91.0]})
    packed = io.BytesIO()
    pyarrow.parquet.write_table(table, packed)
    text, lost = dump(gpus, attached=2), "Unable to determine the device handle for GPU 0000:5D:00.0: GPU is lost.\n"
    own = (text.encode(), (text + lost + text).encode(), xml(gpus).encode(), _SMI_TABLE, packed.getvalue(), *_DMON)
    return own + seeds("metrics")[:8]


@cache
def _kubectl() -> tuple[bytes, ...]:
    from fuzz.mutation import ROOT

    described = [path.read_bytes() for path in sorted((ROOT / "tests/ingest/described").glob("*.txt"))]
    return (*described, *_KUBECTL)


_KUBECTL = (
    b"NAMESPACE   LAST SEEN             TYPE      REASON             OBJECT          MESSAGE\n"
    b"ml          26m (x12 over 2h5m)   Warning   FailedScheduling   pod/a-1-7xk2p   0/6 nodes are available: 6 Insufficient x\n",
    b"$ kubectl get pods -o wide\nNAME        READY   STATUS             RESTARTS      AGE   IP         NODE   NOMINATED NODE\n"
    b"a-0-9wq4z   0/1     CrashLoopBackOff   5 (10m ago)   2h    10.0.0.1   n1     <none>\n",
    b"Name:         claim\nNamespace:    ml\nLabels:       <none>\nAPI Version:  resource.k8s.io/v1\nKind:         ResourceClaim\n"
    b"Spec:\n  Devices:\n    Requests:\n      Exactly:\n        Count:              8\n        Device Class Name:  gpu.nvidia.com\n"
    b"      Name:                 gpus\nStatus:\n  Allocation:\n    Devices:\n      Results:\n        Device:   gpu-0\n"
    b"        Driver:   gpu.nvidia.com\n        Pool:     n1\n        Request:  gpus\n"
    b"  Reserved For:\n    Name:      a\n    Resource:  pods\n"
    b"Events:\n  Type     Reason   Age   From   Message\n  ----     ------   ----  ----   -------\n"
    b"  Warning  Failed   1m (x3 over 2m)   x, n1   no device\n",
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
