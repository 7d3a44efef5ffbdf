"""Dumps of Kubernetes objects: every common form is read, and what is broken is named with its line."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest
from detect.scheduler_case import event, job, listing, load, pod

from aiops.config import Settings
from aiops.ingest import open_case
from aiops.ingest.kubernetes import sniff_kubernetes
from aiops.ingest.kubernetes_topology import pod_nodes
from aiops.model import NO_TIME, Severity, TimeQuality

EIGHT = 1_785_571_200_000_000_000
"""2026-08-01T08:00:00Z"""


@pytest.mark.parametrize(
    ("head", "kind"),
    [
        (b'{"apiVersion": "v1", "kind": "List", "items": []}', "kubernetes-json"),
        (b'{\n    "apiVersion": "batch/v1",\n    "kind": "Job",\n', "kubernetes-json"),
        (b'[{"kind": "Pod", "apiVersion": "v1", "metadata": {}}]', "kubernetes-json"),
        (b'{"reason":"Killing","involvedObject":{"kind":"Pod"},"message":"x"}\n', "kubernetes-json"),
        (b'{"type":"ADDED","object":{"kind":"Pod","apiVersion":"v1"}}\n', "kubernetes-watch"),
        (b'{"kind":"Event","apiVersion":"audit.k8s.io/v1","verb":"delete"}\n', "kubernetes-audit"),
        (b"apiVersion: v1\nitems:\n- apiVersion: v1\n  kind: Pod\n", "kubernetes-yaml"),
        (b"# dump\n---\nkind: Job\napiVersion: batch/v1\n", "kubernetes-yaml"),
        (b"NAME    READY   STATUS    RESTARTS   AGE\nx   1/1  Running 0 1d\n", "kubectl-table"),
        (b"$ kubectl get pods\nNAME    READY   STATUS    RESTARTS   AGE\n", "kubectl-table"),
        (b"LAST SEEN   TYPE      REASON   OBJECT   MESSAGE\n", "kubectl-table"),
        (b'{"status":"success","data":{"resultType":"matrix","result":[]}}', None),
        (b'{"level":"info","ts":1.5,"msg":"sync","kind":"Pod","controllerKind":"Job"}\n', None),
        (b"2026-08-01 08:00:00 INFO applying manifest\napiVersion: v1\nkind: Pod\n", None),
        (b"groups:\n- name: gpu\n  rules: []\n", None),
        (b"NAME      TITLE\nfoo bar\n", None),
        (b"", None),
    ],
)
def test_recognises_content(head: bytes, kind: str | None) -> None:
    assert sniff_kubernetes(head) == kind


def test_list_with_pods_jobs_and_events(tmp_path: Path) -> None:
    case = load(
        tmp_path,
        listing(
            pod("a-0-x", "a", index=0, node="n1"),
            pod("a-1-x", "a", index=1, node="n2"),
            job("a"),
            event(
                "Killing",
                "Pod",
                "a-1-x",
                "Stopping container",
                "2026-08-01T08:00:00Z",
                source={"component": "kubelet", "host": "n2"},
            ),
        ),
    )
    assert [item.kind for item in case.objects] == ["Pod", "Pod", "Job", "Event"]
    assert case.topology.node_kinds == {"n1": {"kubernetes"}, "n2": {"kubernetes"}}
    assert case.topology.world_size == 16
    place = case.topology.ranks[13]
    assert (place.node, place.local_rank, place.pod) == ("n2", 5, "a-1-x")
    assert "--node-rank=$(JOB_COMPLETION_INDEX)" in place.sure
    assert [(j.id, j.kind, j.gpus, j.nodes) for j in case.jobs] == [("ml/a", "Job", 16, ("n1", "n2"))]
    row = case.events[0]
    assert (row.signal, row.ts, row.quality, row.node) == ("k8s.event", EIGHT, TimeQuality.EXACT, "n2")
    assert row.severity is Severity.WARNING
    assert row.fields["reason"] == "Killing" and row.fields["name"] == "a-1-x"
    assert row.text == "Warning Killing Pod ml/a-1-x: Stopping container"
    lines = (tmp_path / "f0").read_text().splitlines()
    assert "a-1-x." in lines[row.line - 1] and '"name"' in lines[row.line - 1]


def test_order_of_files_does_not_matter(tmp_path: Path) -> None:
    files = [pod(f"a-{i}-x", "a", index=i, node=f"n{i}", pods=4) for i in range(4)] + [job("a", pods=4)]
    seen = set()
    for seed in range(6):
        shuffled = files[:]
        random.Random(seed).shuffle(shuffled)
        folder = tmp_path / str(seed)
        folder.mkdir()
        case = load(folder, *shuffled)
        seen.add(
            (
                tuple((j.id, j.kind, j.gpus, j.nodes, len(j.fields["ranks"])) for j in case.jobs),
                tuple(sorted((rank, place.node) for rank, place in case.topology.ranks.items())),
                case.topology.world_size,
            )
        )
    assert len(seen) == 1


def test_ranks_that_two_gangs_claim_stay_open(tmp_path: Path) -> None:
    case = load(
        tmp_path,
        listing(
            pod("a-0-x", "a", index=0, node="n1"),
            pod("a-1-x", "a", index=1, node="n2"),
            pod("b-0-x", "b", index=0, node="n7", pods=1),
        ),
    )
    assert 3 not in case.topology.ranks, "both gangs have a rank 3, on different nodes"
    assert case.topology.ranks[11].node == "n2"
    assert case.topology.world_size is None
    claims = {j.id: sorted({place.node for place in j.fields["ranks"][3].values()}) for j in case.jobs}
    assert claims == {"ml/a": ["n1"], "ml/b": ["n7"]}


def test_both_event_apis_give_time_and_count(tmp_path: Path) -> None:
    new = {
        "apiVersion": "events.k8s.io/v1",
        "kind": "Event",
        "metadata": {"name": "w.1", "namespace": "ml"},
        "regarding": {"kind": "Workload", "name": "w", "namespace": "ml"},
        "reason": "Pending",
        "note": "no quota",
        "type": "Warning",
        "reportingController": "kueue",
        "eventTime": "2026-08-01T08:00:00.250000Z",
        "series": {"count": 7, "lastObservedTime": "2026-08-01T10:00:00.500000+02:00"},
        "deprecatedFirstTimestamp": None,
        "deprecatedLastTimestamp": None,
    }
    kubelet = {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": "p.1", "creationTimestamp": "2026-08-01T08:00:00Z"},
        "involvedObject": {"kind": "Pod", "name": "p", "namespace": "ml"},
        "reason": "Pulled",
        "message": "ok",
        "type": "Normal",
        "reportingComponent": "kubelet",
        "reportingInstance": "n3",
        "lastTimestamp": None,
        "eventTime": None,
        "source": {},
    }
    case = load(tmp_path, listing(new, kubelet))
    first, second = case.events
    assert (first.ts, first.count, first.fields["message"]) == (EIGHT + 500_000_000, 7, "no quota")
    assert first.fields["first"] == EIGHT + 250_000_000
    assert (second.ts, second.node, second.severity) == (EIGHT, "n3", Severity.INFO)


def test_yaml_documents_and_times_as_text(tmp_path: Path) -> None:
    text = (
        "---\napiVersion: v1\nkind: Node\nmetadata:\n  name: n1\n  creationTimestamp: 2026-08-01T08:00:00Z\n"
        "---\n# nothing\n---\napiVersion: batch/v1\nkind: Job\nmetadata: {name: a, namespace: ml, "
        "creationTimestamp: 2026-08-01T08:00:00Z}\nspec: {parallelism: 3}\n"
    )
    case = load(tmp_path, text)
    assert [(item.kind, item.name, item.line) for item in case.objects] == [("Node", "n1", 2), ("Job", "a", 10)]
    assert case.jobs[0].submitted == EIGHT


def test_watch_stream_json_lines_and_exports(tmp_path: Path) -> None:
    stream = "\n".join(
        json.dumps({"type": kind, "object": pod("a-0-x", "a", node="n1")}) for kind in ("ADDED", "MODIFIED")
    )
    lines = "\n".join(json.dumps(event("Started", "Pod", f"p{i}", "go", type="Normal")) for i in range(3))
    wrapped = json.dumps({"verb": "ADDED", "event": event("BackOff", "Pod", "q", "back-off")})
    bare = {
        "kind": "List",
        "apiVersion": "v1",
        "items": [
            {
                "reason": "Killing",
                "involvedObject": {"kind": "Pod", "name": "r"},
                "message": "stop",
                "lastTimestamp": "2026-08-01T08:00:00Z",
            }
        ],
    }
    case = load(tmp_path, stream, lines, wrapped, bare)
    assert [item.kind for item in case.objects] == ["Pod", "Pod"] + ["Event"] * 5
    assert [row.line for row in case.events][:3] == [1, 2, 3]
    assert case.events[4].fields["name"] == "r"


def test_audit_log_keeps_who_did_what(tmp_path: Path) -> None:
    entry = {
        "kind": "Event",
        "apiVersion": "audit.k8s.io/v1",
        "verb": "delete",
        "user": {"username": "mia"},
        "objectRef": {"resource": "jobs", "namespace": "ml", "name": "a"},
    }
    case = load(tmp_path, json.dumps(entry) + "\n")
    assert [item.kind for item in case.objects] == ["AuditEvent"]
    assert len(case.events) == 0


def test_truncated_list_keeps_what_is_whole(tmp_path: Path) -> None:
    text = json.dumps(listing(*(pod(f"a-{i}-x", "a", index=i, node=f"n{i}") for i in range(5))), indent=2)
    cut = text[: text.index('"a-3-x"')]
    case = load(tmp_path, cut)
    assert [item.name for item in case.objects] == ["a-0-x", "a-1-x", "a-2-x"]
    assert case.objects[2].line == next(i for i, line in enumerate(cut.splitlines(), 1) if '"a-2-x"' in line) - 4
    problem = case.coverage.problems[0]
    assert problem.source == "f0" and problem.line == cut.count("\n") + 1 and "cut-off" in problem.reason


def test_broken_item_does_not_take_its_neighbours(tmp_path: Path) -> None:
    text = json.dumps(listing(*(pod(f"a-{i}-x", "a", index=i) for i in range(3))), indent=2)
    broken = text.replace('"name": "a-1-x"', '"name": oops', 1)
    case = load(tmp_path, broken)
    assert [item.name for item in case.objects] == ["a-0-x", "a-2-x"]
    line = next(i for i, text in enumerate(broken.splitlines(), 1) if "oops" in text)
    assert [problem.line for problem in case.coverage.problems] == [line]


def test_broken_yaml_document_and_truncated_yaml_list(tmp_path: Path) -> None:
    documents = (
        "apiVersion: v1\nkind: Node\nmetadata: {name: n1}\n---\n"
        "apiVersion: v1\nkind: Node\nmetadata: {name: [}\n---\n"
        "apiVersion: v1\nkind: Node\nmetadata: {name: n3}\n"
    )
    listed = (
        "apiVersion: v1\nkind: List\nitems:\n- apiVersion: v1\n  kind: Node\n  metadata: {name: n5}\n"
        "- apiVersion: v1\n  kind: Node\n  metadata:\n    name: 'n6"
    )
    case = load(tmp_path, documents, listed)
    names = [item.name for item in case.objects if item.kind == "Node"]
    assert names[:3] == ["n1", "n3", "n5"]
    assert {(problem.source, problem.line) for problem in case.coverage.problems} == {("f0", 7), ("f1", 10)}


def test_json_lines_name_the_bad_line(tmp_path: Path) -> None:
    lines = [json.dumps(event("Started", "Pod", f"p{i}", "go")) for i in range(4)]
    lines[2] = lines[2][:-9]
    case = load(tmp_path, "\n".join(lines))
    assert len(case.events) == 3
    assert [problem.line for problem in case.coverage.problems] == [3]


@pytest.mark.parametrize(
    "text",
    [
        b'{"apiVersion":"v1","kind":"Pod","metadata":' + b"[" * 100_000,
        b"apiVersion: v1\nkind: Pod\nmetadata: " + b"[" * 100_000,
        b"apiVersion: v1\nkind: Pod\nmetadata: !!python/object/apply:os.system ['true']\n",
        b"apiVersion: v1\nkind: Pod\nmetadata: &a [*a]\nspec: *a\nstatus: 5\n",
        b'{"apiVersion":"v1","kind":"Pod","metadata":{"name":5,"labels":[],"ownerReferences":{}},"spec":7,"status":[]}',
        b'{"apiVersion":"v1","kind":"List","items":[null,1,"x",{"kind":"Event","reason":1,"involvedObject":3}]}',
        b'{"apiVersion":"v1","kind":"Pod","metadata":{"name":"\xff\xfe"}}',
    ],
)
def test_hostile_documents_are_survived(tmp_path: Path, text: bytes) -> None:
    case = load(tmp_path, text)
    assert len(case.objects) <= 2 and case.topology.nodes == {}


def test_names_that_are_no_hosts_do_not_become_nodes(tmp_path: Path) -> None:
    case = load(tmp_path, listing(pod("a-0-x", "a", node="n1;reboot"), event("Rebooted", "Node", "$(halt)", "x")))
    assert case.topology.nodes == {}


def test_secrets_lose_their_values(tmp_path: Path) -> None:
    secret = {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": "s"},
        "data": {"token": "aGVsbG8="},
        "stringData": {"k": "v"},
        "type": "Opaque",
    }
    case = load(tmp_path, listing(secret))
    assert case.objects[0].body.keys() == {"apiVersion", "kind", "metadata", "type"}


def test_utf16_as_powershell_writes_it(tmp_path: Path) -> None:
    case = load(tmp_path, json.dumps(listing(pod("a-0-x", "a", node="n1"))).encode("utf-16"))
    assert [item.name for item in case.objects] == ["a-0-x"]


def test_answer_of_the_api_server_is_a_problem(tmp_path: Path) -> None:
    case = load(tmp_path, {"kind": "Status", "apiVersion": "v1", "status": "Failure", "message": "pods is forbidden"})
    assert case.objects == []
    assert "pods is forbidden" in case.coverage.problems[0].reason


def test_pod_names_lead_to_nodes(tmp_path: Path) -> None:
    first = pod("a-0-x", "a", node="n1", status={"podIP": "10.0.0.1"})
    first["spec"]["hostname"] = "a-0"
    second = pod("b-0-x", "b", node="n2", status={"podIP": "10.0.0.2"})
    second["spec"]["hostname"] = "a-0"
    nodes = pod_nodes(load(tmp_path, listing(first, second)))
    assert nodes == {"a-0-x": "n1", "10.0.0.1": "n1", "b-0-x": "n2", "10.0.0.2": "n2"}, "a-0 means two nodes"


def test_a_list_of_thousands_of_events_is_read_whole(tmp_path: Path) -> None:
    items = [event("FailedScheduling", "Pod", f"p{i % 700}", f"attempt {i}") for i in range(5_000)]
    case = load(tmp_path, listing(*items))
    assert len(case.events) == 5_000
    lines = (tmp_path / "f0").read_text().splitlines()
    assert all(case.objects[i].name in lines[case.objects[i].line - 1] for i in (0, 2_500, 4_999))
    assert case.events[0].ts != NO_TIME


def test_cluster_dump_on_standard_output(tmp_path: Path) -> None:
    """Objects behind the logs are read, and each container's log is a file of its own."""
    log = "[rank1]: Traceback (most recent call last):\n[rank1]: ValueError: bad {\n"
    dump = (
        json.dumps({"kind": "PodList", "apiVersion": "v1", "items": [pod("a-0-x", "a", node="n1")]}, indent=4)
        + "\n==== START logs for container main of pod ml/a-0-x ====\n"
        + log
        + "==== END logs for container main of pod ml/a-0-x ====\n"
        + "==== START logs for container side of pod ml/a-0-x ====\n==== END logs for container side of pod ml/a-0-x ====\n"
        + json.dumps(
            {"kind": "EventList", "apiVersion": "v1", "items": [event("Killing", "Pod", "a-0-x", "x")]}, indent=4
        )
    )
    (tmp_path / "dump").write_text(dump)
    with open_case([tmp_path / "dump"], Settings()) as case:
        assert [item.kind for item in case.objects] == ["Pod", "Event"]
        assert sorted((source.name, source.kind) for source in case.sources) == [
            ("dump", "kubernetes"),
            ("dump!ml/a-0-x/main.log", "training"),
        ]
        assert not case.coverage.problems
        assert case.read(next(s.index for s in case.sources if s.kind == "training"), 0, 1000) == log.encode()
