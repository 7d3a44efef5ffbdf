"""The controllers of JobSet, Kubeflow Trainer and KubeRay as local processes; their CRDs must be installed before."""

from __future__ import annotations

import base64
import json
import shutil
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

import yaml
from services.kubernetes.cluster import KubernetesCluster, free_ports
from services.kubernetes.programs import build, source_of


def start_jobset(cluster: KubernetesCluster) -> None:
    """JobSet's controller with its webhooks."""
    hooks, health = free_ports(2)
    config = {
        "apiVersion": "config.jobset.x-k8s.io/v1alpha1",
        "kind": "Configuration",
        "leaderElection": {"leaderElect": False},
        "internalCertManagement": {"enable": False},
        "metrics": {"bindAddress": "0"},
        "health": {"healthProbeBindAddress": f"127.0.0.1:{health}"},
        "webhook": {"host": "127.0.0.1", "port": hooks, "certDir": str(_certificates(cluster, "jobset"))},
    }
    _run(cluster, "jobset", build("kube-jobs") / "jobset", [f"--config={_written(cluster, 'jobset', config)}"], health)
    manifests = cluster.kubectl("kustomize", str(source_of("sigs.k8s.io/jobset") / "config" / "default"))
    _admit(cluster, manifests, hooks)


def start_trainer(cluster: KubernetesCluster) -> None:
    """Kubeflow Trainer v2 with its webhooks; it makes JobSets of TrainJobs."""
    hooks, health = free_ports(2)
    config = {
        "apiVersion": "config.trainer.kubeflow.org/v1alpha1",
        "kind": "Configuration",
        "leaderElection": {"leaderElect": False},
        "certManagement": {"enable": False},
        "metrics": {"bindAddress": "0"},
        "health": {"healthProbeBindAddress": f"127.0.0.1:{health}"},
        "webhook": {"host": "127.0.0.1", "port": hooks},
    }
    _certificates(cluster, "trainer")
    program = build("kube-kueue") / "trainer"
    _run(cluster, "trainer", program, [f"--config={_written(cluster, 'trainer', config)}"], health)
    folder = source_of("github.com/kubeflow/trainer/v2") / "manifests" / "base" / "webhook"
    _admit(cluster, cluster.kubectl("kustomize", str(folder)), hooks)


def start_kuberay(cluster: KubernetesCluster) -> None:
    """KubeRay's operator, which has no webhooks by default."""
    (health,) = free_ports(1)
    flags = ["--metrics-addr=0", f"--health-probe-bind-address=127.0.0.1:{health}", "--enable-leader-election=false"]
    _run(cluster, "kuberay", build("kube-jobs") / "kuberay", flags, health)


def _certificates(cluster: KubernetesCluster, name: str) -> Path:
    """The cluster's own certificate where a webhook server looks for one by default, below the TMPDIR of the process."""
    folder = cluster.folder / name / "k8s-webhook-server" / "serving-certs"
    folder.mkdir(parents=True)
    for source, target in (("server.crt", "tls.crt"), ("server.key", "tls.key")):
        shutil.copy(cluster.folder / "pki" / source, folder / target)
    return folder


def _written(cluster: KubernetesCluster, name: str, config: dict[str, Any]) -> Path:
    path = cluster.folder / name / "config.json"
    path.write_text(json.dumps(config))
    return path


def _run(cluster: KubernetesCluster, name: str, program: Path, flags: list[str], health: int) -> None:
    folder = cluster.folder / name
    folder.mkdir(exist_ok=True)
    cluster.run(name, [str(program), *flags], {"KUBECONFIG": str(cluster.kubeconfig), "TMPDIR": str(folder)})

    def ready() -> bool:
        if not cluster.alive(name):
            raise SystemExit(f"{name} ended: {cluster.log(name)}")
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{health}/readyz", timeout=2) as answer:
                return bool(answer.status == 200)
        except urllib.error.URLError:
            return False

    cluster.wait(name, ready, 120)


def _admit(cluster: KubernetesCluster, manifests: str, port: int) -> None:
    """Register the webhooks of some manifests under a port of loopback instead of a service."""
    bundle = base64.b64encode((cluster.folder / "pki" / "ca.crt").read_bytes()).decode()
    hooks = [
        document
        for document in yaml.safe_load_all(manifests)
        if document["kind"] in ("MutatingWebhookConfiguration", "ValidatingWebhookConfiguration")
    ]
    for webhook in (webhook for document in hooks for webhook in document["webhooks"]):
        path = webhook["clientConfig"]["service"]["path"]
        webhook["clientConfig"] = {"url": f"https://127.0.0.1:{port}{path}", "caBundle": bundle}
    cluster.apply(*hooks)
