"""Slurm commands. Sources: SCHEDULERS.md §2 (verbs 11 to 17) and the man pages of scontrol and scancel."""

from __future__ import annotations

from aiops.recommend.render import names
from aiops.recommend.target import Target


def commands(action: str, target: Target) -> tuple[list[str], list[str]]:
    """(commands, undo) for an action; both empty if Slurm has no command for it or a name is missing."""
    node, job = names.host(target.node), names.slurm_job(target.job)
    reason = f"aiops:{target.incident}:{target.code}"
    if node and action in ("drain_node", "cordon_node"):
        return (
            [f'scontrol update NodeName={node} State=DRAIN Reason="{reason}"'],
            [f"scontrol update NodeName={node} State=RESUME"],
        )
    if node and action == "reboot_node":
        return [f'scontrol reboot ASAP nextstate=RESUME reason="{reason}" {node}'], [f"scontrol cancel_reboot {node}"]
    if node and action == "reset_gpu" and names.pci(target.pci):
        return [f"nvidia-smi --gpu-reset -i {names.pci(target.pci)}    # on {node}, when it is drained and empty"], []
    if job and action == "requeue":
        return [f"scontrol requeue {job}"], [f"scontrol hold {job}"]
    if job and action == "requeue_excluding_node":
        excluded = [n for n in (names.host(name) for name in target.exclude) if n]
        if excluded:
            return (
                [
                    f"scontrol requeuehold {job}",
                    f"scontrol update JobId={job} ExcNodeList={','.join(excluded)}",
                    f"scontrol release {job}",
                ],
                [f"scontrol update JobId={job} ExcNodeList="],
            )
    if job and action == "hold_job":
        return [f"scontrol requeuehold {job}"], [f"scontrol release {job}"]
    if job and action == "adjust_quota":
        return [f"scontrol show job {job}", "sacctmgr show assoc tree format=account,user,grptres,maxtres"], []
    return [], []
