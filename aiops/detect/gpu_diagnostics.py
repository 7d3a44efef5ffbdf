"""Failed tests of DCGM's diagnostics and health watches: the sign that the error is, about the GPU that it names.

``gpu.diag_failed`` is what the table of errors does not know; a test that could not run, or software that is not as the
test wants it, is ``gpu.diag_setup`` and only context.
"""

from __future__ import annotations

from aiops.catalog.dcgm_errors import DcgmError, error_of
from aiops.catalog.model import Catalog
from aiops.detect.evidence import evidence_rows, quotes
from aiops.ingest.gpu_diagnostics import DIAGNOSTIC
from aiops.model.case import Case
from aiops.model.event import Event, Severity
from aiops.model.finding import Finding, Role

_NO_HARDWARE = frozenset({3, 4, 6, 7, 8, 16})
"""Categories of errors of ``dcgm_errors.h``: configuration, libraries, CUDA, the test itself."""
_SETUP = (
    "software",
    "denylist",
    "library",
    "inforom",
    "persistence",
    "environment",
    "graphics",
    "page retirement",
    "cuda main",
)
"""Tests of the deployment, by words of their names."""
_CONTEXT = frozenset({"metric.ecc_sbe_storm", "metric.row_remap", "metric.retired_pages"})
_ECHO = frozenset({"metric.recovery_action"})
_FOLLOWERS = frozenset({"43", "45"})


def detect(case: Case, catalog: Catalog) -> list[Finding]:
    """One finding for each GPU and sign, however many tests show it."""
    groups: dict[tuple[str, str | None, int | None, str], list[Event]] = {}
    for event in evidence_rows(case, DIAGNOSTIC):
        error = error_of(event.fields.get("error"), str(event.fields.get("message", "")))
        sign = error.sign if error is not None else _unknown(event)
        xid = _xid(error, event)
        if sign == "metric.xid" and not xid:
            sign = "gpu.diag_failed"
        groups.setdefault((sign, event.node, event.fields.get("gpu"), xid), []).append(event)
    return [_finding(case, *key, events) for key, events in groups.items()]


def _unknown(event: Event) -> str:
    test = str(event.fields.get("test", "")).lower()
    software = event.fields.get("category") in _NO_HARDWARE or any(word in test for word in _SETUP)
    return "gpu.diag_setup" if software or event.severity < Severity.ERROR else "gpu.diag_failed"


def _xid(error: DcgmError | None, event: Event) -> str:
    match = error.match.search(str(event.fields.get("message", ""))) if error is not None else None
    return match.groupdict().get("xid") or "" if match is not None else ""


def _finding(case: Case, sign: str, node: str | None, gpu: int | None, xid: str, events: list[Event]) -> Finding:
    tests = list(dict.fromkeys(str(event.fields.get("test", "")) for event in events))
    message = next((str(event.fields["message"]) for event in events if event.fields.get("message")), "")
    context = sign in _CONTEXT or sign == "gpu.diag_setup"
    echo = sign in _ECHO or xid in _FOLLOWERS
    pci = case.topology.gpu_pci.get((node, gpu)) if node is not None and gpu is not None else None
    who = " ".join(filter(None, ["GPU" if gpu is None else f"GPU {gpu}", f"on {node}" if node else ""]))
    fields: dict[str, object] = {"test": tests[0].lower(), "tests": tests, "diagnostic": True}
    if xid:
        fields |= {"xid": int(xid), "new": True}
    if sign == "metric.ecc_dbe":
        fields["new"] = True
    return Finding(
        sign=sign,
        text=f"The {_words(tests)} test of DCGM fails on {who}" + (f": {message[:200]}" if message else ""),
        role=Role.ECHO if echo else Role.CONTEXT if context else Role.ROOT,
        severity=min(Severity.WARNING, events[0].severity) if context or echo else max(e.severity for e in events),
        node=node,
        gpu=gpu,
        pci=pci,
        uuid=case.topology.gpu_uuid.get((node, pci)) if node is not None and pci else None,
        nodes=(node,) if node else (),
        count=len(events),
        fields=fields,
        evidence=quotes(case, events),
    )


def _words(tests: list[str]) -> str:
    shown = [test for test in tests if test][:3]
    return ", ".join(shown) or "health"
