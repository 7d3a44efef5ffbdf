"""Which checkpoint an operator is told to restore, by name, and why newer ones are refused."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aiops.config import Settings, default_cache_dir
from aiops.model.report import CheckpointChoice, Incident, Report
from aiops.pipeline import analyze_paths
from aiops.recommend.render import names

XID = "Jun 11 {clock} n1 kernel: NVRM: Xid (PCI:0000:3b:00): {code}"
LINK = XID.format(clock="04:30:00", code="79, pid=4711, name=python, GPU has fallen off the bus.")
DEATH = "[rank0]: RuntimeError: CUDA error: unspecified launch failure"


def step(number: int, clock: str, loss: str = "2.1") -> str:
    return (
        f" [2026-06-11 {clock}] iteration {number:8}/  250000 | elapsed time per iteration (ms): 8000.0 | "
        f"lm loss: {loss} | grad norm: 0.2 |"
    )


def saved(number: int, clock: str) -> str:
    return f"[2026-06-11 {clock}]   successfully saved checkpoint from iteration {number:7} to /ckpt/run"


def begun(number: int, clock: str) -> str:
    return f"[2026-06-11 {clock}] saving checkpoint at iteration {number:7} to /ckpt/run in torch_dist format"


def listing(*checkpoints: tuple[int, str, int], when: str = "2026-06-11") -> str:
    """(step, clock, ranks that wrote) of each checkpoint, of four ranks; one that not all wrote has no metadata."""
    lines = []
    for number, clock, ranks in checkpoints:
        lines += [f"/ckpt/run/iter_{number:07}:", "total 9", f"drwxr-xr-x 2 t m 4096 {when} {clock}.000000000 +0000 ."]
        lines += [f"-rw-r--r-- 1 t m 1204538 {when} {clock}.000000000 +0000 .metadata"] if ranks == 4 else []
        lines += [
            f"-rw-r--r-- 1 t m 16106701{rank} {when} {clock}.000000000 +0000 __{rank}_0.distcp" for rank in range(ranks)
        ]
    return "\n".join(lines)


def report(tmp_path: Path, log: list[str], kernel: list[str] | None = None, files: str = "") -> Report:
    (tmp_path / "train.log").write_text("\n".join(log) + "\n", encoding="utf-8")
    if kernel:
        (tmp_path / "n1.log").write_text("\n".join(kernel) + "\n", encoding="utf-8")
    if files:
        (tmp_path / "ls.txt").write_text(files + "\n", encoding="utf-8")
    return analyze_paths([tmp_path], Settings(cache_dir=default_cache_dir()))


def choice(tmp_path: Path, log: list[str], kernel: list[str] | None = None, files: str = "") -> CheckpointChoice:
    return report(tmp_path, log, kernel, files).incidents[0].checkpoint


RUN = [
    step(1000, "03:30:00"),
    saved(1000, "03:30:10"),
    step(1200, "04:00:00"),
    saved(1200, "04:00:10"),
    step(1400, "04:29:50"),
    DEATH,
]


def test_newest_of_the_log_by_its_own_folder(tmp_path: Path) -> None:
    point = choice(tmp_path, RUN, [LINK])
    assert (point.restore, point.step, point.lost_steps) == ("/ckpt/run/iter_0001200", 1200, 200)
    assert (point.saved_from, point.pass_as) == ("log", "--load /ckpt/run --ckpt-step 1200")
    assert point.lost_minutes == pytest.approx(29.7, abs=0.1)
    assert point.lost_gpu_hours is None  # nothing tells how many GPUs the job had


def test_one_that_the_listing_shows_torn_is_refused_although_the_log_says_saved(tmp_path: Path) -> None:
    point = choice(tmp_path, RUN, [LINK], listing((1000, "03:30:09", 4), (1200, "04:00:09", 3)))
    assert (point.restore, point.files) == ("/ckpt/run/iter_0001000", 5)
    assert [(r.name, "no .metadata" in r.why) for r in point.refused] == [("/ckpt/run/iter_0001200", True)]


def test_one_that_was_deleted_since_is_refused(tmp_path: Path) -> None:
    log = [step(900, "03:00:00"), saved(900, "03:00:10"), *RUN]
    point = choice(tmp_path, log, [LINK], listing((1000, "03:30:09", 4), (1200, "04:00:09", 3)))
    assert point.restore == "/ckpt/run/iter_0001000"
    point = choice(tmp_path, log, [LINK], listing((1200, "04:00:09", 4)))
    assert point.restore == "/ckpt/run/iter_0001200"


def test_one_whose_end_was_never_logged_is_refused(tmp_path: Path) -> None:
    point = choice(tmp_path, [*RUN[:-1], begun(1400, "04:29:55"), DEATH], [LINK])
    assert point.restore == "/ckpt/run/iter_0001200"
    assert [(r.name, r.why) for r in point.refused] == [
        ("/ckpt/run/iter_0001400", "incomplete: its save was begun and its end was never logged")
    ]


def test_one_whose_save_failed_is_refused(tmp_path: Path) -> None:
    failed = "2026-06-11 04:00:10,000 ERROR Failed to save checkpoint at step 1200: [Errno 5] Input/output error"
    log = [line if "iteration    1200 to" not in line else failed for line in RUN]
    point = choice(tmp_path, log, [LINK], listing((1000, "03:30:09", 4), (1200, "04:00:09", 4)))
    assert point.restore == "/ckpt/run/iter_0001000"
    assert "its save failed" in point.refused[0].why


def test_saved_after_the_first_non_finite_value_is_refused(tmp_path: Path) -> None:
    log = [*RUN[:3], step(1201, "04:00:20", "nan"), saved(1210, "04:01:00"), step(1220, "04:02:00", "nan"), DEATH]
    point = choice(tmp_path, log)
    assert (point.restore, point.step) == ("/ckpt/run/iter_0001000", 1000)
    assert [(r.step, "non-finite" in r.why or "step 1201" in r.why) for r in point.refused] == [(1210, True)]


def test_a_hardware_fault_does_not_make_later_state_good(tmp_path: Path) -> None:
    """The bus error decides the class; that the loss had been NaN for long is not forgotten."""
    log = [*RUN[:2], step(1100, "03:45:00", "nan"), saved(1200, "04:00:10"), step(1400, "04:29:50", "nan"), DEATH]
    found: Incident = report(tmp_path, log, [LINK]).incidents[0]
    assert found.failure_class == "gpu.off_bus"
    assert found.checkpoint.restore == "/ckpt/run/iter_0001000"


def test_one_overflow_that_was_skipped_condemns_nothing(tmp_path: Path) -> None:
    log = [step(10, "03:00:00", "2.9"), step(11, "03:00:10", "2.8").replace("grad norm: 0.2", "grad norm: inf"), *RUN]
    assert choice(tmp_path, log, [LINK]).restore == "/ckpt/run/iter_0001200"


@pytest.mark.parametrize("code", ["48, pid=4711, DBE (double bit error)", "95, pid=4711, Uncontained: HBM"])
def test_saved_after_the_first_uncorrectable_error_is_refused(tmp_path: Path, code: str) -> None:
    kernel = [XID.format(clock="03:50:00", code=code), LINK]
    point = choice(tmp_path, RUN, kernel)
    assert point.restore == "/ckpt/run/iter_0001000"
    assert "uncorrectable" in point.refused[0].why


def test_nothing_trustworthy_is_said_and_nothing_invented(tmp_path: Path) -> None:
    point = choice(tmp_path, RUN, [LINK], listing((1000, "03:30:09", 2), (1200, "04:00:09", 3)))
    assert (point.restore, point.step, point.lost_steps, point.lost_minutes, point.pass_as) == (
        None,
        None,
        None,
        None,
        None,
    )
    assert point.why.startswith("Nothing trustworthy is left")
    assert len(point.refused) == 2


def test_local_time_of_a_listing_is_set_right_by_the_log(tmp_path: Path) -> None:
    files = listing((1000, "05:30:09", 4), (1200, "06:00:09", 4), (1300, "06:15:09", 4)).replace(".000000000 +0000", "")
    files = files.replace(":09 ", " ")
    point = choice(tmp_path, RUN, [LINK], files)
    assert (point.restore, point.saved_at, point.saved_from) == (
        "/ckpt/run/iter_0001300",
        "2026-06-11T04:15:00Z",
        "listing",
    )


def test_checkpoints_of_another_run_are_not_taken(tmp_path: Path) -> None:
    other = listing((1000, "04:10:09", 4), (1300, "04:20:09", 4)).replace("/ckpt/run/", "/ckpt/other/")
    point = choice(tmp_path, RUN, [LINK], listing((1000, "03:30:09", 4), (1200, "04:00:09", 4)) + "\n" + other)
    assert point.restore == "/ckpt/run/iter_0001200"
    assert "of another run" in point.refused[0].why


def test_absent_evidence_is_said(tmp_path: Path) -> None:
    found = report(tmp_path, [step(1000, "03:30:00"), step(1400, "04:29:50"), DEATH], [LINK])
    assert found.incidents[0].checkpoint.restore is None
    assert "no trace of a checkpoint in logs or listings" in found.coverage.missing


HOSTILE = [
    "iter_0001300;reboot",
    "iter_0001300$(rm -rf ~)",
    "iter_0001300`id`",
    "iter_0001300 && halt",
    "-rf/iter_0001300",
    "iter_0001300\x1b[2J",
]


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_names_are_never_passed_on(tmp_path: Path, name: str) -> None:
    row = "-rw-r--r-- 1 t m {} 2026-06-11 04:10:00.0 +0000 {}"
    bad = "\n".join(
        [f"/ckpt/run/{name}:", "total 1", row.format(161067010, "__0_0.distcp"), row.format(9, ".metadata")]
    )
    found = report(tmp_path, RUN, [LINK], listing((1000, "03:30:09", 4), (1200, "04:00:09", 4)) + "\n" + bad)
    incident = found.incidents[0]
    told = [incident.checkpoint.restore or "", incident.checkpoint.pass_as or ""]
    told += [text for action in incident.actions for text in (*action.commands, *action.undo, action.why)]
    assert incident.checkpoint.restore == "/ckpt/run/iter_0001200"
    for text in told:
        assert not any(sign in text for sign in ("reboot;", ";reboot", "$(rm", "`id`", "&& halt", "\x1b", "-rf/"))


@given(st.text(max_size=60))
def test_names_that_pass_mean_nothing_to_a_shell(name: str) -> None:
    passed = names.checkpoint(name)
    if passed is not None:
        assert passed == name
        assert not set(name) & set("$`;&|<>(){}[]*?!~\"'\\\n\t#%^")
        assert not name.startswith(("-", "="))
        assert name.startswith("step ") or " " not in name
