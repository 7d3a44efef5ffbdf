"""GPU nodes without the NVLink clique label that their peers have: feature discovery drops it when GPUs of a node disagree.

Source: k8s-device-plugin ``internal/lm/imex.go`` (the label is set only if all GPUs have one cluster UUID and one clique).
Machines whose NVLink does not leave the node have no such label at all, which is right.
"""

from __future__ import annotations

from collections.abc import Iterator

from aiops.detect.evidence import evidence_rows, quotes
from aiops.detect.scheduler_cluster import Cluster
from aiops.detect.scheduler_evidence import Quotes
from aiops.ingest.kubernetes_fields import mapping, text
from aiops.model.case import Case, KubernetesObject
from aiops.model.event import NO_TIME, Severity
from aiops.model.finding import Finding, Role

_CLIQUE = "nvidia.com/gpu.clique"
_PRODUCT = "nvidia.com/gpu.product"
_PEERS = 3
"""Nodes of the product with the label, at least, and"""
_FEW = 4
"""at least this many times as many as without it: a label that most lack is not in use."""


def detect_cliques(case: Case, cluster: Cluster, place: Quotes) -> Iterator[Finding]:
    """``sched.clique_missing`` for each node without the label; root if feature discovery says that its GPUs disagree."""
    split = evidence_rows(case, "nvl.clique_split")
    by_product: dict[str, tuple[list[KubernetesObject], list[KubernetesObject]]] = {}
    for item in cluster.objects.get("Node", ()):
        labels = mapping(item.body, "metadata", "labels")
        product = text(labels, _PRODUCT)
        if product:
            by_product.setdefault(product, ([], []))[0 if text(labels, _CLIQUE) else 1].append(item)
    for product, (having, lacking) in by_product.items():
        if len(having) < max(_PEERS, _FEW * len(lacking)):
            continue
        for item in lacking:
            said = f"no label {_CLIQUE}, which {len(having)} others of its kind have"
            told = split if len(lacking) == 1 or any(event.node == item.name for event in split) else []
            yield Finding(
                sign="sched.clique_missing",
                text=f"{item.name} has {said}"
                + ("; feature discovery found its GPUs in several cliques" if told else ""),
                role=Role.ROOT if told else Role.CONTEXT,
                severity=Severity.ERROR if told else Severity.WARNING,
                node=item.name,
                nodes=(item.name,),
                fields={"split": bool(told)},
                evidence=[
                    *quotes(case, told),
                    place.object(item, f"label {_PRODUCT} {product}, and none for the clique", NO_TIME, product),
                ],
            )
