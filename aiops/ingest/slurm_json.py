"""``--json`` output of ``sacct``, ``squeue``, ``sinfo`` and ``scontrol``, in the shapes of 22.05 and newer releases.

Newer releases wrap numbers as ``{"set": true, "infinite": false, "number": 5}`` and turn states into lists.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from aiops.ingest.slurm_records import JobRecord, NodeRecord
from aiops.ingest.slurm_values import JOB_STATES, epoch_ns, gpu_count, node_names, present, reason_text
from aiops.model.event import NO_TIME

_BASE = frozenset(JOB_STATES[:12])


def number(value: Any) -> int | None:
    """A number, plain or wrapped; ``None`` if it is not set, infinite or no number."""
    if isinstance(value, Mapping):
        if value.get("set") is False or value.get("infinite") is True:
            return None
        value = value.get("number")
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    return int(value) if abs(value) < 1 << 62 else None


def _text(value: Any) -> str | None:
    if isinstance(value, str):
        return present(value)
    return str(value) if isinstance(value, int) and not isinstance(value, bool) else None


def _reason(value: Any) -> str | None:
    return reason_text(value) if isinstance(value, str) else None


def _map(value: Any, *path: str) -> Mapping[str, Any]:
    for key in path:
        value = value.get(key) if isinstance(value, Mapping) else None
    return value if isinstance(value, Mapping) else {}


def _words(value: Any) -> list[str]:
    if isinstance(value, str):
        return [value.upper()] if value else []
    return [str(word).upper() for word in value] if isinstance(value, list) else []


def _state(value: Any) -> tuple[str | None, tuple[str, ...]]:
    """(base state, flags) of a state, which is a word or a list of words."""
    words = _words(value)
    base = next((word for word in words if word in _BASE), words[0] if words else None)
    return base, tuple(word for word in words if word != base)


def _exit(value: Any) -> tuple[int | None, int | None]:
    """(code, signal) of a wait status or of the structured form."""
    if isinstance(value, Mapping) and ("return_code" in value or "signal" in value or "status" in value):
        signal = _map(value, "signal")
        raw = signal.get("id", signal.get("signal_id"))
        code = number(value.get("return_code"))
        caught = number(raw) or None
        return (0 if code is None and caught else code), caught
    status = number(value)
    if status is None or status < 0:
        return None, None
    return status >> 8, (status & 0x7F) or None


def _tres(items: Any, kind: str, name: str | None = None) -> Mapping[str, Any] | None:
    for item in items if isinstance(items, list) else []:
        if isinstance(item, Mapping) and item.get("type") == kind and (name is None or item.get("name") == name):
            return item
    return None


def _gpus(job: Mapping[str, Any]) -> int | None:
    for items in (_map(job, "tres").get("allocated"), _map(job, "tres").get("requested")):
        if (found := _tres(items, "gres", "gpu")) is not None:
            return number(found.get("count"))
    for key in ("tres_alloc_str", "tres_req_str"):
        if isinstance(job.get(key), str) and (count := gpu_count(job[key])) is not None:
            return count
    return None


def _nodes(value: Any) -> tuple[str, ...]:
    if isinstance(value, Mapping):
        value = value.get("range") or value.get("list")
    if isinstance(value, list):
        value = ",".join(part for part in value if isinstance(part, str))
    return node_names(value) if isinstance(value, str) else ()


def accounting_job(job: Mapping[str, Any]) -> Iterator[JobRecord]:
    """A job of ``sacct --json`` with its steps."""
    whole = _map(job, "time")
    array = _map(job, "array")
    raw = number(job.get("job_id"))
    if raw is None:
        return
    master, task = number(array.get("job_id")), number(array.get("task_id"))
    job_id = f"{master}_{task}" if master and task is not None else str(raw)
    state, flags = _state(_map(job, "state").get("current"))
    code, signal = _exit(job.get("exit_code"))
    if state in ("FAILED", "REQUEUED") and not code and not signal:
        code = None  # 22.05 writes SUCCESS and 0 whatever the code was.
    killer = _text(job.get("kill_request_user"))
    yield JobRecord(
        id=job_id,
        raw_id=str(raw),
        tool="sacct",
        name=_text(job.get("name")),
        user=_text(job.get("user")),
        account=_text(job.get("account")),
        partition=_text(job.get("partition")),
        qos=_text(job.get("qos")),
        state=state,
        flags=flags,
        reason=_reason(_map(job, "state").get("reason")),
        cancelled_by=killer if state == "CANCELLED" else None,
        exit_code=code,
        exit_signal=signal,
        submitted=epoch_ns(number(whole.get("submission"))),
        started=epoch_ns(number(whole.get("start"))),
        ended=epoch_ns(number(whole.get("end"))),
        elapsed=number(whole.get("elapsed")),
        limit=_minutes(whole.get("limit")),
        nodes=_nodes(job.get("nodes")),
        node_count=number(job.get("allocation_nodes")),
        gpus=_gpus(job),
        restarts=number(job.get("restart_cnt")),
        failed_node=_text(job.get("failed_node")),
    )
    steps = job.get("steps")
    for step in steps if isinstance(steps, list) else []:
        if isinstance(step, Mapping):
            yield _step(step, job_id)


def _step(step: Mapping[str, Any], job_id: str) -> JobRecord:
    state, flags = _state(step.get("state"))
    code, signal = _exit(step.get("exit_code"))
    if state == "FAILED" and not code and not signal:
        code = None
    times, about = _map(step, "time"), _map(step, "step")
    name: Any = about.get("id")
    if isinstance(name, Mapping):
        name = name.get("step_id")
    name = _text(name) or "?"
    memory = _tres(_map(step, "tres", "requested").get("max"), "mem") or {}
    return JobRecord(
        id=job_id,
        step=name.partition(".")[2] or name,
        tool="sacct",
        name=_text(about.get("name")),
        state=state,
        flags=flags,
        exit_code=code,
        exit_signal=signal,
        started=epoch_ns(number(times.get("start"))),
        ended=epoch_ns(number(times.get("end"))),
        elapsed=number(times.get("elapsed")),
        nodes=_nodes(step.get("nodes")),
        max_rss=number(memory.get("count")) or None,
        max_rss_node=_text(memory.get("node")) if memory.get("count") else None,
    )


def _minutes(value: Any) -> int | None:
    minutes = number(value)
    return None if minutes is None else minutes * 60


def queue_job(job: Mapping[str, Any], tool: str = "squeue") -> Iterator[JobRecord]:
    """A job of ``squeue --json`` or ``scontrol show job --json``."""
    raw = number(job.get("job_id"))
    if raw is None:
        return
    master, task = number(job.get("array_job_id")), number(job.get("array_task_id"))
    state, flags = _state(job.get("job_state"))
    code, signal = _exit(job.get("exit_code"))
    waiting = state == "PENDING"
    more: dict[str, Any] = {}
    for name, key in (
        ("excluded_nodes", "excluded"),
        ("required_nodes", "required"),
        ("dependency", "dependency"),
        ("standard_output", "stdout"),
    ):
        if (value := _text(job.get(name))) is not None:
            more[key] = value
    if (per_node := gpu_count(_text(job.get("tres_per_node")) or "")) is not None:
        more["gpus_per_node"] = per_node
    yield JobRecord(
        id=f"{master}_{task}" if master and task is not None else str(raw),
        raw_id=str(raw),
        tool=tool,
        name=_text(job.get("name")),
        user=_text(job.get("user_name")),
        account=_text(job.get("account")),
        partition=_text(job.get("partition")),
        qos=_text(job.get("qos")),
        state=state,
        flags=flags,
        reason=_reason(job.get("state_reason")),
        exit_code=code,
        exit_signal=signal,
        submitted=epoch_ns(number(job.get("submit_time"))),
        started=NO_TIME if waiting else epoch_ns(number(job.get("start_time"))),
        ended=epoch_ns(number(job.get("end_time"))),
        limit=_minutes(job.get("time_limit")),
        nodes=_nodes(job.get("nodes")),
        node_count=number(job.get("node_count")),
        gpus=_gpus(job),
        restarts=number(job.get("restart_cnt")),
        failed_node=_text(job.get("failed_node")),
        more=more,
    )


def node(item: Mapping[str, Any]) -> Iterator[NodeRecord]:
    """A node of ``scontrol show node --json`` or of ``sinfo --json`` before 23.02."""
    for name in _nodes(item.get("name")):
        words = _words(item.get("state")) + _words(item.get("state_flags"))
        more: dict[str, Any] = {}
        for key in ("boot_time", "slurmd_start_time", "last_busy"):
            if (ts := epoch_ns(number(item.get(key)))) != NO_TIME:
                more[key] = ts
        for key in ("gres", "gres_used", "gres_drained"):
            if (value := _text(item.get(key))) is not None:
                more[key] = value
        partitions = item.get("partitions")
        if isinstance(partitions, list) and partitions:
            more["partitions"] = tuple(sorted(str(partition) for partition in partitions))
        if (gpus := gpu_count(_text(item.get("tres")) or "")) is not None:
            more["gpus"] = gpus
        if "tres_used" in item:
            more["gpus_used"] = gpu_count(_text(item["tres_used"]) or "") or 0
        yield NodeRecord(
            name,
            "+".join(words),
            _text(item.get("reason")),
            _text(item.get("reason_set_by_user")),
            epoch_ns(number(item.get("reason_changed_at"))),
            more,
        )


def partition_row(item: Mapping[str, Any]) -> Iterator[NodeRecord]:
    """A row of ``sinfo --json`` since 23.02: nodes that share partition and state."""
    reason = _map(item, "reason")
    partition = _text(_map(item, "partition").get("name"))
    more: dict[str, Any] = {"partitions": (partition,)} if partition else {}
    if (gpus := gpu_count(_text(_map(item, "gres").get("total")) or "")) is not None:
        more["gpus"] = gpus
    if (used := _text(_map(item, "gres").get("used"))) is not None:
        more["gpus_used"] = gpu_count(used) or 0
    for name in _nodes(_map(item, "nodes").get("nodes")):
        yield NodeRecord(
            name,
            "+".join(_words(_map(item, "node").get("state"))),
            _text(reason.get("description")),
            _text(reason.get("user")),
            epoch_ns(number(reason.get("time"))),
            dict(more),
        )
