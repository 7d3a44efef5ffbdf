"""Several nodes in trouble at once that hang on one thing, while others do not: the thing is at fault, not the nodes.

Works on the findings of the other detectors, since the pattern lies between them (taxonomy, decision rule 2).
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import dataclass

from aiops.detect.domain_symptoms import Family, Symptoms, observed, symptoms
from aiops.model.case import Case
from aiops.model.domains import Domain, Hierarchy
from aiops.model.event import Severity
from aiops.model.finding import EvidenceRef, Finding, Role

MOST = 0.6
"""Share of the observed members that must show it; all of them if there are only two."""
STRAYS = 0.2
"""Nodes outside that show it at the same time, as a share of those inside, from which on it is no domain."""
_PLACES = frozenset({"chassis", "rack", "row", "room", "hall"})
"""Physical domains that one feed or one cooling loop can take down; a zone is none."""
_ORDER = {Hierarchy.NETWORK: 0, Hierarchy.NVLINK: 0, Hierarchy.POWER: 0, Hierarchy.PHYSICAL: 1}
_EVIDENCE = 8


@dataclass(frozen=True, slots=True)
class _Fit:
    """How well a domain fits the nodes in trouble."""

    domain: Domain
    family: Family
    hit: dict[str, Finding]
    first: int
    last: int
    members: frozenset[str]
    healthy_inside: frozenset[str]
    healthy_outside: frozenset[str]
    strays: frozenset[str]

    @property
    def unseen(self) -> list[str]:
        """Members without evidence of this kind."""
        return sorted(self.members - self.hit.keys() - self.healthy_inside)

    @property
    def chance(self) -> float:
        """Probability that at least so many of the nodes in trouble hang on this domain if they were drawn at random
        from all observed nodes (hypergeometric tail)."""
        bad = len(self.hit) + len(self.strays)
        inside = len(self.hit) + len(self.healthy_inside)
        all_nodes = bad + len(self.healthy_inside) + len(self.healthy_outside)
        ways = math.comb(all_nodes, bad)
        most = min(bad, inside)
        tail = sum(
            math.comb(inside, k) * math.comb(all_nodes - inside, bad - k) for k in range(len(self.hit), most + 1)
        )
        return tail / ways


def shared_domains(case: Case, findings: list[Finding]) -> list[Finding]:
    """``topology.switch``, ``topology.nvlink`` and ``topology.power`` (all ROOT), each naming a domain.

    Fields: ``members`` (all nodes of the domain), ``shown`` (``own`` if the nodes' own records tell, ``gone`` if they
    only stopped answering), ``covered`` (``most`` or ``few`` of the members have evidence), ``open`` (what would decide).
    Also completes findings in which a monitor names a domain, and takes back ``net.switch_down`` where the tree shows
    that the ports hang on different switches whose other hosts are well.
    """
    _named_by_monitors(case, findings)
    if not case.topology.tree.edges:
        return []
    found: list[Finding] = []
    seen = symptoms(case, findings)
    for sign, families, hierarchies in (
        ("topology.power", (Family.POWER, Family.GONE), (Hierarchy.POWER, Hierarchy.PHYSICAL)),
        ("topology.nvlink", (Family.NVLINK,), (Hierarchy.NVLINK,)),
        ("topology.switch", (Family.LINKS, Family.GONE), (Hierarchy.NETWORK,)),
    ):
        for family in families:
            ties = _best(case, seen[family], seen[Family.GONE], hierarchies, observed(case, family, findings))
            if ties:
                back = seen[Family.POWER] if family == Family.GONE and sign == "topology.power" else None
                found.append(_finding(case, sign, ties, back))
                break
    switch = next((finding for finding in found if finding.sign == "topology.switch"), None)
    _take_back(case, findings, seen[Family.LINKS], observed(case, Family.LINKS, findings), switch)
    return found


def _best(
    case: Case, seen: Symptoms, gone: Symptoms, hierarchies: tuple[Hierarchy, ...], known: set[str]
) -> list[_Fit]:
    """The domain that fits best, with those that fit just as well behind it."""
    tree = case.topology.tree
    if len(seen.by_node) < 2:
        return []
    fits = []
    candidates = {domain for node in seen.by_node for domain in tree.above(node) if domain.hierarchy in hierarchies}
    for domain in sorted(candidates):
        if domain.hierarchy == Hierarchy.PHYSICAL and domain.kind not in _PLACES:
            continue
        if seen.family == Family.LINKS and tree.height(domain) > 0:
            continue  # a port goes down with the switch at its other end, not with one further up
        fit = _fit(case, seen, gone, domain, known)
        if fit is not None:
            fits.append(fit)
    fits.sort(key=lambda f: (-len(f.hit), _ORDER[f.domain.hierarchy], len(f.members), tree.height(f.domain), f.domain))
    return [fit for fit in fits if fits and fit.hit.keys() == fits[0].hit.keys()]


def _fit(case: Case, seen: Symptoms, gone: Symptoms, domain: Domain, known: set[str]) -> _Fit | None:
    members = case.topology.tree.members(domain)
    hit, first, last = seen.within(members, _on_port(case, domain))
    if len(hit) < 2:
        return None
    bad = seen.near(first, last)
    if seen.family in (Family.LINKS, Family.POWER):
        # a node that stopped answering at that time is not well, and may have lost the same thing
        silent = gone.near(first, last)
        bad |= silent
        hit.update({node: gone.by_node[node][0][1] for node in sorted((silent & members) - hit.keys())})
    inside = frozenset((known & members) - hit.keys())
    strays = frozenset(bad - members)
    outside = frozenset(known - members - bad)
    needed = 1.0 if len(hit) == 2 else MOST
    if len(hit) < needed * (len(hit) + len(inside)) or len(strays) > STRAYS * len(hit):
        return None
    if not outside and (strays or _only_one(case, domain)):
        # nothing to compare with: the domain is all that is known
        return None
    return _Fit(domain, seen.family, hit, first, last, members, inside, outside, strays)


def _on_port(case: Case, domain: Domain) -> Callable[[str, Finding], bool]:
    """Whether a finding is about the port of a node that leads to this domain; where ports are not known, it may be."""
    tree = case.topology.tree

    def suits(node: str, finding: Finding) -> bool:
        nic = finding.fields.get("nic")
        ports = {edge.port: edge.parent for edge in tree.parents(node) if edge.port}
        return nic not in ports or any(edge.port == nic and edge.parent == domain for edge in tree.parents(node))

    return suits


def _only_one(case: Case, domain: Domain) -> bool:
    """Below the domain lie others that would do as well: a root of everything explains nothing."""
    tree = case.topology.tree
    return tree.height(domain) > 0 and tree.members(domain) >= set(tree.nodes())


_WORDS = {
    Family.LINKS: "lost ports",
    Family.NVLINK: "report NVLink faults",
    Family.POWER: "lost power or rebooted",
    Family.GONE: "stopped answering",
}


def _finding(case: Case, sign: str, ties: list[_Fit], power: Symptoms | None) -> Finding:
    """``power`` are reboots: a node that went and came back with another boot was off, and not only cut off."""
    fit = ties[0]
    rebooted = sorted(
        node for node in fit.hit if power and any(ts >= fit.first for ts, _ in power.by_node.get(node, ()))
    )
    domain = fit.domain
    nodes = sorted(fit.hit)
    inside = len(fit.hit) + len(fit.healthy_inside)
    share = f"all {inside}" if not fit.healthy_inside else f"{len(nodes)} of {inside}"
    others = len(fit.healthy_outside)
    elsewhere = f"none of {others} other nodes did" if others and not fit.strays else ""
    if fit.strays:
        elsewhere = f"so did {len(fit.strays)} of {others + len(fit.strays)} other nodes"
    text = (
        f"{share[:1].upper()}{share[1:]} observed nodes on {domain} {_WORDS[fit.family]} within "
        f"{max(1, math.ceil((fit.last - fit.first) / 1e9))} s ({_listing(nodes)})"
        + (f"; {elsewhere}" if elsewhere else "")
    )
    if rebooted:
        text += f"; {_listing(rebooted)} came back with another boot"
    if fit.unseen:
        text += f"; of {len(fit.unseen)} of its nodes there is no evidence"
    same = [str(other.domain) for other in ties[1:] if other.members == fit.members]
    twins = [other.domain for other in ties if other.members == fit.members and other.domain.kind == domain.kind]
    members = tuple(sorted(_called(case, name) for name in fit.members))
    return Finding(
        sign=sign,
        text=text,
        role=Role.ROOT,
        severity=Severity.FATAL,
        first=fit.first,
        last=fit.last,
        nodes=tuple(_called(case, node) for node in nodes),
        name=" or ".join(_short(twin) for twin in twins[:4]),
        count=len(nodes),
        fields={
            "domain": str(domain),
            "members": members,
            "affected": len(nodes),
            "shown": "gone" if fit.family == Family.GONE and not rebooted else "own",
            "covered": "most" if _sure(case, fit, twins) else "few",
            "elsewhere": bool(set(case.topology.tree.nodes()) - fit.members),
            "unseen": tuple(fit.unseen),
            "seen_share": round(1 - len(fit.unseen) / max(1, len(members)), 3),
            "same": tuple(same),
            "chance": round(fit.chance, 4),
            "open": tuple(_open(fit, same, silent=fit.family == Family.GONE and not rebooted)),
        },
        evidence=_evidence(case, fit),
    )


def _called(case: Case, node: str) -> str:
    """A node as logs and schedulers call it; an inventory may write its DNS domain, or leave it out."""
    known = case.topology.nodes
    short = node.split(".", 1)[0]
    return node if node in known else short if short in known else node


def _sure(case: Case, fit: _Fit, twins: list[Domain]) -> bool:
    """Most of the domain is known, one domain alone fits, and there is something to compare it with: nodes elsewhere, or
    the other ports of the same nodes."""
    tree = case.topology.tree
    by_port = all(
        any(edge.port and edge.port == finding.fields.get("nic") for edge in tree.parents(node))
        for node, finding in fit.hit.items()
    )
    one = len(twins) < 2 or fit.domain.kind != "switch"
    return len(fit.unseen) * 2 <= len(fit.members) and one and bool(fit.healthy_outside or by_port)


def _short(domain: Domain) -> str:
    """A name that people call it by; the report says ``switch`` itself."""
    return domain.name if domain.kind == "switch" else str(domain)


def _open(fit: _Fit, same: list[str], *, silent: bool) -> list[str]:
    """What would decide whether the domain is at fault."""
    asked = []
    if fit.unseen:
        asked.append(f"The state of {_listing(fit.unseen)}: also on {fit.domain}, and without evidence")
    if not fit.healthy_outside:
        asked.append(f"Whether nodes outside of {fit.domain} were hit as well: none is in the evidence")
    if same:
        asked.append(f"Whether it is {fit.domain} or {' or '.join(same[:3])}: the same nodes hang on them")
    if silent:
        asked.append(
            f"Power state and uptime of {_listing(sorted(fit.hit))} from their BMCs: off, or cut off from the network?"
        )
    return asked


def _evidence(case: Case, fit: _Fit) -> list[EvidenceRef]:
    """One line of each node first, then the lines that put them on the domain."""
    own: dict[tuple[str, int, str], EvidenceRef] = {}
    for node in sorted(fit.hit, key=lambda name: (fit.hit[name].first, name)):
        for ref in fit.hit[node].evidence[:1]:
            own.setdefault((ref.source, ref.line, ref.text), ref)
    return [*list(own.values())[:_EVIDENCE], *case.topology.tree.proofs(fit.domain, fit.hit)[:_EVIDENCE]]


def _listing(names: list[str], most: int = 6) -> str:
    shown = ", ".join(names[:most])
    return shown if len(names) <= most else f"{shown} and {len(names) - most} more"


def _named_by_monitors(case: Case, findings: list[Finding]) -> None:
    """A monitor that names a switch, a rack or a feed: the tree knows which nodes hang on it."""
    tree = case.topology.tree
    wanted: tuple[Hierarchy, ...]
    for finding in findings:
        if finding.sign == "net.switch_down":
            said, wanted = str(finding.fields.get("switch") or ""), (Hierarchy.NETWORK,)
        elif finding.sign == "pwr.domain_event" and not finding.fields.get("measured"):
            said = " ".join([str(finding.fields.get("what") or ""), *(ref.text for ref in finding.evidence)])
            wanted = (Hierarchy.POWER, Hierarchy.PHYSICAL)
            finding.node = None  # the host of a monitor is not what its line is about
        else:
            continue
        named = [
            domain
            for domain in tree.domains()
            if domain.hierarchy in wanted
            and (domain.hierarchy != Hierarchy.PHYSICAL or domain.kind in _PLACES)
            and re.search(rf"(?<![\w-]){re.escape(domain.name)}(?![\w-])", said, re.IGNORECASE)
            and (not domain.name.isdecimal() or domain.kind.lower() in said.lower())
        ]
        named = [domain for domain in named if domain.hierarchy == named[0].hierarchy]
        if len(named) != 1:
            continue
        domain = named[0]
        members = sorted(tree.members(domain))
        called = tuple(_called(case, name) for name in members)
        finding.name = _short(domain)
        finding.nodes = called
        finding.fields = {
            **finding.fields,
            "domain": str(domain),
            "members": called,
            "elsewhere": len(members) < len(tree.nodes()),
        }
        finding.evidence = [*finding.evidence, *tree.proofs(domain, members)[:3]]


def _take_back(case: Case, findings: list[Finding], links: Symptoms, known: set[str], switch: Finding | None) -> None:
    """Ports of several hosts that went down together, but on different switches whose other hosts are well."""
    tree = case.topology.tree
    for finding in findings:
        if finding.sign != "net.switch_down" or finding.fields.get("switch") or finding.fields.get("members"):
            continue
        hosts = [tree.node(name) for name in finding.nodes]
        if switch is not None and {host for host in hosts if host} & set(switch.nodes):
            continue
        above = [
            {edge.parent for edge in tree.parents(host) if edge.parent.hierarchy == Hierarchy.NETWORK}
            if host
            else set()
            for host in hosts
        ]
        if not all(above) or set.intersection(*above):
            continue
        well = known - links.by_node.keys()
        if all(any(tree.members(domain) & well for domain in domains) for domains in above):
            leaves = sorted({domain.name for domains in above for domain in domains})
            finding.role, finding.severity = Role.CONTEXT, Severity.WARNING
            finding.text += f" — but they hang on different switches ({_listing(leaves)}), whose other hosts are well"
            finding.evidence = [
                *finding.evidence,
                *(
                    ref
                    for domains, host in zip(above, hosts, strict=True)
                    if host
                    for ref in tree.proofs(min(domains), [host])[:1]
                ),
            ][:_EVIDENCE]
