"""What happened to pods: pulled, set up, placed, killed, evicted, preempted, ended; one finding per gang and kind."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from aiops.detect.scheduler_cluster import Cluster, Pod, Seen
from aiops.detect.scheduler_evidence import Quotes, condition_text
from aiops.detect.scheduler_findings import Group, Groups, amount, listing
from aiops.detect.scheduler_messages import (
    evicted_for,
    image_name,
    pod_preemptor,
    pull_failure,
    setup_part,
    volume_name,
)
from aiops.ingest.kubernetes_fields import (
    condition_ns,
    conditions,
    integer,
    is_true,
    mapping,
    mappings,
    rfc3339_ns,
    text,
)
from aiops.model.event import NO_TIME, Severity
from aiops.model.finding import Finding, Role

_PULL_REASONS = frozenset(
    {
        "ErrImagePull",
        "ImagePullBackOff",
        "InvalidImageName",
        "ErrImageNeverPull",
        "RegistryUnavailable",
        "ImageInspectError",
    }
)
_SETUP_WAITING = frozenset(
    {
        "CreateContainerError",
        "CreateContainerConfigError",
        "RunContainerError",
        "PreStartHookError",
        "PostStartHookError",
    }
)
_SETUP_EVENTS = frozenset(
    {
        "FailedCreatePodSandBox",
        "FailedMount",
        "FailedAttachVolume",
        "FailedMapVolume",
        "NetworkNotReady",
        "FailedPrepareDynamicResources",
        "FailedCreatePodContainer",
    }
)
_ADMISSION = frozenset(
    {"UnexpectedAdmissionError", "TopologyAffinityError", "OutOfcpu", "OutOfmemory", "OutOfpods", "NodeAffinity"}
)
_LOST_GPU = re.compile(r"GPU is lost|GPU_IS_LOST|fallen off the bus")
_STARTED = ("Pulled", "Created", "Started")


@dataclass(frozen=True, slots=True)
class ContainerEnd:
    """The end of a container, of this run (``again`` is False) or of the one before."""

    container: str
    reason: str
    code: int | None
    signal: int | None
    finished: int
    again: bool


def container_ends(body: Mapping[str, Any]) -> Iterator[ContainerEnd]:
    """Ends told by ``state.terminated`` and ``lastState.terminated`` of all containers of a pod."""
    for key in ("initContainerStatuses", "containerStatuses"):
        for status in mappings(body, "status", key):
            for field, again in (("state", False), ("lastState", True)):
                end = mapping(status, field, "terminated")
                if end:
                    code = integer(end, "exitCode")
                    signal = integer(end, "signal") or (code - 128 if code is not None and 128 < code < 160 else None)
                    yield ContainerEnd(
                        text(status, "name"),
                        text(end, "reason"),
                        code,
                        signal,
                        rfc3339_ns(end.get("finishedAt")),
                        again,
                    )


def container_waits(body: Mapping[str, Any]) -> Iterator[tuple[str, str, str, str]]:
    """(container, image, reason, message) of containers that wait."""
    for key in ("initContainerStatuses", "containerStatuses"):
        for status in mappings(body, "status", key):
            wait = mapping(status, "state", "waiting")
            if reason := text(wait, "reason"):
                yield text(status, "name"), text(status, "image"), reason, text(wait, "message")


def detect_pods(cluster: Cluster, quotes: Quotes) -> list[Finding]:
    """``sched.image_pull``, ``sched.container_setup``, ``sched.oom_killed``, ``sched.container_exit``,
    ``sched.evicted``, ``sched.preempted``, ``sched.walltime`` (a pod's own deadline), ``sched.kill_failed``."""
    groups = Groups()
    for pod in cluster.pods.values():
        _waiting(pod, groups, quotes)
        _ended(pod, groups, quotes)
        _stopped(pod, groups, quotes)
        for seen in pod.events:
            _event(pod, seen, groups, quotes)
    return [
        *_pulls(groups),
        *_setups(groups),
        *_ooms(groups),
        *_exits(cluster, groups),
        *_evictions(groups),
        *_preemptions(cluster, groups),
        *_deadlines(groups),
        *_kills(groups),
    ]


def group_for(pod: Pod, groups: Groups, sign: str, *key: object, **fields: Any) -> Group:
    """The group of a sign for the pod's gang."""
    return groups.get(
        sign,
        pod.gang.id,
        *key,
        make=lambda: Group(
            sign, job=pod.gang.id, fields={"workload": f"{pod.gang.kind or 'workload'} {pod.gang.id}", **fields}
        ),
    )


def _waiting(pod: Pod, groups: Groups, quotes: Quotes) -> None:
    if pod.item is None:
        return
    for container, image, reason, message in container_waits(pod.body):
        said = f"container {container or '?'} waits: {reason} {message}".strip()
        if reason in _PULL_REASONS:
            group = group_for(pod, groups, "sched.image_pull")
            why = "not_found" if reason == "InvalidImageName" else pull_failure(message)
            _note_pull(group, why, image or None, pending=True)
        elif reason in _SETUP_WAITING:
            group = group_for(
                pod,
                groups,
                "sched.container_setup",
                setup_part(reason, message),
                what=setup_part(reason, message),
                reason=reason,
            )
            group.fields["pending"] = True
        elif reason == "CrashLoopBackOff":
            # The end itself stands in lastState, if the object tells it.
            if any(end.again for end in container_ends(pod.body)):
                continue
            group = group_for(
                pod, groups, "sched.container_exit", None, reason, exit_code=None, signal=None, reason=reason
            )
        else:
            continue
        group.note(quotes.object(pod.item, said, NO_TIME, message, reason), node=pod.node, pod=pod.name)


def _note_pull(group: Group, why: str, image: str | None, *, pending: bool) -> None:
    if image is not None and image not in group.fields.setdefault("images", []):
        group.fields["images"].append(image)
    order = ("denied", "not_found", "timeout", "other")
    old = group.fields.get("why", "other")
    group.fields["why"] = min(old, why, key=order.index)
    group.fields["pending"] = pending or group.fields.get("pending", False)


def _ended(pod: Pod, groups: Groups, quotes: Quotes) -> None:
    if pod.item is None:
        return
    for end in container_ends(pod.body):
        killed = end.reason == "OOMKilled"
        if not killed and (end.code == 0 or end.reason == "Completed"):
            continue
        if end.code is None and not killed and not end.reason:
            continue
        said = f"container {end.container or '?'} {'was OOMKilled' if killed else 'ended'}, exit code {end.code}"
        said += f", reason {end.reason}" if end.reason and not killed else ""
        ref = quotes.object(pod.item, said, end.finished, end.reason, "terminated")
        if killed:
            group = group_for(pod, groups, "sched.oom_killed", exit_code=end.code, container=end.container or None)
            if pod.claim is not None and pod.claim.count > 1:
                group.fields["pod_ranks"] = (pod.claim.first, pod.claim.first + pod.claim.count - 1)
            ranks = pod.ranks if pod.claim and pod.claim.count == 1 else range(0)
        else:
            group = group_for(
                pod,
                groups,
                "sched.container_exit",
                end.code,
                end.reason,
                exit_code=end.code,
                signal=end.signal,
                reason=end.reason or None,
            )
            ranks = range(0)
            if pod.claim is not None and pod.claim.count == 1:
                ranks = pod.ranks
            _keep_earliest(group, pod, end.finished)
        group.note(ref, ts=end.finished, node=pod.node, pod=pod.name, ranks=ranks)


def _keep_earliest(group: Group, pod: Pod, finished: int) -> None:
    """Which pod of the gang ended first; the first to fall is worth knowing, it need not be the cause."""
    if finished != NO_TIME and finished < group.fields.get("first_ended", 1 << 63):
        group.fields.update(first_ended=finished, first_pod=pod.name, first_node=pod.node)


def _stopped(pod: Pod, groups: Groups, quotes: Quotes) -> None:
    """Ends that the pod's own status names."""
    if pod.item is None:
        return
    status = mapping(pod.body, "status")
    reason, message = text(status, "reason"), text(status, "message")
    disrupted = conditions(pod.body).get("DisruptionTarget")
    by = text(disrupted, "reason") if is_true(disrupted) and disrupted is not None else ""
    ts = condition_ns(disrupted) if by and disrupted is not None else _failed_at(pod)
    if reason == "Evicted":
        resource, own = evicted_for(message)
        group = group_for(pod, groups, "sched.evicted", resource, resource=resource, own_limit=own, by="kubelet")
        group.note(
            quotes.object(pod.item, f"Evicted: {message}", ts, message, "Evicted"), ts=ts, node=pod.node, pod=pod.name
        )
    elif reason == "DeadlineExceeded":
        group = group_for(pod, groups, "sched.walltime", by="activeDeadlineSeconds")
        group.note(
            quotes.object(pod.item, f"DeadlineExceeded: {message}", ts, reason), ts=ts, node=pod.node, pod=pod.name
        )
    elif "imminent node shutdown" in message:
        group = group_for(pod, groups, "sched.evicted", "shutdown", resource=None, own_limit=False, by="node shutdown")
        group.note(
            quotes.object(pod.item, f"{reason}: {message}", ts, message, reason), ts=ts, node=pod.node, pod=pod.name
        )
    elif reason in _ADMISSION or reason.startswith("OutOf"):
        part = "lost device" if _LOST_GPU.search(message) else "device"
        group = group_for(pod, groups, "sched.container_setup", part, what=part, reason=reason)
        group.fields["pending"] = True
        group.note(
            quotes.object(pod.item, f"{reason}: {message}", ts, message, reason), ts=ts, node=pod.node, pod=pod.name
        )
    if disrupted is None or not by:
        return
    ref = quotes.object(pod.item, condition_text(disrupted), ts, text(disrupted, "message"), by)
    if by == "PreemptionByScheduler":
        group_for(pod, groups, "sched.preempted", by=pod_preemptor(text(disrupted, "message"))).note(
            ref, ts=ts, node=pod.node, pod=pod.name
        )
    elif by == "DeletionByTaintManager":
        # Which taint it was stands on the node: a lost node, or somebody who marked it.
        group = group_for(pod, groups, "sched.evicted", by, resource=None, own_limit=False, by="taint manager")
        group.role, group.severity = Role.ECHO, Severity.WARNING
        group.note(ref, ts=ts, node=pod.node, pod=pod.name)
    elif by == "EvictionByEvictionAPI":
        group_for(pod, groups, "sched.evicted", by, resource=None, own_limit=False, by="eviction API").note(
            ref, ts=ts, node=pod.node, pod=pod.name
        )


def _failed_at(pod: Pod) -> int:
    ready = conditions(pod.body).get("Ready")
    return condition_ns(ready) if ready is not None and pod.ended else NO_TIME


def _event(pod: Pod, seen: Seen, groups: Groups, quotes: Quotes) -> None:
    event = seen.event
    reason, message = event.reason, event.message
    group: Group | None = None
    if reason in ("Failed", "BackOff", "ErrImagePull", "InspectFailed") and _about_image(message):
        group = group_for(pod, groups, "sched.image_pull")
        _note_pull(group, pull_failure(message), image_name(message), pending=not _came_up(pod, seen))
    elif reason in _SETUP_EVENTS:
        part = setup_part(reason, message)
        group = group_for(pod, groups, "sched.container_setup", part, what=part, reason=reason)
        group.fields["pending"] = group.fields.get("pending", False) or not _came_up(pod, seen)
        if (volume := volume_name(message)) is not None:
            group.name = group.name or volume
    elif reason == "BackOff" and "restarting failed container" in message:
        if pod.item is None or not any(True for _ in container_ends(pod.body)):
            group = group_for(
                pod,
                groups,
                "sched.container_exit",
                None,
                "CrashLoopBackOff",
                exit_code=None,
                signal=None,
                reason="CrashLoopBackOff",
            )
    elif reason == "Evicted" and event.component in ("kubelet", ""):
        resource, own = evicted_for(message)
        group = group_for(pod, groups, "sched.evicted", resource, resource=resource, own_limit=own, by="kubelet")
    elif reason in ("Preempted", "Evict"):
        group = group_for(pod, groups, "sched.preempted")
        group.fields["by"] = group.fields.get("by") or pod_preemptor(message) or _evictor(seen)
    elif reason == "FailedKillPod":
        group = group_for(pod, groups, "sched.kill_failed")
    if group is not None:
        group.note(
            quotes.event(seen.item, event),
            ts=event.last,
            first=event.first,
            node=pod.node or event.node,
            pod=pod.name,
            count=event.count,
        )


def _about_image(message: str) -> bool:
    return any(
        word in message
        for word in (
            "pull image",
            "pulling image",
            "ErrImagePull",
            "ImagePullBackOff",
            "InvalidImageName",
            "ErrImageNeverPull",
            "inspect image",
        )
    )


def _came_up(pod: Pod, seen: Seen) -> bool:
    """The container started after the failure was seen."""
    if pod.happened(*_STARTED, since=seen.when):
        return True
    return pod.item is not None and (
        pod.ended
        or any(mapping(status, "state", "running") for status in mappings(pod.body, "status", "containerStatuses"))
    )


def _evictor(seen: Seen) -> str | None:
    notes = mapping(seen.item.body, "metadata", "annotations")
    name = text(notes, "evictor-pod-group-name")
    space = text(notes, "evictor-pod-group-namespace")
    return (f"{space}/{name}" if space else name) or None


def _settle(group: Group) -> None:
    """A failure that went away is background."""
    if not group.fields.pop("pending", False):
        group.role, group.severity = Role.CONTEXT, Severity.INFO


def _who(group: Group) -> str:
    return f"{amount(len(group.pods), 'pod')} of {group.job} ({listing(group.pods, 2)})"


def _pulls(groups: Groups) -> Iterator[Finding]:
    words = {
        "denied": "access denied",
        "not_found": "not found",
        "timeout": "registry not reachable",
        "other": "see message",
    }
    for group in groups.of("sched.image_pull"):
        _settle(group)
        images = group.fields.pop("images", None) or [None]
        group.name = group.fields["image"] = images[0]
        if len(images) > 1:
            group.fields["images"] = tuple(images)
        over = "could not pull" if group.role is Role.ROOT else "had trouble to pull"
        yield group.finding(f"{_who(group)} {over} image {group.name or '?'}: {words[group.fields['why']]}")


def _setups(groups: Groups) -> Iterator[Finding]:
    for group in groups.of("sched.container_setup"):
        _settle(group)
        late = "" if group.role is Role.ROOT else " at first"
        yield group.finding(
            f"{_who(group)} could not be set up{late}: {group.fields['what']} ({group.fields['reason']})"
        )


def _ooms(groups: Groups) -> Iterator[Finding]:
    for group in groups.of("sched.oom_killed"):
        yield group.finding(f"A container of {_who(group)} was killed for exceeding its memory limit")


def _exits(cluster: Cluster, groups: Groups) -> Iterator[Finding]:
    for group in groups.of("sched.container_exit"):
        group.role, group.severity = Role.CONTEXT, Severity.WARNING
        code, reason = group.fields["exit_code"], group.fields["reason"]
        how = f"exit code {code}" if code is not None else reason or "no exit code"
        yield group.finding(f"Containers of {_who(group)} ended with {how}")


def _evictions(groups: Groups) -> Iterator[Finding]:
    for group in groups.of("sched.evicted"):
        resource = group.fields["resource"]
        where = f" from {listing(group.nodes)}" if group.nodes else ""
        cause = "over its own limit of" if group.fields["own_limit"] else "node short of"
        why = f": {cause} {resource}" if resource else f" by the {group.fields['by']}"
        yield group.finding(f"{_who(group)} evicted{where}{why}")


def _preemptions(cluster: Cluster, groups: Groups) -> Iterator[Finding]:
    for group in groups.of("sched.preempted"):
        by = group.fields.setdefault("by", None)
        known = cluster.gang_of_uid(by) if by else None
        if known is not None:
            group.fields["by"] = known.id
        yield group.finding(f"{_who(group)} preempted" + (f" by {group.fields['by']}" if by else ""))


def _deadlines(groups: Groups) -> Iterator[Finding]:
    for group in groups.of("sched.walltime"):
        yield group.finding(f"{_who(group)} reached its active deadline")


def _kills(groups: Groups) -> Iterator[Finding]:
    for group in groups.of("sched.kill_failed"):
        group.role = Role.ECHO
        yield group.finding(f"The kubelet could not kill {_who(group)}")
