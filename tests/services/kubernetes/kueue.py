"""Kueue's own manager as a local process, with its CRDs and its webhooks."""

from __future__ import annotations

import base64
import json
import urllib.error
import urllib.request
from typing import Any

from services.kubernetes.cluster import KubernetesCluster, free_ports
from services.kubernetes.crds import EXTENSIONS
from services.kubernetes.programs import build, source_of

_FRAMEWORKS = {
    "jobset": "jobset.x-k8s.io/jobset",
    "pytorchjob": "kubeflow.org/pytorchjob",
    "trainjob": "trainer.kubeflow.org/trainjob",
    "rayjob": "ray.io/rayjob",
}
_ADMISSION = "/apis/admissionregistration.k8s.io/v1"


def start_kueue(cluster: KubernetesCluster, *, frameworks: tuple[str, ...] = (), ready_within: str = "") -> None:
    """Start Kueue; ``frameworks`` are names of `crds.CRDS` that it shall queue besides Jobs.

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
    for item in cluster.api("GET", EXTENSIONS)["items"]:
        webhook = (item["spec"].get("conversion") or {}).get("webhook") or {}
        if webhook.get("clientConfig", {}).get("service", {}).get("namespace") == "kueue-system":
            path = "/spec/conversion/webhook/clientConfig/service/port"
            change = [{"op": "add", "path": path, "value": hooks}]
            cluster.api("PATCH", f"{EXTENSIONS}/{item['metadata']['name']}", change, patch)
    for word in ("mutating", "validating"):
        path = f"{_ADMISSION}/{word}webhookconfigurations/kueue-{word}-webhook-configuration"
        count = len(cluster.api("GET", path)["webhooks"])
        change = [
            {"op": "add", "path": f"/webhooks/{i}/clientConfig/service/port", "value": hooks} for i in range(count)
        ]
        cluster.api("PATCH", path, change, patch)


def _kind(document: str) -> str:
    return next((line.split()[1] for line in document.splitlines() if line.startswith("kind:")), "")
