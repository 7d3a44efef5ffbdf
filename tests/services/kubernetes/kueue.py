"""Kueue's own manager as a local process, with its CRDs, its webhooks, and CRDs of the job kinds that it queues."""

from __future__ import annotations

import base64
import json
import urllib.error
import urllib.request
from typing import Any

from services.kubernetes.cluster import KubernetesCluster, free_ports
from services.kubernetes.programs import build, source_of

CRDS = {
    "jobset": ("sigs.k8s.io/jobset", "config/components/crd/bases"),
    "pytorchjob": ("github.com/kubeflow/training-operator", "manifests/base/crds/kubeflow.org_pytorchjobs.yaml"),
    "trainjob": ("github.com/kubeflow/trainer/v2", "manifests/base/crds"),
    "rayjob": ("github.com/ray-project/kuberay/ray-operator", "config/crd/bases/ray.io_rayjobs.yaml"),
}
"""Name -> (Go module, file or folder with the definitions)."""
_FRAMEWORKS = {"jobset": "jobset.x-k8s.io/jobset", "pytorchjob": "kubeflow.org/pytorchjob"}
_EXTENSIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
_ADMISSION = "/apis/admissionregistration.k8s.io/v1"


def install_crds(cluster: KubernetesCluster, *names: str) -> None:
    """Install the real schemas of job kinds, from the modules that are pinned."""
    files = []
    for name in names:
        module, where = CRDS[name]
        path = source_of(module) / where
        files += (
            [path] if path.is_file() else [f for f in sorted(path.glob("*.yaml")) if f.name != "kustomization.yaml"]
        )
    cluster.kubectl("apply", "--server-side", *(part for file in files for part in ("-f", str(file))))
    cluster.wait("CRDs", lambda: all(map(_established, cluster.api("GET", _EXTENSIONS)["items"])))


def start_kueue(cluster: KubernetesCluster, *, frameworks: tuple[str, ...] = (), ready_within: str = "") -> None:
    """Start Kueue; ``frameworks`` are names of `CRDS` that it shall queue besides Jobs.

    ``ready_within`` (a duration, as ``4s``) turns waitForPodsReady on, with short back-offs.
    """
    program = build("kube-kueue") / "kueue"
    hooks, health = free_ports(2)
    certificates = cluster.folder / "kueue"
    certificates.mkdir()
    _install(cluster, hooks)
    config: dict[str, Any] = {
        "apiVersion": "config.kueue.x-k8s.io/v1beta2",
        "kind": "Configuration",
        "namespace": "kueue-system",
        "health": {"healthProbeBindAddress": f"127.0.0.1:{health}"},
        "metrics": {"bindAddress": "0"},
        "leaderElection": {"leaderElect": False},
        "webhook": {"host": "127.0.0.1", "port": hooks, "certDir": str(certificates)},
        "clientConnection": {"qps": 200, "burst": 400},
        "featureGates": {"VisibilityOnDemand": False},
        "integrations": {"frameworks": ["batch/job", *(_FRAMEWORKS[name] for name in frameworks)]},
    }
    if ready_within:
        config["waitForPodsReady"] = {
            "timeout": ready_within,
            "blockAdmission": False,
            "requeuingStrategy": {"timestamp": "Eviction", "backoffBaseSeconds": 1, "backoffMaxSeconds": 2},
        }
    (certificates / "config.json").write_text(json.dumps(config))
    cluster.run(
        "kueue",
        [str(program), f"--config={certificates / 'config.json'}", "--zap-log-level=2"],
        {"KUBECONFIG": str(cluster.folder / "kueue.kubeconfig")},
    )

    def ready() -> bool:
        if not cluster.alive("kueue"):
            raise SystemExit(f"kueue ended: {cluster.log('kueue')}")
        secret = cluster.api("GET", "/api/v1/namespaces/kueue-system/secrets/kueue-webhook-server-cert")
        for name, value in (secret.get("data") or {}).items():
            # what a kubelet would do: the secret's content as files
            (certificates / name).write_bytes(base64.b64decode(value))
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{health}/readyz", timeout=2) as answer:
                return bool(answer.status == 200)
        except urllib.error.URLError:
            return False

    cluster.wait("kueue", ready, 120)
    flavor = {"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "ResourceFlavor", "metadata": {"name": "h200"}}
    cluster.wait("kueue's webhooks", lambda: cluster.apply(flavor) is None, 60)


def _install(cluster: KubernetesCluster, hooks: int) -> None:
    """Kueue's own manifests, without what would run in the cluster; its webhooks are reached on loopback."""
    space = "/api/v1/namespaces"
    cluster.api("POST", space, {"metadata": {"name": "kueue-system"}})
    service = {"type": "ExternalName", "externalName": "localhost", "ports": [{"port": hooks}]}
    cluster.api(
        "POST", f"{space}/kueue-system/services", {"metadata": {"name": "kueue-webhook-service"}, "spec": service}
    )
    source = source_of("sigs.k8s.io/kueue")
    parts = cluster.kubectl("kustomize", str(source / "config" / "default")).split("\n---\n")
    kept = [part for part in parts if _kind(part) not in ("Deployment", "Service", "APIService", "Namespace")]
    cluster.kubectl("apply", "--server-side", "--force-conflicts", "-f", "-", stdin="\n---\n".join(kept))
    patch = "application/json-patch+json"
    for item in cluster.api("GET", _EXTENSIONS)["items"]:
        webhook = (item["spec"].get("conversion") or {}).get("webhook") or {}
        if webhook.get("clientConfig", {}).get("service", {}).get("namespace") == "kueue-system":
            path = "/spec/conversion/webhook/clientConfig/service/port"
            change = [{"op": "add", "path": path, "value": hooks}]
            cluster.api("PATCH", f"{_EXTENSIONS}/{item['metadata']['name']}", change, patch)
    for word in ("mutating", "validating"):
        path = f"{_ADMISSION}/{word}webhookconfigurations/kueue-{word}-webhook-configuration"
        count = len(cluster.api("GET", path)["webhooks"])
        change = [
            {"op": "add", "path": f"/webhooks/{i}/clientConfig/service/port", "value": hooks} for i in range(count)
        ]
        cluster.api("PATCH", path, change, patch)


def _kind(document: str) -> str:
    return next((line.split()[1] for line in document.splitlines() if line.startswith("kind:")), "")


def _established(item: dict[str, Any]) -> bool:
    known = (item.get("status") or {}).get("conditions") or []
    return any(c["type"] == "Established" and c["status"] == "True" for c in known)
