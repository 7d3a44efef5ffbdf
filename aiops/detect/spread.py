"""Jobs that lie on more switches or NVLink domains than they need.

Most jobs of a busy cluster do, and it explains nothing by itself. It counts where the job required otherwise, where its own
steps were faster on fewer domains, or where the one node apart is the one that the others wait for (SCHEDULERS §3.2).
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from statistics import median
from typing import Any

from aiops.catalog.topology import label_level
from aiops.detect.progress import points_aside, progress_points
from aiops.ingest.kubernetes_fields import mapping
from aiops.model.case import Case, Job
from aiops.model.domains import Domain, DomainTree, Hierarchy
from aiops.model.event import NO_TIME, Severity
from aiops.model.finding import Finding, Role

SLOWER = 1.2
"""Steps take this multiple of those of the same job on fewer domains; below it, ordinary scatter."""
_ENOUGH = 4
"""Step times of a run that make a median."""
_OTHERS = 3
"""Nodes of a job that some other domain holds for one apart to be called lone."""
_REQUIRED = ("kueue.x-k8s.io/podset-required-topology", "kai.scheduler/topology-required-placement")
_SLOW_SIGNS = ("train.slow_one", "metric.straggler", "metric.slow_gpu")


@dataclass(frozen=True, slots=True)
class _Spread:
    """Where the nodes of a run lie, and how few domains would hold them."""

    domains: dict[Domain, list[str]]
    needed: int

    @property
    def lone(self) -> str | None:
        """The one node in a domain of its own, where others hold many."""
        single = [nodes[0] for nodes in self.domains.values() if len(nodes) == 1]
        return single[0] if len(single) == 1 and max(map(len, self.domains.values())) >= _OTHERS else None


def spreads(case: Case, findings: list[Finding]) -> list[Finding]:
    """``topology.spread`` for each job and hierarchy (fields ``used``, ``needed``, ``lone``, ``shown``).

    ROOT if ``shown`` is ``required`` (a constraint is violated), ``slower`` (its own steps took longer than on fewer
    domains) or ``straggler`` (the lone node is the slow one); else context.
    """
    tree = case.topology.tree
    if not tree.edges:
        return []
    found = []
    for job in case.jobs:
        for hierarchy in (Hierarchy.NVLINK, Hierarchy.NETWORK):
            runs = [
                (run, placed)
                for run in [*_earlier(case, job), *_runs(job)]
                if (placed := _placed(tree, hierarchy, run["nodes"])) is not None
            ]
            if not runs or runs[-1][0]["nodes"] != _runs(job)[-1]["nodes"]:
                continue
            if len(runs[-1][1].domains) <= runs[-1][1].needed:
                continue
            found.append(_finding(case, job, runs, findings))
    return found


def _runs(job: Job) -> list[dict[str, Any]]:
    told = job.fields.get("incarnations")
    if isinstance(told, tuple) and told:
        return [run for run in told if run.get("nodes")]
    return [{"nodes": job.nodes, "started": job.started, "ended": job.ended}] if job.nodes else []


def _earlier(case: Case, job: Job) -> list[dict[str, Any]]:
    """Runs of the same user's earlier jobs of the same name: the same work, handed in again."""
    if job.started == NO_TIME or not job.name or not job.fields.get("user"):
        return []
    same = [
        other
        for other in case.jobs
        if other.id != job.id
        and (other.name, other.fields.get("user")) == (job.name, job.fields["user"])
        and NO_TIME != other.ended <= job.started
    ]
    return [{**run, "job": other.id} for other in sorted(same, key=lambda j: (j.started, j.id)) for run in _runs(other)]


def _placed(tree: DomainTree, hierarchy: Hierarchy, names: tuple[str, ...]) -> _Spread | None:
    """``None`` if a node has no place in this hierarchy, or several at once as on a fabric of rails."""
    domains: dict[Domain, list[str]] = {}
    for name in names:
        node = tree.node(name)
        above = {edge.parent for edge in tree.parents(node) if edge.parent.hierarchy == hierarchy} if node else set()
        if len(above) != 1:
            return None
        domains.setdefault(next(iter(above)), []).append(name)
    kinds = {domain.kind for domain in domains}
    if len(names) < 2 or len(kinds) != 1:
        return None
    sizes = sorted(
        (
            len(tree.members(d))
            for d in tree.domains()
            if d.hierarchy == hierarchy and d.kind in kinds and tree.height(d) == 0
        ),
        reverse=True,
    )
    held = needed = 0
    for size in sizes:
        if held >= len(names):
            break
        held += size
        needed += 1
    return _Spread(domains, max(1, needed))


def _finding(case: Case, job: Job, runs: list[tuple[dict[str, Any], _Spread]], findings: list[Finding]) -> Finding:
    run, placed = runs[-1]
    nodes = [node for names in placed.domains.values() for node in names]
    kind = next(iter(placed.domains)).kind
    counts = sorted(placed.domains.items(), key=lambda item: (-len(item[1]), item[0]))
    where = ", ".join(f"{domain.name}: {len(names)}" for domain, names in counts[:6]) + (
        " …" if len(counts) > 6 else ""
    )
    fits = "one" if placed.needed == 1 else str(placed.needed)
    many = f"{len(counts)} {kind}{'es' if kind.endswith('ch') else 's'}"
    text = f"Job {job.id} lies on {many} ({where} nodes) and would fit on {fits}"
    shown = ""
    required = _violated(case, job, placed)
    ratio = _slower(case, runs)
    lone = placed.lone
    slow = next(
        (f for f in findings if lone and f.sign in _SLOW_SIGNS and f.node == lone and f.role == Role.ROOT), None
    )
    if required:
        shown, text = "required", f"{text}, although it requires one {required}"
    elif ratio:
        shown, text = "slower", f"{text}; its steps take {ratio:.1f} times as long as when it lay on fewer"
    elif slow is not None:
        shown, text = "straggler", f"{text}; {lone}, alone on its {kind}, is the one that the others wait for"
    elif lone:
        text = f"{text}; {lone} is alone on its {kind}"
    evidence = [ref for domain, names in counts[:6] for ref in case.topology.tree.proofs(domain, names)[:1]]
    return Finding(
        sign="topology.spread",
        text=text,
        role=Role.ROOT if shown else Role.CONTEXT,
        severity=Severity.WARNING if shown or len(counts) * 2 > placed.needed * 3 else Severity.INFO,
        first=run.get("started", NO_TIME) if shown else NO_TIME,
        last=NO_TIME,
        nodes=tuple(nodes),
        job=job.id,
        name=f"job {job.id} on {many}",
        count=len(nodes),
        fields={
            "used": len(counts),
            "needed": placed.needed,
            "lone": lone or "",
            "shown": shown,
            "ratio": round(ratio, 2),
        },
        evidence=evidence,
    )


def _violated(case: Case, job: Job, placed: _Spread) -> str:
    """The level that the job's pods require to share and do not."""
    pods = job.fields.get("pods") or {}
    for item in case.objects:
        if item.kind != "Pod" or item.name not in pods:
            continue
        notes = mapping(item.body, "metadata", "annotations")
        for key in _REQUIRED:
            label = notes.get(key)
            level = label_level(label) if isinstance(label, str) else None
            if level is None:
                continue
            if any(level.hierarchy == domain.hierarchy and level.kind == domain.kind for domain in placed.domains):
                return level.kind
    return ""


def _slower(case: Case, runs: list[tuple[dict[str, Any], _Spread]]) -> float:
    """How much longer the last run's steps take than those of an earlier one on fewer domains; 0 if that is not known."""
    last, placed = runs[-1]
    now = _step_time(case, last)
    earlier = [
        time
        for run, other in runs[:-1]
        if len(other.domains) < len(placed.domains)
        and len(run["nodes"]) == len(last["nodes"])
        and (time := _step_time(case, run)) > 0
    ]
    ratio = now / min(earlier) if earlier and now > 0 else 0.0
    return ratio if ratio >= SLOWER else 0.0


def _step_time(case: Case, run: dict[str, Any]) -> float:
    """Median seconds of a step within a run; 0 if too few are known."""
    started, ended = run.get("started", NO_TIME), run.get("ended", NO_TIME)
    if started == NO_TIME:
        return 0.0
    said = [*progress_points(case), *points_aside(case, run.get("job"))]
    points = [p for p in said if p.ts >= started and (ended == NO_TIME or p.ts <= ended)]
    most = Counter(p.event.rank for p in points).most_common(1)
    points = [p for p in points if most and p.event.rank == most[0][0]]
    times = [p.step_time for p in points if p.step_time]
    if len(times) < _ENOUGH:
        steps = [(p.ts, p.step) for p in points if p.step is not None]
        times = [(b - a) / 1e9 / (n - m) for (a, m), (b, n) in zip(steps, steps[1:], strict=False) if n > m and b > a]
    return median(times) if len(times) >= _ENOUGH else 0.0
