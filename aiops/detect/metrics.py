"""Signs in GPU metrics.

Signs and their roles:

- ``metric.ecc_dbe`` uncorrectable memory errors: root if counted in the window or seen in a single scrape.
- ``metric.ecc_sbe_storm`` far more corrected errors than the peers: context.
- ``metric.row_remap`` a row was remapped in the window: root. ``metric.row_remap_pending`` needs a reset: root.
  ``metric.row_remap_failure`` needs a new GPU: root.
- ``metric.xid`` the gauge changed (root; XID 43 and 45 echo) or shows an old value (context).
- ``metric.thermal_throttle``, ``metric.power_brake``, ``metric.clock_low`` slower than the peers: root.
  ``metric.clock_drop`` all GPUs of the fleet or of a node slower than before under the same load: root.
- ``metric.pcie_replay``, ``metric.pcie_width``, ``metric.nvlink_errors`` links: root.
- ``metric.gpu_absent`` stops answering while its node's others answer: root; context if it came back.
- ``metric.fabric_wait`` pause frames or congestion notifications rise on most nodes together: root.
- ``metric.rss_growth`` a node's free memory falls steadily to almost nothing: root.
- ``metric.idle_gpu`` idle while all others of the job work: root. ``metric.hang`` GPUs spin in a collective: echo.
- ``metric.fabric_state`` the NVLink fabric failed or is not ready: root. ``metric.recovery_action`` the driver asks
  for a reset, a reboot or a drain: echo. ``metric.sram_threshold`` root if new. ``metric.banks_left`` and
  ``metric.retired_pages`` few spares are left: context.
- ``net.link_down``, ``net.link_flap``, ``metric.port_errors``, ``metric.port_slow`` InfiniBand ports: root.
- ``sched.node_fail``, ``sched.oom_killed``, ``sched.evicted``, ``sched.image_pull``, ``sched.container_setup`` told by
  kube-state-metrics.
- ``metric.gap`` a node or the fleet gave no samples for a while: context. ``host.disk_full`` no space is left: root.
- ``metric.outlier`` does persistently less than its peers in the same job: context.
- ``metric.fb_full`` memory full: context. ``metric.fb_drop`` memory released before the others did: echo.
- ``metric.mem_growth`` memory in use grows until it is full: root.

Peers are the GPUs of the same model on the node, or in the case if the node has too few. A condition must persist,
gaps are bridged, counters may reset, and an absent sample is never taken for zero.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from aiops.model import Case, Finding

if TYPE_CHECKING:
    from aiops.catalog import Catalog


def detect(case: Case, catalog: Catalog) -> list[Finding]:
    """All findings in the metric samples of a case."""
    if not case.series:
        return []
    from aiops.detect import (
        metrics_activity,
        metrics_clock_drop,
        metrics_clocks,
        metrics_gaps,
        metrics_links,
        metrics_memory,
        metrics_outliers,
        metrics_state,
        metrics_xid,
    )
    from aiops.detect.metrics_cluster import cluster_states
    from aiops.detect.metrics_evidence import Proof
    from aiops.detect.metrics_fabric import congestion
    from aiops.detect.metrics_frame import frames
    from aiops.detect.metrics_host import full_disks, memory_leak
    from aiops.detect.metrics_ports import port_faults

    proof = Proof(case)
    rules = (
        metrics_memory,
        metrics_xid,
        metrics_clocks,
        metrics_clock_drop,
        metrics_links,
        metrics_activity,
        metrics_state,
        metrics_gaps,
    )
    found: list[Finding] = []
    for frame in frames(case):
        here = [finding for rule in rules for finding in rule.find(frame, proof)]
        found += [*here, *metrics_outliers.find(frame, proof, here)]
    return [
        *found,
        *congestion(case, proof),
        *memory_leak(case, proof),
        *full_disks(case, proof),
        *port_faults(case, proof),
        *cluster_states(case, proof),
    ]
