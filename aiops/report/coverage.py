"""What was read, what could not be, and what nobody collected."""

from __future__ import annotations

from aiops.correlate.model import IncidentDraft
from aiops.detect.checkpoint_join import known_checkpoints
from aiops.model import report as r
from aiops.model.case import Case
from aiops.model.clock import iso
from aiops.model.event import NO_TIME, Severity
from aiops.model.finding import Finding, Role


def build_coverage(case: Case, findings: list[Finding], incidents: list[IncidentDraft]) -> r.CoverageReport:
    """Sources, problems and gaps of a case; sources sorted by name."""
    sources = sorted(case.sources, key=lambda s: s.name)
    firsts = [s.first_ts for s in sources if s.first_ts > 0]
    lasts = [s.last_ts for s in sources if s.last_ts > 0]
    coverage = case.coverage
    return r.CoverageReport(
        sources=[
            r.SourceItem(
                name=s.name,
                kind=s.kind,
                format=s.format,
                node=s.node,
                rank=s.rank,
                bytes=s.size,
                lines=s.lines,
                first=iso(s.first_ts),
                last=iso(s.last_ts),
            )
            for s in sources[:2000]
        ],
        kinds=dict(sorted(coverage.sources.items())),
        problems=[
            r.ProblemItem(source=p.source, reason=p.reason, line=p.line)
            for p in sorted(coverage.problems, key=lambda p: (p.source, p.reason))[:500]
        ],
        missing=_missing(case, incidents),
        nodes=sorted(case.topology.nodes)[:1000],
        world_size=case.topology.world_size,
        ranks_seen=len(coverage.ranks_with_log) or None,
        jobs=[
            r.JobItem(id=j.id, name=j.name, scheduler=j.scheduler, state=j.state, nodes=list(j.nodes)[:64], gpus=j.gpus)
            for j in sorted(case.jobs, key=lambda j: (j.id, j.started if j.started != NO_TIME else 0))[:200]
        ],
        first=iso(min(firsts)) if firsts else None,
        last=iso(max(lasts)) if lasts else None,
        notes=[*_elsewhere(findings, incidents), *case.notes],
        series=_curves(case, incidents),
    )


def _elsewhere(findings: list[Finding], incidents: list[IncidentDraft]) -> list[str]:
    """Fatal faults of machines that are no part of the job: no cause of its failure, but somebody should know."""
    told = {f.id for draft in incidents for f in draft.findings}
    fatal = [f for f in findings if f.role == Role.ROOT and f.severity == Severity.FATAL and f.id not in told]
    return [f"a separate matter, not of this job: {f.text}" for f in fatal[:6]] if incidents else []


def _missing(case: Case, incidents: list[IncidentDraft]) -> list[str]:
    """Evidence that would have helped and is not there."""
    kinds = case.coverage.sources
    missing = []
    nodes = {place.node for place in case.topology.ranks.values() if place.node}
    if not kinds.get("kernel"):
        missing.append("no kernel or system log of any node (hardware faults would not be seen)")
    elif without := sorted(nodes - case.coverage.nodes_with_kernel_log - _kernel_nodes(case)):
        missing.append(f"no kernel log of {', '.join(without[:8])}{' …' if len(without) > 8 else ''}")
    if not kinds.get("training"):
        missing.append("no output of the job itself")
    elif case.topology.world_size and len(case.coverage.ranks_with_log) < case.topology.world_size:
        missing.append(f"output of {len(case.coverage.ranks_with_log)} of {case.topology.world_size} ranks only")
    measured = {entity.node for block in case.series for entity in block.entities if entity.node}
    if not kinds.get("metrics"):
        missing.append("no GPU metrics")
    elif measured and (without := sorted((nodes | _job_nodes(incidents)) - measured)):
        missing.append(f"no GPU metrics of {', '.join(without[:8])}{' …' if len(without) > 8 else ''}")
    if not (kinds.get("slurm") or kinds.get("kubernetes") or kinds.get("scheduler")):
        missing.append("nothing from the scheduler")
    if not known_checkpoints(case) and kinds.get("training"):
        missing.append("no trace of a checkpoint in logs or listings")
    return missing


def _job_nodes(incidents: list[IncidentDraft]) -> set[str]:
    return set(incidents[0].scope.nodes) if incidents else set()


def _kernel_nodes(case: Case) -> set[str]:
    """Nodes whose lines stand in a kernel log, also in one that several nodes share."""
    kernel = {source.index for source in case.sources if source.kind == "kernel"}
    return {event.node for event in case.events if event.node and event.source in kernel}


def _curves(case: Case, incidents: list[IncidentDraft]) -> list[dict[str, object]]:
    if not case.series or not incidents:
        return []
    from aiops.report.curves import curves

    return curves(case, incidents[0])
