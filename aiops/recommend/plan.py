"""Playbook ∩ facts → actions: what to do, in order, with the exact commands."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from aiops.catalog.model import Catalog, Step
from aiops.config import Settings
from aiops.correlate.model import IncidentDraft, Suspect
from aiops.model.case import Case
from aiops.model.report import DISRUPTIVE, ActionName
from aiops.recommend.checkpoint import Choice, choose_checkpoint
from aiops.recommend.render import kubernetes, names, slurm
from aiops.recommend.target import Target

_RENDER = {"slurm": slurm.commands, "kubernetes": kubernetes.commands}
_ABOUT_JOB = frozenset(
    {
        "requeue",
        "requeue_excluding_node",
        "hold_job",
        "notify_owner",
        "wait",
        "release_gang",
        "adjust_quota",
        "restore_checkpoint",
        "restore_earlier_checkpoint",
    }
)


@dataclass(slots=True)
class PlannedAction:
    """One action before it is worded for the report."""

    action: ActionName
    target: Target
    why: str
    scheduler: str | None = None
    commands: list[str] = field(default_factory=list)
    undo: list[str] = field(default_factory=list)
    checks: list[str] = field(default_factory=list)
    risk: str = "none"
    approval: bool = False
    blocked_by: list[str] = field(default_factory=list)
    jobs_hit: int | None = None
    gpus_hit: int | None = None


@dataclass(slots=True)
class Plan:
    """Advice for one incident."""

    requeue: str
    exclude: list[str]
    requeue_why: str
    checkpoint: Choice
    actions: list[PlannedAction]


def recommend(case: Case, incident: IncidentDraft, catalog: Catalog, settings: Settings) -> Plan:
    """Decide the actions separately from the cause.

    A node is touched only on evidence about that node; names in commands are resolved entities that match their grammar.
    """
    choice = choose_checkpoint(case, incident)
    best = incident.best
    suspect = best.suspect
    nodes = _nodes_to_leave(incident)
    verdict, why = _requeue(incident, nodes)
    playbook = catalog.playbooks[best.failure.playbook]
    facts = _facts(incident, choice, nodes)
    actions: list[PlannedAction] = []
    for step in playbook.steps:
        if not all(_holds(need, facts) for need in step.needs):
            continue
        if step.action == "requeue" and verdict != "same_nodes":
            continue
        if ActionName(step.action) in DISRUPTIVE and verdict != "exclude_nodes" and best.failure.explains_death:
            continue
        targets = nodes if ActionName(step.action) in DISRUPTIVE and nodes else [suspect.node]
        actions += [_action(case, incident, step, node, nodes, choice, facts) for node in targets]
    actions = _without_repeats(actions)
    return Plan(verdict, nodes if verdict == "exclude_nodes" else [], why, choice, actions)


def _without_repeats(actions: list[PlannedAction]) -> list[PlannedAction]:
    """Slurm has one command for cordon and drain: of two actions with the same commands the stronger word stands, at the first place."""
    kept: list[PlannedAction] = []
    for action in actions:
        twin = next((k for k in kept if action.commands and k.commands == action.commands), None)
        if twin is None:
            kept.append(action)
        elif action.action == ActionName.DRAIN_NODE:
            kept[kept.index(twin)] = action
    return kept


def _nodes_to_leave(incident: IncidentDraft) -> list[str]:
    kinds = ("gpu", "node", "link", "switch")
    nodes = [
        s.node
        for s in incident.suspects
        if s.node and (s.kind in kinds or incident.best.failure.requeue == "exclude_nodes")
    ]
    return list(dict.fromkeys(n for n in nodes if names.host(n)))


def _requeue(incident: IncidentDraft, nodes: list[str]) -> tuple[str, str]:
    failure = incident.best.failure
    verdict = failure.requeue
    if verdict == "exclude_nodes":
        if nodes:
            return verdict, f"The fault stays with {', '.join(nodes)}; everything else may be used."
        return verdict, "The fault is in a node, but the evidence does not name it: find it before the job goes back."
    if verdict == "fix_first":
        return verdict, "It fails again on any node until the cause is fixed."
    if verdict == "not_needed":
        return verdict, "Nothing has to be requeued."
    return verdict, "Nothing in the evidence speaks against the same nodes."


def _facts(incident: IncidentDraft, choice: Choice, nodes: list[str]) -> dict[str, object]:
    suspect = incident.best.suspect
    head = incident.best.causes[0]
    earlier = choice.checkpoint is not None and choice.rule in ("C1", "C5", "C4")
    return {
        "node": suspect.node,
        "gpu": suspect.pci or suspect.gpu,
        "job": incident.scope.job,
        "no_job": incident.scope.job is None,
        "checkpoint": choice.checkpoint.name if choice.checkpoint else None,
        "earlier_checkpoint": earlier,
        "no_earlier_checkpoint": not earlier,
        "name": suspect.name or head.name or "the storage named in the evidence",
        "pci": names.pci(suspect.pci) or (str(suspect.gpu) if suspect.gpu is not None else "<GPU index>"),
        "where": _where(incident),
        "fix": _fix(incident),
        "missing": "; ".join(incident.best.failure.decides) or "logs of the ranks and nodes around the end of the job",
    }


def _where(incident: IncidentDraft) -> str:
    """The user's line, if a stack names it."""
    for finding in [*incident.best.causes, *incident.best.explained]:
        if finding.fields.get("file"):
            return f"{finding.fields['file']}:{finding.fields['line']} in {finding.fields['function']}: {finding.fields['type']}"
    return incident.best.causes[0].text


def _fix(incident: IncidentDraft) -> str:
    return f"{incident.best.failure.title}: {incident.best.causes[0].text}"


def _holds(need: str, facts: dict[str, object]) -> bool:
    return bool(facts.get(need)) or facts.get(need) == 0


_SLOT = re.compile(r"\{(\w+)\}")


def _fill(text: str, facts: dict[str, object]) -> str:
    return _SLOT.sub(lambda match: str(facts.get(match[1]) or f"<{match[1]}>"), text)


def _checked(facts: dict[str, object]) -> dict[str, object]:
    """The facts that may stand in a command: names that match their grammar, and nothing that a log has worded."""
    return {
        "pci": facts["pci"],
        "node": names.host(str(facts.get("node") or "")),
        "job": names.slurm_job(str(facts.get("job") or "")),
    }


def _action(
    case: Case,
    incident: IncidentDraft,
    step: Step,
    node: str | None,
    nodes: list[str],
    choice: Choice,
    facts: dict[str, object],
) -> PlannedAction:
    scope, suspect = incident.scope, incident.best.suspect
    action = ActionName(step.action)
    about_job = step.action in _ABOUT_JOB
    target = Target(
        node=None if about_job else node,
        gpu=None if about_job else suspect.gpu,
        pci=suspect.pci,
        job=scope.job if about_job or action not in DISRUPTIVE else None,
        name=scope.name,
        kind=scope.kind,
        namespace=scope.namespace,
        exclude=nodes,
        incident="inc1",
        code=incident.best.failure.id,
    )
    if action in DISRUPTIVE:
        facts = {**facts, "node": node}
    planned = PlannedAction(
        action,
        target,
        _fill(step.why, facts),
        risk=step.risk,
        approval=step.approval,
        checks=[_fill(check, _checked(facts)) for check in step.check],
    )
    scheduler = _owner(case, scope.scheduler, node if action in DISRUPTIVE else None)
    if scheduler:
        planned.commands, planned.undo = _RENDER[scheduler](step.action, target)
        planned.scheduler = scheduler if planned.commands else None
    elif action in DISRUPTIVE or step.action.startswith(("requeue", "hold")):
        planned.blocked_by.append(
            "the evidence does not show which scheduler owns the target, so no command is offered"
        )
    if action in DISRUPTIVE and node:
        on_node = [p for p in case.topology.ranks.values() if p.node == node]
        planned.gpus_hit = len(on_node) or None
        planned.jobs_hit = 1 if on_node else None
    if action in (ActionName.RESTORE_CHECKPOINT, ActionName.RESTORE_EARLIER_CHECKPOINT) and choice.checkpoint is None:
        planned.blocked_by.append("no checkpoint is named in the evidence")
    return planned


def _owner(case: Case, scheduler: str | None, node: str | None) -> str | None:
    """The scheduler that owns a node: the one whose own records name it, else the job's."""
    known = case.topology.node_kinds.get(node or "", set())
    if len(known) == 1:
        return next(iter(known))
    return scheduler


def describe_suspect(suspect: Suspect) -> str:
    """A culprit in words, for titles."""
    parts = []
    if suspect.kind == "gpu" and (suspect.gpu is not None or suspect.pci):
        parts.append(f"GPU {suspect.gpu if suspect.gpu is not None else suspect.pci}")
    if suspect.kind == "link" and suspect.name:
        parts.append(f"port {suspect.name}")
    if suspect.rank is not None:
        parts.append(f"rank {suspect.rank}")
    where = f" on {suspect.node}" if suspect.node else ""
    if parts:
        return f"{', '.join(parts)}{where}"
    if suspect.node:
        return suspect.node
    return suspect.name or suspect.kind.replace("_", " ")
