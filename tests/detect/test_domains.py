"""Several nodes in trouble at once on one switch, NVLink domain or feed: that is at fault, and no node of it is touched."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aiops.config import Settings, default_cache_dir
from aiops.detect.domains import shared_domains
from aiops.model import NO_TIME, Case, Domain, Edge, EvidenceRef, Finding, Hierarchy
from aiops.model.report import DISRUPTIVE, Incident
from aiops.pipeline import analyze_paths

LEAVES = "SwitchName=leaf1 Nodes=c[1-4]\nSwitchName=leaf2 Nodes=c[5-8]\nSwitchName=sp Switches=leaf[1-2]\n"
DOWN = "mlx5_core 0000:5e:00.0 ibp94s0: Link down"
XID = "NVRM: Xid (PCI:0000:0{gpu}:00): 149, pid=4711, name=python3, NETIR_LINK_EVT  Fatal XC0 i0 Link 05 (0x00000001 0x0 0x0 0x0 0x0 0x0)"
REBOOT = "kernel: Linux version 6.8.0-51-generic (buildd@lcy02) #52-Ubuntu SMP"


def syslog(host: str, *said: tuple[str, str]) -> str:
    """A quiet morning of a host, with some lines more: (time, text)."""
    quiet = [
        (f"07:{minute:02}:07", "systemd[1]: Finished system activity accounting tool.") for minute in range(10, 60, 10)
    ]
    late = [
        (f"08:{minute:02}:09", "systemd[1]: Finished system activity accounting tool.") for minute in range(20, 60, 10)
    ]
    lines = sorted([*quiet, *((at, f"kernel: [ 99{at[-2:]}.123456] {text}") for at, text in said), *late])
    return "".join(f"Aug  1 {at} {host} {text}\n" for at, text in lines)


def judge(folder: Path, logs: dict[str, list[tuple[str, str]]], **files: str) -> Any:
    for host, said in logs.items():
        (folder / f"{host}.log").write_text(syslog(host, *said))
    for name, text in files.items():
        (folder / name).write_text(text)
    return analyze_paths([folder], Settings(cache_dir=default_cache_dir()))


def trained() -> str:
    """The output of a job that ends with its peers gone, and its record."""
    return (
        "2026-08-01 07:50:00,000 INFO [rank 0] step=100 loss=2.1\n2026-08-01 07:59:30,000 INFO [rank 0] step=110 loss=2.0\n"
        "[rank0]:[E801 08:10:11.095820839 ProcessGroupNCCL.cpp:616] [Rank 0] Watchdog caught collective operation timeout: "
        "WorkNCCL(SeqNum=9, OpType=ALLREDUCE, NumelIn=1, NumelOut=1, Timeout(ms)=600000) ran for 600012 milliseconds before timing out.\n"
    )


def sacct(nodes: str, state: str = "FAILED") -> str:
    return (
        "JobID|JobName|State|ExitCode|Start|End|NodeList|NNodes\n"
        f"4711|llm|{state}|1:0|2026-08-01T07:00:00|2026-08-01T08:10:30|{nodes}|8\n"
    )


def touched(incident: Incident) -> list[str]:
    return [a.target.node or "?" for a in incident.actions if a.action in DISRUPTIVE]


def test_most_hosts_of_a_leaf_lose_their_ports_and_the_leaf_is_named(tmp_path: Path) -> None:
    logs = {f"c{n}": [(f"08:00:0{n}", DOWN)] if n >= 6 else [] for n in (1, 2, 3, 4, 6, 7, 8)}
    report = judge(tmp_path, logs, **{"topology.conf": LEAVES, "train.out": trained(), "sacct": sacct("c[1-8]")})
    first = report.incidents[0]
    assert first.failure_class == "net.switch_down"
    assert (first.culprit.kind, first.culprit.name, first.culprit.node) == ("switch", "leaf2", None)
    assert first.requeue.exclude == ["c5", "c6", "c7", "c8"]
    assert touched(first) == []
    # c5 hangs there as well, and nobody knows how it is
    assert "c5" in first.hypotheses[0].would_decide[0]
    assert first.confidence < 0.93
    assert "leaf2" in first.title
    assert any(row.entity == "switch leaf2" and row.role == "cause" for row in first.timeline)
    quoted = {(e.source, e.line) for e in first.evidence}
    assert ("topology.conf", 2) in quoted
    command = " ".join(next(a.commands for a in first.actions if a.action == "requeue_excluding_node"))
    assert all(node in command for node in ("c5", "c6", "c7", "c8")) or "c[5-8]" in command


@pytest.mark.parametrize(
    ("said", "why"),
    [
        ({"c6": "08:00:06"}, "one host alone"),
        ({"c6": "08:00:06", "c7": "08:20:06"}, "twenty minutes apart"),
        ({"c6": "08:00:06", "c7": "08:00:07"}, "two of four whose others are well"),
        ({"c2": "08:00:01", "c6": "08:00:06"}, "two leaves, and the others on both are well"),
    ],
)
def test_a_leaf_is_not_blamed_for(tmp_path: Path, said: dict[str, str], why: str) -> None:
    logs = {f"c{n}": [(said[f"c{n}"], DOWN)] if f"c{n}" in said else [] for n in range(1, 9)}
    report = judge(tmp_path, logs, **{"topology.conf": LEAVES, "train.out": trained(), "sacct": sacct("c[1-8]")})
    signs = {f.sign for incident in report.incidents for f in incident.findings}
    assert "topology.switch" not in signs, why
    if why.startswith("two leaves"):
        assert report.incidents[0].failure_class != "net.switch_down"


def test_a_rail_switch_is_found_by_the_port_that_leads_to_it(tmp_path: Path) -> None:
    rails = "".join(
        f"CA {n * 10 + r} 1 0x506b4b03000000{n}{r} 4x NDR - SW {r} {n} 0xec0d9a03000000a{r} "
        f"( 'c{n} mlx5_{r}' - 'MF0;rail{r}:MQM9700/U1' )\n"
        for n in range(1, 5)
        for r in range(3)
    )
    logs = {f"c{n}": [(f"08:00:0{n}", "mlx5_core 0000:5e:00.0 mlx5_1: Port: 1 Link DOWN")] for n in range(1, 5)}
    report = judge(tmp_path, logs, **{"ports": rails, "train.out": trained(), "sacct": sacct("c[1-4]")})
    first = report.incidents[0]
    assert (first.failure_class, first.culprit.name) == ("net.switch_down", "rail1")
    # every node hangs on it: there is nowhere to go
    assert first.requeue.exclude == [] and "All known nodes" in first.requeue.why


def test_nodes_are_called_as_the_scheduler_calls_them(tmp_path: Path) -> None:
    inventory = "host,leaf\n" + "".join(f"c{n}.hpc.example,leaf{1 + n // 5}\n" for n in range(1, 9))
    logs = {f"c{n}": [(f"08:00:0{n}", DOWN)] if n >= 5 else [] for n in range(1, 9)}
    report = judge(tmp_path, logs, **{"inventory.csv": inventory, "train.out": trained(), "sacct": sacct("c[1-8]")})
    assert report.incidents[0].culprit.name == "leaf2"
    assert report.incidents[0].requeue.exclude == ["c5", "c6", "c7", "c8"]


def test_slurmctld_loses_exactly_the_nodes_of_one_leaf(tmp_path: Path) -> None:
    daemon = (
        "[2026-08-01T08:03:00.000] error: Nodes c[5-8] not responding\n"
        "[2026-08-01T08:04:40.000] error: Nodes c[5-8] not responding, setting DOWN\n"
    )
    report = judge(
        tmp_path, {}, **{"topology.conf": LEAVES, "slurmctld.log": daemon, "sacct": sacct("c[1-8]", "NODE_FAIL")}
    )
    first = report.incidents[0]
    assert (first.failure_class, first.culprit.name) == ("net.switch_down", "leaf2")
    assert any("BMC" in question for question in first.hypotheses[0].would_decide)


def test_nvlink_faults_on_most_of_a_clique_point_to_its_switches(tmp_path: Path) -> None:
    nodes = [
        {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"labels": {"nvidia.com/gpu.clique": f"aa.{1 + (n > 4)}"}, "name": f"c{n}"},
            "status": {
                "conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": "2026-07-01T08:00:00Z"}]
            },
        }
        for n in range(1, 9)
    ]
    logs = {f"c{n}": [(f"08:00:0{n}", XID.format(gpu=1))] if n >= 6 else [] for n in range(1, 9)}
    report = judge(
        tmp_path, logs, **{"nodes.json": json.dumps({"apiVersion": "v1", "kind": "List", "items": nodes}, indent=1)}
    )
    first = report.incidents[0]
    assert (first.failure_class, first.culprit.kind, first.culprit.name) == (
        "nvl.switch_fatal",
        "switch",
        "NVLink domain aa.2",
    )
    assert touched(first) == []
    assert first.requeue.exclude == ["c5", "c6", "c7", "c8"]


def test_a_monitor_that_names_a_feed_names_its_nodes(tmp_path: Path) -> None:
    racks = "hostname,rack,pdu\n" + "".join(f"c{n},R{1 + n // 5},pdu-r{1 + n // 5}\n" for n in range(1, 9))
    trap = "Aug  1 08:00:01 snmp1 snmptrapd[811]: PDU pdu-r2 branch 3 breaker tripped\n"
    report = judge(
        tmp_path,
        {},
        **{
            "racks.csv": racks,
            "traps.log": trap,
            "train.out": trained(),
            "sacct": sacct("c[1-8]", "NODE_FAIL"),
        },
    )
    first = report.incidents[0]
    assert (first.failure_class, first.culprit.kind, first.culprit.name) == (
        "pwr.domain_trip",
        "facility",
        "PDU pdu-r2",
    )
    assert first.requeue.exclude == ["c5", "c6", "c7", "c8"]


def test_a_domain_that_the_job_does_not_use_is_not_its_incident(tmp_path: Path) -> None:
    logs = {f"c{n}": [(f"08:00:0{n}", DOWN)] if n >= 5 else [] for n in range(1, 9)}
    report = judge(tmp_path, logs, **{"topology.conf": LEAVES, "train.out": trained(), "sacct": sacct("c[1-4]")})
    assert all(incident.culprit.name != "leaf2" for incident in report.incidents)


def test_a_port_is_told_with_the_gpu_and_the_rank_that_depend_on_it(tmp_path: Path) -> None:
    matrix = (
        "root@c1:~# nvidia-smi topo -m\n\tGPU0\tGPU1\tNIC0\tNIC1\tCPU Affinity\nGPU0\t X \tNV18\tPXB\tSYS\t0-51\n"
        "GPU1\tNV18\t X \tSYS\tPIX\t52-103\nNIC0\tPXB\tSYS\t X \tSYS\nNIC1\tSYS\tPIX\tSYS\t X \n\n"
        "NIC Legend:\n\n  NIC0: mlx5_0\n  NIC1: mlx5_1\n"
    )
    case_yaml = "topology:\n  ranks:\n    0-1: c1\n    2-3: c2\n"
    down = [("08:00:01", "mlx5_core 0000:5e:00.0 mlx5_1: Port: 1 Link DOWN")]
    report = judge(tmp_path, {"c1": down, "c2": []}, **{"topo": matrix, "case.yaml": case_yaml, "train.out": trained()})
    texts = [f.text for incident in report.incidents for f in incident.findings if f.sign == "net.link_down"]
    assert any("the NIC of GPU 1, rank 1" in text for text in texts), texts


NODES = [f"n{number}" for number in range(12)]


@settings(max_examples=150, deadline=None)
@given(st.dictionaries(st.sampled_from(NODES), st.integers(0, 900), max_size=12), st.sets(st.sampled_from(NODES)))
def test_what_is_named_was_hit_together_and_as_a_whole(hit: dict[str, int], logged: set[str]) -> None:
    """Whatever fails when: a named switch has at least two hit nodes within a minute, most of its observed nodes, and few outside."""
    case = Case("")
    for position, node in enumerate(NODES):
        leaf = Domain(Hierarchy.NETWORK, "switch", f"leaf{position // 4}")
        case.topology.tree.add(Edge(node, leaf, EvidenceRef("t", 1 + position, 0, node)))
    case.coverage.nodes_with_kernel_log = logged | hit.keys()
    start = 1_785_571_200_000_000_000
    findings = [
        Finding(
            "net.link_down",
            f"{node} down",
            first=start + at * 10**9,
            node=node,
            nodes=(node,),
            evidence=[EvidenceRef(node, 1, 0, "x")],
        )
        for node, at in hit.items()
    ]
    for found in shared_domains(case, findings):
        assert found.sign == "topology.switch"
        members = set(found.fields["members"])
        inside = set(found.nodes)
        assert inside <= members and len(inside) >= 2
        assert found.first != NO_TIME and found.last - found.first <= 60 * 10**9
        well = (logged & members) - inside
        assert len(inside) >= 0.6 * (len(inside) + len(well)) and (len(inside) > 2 or not well)
        together = {n for n, at in hit.items() if abs(start + at * 10**9 - found.first) <= 60 * 10**9}
        assert len(together - members) <= 0.2 * len(inside)
        assert all(0 <= found.fields["chance"] <= 1 for _ in (1,))
