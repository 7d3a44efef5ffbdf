"""The XID gauge of DCGM: a change is news, a constant value is history."""

from __future__ import annotations

from aiops.detect.metrics_evidence import Proof
from aiops.detect.metrics_frame import Frame
from aiops.model import Finding, Role, Severity

_GAUGE = "DCGM_FI_DEV_XID_ERRORS"
_COUNT = "DCGM_EXP_XID_ERRORS_COUNT"
_FOLLOWERS = frozenset({43, 45})
"""XIDs that only say that an application was stopped."""
_KNOWN_BEFORE = 2
"""Samples of other fields that must exist before a series of the gauge begins, for its value to be new."""


def find(frame: Frame, proof: Proof) -> list[Finding]:
    """``metric.xid``.

    The gauge keeps the last XID until the exporter or the driver restarts, so a value that was there from the first
    sample on, or in a single scrape, is only context. dcgm-exporter's own counts are of its last few minutes.
    """
    return [*_gauge(frame, proof), *_counts(frame, proof)]


def _gauge(frame: Frame, proof: Proof) -> list[Finding]:
    import numpy as np

    values = frame.get(_GAUGE)
    if values is None:
        return []
    found = []
    for row in np.flatnonzero((values > 0).any(axis=1)):
        seen = np.flatnonzero(~np.isnan(values[row]))
        codes = values[row, seen].astype(int)
        before = int((frame.answers()[row, : seen[0]] > 0).sum())
        fresh = before >= _KNOWN_BEFORE
        if codes[0] > 0 and not fresh:
            found.append(
                _latched(
                    frame, proof, int(row), int(seen[-1] if len(set(codes)) == 1 else seen[0]), int(codes[0]), len(seen)
                )
            )
        elif codes[0] > 0:
            found.append(_new(frame, proof, int(row), int(seen[0]), int(codes[0]), 0, None))
        found += [
            _new(frame, proof, int(row), int(seen[i]), int(codes[i]), int(codes[i - 1]), int(seen[i - 1]))
            for i in np.flatnonzero(np.diff(codes)) + 1
            if codes[i] > 0
        ]
    return found


def _new(frame: Frame, proof: Proof, row: int, column: int, xid: int, before: int, last: int | None) -> Finding:
    samples = [(_GAUGE, row, column)] + ([(_GAUGE, row, last)] if last is not None else [])
    follower = xid in _FOLLOWERS
    return proof.finding(
        frame,
        "metric.xid",
        row,
        f"reported XID {xid}" + (f" after XID {before}" if before else ""),
        samples,
        role=Role.ECHO if follower else Role.ROOT,
        severity=Severity.WARNING if follower else Severity.ERROR,
        fields={"xid": xid, "before": before, "new": True},
    )


def _latched(frame: Frame, proof: Proof, row: int, column: int, xid: int, samples: int) -> Finding:
    text = f"shows XID {xid} as its last one; " + (
        "the scrape does not tell since when" if samples == 1 else "it was there before the window began"
    )
    return proof.finding(
        frame,
        "metric.xid",
        row,
        text,
        [(_GAUGE, row, column)],
        role=Role.CONTEXT,
        severity=Severity.INFO,
        fields={"xid": xid, "new": False},
    )


def _counts(frame: Frame, proof: Proof) -> list[Finding]:
    import numpy as np

    values = frame.get(_COUNT)
    if values is None:
        return []
    found = []
    for row in np.flatnonzero((values > 0).any(axis=1)):
        code = dict(frame.entities[row].labels).get("xid", "")
        if not code.isdecimal():
            continue
        columns = np.flatnonzero(values[row] > 0)
        follower = int(code) in _FOLLOWERS
        count = int(np.nanmax(values[row]))
        found.append(
            proof.finding(
                frame,
                "metric.xid",
                int(row),
                f"reported XID {code} {count} time(s)",
                [(_COUNT, int(row), int(columns[0]))],
                last=int(columns[-1]),
                count=count,
                role=Role.ECHO if follower else Role.ROOT,
                severity=Severity.WARNING if follower else Severity.ERROR,
                fields={"xid": int(code), "new": True},
            )
        )
    return found
