"""Which of a model's claims stand: decided by code, from the text that the model was shown.

A claim stands if it cites something that exists, quotes literally, names nothing and counts nothing that its evidence
(or the incident's own facts) does not name or count, and asks for nothing that the report does not propose. Whether a
sentence of true parts is true as a whole cannot be decided so; see ``docs/copilot.md``.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from aiops.copilot.answer import Claim
from aiops.copilot.directives import objections
from aiops.copilot.evidence_pack import EvidencePack
from aiops.copilot.fence import plain
from aiops.copilot.mentions import Mentions, labels, mentions, occurs
from aiops.copilot.quantities import VAGUE, Measures, measure, unproven

MAX_CLAIMS = 12
MAX_CLAIM = 600
"""Characters of one claim; longer ones are essays."""

_QUOTE = re.compile(r"```+|`|[\"“”„«»]")
_CITATION = re.compile(r"\s*[\[(]([A-Za-z][\w.:-]{0,31}(?:\s*[,;]\s*[A-Za-z][\w.:-]{0,31})*)[\])]")
_PLACE_WORD = re.compile(
    r"\b(?:node|host|hostname|server|machine|switch|rack|pod)s?\s+"
    r"(?:named |called )?([A-Za-z][A-Za-z-]{1,62})(?![\w.-]*\w)",
    re.IGNORECASE,
)
_ENGLISH_AFTER_PLACE = frozenset(
    re.findall(
        r"\w+",
        """
    a after all also and are as at back be became because become been before being but by came can cannot caused
    come comes could crash crashed crashes detected did died dies disruption do does down drain during ended
    ends entered event events eviction evictions exited fail failed fails failure failures fault faults fell for
    from gone got had has have hit hits hung in into is it itself joined keeps kept later left log logs loses
    lost may memory might name names never no nor not of off on only or out over phase pool raised ran rebooted
    recorded remained reported reports restarted returned runs scheduler seems selector showed shows shut side
    since so spec started state stayed still stopped stops taint template than that the their then there these
    they this those to took under unreachable until up was went were when where which while who whose will with
    without would wrote yet
""",
    )
)


@dataclass(frozen=True, slots=True)
class Verdict:
    """A claim and why it falls; no reasons, it stands."""

    claim: Claim
    text: str
    """The claim's text, cleaned, without citations of its own."""
    reasons: tuple[str, ...]


class _Proof:
    """Text that may justify a claim, read once."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.lower = text.lower()

    @cached_property
    def names(self) -> Mentions:
        return mentions(self.text)

    @cached_property
    def measures(self) -> Measures:
        return measure(self.names.rest)


def check(claims: Sequence[Claim], pack: EvidencePack) -> list[Verdict]:
    """Judge each claim; those beyond `MAX_CLAIMS` fall unread."""
    facts = unicodedata.normalize("NFKC", "\n".join(pack.facts))
    verdicts = []
    for index, claim in enumerate(claims):
        text = _clean(claim.text)
        reasons = ("one claim too many",) if index >= MAX_CLAIMS else tuple(_reasons(text, claim.evidence, pack, facts))
        verdicts.append(Verdict(claim, text, reasons))
    return verdicts


def cited_text(ids: Sequence[str], pack: EvidencePack) -> str:
    """What the cited items say, and the findings and timeline lines of the analysis that stand on them."""
    cited = set(ids)
    parts: list[str] = []
    for item in pack.items.values():
        if item.id in cited or cited & set(item.evidence):
            parts += [item.head, item.text]
            if item.id in cited:
                parts += [pack.items[i].text for i in item.evidence if i in pack.items]
    parts += [line for line, evidence in pack.timeline if cited & set(evidence)]
    return "\n".join(parts)


def _clean(text: str) -> str:
    """One line of visible characters, without bracketed citations; compatibility forms become plain letters."""
    text = unicodedata.normalize("NFKC", plain(text))
    return " ".join(_CITATION.sub(lambda m: "" if _is_citation(m[1]) else m[0], text).split())


def _is_citation(inside: str) -> bool:
    return all(re.fullmatch(r"[ef]\d+", part.strip(), re.IGNORECASE) for part in re.split("[,;]", inside))


def _reasons(text: str, ids: Sequence[str], pack: EvidencePack, facts: str) -> list[str]:
    if not text or len(text) > MAX_CLAIM:
        return ["is empty or too long"]
    if not ids:
        return ["cites nothing"]
    unknown = [i for i in ids if i not in pack.items]
    if unknown:
        return ["cites an id that does not exist"]
    cited = unicodedata.normalize("NFKC", cited_text(ids, pack))
    proof = _Proof(f"{cited}\n{facts}")
    names = mentions(text)
    places = _places(text)
    gpus = frozenset(number for kind, number in names.indices if kind == "GPU")
    plan = ("action ", "requeue: ")
    events = "\n".join((cited, *(fact for fact in pack.facts if not fact.startswith(plan)))).lower()
    return [
        *_foreign_letters(text),
        *_quotations(text, cited, facts),
        *_names(names, places, proof, pack),
        *_numbers(names, proof),
        *_labels(text, proof),
        *objections(text, pack, events, names.identifiers | places, gpus),
    ]


def _quotations(text: str, cited: str, facts: str) -> list[str]:
    """Quotations must stand in the cited text, word by word; a single name from the facts may be set off, too."""
    pieces = _QUOTE.split(text)
    if len(pieces) % 2 == 0:
        return ["has a quotation that does not end"]
    cited = " ".join(cited.split())
    for span in (piece.strip() for piece in pieces[1::2]):
        if span not in cited and not (" " not in span and occurs(span.lower(), facts.lower())):
            return ["quotes what its evidence does not say"]
    return []


def _names(names: Mentions, places: frozenset[str], proof: _Proof, pack: EvidencePack) -> list[str]:
    known = {i.lower() for i in pack.items}
    missing = [name for name in names.identifiers | places if name not in known and not occurs(name, proof.lower)]
    missing += [pci for pci in names.pci if pci not in proof.names.pci]
    missing += [f"{kind} {number}" for kind, number in names.indices if (kind, number) not in proof.names.indices]
    return [f"names {min(missing)!r}, which its evidence does not"] if missing else []


def _places(text: str) -> frozenset[str]:
    """Hosts may have names of letters only: a word behind "node" is plain English, or such a name."""
    return frozenset(
        word for match in _PLACE_WORD.finditer(text) if (word := match[1].lower()) not in _ENGLISH_AFTER_PLACE
    )


def _numbers(names: Mentions, proof: _Proof) -> list[str]:
    said = measure(names.rest)
    missing = unproven(said, proof.measures)
    missing += [word for word in said.unread if not occurs(word.lower().strip(".,:;"), proof.lower)]
    missing += [word[0] for word in VAGUE.finditer(names.rest) if not occurs(word[0].lower(), proof.lower)]
    return [f"says {missing[0]!r}, which its evidence does not"] if missing else []


def _labels(text: str, proof: _Proof) -> list[str]:
    """Where the evidence has exit codes, steps or rank counts, the claim's must be among them, not any other number."""
    known = labels(proof.text)
    kinds = {kind for kind, _ in known}
    wrong = sorted(f"{kind} {number}" for kind, number in labels(text) - known if kind in kinds)
    return [f"says {wrong[0]!r}, which its evidence does not"] if wrong else []


def _foreign_letters(text: str) -> list[str]:
    """Letters of other scripts can spell a word that no check recognises: Cyrillic "о" is not Latin "o"."""
    foreign = any(
        letter.isalpha()
        and not letter.isascii()
        and letter not in "µμΩ"
        and not unicodedata.name(letter, "").startswith("LATIN")
        for letter in text
    )
    return ["is written in letters of another script"] if foreign else []
