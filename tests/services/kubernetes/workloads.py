"""Objects that tests put into a cluster: GPU nodes of a pool of their own, Jobs, and Kueue's queues."""

from __future__ import annotations

from typing import Any

GPU = "nvidia.com/gpu"
KUEUE = "kueue.x-k8s.io/v1beta2"


def node(name: str, pool: str, gpus: int = 8, taints: list[dict[str, str]] | None = None) -> dict[str, Any]:
    """A node that kwok brings to Ready. Only pods that select ``pool`` should meet it."""
    resources = {"cpu": "192", "memory": "2048Gi", "pods": "110", GPU: str(gpus)}
    labels = {
        "type": "kwok",
        "pool": pool,
        "kubernetes.io/hostname": name,
        "kubernetes.io/os": "linux",
        "nvidia.com/gpu.product": "NVIDIA-H200",
    }
    info = {
        "architecture": "amd64",
        "operatingSystem": "linux",
        "kernelVersion": "6.8.0-60-generic",
        "osImage": "Ubuntu 24.04 LTS",
        "containerRuntimeVersion": "containerd://2.0.5",
        "kubeletVersion": "v1.36.3",
        "kubeProxyVersion": "",
        "machineID": name,
        "systemUUID": name,
        "bootID": name,
    }
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": labels},
        "spec": {"taints": taints or []},
        "status": {"capacity": resources, "allocatable": resources, "nodeInfo": info},
    }


def template(
    pool: str,
    gpus: int,
    *,
    annotations: dict[str, str] | None = None,
    selector: dict[str, str] | None = None,
    priority_class: str = "",
    image: str = "registry.example/train:26.11",
) -> dict[str, Any]:
    """A pod template that runs torchrun on nodes of the pool."""
    command = ["torchrun", f"--nproc-per-node={gpus or 1}", "--node-rank=$(JOB_COMPLETION_INDEX)", "train.py"]
    container = {"name": "main", "image": image, "command": command}
    if gpus:
        container["resources"] = {"limits": {GPU: str(gpus)}}
    spec: dict[str, Any] = {
        "restartPolicy": "Never",
        "terminationGracePeriodSeconds": 1,
        "nodeSelector": {"pool": pool, **(selector or {})},
        "containers": [container],
    }
    if priority_class:
        spec["priorityClassName"] = priority_class
    return {"metadata": {"annotations": annotations or {}}, "spec": spec}


def job(
    name: str,
    namespace: str,
    pods: int,
    pod: dict[str, Any],
    *,
    queue: str = "",
    priority: str = "",
    backoff: int = 0,
) -> dict[str, Any]:
    """An Indexed Job; with ``queue`` Kueue decides when it starts."""
    labels = _queued(queue)
    if priority:
        labels["kueue.x-k8s.io/priority-class"] = priority
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name, "namespace": namespace, "labels": labels},
        "spec": {
            "parallelism": pods,
            "completions": pods,
            "completionMode": "Indexed",
            "backoffLimit": backoff,
            "suspend": bool(queue),
            "template": pod,
        },
    }


def pytorch_job(name: str, namespace: str, workers: int, pod: dict[str, Any], queue: str) -> dict[str, Any]:
    """A PyTorchJob that Kueue keeps suspended (no operator of it runs here)."""
    containers = [{**container, "name": "pytorch"} for container in pod["spec"]["containers"]]
    spec = {**pod, "spec": {**pod["spec"], "containers": containers}}
    spec["spec"].pop("restartPolicy")
    return {
        "apiVersion": "kubeflow.org/v1",
        "kind": "PyTorchJob",
        "metadata": {"name": name, "namespace": namespace, "labels": _queued(queue)},
        "spec": {
            "runPolicy": {"suspend": True},
            "pytorchReplicaSpecs": {
                "Master": {"replicas": 1, "restartPolicy": "OnFailure", "template": spec},
                "Worker": {"replicas": workers - 1, "restartPolicy": "OnFailure", "template": spec},
            },
        },
    }


def cluster_queue(name: str, gpus: int, **spec: Any) -> dict[str, Any]:
    """A ClusterQueue with one quota, of flavor ``h200``."""
    quota = {"name": GPU, "nominalQuota": str(gpus)}
    group = {"coveredResources": [GPU], "flavors": [{"name": "h200", "resources": [quota]}]}
    return {
        "apiVersion": KUEUE,
        "kind": "ClusterQueue",
        "metadata": {"name": name},
        "spec": {"namespaceSelector": {}, "resourceGroups": [group], **spec},
    }


def local_queue(name: str, namespace: str, target: str) -> dict[str, Any]:
    return {
        "apiVersion": KUEUE,
        "kind": "LocalQueue",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"clusterQueue": target},
    }


def job_set(
    name: str, namespace: str, pods: int, pod: dict[str, Any], *, queue: str = "", restarts: int = 0
) -> dict[str, Any]:
    """A JobSet with one replicated job ``workers``."""
    spec = {
        "parallelism": pods,
        "completions": pods,
        "completionMode": "Indexed",
        "backoffLimit": 0,
        "template": pod,
    }
    return {
        "apiVersion": "jobset.x-k8s.io/v1alpha2",
        "kind": "JobSet",
        "metadata": {"name": name, "namespace": namespace, "labels": _queued(queue)},
        "spec": {
            "suspend": bool(queue),
            "failurePolicy": {"maxRestarts": restarts},
            "replicatedJobs": [{"name": "workers", "replicas": 1, "template": {"spec": spec}}],
        },
    }


def training_runtime(name: str, namespace: str, pod: dict[str, Any]) -> dict[str, Any]:
    """A TrainingRuntime for torchrun whose nodes are pods of this template."""
    pod = {**pod, "spec": {**pod["spec"], "containers": [{**pod["spec"]["containers"][0], "name": "node"}]}}
    step = {"labels": {"trainer.kubeflow.org/trainjob-ancestor-step": "trainer"}}
    return {
        "apiVersion": "trainer.kubeflow.org/v1alpha1",
        "kind": "TrainingRuntime",
        "metadata": {"name": name, "namespace": namespace, "labels": {"trainer.kubeflow.org/framework": "torch"}},
        "spec": {
            "mlPolicy": {"numNodes": 1, "torch": {}},
            "template": {
                "spec": {
                    "replicatedJobs": [
                        {"name": "node", "template": {"metadata": step, "spec": {"backoffLimit": 0, "template": pod}}}
                    ]
                }
            },
        },
    }


def train_job(name: str, namespace: str, nodes: int, runtime: str, *, queue: str = "") -> dict[str, Any]:
    """A TrainJob of Kubeflow Trainer v2 on a TrainingRuntime of its namespace."""
    return {
        "apiVersion": "trainer.kubeflow.org/v1alpha1",
        "kind": "TrainJob",
        "metadata": {"name": name, "namespace": namespace, "labels": _queued(queue)},
        "spec": {
            "suspend": bool(queue),
            "runtimeRef": {"apiGroup": "trainer.kubeflow.org", "kind": "TrainingRuntime", "name": runtime},
            "trainer": {"numNodes": nodes, "numProcPerNode": 8},
        },
    }


def ray_job(name: str, namespace: str, workers: int, pod: dict[str, Any], *, queue: str = "") -> dict[str, Any]:
    """A RayJob whose head needs no GPU; the operator submits it itself, without a pod."""
    place = {"nodeSelector": pod["spec"]["nodeSelector"]}
    head = {"metadata": {}, "spec": {**place, "containers": [_ray(pod, "ray-head", gpus=False)]}}
    worker = {"metadata": pod["metadata"], "spec": {**place, "containers": [_ray(pod, "ray-worker", gpus=True)]}}
    return {
        "apiVersion": "ray.io/v1",
        "kind": "RayJob",
        "metadata": {"name": name, "namespace": namespace, "labels": _queued(queue)},
        "spec": {
            "suspend": bool(queue),
            "shutdownAfterJobFinishes": True,
            "entrypoint": "python train.py",
            "submissionMode": "HTTPMode",
            "rayClusterSpec": {
                "rayVersion": "2.50.0",
                "headGroupSpec": {"rayStartParams": {}, "template": head},
                "workerGroupSpecs": [
                    {
                        "groupName": "gpu",
                        "replicas": workers,
                        "minReplicas": workers,
                        "maxReplicas": workers,
                        "rayStartParams": {},
                        "template": worker,
                    }
                ],
            },
        },
    }


def _ray(pod: dict[str, Any], name: str, *, gpus: bool) -> dict[str, Any]:
    container = {**pod["spec"]["containers"][0], "name": name}
    container.pop("command", None)
    if not gpus:
        container.pop("resources", None)
    return container


def _queued(queue: str) -> dict[str, str]:
    return {"kueue.x-k8s.io/queue-name": queue} if queue else {}


def native_gang(name: str, namespace: str, pods: int, pod: dict[str, Any]) -> list[dict[str, Any]]:
    """A Job whose pods kube-scheduler itself places all or none (alpha in 1.36), with its Workload and PodGroup."""
    group, api = f"{name}-workers", "scheduling.k8s.io/v1alpha2"
    policy = {"gang": {"minCount": pods}}
    meta = {"namespace": namespace}
    owner = {"apiGroup": "batch", "kind": "Job", "name": name}
    template_of = {"workload": {"workloadName": name, "podGroupTemplateName": "workers"}}
    templates = [{"name": "workers", "schedulingPolicy": policy}]
    return [
        {
            "apiVersion": api,
            "kind": "Workload",
            "metadata": {**meta, "name": name},
            "spec": {"controllerRef": owner, "podGroupTemplates": templates},
        },
        {
            "apiVersion": api,
            "kind": "PodGroup",
            "metadata": {**meta, "name": group},
            "spec": {"podGroupTemplateRef": template_of, "schedulingPolicy": policy},
        },
        job(name, namespace, pods, {**pod, "spec": {**pod["spec"], "schedulingGroup": {"podGroupName": group}}}),
    ]
