"""Last words of a process that may be its own trouble or only what a time-out elsewhere made of it."""

from __future__ import annotations

from aiops.catalog.model import Catalog, Signal
from aiops.detect.evidence import evidence_rows
from aiops.detect.exceptions import ECHO_TYPES
from aiops.detect.signals import finding_of
from aiops.model.case import Case
from aiops.model.event import Event
from aiops.model.finding import Finding, Role

_TOLD_BY = ("nccl.watchdog_timeout", "nccl.aftermath")
_ABORT = frozenset({"Aborted", "ABRT"})


def detect(case: Case, catalog: Catalog) -> list[Finding]:
    """``fw.gil_stuck``, ``usr.cpp_terminate`` and ``fw.fatal_signal``, each ROOT for the ranks that nothing else explains
    and ECHO for the others.

    A rank whose own collective timed out waits in it and holds the interpreter lock: its monitor then complains about the
    lock, and its watchdog thread ends the process by a C++ exception. A watchdog or a coordination service that gives up
    ends the process by abort(), which Python's fault handler then reports. None of them is a cause.
    """
    waiting = {event.rank for event in evidence_rows(case, "nccl.watchdog_timeout") if event.rank is not None}
    stuck = evidence_rows(case, "fw.gil_stuck")
    findings = _split(case, catalog.by_id.get("fw.gil_stuck"), stuck, [e for e in stuck if e.rank in waiting])
    ended = evidence_rows(case, "usr.cpp_terminate")
    given_up = [e for e in evidence_rows(case, *_TOLD_BY) if "terminate called" not in e.text]
    told = {(e.source, e.rank) for e in given_up}
    echoes = [e for e in ended if _type(e) in ECHO_TYPES or ("panicked" not in e.text and (e.source, e.rank) in told)]
    findings += _split(case, catalog.by_id.get("usr.cpp_terminate"), ended, echoes)
    died = evidence_rows(case, "fw.fatal_signal")
    aborted = [e for e in died if e.fields.get("what") in _ABORT and _after(e, given_up)]
    return [*findings, *_split(case, catalog.by_id.get("fw.fatal_signal"), died, aborted)]


def _after(event: Event, given_up: list[Event]) -> bool:
    """Whether the same process gave up before; a line that names no rank may be any process's of its file."""
    return any(
        told.source == event.source and told.offset < event.offset and event.rank in (None, told.rank)
        for told in given_up
    )


def _type(event: Event) -> str:
    return str(event.fields.get("what") or "").rsplit("::", 1)[-1]


def _split(case: Case, signal: Signal | None, events: list[Event], echoes: list[Event]) -> list[Finding]:
    rows = {event.index for event in echoes}
    own = [event for event in events if event.index not in rows]
    findings = []
    if signal is not None and own:
        findings.append(finding_of(case, signal, own))
    if signal is not None and echoes:
        echo = finding_of(case, signal, echoes)
        echo.role = Role.ECHO
        findings.append(echo)
    return findings
