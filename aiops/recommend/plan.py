"""Playbook ∩ facts → actions: what to do, in order, with the exact commands."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from aiops.catalog.model import Catalog, Step
from aiops.config import Settings
from aiops.correlate.model import IncidentDraft, Suspect
from aiops.model.case import Case
from aiops.model.entity import NO_MACHINE
from aiops.model.finding import Role
from aiops.model.report import DISRUPTIVE, ActionName
from aiops.recommend.checkpoint import Choice, choose_checkpoint
from aiops.recommend.naming import named_for
from aiops.recommend.render import kubernetes, names, slurm
from aiops.recommend.state import JobNow, already_out, job_now
from aiops.recommend.target import Target

_RESTART = frozenset(
    {"requeue", "requeue_excluding_node", "hold_job", "restore_checkpoint", "restore_earlier_checkpoint"}
)
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
    done: bool = False
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
    now = job_now(case, incident)
    # A run of a loop ends as the ones before it did; one that is admitted again may still never get ready.
    loops = incident.best.failure.id in ("sch.crash_loop", "sch.podsready_timeout")
    if now.running and not loops and not set(now.nodes) & set(nodes):
        verdict, why = "not_needed", f"The job already runs again{f' on {_listing(now.nodes)}' if now.nodes else ''}."
    elif all(finding.sign == "train.slow" for finding in best.causes):
        verdict, why = "not_needed", "Nothing shows that the job ended: it goes on, slower than before."
    elif now.queued and verdict == "same_nodes":
        why = "The scheduler has already put the job back into the queue."
    facts = _facts(case, incident, choice, nodes)
    actions: list[PlannedAction] = []
    for step in _steps(catalog, incident, nodes):
        if verdict == "not_needed" and step.action in _RESTART:
            continue
        if step.action in _RESTART and (now.running or (now.queued and step.action != "requeue_excluding_node")):
            continue
        if not all(_holds(need, facts) for need in step.needs):
            continue
        if step.action == "requeue" and verdict != "same_nodes":
            continue
        if ActionName(step.action) in DISRUPTIVE and not _may_touch_nodes(incident):
            continue
        targets = nodes if ActionName(step.action) in DISRUPTIVE and nodes else [suspect.node]
        actions += [_action(case, incident, step, node, nodes, choice, facts, now) for node in targets]
    actions = _without_repeats(actions)
    exclude = named_for(case, incident.scope.scheduler, nodes) if verdict == "exclude_nodes" else []
    return Plan(verdict, exclude, why, choice, actions)


def _steps(catalog: Catalog, incident: IncidentDraft, nodes: list[str]) -> list[Step]:
    """The playbook of the class, with the reset or reboot that the driver itself asks for (Xid 154) if it has none."""
    best = incident.best
    name = "replace_node_reset" if best.follows_gpu else best.failure.playbook
    if best.suspect.members and best.suspect.kind == "switch":
        name = "fix_switch"  # also for an NVLink switch of many nodes: no node of them is replaced for it
    if best.suspect.members and best.suspect.kind == "facility" and best.failure.culprit != "facility":
        name = "cool_domain"  # heat of a whole row
    steps = list(catalog.playbooks[name].steps)
    wanted = next((str(f.fields["recovery"]) for f in best.causes if f.fields.get("recovery")), "")
    asked = "reboot_node" if "eboot" in wanted else "reset_gpu" if "eset" in wanted else ""
    if asked and nodes and all(step.action not in (asked, "reboot_node") for step in steps):
        why = f"The driver asks for it: {wanted} (Xid 154). Only after the node is drained."
        at = next((i for i, step in enumerate(steps) if step.action == "investigate"), len(steps))
        steps.insert(at, Step(asked, why, needs=("node",), risk="high", approval=True))
    return steps


def _may_touch_nodes(incident: IncidentDraft) -> bool:
    """A node is taken out only if the verdict stands and says that the fault stays with it."""
    best = incident.best
    if incident.verdict != "incident":
        return False
    if best.suspect.members:
        return False  # the nodes on a switch or a feed are victims, however many they are
    return best.follows_gpu or best.failure.requeue == "exclude_nodes" or not best.failure.explains_death


def _without_repeats(actions: list[PlannedAction]) -> list[PlannedAction]:
    """Slurm has one command for cordon and drain: of two actions with the same commands the stronger word stands, at the first place."""
    kept: list[PlannedAction] = []
    for action in actions:
        twin = next(
            (
                k
                for k in kept
                if (action.commands and k.commands == action.commands)
                or (action.done and k.done and k.target.node == action.target.node)
            ),
            None,
        )
        if twin is None:
            kept.append(_without_said(action, kept))
        elif action.action == ActionName.DRAIN_NODE:
            kept[kept.index(twin)] = action
    return kept


def _without_said(action: PlannedAction, before: list[PlannedAction]) -> PlannedAction:
    """Where both schedulers' commands stand, a drain repeats of its cordon only what differs."""
    cordon = next(
        (k for k in before if k.action == ActionName.CORDON_NODE and k.target.node == action.target.node), None
    )
    if action.action == ActionName.DRAIN_NODE and cordon is not None:
        action.commands = [c for c in action.commands if c not in cordon.commands]
        action.undo = [c for c in action.undo if c not in cordon.undo]
    return action


def _nodes_to_leave(incident: IncidentDraft) -> list[str]:
    kinds = ("gpu", "node", "link", "switch")
    nodes = [
        s.node
        for s in incident.suspects
        if s.node and (s.kind in kinds or incident.best.failure.requeue == "exclude_nodes")
    ]
    if incident.best.failure.requeue == "exclude_nodes" and incident.best.causes[0].fields.get("elsewhere"):
        nodes += incident.best.suspect.members
    return list(dict.fromkeys(n for n in nodes if names.host(n)))


def _requeue(incident: IncidentDraft, nodes: list[str]) -> tuple[str, str]:
    verdict = "exclude_nodes" if incident.best.follows_gpu else _own_requeue(incident) or incident.best.failure.requeue
    suspect = incident.best.suspect
    if verdict == "exclude_nodes" and suspect.members:
        if nodes and not suspect.name:
            return verdict, f"{len(nodes)} nodes failed together; run on others until what they share is repaired."
        if nodes:
            return verdict, f"{len(nodes)} nodes hang on {_domain(incident)}; run outside of it until it is repaired."
        return (
            verdict,
            f"All known nodes hang on {_domain(incident)}: it has to be repaired, or the job moved elsewhere.",
        )
    if verdict == "exclude_nodes":
        if nodes:
            return verdict, f"The fault stays with {', '.join(nodes)}; everything else may be used."
        return verdict, "The fault is in a node, but the evidence does not name it: find it before the job goes back."
    if verdict == "fix_first" and incident.best.failure.culprit == "scheduler":
        return verdict, "It does not start on any node until this is resolved."
    if verdict == "fix_first":
        return verdict, "It fails again on any node until the cause is fixed."
    if verdict == "not_needed":
        return verdict, "Nothing has to be requeued."
    return verdict, "Nothing in the evidence speaks against the same nodes."


def _own_requeue(incident: IncidentDraft) -> str:
    """What the cause that decides says itself: one class may hold faults that pass and faults that stay."""
    head = incident.best.causes[0]
    signs = [sign for sign in incident.best.failure.causes if sign.matches(head.sign, head.fields)]
    return max(signs, key=lambda sign: sign.weight).requeue if signs else ""


def _domain(incident: IncidentDraft) -> str:
    """The switch, rack or feed at fault with its kind."""
    name = incident.best.suspect.name or ""
    kind = incident.best.suspect.kind
    return f"switch {name}" if kind == "switch" and " " not in name else name or f"the {kind}"


def _facts(case: Case, incident: IncidentDraft, choice: Choice, nodes: list[str]) -> dict[str, object]:
    suspect = incident.best.suspect
    head = incident.best.causes[0]
    stack = _stack(incident)
    earlier = choice.checkpoint is not None and choice.rule in ("C1", "C5", "C4")
    return {
        "node": suspect.node or (_listing(tuple(nodes)) if suspect.members and nodes else None),
        "gpu": suspect.pci or suspect.gpu,
        "job": incident.scope.job,
        "checkpoint": choice.checkpoint.name if choice.checkpoint else None,
        "earlier_checkpoint": earlier,
        "refused": f"none of the {len(choice.refused)} that are known can be trusted"
        if choice.refused
        else "the evidence names none",
        "recorder": bool(case.flight.dumps),
        "name": suspect.name or head.name or _nameless(incident),
        "switch": _domain(incident) if suspect.kind == "switch" and suspect.name else None,
        "pci": names.pci(suspect.pci) or (str(suspect.gpu) if suspect.gpu is not None else "<GPU index>"),
        "stack": stack,
        "where": stack or head.text.rstrip("."),
        "remedy": f". {remedy}" if (remedy := incident.best.failure.remedy) else "",
        "fix": _fix(incident),
        "evidence": head.text,
        "missing": "; ".join(incident.best.open_questions) or "logs of the ranks and nodes around the end of the job",
    }


def _nameless(incident: IncidentDraft) -> str:
    if incident.best.failure.culprit != "storage":
        return "what the evidence names"
    full = {f.name for f in incident.findings if f.sign == "sto.df_full" and f.name}
    return full.pop() if len(full) == 1 else "the storage named in the evidence"


def _stack(incident: IncidentDraft) -> str | None:
    """The user's line, if a stack names it."""
    suspect = incident.best.suspect
    for finding in [*incident.best.causes, *incident.best.explained]:
        own = suspect.rank is None or not finding.ranks or suspect.rank in finding.ranks
        if finding.fields.get("file") and finding.role != Role.ECHO and own:
            return f"{finding.fields['file']}:{finding.fields['line']} in {finding.fields['function']}: {finding.fields['type']}"
    return None


def _fix(incident: IncidentDraft) -> str:
    """What mends it, where the catalog knows it, and the sign that asks for it."""
    shown = incident.best.causes[0].text.rstrip(".")
    return f"{incident.best.failure.remedy or incident.best.failure.title + '.'} Shown by: {shown}."


def _holds(need: str, facts: dict[str, object]) -> bool:
    """A fact is known; ``no_`` in front asks for the opposite. GPU 0 is a known GPU."""
    if need.startswith("no_"):
        return not _holds(need.removeprefix("no_"), facts)
    return facts.get(need) not in (None, "", False) or type(facts.get(need)) is int


_SLOT = re.compile(r"\{(\w+)\}")


def _fill(text: str, facts: dict[str, object]) -> str:
    return _SLOT.sub(lambda match: str(f"<{match[1]}>" if facts.get(match[1]) is None else facts[match[1]]), text)


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
    now: JobNow,
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
        exclude=named_for(case, scope.scheduler, nodes),
        incident="inc1",
        code=incident.best.failure.id,
        failed_object=now.failed_object,
    )
    if action in DISRUPTIVE:
        facts = {**facts, "node": node}
    planned = PlannedAction(
        action,
        target,
        _fill(step.why, facts),
        risk=step.risk,
        approval=step.approval,
        checks=[
            _on_node(_fill(check, _checked(facts)), names.host(node))
            for check in step.check
            if "<" not in _fill(check, _checked(facts))
        ],
    )
    scheduler = _owner(case, scope.scheduler, node if action in DISRUPTIVE else None)
    if action in DISRUPTIVE and node and named_for(case, scope.scheduler, [node]) != [node]:
        # Slurm's node is drained, never the pod that it runs in; without a single name there is no command
        scheduler = scope.scheduler
        target.node = next(iter(named_for(case, scope.scheduler, [node])), None)
    if scheduler:
        planned.commands, planned.undo = _RENDER[scheduler](step.by or step.action, target)
        planned.scheduler = scheduler if planned.commands else None
    elif action in DISRUPTIVE:
        planned.commands, planned.undo = _either(step.action, target)
    # Kubernetes' cordon leaves the pods on the node; Slurm's drain is both
    out_by = (ActionName.CORDON_NODE,) if scheduler == "kubernetes" else (ActionName.CORDON_NODE, ActionName.DRAIN_NODE)
    out = already_out(incident, node) if node and action in out_by else ""
    if out:
        planned.done = True
        planned.commands, planned.undo, planned.approval, planned.risk = [], [], False, "none"
        planned.why = f"{out}. Keep it out until the fault is repaired."
    if action in DISRUPTIVE and node:
        on_node = [p for p in case.topology.ranks.values() if p.node == node]
        planned.gpus_hit = len(on_node) or None
        planned.jobs_hit = 1 if on_node else None
    if action in (ActionName.RESTORE_CHECKPOINT, ActionName.RESTORE_EARLIER_CHECKPOINT) and choice.checkpoint is None:
        planned.blocked_by.append(
            "no checkpoint that is known can be trusted" if choice.refused else "no checkpoint is named in the evidence"
        )
    return planned


def _either(action: str, target: Target) -> tuple[list[str], list[str]]:
    """Both schedulers' commands, each saying for whom it is: the evidence does not show who owns the node."""
    found: tuple[list[str], list[str]] = ([], [])
    for word, render in (("Slurm owns the node", slurm.commands), ("Kubernetes does", kubernetes.commands)):
        for kept, commands in zip(found, render(action, target), strict=True):
            kept += [
                f"{command}    # if {word}"
                for command in commands
                if command not in (c.split("    #")[0] for c in kept)
            ]
    return found


def _on_node(command: str, node: str | None) -> str:
    """A check says where it is to be run, and a disruptive one when."""
    if "    #" in command or node is None:
        return command
    return f"{command}    # on {node}{', only when it is drained' if ' diag ' in command else ''}"


def _listing(items: tuple[str, ...]) -> str:
    return ", ".join(items[:4]) + (f" and {len(items) - 4} more" if len(items) > 4 else "")


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
    if suspect.kind in NO_MACHINE:
        # the node is only where it showed
        if suspect.kind == "scheduler" and not suspect.name and suspect.job:
            return f"job {suspect.job}"
        return suspect.name or f"{NO_MACHINE[suspect.kind]}{where}"
    return suspect.node or suspect.name or suspect.kind.replace("_", " ")
