"""Facts that schedulers and kubelets tell only in prose.

Each pattern names the program whose text it reads; reasons and conditions are used wherever they exist.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

# kube-scheduler, FailedScheduling and PodScheduled=False: "0/9 nodes are available: 3 node(s) had untolerated taint
# {a: b}, 6 Insufficient nvidia.com/gpu. preemption: …". Volcano: "0/40 nodes are unavailable: …".
_NODES = re.compile(r"0/(\d+) nodes are (?:un)?available: (.*?)(?:\.\s|\.$|$)", re.DOTALL)
_PART = re.compile(r"(\d+) ([^,{]*(?:\{[^}]*\}[^,]*)?)(?:, |$)")

_WHY = (
    ("claims", re.compile(r"allocate all claims|resourceclaim|resource claim|device class|dynamic resource")),
    ("insufficient", re.compile(r"Insufficient |Too many pods|insufficient ")),
    ("volume", re.compile(r"PersistentVolumeClaim|volume node affinity|max volume count|persistentvolumeclaim")),
    ("ports", re.compile(r"free ports")),
    ("topology", re.compile(r"topology|hyperNode|Topology")),
    ("affinity", re.compile(r"pod (?:anti-)?affinity|pod affinity/anti-affinity")),
    ("selector", re.compile(r"node affinity|node selector|node\(s\) didn't match Pod's|didn't match the requested")),
    ("taint", re.compile(r"untolerated taint|had taint")),
    ("cordoned", re.compile(r"were unschedulable|was unschedulable")),
    ("gang", re.compile(r"pod group|gang|minCount|minMember|minAvailable")),
)
# Taints of nodes that never take work say nothing about the job.
_CONTROL_PLANE = re.compile(r"node-role\.kubernetes\.io/(?:control-plane|master)")


def placement_reasons(message: str) -> dict[str, int]:
    """Reason → number of nodes, of a scheduler's message; empty if it has another form."""
    match = _NODES.search(message)
    if match is None:
        return {}
    found: dict[str, int] = {}
    for count, reason in _PART.findall(match[2]):
        found[reason.strip()] = found.get(reason.strip(), 0) + int(count[:9])
    return found


def placement_why(message: str) -> str:
    """What keeps the pod from running, in one word of `_WHY`, or ``other``.

    Nodes that lack resources have passed every filter before, so they decide; among filters, a cordoned node is named
    last, since the pod could run there otherwise.
    """
    reasons = [reason for reason in placement_reasons(message) if not _CONTROL_PLANE.search(reason)] or [message]
    for why, pattern in _WHY:
        if any(pattern.search(reason) for reason in reasons):
            return why
    return "other"


PLACEMENT_WORDS = {
    "claims": "the resource claims cannot be allocated",
    "insufficient": "no node has enough free",
    "volume": "a volume cannot be bound there",
    "ports": "the host port is taken",
    "topology": "the topology constraint cannot be met",
    "affinity": "the pod affinity rules exclude all nodes",
    "selector": "no node matches the selector",
    "taint": "the nodes have taints that the pod does not tolerate",
    "cordoned": "the nodes are cordoned",
    "gang": "the gang is not complete",
    "queue": "its queue does not work",
    "uncovered": "its queue has no quota for a resource that it asks for",
    "overused": "the scheduler counts the cluster as overused",
    "other": "see message",
}
"""What `placement_why` means, in words."""


# Kueue, status.conditions[QuotaReserved].message.
_POD_SET = re.compile(r"couldn't assign flavors to pod set ([\w.-]+): (.*?)(?=; couldn't assign flavors|$)", re.DOTALL)
_INFEASIBLE = re.compile(
    r"insufficient quota for (\S+) in flavor ([\w.-]+), "
    r"(?:previously considered podsets requests \((\S+?)\) \+ current podset request \((\S+?)\)"
    r" > maximum capacity \((\S+?)\)|request > maximum capacity \((\S+) > (\S+?)\))"
)
_MISSING = re.compile(r"insufficient unused quota for (\S+) in flavor ([\w.-]+), (\S+) more needed")
_BORROWING = re.compile(r"borrowing limit for (\S+) in flavor ([\w.-]+) exceeded")
_FLAVOR_FIT = re.compile(
    r"untolerated taint \{[^}]*\} in flavor|flavor \S+ doesn't match node affinity|"
    r"flavor \S+ not found"
)
_UNCOVERED = re.compile(r"resource (\S+) unavailable in ClusterQueue")
# Workload controller and scheduler: a queue that cannot admit anything, whatever is free.
_QUEUE = re.compile(
    r"(?:(?P<kind>LocalQueue|ClusterQueue) (?P<name>\S+) "
    r"(?P<state>doesn't exist|not found|is inactive|is stopped|is terminating or missing)"
    r"|Workload namespace doesn't match ClusterQueue selector|The (?:Local|Cluster)Queue is stopped)"
)


@dataclass(frozen=True, slots=True)
class KueueRefusal:
    """Why Kueue holds a workload, as its message tells."""

    why: str
    """``infeasible``, ``quota``, ``taint``, ``selector``, ``uncovered``, ``topology``, ``queue`` or ``other``."""
    pod_set: str | None = None
    resource: str | None = None
    flavor: str | None = None
    requested: float | None = None
    limit: float | None = None
    missing: float | None = None
    queue: str | None = None
    """The queue that does not work, for ``queue``."""


def kueue_refusal(message: str) -> KueueRefusal:
    """Read the message. A pod set that exceeds the capacity of *every* flavor makes the workload infeasible."""
    if match := _QUEUE.search(message):
        return KueueRefusal("queue", queue=match["name"])
    sets = _POD_SET.findall(message)
    for name, reasons in sets:
        over = _INFEASIBLE.findall(reasons)
        if over and not _MISSING.search(reasons):
            best = min(
                over,
                key=lambda found: (
                    _number(found[5]) - _number(found[6])
                    if found[5]
                    else _number(found[2]) + _number(found[3]) - _number(found[4])
                ),
            )
            asked = _number(best[5]) if best[5] else _number(best[2]) + _number(best[3])
            return KueueRefusal("infeasible", name, best[0], best[1], asked, _number(best[6] or best[4]))
    for name, reasons in sets or [("", message)]:
        if match := _MISSING.search(reasons):
            return KueueRefusal("quota", name or None, match[1], match[2], missing=_number(match[3]))
    for name, reasons in sets or [("", message)]:
        if match := _BORROWING.search(reasons):
            return KueueRefusal("quota", name or None, match[1], match[2])
    if "topology" in message and ("doesn't allow to fit" in message or "allows to fit only" in message):
        return KueueRefusal("topology")
    for name, reasons in sets or [("", message)]:
        if match := _UNCOVERED.search(reasons):
            return KueueRefusal("uncovered", name or None, match[1])
    if match := _FLAVOR_FIT.search(message):
        return KueueRefusal("taint" if "taint" in match[0] else "selector")
    return KueueRefusal("quota" if "insufficient" in message and "quota" in message else "other")


_SCALE = {"m": 1e-3, "k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "Ki": 2**10, "Mi": 2**20, "Gi": 2**30, "Ti": 2**40}


def _number(text: str) -> float:
    match = re.fullmatch(r"(\d{1,18}(?:\.\d{1,9})?)(m|k|[MGT]i?|Ki)?", text)
    return float(match[1]) * _SCALE.get(match[2] or "", 1.0) if match else 0.0


# Kueue, Preempted and EvictedDueToPreempted: "Preempted to accommodate a workload (UID: u, JobUID: j) due to …".
_PREEMPTOR = re.compile(r"Preempted to accommodate a workload \(UID: ([^,)\s]+)(?:, JobUID: ([^,)\s]+))?")
_PRIORITY = re.compile(r"preemptor effective priority: (-?\d{1,10})")
# kube-scheduler: "Preempted by pod <uid> on node n", before 1.26 "Preempted by ns/name on node n".
_POD_PREEMPTOR = re.compile(r"Preempted by (?:a )?(?:pod )?(\S+) on node (\S+)")


def kueue_preemptor(message: str) -> tuple[str | None, str | None, int | None]:
    """(workload uid, job uid, priority) of who took the place."""
    match = _PREEMPTOR.search(message)
    priority = _PRIORITY.search(message)
    return (match[1] if match else None, match[2] if match else None, int(priority[1]) if priority else None)


def pod_preemptor(message: str) -> str | None:
    """Pod (name or uid) that displaced this one."""
    match = _POD_PREEMPTOR.search(message)
    return match[1].rstrip(".") if match else None


# API server, ResourceQuota admission: "exceeded quota: q, requested: a=8, used: a=8, limited: a=12".
_QUOTA = re.compile(r"exceeded quota: ([\w.-]+), requested: (\S+), used: (\S+), limited: ([^\s\"]+)")


def exceeded_quota(message: str) -> dict[str, str] | None:
    """``name``, ``requested``, ``used`` and ``limit`` of a refused creation."""
    match = _QUOTA.search(message)
    if match is None:
        return None
    return {"name": match[1], "requested": match[2].rstrip(","), "used": match[3].rstrip(","), "limit": match[4]}


# kubelet, pulling images; the texts are the runtime's and the registry's.
_PULL = (
    ("denied", re.compile(r"denied|unauthorized|authoriz|authenticat|forbidden|\b40[13]\b|no basic auth", re.I)),
    (
        "not_found",
        re.compile(
            r"not found|manifest unknown|name unknown|does not exist|no such image|\b404\b"
            r"|invalid reference",
            re.I,
        ),
    ),
    (
        "timeout",
        re.compile(
            r"DeadlineExceeded|deadline exceeded|i/o timeout|timed? ?out|TLS handshake"
            r"|connection refused|no such host|connection reset",
            re.I,
        ),
    ),
)
_IMAGE = re.compile(r"(?:pull(?:ing)?(?: and unpack)? image|Back-off pulling image|image) \\?\"([^\"\\\s]{1,300})\\?\"")


def pull_failure(message: str) -> str:
    """``denied``, ``not_found``, ``timeout`` or ``other``.

    A registry that hides private images says "denied … or does not exist"; access is what can be checked first.
    """
    return next((why for why, pattern in _PULL if pattern.search(message)), "other")


def image_name(message: str) -> str | None:
    match = _IMAGE.search(message)
    return match[1] if match else None


# kubelet, eviction manager.
_LOW_ON = re.compile(r"low on resource: ([\w./-]+?)[.\s]")
_HAD_CONDITION = re.compile(r"had condition: \[(\w+)")
_OWN_LIMIT = re.compile(
    r"ephemeral local storage usage exceeds|[Uu]sage of EmptyDir volume"
    r"|ephemeral-storage usage exceeds|exceeded its local ephemeral storage limit"
)
_RESOURCES = {"nodefs": "ephemeral-storage", "imagefs": "ephemeral-storage", "pid": "pids"}
PRESSURE = {"MemoryPressure": "memory", "DiskPressure": "ephemeral-storage", "PIDPressure": "pids"}


def evicted_for(message: str) -> tuple[str | None, bool]:
    """(resource that ran short, True if it is the pod's own limit rather than the node's)."""
    if _OWN_LIMIT.search(message):
        return "ephemeral-storage", True
    if match := _LOW_ON.search(message):
        return _RESOURCES.get(match[1], match[1]), False
    if match := _HAD_CONDITION.search(message):
        return PRESSURE.get(match[1], match[1]), False
    return None, False


# kubelet and runtime, setting up sandboxes and volumes.
_VOLUME = re.compile(r"volume \\?\"([^\"\\\s]{1,200})\\?\"")


def setup_part(reason: str, message: str) -> str:
    """``volume``, ``network``, ``device``, ``config`` or ``runtime``: what could not be set up."""
    if reason in ("FailedMount", "FailedAttachVolume", "FailedMapVolume", "FailedBinding", "ProvisioningFailed"):
        return "volume"
    if reason in ("FailedPrepareDynamicResources", "UnexpectedAdmissionError", "TopologyAffinityError"):
        return "device"
    if reason in ("CreateContainerConfigError", "InvalidEnvironmentVariableNames"):
        return "config"
    if reason == "NetworkNotReady" or re.search(r"\bcni\b|network for sandbox|network ?plugin", message, re.I):
        return "network"
    if re.search(r"nvidia-container|nvml|device plugin|driver|CDI device", message, re.I):
        return "device"
    return "runtime"


def volume_name(message: str) -> str | None:
    match = _VOLUME.search(message)
    return match[1] if match else None


# kernel text in OOMKilling events of the node-problem-detector and of the kubelet's oom watcher.
_VICTIM = re.compile(
    r"[Kk]ill(?:ed)? process (\d{1,9})[ ,(]+(?:\(?([\w.:/-]{1,64})\)?)?"
    r"|victim process: ([\w.:/-]{1,64}), pid: (\d{1,9})"
)


def oom_victim(message: str) -> tuple[int | None, str | None]:
    """(pid, command) of the killed process."""
    match = _VICTIM.search(message)
    if match is None:
        return None, None
    return int(match[1] or match[4]), match[2] or match[3]
