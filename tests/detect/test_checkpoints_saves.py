"""Saves that others wait for, and saves that only take their time."""

from __future__ import annotations

from pathlib import Path

from aiops.catalog import load_catalog
from aiops.config import Settings, default_cache_dir
from aiops.detect.checkpoints import detect
from aiops.detect.transport import detect as detect_transport
from aiops.ingest import open_case
from aiops.model.finding import Finding

TROUBLES = {"ckpt.pg_collision", "collective.rank0_saving", "ckpt.save_stall"}
STEP = "2026-08-01 08:{minute:02}:00,000 INFO [rank 0] step={step} loss=2.1"
START = "2026-08-01 08:10:00,000 INFO [rank 0] Saving the checkpoint"
ASYNC = "2026-08-01 08:10:00,000 INFO [rank 0] checkpoint of step 100 scheduled in the background"
SAVED = "2026-08-01 08:{minute:02}:00,000 INFO [rank 0] saved checkpoint /ckpt/step_100"
WORK = "2026-08-01 08:19:00,000 INFO [rank 0] consolidating 64 shards into model.safetensors: 41%"


def waiting(*ranks: int) -> list[str]:
    return [
        f"[rank{rank}]:[E801 08:20:11.095820839 ProcessGroupNCCL.cpp:616] [Rank {rank}] Watchdog caught collective operation timeout: "
        "WorkNCCL(SeqNum=9, OpType=ALLREDUCE, NumelIn=1, NumelOut=1, Timeout(ms)=600000) ran for 600012 milliseconds before timing out."
        for rank in ranks
    ]


def troubles(tmp_path: Path, *lines: str) -> dict[str, Finding]:
    (tmp_path / "train.log").write_text("\n".join(lines) + "\n", encoding="utf-8")
    with open_case([tmp_path], Settings(cache_dir=default_cache_dir())) as case:
        return {f.sign: f for f in detect(case, load_catalog()) if f.sign in TROUBLES}


def test_rank_0_still_saves_when_the_others_give_up(tmp_path: Path) -> None:
    found = troubles(tmp_path, STEP.format(minute=9, step=100), START, WORK, *waiting(1, 2, 3))
    assert set(found) == {"collective.rank0_saving"}
    assert found["collective.rank0_saving"].rank == 0


def test_a_save_that_completes_after_the_time_out_was_slow(tmp_path: Path) -> None:
    found = troubles(tmp_path, STEP.format(minute=9, step=100), START, *waiting(1, 2, 3), SAVED.format(minute=25))
    assert found["collective.rank0_saving"].fields["completed"] is True


def test_nothing_after_the_start_of_a_save_is_a_stall(tmp_path: Path) -> None:
    assert set(troubles(tmp_path, STEP.format(minute=9, step=100), START, *waiting(0, 1, 2, 3))) == {"ckpt.save_stall"}


def test_a_save_before_the_last_steps_is_not_to_blame(tmp_path: Path) -> None:
    lines = [STEP.format(minute=9, step=100), START, SAVED.format(minute=11), STEP.format(minute=12, step=101)]
    assert troubles(tmp_path, *lines, *waiting(0, 1, 2, 3)) == {}


def test_a_hang_right_after_an_asynchronous_save_is_its_collision(tmp_path: Path) -> None:
    assert set(troubles(tmp_path, STEP.format(minute=9, step=100), ASYNC, *waiting(0, 1))) == {"ckpt.pg_collision"}


def test_an_asynchronous_save_that_completed_collides_with_nothing(tmp_path: Path) -> None:
    lines = [STEP.format(minute=9, step=100), ASYNC, SAVED.format(minute=11), STEP.format(minute=12, step=101)]
    assert troubles(tmp_path, *lines, *waiting(0, 1)) == {}


def test_many_steps_after_an_asynchronous_save_clear_it(tmp_path: Path) -> None:
    later = [
        f"2026-08-01 08:1{n}:30,000 INFO [rank 0] step={101 + n} loss=2.1".replace("08:10:", "08:11:")
        for n in range(1, 9)
    ]
    gave_up = [line.replace("08:20:11", "08:45:11") for line in waiting(0, 1)]
    assert troubles(tmp_path, STEP.format(minute=9, step=100), ASYNC, *later, *gave_up) == {}


def down(tmp_path: Path, *hosts_and_times: tuple[str, str]) -> dict[str, Finding]:
    for host, clock in hosts_and_times:
        with open(tmp_path / f"{host}.log", "a", encoding="utf-8") as log:
            log.write(f"Aug  1 {clock} {host} kernel: [100.1] mlx5_core 0000:5e:00.0 ens4f0np0: Link down\n")
    with open_case([tmp_path], Settings(cache_dir=default_cache_dir())) as case:
        return {f.sign: f for f in detect_transport(case, load_catalog())}


def test_ports_of_several_hosts_in_one_minute_hang_on_a_switch(tmp_path: Path) -> None:
    found = down(tmp_path, ("aa-n1", "08:00:01"), ("aa-n2", "08:00:20"), ("aa-n3", "08:00:40"))
    assert found["net.switch_down"].nodes == ("aa-n1", "aa-n2", "aa-n3")
    assert found["net.switch_down"].node is None


def test_ports_that_go_down_an_hour_apart_have_nothing_in_common(tmp_path: Path) -> None:
    assert "net.switch_down" not in down(tmp_path, ("aa-n1", "08:00:01"), ("aa-n2", "09:00:20"))


def test_a_port_that_flaps_all_day_makes_no_switch_of_its_neighbour(tmp_path: Path) -> None:
    flaps = [("aa-n1", f"{hour:02}:00:01") for hour in range(1, 9)]
    assert "net.switch_down" not in down(tmp_path, *flaps, ("aa-n2", "05:00:20"))
