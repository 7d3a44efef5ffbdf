"""From a report to the same report with its narratives told by a model, as far as code can prove them."""

from __future__ import annotations

from aiops.copilot.answer import Answer, read_answer
from aiops.copilot.evidence_pack import EvidencePack, build_pack
from aiops.copilot.fence import NonceSource, new_nonce
from aiops.copilot.grounding import Verdict, check
from aiops.copilot.model import Clock, LangchainModel, Messages, Model, ModelFailure
from aiops.copilot.options import CopilotOptions
from aiops.copilot.prompt import Prompt, load_prompt, narrative_messages
from aiops.model.report import Incident, Narrative, Report
from aiops.redaction import Redactor

_CHARACTERS_PER_TOKEN = 3
"""Fewer than English has, since log text splits into more tokens."""


def narrate(
    report: Report, options: CopilotOptions, *, model: Model | None = None, nonces: NonceSource = new_nonce
) -> Report:
    """A copy of the report whose incidents are told by the model; nothing but ``narrative`` differs.

    Where the model fails or nothing that it says can be proven, the narrative by rules stays, with a ``note`` that
    says why. Incidents are told one after the other, most important first, within the limits of ``options``.

    Args:
        model: asked instead of the endpoint of ``options``.
        nonces: source of fence words; by default the system's random source.

    Raises:
        InputError: no model is named, the URL or the key is missing, or langchain is not installed.
    """
    copy = report.model_copy(deep=True)
    if model is None:
        options.check()
    if not copy.incidents:
        return copy
    session = _Session(model or LangchainModel(options), options, load_prompt("narrative"), nonces)
    for index, incident in enumerate(copy.incidents):
        if index >= options.max_incidents:
            incident.narrative = _by_rules(incident, f"only the first {options.max_incidents} incidents are told")
        else:
            incident.narrative = session.tell(incident)
    return copy


class _Session:
    """One call of `narrate`: its redactor, its budget, and what broke for good."""

    def __init__(self, model: Model, options: CopilotOptions, prompt: Prompt, nonces: NonceSource) -> None:
        self._model = model
        self._options = options
        self._prompt = prompt
        self._nonces = nonces
        self._redactor = Redactor(ips=options.redact_ips)
        self._clock = Clock(options.deadline)
        self._tokens = options.budget_tokens
        self._broken = ""

    def tell(self, incident: Incident) -> Narrative:
        pack = build_pack(incident, self._redactor)
        messages = narrative_messages(self._prompt, pack, self._nonces)
        try:
            answer = self._answer(messages)
        except ModelFailure as failure:
            if failure.lasting:
                self._broken = failure.note
            return _by_rules(incident, failure.note)
        return self._judge(incident, pack, answer)

    def _answer(self, messages: Messages) -> Answer:
        """Ask, and ask once more if the answer cannot be read."""
        text = self._ask(messages)
        try:
            return read_answer(text)
        except ValueError as error:
            problem = str(error)
        repair = self._prompt.fill("repair", {"problem": problem})
        text = self._ask([*messages, ("assistant", text[:4_000]), ("user", repair)])
        try:
            return read_answer(text)
        except ValueError:
            raise ModelFailure("the model's answer could not be read, twice") from None

    def _ask(self, messages: Messages) -> str:
        if self._broken:
            raise ModelFailure(self._broken, lasting=True)
        expected = sum(len(text) for _, text in messages) // _CHARACTERS_PER_TOKEN + self._options.max_tokens
        if expected > self._tokens:
            raise ModelFailure("the token budget is used up", lasting=True)
        if self._clock.left() <= 0:
            raise ModelFailure("the time for all narratives is used up", lasting=True)
        reply = self._model.ask(messages, self._clock.left())
        self._tokens -= reply.tokens or expected
        return reply.text

    def _judge(self, incident: Incident, pack: EvidencePack, answer: Answer) -> Narrative:
        verdicts = check(answer.claims, pack)
        standing = [verdict for verdict in verdicts if not verdict.reasons]
        dropped = len(verdicts) - len(standing)
        if not standing:
            note = f"none of the model's {dropped} claims could be proven" if dropped else "the model claimed nothing"
            return _by_rules(incident, note, dropped)
        text = self._redactor.text(" ".join(_sentence(verdict) for verdict in standing))
        return Narrative(text=text, by=self._options.model or "model", unsupported_claims=dropped)


def _sentence(verdict: Verdict) -> str:
    """``GPU 5 fell off the bus [e2, f2].``"""
    text, end = (verdict.text[:-1], verdict.text[-1]) if verdict.text[-1] in ".!?" else (verdict.text, ".")
    ids = list(dict.fromkeys(verdict.claim.evidence))
    return f"{text} [{', '.join(ids)}]{end}"


def _by_rules(incident: Incident, note: str, dropped: int = 0) -> Narrative:
    return incident.narrative.model_copy(update={"note": note, "unsupported_claims": dropped})
