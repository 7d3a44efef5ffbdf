"""Files that say what nodes hang on: Slurm's topology, ibnetdiscover, ``nvidia-smi topo -m``, inventories.

Labels, Kueue levels and HyperNodes of Kubernetes objects are joined afterwards, see `topology_kubernetes`.
"""

from __future__ import annotations

from aiops.ingest.topology_gpu import read_gpu_matrix, sniff_gpu_matrix
from aiops.ingest.topology_infiniband import read_infiniband, sniff_infiniband
from aiops.ingest.topology_inventory import read_inventory, sniff_inventory
from aiops.ingest.topology_lines import TopologyFile
from aiops.ingest.topology_slurm import read_slurm_conf, read_slurm_yaml, sniff_slurm_topology
from aiops.model.case import Case, Source

_READERS = {
    "slurm-topology": read_slurm_conf,
    "slurm-topology-yaml": read_slurm_yaml,
    "ibnetdiscover": read_infiniband,
    "ibnetdiscover -p": read_infiniband,
    "nvidia-smi topo": read_gpu_matrix,
    "topology-yaml": read_inventory,
    "topology-csv": read_inventory,
}


def sniff_topology(head: bytes) -> str | None:
    """Format of a file about topology, told by its first bytes, or ``None``."""
    for sniffer in (sniff_slurm_topology, sniff_infiniband, sniff_gpu_matrix, sniff_inventory):
        found = sniffer(head)
        if found:
            return found
    return None


def read_topology(source: Source, data: bytes, case: Case) -> None:
    """Add the edges of the file to ``case.topology.tree``, and GPU-to-NIC affinity to ``case.topology.gpu_nics``.

    What cannot be read is skipped and named in ``case.coverage.problems`` with its line.
    """
    file = TopologyFile(source, data, case)
    source.lines = source.lines or data.count(b"\n")
    reader = _READERS.get(source.format)
    if reader is None:
        file.problem("the form of this topology is not known")
        return
    reader(file)
    file.finish()
