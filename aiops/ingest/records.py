"""One structured log record to the plain line that it stands for: field names of many collectors, one form."""

from __future__ import annotations

import re
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from aiops.ingest.stamps import NS, Moment, parse_stamp
from aiops.model.entity import is_host_name
from aiops.model.event import TimeQuality

MESSAGE = ("MESSAGE", "message", "msg", "log", "body", "Body", "@message", "textPayload", "full_message",
           "short_message", "text", "event", "line", "content")  # fmt: skip
TIME = ("__REALTIME_TIMESTAMP", "@timestamp", "timestamp", "time", "ts", "timeUnixNano", "observedTimeUnixNano", "Timestamp",
        "datetime", "date", "asctime", "eventTime", "_time", "t", "created", "receiveTimestamp", "time_unix_nano")  # fmt: skip
HOST = ("_HOSTNAME", "kubernetes.host", "kubernetes.node.name", "kubernetes.node_name", "k8s.node.name", "node_name", "nodeName",
        "node", "host.name", "host.hostname", "hostname", "host", "agent.hostname", "HOSTNAME")  # fmt: skip
POD = ("kubernetes.pod_name", "kubernetes.pod.name", "k8s.pod.name", "pod_name", "podName", "pod")
CONTAINER = ("kubernetes.container_name", "kubernetes.container.name", "k8s.container.name", "container_name")
PROGRAM = (
    "SYSLOG_IDENTIFIER",
    "appname",
    "programname",
    "program",
    "ident",
    "syslog.appname",
    "log.syslog.appname",
    "_COMM",
)
RANK = ("rank", "global_rank", "RANK")
LOCAL_RANK = ("local_rank", "LOCAL_RANK")
STACK = ("exc_info", "exc_text", "stack_trace", "stacktrace", "traceback", "exception.stacktrace", "error.stack_trace",
         "exception")  # fmt: skip
"""Names of the same thing in journald, Docker, Fluent Bit, OpenTelemetry, ECS, GELF, Cloud Logging, structlog and
python-json-logger; a dot stands for a nested object or is part of the name. The first that is there counts."""

_NOT_WORD = re.compile(r"[^\w.@/()-]")
_MICROS = re.compile(r"[0-9]{1,18}")
_NAME = re.compile(r"[\w.-]{1,253}$")


@dataclass(slots=True)
class Seen:
    """What the records of one file tell beside their text."""

    hosts: dict[str, int] = field(default_factory=dict)
    pods: dict[str, int] = field(default_factory=dict)
    pod_nodes: dict[str, str] = field(default_factory=dict)
    """Pod -> node, where a collector writes both."""
    boots: dict[tuple[str, str], int] = field(default_factory=dict)
    """(host, boot id) -> start of that boot in UTC ns."""
    base_host: str | None = None
    """Host that lines do not repeat."""
    base_pod: str | None = None


def is_record(body: Any) -> bool:
    """True if an object looks like a log record: it has a text, and a time, a level, a stream or a host."""
    if not isinstance(body, dict):
        return False
    if "resourceLogs" in body:
        return True
    if message_of(body) is None:
        return False
    return any(_find(body, names) is not None for names in (TIME, HOST)) or any(
        name in body for name in ("level", "levelname", "severity", "stream", "log.level", "PRIORITY", "pri")
    )


def message_of(body: Mapping[str, Any]) -> str | None:
    """The text of a record; ``None`` if it has none. A null message is an empty text."""
    for name in MESSAGE:
        if name in body:
            text = _text(body[name])
            if text is not None:
                return text
    return None


def plain_lines(body: Mapping[str, Any], seen: Seen) -> str | None:
    """The record as text, head first; several lines if the message or its stack has several. ``None`` if it is no record."""
    if "resourceLogs" in body:
        return _open_telemetry(body, seen)
    message = message_of(body)
    if message is None:
        return None
    stack = _find(body, STACK)
    if isinstance(stack, str) and stack.strip() and stack.strip() not in message:
        message = f"{message}\n{stack}"
    message = message.rstrip("\r\n")
    head = _head(body, seen)
    return head + message


def _head(body: Mapping[str, Any], seen: Seen) -> str:
    pri, seconds = body.get("pri"), body.get("time")
    if isinstance(pri, int) and isinstance(seconds, (int, float)) and 0 <= seconds < 1e9:
        return f"<{pri % 1000}>[{seconds:12.6f}] "
    stamp = stamp_of(_find(body, TIME))
    host = _name(_find(body, HOST))
    pod = _name(_find(body, POD))
    if host:
        seen.hosts[host] = seen.hosts.get(host, 0) + 1
    if "MESSAGE" in body:
        _note_boot(body, host, seen)
    program = "kernel" if body.get("_TRANSPORT") == "kernel" else _find(body, PROGRAM)
    if isinstance(program, str) and program and pod is None:
        ident = _NOT_WORD.sub("_", program)[:60] or "_"
        pid = str(body.get("_PID") or body.get("SYSLOG_PID") or body.get("procid") or "")
        ident += f"[{pid}]" if pid.isdigit() and ident != "kernel" else ""
        if host is None:
            return f"<6>{stamp}" if ident == "kernel" else stamp
        # a system log's line is known by its process: without a number only well-known ones are
        return f"{stamp or '- '}{host} {ident if '[' in ident or ident == 'kernel' else ident + '[0]'}: "
    label = ""
    if pod:
        seen.pods[pod] = seen.pods.get(pod, 0) + 1
        if host:
            seen.pod_nodes.setdefault(pod, host)
        if pod != seen.base_pod:
            container = _name(_find(body, CONTAINER)) or "c"
            label = f"[pod/{pod}/{container}] "
    elif host and host != seen.base_host:
        label = f"[node/{host}] "
    rank = _find(body, RANK)
    local = _find(body, LOCAL_RANK)
    if isinstance(rank, (int, str)) and str(rank).isdigit() and len(str(rank)) < 7:
        label += f"[rank{rank}]: "
    elif isinstance(local, (int, str)) and str(local).isdigit() and len(str(local)) < 5:
        label += f"[default{local}]:"
    return label + stamp


def _note_boot(body: Mapping[str, Any], host: str | None, seen: Seen) -> None:
    boot, real, mono = body.get("_BOOT_ID"), body.get("__REALTIME_TIMESTAMP"), body.get("__MONOTONIC_TIMESTAMP")
    if isinstance(boot, str) and host and _MICROS.fullmatch(str(real)) and _MICROS.fullmatch(str(mono)):
        seen.boots.setdefault((host, boot), (int(str(real)) - int(str(mono))) * 1000)


def _open_telemetry(body: Mapping[str, Any], seen: Seen) -> str:
    """A line of OpenTelemetry's file exporter: resources, their scopes, their records."""
    lines = []
    for resource in _items(body.get("resourceLogs")):
        shared = _attributes(_mapping(resource.get("resource")).get("attributes"))
        for scope in _items(resource.get("scopeLogs")):
            for record in _items(scope.get("logRecords")):
                flat = {**shared, **_attributes(record.get("attributes")), **record}
                text = plain_lines({k: v for k, v in flat.items() if k != "resourceLogs"}, seen)
                if text is not None:
                    lines.append(text)
    return "\n".join(lines)


def _attributes(values: Any) -> dict[str, Any]:
    return {str(item.get("key")): _text(item.get("value")) for item in _items(values)}


def _items(values: Any) -> list[dict[str, Any]]:
    return [item for item in values if isinstance(item, dict)] if isinstance(values, list) else []


def _mapping(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _text(value: Any) -> str | None:
    """Text of a JSON value: a string, journald's bytes or repeated field, OpenTelemetry's wrapped value; null is empty."""
    if value is None:
        return ""
    if isinstance(value, str):
        return value
    if isinstance(value, list):
        if value and all(isinstance(v, int) and 0 <= v < 256 for v in value):
            return bytes(value).decode("utf-8", "replace")
        return "\n".join(v for v in value if isinstance(v, str))
    if isinstance(value, dict):
        for name in ("stringValue", "text", "message", "intValue", "doubleValue", "boolValue"):
            if name in value:
                return str(value[name])
    return None


def _find(body: Mapping[str, Any], names: tuple[str, ...]) -> Any:
    for name in names:
        value = body.get(name)
        if value is None and "." in name:
            value = body
            for part in name.split("."):
                value = value.get(part) if isinstance(value, dict) else None
        if value is not None and not isinstance(value, dict) and value != "":
            return value
    return None


def _name(value: Any) -> str | None:
    return value if isinstance(value, str) and _NAME.match(value) and is_host_name(value) else None


def stamp_of(value: Any) -> str:
    """A time as JSON writers give it (text, or a number of s, ms, µs or ns) as text that `parse_stamp` reads, with a blank
    behind it; empty if it is no time."""
    if isinstance(value, str):
        text = value.strip()
        if not re.fullmatch(r"\d{9,19}(?:\.\d{1,9})?", text):
            moment = Moment()
            after = parse_stamp(text, 0, moment)
            return f"{text[:after]} " if after and moment.quality != TimeQuality.UPTIME else ""
        whole, _, fraction = text.partition(".")
        number = int(whole)
    elif isinstance(value, bool) or not isinstance(value, (int, float)) or value != value or abs(value) > 1e19:
        return ""
    else:
        number = int(value)
        fraction = f"{value:.6f}".partition(".")[2] if isinstance(value, float) else ""
    for unit in (1, 1_000, 1_000_000, NS):
        if 1_000_000_000 <= number // unit < 10_000_000_000:
            nanos = number * (NS // unit) + (int(fraction.ljust(9, "0")[:9]) if unit == 1 and fraction else 0)
            return _iso(nanos)
    return ""


def _iso(nanos: int) -> str:
    moment = time.gmtime(nanos // NS)
    rest = f"{nanos % NS:09d}".rstrip("0")
    return time.strftime("%Y-%m-%dT%H:%M:%S", moment) + (f".{rest}" if rest else "") + "Z "
