"""Does a claim tell somebody to do something, and may it?

The narrative tells what happened. Commands come from the playbook, not from the model, so a claim may repeat one of
the report's own actions, on its own target, and nothing else. Log text cannot license an action: "drain all nodes" in
a log is a quotation at best.
"""

from __future__ import annotations

import re

from aiops.copilot.evidence_pack import EvidencePack
from aiops.model.report import ActionName as A

_HARD: tuple[tuple[str, str, frozenset[A]], ...] = (
    # (base form or gerund: an instruction; past form: may be a report; actions that it stands for)
    (
        r"(?:un)?cordon(?:ing)?|isolat(?:e|ing)|quarantin(?:e|ing)",
        r"(?:un)?cordoned|isolated|quarantined",
        frozenset({A.CORDON_NODE, A.DRAIN_NODE}),
    ),
    (r"drain(?:s|ing)?", r"drained", frozenset({A.DRAIN_NODE})),
    (
        r"re-?boot(?:s|ing)?|power[- ]?cycl(?:e|ing)|restart(?:ing)? (?:the |this |that )?(?:node|host|machine|server)",
        r"re-?booted|power[- ]?cycled|restarted",
        frozenset({A.REBOOT_NODE}),
    ),
    (
        r"re-?set(?:s|ting)? (?:\w+ ){0,3}?(?:gpus?|devices?|nodes?|cards?|hosts?)|(?:gpu|device|node) re-?sets?",
        r"(?!)",
        frozenset({A.RESET_GPU}),
    ),
    (
        r"rma|replac(?:e|ing|ement)|return(?:ing)? (?:\w+ ){0,3}?to (?:the )?vendor",
        r"replaced",
        frozenset({A.RMA, A.SWAP_NODE}),
    ),
    (r"swap(?:ping)? (?:\w+ ){0,3}?(?:node|gpu|host|out|for)", r"swapped", frozenset({A.SWAP_NODE, A.RMA})),
    (
        r"re-?queu(?:e|ing)|re-?submit(?:ting)?|re-?launch(?:ing)?|re-?run(?:ning)?|re-?schedul(?:e|ing)",
        r"re-?queued|re-?submitted|re-?launched|re-?scheduled",
        frozenset({A.REQUEUE, A.REQUEUE_EXCLUDING_NODE}),
    ),
    (r"exclud(?:e|ing)", r"excluded", frozenset({A.REQUEUE_EXCLUDING_NODE})),
    (
        r"evict(?:ing)?|terminat(?:e|ing)|kill(?:ing)?|cancel(?:l?ing)?|delet(?:e|ing)|remov(?:e|ing)|eras(?:e|ing)|"
        r"wip(?:e|ing)|format(?:ting)?|uninstall(?:ing)?|install(?:ing)?|upgrad(?:e|ing)|downgrad(?:e|ing)|"
        r"disabl(?:e|ing)|power(?:ing)? (?:off|down)|shut(?:ting)? ?down|decommission(?:ing)?|"
        r"scal(?:e|ing) (?:down|up)|tak(?:e|ing) (?:\w+ ){0,4}?(?:out|offline|down)|"
        r"remov(?:e|ing) from (?:service|the cluster)",
        r"evicted|terminated|killed|cancell?ed|deleted|removed|erased|wiped|formatted|installed|upgraded|disabled|"
        r"powered off|decommissioned",
        frozenset(),
    ),
)
_SOFT: tuple[tuple[str, frozenset[A]], ...] = (
    (
        r"fix\w*|correct\w*|repair\w*|chang\w+|set|adapt\w*",
        frozenset({A.FIX_CONFIG, A.FIX_DATA, A.FIX_NETWORK, A.FIX_STORAGE, A.FIX_USER_CODE}),
    ),
    (r"free|freeing|clean\w*", frozenset({A.FREE_STORAGE})),
    (
        r"restor\w+|resum\w+|roll\w* back|reload\w*|start\w* from|continu\w+ from",
        frozenset({A.RESTORE_CHECKPOINT, A.RESTORE_EARLIER_CHECKPOINT}),
    ),
    (r"wait\w*", frozenset({A.WAIT})),
    (r"notif\w+|contact\w*|inform\w*|escalat\w+|tell|page|ask", frozenset({A.NOTIFY_OWNER})),
    (r"investigat\w+|inspect\w*|check\w*|look\w*|diagnos\w+|examin\w+|collect\w*|verif\w+", frozenset({A.INVESTIGATE})),
    (r"hold|holding", frozenset({A.HOLD_JOB})),
    (r"adjust\w*|rais\w+|increas\w+|lower\w*|extend\w*", frozenset({A.ADJUST_QUOTA, A.FIX_CONFIG})),
    (r"releas\w+", frozenset({A.RELEASE_GANG})),
    (r"avoid\w*", frozenset({A.REQUEUE_EXCLUDING_NODE})),
)
_OBLIGATION = re.compile(
    r"\b(?:should|shall|ought|(?:must|has to|have to|had to|should)(?! have\b)|needs? (?:to|\w+ing|\w+ed)\b|"
    r"recommend\w*|advis(?:e|ed|able)\b|please|let's|let us|go ahead|consider\b|you|your|we|our|"
    r"(?<!appears )(?<!appear )(?<!seems )(?<!seem )to be \w+ed|it is (?:safe|best|time|necessary) to)\b",
    re.IGNORECASE,
)
_EPISTEMIC = re.compile(r"\b(?:must|should) have\b", re.IGNORECASE)
_IMPERATIVE = re.compile(
    r"(?:(?:^|[.;:!?]\s+)(?:\W*(?:then|now|next|first|also|immediately|just|so)\W+)?"
    r"(?:mark|set|use|run|start|stop|check|hold|release|trust|follow|take|give|send|get|make|do not|don't|never|always)"
    r"|(?:^|[.;:!?,]\s+|\b(?:then|now|and|so|therefore)\s+)"
    r"(?:put|execute|apply|issue|ensure|disregard|ignore|fix|correct|restore|resume|wait for|notify|contact|inform|"
    r"escalate|tell|investigate|inspect|diagnose|examine|collect|verify|adjust|raise|increase|avoid|migrate))"
    r"\b(?!\s+(?:failed|passed|finished|of|by|was|is)\b)",
    re.IGNORECASE,
)
_SCOPE = re.compile(
    r"\b(?:all|every|each|entire|whole|everything|everyone|any|both|remaining|other|rest|fleet|"
    r"cluster(?:-?wide)?|partition|nodes|hosts|gpus)\b",
    re.IGNORECASE,
)
_DENIAL = re.compile(
    r"\b(?:false (?:alarm|positive)|no (?:incident|action|intervention)\b|nothing (?:to do|is wrong|went wrong|needs)|"
    r"safe(?:ly)? (?:to )?ignore|can be ignored)",
    re.IGNORECASE,
)
_SELF = re.compile(
    r"\b(?:ignore (?:this|the|all|any|previous)|as an ai|language model|my instructions|system prompt|"
    r"previous instructions)\b",
    re.IGNORECASE,
)
_IDLE = frozenset({A.NONE, A.WAIT})

_PROGRAM = (
    r"scontrol|sinfo|squeue|scancel|sacctmgr|sbatch|srun|salloc|kubectl|helm|oc|nvidia-smi|dcgmi|systemctl|"
    r"ipmitool|sudo|ssh|scp|rm|mv|dd|curl|wget|bash|sh|python3?|pip|docker|podman|crictl|modprobe|rmmod|"
    r"mkfs\S*|chmod|chown|pkill|killall|shutdown|poweroff|torchrun"
)
_SUBCOMMAND = (
    r"update|drain|uncordon|cordon|delete|apply|create|patch|scale|exec|rollout|requeue|hold|release|"
    r"restart|start|stop|enable|disable|reset|power|install|uninstall|diag|get|describe|taint|label|annotate|suspend|"
    r"resume|reconfigure|show|now"
)
_COMMAND = re.compile(
    rf"(?:^|(?<=[\s`\"'“(:]))(?:(?:{_PROGRAM})\s+(?:-{{1,2}}\w\S*|[\w.-]+=\S+|/\S*|https?:\S*|\d+\b|(?:{_SUBCOMMAND})\b)"
    rf"|(?:mount|umount|kill|reboot|halt|export|git|echo)\s+-\w)|`(?:{_PROGRAM})\b|\$\(|&&|\|\s*(?:ba|z)?sh\b",
    re.IGNORECASE,
)
_MARKUP = re.compile(
    r"https?://|www\.|\]\(|!\[|<[A-Za-z!/@#]|&lt;|@(?:here|channel|everyone)\b|javascript:", re.IGNORECASE
)


def objections(text: str, pack: EvidencePack, events: str, names: frozenset[str], gpus: frozenset[int]) -> list[str]:
    """Reasons to drop a claim because of what it asks for; empty if there are none.

    ``events`` is the lower-case text of the cited evidence and of the facts about what happened (not of the plan);
    ``names`` are the claim's names in lower case and ``gpus`` its GPU numbers.
    """
    found = []
    if _MARKUP.search(text):
        found.append("holds a link, markup or a mention")
    if _SELF.search(text) or (_DENIAL.search(text) and not pack.actions <= _IDLE):
        found.append("contradicts the verdict or speaks about its instructions")
    rest = text
    for command in pack.commands:
        rest = rest.replace(command, " ") if command.strip() else rest
    if _COMMAND.search(rest):
        found.append("holds a command that is not the report's")
    return found or _actions(text, pack, events, names, gpus)


def _actions(text: str, pack: EvidencePack, events: str, names: frozenset[str], gpus: frozenset[int]) -> list[str]:
    directive = bool(_OBLIGATION.search(_EPISTEMIC.sub(" ", text)) or _IMPERATIVE.search(text))
    licensed = False
    for base, past, actions in _HARD:
        told = re.search(rf"\b(?:{base})\b", text, re.IGNORECASE)
        happened = re.search(rf"\b(?:{past})\b", text, re.IGNORECASE)
        found = told or happened
        if found is None:
            continue
        proposed = bool(actions & pack.actions)
        if (told and not _is_event(text, told, events)) or directive:
            if not proposed:
                return [f"names the action {found[0].lower()!r}, which the report does not propose"]
            licensed = True
        elif _stem(found[0]) not in events:
            return [f"says {found[0].lower()!r}, which its evidence does not"]
    if directive and not licensed:
        soft = [actions for pattern, actions in _SOFT if re.search(rf"\b(?:{pattern})\b", text, re.IGNORECASE)]
        if not any(actions & pack.actions for actions in soft):
            return ["gives advice that is not one of the report's actions"]
    if not (directive or licensed):
        return []
    if _SCOPE.search(text):
        return ["widens an action beyond its target"]
    if licensed and not all(_is_target(name, pack) for name in names if "/" not in name and name not in pack.labels):
        return ["names another target than the report's action"]
    if gpus and pack.action_gpus and not gpus <= pack.action_gpus:
        return ["names another GPU than the report's action"]
    return []


_DETERMINER = re.compile(r"\b(?:an?|the|its|unexpected|sudden|spontaneous|after|before|since|during|without)\Z")


def _is_event(text: str, match: re.Match[str], events: str) -> bool:
    """``an unexpected reboot`` tells what happened, if the evidence has the word; ``reboot it`` does not."""
    before = text[: match.start()].rstrip().lower()
    word = match[0].lower()
    return _DETERMINER.search(before) is not None and word.endswith(("boot", "reset")) and word in events


def _stem(word: str) -> str:
    return word.lower().removesuffix("ed")[:6]


def _is_target(name: str, pack: EvidencePack) -> bool:
    short = name.split(".")[0]
    return any(name == target or short == target.split(".")[0] for target in pack.action_targets) or any(
        name in command.lower() for command in pack.commands
    )
