"""One fault of a real cluster: a namespace with nodes of its own, and what kubectl collects of it."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from services.kubernetes.cluster import KubernetesCluster
from services.kubernetes.workloads import KUEUE, cluster_queue, local_queue, node

from aiops.model.report import Incident, Report
from aiops.pipeline import analyze_paths

JOB_SETS = "jobsets.jobset.x-k8s.io"
TRAIN_JOBS = "trainjobs.trainer.kubeflow.org"
RAY_KINDS = "rayjobs.ray.io,rayclusters.ray.io"
KUEUE_KINDS = "workloads.kueue.x-k8s.io,localqueues.kueue.x-k8s.io"
FORMS = ("json", "yaml", "text")


@dataclass
class Place:
    """A namespace with nodes of its own, so that faults do not meet each other."""

    cluster: KubernetesCluster
    name: str
    folder: Path
    kinds: list[str] = field(default_factory=list)
    cluster_kinds: list[str] = field(default_factory=list)
    """Kinds without a namespace whose objects have the label ``pool``."""
    queues: list[str] = field(default_factory=list)

    def nodes(self, count: int, gpus: int = 8, **more: Any) -> list[str]:
        names = [f"{self.name}-n{i + 1}" for i in range(count)]
        self.cluster.apply(*(node(name, self.name, gpus, **more) for name in names))
        for name in names:
            self.cluster.wait(f"node {name}", lambda name=name: self._open(name))
        return names

    def _open(self, name: str) -> bool:
        body = self.cluster.api("GET", f"/api/v1/nodes/{name}")
        ready = any(c["type"] == "Ready" and c["status"] == "True" for c in body["status"].get("conditions") or [])
        return ready and not any("not-ready" in t["key"] for t in body["spec"].get("taints") or [])

    def list(self, path: str) -> list[dict[str, Any]]:
        group, _, kind = path.rpartition("/")
        base = f"/apis/{group}" if group else "/api/v1"
        return self.cluster.api("GET", f"{base}/namespaces/{self.name}/{kind}")["items"]

    def pods(self, phase: str, owner: str = "") -> list[dict[str, Any]]:
        return [
            pod
            for pod in self.list("pods")
            if pod["status"].get("phase") == phase
            and (not owner or pod["metadata"]["labels"].get("batch.kubernetes.io/job-name") == owner)
        ]

    def until(self, what: str, test: Callable[[], Any], timeout: float = 60) -> Any:
        return self.cluster.wait(f"{self.name}: {what}", test, timeout)

    def until_events(self, *reasons: str) -> None:
        """Events come after the state that they tell of."""
        seen = lambda: {event["reason"] for event in self.list("events")}  # noqa: E731
        self.until(f"events {reasons}", lambda: set(reasons) <= seen())

    def collect(self, form: str, moment: str = "") -> Path:
        """What a person on call would collect, in one of the forms, at a moment of the test."""
        out = self.folder / moment / form
        out.mkdir(parents=True)
        kinds = ",".join(["pods", "jobs", *self.kinds])
        here, pool = ("-n", self.name), ("-l", f"pool={self.name}")
        wide = ",".join(["nodes", *self.cluster_kinds])
        if form == "text":
            commands = {
                "describe.txt": ("describe", kinds, *here),
                "nodes-described.txt": ("describe", wide, *pool),
                "wide.txt": ("get", kinds, *here, "-o", "wide"),
                "nodes.txt": ("get", "nodes", *pool, "-o", "wide"),
                "events.txt": ("get", "events", *here),
            }
            if self.queues:
                commands["queues.txt"] = ("describe", "clusterqueues.kueue.x-k8s.io", *self.queues)
        else:
            # the two APIs of events, one each
            events = "events" if form == "json" else "events.events.k8s.io"
            commands = {
                "objects": ("get", kinds, *here, "-o", form),
                "events": ("get", events, *here, "-o", form),
                "nodes": ("get", wide, *pool, "-o", form),
            }
            if self.queues:
                commands["queues"] = ("get", "clusterqueues.kueue.x-k8s.io", *self.queues, "-o", form)
        for name, command in commands.items():
            (out / name).write_text(self._kubectl(*command))
        return out

    def _kubectl(self, *command: str) -> str:
        """A description asks for the objects of a list one by one, and some are gone by then: ask again, as people do."""
        (text,) = self.until(f"kubectl {' '.join(command)}", lambda: [self.cluster.kubectl(*command)])
        return str(text)

    def judge(self, form: str, moment: str = "") -> Report:
        return analyze_paths([self.collect(form, moment)])

    def agreed(self, failure_class: str, requeue: str, *, forms: tuple[str, ...] = FORMS) -> dict[str, Incident]:
        """The first incident of each form of collection; fails unless all of them give this class and advice."""
        found = {}
        for form in forms:
            report = self.judge(form)
            assert report.verdict == "incident", (form, report.verdict, [i.title for i in report.incidents])
            first = report.incidents[0]
            assert (first.failure_class, first.requeue.verdict) == (failure_class, requeue), (form, first.title)
            assert not report.coverage.problems, (form, report.coverage.problems)
            found[form] = first
        return found


def condition(items: list[dict[str, Any]], kind: str, status: str = "True") -> list[dict[str, Any]]:
    """Objects that have a condition in this status."""
    return [
        item
        for item in items
        if any(c["type"] == kind and c["status"] == status for c in item.get("status", {}).get("conditions") or [])
    ]


def kueue_place(place: Place, gpus: int, **spec: Any) -> None:
    place.kinds, place.queues = [KUEUE_KINDS], [place.name]
    place.cluster.apply(cluster_queue(place.name, gpus, **spec), local_queue("main", place.name, place.name))


def admitted(place: Place, count: int) -> None:
    place.until(f"{count} admitted", lambda: len(condition(place.list(f"{KUEUE}/workloads"), "Admitted")) == count)


def second_waits(place: Place) -> None:
    """What a second job meets in a queue of 16 GPUs whose first job holds them all."""
    place.until("refused", lambda: condition(place.list(f"{KUEUE}/workloads"), "QuotaReserved", "False"))
    place.until_events("Pending")
    path = f"/apis/{KUEUE}/clusterqueues/{place.name}"
    place.until("counted", lambda: '"total": "16"' in json.dumps(place.cluster.api("GET", path)["status"]))
    for form, incident in place.agreed("sch.quota", "fix_first").items():
        assert (incident.culprit.kind, incident.culprit.job) == ("scheduler", f"{place.name}/second"), form
        assert "asks for 16" in incident.timeline[0].text and "16 of 16 in use" in incident.timeline[0].text, form


def lost_node(place: Place, word: str = "") -> None:
    """The node of a running pod (of one with a word in its name) vanishes."""
    lost = next(p["spec"]["nodeName"] for p in place.pods("Running") if word in p["metadata"]["name"])
    place.cluster.node_down(lost)

    def given_up() -> bool:
        return any(p["metadata"].get("deletionTimestamp") for p in place.list("pods") if p["spec"]["nodeName"] == lost)

    place.until("node lost and pods given up", given_up, timeout=90)
    for form in FORMS:
        report = place.judge(form)
        first = report.incidents[0]
        assert report.verdict == "incident" and first.culprit.node == lost, (form, first.title)
        assert first.requeue.verdict == "exclude_nodes" and first.requeue.exclude == [lost], form
