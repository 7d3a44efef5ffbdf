"""The cluster's own programs: controllers that do not run, webhooks that do not answer, and requests that admission denies."""

from __future__ import annotations

import re
from collections.abc import Iterator

from aiops.detect.scheduler_cluster import Cluster, Pod
from aiops.detect.scheduler_evidence import Quotes
from aiops.detect.scheduler_findings import Group, Groups, listing
from aiops.detect.scheduler_pods import container_ends, container_waits
from aiops.ingest.kubernetes_fields import conditions, is_true
from aiops.model.event import NO_TIME, Severity
from aiops.model.finding import Finding, Role

_CORE = re.compile(r"(etcd|kube-apiserver|kube-controller-manager|kube-scheduler)(?:-[\w.-]+)?")
_CONTROLLERS = re.compile(
    r"(kueue-controller-manager|jobset-controller-manager|kubeflow-trainer-controller-manager|training-operator"
    r"|mpi-operator|volcano-(?:scheduler|controllers|admission)|kai-scheduler(?:-default)?|binder|podgrouper"
    r"|kuberay-operator|lws-controller-manager|slurm-bridge-\w+)-[a-z0-9]+(?:-[a-z0-9]{5})?"
)
_WEBHOOK = re.compile(r'failed calling webhook \\?"([^"\\\s]{1,120})\\?"')
_DENIED = re.compile(
    r'admission webhook \\?"(?P<hook>[^"\\\s]{1,120})\\?" denied the request|is forbidden: (?!exceeded quota)'
    r"|(?:Pod|Job)\.[\w.\"/]* is invalid: | is invalid: |no PriorityClass with name|serviceaccount \\?\"[^\"]{1,120}\" not found"
)
_MADE = frozenset({"SuccessfulCreate", "Created", "CreatedWorkload", "Started"})
_REFUSED = frozenset(
    {"FailedCreate", "FailedToCreatePod", "FailedCreatePod", "JobCreationFailed", "ErrWorkloadCompose"}
)


def detect_control_plane(cluster: Cluster, quotes: Quotes) -> list[Finding]:
    """``sched.control_plane`` (``name`` the program; field ``core``), ``sched.webhook_failed`` and ``sched.admission_denied``
    (both about the job that could not be made)."""
    return [*_programs(cluster, quotes), *_refusals(cluster, quotes)]


def _programs(cluster: Cluster, quotes: Quotes) -> Iterator[Finding]:
    lost = {item.name for item in cluster.objects.get("Node", ()) if not is_true(conditions(item.body).get("Ready"))}
    for pod in cluster.pods.values():
        core = _CORE.fullmatch(pod.name) if pod.namespace == "kube-system" else None
        match = core or _CONTROLLERS.fullmatch(pod.name)
        # A controller on a node that was lost is a consequence, and another replica may lead.
        if match is None or pod.item is None or pod.node in lost or not _crashes(pod):
            continue
        if any(_replica(other, match[1]) and other is not pod and _ready(other) for other in cluster.pods.values()):
            continue
        group = Group("sched.control_plane", name=match[1], fields={"core": core is not None, "pod": pod.id})
        for container, _, reason, message in container_waits(pod.body):
            said = f"container {container} waits: {reason} {message}"
            group.note(quotes.object(pod.item, said, NO_TIME, message, reason), pod=pod.name, node=pod.node)
        for end in container_ends(pod.body):
            said = f"container {end.container} ended, exit code {end.code}, reason {end.reason}"
            group.note(quotes.object(pod.item, said, end.finished, end.reason, "terminated"), ts=end.finished)
        yield group.finding(f"{match[1]} does not run: {pod.id} ends again and again")


def _crashes(pod: Pod) -> bool:
    return any(reason in ("CrashLoopBackOff", "RunContainerError") for _, _, reason, _ in container_waits(pod.body))


def _replica(pod: Pod, program: str) -> bool:
    return pod.name.startswith(program)


def _ready(pod: Pod) -> bool:
    return pod.phase == "Running" and is_true(conditions(pod.body).get("Ready"))


def _refusals(cluster: Cluster, quotes: Quotes) -> Iterator[Finding]:
    groups = Groups()
    made: dict[tuple[str, str, str], float] = {}
    for seen in cluster.events:
        event = seen.event
        about = (event.kind, event.namespace, event.name)
        if event.reason in _MADE:
            made[about] = max(made.get(about, float("-inf")), seen.when)
        if event.reason not in _REFUSED:
            continue
        hook, denied = _WEBHOOK.search(event.message), _DENIED.search(event.message)
        if hook is None and (denied is None or "exceeded quota" in event.message):
            continue
        gang = cluster.gang(event.kind, event.namespace, event.name)
        sign = "sched.webhook_failed" if hook is not None else "sched.admission_denied"
        name = hook[1] if hook is not None else denied["hook"] if denied is not None else None
        group = groups.get(
            sign,
            gang.id,
            make=lambda sign=sign, gang=gang, name=name: Group(  # type: ignore[misc]
                sign, job=gang.id, name=name, fields={"workload": f"{gang.kind or 'workload'} {gang.id}"}
            ),
        )
        group.fields["message"] = event.message
        group.fields["about"] = about
        group.fields["when"] = seen.when
        group.note(quotes.event(seen.item, event), ts=event.last, first=event.first, count=event.count)
    for sign, word in (
        ("sched.webhook_failed", "the webhook did not answer"),
        ("sched.admission_denied", "admission denies it"),
    ):
        for group in groups.of(sign):
            if made.get(group.fields.pop("about"), float("-inf")) > group.fields.pop("when"):
                group.role, group.severity = Role.CONTEXT, Severity.INFO
            what = f" ({listing([group.name])})" if group.name else ""
            yield group.finding(
                f"Nothing could be created for {group.job}: {word}{what}: {group.fields['message'][:300]}"
            )
