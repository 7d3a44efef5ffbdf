"""InfiniBand ports in node_exporter's metrics: links that go down, come back slower, or make errors.

The signs ``net.link_down`` and ``net.link_flap`` are those of the kernel's lines. A port that was never up is not in
use; a counter that falls was reset by a reboot or a driver, and what it counts while it starts is no error.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from aiops.detect.metrics_evidence import Proof
from aiops.detect.metrics_frame import Frame
from aiops.detect.metrics_math import PEERS, first_run, persistence
from aiops.model import Case, Finding, Role, SeriesBlock, SeriesEntity, Severity
from aiops.model.event import NO_TIME

if TYPE_CHECKING:
    import numpy as np

_DOWNED = "node_infiniband_link_downed_total"
_STATE, _ACTIVE = "node_infiniband_state_id", 4
_PHYSICAL, _LINK_UP = "node_infiniband_physical_state_id", 5
_RATE = "node_infiniband_rate_bytes_per_second"
_ERRORS = {
    "node_infiniband_symbol_error_total": "symbol errors",
    "node_infiniband_link_error_recovery_total": "link recoveries",
    "node_infiniband_port_receive_errors_total": "receive errors",
    "node_infiniband_local_link_integrity_errors_total": "link integrity errors",
    "node_infiniband_excessive_buffer_overrun_errors_total": "buffer overruns",
}
"""node_exporter, ``collector/infiniband_linux.go``; states as in ``/sys/class/infiniband/*/ports/*/state``."""
_FLAPS = 3
_FEW = {"node_infiniband_link_error_recovery_total": 3.0}
_MANY = 100.0
_PEERS = 10.0
"""How many times the median of the other ports, at least."""


@dataclass(frozen=True, slots=True)
class _Port:
    node: str
    name: str
    row: int


def port_faults(case: Case, proof: Proof) -> list[Finding]:
    """``net.link_down``, ``net.link_flap``, ``metric.port_errors`` and ``metric.port_slow``, a finding for each port."""
    import numpy as np

    found = []
    for block in case.series:
        if block.times[0] == NO_TIME or len(block.times) < 4 or not _wanted(block):
            continue
        frame = Frame(case, block.times, block.entities, {}, [(block, np.arange(len(block.entities)))])
        ports = [port for row, entity in enumerate(block.entities) if (port := _port(row, entity)) is not None]
        found += [*_downs(block, frame, proof, ports), *_errors(block, frame, proof, ports)]
        found += _slow(block, frame, proof, ports)
    return found


def _wanted(block: SeriesBlock) -> bool:
    return any(name in _ERRORS or name in (_DOWNED, _STATE, _PHYSICAL, _RATE) for name in block.fields)


def _port(row: int, entity: SeriesEntity) -> _Port | None:
    if entity.node is None or not entity.device:
        return None
    number = dict(entity.labels).get("port", "1")
    return _Port(entity.node, entity.device if number == "1" else f"{entity.device}/{number}", row)


def _plane(block: SeriesBlock, name: str) -> np.ndarray | None:
    return block.values[block.fields.index(name)] if name in block.fields else None


def _grown(row: np.ndarray) -> np.ndarray:
    """Increase at each sample, gaps bridged, nothing at a reset."""
    import numpy as np

    seen = np.flatnonzero(~np.isnan(row))
    grown = np.zeros(len(row))
    if len(seen) > 1:
        grown[seen[1:]] = np.maximum(np.diff(row[seen].astype(np.float64)), 0)
    return grown


def _downs(block: SeriesBlock, frame: Frame, proof: Proof, ports: Sequence[_Port]) -> Iterator[Finding]:
    import numpy as np

    hold = persistence(frame)
    downed = _plane(block, _DOWNED)
    for port in ports:
        stays = -1
        for name, up in ((_STATE, _ACTIVE), (_PHYSICAL, _LINK_UP)):
            states = _plane(block, name)
            if states is None or np.isnan(states[port.row]).all():
                continue
            seen = np.flatnonzero(~np.isnan(states[port.row]))
            off = states[port.row, seen] != up
            # down at the end for long enough, after it had been up for long enough
            start = len(off) - int(np.argmin(off[::-1])) if not off.all() else 0
            if len(off) - start >= hold and first_run(~off[:start], hold) >= 0:
                stays = int(seen[start])
                yield _link(frame, proof, port, "net.link_down", 1, True, [(name, stays), (name, int(seen[start - 1]))])
                break
        if downed is None or stays >= 0:
            continue
        grown = _grown(downed[port.row])
        when = np.flatnonzero(grown)
        if len(when):
            total = float(grown.sum())
            times = int(total) if np.isfinite(total) else len(when)  # a counter that says "infinite" has risen
            columns = [(_DOWNED, int(when[0])), (_DOWNED, int(when[-1]))]
            yield _link(frame, proof, port, "net.link_flap" if times > 1 else "net.link_down", times, False, columns)


def _link(
    frame: Frame, proof: Proof, port: _Port, sign: str, times: int, stayed: bool, cells: list[tuple[str, int]]
) -> Finding:
    often = f"{times} times" if times > 1 else "once"
    text = f"Port {port.name} of {port.node} went down " + ("and stayed down" if stayed else often)
    weak = not stayed and times == 1
    return _finding(
        frame,
        proof,
        port,
        sign,
        text,
        cells,
        role=Role.CONTEXT if weak else Role.ROOT,
        severity=Severity.ERROR if stayed or times >= _FLAPS else Severity.WARNING,
        count=times,
        fields={"downs": times, "nic": port.name, "stayed_down": stayed},
    )


def _errors(block: SeriesBlock, frame: Frame, proof: Proof, ports: Sequence[_Port]) -> Iterator[Finding]:
    import numpy as np

    told: set[str] = set()
    for name, what in _ERRORS.items():
        values = _plane(block, name)
        if values is None or len(ports) <= PEERS:
            continue
        growth = {port: _grown(values[port.row]) for port in ports}
        usual = float(np.median([grown.sum() for grown in growth.values()]))
        for port, grown in growth.items():
            total = float(grown.sum())
            when = np.flatnonzero(grown)
            key = f"{port.node} {port.name}"
            few = _FEW.get(name, _MANY)
            if total < few or total < _PEERS * (usual + 1) or len(when) < min(3, few) or key in told:
                continue
            told.add(key)
            text = f"Port {port.name} of {port.node} counts {total:.0f} {what}, the median of the others is {usual:.0f}"
            cells = [(name, int(when[0])), (name, int(when[-1]))]
            fields = {"counter": name, "errors": int(total), "peers": usual, "nic": port.name}
            yield _finding(
                frame,
                proof,
                port,
                "metric.port_errors",
                text,
                cells,
                severity=Severity.WARNING,
                count=int(total),
                fields=fields,
            )


def _slow(block: SeriesBlock, frame: Frame, proof: Proof, ports: Sequence[_Port]) -> Iterator[Finding]:
    """A link that trained to fewer lanes or a lower speed than before, or than the same device of most other nodes.

    A node of which most ports were slower all the time has other adapters and no fault.
    """
    import numpy as np

    rates = _plane(block, _RATE)
    if rates is None:
        return
    hold = persistence(frame)
    last = {port: row[~np.isnan(row)] for port in ports if not np.isnan(row := rates[port.row]).all()}
    below: list[tuple[_Port, float, float, bool]] = []
    for port, seen in last.items():
        peers = [float(other[-1]) for one, other in last.items() if one.name == port.name and one.node != port.node]
        now, usual = float(seen[-1]), float(np.median(peers)) if len(peers) >= PEERS else 0.0
        usual = max(usual, float(seen.max()))
        if now <= 0 or now >= usual or len(seen) < hold or not (seen[-hold:] == now).all():
            continue
        below.append((port, now, usual, now < seen.max()))
    for port, now, usual, fell in below:
        alike = sum(other.node == port.node for other, *_ in below)
        if not fell and 2 * alike > sum(other.node == port.node for other in last):
            continue
        column = int(np.flatnonzero(~np.isnan(rates[port.row]))[-1])
        text = f"Port {port.name} of {port.node} runs at {now * 8e-9:.0f} instead of {usual * 8e-9:.0f} Gb/s"
        fields = {"gbps": round(now * 8e-9), "peers_gbps": round(usual * 8e-9), "nic": port.name}
        yield _finding(
            frame, proof, port, "metric.port_slow", text, [(_RATE, column)], severity=Severity.WARNING, fields=fields
        )


def _finding(
    frame: Frame, proof: Proof, port: _Port, sign: str, text: str, cells: list[tuple[str, int]], **more: Any
) -> Finding:
    evidence = [proof.quote(frame, name, port.row, column) for name, column in dict.fromkeys(cells)]
    times = [ref.ts for ref in evidence if ref.ts != NO_TIME]
    return Finding(
        sign=sign,
        text=text,
        first=min(times, default=NO_TIME),
        last=max(times, default=NO_TIME),
        node=port.node,
        nodes=(port.node,),
        name=port.name,
        evidence=evidence,
        **{"role": Role.ROOT, **more},
    )
