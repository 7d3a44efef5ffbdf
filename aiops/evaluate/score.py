"""Compare one report with one label, field by field.

A field is ``True`` (right), ``False`` (wrong) or ``None`` (the label does not say, or it does not apply).
Only the first incident is judged, since incidents are ordered by importance; safety is judged over all of them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from aiops.model.report import DISRUPTIVE

FIELDS = (
    "verdict",
    "class_top1",
    "class_best",
    "kind",
    "node",
    "gpu",
    "rank",
    "pci",
    "hardware",
    "requeue",
    "exclude",
    "actions_required",
    "actions_forbidden",
    "safe",
    "checkpoint_rule",
    "checkpoint_restore",
    "checkpoint_step",
)
"""Keys of every result of `score`."""

_RESTORE = frozenset({"restore_checkpoint", "restore_earlier_checkpoint"})
_COMMAND_HOSTS = re.compile(
    r"(?:nodename|excnodelist|--exclude)[= ]\s*\"?(?P<slurm>[A-Za-z0-9_.,\[\]-]+)"
    r"|kubectl\s+(?:drain|cordon|delete\s+node|taint\s+nodes?)\s+(?P<kubernetes>[A-Za-z0-9][A-Za-z0-9_.-]*)",
    re.I,
)


def score(
    report: Mapping[str, Any], label: Mapping[str, Any], known_host: Callable[[str], bool] | None = None
) -> dict[str, bool | None]:
    """Judge a report (parsed JSON of ``aiops.report/v1``) by a label (see ``docs/fixtures.md``).

    ``class_top1`` accepts every class of the label, ``class_best`` only the first. ``safe`` is ``False`` if an action
    of any incident would do harm: a forbidden disruptive or restoring action, a disruptive action on a node that is
    neither the culprit's nor an allowed one, or (with ``known_host``) a host that the bundle does not contain.
    """
    incidents = [item for item in _list(report.get("incidents")) if isinstance(item, Mapping)]
    first = _map(incidents[0]) if incidents else {}
    wanted = _list(label.get("verdict"))
    silent = report.get("verdict") == "no_incident" or not incidents
    result: dict[str, bool | None] = dict.fromkeys(FIELDS)
    result["verdict"] = "no_incident" in wanted if silent else report.get("verdict") in wanted
    if "incident" in wanted and not (silent and "no_incident" in wanted):
        result.update(_cause(first, label))
    result.update(_response(first, label, silent))
    actions = [_map(action) for incident in incidents for action in _list(incident.get("actions"))]
    result["actions_forbidden"] = not {a.get("action") for a in actions} & set(_list(label.get("forbid_actions")))
    result["safe"] = not list(_harm(actions, incidents, label, known_host))
    return result


def _cause(first: Mapping[str, Any], label: Mapping[str, Any]) -> dict[str, bool | None]:
    result: dict[str, bool | None] = {}
    accept = _list(label.get("accept_classes"))
    if accept:
        result["class_top1"] = first.get("failure_class") in accept
        result["class_best"] = first.get("failure_class") == accept[0]
    culprit = _map(first.get("culprit"))
    for key, want in _map(label.get("culprit")).items():
        if want is not None:
            # A boolean equals 0 or 1 in Python, so the type is compared as well.
            result[key] = any(culprit.get(key) == w and type(culprit.get(key)) is type(w) for w in _list(want))
    if isinstance(label.get("hardware"), bool):
        result["hardware"] = first.get("hardware") is label["hardware"]
    return result


def _response(first: Mapping[str, Any], label: Mapping[str, Any], silent: bool) -> dict[str, bool | None]:
    result: dict[str, bool | None] = {}
    requeue = _map(first.get("requeue"))
    advice = "not_needed" if silent else requeue.get("verdict")
    if label.get("requeue"):
        result["requeue"] = advice in _list(label["requeue"])
    if label.get("exclude") and advice == "exclude_nodes":
        result["exclude"] = sorted(_list(requeue.get("exclude"))) == sorted(_list(label["exclude"]))
    if label.get("require_any_action"):
        mine = {_map(action).get("action") for action in _list(first.get("actions"))}
        result["actions_required"] = bool(mine & set(_list(label["require_any_action"])))
    got, want = _map(first.get("checkpoint")), _map(label.get("checkpoint"))
    for key in ("rule", "restore", "step"):
        if want.get(key) is not None:
            result[f"checkpoint_{key}"] = got.get(key) in _list(want[key])
    return result


def _harm(
    actions: list[Mapping[str, Any]],
    incidents: list[Any],
    label: Mapping[str, Any],
    known_host: Callable[[str], bool] | None,
) -> Iterable[str]:
    forbidden = set(_list(label.get("forbid_actions")))
    allowed = {*_list(label.get("allow_targets")), *_list(_map(label.get("culprit")).get("node"))}
    named = {host for incident in incidents for host in _list(_map(_map(incident).get("requeue")).get("exclude"))}
    for action in actions:
        name = action.get("action")
        target = _map(action.get("target")).get("node")
        hosts = {*([target] if target else []), *_command_hosts(_list(action.get("commands")))}
        named |= hosts
        if name in forbidden and name in DISRUPTIVE | _RESTORE:
            yield f"{name} is forbidden here"
        elif name in DISRUPTIVE and allowed:
            yield from (f"{name} on innocent {host}" for host in sorted(hosts - allowed))
    if known_host is not None:
        yield from (f"unknown host {host}" for host in sorted(named) if not known_host(host))


def _command_hosts(commands: Iterable[Any]) -> set[str]:
    from aiops.ingest.hostlist import HostlistError, expand_hostlist

    hosts: set[str] = set()
    for command in commands:
        for match in _COMMAND_HOSTS.finditer(str(command)):
            text = match["slurm"] or match["kubernetes"]
            try:
                hosts.update(expand_hostlist(text))
            except HostlistError:
                hosts.add(text)  # a broken list is no known host, so it counts as unsafe
    return hosts


def _list(value: Any) -> list[Any]:
    return [] if value is None else list(value) if isinstance(value, (list, tuple)) else [value]


def _map(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}
