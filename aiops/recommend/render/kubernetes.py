"""Kubernetes commands. Sources: SCHEDULERS.md §2 (verbs 1 to 5, 19 to 31) and the kubectl reference."""

from __future__ import annotations

from aiops.recommend.render import names
from aiops.recommend.target import Target

_SUSPEND = {
    "Job": '{"spec":{"suspend":%s}}',
    "JobSet": '{"spec":{"suspend":%s}}',
    "RayJob": '{"spec":{"suspend":%s}}',
    "TrainJob": '{"spec":{"suspend":%s}}',
    "PyTorchJob": '{"spec":{"runPolicy":{"suspend":%s}}}',
    "MPIJob": '{"spec":{"runPolicy":{"suspend":%s}}}',
}
_RESOURCE = {
    "Job": "job",
    "JobSet": "jobset",
    "RayJob": "rayjob",
    "TrainJob": "trainjob",
    "PyTorchJob": "pytorchjob",
    "MPIJob": "mpijob",
    "Workload": "workload",
}


def commands(action: str, target: Target) -> tuple[list[str], list[str]]:
    """(commands, undo) for an action; both empty if there is no command for it or a name is missing."""
    node = names.kube_name(names.host(target.node))
    if node and action == "cordon_node":
        return [f"kubectl cordon {node}"], [f"kubectl uncordon {node}"]
    if node and action == "drain_node":
        return (
            [f"kubectl drain {node} --ignore-daemonsets --delete-emptydir-data --timeout=10m"],
            [f"kubectl uncordon {node}"],
        )
    if node and action == "reboot_node":
        return [
            f"kubectl debug node/{node} -it --image=busybox -- chroot /host systemctl reboot    # after the drain"
        ], []
    if node and action == "reset_gpu" and names.pci(target.pci):
        return [f"nvidia-smi --gpu-reset -i {names.pci(target.pci)}    # on {node}, when no pod uses the GPU"], []
    if action in ("requeue", "requeue_excluding_node", "hold_job"):
        return _restart(action, target)
    return [], []


def _restart(action: str, target: Target) -> tuple[list[str], list[str]]:
    kind, name = names.kube_kind(target.kind), names.kube_name(target.name or target.job)
    space = names.kube_name(target.namespace) or "default"
    if not kind or not name:
        return [], []
    resource = _RESOURCE.get(kind)
    if resource is None:
        return [], []
    if kind == "Workload":
        stop = f'kubectl -n {space} patch workload {name} --type merge -p \'{{"spec":{{"active":false}}}}\''
        start = f'kubectl -n {space} patch workload {name} --type merge -p \'{{"spec":{{"active":true}}}}\''
    else:
        stop = f"kubectl -n {space} patch {resource} {name} --type merge -p '{_SUSPEND[kind] % 'true'}'"
        start = f"kubectl -n {space} patch {resource} {name} --type merge -p '{_SUSPEND[kind] % 'false'}'"
    if target.failed_object and kind != "Workload":
        if action == "hold_job":
            return [], []
        return [
            f"kubectl -n {space} delete {resource} {name}    # it has failed for good: apply its manifest again afterwards"
        ], []
    if action == "hold_job":
        return [stop], [start]
    excluded = [n for n in (names.kube_name(names.host(node)) for node in target.exclude) if n]
    if action == "requeue_excluding_node" and excluded:
        return (
            [stop, *(f"kubectl cordon {node}" for node in excluded), start],
            [f"kubectl uncordon {node}" for node in excluded],
        )
    return [stop, start], []
