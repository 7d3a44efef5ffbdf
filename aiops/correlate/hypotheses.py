"""Hypotheses: every failure class that a finding is a sign of, scored by what it explains."""

from __future__ import annotations

from collections.abc import Mapping

from aiops.catalog.model import Catalog, FailureClass, Sign
from aiops.correlate.clocks import clock_uncertainty
from aiops.correlate.model import Hypothesis, JobScope, Suspect, Term
from aiops.correlate.scene import Scene
from aiops.correlate.scope import may_be_cause
from aiops.model.case import Case
from aiops.model.event import NO_TIME
from aiops.model.finding import Finding, Role

SECOND = 0.35
"""Share of its weight that a further sign of the same class adds: signs of one fault are not independent."""
MOST_SECOND = 2.0
EXPLAINED_ECHO = 0.15
EXPLAINED_ROOT = 0.5
UNEXPLAINED = 0.25
"""Share of the weight of the strongest finding left unexplained that is taken off."""
FIRST = 1.0
LATE = 1.5
OUTLIVED = 8.0
"""Taken off a fault that stops its job at once, where the job went on: it was another job's, or none's."""
HARMLESS = 1.5
"""Taken off a condition that ends no job, where a job ended."""
AFTERMATH_MARGIN_S = 30.0
"""A cause may be logged this long after its first effect: clocks and buffers."""
NODE_STATE = frozenset(
    {
        "sched.node_fail",
        "sched.node_reboot",
        "slurm.node_down",
        "host.reboot_seen",
        "host.unexpected_reboot",
        "host.agent_down",
    }
)
"""What a node shows of itself: trouble of another node does not bring it about."""
_NAMELESS = frozenset({"sched.walltime", "sched.node_fail"})
"""Their finding's name is a partition or queue, which is not at fault."""
_OF_ALL = frozenset({"user_code", "config", "data", "storage", "network", "scheduler"})
_OF_A_PROCESS = frozenset({"user_code", "data", "rank"})
_BY_PLACE = frozenset({"gpu", "node", "link"})

Key = tuple[str, str | None, str | None]


def build_hypotheses(
    case: Case, findings: list[Finding], scope: JobScope, catalog: Catalog, *, succeeded: bool = False
) -> list[Hypothesis]:
    """All hypotheses with their score terms, best first.

    Of a job that ``succeeded`` only signs count that are measured and stand despite the success.
    """
    signs: dict[Key, list[tuple[float, Finding]]] = {}
    for finding in findings:
        if not may_be_cause(finding, scope):
            continue
        for failure, cause in catalog.causes_by_sign.get(finding.sign, ()):
            if cause.matches(finding.sign, finding.fields) and (cause.despite_success or not succeeded):
                by_place = failure.culprit in _BY_PLACE
                key = (
                    failure.id,
                    finding.node if by_place else None,
                    finding.pci if failure.culprit == "gpu" else None,
                )
                signs.setdefault(key, []).append((cause.weight, finding))
    hypotheses = []
    merged = _merge_places(signs)
    scene = Scene(findings, scope, _strongest(merged), clock_uncertainty(case))
    for key, pairs in merged.items():
        failure = catalog.failures[key[0]]
        if scene.refuted(failure) or scene.survived(failure, [finding for _, finding in pairs]):
            scene.outlived.update(f.id for weight, f in pairs if weight >= scene.strongest[f.id])
    of_class: dict[str, set[str]] = {}
    for key, pairs in merged.items():
        of_class.setdefault(key[0], set()).update(finding.id for _, finding in pairs)
    for key, pairs in merged.items():
        pairs.sort(key=lambda pair: (-pair[0], pair[1].first == NO_TIME, pair[1].first, pair[1].id))
        hypotheses.append(_hypothesis(case, catalog.failures[key[0]], pairs, scene, of_class[key[0]]))
    hypotheses.sort(key=lambda h: (-round(h.score, 6), h.began == NO_TIME, h.began, h.failure.id, h.suspect.node or ""))
    return hypotheses


def _merge_places(signs: dict[Key, list[tuple[float, Finding]]]) -> dict[Key, list[tuple[float, Finding]]]:
    """A sign without PCI id (or node) joins the more precise hypothesis of its class and node, if there is just one."""
    merged = dict(signs)
    for key in sorted(signs, key=lambda k: (k[1] is not None, k[2] is not None)):
        failure, node, pci = key
        finer = [
            k
            for k in merged
            if k != key
            and k[0] == failure
            and (node is None or k[1] == node)
            and (pci is None)
            and (k[1] is not None or k[2] is not None)
            and (k[1], k[2]) != (node, pci)
            and (node is None or k[2] is not None)
        ]
        if pci is None and len(finer) == 1 and key in merged:
            merged[finer[0]] = merged[finer[0]] + merged.pop(key)
    return merged


def _strongest(signs: Mapping[Key, list[tuple[float, Finding]]]) -> dict[str, float]:
    """The highest weight that any class gives to a finding."""
    best: dict[str, float] = {}
    for pairs in signs.values():
        for weight, finding in pairs:
            best[finding.id] = max(best.get(finding.id, 0.0), weight)
    return best


def _hypothesis(
    case: Case, failure: FailureClass, pairs: list[tuple[float, Finding]], scene: Scene, of_class: set[str]
) -> Hypothesis:
    causes = [finding for _, finding in pairs]
    hypothesis = Hypothesis(failure, _suspect(case, failure, causes, scene.scope), causes)
    weight, head = pairs[0]
    hypothesis.terms.append(Term("sign", weight, head.text, (head.id,)))
    further: dict[str, tuple[float, Finding]] = {}
    for other_weight, finding in pairs[1:]:
        if finding.sign != head.sign:
            further.setdefault(finding.sign, (other_weight, finding))
    if further:
        value = min(MOST_SECOND, sum(SECOND * w for w, _ in further.values()))
        hypothesis.terms.append(
            Term(
                "further signs",
                value,
                "; ".join(f.text for _, f in further.values())[:300],
                tuple(f.id for _, f in further.values()),
            )
        )
    if failure.prior:
        hypothesis.terms.append(Term("prior", failure.prior, "how common this class is"))
    _explain(hypothesis, scene)
    _rank_from_followers(case, hypothesis, scene)
    _order_in_time(hypothesis, scene)
    _contradict(hypothesis, scene)
    _miss_predictions(case, hypothesis, scene)
    _leave_unexplained(hypothesis, scene, of_class)
    return hypothesis


def _explain(hypothesis: Hypothesis, scene: Scene) -> None:
    own = {finding.id for finding in hypothesis.causes}
    by_name, families = _effects(hypothesis.failure)
    for finding in scene.near:
        signs = (*by_name.get(finding.sign, ()), *families)
        if not signs or finding.id in own:
            continue
        if any(sign.matches(finding.sign, finding.fields) for sign in signs) and _related(hypothesis, finding):
            hypothesis.explained.append(finding)
    echoes = [f for f in hypothesis.explained if f.role != Role.ROOT]
    roots = [f for f in hypothesis.explained if f.role == Role.ROOT]
    if echoes:
        hypothesis.terms.append(
            Term(
                "explains followers",
                min(1.0, EXPLAINED_ECHO * len(echoes)),
                f"{len(echoes)} finding{'s' if len(echoes) > 1 else ''} that follow{'s' if len(echoes) == 1 else ''} from it",
                tuple(f.id for f in echoes[:12]),
            )
        )
    if roots:
        hypothesis.terms.append(
            Term(
                "explains other signs",
                min(1.5, EXPLAINED_ROOT * len(roots)),
                "; ".join(f.text for f in roots)[:300],
                tuple(f.id for f in roots[:12]),
            )
        )


def _related(hypothesis: Hypothesis, finding: Finding) -> bool:
    """A follower lies on the same GPU if it is about a GPU's own state, and never long before the cause."""
    if (
        finding.sign in ("metric.gpu_absent", "metric.row_remap_pending", "metric.ecc_dbe")
        and finding.pci
        and hypothesis.suspect.pci
        and finding.pci != hypothesis.suspect.pci
    ):
        return False
    suspect = hypothesis.suspect
    elsewhere = (
        suspect.node and finding.node and finding.node != suspect.node and suspect.kind in ("gpu", "node", "link")
    )
    if elsewhere and finding.sign in NODE_STATE:
        return False
    if finding.first == NO_TIME or finding.inexact or hypothesis.began == NO_TIME or finding.role != Role.ROOT:
        return True
    return finding.first >= hypothesis.began - AFTERMATH_MARGIN_S * 1e9


def _effects(failure: FailureClass) -> tuple[dict[str, list[Sign]], list[Sign]]:
    """The signs that a class may have as effects, by name, and those that mean a whole family."""
    by_name: dict[str, list[Sign]] = {}
    for sign in failure.effects:
        by_name.setdefault(sign.sign, []).append(sign)
    return by_name, [sign for sign in failure.effects if sign.sign.endswith(".*")]


def _order_in_time(hypothesis: Hypothesis, scene: Scene) -> None:
    harmless = not hypothesis.failure.explains_death and scene.ended
    if harmless:
        hypothesis.terms.append(
            Term("ends no job", -HARMLESS, "it is a condition that jobs survive, and this one ended")
        )
    began = hypothesis.began
    if began == NO_TIME:
        return
    own = {f.id for f in hypothesis.causes} | {f.id for f in hypothesis.explained}
    rivals = [f for f in scene.rivals if f.id not in own]
    failed = scene.failed
    head = next((f for f in hypothesis.causes if f.first == began), hypothesis.causes[0])
    # two events closer than their clocks agree have no order
    if not harmless and not any(f.first < began - scene.apart(f, head) * 1e9 for f in rivals):
        hypothesis.terms.append(Term("comes first", FIRST, "no other sign that it does not explain is earlier"))
    if failed != NO_TIME and began > failed + AFTERMATH_MARGIN_S * 1e9 and hypothesis.failure.explains_death:
        late = (began - failed) / 1e9
        hypothesis.terms.append(
            Term("comes late", -LATE, f"its first sign is {late:.0f} s after the job began to fail")
        )


def _contradict(hypothesis: Hypothesis, scene: Scene) -> None:
    for sign in hypothesis.failure.contradicts:
        finding = next(scene.matching(sign), None)
        if finding is not None:
            hypothesis.terms.append(Term("contradicted", -sign.weight, sign.why or finding.text, (finding.id,)))
            hypothesis.against.append(sign.why or finding.text)
    if not hypothesis.failure.explains_death:
        return
    end = max((f.last for f in hypothesis.causes if f.last != NO_TIME), default=NO_TIME)
    if survived := scene.survived(hypothesis.failure, hypothesis.causes):
        why = f"it stops a job within minutes, and this job began later and trained, up to {survived:.0f} s after it"
        hypothesis.outlived = True
        hypothesis.terms.append(Term("contradicted", -OUTLIVED, why, tuple(f.id for f in scene.progress)))
        hypothesis.against.append(why)
    elif end != NO_TIME and scene.progress and not scene.died:
        beyond = (max(f.last for f in scene.progress) - end) / 1e9
        if beyond > 120:
            why = f"training went on for {beyond:.0f} s after it"
            hypothesis.terms.append(Term("contradicted", -5.0, why, tuple(f.id for f in scene.progress)))
            hypothesis.against.append(why)


def _miss_predictions(case: Case, hypothesis: Hypothesis, scene: Scene) -> None:
    """What the class predicts and what is not there although the evidence that would show it was collected."""
    for sign in hypothesis.failure.effects:
        if not sign.expected or any(sign.matches(f.sign, f.fields) for f in scene.findings):
            continue
        seen_by = _would_show(case, hypothesis.suspect, sign.expected)
        if seen_by:
            why = f"{seen_by} would show {sign.sign}, and does not"
            hypothesis.terms.append(Term("predicted and missing", -(sign.weight or 1.0), why))
            hypothesis.against.append(why)


def _would_show(case: Case, suspect: Suspect, kind: str) -> str:
    """The collected evidence of a kind that would show an effect on the suspect, in words; empty if there is none."""
    if kind == "kernel":
        known = suspect.node in case.coverage.nodes_with_kernel_log
        return f"the kernel log of {suspect.node}" if suspect.node and known else ""
    if kind == "metrics":
        here = any(e.node == suspect.node for block in case.series for e in block.entities)
        return f"the metrics of {suspect.node}" if suspect.node and here else ""
    return f"the {kind} evidence" if case.coverage.sources.get(kind) else ""


def _leave_unexplained(hypothesis: Hypothesis, scene: Scene, of_class: set[str]) -> None:
    """``of_class`` are the signs of the same class, on other machines as well: those are the same fault."""
    own = {f.id for f in hypothesis.causes} | {f.id for f in hypothesis.explained} | of_class
    left = [f for f in scene.signs if f.id not in own and f.id not in scene.outlived]
    if not left:
        return
    worst = max(left, key=lambda f: (scene.strongest[f.id], f.id))
    value = -UNEXPLAINED * scene.strongest[worst.id]
    hypothesis.terms.append(Term("leaves unexplained", value, worst.text, tuple(f.id for f in left[:12])))
    hypothesis.against += [f"does not explain: {f.text}" for f in left[:3]]


def _suspect(case: Case, failure: FailureClass, causes: list[Finding], scope: JobScope) -> Suspect:
    head = causes[0]
    kind = "gpu" if head.fields.get("same_gpu") else str(head.fields.get("culprit") or failure.culprit)
    suspect = Suspect(kind, job=scope.job)
    suspect.members = tuple(head.fields.get("members", ()))
    for finding in causes:
        if finding.fields.get("all_ranks") or suspect.members:
            continue
        suspect.node = suspect.node or finding.node
        if finding.node is not None and finding.node != suspect.node:
            continue
        if failure.culprit in _OF_ALL and finding.detector == "signals" and len(finding.ranks) > 1:
            continue  # the same message of several ranks points at none of them
        suspect.pci = suspect.pci or finding.pci
        if finding.pci is not None and finding.pci != suspect.pci:
            continue
        suspect.gpu = finding.gpu if suspect.gpu is None else suspect.gpu
        suspect.uuid = suspect.uuid or finding.uuid
        suspect.rank = finding.rank if suspect.rank is None else suspect.rank
    suspect.name = head.name if head.sign not in _NAMELESS else None
    if suspect.kind == "gpu" and suspect.gpu is None and suspect.pci is None:
        suspect.kind = "node" if suspect.node else "gpu"
    _complete(case, suspect, hardware=failure.hardware)
    return suspect


def _rank_from_followers(case: Case, hypothesis: Hypothesis, scene: Scene) -> None:
    """The process on a faulty GPU is the one whose CUDA calls fail: if that is one rank, it is the culprit's rank.

    An error that no rank signed belongs to the one rank that ended by itself, if there is just one.
    """
    suspect = hypothesis.suspect
    if suspect.kind in _OF_A_PROCESS and suspect.rank is None and not hypothesis.causes[0].fields.get("all_ranks"):
        ended = {
            f.rank for f in hypothesis.explained if f.sign == "proc.exit" and f.fields.get("code") not in (-15, -6, 143)
        }
        if len(ended) == 1 and not hypothesis.causes[0].ranks:
            suspect.rank = next(iter(ended))
            place = case.topology.ranks.get(suspect.rank) if suspect.rank is not None else None
            suspect.node = suspect.node or (place.node if place else None)
    if suspect.kind not in ("gpu", "node") or suspect.rank is not None:
        return
    own = [f for f in (*hypothesis.causes, *hypothesis.explained) if f.sign.startswith("cuda.") and f.ranks]
    ranks = {rank for f in own or scene.cuda_errors for rank in f.ranks}
    if len(ranks) == 1:
        rank = next(iter(ranks))
        place = case.topology.ranks.get(rank)
        if place is None or place.node in (None, suspect.node):
            suspect.rank = rank


def _complete(case: Case, suspect: Suspect, *, hardware: bool) -> None:
    """Rank from GPU and GPU from rank, through the placements of the case."""
    topology = case.topology
    if (
        suspect.rank is None
        and suspect.node
        and (suspect.pci or suspect.gpu is not None)
        and suspect.kind in ("gpu", "rank")
    ):
        for place in topology.ranks.values():
            if place.node == suspect.node and (
                (suspect.pci and place.pci == suspect.pci)
                or (not place.pci and suspect.gpu is not None and place.gpu == suspect.gpu)
            ):
                suspect.rank = place.rank
                break
    if suspect.rank is not None:
        own = topology.ranks.get(suspect.rank)
        if own is not None and (suspect.node in (None, own.node)):
            suspect.node = suspect.node or own.node
            suspect.gpu = own.gpu if suspect.gpu is None else suspect.gpu
            suspect.pci = suspect.pci or own.pci
            suspect.uuid = suspect.uuid or own.uuid
    only = next(iter(topology.nodes)) if len(topology.nodes) == 1 else None
    if (
        suspect.node is None
        and only
        and not hardware
        and (topology.world_size or 1) <= 8
        and suspect.kind in ("node", "rank", "user_code", "gpu")
    ):
        suspect.node = only
    if suspect.gpu is None:
        suspect.gpu = topology.gpu_index(suspect.node, suspect.pci)
    if suspect.uuid is None and suspect.node and suspect.pci:
        suspect.uuid = topology.gpu_uuid.get((suspect.node, suspect.pci))
