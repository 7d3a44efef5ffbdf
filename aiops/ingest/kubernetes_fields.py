"""Reading fields of Kubernetes objects that may be absent, null, or of the wrong type.

Objects come from JSON and YAML, so their mappings are plain dicts; the checks below rely on it for speed.
"""

from __future__ import annotations

import re
from calendar import timegm
from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Any

from aiops.model.event import NO_TIME

NOTHING: Mapping[str, Any] = {}

_TIME = re.compile(
    r"(\d{4})-(\d\d)-(\d\d)[Tt ](\d\d):(\d\d):(\d\d)(?:[.,](\d{1,9})\d*)?"
    r"(?:[Zz]|([+-])(\d\d):?(\d\d))?",
    re.ASCII,
)
_INTEGER = re.compile(r"-?[0-9]{1,18}")
_QUANTITY = re.compile(r"([0-9]{0,30}\.?[0-9]{1,30})(m|k|[KMGTPE]i?)?", re.ASCII)
_SCALE = {
    "m": 1e-3,
    "k": 1e3,
    "M": 1e6,
    "G": 1e9,
    "T": 1e12,
    "P": 1e15,
    "E": 1e18,
    "Ki": 2**10,
    "Mi": 2**20,
    "Gi": 2**30,
    "Ti": 2**40,
    "Pi": 2**50,
    "Ei": 2**60,
}


_LARGEST = 1 << 62
"""What is larger is no count of anything, and would not fit into 64 bits."""


def rfc3339_ns(value: object) -> int:
    """UTC nanoseconds of an RFC 3339 time (without a zone: UTC), or `NO_TIME`."""
    return _ns(value) if isinstance(value, str) else NO_TIME


@lru_cache(maxsize=16_384)
def _ns(value: str) -> int:
    match = _TIME.fullmatch(value)
    if match is None:
        return NO_TIME
    year, month, day, hour, minute, second = (int(part) for part in match.groups()[:6])
    if not (1970 <= year <= 2200 and 1 <= month <= 12 and 1 <= day <= 31 and hour < 24 and minute < 60 and second < 61):
        return NO_TIME
    seconds = timegm((year, month, day, hour, minute, second))
    if match[8]:
        shift = int(match[9]) * 3600 + int(match[10]) * 60
        seconds -= shift if match[8] == "+" else -shift
    return seconds * 1_000_000_000 + int((match[7] or "0").ljust(9, "0"))


def mapping(value: object, *path: str) -> Mapping[str, Any]:
    """The mapping below ``path``; an empty one if anything on the way is missing."""
    for key in path:
        if not isinstance(value, dict):
            return NOTHING
        value = value.get(key)
    return value if isinstance(value, dict) else NOTHING


def mappings(value: object, *path: str) -> Iterator[Mapping[str, Any]]:
    """The mappings of a list below ``path``."""
    for key in path:
        value = value.get(key) if isinstance(value, dict) else None
    if isinstance(value, list):
        for item in value:
            if isinstance(item, dict):
                yield item


def text(value: object, *path: str) -> str:
    """The text (or number, as text) below ``path``, else ``""``."""
    for key in path:
        value = value.get(key) if isinstance(value, dict) else None
    if isinstance(value, str):
        return value
    return str(value) if isinstance(value, (int, float)) and not isinstance(value, bool) else ""


def integer(value: object, *path: str) -> int | None:
    """The whole number below ``path``, also if it is written as text."""
    for key in path:
        value = value.get(key) if isinstance(value, dict) else None
    if isinstance(value, bool):
        return None
    if isinstance(value, int):
        return value if abs(value) < _LARGEST else None
    if isinstance(value, str) and _INTEGER.fullmatch(value.strip()):
        return int(value)
    return None


def quantity(value: object) -> float | None:
    """A Kubernetes quantity (``8``, ``500m``, ``4500Gi``) as a number."""
    number: float = -1
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        number = float(value) if abs(value) < _LARGEST else -1
    elif isinstance(value, str) and (match := _QUANTITY.fullmatch(value.strip())):
        number = float(match[1]) * _SCALE.get(match[2] or "", 1.0)
    return number if 0 <= number < _LARGEST else None


def conditions(body: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    """``status.conditions`` by type; of equal types the last one counts."""
    return {text(item, "type") or text(item, "status"): item for item in mappings(body, "status", "conditions")}


def is_true(condition: Mapping[str, Any] | None) -> bool:
    return condition is not None and text(condition, "status") == "True"


def is_false(condition: Mapping[str, Any] | None) -> bool:
    return condition is not None and text(condition, "status") == "False"


def condition_ns(condition: Mapping[str, Any]) -> int:
    """When the condition last changed, or `NO_TIME`."""
    return rfc3339_ns(condition.get("lastTransitionTime") or condition.get("lastUpdateTime"))


def api_group(body: Mapping[str, Any]) -> str:
    """``kueue.x-k8s.io`` of ``kueue.x-k8s.io/v1beta2``; ``""`` for the core group."""
    group, slash, _ = text(body, "apiVersion").partition("/")
    return group if slash else ""


def gpu_request(pod_spec: Mapping[str, Any]) -> int:
    """GPUs that one pod of this spec asks for: the sum of its containers' ``*/gpu`` resources."""
    total = 0
    for container in mappings(pod_spec, "containers"):
        most = 0
        for kind in ("requests", "limits"):
            wanted = mapping(container, "resources", kind)
            most = max(most, sum(int(quantity(n) or 0) for key, n in wanted.items() if str(key).endswith("/gpu")))
        total += most
    return total
