"""Ranks are taken from a pod's specification only where it really says so."""

from __future__ import annotations

from typing import Any

import pytest
from detect.scheduler_case import pod

from aiops.ingest.kubernetes_ranks import RankClaim, rank_claim


def container(
    *command: str, env: list[dict[str, Any]] | None = None, labels: dict[str, str] | None = None, gpus: int = 8
) -> dict[str, Any]:
    body = pod("p", "j", command=list(command), gpus=gpus)
    body["spec"]["containers"][0]["env"] = env or []
    body["metadata"]["labels"] = labels or {}
    return body


def value(name: str, text: str) -> dict[str, Any]:
    return {"name": name, "value": text}


def field(name: str, path: str) -> dict[str, Any]:
    return {"name": name, "valueFrom": {"fieldRef": {"fieldPath": path}}}


KEY = "batch.kubernetes.io/job-completion-index"
INDEX = {KEY: "3"}
PET = [value("PET_NNODES", "4"), value("PET_NPROC_PER_NODE", "8")]
MASTER = {"training.kubeflow.org/replica-type": "master", "training.kubeflow.org/replica-index": "0"}
WORKER = {"training.kubeflow.org/replica-type": "worker", "training.kubeflow.org/replica-index": "1"}


@pytest.mark.parametrize(
    ("body", "ranks"),
    [
        (
            container(
                "torchrun", "--nnodes=4", "--nproc-per-node=8", "--node-rank=$(JOB_COMPLETION_INDEX)", labels=INDEX
            ),
            (24, 8, 32),
        ),
        (
            container(
                "bash",
                "-c",
                "torchrun --nnodes 4 --nproc_per_node 8 --node_rank $JOB_COMPLETION_INDEX t.py",
                labels=INDEX,
            ),
            (24, 8, 32),
        ),
        (
            container(
                "python",
                "-m",
                "torch.distributed.run",
                "--nproc-per-node=gpu",
                "--node-rank=${N}",
                env=[value("N", "2")],
                gpus=4,
            ),
            (8, 4, None),
        ),
        (
            container(
                "torchrun", "t.py", env=PET + [field("PET_NODE_RANK", f"metadata.annotations['{KEY}']")], labels=INDEX
            ),
            None,
        ),
        (
            container(
                "torchrun", "t.py", env=PET + [field("PET_NODE_RANK", f"metadata.labels['{KEY}']")], labels=INDEX
            ),
            (24, 8, 32),
        ),
        (container("torchrun", "--nproc-per-node=8", env=[value("RANK", "1"), value("WORLD_SIZE", "2")]), (8, 8, None)),
        (container("python", "t.py", env=[value("RANK", "5"), value("WORLD_SIZE", "16")]), (5, 1, 16)),
        (container("torchrun", "--nproc-per-node=8", "t.py"), (0, 8, None)),
        (container("torchrun", "--nnodes=2", "--nproc-per-node=8", labels=MASTER), (0, 8, 16)),
        (
            container(
                "torchrun", "--nnodes=3", "--nproc-per-node=8", labels=WORKER, env=[value("MASTER_ADDR", "a-master-0")]
            ),
            (16, 8, 24),
        ),
        (container("torchrun", "--nnodes=3", "--nproc-per-node=8", labels=WORKER), None),
        (container("torchrun", "--nnodes=4", "--nproc-per-node=8", "--rdzv-backend=c10d", labels=INDEX), None),
        (
            container(
                "torchrun", "--nnodes=2", "--nproc-per-node=8", "--node-rank=$(JOB_COMPLETION_INDEX)", labels=INDEX
            ),
            None,
        ),
        (container("torchrun", "--nnodes=4", "--node-rank=1"), None),
        (container("python", "serve.py"), None),
        (container("mpirun", "-np", "16", "t.py", labels=INDEX), None),
        (container("python", "t.py", env=[value("RANK", "99999999999")]), None),
    ],
)
def test_claim(body: dict[str, Any], ranks: tuple[int, int, int | None] | None) -> None:
    claim = rank_claim(body)
    assert (claim and (claim.first, claim.count, claim.world_size)) == ranks


def test_claim_says_what_it_rests_on() -> None:
    claim = rank_claim(container("torchrun", "--nnodes=4", "--nproc-per-node=8", "--node-rank=1"))
    assert claim == RankClaim(8, 8, 32, "--node-rank=1, --nproc-per-node=8")
