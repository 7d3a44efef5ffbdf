"""Hosts in node_exporter's metrics: free memory that falls steadily to almost nothing, and file systems that fill up."""

from __future__ import annotations

import re

from aiops.detect.metrics_evidence import Proof
from aiops.detect.metrics_frame import Frame
from aiops.model import Case, Finding, Role, Severity
from aiops.model.event import NO_TIME

_FREE = "node_memory_MemAvailable_bytes"
_FEWEST = 8
_LEFT = 0.15
"""Share of the first value that is left at the end; page cache counts as available, so that reading files takes nothing."""
_STAYS = 2
"""Samples at the end that must be full: a file that is deleted at once is no full disk."""
_UP = 0.01
"""A rise by more than this share of the first value is memory given back."""
_SPACE = {"node_filesystem_avail_bytes": "space", "node_filesystem_files_free": "inode"}
_FULL = {"node_filesystem_avail_bytes": 64 * 2.0**20, "node_filesystem_files_free": 16.0}
_LIVING = re.compile(r"^(?:ext[234]|xfs|btrfs|zfs|overlay|f2fs|)$")
"""File systems that fill up by writing; images and small mounts of the kernel are always full."""


def full_disks(case: Case, proof: Proof) -> list[Finding]:
    """``host.disk_full`` for each node and mount point that had space in the window and has none at its end."""
    import numpy as np

    found = []
    for block in case.series:
        if block.times[0] == NO_TIME:
            continue
        frame = Frame(case, block.times, block.entities, {}, [(block, np.arange(len(block.entities)))])
        for name, what in _SPACE.items():
            plane = block.values[block.fields.index(name)] if name in block.fields else None
            for row, entity in enumerate(block.entities) if plane is not None else ():
                labels = dict(entity.labels)
                mount = labels.get("mountpoint", "")
                assert plane is not None
                seen = np.flatnonzero(~np.isnan(plane[row]))
                if entity.node is None or not mount or not _LIVING.match(labels.get("fstype", "")) or len(seen) < 4:
                    continue
                full = plane[row, seen] <= _FULL[name]
                if not full[-_STAYS:].all() or full[0]:
                    continue
                start = len(full) - int(np.argmin(full[::-1]))
                cells = [(name, row, int(seen[start - 1])), (name, row, int(seen[start]))]
                found.append(
                    Finding(
                        sign="host.disk_full",
                        text=f"No {what} is left on {mount} of {entity.node}",
                        role=Role.ROOT,
                        severity=Severity.ERROR,
                        first=int(block.times[seen[start]]),
                        last=int(block.times[seen[-1]]),
                        node=entity.node,
                        nodes=(entity.node,),
                        name=mount,
                        count=int(full.sum()),
                        fields={"path": mount, "what": what},
                        evidence=[proof.quote(frame, *cell) for cell in cells],
                    )
                )
    return found


def memory_leak(case: Case, proof: Proof) -> list[Finding]:
    """``metric.rss_growth`` for each node whose available memory falls from sample to sample, and in both halves.

    A rise is allowed in one of ten steps. Loading a model or a data set takes memory once and is no such fall.
    """
    import numpy as np

    found = []
    for block in case.series:
        if _FREE not in block.fields or len(block.times) < _FEWEST or block.times[0] == NO_TIME:
            continue
        plane = block.values[block.fields.index(_FREE)]
        frame = Frame(case, block.times, block.entities, {}, [(block, np.arange(len(block.entities)))])
        for row, entity in enumerate(block.entities):
            seen = np.flatnonzero(~np.isnan(plane[row]))
            values = plane[row, seen].astype(np.float64)
            if entity.node is None or len(values) < _FEWEST or values[-1] > _LEFT * values[0]:
                continue
            fall = values[0] - values[-1]
            rises = int((np.diff(values) > _UP * values[0]).sum())
            if rises * 10 > len(values) or values[len(values) // 2] - values[-1] < 0.3 * fall:
                continue
            found.append(
                Finding(
                    sign="metric.rss_growth",
                    text=f"Free memory of {entity.node} fell steadily from {values[0] / 2**30:.0f} to {values[-1] / 2**30:.0f} GiB",
                    role=Role.ROOT,
                    severity=Severity.WARNING,
                    first=int(block.times[seen[0]]),
                    last=int(block.times[seen[-1]]),
                    node=entity.node,
                    nodes=(entity.node,),
                    count=len(values),
                    fields={
                        "from_gib": round(float(values[0]) / 2**30, 1),
                        "to_gib": round(float(values[-1]) / 2**30, 1),
                    },
                    evidence=[proof.quote(frame, _FREE, row, int(column)) for column in (seen[0], seen[-1])],
                )
            )
    return found
