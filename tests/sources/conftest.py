"""One control plane for all tests of Kubernetes, with the controllers that a test asks for."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from services.kubernetes.cluster import KubernetesCluster
from services.kubernetes.crds import install_crds
from services.kubernetes.job_controllers import start_jobset, start_kuberay, start_trainer
from services.kubernetes.kueue import start_kueue
from services.need import need_kubernetes
from sources.place import Place


@pytest.fixture(scope="session")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KubernetesCluster]:
    need_kubernetes()
    with KubernetesCluster(tmp_path_factory.mktemp("kubernetes")) as running:
        yield running


@pytest.fixture(scope="session")
def controllers(cluster: KubernetesCluster) -> None:
    """The controllers of JobSet, Kubeflow Trainer and KubeRay, and the schema of PyTorchJob."""
    install_crds(cluster, "jobset", "pytorchjob", "trainjob", "rayjob")
    start_jobset(cluster)
    start_trainer(cluster)
    start_kuberay(cluster)


@pytest.fixture(scope="session")
def kueue(cluster: KubernetesCluster, controllers: None) -> None:
    start_kueue(cluster, frameworks=("jobset", "pytorchjob", "trainjob", "rayjob"), ready_within="15s")


@pytest.fixture
def place(cluster: KubernetesCluster, tmp_path: Path, request: pytest.FixtureRequest) -> Place:
    name = re.sub(r"[^a-z]+", "-", request.node.name.removeprefix("test_")).strip("-")
    cluster.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
    account = f"/api/v1/namespaces/{name}/serviceaccounts/default"
    cluster.wait(f"service account of {name}", lambda: cluster.api("GET", account))
    return Place(cluster, name, tmp_path)
