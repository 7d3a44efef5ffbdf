"""Many facts about the pods of a gang become one finding: groups that collect, and end as findings."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from aiops.model.entity import is_host_name
from aiops.model.event import NO_TIME, Severity
from aiops.model.finding import EvidenceRef, Finding, Role

_EVIDENCE = 6


@dataclass(slots=True)
class Group:
    """Facts with the same sign about the same thing."""

    sign: str
    job: str | None = None
    role: Role = Role.ROOT
    severity: Severity = Severity.ERROR
    name: str | None = None
    fields: dict[str, Any] = field(default_factory=dict)
    nodes: dict[str, None] = field(default_factory=dict)
    pods: dict[str, None] = field(default_factory=dict)
    ranks: set[int] = field(default_factory=set)
    first: int = NO_TIME
    last: int = NO_TIME
    count: int = 0
    evidence: list[EvidenceRef] = field(default_factory=list)

    def note(
        self,
        evidence: EvidenceRef,
        *,
        ts: int = NO_TIME,
        first: int = NO_TIME,
        node: str | None = None,
        pod: str | None = None,
        ranks: Iterable[int] = (),
        count: int = 1,
    ) -> None:
        """Add one fact. Times are UTC ns."""
        self.count += count
        if node:
            self.nodes[node] = None
        if pod:
            self.pods[pod] = None
        self.ranks.update(ranks)
        for value in (first if first != NO_TIME else ts, ts):
            if value != NO_TIME:
                self.first = value if self.first == NO_TIME else min(self.first, value)
                self.last = max(self.last, value)
        self.evidence.append(evidence)

    def finding(self, message: str) -> Finding:
        """The group as a finding with this sentence."""
        # Names come from outside, and a node's name may end up in a command.
        nodes = tuple(node for node in self.nodes if is_host_name(node))
        ranks = tuple(sorted(self.ranks))
        fields = dict(self.fields)
        if self.pods:
            fields["pods"] = tuple(self.pods)
        unique: dict[tuple[str, int, str], EvidenceRef] = {}
        for ref in self.evidence:
            unique.setdefault((ref.source, ref.line, ref.text), ref)
        return Finding(
            sign=self.sign,
            text=message,
            role=self.role,
            severity=self.severity,
            first=self.first,
            last=self.last,
            node=nodes[0] if len(nodes) == 1 else None,
            nodes=nodes,
            rank=ranks[0] if len(ranks) == 1 else None,
            ranks=ranks,
            job=self.job,
            name=self.name,
            count=max(1, self.count),
            fields=fields,
            evidence=_spread(list(unique.values())),
        )


class Groups:
    """Groups by sign and key, in the order in which they were first met."""

    def __init__(self) -> None:
        self._groups: dict[tuple[object, ...], Group] = {}

    def get(self, sign: str, *key: object, make: Callable[[], Group] | None = None) -> Group:
        """The group of this sign and key; ``make`` builds it if it is new."""
        group = self._groups.get((sign, *key))
        if group is None:
            group = self._groups[(sign, *key)] = make() if make else Group(sign)
        return group

    def of(self, sign: str) -> list[Group]:
        """All groups of a sign."""
        return [group for key, group in self._groups.items() if key[0] == sign]

    def items(self, sign: str) -> list[tuple[tuple[object, ...], Group]]:
        """(key without the sign, group) of a sign."""
        return [(key[1:], group) for key, group in self._groups.items() if key[0] == sign]


def _spread(evidence: list[EvidenceRef]) -> list[EvidenceRef]:
    """The first and the last pieces, if there are too many."""
    if len(evidence) <= _EVIDENCE:
        return evidence
    return evidence[: _EVIDENCE - 2] + evidence[-2:]


def listing(names: Iterable[str], most: int = 4) -> str:
    """``a, b and 3 more``."""
    known = list(names)
    if len(known) <= most:
        return ", ".join(known)
    return ", ".join(known[:most]) + f" and {len(known) - most} more"


def amount(number: int, noun: str) -> str:
    """``1 pod``, ``3 pods``."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
