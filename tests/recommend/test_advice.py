"""Advice fits the evidence at hand: no open slots, nothing twice, nothing that is done already."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from aiops.catalog import load_catalog
from aiops.model.report import Incident
from aiops.pipeline import analyze_paths
from aiops.recommend.plan import _holds
from aiops.report import words
from aiops.report.lead import lead

_FIXTURES = Path(__file__).parents[2] / "fixtures"


def _first(folder: Path, **files: str) -> Incident:
    for name, text in files.items():
        (folder / name.replace("__", ".")).write_text(text)
    return analyze_paths([folder]).incidents[0]


def test_a_fact_that_is_false_does_not_hold_and_gpu_0_does() -> None:
    assert _holds("gpu", {"gpu": 0}) and not _holds("no_gpu", {"gpu": 0})
    assert not _holds("earlier_checkpoint", {"earlier_checkpoint": False})
    assert _holds("no_earlier_checkpoint", {"earlier_checkpoint": False})
    assert not _holds("job", {"job": None}) and _holds("no_job", {})


def test_every_slot_of_a_playbook_is_a_fact_that_is_always_known_or_asked_for() -> None:
    always = {"name", "pci", "where", "remedy", "fix", "evidence", "missing", "refused"}
    for playbook in load_catalog().playbooks.values():
        for step in playbook.steps:
            open_slots = set(re.findall(r"\{(\w+)\}", step.why)) - always - set(step.needs)
            if "earlier_checkpoint" in step.needs:
                open_slots -= {"checkpoint"}
            # where the evidence about a node is what makes the class, its node is known
            assert open_slots <= {"node"}, (playbook.id, step.action, open_slots)


def test_no_checkpoint_is_known_before_the_first_bad_value(tmp_path: Path) -> None:
    log = "".join(f"2026-05-01 10:00:{i:02d} step {i} loss {'2.1' if i < 5 else 'nan'}\n" for i in range(1, 9))
    incident = _first(tmp_path, train__log=log)
    restores = [a for a in incident.actions if a.action.value == "restore_earlier_checkpoint"]
    assert incident.failure_class == "num.nan_global"
    assert [a.why for a in restores] == [
        "Restore one that was saved before the first bad value; the evidence names none."
    ]
    assert not any("<" in a.why for a in incident.actions)


def test_a_known_remedy_is_named(tmp_path: Path) -> None:
    line = (
        "[W517 10:10:11.301 socket.cpp:436] [c10d] The server socket has failed to bind to [::]:29400 "
        "(errno: 98 - Address already in use)."
    )
    incident = _first(tmp_path, run__log=f"torchrun --nproc-per-node 8 train.py\n{line}\n")
    fix = incident.actions[0]
    assert fix.action.value == "fix_config" and "--master-port" in fix.why and "Shown by: The port 29400" in fix.why
    assert "At fault is the configuration." in incident.narrative.text


@pytest.mark.parametrize("name", ["recorder-silent-rank", "missing-rank"])
def test_the_recorder_is_not_switched_on_where_it_ran(name: str) -> None:
    incident = analyze_paths([_FIXTURES / name / "bundle"]).incidents[0]
    step = next(a for a in incident.actions if a.action.value == "investigate")
    assert ("TORCH_NCCL_TRACE_BUFFER_SIZE" in step.why) == (name == "missing-rank")
    assert step.commands[-1].startswith("py-spy dump")


def test_a_switch_that_has_a_name_is_not_to_be_found() -> None:
    incident = analyze_paths([_FIXTURES / "leaf-switch-slurm" / "bundle"]).incidents[0]
    told = " ".join(a.why for a in incident.actions)
    assert incident.culprit.name and incident.culprit.name in told and "cabling plan" not in told


def test_a_reboot_comes_after_what_it_destroys_was_saved() -> None:
    for playbook in load_catalog().playbooks.values():
        order = [step.action for step in playbook.steps]
        if "reboot_node" in order and "investigate" in order:
            assert order.index("investigate") < order.index("reboot_node"), playbook.id


def test_a_node_that_is_cordoned_is_still_to_be_emptied(tmp_path: Path) -> None:
    node = {
        "kind": "Node",
        "apiVersion": "v1",
        "metadata": {"name": "gpu-7"},
        "spec": {"unschedulable": True},
        "status": {"capacity": {"nvidia.com/gpu": "8"}, "allocatable": {"nvidia.com/gpu": "8"}},
    }
    event = {
        "kind": "Event",
        "apiVersion": "v1",
        "metadata": {"name": "gpu-7.1", "namespace": "default"},
        "type": "Normal",
        "reason": "NodeNotSchedulable",
        "message": "Node gpu-7 status is now: NodeNotSchedulable",
        "involvedObject": {"kind": "Node", "name": "gpu-7"},
        "lastTimestamp": "2026-05-01T10:01:00Z",
    }
    incident = _first(
        tmp_path,
        kern__log="May  1 10:00:00 gpu-7 kernel: NVRM: Xid (PCI:0000:3b:00): 95, pid=7, name=python, "
        "Uncontained: LTC TAG (0x2,0x0). RST: Yes, D-RST: No\n",
        objects__json=json.dumps({"kind": "List", "apiVersion": "v1", "items": [node, event]}),
    )
    cordon = next(a for a in incident.actions if a.action.value == "cordon_node")
    drain = next(a for a in incident.actions if a.action.value == "drain_node")
    reset = next(a for a in incident.actions if a.action.value == "reset_gpu")
    assert cordon.done and not cordon.commands and words.action_notes(cordon) == ["done already"]
    assert not drain.done and drain.commands[0].startswith("kubectl drain gpu-7")
    assert words.action_name(reset) == "Reset GPU 0000:3b:00 of gpu-7"


def test_what_is_done_is_not_the_next_step(tmp_path: Path) -> None:
    (tmp_path / "kern.log").write_text(
        "May  1 10:00:00 n7 kernel: NVRM: Xid (PCI:0000:3b:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus.\n"
    )
    report = analyze_paths([tmp_path])
    before = lead(report)
    report.incidents[0].actions[0].done = True
    assert before.next.startswith("cordon n7") and not lead(report).next.startswith("cordon n7")


def test_evidence_is_cited_once() -> None:
    for name in ("port-in-use", "ecc-dbe", "xid79-slurm"):
        incident = analyze_paths([_FIXTURES / name / "bundle"]).incidents[0]
        for cited in [a.evidence for a in incident.actions] + [e.evidence for e in incident.timeline]:
            assert len(cited) == len(set(cited))


def test_the_same_message_of_several_ranks_names_none_of_them() -> None:
    incident = analyze_paths([_FIXTURES / "user-oom" / "bundle"]).incidents[0]
    assert incident.culprit.kind == "user_code" and incident.culprit.rank is None and incident.culprit.gpu is None
    assert incident.culprit.node == "granite-h2"


def test_the_timeline_tells_no_line_twice() -> None:
    incident = analyze_paths([_FIXTURES / "xid79-slurm" / "bundle"]).incidents[0]
    texts = [entry.text for entry in incident.timeline]
    assert any("63 ranks gave up waiting" in text for text in texts)
    assert not any("no rank stands out as missing" in text for text in texts)


def test_a_drain_repeats_nothing_of_its_cordon(tmp_path: Path) -> None:
    incident = _first(
        tmp_path,
        kern__log="May  1 10:00:00 n7 kernel: NVRM: Xid (PCI:0000:3b:00): 79, pid='<unknown>', name=<unknown>, "
        "GPU has fallen off the bus.\n",
    )
    cordon, drain = (next(a for a in incident.actions if a.action.value == f"{w}_node") for w in ("cordon", "drain"))
    assert len(cordon.commands) == 2 and [c.split()[:2] for c in drain.commands] == [["kubectl", "drain"]]


def test_the_full_file_system_is_named(tmp_path: Path) -> None:
    incident = _first(
        tmp_path,
        train__log='[rank0]: Traceback (most recent call last):\n[rank0]:   File "/app/t.py", line 7, in save\n'
        "[rank0]: OSError: [Errno 28] No space left on device\n",
        df__txt="Filesystem 1K-blocks Used Available Use% Mounted on\n"
        "/dev/loop3 65536 65536 0 100% /snap/core20/1974\n"
        "10.3.0.2:/export/ckpt    42949672960 42949649408     23552 100% /data/ckpt\n",
    )
    assert incident.failure_class == "sto.full"
    assert incident.actions[0].why == "Free space or raise the quota of /data/ckpt."


def test_a_job_that_lost_its_rack_goes_back_without_the_rack() -> None:
    incident = analyze_paths([_FIXTURES / "pdu-trip" / "bundle"]).incidents[0]
    assert incident.requeue.exclude == ["kelp-r7-01", "kelp-r7-02", "kelp-r7-03", "kelp-r7-04"]
    assert not any(a.action.value in ("drain_node", "cordon_node", "reboot_node") for a in incident.actions)
    assert "At fault is the facility." in incident.narrative.text


@pytest.mark.parametrize(
    ("name", "node", "named"),
    [("image-pull", "n18", "registry.example.net"), ("kill-task-failed", "wren-1", "train.py:244")],
)
def test_the_node_where_it_showed_is_not_called_at_fault(name: str, node: str, named: str) -> None:
    incident = analyze_paths([_FIXTURES / name / "bundle"]).incidents[0]
    blamed = incident.narrative.text.split("At fault is ")[1].split(". ")[0]
    assert named in incident.title and named in blamed and node not in incident.title + blamed


def test_a_preempted_job_is_not_called_at_fault() -> None:
    incident = analyze_paths([_FIXTURES / "preempted-slurm" / "bundle"]).incidents[0]
    assert "At fault is the scheduler." in incident.narrative.text


def test_a_recording_of_the_hang_is_no_notice_of_it() -> None:
    impact = analyze_paths([_FIXTURES / "recorder-silent-rank" / "bundle"]).incidents[0].impact
    seconds = words.seconds_between(impact.started, impact.detected)
    assert seconds is not None and seconds > 590  # the watchdog told of it
