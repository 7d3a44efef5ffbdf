"""Text of ``kubectl describe``: objects and events as the API would have given them."""

from __future__ import annotations

from pathlib import Path

import pytest
from detect.scheduler_case import find, load
from hypothesis import given
from hypothesis import strategies as st

from aiops.ingest.kubernetes import sniff_kubernetes
from aiops.ingest.kubernetes_text import sniff_kubectl, text_objects

HERE = Path(__file__).parent / "described"
PODS = (HERE / "pods.txt").read_text()
WORKLOAD = (HERE / "workload.txt").read_text()
NODE = (HERE / "node.txt").read_text()
JOB = (HERE / "job.txt").read_text()


@pytest.mark.parametrize("text", [PODS, WORKLOAD, NODE, JOB])
def test_recognised_by_its_content(text: str) -> None:
    assert sniff_kubernetes(text.encode()) == "kubectl-describe"
    assert sniff_kubernetes(text.encode().replace(b"\n", b"\r\n")) == "kubectl-describe"


@pytest.mark.parametrize(
    "text", ["Name:   Ada\nAge:   36\n", "Name: x\n", "Architecture:   x86_64\nNamespace:  x\nLabels: y\n"]
)
def test_other_text_is_left_alone(text: str) -> None:
    assert sniff_kubectl(text) is None


def test_pods_with_ends_places_and_events(tmp_path: Path) -> None:
    case = load(tmp_path, PODS)
    assert [(item.kind, item.name, item.namespace) for item in case.objects if item.kind == "Pod"] == [
        ("Pod", "a-0-x2k9z", "ml"),
        ("Pod", "a-1-x2k9y", "ml"),
    ]
    first = case.objects[0].body
    ended = first["status"]["containerStatuses"][0]["state"]["terminated"]
    assert (ended["reason"], ended["exitCode"], ended["finishedAt"]) == (
        "OOMKilled",
        "137",
        "2026-08-01T08:10:00+00:00",
    )
    assert first["spec"]["containers"][0]["command"] == ["torchrun", "--nnodes=2"]
    assert first["metadata"]["annotations"] == {"kube-test/exit": "137"}
    assert case.jobs[0].id == "ml/a" and case.jobs[0].nodes == ("gpu-node-03",)
    events = [(e.fields["reason"], e.count, e.node) for e in case.events]
    assert events == [("Scheduled", 1, "gpu-node-03"), ("BackOff", 4, None), ("FailedScheduling", 1, None)]
    found = find(case)
    assert (found["sched.oom_killed"][0].job, found["sched.oom_killed"][0].node) == ("ml/a", "gpu-node-03")
    waits = found["sched.unschedulable"][0]
    assert (waits.fields["why"], waits.fields["pods"]) == ("insufficient", ("a-1-x2k9y",))
    lines = PODS.splitlines()
    assert all(ref.text and lines[ref.line - 1].strip() for ref in waits.evidence)


def test_a_custom_resource_is_the_object_that_the_api_has(tmp_path: Path) -> None:
    case = load(tmp_path, WORKLOAD)
    body = case.objects[0].body
    assert body["apiVersion"] == "kueue.x-k8s.io/v1beta2" and body["metadata"]["uid"] == "1f2c"
    assert body["metadata"]["ownerReferences"][0]["name"] == "a"
    assert [c["type"] for c in body["status"]["conditions"]] == ["QuotaReserved", "Requeued"]
    assert body["spec"]["podSets"][0]["template"]["spec"]["containers"][0]["resources"] == {
        "requests": {"nvidia.com/gpu": "8"}
    }
    quota = find(case)["sched.quota"][0]
    assert (quota.job, quota.fields["requested"], quota.fields["missing"]) == ("ml/a", 32, 24)


def test_nodes(tmp_path: Path) -> None:
    case = load(tmp_path, NODE)
    body = case.objects[0].body
    assert body["spec"]["taints"] == [
        {"key": "node.kubernetes.io/unreachable", "value": "", "effect": "NoExecute"},
        {"key": "aiops/hw", "value": "xid79", "effect": "NoSchedule"},
    ]
    ready = body["status"]["conditions"][1]
    assert (ready["status"], ready["reason"], ready["lastTransitionTime"]) == (
        "Unknown",
        "NodeStatusUnknown",
        "2026-08-01T08:01:00+00:00",
    )
    found = find(case)
    assert found["sched.node_fail"][0].node == "gpu-node-08" and found["sched.node_drained"]
    assert found["sched.device_missing"][0].fields["allocatable"] == 7


def test_jobs(tmp_path: Path) -> None:
    case = load(tmp_path, JOB)
    assert (case.jobs[0].id, case.jobs[0].gpus, case.jobs[0].state) == ("ml/a", 32, "Failed")
    assert find(case)["sched.job_failed"][0].fields["reason"] == "BackoffLimitExceeded"


def test_descriptions_and_tables_in_one_file(tmp_path: Path) -> None:
    table = "$ kubectl get nodes\nNAME   STATUS     ROLES    AGE   VERSION\nn2     NotReady   <none>   80d   v1.36.3\n"
    case = load(tmp_path, f"$ kubectl describe node gpu-node-08\n{NODE}\n\n{JOB}\n{table}")
    assert [(item.kind, item.name) for item in case.objects if item.kind != "Event"] == [
        ("Node", "gpu-node-08"),
        ("Job", "a"),
        ("Node", "n2"),
    ]


def test_a_description_that_is_cut_off(tmp_path: Path) -> None:
    for end in range(400, len(PODS), 97):
        case = load(tmp_path, PODS[:end])
        assert case.objects[0].name == "a-0-x2k9z" or case.objects[0].kind == "Event"


@given(
    st.lists(
        st.sampled_from([*PODS.splitlines(), *WORKLOAD.splitlines(), *NODE.splitlines(), "", "  x", "\t:"]), max_size=60
    )
)
def test_lines_in_any_order_are_survived(lines: list[str]) -> None:
    for body, line in text_objects("Name:  x\n" + "\n".join(lines)):
        assert isinstance(body, dict) and line >= 1


@given(st.text(max_size=300))
def test_any_text_is_survived(text: str) -> None:
    assert isinstance(list(text_objects("Name:  x\nLabels: y\n" + text)), list)
