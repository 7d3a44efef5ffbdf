"""One row of the results table, from a report as parsed JSON."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class Row:
    """What triage keeps of a bundle. ``None`` means that the evidence does not tell, or that there is no incident."""

    bundle: str
    verdict: str | None = None
    """``incident``, ``no_incident``, ``inconclusive``; ``None`` if the bundle could not be analysed."""
    failure_class: str | None = None
    family: str | None = None
    confidence: float | None = None
    hardware: bool | None = None
    culprit_kind: str | None = None
    node: str | None = None
    gpu: int | None = None
    rank: int | None = None
    job: str | None = None
    requeue: str | None = None
    actions: list[str] = field(default_factory=list)
    gpus: int | None = None
    gpu_hours_lost: float | None = None
    started: dt.datetime | None = None
    """Start of the incident, UTC."""
    ended: dt.datetime | None = None
    seconds: float | None = None
    """Wall time of the analysis; ``None`` if it was not recorded."""
    error: str | None = None
    report: str | None = None
    """Path of the report below the output directory."""
    device: str | None = None
    """Identity of the culprit's GPU that survives renumbering: its UUID, else node and PCI id, else node and index."""


def row_of(bundle: str, report: Mapping[str, Any], *, path: str, seconds: float | None) -> Row:
    """Row of an analysed bundle; its first incident counts, since incidents are ordered by importance."""
    incidents = report.get("incidents") or []
    if not incidents:
        return Row(bundle=bundle, verdict=report["verdict"], job=_job(report, {}), seconds=seconds, report=path)
    first = incidents[0]
    culprit, impact = first["culprit"], first.get("impact") or {}
    return Row(
        bundle=bundle,
        verdict=report["verdict"],
        failure_class=first["failure_class"],
        family=first["failure_class"].split(".", 1)[0],
        confidence=first["confidence"],
        hardware=first["hardware"],
        culprit_kind=culprit["kind"],
        node=culprit.get("node"),
        gpu=culprit.get("gpu"),
        rank=culprit.get("rank"),
        job=_job(report, culprit),
        requeue=first["requeue"]["verdict"],
        actions=[action["action"] for action in first["actions"]],
        gpus=impact.get("gpus"),
        gpu_hours_lost=impact.get("gpu_hours_lost"),
        started=_time(impact.get("started")),
        ended=_time(impact.get("ended")),
        seconds=seconds,
        report=path,
        device=_device(culprit),
    )


def _job(report: Mapping[str, Any], culprit: Mapping[str, Any]) -> str | None:
    jobs = (report.get("coverage") or {}).get("jobs") or []
    own: str | None = culprit.get("job")
    return own or (jobs[0]["id"] if len(jobs) == 1 else None)


def _device(culprit: Mapping[str, Any]) -> str | None:
    if culprit.get("gpu_uuid"):
        return str(culprit["gpu_uuid"])
    if culprit.get("node") and culprit.get("pci"):
        return f"{culprit['node']} {culprit['pci']}"
    if culprit.get("node") and culprit.get("gpu") is not None:
        return f"{culprit['node']} GPU {culprit['gpu']}"
    return None


def _time(text: str | None) -> dt.datetime | None:
    return dt.datetime.fromisoformat(text).astimezone(dt.UTC) if text else None
