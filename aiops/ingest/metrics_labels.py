"""Whose sample is it: metric labels of many exporters to one `SeriesEntity`."""

from __future__ import annotations

import re
from collections.abc import Mapping

from aiops.model import SeriesEntity, canonical_pci, is_host_name

_NODE = tuple(
    prefix + base
    for base in ("Hostname", "hostname", "node", "nodename", "node_name", "kubernetes_node", "host", "instance")
    for prefix in ("exported_", "")
)
"""Labels that carry a host name, most telling first. dcgm-exporter 4.5.3 renamed ``Hostname`` to ``hostname``."""
_OF_OBJECT = ("exported_node", "node")
"""kube-state-metrics tells of objects: its target labels are about the machine that it runs on itself."""
_UUID = ("UUID", "uuid", "gpu_uuid", "GPU_UUID")
_PCI = ("pci_bus_id", "pci_bus", "pci")
_MODEL = ("modelName", "model_name", "gpu_model")
_KEPT = {"GPU_I_ID", "GPU_I_PROFILE", "nvlink", "nvswitch", "xid", "clock_event", "health_watch", "peer_gpu"}
"""Labels that tell apart series of one GPU."""
_BARE_UUID = re.compile(r"^[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}$")
_GPU_METRIC = re.compile(r"^(?:DCGM_|nvidia_smi_)")


def entity_of(name: str, labels: Mapping[str, str], node: str | None) -> SeriesEntity:
    """The entity of one series.

    Args:
        name: metric name as written.
        labels: labels without ``__name__``.
        node: host of the whole source, used where the labels name none.

    Labels with the prefix ``exported_`` win: without ``honor_labels`` Prometheus puts its own target labels (for
    ``pod`` that is the exporter's pod) into the plain ones.
    """
    host, used = _node(labels, _OF_OBJECT if name.startswith("kube_") else _NODE)
    uuid = _first(labels, _UUID)
    if uuid is not None and _BARE_UUID.match(uuid):
        uuid = f"GPU-{uuid}"
    pci = canonical_pci(_first(labels, _PCI) or "")
    gpu = _index(labels)
    pod = _pod(labels)
    about_gpu = _GPU_METRIC.match(name) is not None and (uuid or pci or gpu is not None)
    if about_gpu:
        kept = [(key, labels[key]) for key in _KEPT if key in labels]
        model = _first(labels, _MODEL)
        if model:
            kept.append(("model", model))
        return SeriesEntity(host or node, gpu, uuid, pci, pod, labels.get("hpc_job"), None, tuple(sorted(kept)))
    rest = tuple(sorted((key, value) for key, value in labels.items() if key not in (used, "device", "__name__")))
    return SeriesEntity(host or node, gpu, uuid, pci, pod, labels.get("hpc_job"), labels.get("device"), rest)


def identity(entity: SeriesEntity) -> tuple[object, ...]:
    """What must be equal for two series to be about the same thing; pods come and go, the GPU stays."""
    if entity.device is None and (entity.uuid or entity.pci or entity.gpu is not None):
        who = entity.uuid or entity.pci or entity.gpu
        return entity.node, who, tuple(pair for pair in entity.labels if pair[0] != "model")
    return entity.node, entity.gpu, entity.device, entity.labels


def order(entity: SeriesEntity) -> tuple[str, int, str, str, str, tuple[tuple[str, str], ...]]:
    """Sort key: node, GPU index, UUID, then the rest."""
    gpu = 1 << 30 if entity.gpu is None else entity.gpu
    return entity.node or "", gpu, entity.uuid or "", entity.pci or "", entity.device or "", entity.labels


def _node(labels: Mapping[str, str], keys: tuple[str, ...]) -> tuple[str | None, str | None]:
    for key in keys:
        host = labels.get(key)
        if not host:
            continue
        if key.endswith("instance"):
            host = _without_port(host)
        # dcgm-exporter without NODE_NAME reports the name of its own pod
        if host.startswith("dcgm-exporter-") or host == labels.get("pod") != labels.get("exported_pod"):
            continue
        if is_host_name(host):
            return host, key
    return None, None


def _without_port(instance: str) -> str:
    host, colon, port = instance.rpartition(":")
    return host.strip("[]") if colon and port.isdigit() else instance


def _first(labels: Mapping[str, str], keys: tuple[str, ...]) -> str | None:
    for key in keys:
        value = labels.get(key)
        if value:
            return value
    return None


def _index(labels: Mapping[str, str]) -> int | None:
    text = labels.get("gpu") or labels.get("gpu_id") or labels.get("gpu_index") or ""
    if not text and labels.get("device", "").startswith("nvidia"):
        text = labels["device"].removeprefix("nvidia")
    return int(text) if text.isdecimal() and len(text) <= 4 else None


def _pod(labels: Mapping[str, str]) -> str | None:
    pod = labels.get("exported_pod") or labels.get("pod")
    return None if not pod or pod.startswith("dcgm-exporter") else pod
