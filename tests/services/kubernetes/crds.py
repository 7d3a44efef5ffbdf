"""The real schemas of job kinds, from the Go modules that are pinned."""

from __future__ import annotations

from typing import Any

from services.kubernetes.cluster import KubernetesCluster
from services.kubernetes.programs import source_of

CRDS = {
    "jobset": ("sigs.k8s.io/jobset", "config/components/crd/bases"),
    "pytorchjob": ("github.com/kubeflow/training-operator", "manifests/base/crds/kubeflow.org_pytorchjobs.yaml"),
    "trainjob": ("github.com/kubeflow/trainer/v2", "manifests/base/crds"),
    "rayjob": ("github.com/ray-project/kuberay/ray-operator", "config/crd/bases"),
}
"""Name -> (Go module, file or folder with the definitions)."""
EXTENSIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"


def install_crds(cluster: KubernetesCluster, *names: str) -> None:
    """Install the definitions of some job kinds and wait until they can be used."""
    files = []
    for name in names:
        module, where = CRDS[name]
        path = source_of(module) / where
        files += (
            [path] if path.is_file() else [f for f in sorted(path.glob("*.yaml")) if f.name != "kustomization.yaml"]
        )
    cluster.kubectl("apply", "--server-side", *(part for file in files for part in ("-f", str(file))))
    cluster.wait("CRDs", lambda: all(map(_established, cluster.api("GET", EXTENSIONS)["items"])))


def _established(item: dict[str, Any]) -> bool:
    known = (item.get("status") or {}).get("conditions") or []
    return any(c["type"] == "Established" and c["status"] == "True" for c in known)
