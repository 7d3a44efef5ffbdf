"""Values as Slurm's commands print them: times, states, exit codes, TRES, memory, node lists."""

from __future__ import annotations

import re
from calendar import timegm
from functools import lru_cache

from aiops.ingest.hostlist import HostlistError, expand_hostlist
from aiops.model.entity import is_host_name
from aiops.model.event import NO_TIME

JOB_STATES = (
    "PENDING",
    "RUNNING",
    "SUSPENDED",
    "COMPLETED",
    "CANCELLED",
    "FAILED",
    "TIMEOUT",
    "NODE_FAIL",
    "PREEMPTED",
    "BOOT_FAIL",
    "DEADLINE",
    "OUT_OF_MEMORY",
    "COMPLETING",
    "CONFIGURING",
    "EXPEDITING",
    "RESIZING",
    "REQUEUED",
    "REQUEUE_FED",
    "REQUEUE_HOLD",
    "SPECIAL_EXIT",
    "STOPPED",
    "REVOKED",
    "RESV_DEL_HOLD",
    "SIGNALING",
    "STAGE_OUT",
)
_CODES = {
    "PD": "PENDING",
    "R": "RUNNING",
    "S": "SUSPENDED",
    "CD": "COMPLETED",
    "CA": "CANCELLED",
    "F": "FAILED",
    "TO": "TIMEOUT",
    "NF": "NODE_FAIL",
    "PR": "PREEMPTED",
    "BF": "BOOT_FAIL",
    "DL": "DEADLINE",
    "OOM": "OUT_OF_MEMORY",
    "CG": "COMPLETING",
    "CF": "CONFIGURING",
    "RS": "RESIZING",
    "RQ": "REQUEUED",
    "RF": "REQUEUE_FED",
    "RH": "REQUEUE_HOLD",
    "SE": "SPECIAL_EXIT",
    "ST": "STOPPED",
    "RV": "REVOKED",
    "RD": "RESV_DEL_HOLD",
    "SI": "SIGNALING",
    "SO": "STAGE_OUT",
}
_UNFINISHED = frozenset(
    {
        "PENDING",
        "RUNNING",
        "SUSPENDED",
        "COMPLETING",
        "CONFIGURING",
        "RESIZING",
        "STAGE_OUT",
        "SIGNALING",
        "STOPPED",
        "REQUEUE_HOLD",
        "SPECIAL_EXIT",
        "EXPEDITING",
    }
)

_TIME = re.compile(r"(\d{4})-(\d\d)-(\d\d)[T ](\d\d):(\d\d):(\d\d)(?:\.\d+)?(?:Z|([+-])(\d\d):?(\d\d))?", re.ASCII)
_SPAN = re.compile(r"(?:(\d{1,6})-)?(?:(\d{1,9}):)?(\d{1,9}):(\d{1,9})(?:\.\d+)?", re.ASCII)
_SIZE = re.compile(r"(\d{1,15}(?:\.\d{1,9})?)([KMGTP]?)[nc]?", re.ASCII)
_SCALE = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40, "P": 1 << 50}
_CANCELLED_BY = re.compile(r"CANCELLED by (\S+)")
_GPUS = re.compile(r"(?:^|[,\s])(?:gres[:/])?gpu(:[^:,(=\s]*[A-Za-z_][^:,(=\s]*)?[:=](\d{1,7})(?=[(,\s]|$)", re.ASCII)
_TROUBLE = re.compile(r"(?<!POWERED_)(?<!POWERING_)(?<!POWER_)DOWN|FAIL|NOT_RESPONDING|INVALID|ERROR|UNKNOWN|BLOCKED")
_EMPTY = frozenset({"", "(null)", "None", "none", "None assigned", "N/A", "n/a", "Unknown", "UNKNOWN", "NONE", "null"})
_MANY = 100_000


def present(text: str) -> str | None:
    """The text, or ``None`` for Slurm's many words for nothing."""
    text = text.strip()
    return None if text in _EMPTY else text


def reason_text(text: str) -> str | None:
    """A reason as the queue shows it: ``scontrol`` writes ``_`` for the blanks of its own sentences."""
    given = present(text)
    if given is None:
        return None
    sentence, colon, nodes = given.partition(":")
    return sentence.replace("_", " ") + colon + nodes


def time_ns(text: str) -> int:
    """UTC nanoseconds; a time without a zone is taken as UTC, one without a year gives `NO_TIME`."""
    match = _TIME.fullmatch(text.strip())
    if match is None:
        return NO_TIME
    year, month, day, hour, minute, second = (int(part) for part in match.groups()[:6])
    if not (1970 < year <= 2200 and 1 <= month <= 12 and 1 <= day <= 31 and hour < 24 and minute < 60 and second < 61):
        return NO_TIME
    seconds = timegm((year, month, day, hour, minute, second))
    if match[7]:
        shift = int(match[8]) * 3600 + int(match[9]) * 60
        seconds -= shift if match[7] == "+" else -shift
    return seconds * 1_000_000_000


def epoch_ns(seconds: int | None) -> int:
    """UTC nanoseconds of a Unix time; Slurm writes 0 for "not yet"."""
    return seconds * 1_000_000_000 if seconds is not None and 0 < seconds < 7_258_118_400 else NO_TIME


def span_seconds(text: str) -> int | None:
    """Seconds of ``[days-][hours:]minutes:seconds``; ``None`` for ``UNLIMITED`` and the like."""
    match = _SPAN.fullmatch(text.strip())
    if match is None:
        return None
    days, hours, minutes, seconds = (int(part or 0) for part in match.groups())
    return ((days * 24 + hours) * 60 + minutes) * 60 + seconds


def span_text(seconds: int) -> str:
    """``1-02:03:04``, the form in which Slurm shows spans."""
    days, rest = divmod(seconds, 86_400)
    clock = f"{rest // 3600:02d}:{rest // 60 % 60:02d}:{rest % 60:02d}"
    return f"{days}-{clock}" if days else clock


def size_bytes(text: str) -> int | None:
    """Bytes of ``209712044K``, ``1.5G``."""
    match = _SIZE.fullmatch(text.strip())
    return int(float(match[1]) * _SCALE[match[2]]) if match else None


def job_state(text: str) -> str | None:
    """The full state of ``CD``, ``OUT_OF_ME+``, ``CANCELLED by 1001``; unknown words are kept."""
    word = text.strip().split(" ", 1)[0].rstrip("*")
    if word in _CODES:
        return _CODES[word]
    stem = word.rstrip("+")
    if stem and stem != word:
        return next((state for state in JOB_STATES if state.startswith(stem)), stem)
    return present(stem)


def cancelled_by(text: str) -> str | None:
    """The user (id) of ``CANCELLED by 1001``."""
    match = _CANCELLED_BY.match(text.strip())
    return match[1] if match else None


def is_final(state: str | None) -> bool:
    return state is not None and state not in _UNFINISHED


def is_trouble(node_state: str) -> bool:
    """True for states of a node that is not there or not usable, which a drained or powered-down one is not."""
    return _TROUBLE.search(node_state) is not None


def exit_pair(text: str) -> tuple[int | None, int | None]:
    """(code, signal) of ``15:0``; the signal is ``None`` where it is 0."""
    code, colon, signal = text.strip().partition(":")
    if not colon or not code.isdecimal() or not signal.isdecimal() or len(code) > 9 or len(signal) > 9:
        return None, None
    return int(code), int(signal) or None


def gpu_count(text: str) -> int | None:
    """GPUs of a TRES list (``cpu=96,gres/gpu=8,gres/gpu:h100=8``) or a gres list (``gpu:h100:8(S:0-1)``)."""
    found = [(kind, int(number)) for kind, number in _GPUS.findall(text)]
    if not found:
        return None
    # The untyped count is the sum of the typed ones, which may stand beside it.
    return next((number for kind, number in found if not kind), None) or sum(number for kind, number in found if kind)


@lru_cache(maxsize=64)
def node_names(text: str) -> tuple[str, ...]:
    """Names of a node list; empty for Slurm's words for "no nodes".

    Raises:
        HostlistError: the list is cut off or excessive, or holds something that is no host name.
    """
    given = present(text)
    if given is None:
        return ()
    names = expand_hostlist(given, _MANY)
    for name in names:
        if not is_host_name(name):
            raise HostlistError(f"no host name: {name[:80]!r}")
    return tuple(names)
