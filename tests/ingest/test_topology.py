"""What nodes hang on, from every form it is written in: one tree, each edge with its line, damage with its line."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aiops.config import Settings, default_cache_dir
from aiops.errors import InputError
from aiops.ingest import open_case
from aiops.ingest.case_yaml import read_case_yaml
from aiops.ingest.topology import read_topology, sniff_topology
from aiops.model import Case, Domain, Hierarchy, Source

NET, NVL, POW, PHY = Hierarchy.NETWORK, Hierarchy.NVLINK, Hierarchy.POWER, Hierarchy.PHYSICAL

SLURM_CONF = """\
# two leaves
SwitchName=leaf1 Nodes=n[01-02]
switchname=leaf2 \\
    nodes=n[03-04] LinkSpeed=100
SwitchName=spine Switches=leaf[1-2]
"""
SHOW_TOPOLOGY = """\
SwitchName=leaf1 Level=0 LinkSpeed=1 Nodes=n[01-02]
SwitchName=leaf2 Level=0 LinkSpeed=1 Nodes=n[03-04]
SwitchName=spine Level=1 LinkSpeed=1 Nodes=n[01-04] Switches=leaf[1-2]
"""
SLURM_YAML = """\
- topology: fabric
  cluster_default: true
  tree:
    switches:
      - switch: spine
        children: leaf[1-2]
      - switch: leaf1
        nodes: n[01-02]
      - switch: leaf2
        nodes: n[03-04]
- topology: flat
  flat: true
"""
DISCOVER = """\
#
# Topology file: generated on Wed Jun 17 17:06:56 2026
#
# Initiated from node 0008f10403960558 port 0008f10403960559

vendid=0x2c9
switchguid=0xec0d9a0300ec0001(ec0d9a0300ec0001)
Switch\t36 "S-ec0d9a0300ec0001"\t\t# "MF0;leaf1:MQM9700/U1" enhanced port 0 lid 48 lmc 0
[1]\t"H-506b4b0300000001"[1](506b4b0300000001) \t\t# "n01 mlx5_0" lid 67 4xNDR
[2]\t"H-506b4b0300000002"[1](506b4b0300000002) \t\t# "n02 mlx5_0" lid 68 4xNDR
[35]\t"S-ec0d9a0300ec0009"[1]\t\t# "MF0;spine:MQM9700/U1" lid 3 4xNDR
[41]\t"H-506b4b03000000a1"[1](506b4b03000000a1) \t\t# "Mellanox Technologies Aggregation Node" lid 9 4xNDR

switchguid=0xec0d9a0300ec0002(ec0d9a0300ec0002)
Switch\t36 "S-ec0d9a0300ec0002"\t\t# "MF0;leaf2:MQM9700/U1" enhanced port 0 lid 49 lmc 0
[1]\t"H-506b4b0300000003"[1](506b4b0300000003) \t\t# "n03 mlx5_0" lid 69 4xNDR
[2]\t"H-506b4b0300000004"[1](506b4b0300000004) \t\t# "n04 mlx5_0" lid 70 4xNDR
[35]\t"S-ec0d9a0300ec0009"[2]\t\t# "MF0;spine:MQM9700/U1" lid 3 4xNDR

Ca\t1 "H-506b4b0300000001"\t\t# "n01 mlx5_0"
[1](506b4b0300000001) \t"S-ec0d9a0300ec0001"[1]\t\t# lid 67 lmc 0 "MF0;leaf1:MQM9700/U1" lid 48 4xNDR
"""
PORTS = """\
CA    67  1 0x506b4b0300000001 4x NDR - SW    48  1 0xec0d9a0300ec0001 ( 'n01 mlx5_0' - 'MF0;leaf1:MQM9700/U1' )
CA    68  1 0x506b4b0300000002 4x NDR - SW    48  2 0xec0d9a0300ec0001 ( 'n02 mlx5_0' - 'MF0;leaf1:MQM9700/U1' )
SW    49  1 0xec0d9a0300ec0002 4x NDR - CA    69  1 0x506b4b0300000003 ( 'MF0;leaf2:MQM9700/U1' - 'n03 mlx5_0' )
SW    49  2 0xec0d9a0300ec0002 4x NDR - CA    70  1 0x506b4b0300000004 ( 'MF0;leaf2:MQM9700/U1' - 'n04 mlx5_0' )
SW    48 35 0xec0d9a0300ec0001 4x NDR - SW     3  1 0xec0d9a0300ec0009 ( 'MF0;leaf1:MQM9700/U1' - 'MF0;spine:MQM9700/U1' )
SW     3  2 0xec0d9a0300ec0009 4x NDR - SW    49 35 0xec0d9a0300ec0002 ( 'MF0;spine:MQM9700/U1' - 'MF0;leaf2:MQM9700/U1' )
SW    48 36 0xec0d9a0300ec0001 4x SDR
"""
INVENTORY = """\
fabric: compute
spines: [spine]
leaves:
  - name: leaf1
    uplinks: [spine]
    hosts:
      - {node: n01, ports: [mlx5_0]}
      - {node: n02, ports: [mlx5_0]}
  - name: leaf2
    uplinks: [spine]
    hosts: "n[03-04]"
"""
INVENTORY_JSON = '{"switches": {"leaf1": {"nodes": ["n01", "n02"], "parent": "spine"}, "leaf2": {"nodes": "n[03-04]", "parent": "spine"}}}'
LABELS = "".join(
    f"""\
- apiVersion: v1
  kind: Node
  metadata:
    labels:
      network.topology.nvidia.com/leaf: {leaf}
      network.topology.nvidia.com/spine: spine
    name: {node}
"""
    for node, leaf in (("n01", "leaf1"), ("n02", "leaf1"), ("n03", "leaf2"), ("n04", "leaf2"))
)
LABELS = f"apiVersion: v1\nkind: List\nitems:\n{LABELS}"
TIERS = LABELS.replace("network.topology.nvidia.com/leaf", "fabric.topograph.run/tier-0").replace(
    "network.topology.nvidia.com/spine", "fabric.topograph.run/tier-1"
)


def read(path: Path) -> Case:
    with open_case([path], Settings(cache_dir=default_cache_dir())) as case:
        return case


def written(tmp_path: Path, text: str, name: str = "0.dat") -> Case:
    (tmp_path / name).write_text(text)
    return read(tmp_path)


FORMS = [SLURM_CONF, SHOW_TOPOLOGY, SLURM_YAML, DISCOVER, PORTS, INVENTORY, INVENTORY_JSON, LABELS, TIERS]


@pytest.mark.parametrize(
    "text", FORMS, ids=["conf", "show", "yaml", "discover", "ports", "inventory", "json", "labels", "tiers"]
)
def test_every_form_of_one_fabric_gives_the_same_tree(tmp_path: Path, text: str) -> None:
    case = written(tmp_path, text)
    tree = case.topology.tree
    assert tree.nodes() == ["n01", "n02", "n03", "n04"]
    assert tree.members(Domain(NET, "switch", "leaf1")) == {"n01", "n02"}
    assert tree.members(Domain(NET, "switch", "leaf2")) == {"n03", "n04"}
    assert tree.members(Domain(NET, "switch", "spine")) == {"n01", "n02", "n03", "n04"}
    assert [d.name for d in tree.above("n03")] == ["leaf2", "spine"]
    assert case.coverage.problems == []
    lines = text.split("\n")
    for edge in tree.edges:
        # the line that proves an edge names what hangs there, in full or as a host list
        quoted = lines[edge.proof.line - 1]
        assert edge.proof.text.removesuffix("…") == " ".join(quoted.split())[: len(edge.proof.text.removesuffix("…"))]
        assert text.encode()[edge.proof.offset :].startswith(quoted.encode())


def test_labels_are_quoted_at_their_own_line_whichever_side_of_the_name_they_stand_on(tmp_path: Path) -> None:
    case = written(tmp_path, LABELS)
    proofs = {edge.child: edge.proof.line for edge in case.topology.tree.edges if isinstance(edge.child, str)}
    assert proofs == {"n01": 8, "n02": 15, "n03": 22, "n04": 29}


def test_blocks_cliques_racks_and_power_are_hierarchies_of_their_own(tmp_path: Path) -> None:
    (tmp_path / "topology.conf").write_text("BlockName=b1 Nodes=n[1-2]\nBlockName=b2 Nodes=n[3-4]\nBlockSizes=2,4\n")
    (tmp_path / "inventory.csv").write_text(
        "hostname;Rack;PDU A;PDU B;zone\nn1;R1;P1;P2;z\nn2;R1;P1;P2;z\nn3;R2;P3;P4;z\nn4;R2;P3;-;z\n"
    )
    (tmp_path / "racks.yaml").write_text(
        'racks:\n  R1: {row: A, nodes: "n[1-2]", power_feed: F1}\n  R2: {row: A, nodes: [n3, n4]}\n'
    )
    case = read(tmp_path)
    tree = case.topology.tree
    assert tree.members(Domain(NVL, "block", "b2")) == {"n3", "n4"}
    assert tree.members(Domain(PHY, "rack", "R1")) == {"n1", "n2"}
    assert tree.members(Domain(PHY, "row", "A")) == {"n1", "n2", "n3", "n4"}
    assert tree.members(Domain(POW, "PDU", "P4")) == {"n3"}
    assert tree.members(Domain(POW, "power feed", "F1")) == {"n1", "n2"}
    assert {s.kind for s in case.sources} == {"topology"}


def test_kueue_levels_hypernodes_and_cloud_labels(tmp_path: Path) -> None:
    case = written(
        tmp_path,
        """\
apiVersion: kueue.x-k8s.io/v1beta1
kind: Topology
metadata:
  name: t
spec:
  levels:
  - nodeLabel: site.example/plane
  - nodeLabel: kubernetes.io/hostname
---
apiVersion: topology.volcano.sh/v1alpha1
kind: HyperNode
metadata:
  name: tor-1
spec:
  tier: 1
  members:
  - type: Node
    selector: {regexMatch: {pattern: "^g[0-9]+$"}}
  - type: Node
    selector: {regexMatch: {pattern: "^(g+)+$"}}
---
apiVersion: topology.volcano.sh/v1alpha1
kind: HyperNode
metadata:
  name: top
spec:
  tier: 2
  members:
  - type: HyperNode
    selector: {exactMatch: {name: tor-1}}
---
apiVersion: v1
kind: Node
metadata:
  name: g1
  labels:
    site.example/plane: p7
    nvidia.com/gpu.clique: 0f1c.32766
    topology.k8s.aws/network-node-layer-1: nn-a
    topology.k8s.aws/network-node-layer-2: nn-b
    topology.k8s.aws/network-node-layer-3: nn-c
    node.coreweave.cloud/rack: R9
    topology.kubernetes.io/zone: z1
    kubernetes.io/hostname: g1
    app.example/core: "16"
""",
    )
    tree = case.topology.tree
    below = {str(d): tree.members(d) for d in tree.domains()}
    assert below["plane p7"] == below["NVLink domain 0f1c.32766"] == below["rack R9"] == below["zone z1"] == {"g1"}
    assert [d.name for d in tree.above("g1") if d.kind == "network node"] == ["nn-c", "nn-b", "nn-a"]
    assert below["switch tor-1"] == below["hypernode top"] == {"g1"}
    assert not any("16" in name for name in below)
    assert any("is not tried" in problem.reason for problem in case.coverage.problems)


def test_gpu_and_nic_by_distance(tmp_path: Path) -> None:
    matrix = (
        "root@n17:~# nvidia-smi topo -m\n"
        "\t\x1b[4mGPU0\tGPU1\tNIC0\tNIC1\tCPU Affinity\tNUMA Affinity\tGPU NUMA ID\x1b[0m\n"
        "GPU0\t X \tNV18\tPXB\tSYS\t0-51\t0\tN/A\nGPU1\tNV18\t X \tSYS\tPIX\t52-103\t1\tN/A\n"
        "NIC0\tPXB\tSYS\t X \tSYS\nNIC1\tSYS\tPIX\tSYS\t X \n\nLegend:\n\n  X    = Self\n\nNIC Legend:\n\n  NIC0: mlx5_0\n  NIC1: mlx5_3\n"
    )
    case = written(tmp_path, matrix)
    assert case.topology.gpu_nics == {
        ("n17", 0): (("mlx5_0", "PXB"), ("mlx5_3", "SYS")),
        ("n17", 1): (("mlx5_3", "PIX"), ("mlx5_0", "SYS")),
    }


DAMAGED = [
    (SLURM_CONF.replace("n[03-04]", "n[03-"), "node list not understood", 3),
    (SLURM_CONF.replace("leaf[1-2]", "leaf[1-3]"), "defined nowhere", 5),
    (SLURM_CONF + "SwitchName=leaf3 Nodes=n01\n", "stands under", 6),
    (SLURM_CONF + "SwitchName=leaf4\n", "neither nodes nor switches", 6),
    (SLURM_YAML + "  tree: ]\n", "not valid YAML", 13),
    (DISCOVER + "[12 broken\n", "a port that is not understood", 22),
    (INVENTORY + "  - {hosts: [n05]}\n", "without a name", 12),
    (INVENTORY.replace("n[03-04]", "n; rm -rf /"), "is no host name", 11),
]


@pytest.mark.parametrize(("text", "reason", "line"), DAMAGED)
def test_damage_is_named_with_its_line_and_the_rest_is_kept(tmp_path: Path, text: str, reason: str, line: int) -> None:
    case = written(tmp_path, text)
    found = [(p.reason, p.line) for p in case.coverage.problems]
    assert any(reason in said and at == line for said, at in found), found
    assert case.topology.tree.members(Domain(NET, "switch", "leaf1")) >= (
        {"n01", "n02"} if "tree: ]" not in text else set()
    )


def test_what_a_person_states_stands_above_what_files_say(tmp_path: Path) -> None:
    (tmp_path / "topology.conf").write_text(SLURM_CONF)
    (tmp_path / "case.yaml").write_text(
        "topology:\n  pdus:\n    P7: n[01-02]\n  nodes:\n    n04: {leaf: leaf1, aliases: [ip-4]}\n"
    )
    tree = read(tmp_path).topology.tree
    assert tree.members(Domain(POW, "PDU", "P7")) == {"n01", "n02"}
    assert tree.members(Domain(NET, "switch", "leaf1")) == {"n01", "n02", "n04"}
    assert tree.members(Domain(NET, "switch", "leaf2")) == {"n03"}


def test_a_mistake_in_the_stated_topology_names_its_line(tmp_path: Path) -> None:
    path = tmp_path / "case.yaml"
    path.write_text("topology:\n  racks:\n    R1: n[1-\n")
    with pytest.raises(InputError, match="node list not understood"):
        read_case_yaml(path, "case.yaml")
    path.write_text("topology:\n  shelves: {}\n")
    with pytest.raises(InputError, match="shelves"):
        read_case_yaml(path, "case.yaml")


def test_explain_ingest_shows_the_tree_and_its_sources(tmp_path: Path, aiops) -> None:
    (tmp_path / "0.dat").write_text(SLURM_CONF)
    text = aiops("analyze", tmp_path, "--explain-ingest").stdout.decode()
    assert "TOPOLOGY    4 nodes under 3 domains" in text
    assert "network: switch leaf2, 2 nodes\n    n03, n04 — 0.dat:3" in text


OTHERS = [
    "SwitchName is set by the admin\nloss 3.2 step 4\n",
    "epochs: 3\nblocks: 12\nnodes: 8\n",
    "services:\n  web:\n    hosts: [a]\n",
    "timestamp,hostname,rack,value\n1,n1,R1,3\n",
    "2026-08-01T08:00:00Z INFO nodes: leaf: 3\n",
    '{"ts": 1, "racks": {"a": 1}, "nodes": 3}\n',
]


@pytest.mark.parametrize("text", OTHERS)
def test_other_files_are_left_alone(text: str) -> None:
    assert sniff_topology(text.encode()) is None


def _parsed(data: bytes) -> Case | None:
    form = sniff_topology(data)
    if form is None:
        return None
    case = Case("")
    read_topology(Source(0, "x", Path("x"), len(data), "topology", form), data, case)
    return case


names = st.from_regex(r"[a-z][a-z0-9]{0,6}", fullmatch=True)


@settings(max_examples=80, deadline=None)
@given(st.dictionaries(names, st.sets(names, min_size=1, max_size=5), min_size=1, max_size=5))
def test_a_tree_that_is_written_down_is_read_back(leaves: dict[str, set[str]]) -> None:
    taken: set[str] = set()
    fabric = {
        f"sw-{name}": sorted(f"n-{node}" for node in nodes - taken)
        for name, nodes in leaves.items()
        if not taken.update() and nodes - taken
    }
    conf = "".join(f"SwitchName={name} Nodes={','.join(nodes)}\n" for name, nodes in fabric.items())
    case = _parsed(conf.encode())
    assert case is not None
    for name, nodes in fabric.items():
        assert case.topology.tree.members(Domain(NET, "switch", name)) == set(nodes)


@settings(max_examples=150, deadline=None)
@given(st.sampled_from([f.encode() for f in (*FORMS[:7], SLURM_YAML)]), st.data())
def test_mutilated_files_never_break_the_reader(whole: bytes, data: st.DataObject) -> None:
    at = data.draw(st.integers(0, len(whole)))
    end = data.draw(st.integers(at, min(len(whole), at + 40)))
    noise = data.draw(
        st.one_of(
            st.binary(max_size=30), st.sampled_from([b"[", b"]", b"&a *a", b"[1-99999999]", b"\x00", b"'", b"{{"])
        )
    )
    case = _parsed(whole[:at] + noise + whole[end:])
    if case is not None:
        assert all(isinstance(edge.child, (str, Domain)) and edge.proof.line > 0 for edge in case.topology.tree.edges)
        assert all(problem.reason for problem in case.coverage.problems)
