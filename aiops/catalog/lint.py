"""Check the catalog: every mistake in a sentence that names the file, the entry and the mend."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, get_args

from aiops.catalog.model import Catalog, FailureClass, Sign, Signal
from aiops.model.finding import Role
from aiops.resources import resource
from aiops.scan.ordinary import LINES

_CLASSES = re.compile(r"\[\^(?:\\.|[^\]\\])*\]")
_UNSUPPORTED = (
    ("(?=", "look-ahead"),
    ("(?!", "look-ahead"),
    ("(?<=", "look-behind"),
    ("(?<!", "look-behind"),
    ("(?>", "an atomic group"),
    ("(?P=", "a back-reference"),
)
_BACKREF = re.compile(r"(?<!\\)(?:\\\\)*\\[1-9]")
ORDINARY = (
    " [2026-08-01 08:00:00] iteration      122/  250000 | consumed samples:       124928 | elapsed time per iteration (ms): 8654.5 | "
    "learning rate: 9.150000E-06 | global batch size:  1024 | lm loss: 2.504220E+00 | loss scale: 1.0 | grad norm: 0.231 | "
    "number of skipped iterations:   0 | number of nan iterations:   0 |",
    "2026-08-01 08:00:00,123 INFO [rank 0] trainer.py:318 step=900 loss=2.5885 lr=2.00e-04 step_time=1.431s data_time=0.014s",
    "gx-n1:7699:7699 [1] NCCL INFO Channel 02/0 : 1[1] -> 2[2] via P2P/CUMEM",
    "Aug  1 08:00:00 gx-n1 kernel: [412413.686070] workqueue: blk_mq_run_work_fn hogged CPU for >10000us 97 times,",
    "Aug  1 08:00:00 gx-n1 systemd[1]: Started Session 39217 of User svc-mon.",
    'Aug  1 08:00:00 gx-n1 dcgm-exporter[3310]: level=info msg="Collecting DCP metrics"',
    'Aug  1 08:00:00 gx-n1 kubelet[2291]: I0817 kubelet.go:2456] "SyncLoop (PLEG): event for pod" pod="monitoring/node-exporter-904b7"',
    "[2026-08-01T08:00:00.123] sched: Allocate JobId=700 NodeList=compute-1 #CPUs=32 Partition=gpu",
    "Epoch 3:  12%|#2 | 120/1000 [00:31<03:47,  3.86it/s, v_num=3]",
)
"""Lines that every healthy run prints by the thousand. Only progress and context signals may hit them."""

DETECTOR_SIGNS = frozenset(
    {
        "collective.timeout",
        "collective.waiting",
        "collective.missing_rank",
        "collective.desync",
        "collective.all_entered",
        "proc.exit",
        "proc.abort",
        "proc.sigkill",
        "proc.segv",
        "proc.sigbus",
        "proc.early_exit",
        "launcher.stopped",
        "slurm.cancelled",
        "job.restarted",
        "job.died",
        "job.succeeded",
        "py.exception",
        "data.exception",
        "net.link_flap",
        "net.link_down",
        "host.reboot_seen",
        "slurm.node_down",
        "num.nonfinite",
        "num.grad_jump",
        "num.loss_jump",
        "num.loss_spike",
        "num.scale_low",
        "train.slow",
        "train.progress",
        "ckpt.saved",
        "ckpt.unfinished",
        "ckpt.resumed",
        "gpu.diag_failed",
        "gpu.diag_setup",
        "topology.switch",
        "topology.nvlink",
        "topology.power",
        "topology.spread",
        "ctl.cohort",
    }
)
"""Signs that the detectors make themselves; those of metrics and schedulers begin with ``metric.`` and ``sched.``."""


def lint_catalog(catalog: Catalog) -> list[str]:
    """All mistakes, in the order of the files; an empty list if there is none."""
    mistakes: list[str] = []
    mistakes += [
        f"{twice.after}: {twice.kind} {twice.id}: the id stands in {twice.before} as well, and only one entry counts; "
        "give one of them another id"
        for twice in catalog.replaced
        if not twice.site
    ]
    for signal in catalog.signals:
        mistakes += [f"{signal.file}: signal {signal.id}: {text}" for text in _signal_mistakes(signal)]
    mistakes += _scanner_mistakes(catalog)
    for failure in catalog.failures.values():
        mistakes += [f"{failure.file}: class {failure.id}: {text}" for text in _failure_mistakes(catalog, failure)]
    for playbook in catalog.playbooks.values():
        from aiops.model.report import ActionName

        known = {action.value for action in ActionName}
        for step in playbook.steps:
            mistakes += [
                f"playbooks.yaml: playbook {playbook.id}: {name!r} is no action; choose one of {', '.join(sorted(known))}"
                for name in (step.action, step.by)
                if name and name not in known
            ]
    return mistakes


def lint_notes(catalog: Catalog) -> list[str]:
    """What is no mistake but worth a look: replaced built-in entries, patterns that slow every scan, signals that say the same.

    With a site's own directory only its own signals are looked at: nobody there can mend the built-in ones.
    """
    from aiops.scan.cost import costly_rules, overlapping
    from aiops.scan.rules import RuleSet

    own = catalog.site_signals
    notes = [
        f"{entry.after}: {entry.kind} {entry.id} takes the place of the one in {entry.before}; if that is not meant, choose another id"
        for entry in catalog.replaced
        if entry.site
    ]
    notes += [
        f"{signal.file}: signal {signal.id}: {why}; name a rarer word in {pattern!r}"
        for signal, pattern, why in costly_rules(RuleSet(catalog.signals))
        if not own or signal.id in own
    ]
    notes += [
        f"{signal.file}: signals {signal.id} and {other.id} hit all of each other's examples; one of them is enough"
        for signal, other in overlapping(catalog)
        if not own or own & {signal.id, other.id}
    ]
    return notes


def signals_of_line(catalog: Catalog, line: str) -> Iterator[tuple[Signal, dict[str, Any]]]:
    """Signals whose patterns hit a line, whatever kind of file it is from, with the fields that they read."""
    for signal in catalog.signals:
        for regex in signal.regexes:
            match = regex.search(line)
            if match:
                yield signal, {**signal.says, **{k: v for k, v in match.groupdict().items() if v is not None}}
                break


_ABOUT = frozenset({"node", "gpu", "rank", "nic", "job", "storage", "none"})
_SLOT = re.compile(r"\{(\w+)\}")
_FROM_PREFIX = frozenset({"rank", "host", "node", "job"})


def _wording_mistakes(signal: Signal) -> Iterator[str]:
    if signal.about not in _ABOUT:
        yield f"about {signal.about!r} is none of {', '.join(sorted(_ABOUT))}"
    groups = {name for regex in signal.regexes for name in regex.groupindex} | set(signal.says) | _FROM_PREFIX
    for name in _SLOT.findall(signal.title):
        if name not in groups:
            known = ", ".join(sorted(groups - _FROM_PREFIX)) or "none"
            yield f"the title names {{{name}}}, but no group of the pattern is called so; groups: {known}"


def _signal_mistakes(signal: Signal) -> Iterator[str]:
    for pattern in signal.match:
        yield from _pattern_mistakes(pattern)
    try:
        regexes = signal.regexes
    except re.error as error:
        yield f"the pattern is no regular expression: {error}"
        return
    yield from _wording_mistakes(signal)
    for example in signal.examples:
        if not any(regex.search(example) for regex in regexes):
            yield f"the example does not match: {example!r}"
    for counter in signal.counter_examples:
        if any(regex.search(counter) for regex in regexes):
            yield f"a line that must not match does match: {counter!r}"
    if signal.role is not Role.CONTEXT:
        for line in (*ORDINARY, *LINES):
            if any(regex.search(line) for regex in regexes):
                yield f"it hits an ordinary line of healthy runs, so it is costly and wrong: {line[:80]!r}"
    for regex in regexes:
        if regex.search(""):
            yield f"the pattern {regex.pattern!r} matches an empty line; begin it with a word that stands in the message"
            break


def _pattern_mistakes(pattern: str) -> Iterator[str]:
    if "\\s" in pattern:
        yield f"use a blank or [ \\t] instead of \\s in {pattern!r}: \\s crosses lines in the scanner"
    if _BACKREF.search(pattern):
        yield f"back-references such as \\1 are not possible in {pattern!r}: the scanner has none"
    for token, name in _UNSUPPORTED:
        if token in pattern:
            yield f"{name} ({token}…) is not possible in {pattern!r}: the scanner has none"
    for found in _CLASSES.findall(pattern):
        if "\\n" not in found:
            yield f"write [^\\n{found[2:]} instead of {found} in {pattern!r}, so that it stays within the line"
    bare = re.sub(r"\\\W", "", pattern)
    if len(re.sub(r"\[[^\]]*\]|\\[wdbDWS]|\(\?P<\w+>|\{[\d,]*\}|\W", "", bare)) < 3:
        yield f"{pattern!r} has hardly any literal text; name a word that stands only in this message"


def _scanner_mistakes(catalog: Catalog) -> Iterator[str]:
    from aiops.errors import CatalogError
    from aiops.scan import make_scanner

    try:
        make_scanner(catalog)
    except CatalogError as error:
        yield str(error)


def _failure_mistakes(catalog: Catalog, failure: FailureClass) -> Iterator[str]:
    from aiops.model.report import CheckpointRule, CulpritKind, RequeueVerdict

    if failure.playbook not in catalog.playbooks:
        yield f"there is no playbook {failure.playbook!r}"
    if failure.checkpoint not in get_args(CheckpointRule):
        yield f"checkpoint rule {failure.checkpoint!r} is none of C0 to C5"
    for requeue in {failure.requeue, *(cause.requeue for cause in failure.causes if cause.requeue)}:
        if requeue not in get_args(RequeueVerdict):
            yield f"requeue {requeue!r} is none of {', '.join(get_args(RequeueVerdict))}"
    if failure.culprit not in get_args(CulpritKind):
        yield f"culprit {failure.culprit!r} is none of {', '.join(get_args(CulpritKind))}"
    if not failure.causes:
        yield "it has no causes, so it can never be found"
    for what, signs in (("cause", failure.causes), ("effect", failure.effects), ("contradiction", failure.contradicts)):
        for sign in signs:
            if not _known(catalog, sign):
                yield f"{what} {sign.sign!r} is neither a signal nor a sign of a detector"
    for cause in failure.causes:
        if not 0 < cause.weight <= 10:
            yield (
                f"cause {cause.sign!r} needs a weight above 0 and at most 10 "
                "(9 = the fault's own record, 6 = a specific message, 3 = a hint)"
            )
    if not failure.test.startswith("line: ") and not (resource("fixtures") / failure.test / "truth.yaml").is_file():
        yield f"test {failure.test!r} is neither 'line: …' nor a bundle in fixtures/"
    elif failure.test.startswith("line: ") and not failure.test.startswith("line: none"):
        line = failure.test.removeprefix("line: ")
        if not any(signals_of_line(catalog, line)):
            yield f"its test line hits no signal: {line!r}"


def _known(catalog: Catalog, sign: Sign) -> bool:
    return sign.sign in catalog.by_id or sign.sign in DETECTOR_SIGNS or sign.sign.startswith(("metric.", "sched."))
