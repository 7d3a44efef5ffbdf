"""What the GPUs do: missing among its peers, idle while they work, or spinning in a collective."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aiops.detect.metrics_evidence import Proof
from aiops.detect.metrics_frame import CORE, Frame
from aiops.detect.metrics_math import PEERS, first_run, persistence, runs
from aiops.model import Finding, Role, Severity

if TYPE_CHECKING:
    import numpy as np

_UTIL, _TEMP, _USED = "DCGM_FI_DEV_GPU_UTIL", "DCGM_FI_DEV_GPU_TEMP", "DCGM_FI_DEV_FB_USED"
_POWER = ("DCGM_FI_DEV_POWER_USAGE", "DCGM_FI_DEV_POWER_USAGE_INSTANT")
_LIMIT = ("DCGM_FI_DEV_ENFORCED_POWER_LIMIT", "DCGM_FI_DEV_POWER_MGMT_LIMIT")
_TENSOR = "DCGM_FI_PROF_PIPE_TENSOR_ACTIVE"

_BUSY, _IDLE, _SPINNING = 90.0, 5.0, 99.0
_WORKED = 50.0
"""Utilisation that shows that an idle GPU had taken part before."""
_MEMORY = 0.3
"""Memory, against the peers' median, that shows that it takes part now."""
_TENSOR_NONE, _TENSOR_WORK = 0.02, 0.1
_LOW = 0.55
"""Power of a spinning GPU against its own when it computed."""
_LOW_LIMIT = 0.45
"""The same against its power limit."""
_COOL, _COOL_WATTS = 50.0, 200.0
"""Without anything to compare with: full utilisation at this temperature and power is no training."""
_SHARE = 0.75


def find(frame: Frame, proof: Proof) -> list[Finding]:
    """``metric.gpu_absent``, ``metric.idle_gpu``, ``metric.hang``."""
    return [*_absent(frame, proof), *_idle(frame, proof), *_hang(frame, proof)]


def _nodes(frame: Frame) -> dict[str | None, np.ndarray]:
    """Rows of the whole GPUs of each node."""
    import numpy as np

    whole = frame.whole()
    rows: dict[str | None, list[int]] = {}
    for row, entity in enumerate(frame.entities):
        if whole[row]:
            rows.setdefault(entity.node, []).append(row)
    return {node: np.array(members) for node, members in rows.items()}


def _absent(frame: Frame, proof: Proof) -> list[Finding]:
    """A GPU that other fields or earlier samples know stops answering while the others of its node answer.

    A few values may still come, from a cache: a GPU that gives less than half of what its neighbours give is gone.
    """
    import numpy as np

    answers = frame.answers()
    hold = persistence(frame)
    found = []
    for rows in _nodes(frame).values():
        if len(rows) < 2:
            continue
        usual = answers[rows].max(axis=0)
        here = answers[rows] * 2 >= usual
        here &= answers[rows] > 0
        others = here.sum(axis=0)[None, :] - here
        missing = ~here & (others >= max(1, (len(rows) - 1) / 2))
        for i in np.flatnonzero((runs(missing) >= hold).any(axis=1)):
            row, start = int(rows[i]), first_run(missing[i], hold)
            before = np.flatnonzero(here[i, :start])
            late = not len(before) and bool(here[i].any())
            if late or (not len(before) and not any(_has(frame, name, row) for name in frame.planes)):
                continue
            found.append(_absence(frame, proof, row, missing[i], start, here[i], int(others[i, start])))
            peer = int(rows[np.flatnonzero(here[:, start])[0]])
            shown = next(name for name in CORE if _has(frame, name, peer, start))
            found[-1].evidence.append(proof.quote(frame, shown, peer, start))
    return found


def _absence(
    frame: Frame, proof: Proof, row: int, missing: np.ndarray, start: int, here: np.ndarray, others: int
) -> Finding:
    import numpy as np

    before = np.flatnonzero(here[:start])
    returned = bool(here[start:].any())
    silent = [name for name in CORE if frame.get(name) is not None and not _has(frame, name, row, start)]
    still = sorted(name for name in frame.planes if _has(frame, name, row, start))
    if len(before):
        last = int(before[-1])
        samples = [(name, row, last) for name in silent if not np.isnan(frame.planes[name][row, last])][:1]
    else:
        samples = [(name, row, start) for name in still[:1]]
    text = (
        f"does not answer any more while {others} others of the node do"
        if not returned
        else f"did not answer for a while although {others} others of the node did"
    )
    finding = proof.finding(
        frame,
        "metric.gpu_absent",
        row,
        text,
        samples,
        role=Role.CONTEXT if returned else Role.ROOT,
        severity=Severity.WARNING if returned else Severity.ERROR,
        count=int(missing.sum()),
        fields={"returned": returned, "peers_present": others, "silent": silent, "still_known_by": still[:6]},
    )
    if frame.timed:
        finding.first = int(frame.times[start])
        finding.last = int(frame.times[np.flatnonzero(missing)[-1]])
    return finding


def _has(frame: Frame, name: str, row: int, column: int | None = None) -> bool:
    import numpy as np

    values = frame.get(name)
    if values is None:
        return False
    return not bool(np.isnan(values[row] if column is None else values[row, column:]).all())


def _groups(frame: Frame) -> list[np.ndarray]:
    """Sets of GPUs that may work on one job: the ranks' if known, all, those of each node."""
    import numpy as np

    nodes = _nodes(frame)
    groups = []
    ranks = frame.case.topology.ranks.values()
    job = {(place.node, place.gpu) for place in ranks if place.node is not None and place.gpu is not None}
    rows = [row for row, entity in enumerate(frame.entities) if (entity.node, entity.gpu) in job]
    if len(rows) > PEERS:
        groups.append(np.array(rows))
    if nodes:
        groups.append(np.concatenate(list(nodes.values())))
    groups += [members for node, members in nodes.items() if node is not None]
    return [group for group in groups if len(group) > PEERS - 1]


def _idle(frame: Frame, proof: Proof) -> list[Finding]:
    """One GPU does nothing while all others of the job are busy: it never entered the collective."""
    import numpy as np

    util = frame.get(_UTIL)
    if util is None:
        return []
    hold = persistence(frame)
    found: list[Finding] = []
    told: set[int] = set()
    for group in _groups(frame):
        values = util[group]
        known = ~np.isnan(values)
        idle, busy = values <= _IDLE, values >= _BUSY
        few = np.maximum(1, known.sum(axis=0) // 16)
        alone = (idle.sum(axis=0) <= few) & (busy.sum(axis=0) >= PEERS - 1)
        alone &= busy.sum(axis=0) + idle.sum(axis=0) >= known.sum(axis=0)
        suspect = idle & alone[None, :]
        for i in np.flatnonzero(suspect.any(axis=1)):
            row, start = int(group[i]), first_run(suspect[i], hold)
            if start < 0 or row in told or not _takes_part(frame, group, int(i), start):
                continue
            told.add(row)
            columns = np.flatnonzero(suspect[i])
            peers = float(np.nanmedian(values[:, columns]))
            samples = [(_UTIL, row, start), (_UTIL, row, int(columns[-1]))]
            finding = proof.finding(
                frame,
                "metric.idle_gpu",
                row,
                f"is idle while the {int(busy[:, start].sum())} others are at {peers:.0f} %",
                samples,
                last=int(columns[-1]),
                count=len(columns),
                fields={
                    "util": round(float(np.nanmedian(values[i, columns])), 1),
                    "peers_util": round(peers, 1),
                    "samples": len(columns),
                    **_also(frame, row, columns),
                },
            )
            peer = int(group[np.flatnonzero(busy[:, start])[0]])
            finding.evidence.append(proof.quote(frame, _UTIL, peer, start))
            found.append(finding)
    return found


def _takes_part(frame: Frame, group: np.ndarray, i: int, start: int) -> bool:
    """True if the GPU worked before, or holds memory like its peers: a spare GPU is no suspect."""
    import numpy as np

    util, used = frame.get(_UTIL), frame.get(_USED)
    assert util is not None
    row = group[i]
    if bool((util[row, :start] >= _WORKED).any()):
        return True
    if used is None or np.isnan(used[group, start]).all():
        return False
    return bool(used[row, start] >= _MEMORY * np.nanmedian(used[group, start]))


def _also(frame: Frame, row: int, columns: np.ndarray) -> dict[str, float]:
    import numpy as np

    fields = {}
    for key, values in (
        ("power", frame.get(*_POWER)),
        ("fb_used_mib", frame.get(_USED)),
        ("tensor", frame.get(_TENSOR)),
    ):
        if values is not None and not np.isnan(values[row, columns]).all():
            fields[key] = round(float(np.nanmedian(values[row, columns])), 3)
    return fields


def _spinning(frame: Frame) -> np.ndarray | None:
    """Where a GPU is fully utilised without computing: a kernel of a collective waits for the others."""
    import numpy as np

    util, power = frame.get(_UTIL), frame.get(*_POWER)
    tensor, temp, limit = frame.get(_TENSOR), frame.get(_TEMP), frame.get(*_LIMIT)
    if util is None or (power is None and tensor is None):
        return None
    full = util >= _SPINNING
    if not full.any():
        return None
    spin = np.zeros(full.shape, dtype=bool)
    if tensor is not None:
        # a job that never uses the tensor pipe is not waiting
        uses = np.fmax.reduce(tensor, axis=1)[:, None] >= _TENSOR_WORK
        spin |= full & (tensor <= _TENSOR_NONE) & uses
        full = full & ~(tensor > _TENSOR_NONE)
    if power is not None:
        computing = np.where(util >= _WORKED, power, np.nan)
        best = np.fmax.reduce(computing, axis=1)
        spin |= full & (power <= _LOW * best[:, None])
        if limit is not None:
            spin |= full & (power <= _LOW_LIMIT * limit)
        elif temp is not None:
            spin |= full & (power <= _COOL_WATTS) & (temp <= _COOL)
    return spin


def _hang(frame: Frame, proof: Proof) -> list[Finding]:
    """One finding for all nodes of which most GPUs spin at the same time."""
    import numpy as np

    spin = _spinning(frame)
    if spin is None or not frame.timed:
        return []
    hold = persistence(frame)
    util = frame.get(_UTIL)
    assert util is not None
    members: list[tuple[int, np.ndarray, np.ndarray]] = []
    for rows in _nodes(frame).values():
        known = (~np.isnan(util[rows])).sum(axis=0)
        most = (spin[rows].sum(axis=0) >= _SHARE * known) & (spin[rows].sum(axis=0) >= min(2, len(rows)))
        start = first_run(most, hold)
        if start >= 0:
            members.append((start, np.flatnonzero(most), rows))
    if not members:
        return []
    members.sort(key=lambda item: (item[0], int(item[2][0])))
    start, columns, rows = members[0]
    lead = int(rows[np.flatnonzero(spin[rows, start])[0]])
    names = [
        name
        for name in (_UTIL, next((p for p in _POWER if frame.get(p) is not None), ""), _TENSOR)
        if frame.get(name) is not None
    ]
    finding = proof.finding(
        frame,
        "metric.hang",
        lead,
        "",
        [(name, lead, start) for name in names],
        role=Role.ECHO,
        severity=Severity.WARNING,
        last=int(max(item[1][-1] for item in members)),
    )
    gpus = sum(int(spin[item[2], item[0]].sum()) for item in members)
    fields: dict[str, float] = {"gpus": gpus, "util": 100, **_also(frame, lead, columns)}
    power = frame.get(*_POWER)
    if power is not None:
        earlier = np.where(util[lead] >= _WORKED, power[lead], np.nan)
        fields["power_before"] = round(float(np.fmax.reduce(earlier)), 1)
    nodes = tuple(dict.fromkeys(e for e in (frame.entities[int(item[2][0])].node for item in members) if e))
    finding.nodes, finding.fields, finding.count = nodes, fields, gpus
    finding.node = nodes[0] if len(nodes) == 1 else None
    finding.gpu = finding.pci = finding.uuid = None
    watts = f", {fields['power']:.0f} W" if "power" in fields else ""
    tensor = ", no tensor work" if fields.get("tensor", 1.0) <= _TENSOR_NONE else ""
    finding.text = f"{gpus} GPUs spin without computing (100 %{watts}{tensor}): they wait in a collective"
    return [finding]
