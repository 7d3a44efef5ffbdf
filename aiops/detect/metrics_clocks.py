"""GPUs that run slower than they should: heat, power brake, and clocks below the peers for no stated reason."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from aiops.detect.metrics_evidence import Proof
from aiops.detect.metrics_frame import Frame
from aiops.detect.metrics_math import first_run, group_median, peer_groups, persistence, runs, steps_up, varying
from aiops.model import Finding, Role, Severity

if TYPE_CHECKING:
    import numpy as np

_REASONS = "DCGM_FI_DEV_CLOCK_THROTTLE_REASONS"
_TEMP, _CLOCK, _UTIL = "DCGM_FI_DEV_GPU_TEMP", "DCGM_FI_DEV_SM_CLOCK", "DCGM_FI_DEV_GPU_UTIL"
_HEAT_NS = (
    "DCGM_FI_DEV_CLOCKS_EVENT_REASON_HW_THERM_SLOWDOWN_NS",
    "DCGM_FI_DEV_CLOCKS_EVENT_REASON_SW_THERM_SLOWDOWN_NS",
    "DCGM_FI_DEV_THERMAL_VIOLATION",
)
_BRAKE_NS = ("DCGM_FI_DEV_CLOCKS_EVENT_REASON_HW_POWER_BRAKE_SLOWDOWN_NS",)

HEAT = 0x20 | 0x40
"""SW and HW thermal slowdown, ``nvml.h``. 0x8 (HW slowdown) says nothing without them; 0x4 (power cap) is normal."""
BRAKE = 0x80
"""HW power brake: the rack's or the server's power supply asked for it."""

_SHARE = 0.2
"""Part of an interval spent throttled that counts as throttled."""
_HOTTER = 8.0
"""Degrees above the peers; the inlet and the slot explain less."""
_SLOWER = 0.92
_MUCH_SLOWER = 0.8
"""SM clock against the peers' under load (SCHEDULERS §4.2)."""
_ROW = 3
_MOST = 0.6
_TOGETHER_NS = 900 * 10**9
"""So many nodes, such a share of all, within this time: a row warms up in minutes, not at once."""
_LOADED = 50.0
_BUSY = 80.0


def find(frame: Frame, proof: Proof) -> list[Finding]:
    """``metric.thermal_throttle``, ``metric.power_brake``, ``metric.clock_low``."""
    import numpy as np

    braked = _braked(frame)
    compared = _Compared(frame)
    hot = _hot(frame, compared)
    slow = compared.slow(_MUCH_SLOWER, _BUSY)
    if slow is not None:
        explained: np.ndarray = np.zeros(len(slow), dtype=bool)
        for mask in (hot, braked):
            if mask is not None:
                explained |= mask.any(axis=1)
        slow[explained] = False
    return [*_thermal(frame, proof, hot, compared), *_brake(frame, proof, braked), *_low(frame, proof, slow, compared)]


class _Compared:
    """Temperature, clock and load of each GPU and of its peers, as far as a GPU may be slow at all."""

    def __init__(self, frame: Frame) -> None:
        import numpy as np

        self.temp, self.clock, self.util = frame.get(_TEMP), frame.get(_CLOCK), frame.get(_UTIL)
        self.peers_temp: np.ndarray | None = None
        self.peers_clock: np.ndarray | None = None
        self.peers_util: np.ndarray | None = None
        if self.clock is None:
            return
        groups = peer_groups(frame)
        lowest, highest = np.fmin.reduce(self.clock, axis=1), np.fmax.reduce(self.clock, axis=1)
        ceiling = np.zeros(groups.max(initial=-1) + 1)
        np.fmax.at(ceiling, groups[groups >= 0], highest[groups >= 0])
        wanted = np.zeros(len(groups), dtype=bool)
        wanted[groups >= 0] = lowest[groups >= 0] < _SLOWER * ceiling[groups[groups >= 0]]
        self.peers_clock = group_median(self.clock, groups, wanted)
        if self.temp is not None:
            self.peers_temp = group_median(self.temp, groups, wanted)
        if self.util is not None:
            self.peers_util = group_median(self.util, groups, wanted)

    def slow(self, share: float, load: float) -> np.ndarray | None:
        """Where the clock is below ``share`` of the peers' while both are at work."""
        import numpy as np

        if self.clock is None or self.peers_clock is None:
            return None
        with np.errstate(invalid="ignore"):
            mask: np.ndarray = self.clock < share * self.peers_clock
            if self.util is not None and self.peers_util is not None:
                mask &= ~(self.util < load) & ~(self.peers_util < load)
        return mask

    def hotter(self) -> np.ndarray | None:
        """Degrees above the peers."""
        return None if self.temp is None or self.peers_temp is None else self.temp - self.peers_temp


def _bits(frame: Frame, mask: int, counters: Sequence[str]) -> np.ndarray | None:
    """Where one of the reasons holds, by the bit mask or by the time spent in it; ``None`` if neither is known."""
    import numpy as np

    reasons = frame.get(_REASONS)
    found: np.ndarray | None = None
    if reasons is not None:
        found = (np.nan_to_num(reasons).astype(np.int64) & mask) != 0
    gaps = np.diff(frame.times)
    for name in counters:
        values = frame.get(name)
        if values is None or not frame.timed:
            continue
        if found is None:
            found = np.zeros(values.shape, dtype=bool)
        for row in varying(values):
            found[row, 1:] |= steps_up(values[row])[1:] >= _SHARE * gaps
    return found


def _hot(frame: Frame, compared: _Compared) -> np.ndarray | None:
    """Where heat slows a GPU: it says so, or it is much hotter and slower than its peers under the same load."""
    said = _bits(frame, HEAT, _HEAT_NS)
    slow, hotter = compared.slow(_SLOWER, _LOADED), compared.hotter()
    if slow is None or hotter is None:
        return said
    seen = slow & (hotter >= _HOTTER)
    if said is None:
        return seen
    if not frame.timed:
        # one scrape may catch a moment: what it says must show
        return said & (slow | (hotter >= _HOTTER)) | (seen & (hotter >= 1.5 * _HOTTER))
    return said | seen


def _braked(frame: Frame) -> np.ndarray | None:
    return _bits(frame, BRAKE, _BRAKE_NS)


def _thermal(frame: Frame, proof: Proof, hot: np.ndarray | None, compared: _Compared) -> list[Finding]:
    import numpy as np

    if hot is None:
        return []
    hold = persistence(frame)
    rows = [int(row) for row in np.flatnonzero(hot.any(axis=1)) if runs(hot[[row]]).max() >= hold]
    findings = {row: _heat_finding(frame, proof, row, hot[row], hold, compared) for row in rows}
    result = []
    by_node: dict[str | None, list[int]] = {}
    for row in rows:
        by_node.setdefault(frame.entities[row].node, []).append(row)
    for node, members in by_node.items():
        total = sum(entity.node == node for entity in frame.entities)
        if node is None or len(members) < max(3, total / 2):
            result += [findings[row] for row in members]
        else:
            result.append(_node_wide(frame, [(row, findings[row]) for row in members], total))
    return _row_wide(frame, result)


def _heat_finding(frame: Frame, proof: Proof, row: int, hot: np.ndarray, hold: int, compared: _Compared) -> Finding:
    import numpy as np

    start = first_run(hot, hold)
    columns = np.flatnonzero(hot)
    fields: dict[str, object] = {"samples": len(columns)}
    names = (
        ("temp", compared.temp),
        ("peers_temp", compared.peers_temp),
        ("clock", compared.clock),
        ("peers_clock", compared.peers_clock),
    )
    for name, values in names:
        if values is not None and not np.isnan(values[row, columns]).all():
            fields[name] = round(float(np.nanmedian(values[row, columns])), 1)
    seen = ~np.isnan(compared.temp[row, start:]) if compared.temp is not None else np.ones(len(hot) - start, dtype=bool)
    fields["share"] = round(float(hot[start:].sum() / max(1, seen.sum())), 2)
    reasons = frame.get(_REASONS)
    evidence = [(name, row, int(columns[-1])) for name in (_REASONS, _TEMP, _CLOCK) if frame.get(name) is not None]
    if reasons is not None:
        bits = int(np.bitwise_or.reduce(np.nan_to_num(reasons[row, columns]).astype(np.int64)))
        fields["bits"] = hex(bits)
        if not bits & HEAT:
            evidence = evidence[1:]
    lead = evidence[0][0] if evidence else next(name for name in _HEAT_NS if frame.get(name) is not None)
    return proof.finding(
        frame,
        "metric.thermal_throttle",
        row,
        f"is slowed by heat{_compare(fields)}",
        [(lead, row, start), *evidence],
        last=int(columns[-1]),
        count=len(columns),
        severity=Severity.ERROR if frame.timed else Severity.WARNING,
        fields=fields,
    )


def _compare(fields: dict[str, object]) -> str:
    """``: 92 °C (peers 64), 1110 MHz (peers 1980)``."""
    parts = []
    for name, unit in (("temp", "°C"), ("clock", "MHz")):
        if name in fields:
            peers = f" (peers {fields[f'peers_{name}']:g})" if f"peers_{name}" in fields else ""
            parts.append(f"{fields[name]:g} {unit}{peers}")
    return ": " + ", ".join(parts) if parts else ""


def _node_wide(frame: Frame, members: list[tuple[int, Finding]], total: int) -> Finding:
    """Half of the GPUs of a node at once: the cooling of the node, not one GPU."""
    _, whole = min(members, key=lambda item: (item[1].first, item[0]))
    for _, finding in members:
        if finding is not whole:
            whole.evidence += finding.evidence[:1]
            whole.count += finding.count
            whole.last = max(whole.last, finding.last)
    gpus = [frame.entities[row].gpu for row, _ in members]
    whole.fields = {**whole.fields, "gpus": gpus, "of": total}
    whole.text = f"{len(members)} of {total} GPUs on {whole.node} are slowed by heat{_compare(dict(whole.fields))}"
    whole.gpu = whole.pci = whole.uuid = None
    return whole


def _row_wide(frame: Frame, found: list[Finding]) -> list[Finding]:
    """Most nodes hot in the same minutes: what cools all of them, and none of them by itself."""
    whole = sorted((f for f in found if "of" in f.fields and f.node), key=lambda f: (f.first, f.node or ""))
    nodes = {entity.node for entity in frame.entities if entity.node}
    if not frame.timed or len(whole) < _ROW or len(whole) < _MOST * len(nodes):
        return found
    if whole[-1].first - whole[0].first > _TOGETHER_NS:
        return found
    lead = whole[0]
    lead.text = f"GPUs on {len(whole)} of {len(nodes)} nodes are slowed by heat at once{_compare(dict(lead.fields))}"
    lead.nodes = tuple(sorted(str(f.node) for f in whole))
    lead.fields = {**lead.fields, "spread": "fleet", "members": lead.nodes, "culprit": "facility"}
    lead.evidence = [ref for f in whole[:3] for ref in f.evidence[:2]]
    lead.last = max(f.last for f in whole)
    lead.count = sum(f.count for f in whole)
    lead.node = None
    return [lead, *(f for f in found if f not in whole)]


def _brake(frame: Frame, proof: Proof, braked: np.ndarray | None) -> list[Finding]:
    """One finding for all GPUs: a power brake comes from a supply that many of them share."""
    import numpy as np

    if braked is None:
        return []
    hold = persistence(frame, 2)
    rows = [int(row) for row in np.flatnonzero(braked.any(axis=1)) if runs(braked[[row]]).max() >= hold]
    if not rows:
        return []
    rows.sort(key=lambda row: (first_run(braked[row], hold), row))
    name = _REASONS if frame.get(_REASONS) is not None else _BRAKE_NS[0]
    first = proof.finding(
        frame,
        "metric.power_brake",
        rows[0],
        "is slowed by a hardware power brake",
        [(name, rows[0], first_run(braked[rows[0]], hold))],
        last=int(np.flatnonzero(braked[rows].any(axis=0))[-1]),
        count=int(braked[rows].sum()),
    )
    nodes = tuple(dict.fromkeys(node for node in (frame.entities[row].node for row in rows) if node))
    first.nodes = nodes
    first.fields = {"gpus": len(rows), "nodes": len(nodes)}
    if len(rows) > 1:
        where = f"{len(nodes)} nodes" if len(nodes) > 1 else nodes[0] if nodes else "one node"
        first.text = f"{len(rows)} GPUs on {where} are slowed by a hardware power brake"
        first.evidence += [proof.quote(frame, name, row, first_run(braked[row], hold)) for row in rows[1:3]]
        first.gpu = first.pci = first.uuid = None
        first.node = nodes[0] if len(nodes) == 1 else None
    return [first]


def _low(frame: Frame, proof: Proof, slow: np.ndarray | None, compared: _Compared) -> list[Finding]:
    import numpy as np

    hold = persistence(frame)
    if slow is None or not frame.timed or compared.clock is None or compared.peers_clock is None:
        return []
    found = []
    for row in np.flatnonzero(slow.any(axis=1)):
        start = first_run(slow[row], hold)
        if start < 0:
            continue
        columns = np.flatnonzero(slow[row])
        clock = float(np.nanmedian(compared.clock[row, columns]))
        peers = float(np.nanmedian(compared.peers_clock[row, columns]))
        found.append(
            proof.finding(
                frame,
                "metric.clock_low",
                int(row),
                f"runs at {clock:.0f} MHz under load, its peers at {peers:.0f}",
                [(_CLOCK, int(row), start), (_CLOCK, int(row), int(columns[-1]))],
                last=int(columns[-1]),
                role=Role.ROOT,
                severity=Severity.WARNING,
                count=len(columns),
                fields={"clock": round(clock), "peers_clock": round(peers), "samples": len(columns)},
            )
        )
    return found
