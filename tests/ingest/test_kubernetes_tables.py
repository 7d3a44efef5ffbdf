"""Tables of ``kubectl get`` as people paste them."""

from __future__ import annotations

from pathlib import Path

import pytest
from detect.scheduler_case import find, job, listing, load, pending, pod

from aiops.ingest.kubernetes_tables import age_seconds
from aiops.model import NO_TIME, TimeQuality

EVENTS = """\
NAMESPACE   LAST SEEN             TYPE      REASON             OBJECT          MESSAGE
ml          3m                    Warning   FailedScheduling   pod/a-1-7xk2p   0/6 nodes are available: 6 Insufficient x
ml          26m (x12 over 2h5m)   Warning   BackOff            pod/a-0-9wq4z   Back-off restarting failed container
default     1d                    Normal    NodeNotReady       node/n1         Node n1 status is now: NodeNotReady
"""
PODS = """\
NAME          READY   STATUS                  RESTARTS       AGE   IP           NODE     NOMINATED NODE
a-0-9wq4z     0/1     CrashLoopBackOff        5 (10m ago)    2h    10.0.0.1     n1       <none>
a-1-7xk2p     0/1     Pending                 0              2h    <none>       <none>   <none>
b             0/1     OOMKilled               0              2h    10.0.0.3     n2       <none>
c             0/1     ImagePullBackOff        0              2h    10.0.0.4     n3       <none>
d             0/1     Completed               0              2h    10.0.0.5     n4       <none>
e             0/1     Evicted                 0              2h    <none>       n5       <none>
"""


def test_events(tmp_path: Path) -> None:
    case = load(tmp_path, EVENTS)
    first, second, third = case.events
    assert (first.ts, first.quality, first.line) == (NO_TIME, TimeQuality.NONE, 2)
    assert first.fields["message"].endswith("6 Insufficient x")
    assert (second.count, second.fields["kind"], second.fields["name"]) == (12, "Pod", "a-0-9wq4z")
    assert (third.node, third.fields["namespace"]) == ("n1", "")
    assert case.topology.node_kinds["n1"] == {"kubernetes"}
    assert case.objects[1].body["ageSeconds"] == 26 * 60


def test_pods(tmp_path: Path) -> None:
    case = load(tmp_path, PODS)
    status = {item.name: item.body["status"] for item in case.objects}
    assert status["a-0-9wq4z"]["containerStatuses"][0] == {
        "name": "",
        "state": {"waiting": {"reason": "CrashLoopBackOff"}},
        "restartCount": 5,
    }
    assert status["a-1-7xk2p"] == {"phase": "Pending"}
    assert status["b"]["containerStatuses"][0]["state"] == {"terminated": {"reason": "OOMKilled"}}
    assert status["c"]["phase"] == "Pending" and status["d"]["phase"] == "Succeeded"
    assert status["e"] == {"phase": "Failed", "reason": "Evicted"}
    assert set(case.topology.nodes) == {"n1", "n2", "n3", "n4", "n5"}


def test_several_tables_with_their_commands(tmp_path: Path) -> None:
    text = (
        "$ kubectl get nodes\nNAME   STATUS                        ROLES    AGE   VERSION\n"
        "n1     Ready                         <none>   80d   v1.35.3\n"
        "n2     NotReady,SchedulingDisabled   <none>   80d   v1.35.3\n"
        "$ kubectl get podgroups\nNAME   STATUS    MINMEMBER   RUNNINGS   AGE\n"
        "pg-1   Inqueue   4                      40h\n"
        "\n$ kubectl get ds\nNAME   DESIRED   CURRENT   READY   AGE\nx      0         0         0       1d\n"
    )
    case = load(tmp_path, text)
    assert [(item.kind, item.name, item.line) for item in case.objects] == [
        ("Node", "n1", 3),
        ("Node", "n2", 4),
        ("PodGroup", "pg-1", 7),
    ]
    assert case.objects[1].body["spec"] == {"unschedulable": True}
    assert case.objects[1].body["status"]["conditions"] == [{"type": "Ready", "status": "False"}]
    assert (case.jobs[0].state, case.jobs[0].fields["min_member"], case.jobs[0].fields["active"]) == ("Inqueue", 4, 0)


def test_rows_wider_than_the_header(tmp_path: Path) -> None:
    text = "NAME   READY   STATUS    RESTARTS   AGE\na-very-long-pod-name-0   1/1   Running   0   3m\n"
    case = load(tmp_path, text)
    assert case.objects[0].name == "a-very-long-pod-name-0"
    assert case.objects[0].body["status"] == {"phase": "Running"}


def test_damaged_rows_are_survived(tmp_path: Path) -> None:
    case = load(tmp_path, PODS + "b\n" + "x" * 70 + "\n")
    assert "x" * 70 not in case.topology.nodes
    assert [item.name for item in case.objects][:2] == ["a-0-9wq4z", "a-1-7xk2p"]


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("26m", 1560), ("2d4h", 187_200), ("90s", 90), ("1y2d", 31_708_800), ("", None), ("<unknown>", None)],
)
def test_ages(text: str, seconds: float | None) -> None:
    assert age_seconds(text) == seconds


def test_tables_of_queues_and_jobs(tmp_path: Path) -> None:
    text = (
        "NAME                CLUSTERQUEUE   PENDING WORKLOADS   ADMITTED WORKLOADS\n"
        "localqueue.k/main   gpus           3                   0\n\n"
        "NAME          STATUS      COMPLETIONS   DURATION   AGE\n"
        "job.batch/a   Suspended   0/4                      5m\n"
        "job.batch/b   Complete    2/2           30s        5m\n\n"
        "NAME                             STATE    AGE\npytorchjob.kubeflow.org/p   Failed   5m\n\n"
        "NAME   TERMINALSTATE   RESTARTS   COMPLETED   SUSPENDED   AGE\ns      Failed          3                      false       5m\n\n"
        "NAME   JOB STATUS   DEPLOYMENT STATUS   RAY CLUSTER NAME   START TIME   END TIME   AGE\n"
        "r      FAILED       Failed              r-x                                        5m\n"
    )
    case = load(tmp_path, text)
    assert [(item.kind, item.name) for item in case.objects][0] == ("LocalQueue", "main")
    assert case.objects[0].body["spec"] == {"clusterQueue": "gpus"}
    assert [(job.kind, job.id, job.state) for job in case.jobs] == [
        ("Job", "a", "Suspended"),
        ("Job", "b", "Complete"),
        ("PyTorchJob", "p", "Failed"),
        ("JobSet", "s", "Failed"),
        ("RayJob", "r", "Failed"),
    ]


def test_events_with_all_columns(tmp_path: Path) -> None:
    text = (
        "LAST SEEN   TYPE      REASON    OBJECT    SUBOBJECT                SOURCE        MESSAGE      FIRST SEEN   COUNT   NAME\n"
        "2m          Warning   BackOff   pod/a-0   spec.containers{main}    kubelet, n7   Back-off x   2h           31      a-0.18\n"
    )
    case = load(tmp_path, text)
    assert (case.events[0].count, case.events[0].node, case.events[0].fields["component"]) == (31, "n7", "kubelet")


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_a_table_without_namespaces_makes_no_second_job(tmp_path: Path, order: tuple[int, int]) -> None:
    files = ["NAME   STATUS    COMPLETIONS   DURATION   AGE\na      Running   0/2           5m         5m\n", job("a")]
    case = load(tmp_path, *(files[i] for i in order))
    assert [found.id for found in case.jobs] == ["ml/a"]


def test_objects_without_namespace_are_those_of_the_only_one(tmp_path: Path) -> None:
    events = (
        "LAST SEEN   TYPE      REASON             OBJECT        MESSAGE\n"
        "3m          Warning   FailedScheduling   pod/a-1-x     0/6 nodes are available: 6 Insufficient nvidia.com/gpu.\n"
    )
    waits = pod("a-1-x", "a", phase="Pending", status=pending(""))
    found = find(load(tmp_path, events, PODS, listing(waits, job("a"))))["sched.unschedulable"]
    assert ("ml/a", "insufficient") in [(f.job, f.fields["why"]) for f in found]
    assert all((f.job or "").startswith("ml/") for f in found)
