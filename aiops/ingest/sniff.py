"""What a file is, judged by its content and never by its name."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import NamedTuple

from aiops.ingest.pickle_values import looks_like_pickle
from aiops.ingest.prefix import LEVELS

KINDS = (
    "kernel",
    "training",
    "scheduler",
    "kubernetes",
    "slurm",
    "metrics",
    "diagnostics",
    "topology",
    "listing",
    "flight_recorder",
    "manifest",
    "text",
    "binary",
    "empty",
)
"""``kernel`` system and kernel logs · ``training`` output of jobs · ``scheduler`` daemon logs · ``kubernetes`` objects ·
``slurm`` tables and JSON of its commands · ``metrics`` samples · ``diagnostics`` results of
tests of GPUs · ``topology`` what nodes hang on ·
``listing`` files with sizes and times · ``flight_recorder`` dumps of collectives ·
``manifest`` our own files · ``text`` anything else."""

SCANNED = frozenset({"kernel", "training", "scheduler", "text"})
"""Kinds whose lines are scanned for signals."""

_NO_LEVEL = rb"(?!(?i:" + "|".join(LEVELS.split()).encode() + rb") )"
_BARE_KERNEL_LINE = re.compile(
    rb"(?m)^(?:NVRM|nvidia-nvswitch\d*|pcieport [0-9a-f:.]+|mlx5_core [0-9a-f:.]+|EDAC \w+|mce|amdgpu [0-9a-f:.]+): "
)
"""As ``dmesg -t`` and ``journalctl -o cat`` print what GPUs, links and memory have to say."""
_KERNEL_LINE = re.compile(
    rb"^(?:[A-Za-z][\w.-]{0,60}: )?(?:<\d+>(?:1 )?)?(?:[a-z]{3,8} *:[a-z]{3,6} *: )?"
    rb"(?:[A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d(?:\.\d+)? " + _NO_LEVEL + rb"[\w.-]+ [\w.@/()-]+(?:\[\d+\])?: "
    rb"|(?:[A-Z][a-z]{2} )?\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d[.,\d]*(?:Z| [A-Z]{3,4}|[+-]\d\d:?\d\d) "
    + _NO_LEVEL
    + rb"[\w.-]+ "
    rb"(?:[\w.@/()-]+(?:\[\d+\])?: |\S+ \S+ \S+ (?:-|\[))"
    rb"|\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d,\d{6}[+-]\d\d:\d\d "
    rb"|\[ *\d{1,10}\.\d{6}\] "
    rb"|\d{10}\.\d{6} " + _NO_LEVEL + rb"[\w.-]+ [\w.@/()-]+(?:\[\d+\])?: "
    rb"|\d{1,4},\d{1,19},\d{1,19},[^;\n]{1,80};"
    rb"|\[[A-Z][a-z]{2} [A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d \d{4}\] )",
    re.M,
)
_SCHEDULER_LINE = re.compile(
    rb"^\[?\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?\]? (?:\[\d[\d.]*(?:batch|extern)?\] )?(?:error: |debug\d?: +|info: |verbose: )?"
    rb"(?:sched|_slurm_rpc|slurm|_job_complete|drain_nodes|Node |Nodes |update_node|agent/|requeue|Requeuing|Killing JobId|job_time_limit"
    rb""
    rb"|Time limit|backfill|_start_job|cleanup|slurmd|launch task|Launching|Warning: |node_did_resp|JobId="
    rb"|Batch|preempted|_update_job|job_|proc"
    rb"|\[job \d|_run_prolog|[Pp]rolog|[Ee]pilog|Gres |lllp_|task/(?:cgroup|affinity)|done with job|Munge |CPU frequency)",
    re.M,
)
# LogTimeFormat of slurm.conf; brackets around a time with a "T" are Slurm's own way, whatever the line goes on with.
_SLURM_STAMP = re.compile(rb"^\[\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d{3})?(?:[+-]\d\d:?\d\d)?\] ", re.M)
_SLURM_WORD = re.compile(rb"\bslurm(?:ctld|d|dbd|stepd)?\b|\bJobId=\d|\bStepId=\d|\[\d+\.(?:batch|extern|\d+)\]")
_TRAINING = re.compile(
    rb"Traceback \(most recent call last\)|NCCL (?:INFO|WARN|version)|torch[./]|ProcessGroup|\[rank\d+\]|\brank ?\d|[Ll]oss\b|"
    rb"\b[Ee]poch\b|\bstep\b|iteration|srun: |slurmstepd|mpirun|torchrun|deepspeed|accelerate|\bINFO\b|\bWARNING\b|\bERROR\b|"
    rb"CUDA|checkpoint|pyxis|transformers|lightning|jax"
)


_CONTROL = bytes((*range(1, 9), *range(14, 27), *range(28, 32)))
_PROGRAM_LINE = re.compile(
    rb"\[?\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:[.,]\d{1,9})?Z?\]? (?:- |\| ?)?\[?(?:TRACE|DEBUG|INFO|WARN|WARNING|ERROR|CRITICAL|FATAL)\b"
)


def is_program_log(head: bytes) -> bool:
    """True if the first line begins with a time and a level: no structured format does."""
    return _PROGRAM_LINE.match(head) is not None


def is_binary(head: bytes) -> bool:
    """True if the bytes are no text: many control characters, or many bytes that are no UTF-8.

    NUL bytes alone do not decide: a crash can leave a block of them in a log.
    """
    if head.startswith((b"\xff\xfe", b"\xfe\xff")):
        return False
    sample = head[:8192].replace(b"\x00", b"")
    if not sample:
        return False
    control = len(sample) - len(sample.translate(None, _CONTROL))
    broken = 0 if sample.isascii() else sample.decode("utf-8", "replace").count("\ufffd")
    return control + broken > len(sample) * 3 // 20


class Sniffed(NamedTuple):
    """What a file is, and which evidence decided."""

    kind: str
    format: str
    why: str


def sniff(head: bytes, documents: tuple[tuple[str, Callable[[bytes], str | None]], ...]) -> Sniffed:
    """Kind and format of a file from a sample of its bytes.

    ``documents`` are the sniffers of structured formats, asked in order before the log dialects are counted.
    """
    if not head.strip(b"\x00\r\n\t "):
        return Sniffed("empty", "", "nothing but blanks")
    if looks_like_pickle(head):
        for kind, sniffer in documents:
            found = sniffer(head)
            if found:
                return Sniffed(kind, found, f"a pickle with the fields of {kind}")
        return Sniffed("binary", "pickle", "binary content, a pickle that is no flight-recorder dump")
    if is_binary(head) and not head.startswith(b"PAR1"):
        return Sniffed("binary", "", "binary content")
    for kind, sniffer in () if is_program_log(head) else documents:
        found = sniffer(head)
        if found:
            return Sniffed(kind, found, f"has the fields of {found}")
    lines = max(1, head.count(b"\n"))
    kernel = len(_KERNEL_LINE.findall(head))
    scheduler = len(_SCHEDULER_LINE.findall(head))
    if kernel * 2 > lines and kernel >= scheduler:
        return Sniffed(
            "kernel", "syslog", f"{kernel} of {lines} sampled lines begin like those of a kernel or system log"
        )
    if scheduler * 3 <= lines and _SLURM_WORD.search(head):
        scheduler = max(scheduler, len(_SLURM_STAMP.findall(head)))
    if scheduler * 3 > lines:
        return Sniffed("scheduler", "slurm", f"{scheduler} of {lines} sampled lines are those of a scheduler's daemon")
    word = _TRAINING.search(head)
    if word:
        said = word[0].decode("utf-8", "replace")
        return Sniffed("training", "log", f"it says {said!r} and {kernel} of {lines} lines are those of a system log")
    if kernel:
        return Sniffed("kernel", "syslog", f"{kernel} of {lines} sampled lines begin like those of a system log")
    bare = len(_BARE_KERNEL_LINE.findall(head))
    if bare * 2 > lines:
        return Sniffed(
            "kernel", "syslog", f"{bare} of {lines} sampled lines are messages of the kernel without a stamp"
        )
    return Sniffed("text", "", "no known form")
