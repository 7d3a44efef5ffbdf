"""Checkpoints that lie in the case as files: what is missing, cut off or unfinished is named; nothing is loaded."""

from __future__ import annotations

import hashlib
import io
import json
import os
import pickle
import tarfile
import zipfile
from collections.abc import Mapping
from pathlib import Path

import pytest

from aiops.config import Settings, default_cache_dir
from aiops.ingest import open_case
from aiops.model.case import Case, Checkpoint
from aiops.model.clock import iso

LOG = b"2026-06-11 09:00:00,000 INFO [rank 0] step=1600 loss=2.1\n"
BIG = 200_000


def weights(size: int = BIG) -> bytes:
    return b"\x80\x02\x00\x01" * (size // 4)


def safetensors(size: int = BIG) -> bytes:
    header = json.dumps({"w": {"dtype": "U8", "shape": [size], "data_offsets": [0, size]}}).encode()
    return len(header).to_bytes(8, "little") + header + bytes(size)


def torch_zip() -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_STORED) as archive:
        archive.writestr("archive/data.pkl", pickle.dumps({}))
        archive.writestr("archive/data/0", weights(BIG))
    return buffer.getvalue()


def dcp(folder: str, ranks: range, size: int = BIG) -> dict[str, bytes]:
    return {f"{folder}/.metadata": weights(400), **{f"{folder}/__{rank}_0.distcp": weights(size) for rank in ranks}}


def megatron(folder: str) -> dict[str, bytes]:
    return {f"{folder}/mp_rank_{tp:02}_{pp:03}/model_optim_rng.pt": torch_zip() for tp in range(2) for pp in range(2)}


def deepspeed(folder: str) -> dict[str, bytes]:
    states = {f"{folder}/bf16_zero_pp_rank_{d}_mp_rank_00_optim_states.pt": torch_zip() for d in range(4)}
    return {f"{folder}/mp_rank_00_model_states.pt": torch_zip(), **states}


def trainer(folder: str, step: int) -> dict[str, bytes]:
    shards = {f"model-{k:05}-of-00002.safetensors": safetensors() for k in (1, 2)}
    index = {
        "metadata": {},
        "weight_map": {"a": "model-00001-of-00002.safetensors", "b": "model-00002-of-00002.safetensors"},
    }
    files = {
        **shards,
        "model.safetensors.index.json": json.dumps(index).encode(),
        "optimizer.pt": torch_zip(),
        "scheduler.pt": torch_zip(),
        **{f"rng_state_{rank}.pth": torch_zip() for rank in range(3)},
        "trainer_state.json": json.dumps({"global_step": step, "log_history": []}).encode(),
        "config.json": b'{"hidden_size": 64}',
    }
    return {f"{folder}/{name}": data for name, data in files.items()}


def local(step: int) -> dict[str, bytes]:
    return {f"local/{rank}/iter_{step:07}_{rank}_local.pt": torch_zip() for rank in range(3)}


def look(tmp_path: Path, files: Mapping[str, bytes]) -> tuple[list[Checkpoint], Case]:
    for name, data in {"train.log": LOG, **files}.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    with open_case([tmp_path], Settings(cache_dir=default_cache_dir())) as case:
        return list(case.checkpoints), case


WHOLE = {
    "DCP": {**dcp("ckpt/step-100", range(4)), **dcp("ckpt/step-200", range(4))},
    "Megatron": {**megatron("iter_0000100"), **megatron("iter_0000200"), "latest_checkpointed_iteration.txt": b"200"},
    "Megatron dist": {
        **{f"iter_{s:07}/common.pt": torch_zip() for s in (100, 200)},
        **{f"iter_{s:07}/metadata.json": b'{"sharded_backend": "torch_dist"}' for s in (100, 200)},
        **dcp("iter_0000100", range(4)),
        **dcp("iter_0000200", range(4)),
    },
    "DeepSpeed": {**deepspeed("global_step100"), **deepspeed("global_step200"), "latest": b"global_step200"},
    "Trainer": {**trainer("checkpoint-100", 100), **trainer("checkpoint-200", 200)},
    "Lightning": {f"epoch={s // 100}-step={s}.ckpt": torch_zip() for s in (100, 200)},
    "NeMo": {
        f"gpt--val_loss=2.1-step={s}-consumed_samples=9.0/weights/{k}": d
        for s in (100, 200)
        for k, d in dcp("x", range(2)).items()
    },
    "NVRx local": {**local(100), **local(200)},
    "Composer": {f"ep0-ba{s}-rank{rank}.pt": torch_zip() for s in (100, 200) for rank in range(3)},
    "one file": {f"step_{s:06}.pt": torch_zip() for s in (100, 200)},
}


@pytest.mark.parametrize("layout", WHOLE)
def test_whole_checkpoints_are_complete_and_no_evidence_of_anything_else(tmp_path: Path, layout: str) -> None:
    found, case = look(tmp_path, WHOLE[layout])
    assert [(p.step, p.complete, p.faults) for p in found] == [(100, True, ()), (200, True, ())]
    assert [problem for problem in case.coverage.problems if "config.json" not in problem.reason] == []
    assert {s.name for s in case.sources} <= {"train.log", "checkpoint-100/config.json", "checkpoint-200/config.json"}


def without(files: Mapping[str, bytes], *gone: str) -> dict[str, bytes]:
    assert all(name in files for name in gone)
    return {name: data for name, data in files.items() if name not in gone}


BROKEN = {
    "a rank's shard": (without(WHOLE["DCP"], "ckpt/step-200/__3_0.distcp"), "__3_0.distcp (ranks 3)"),
    "all of a node and the metadata": (
        without(WHOLE["DCP"], "ckpt/step-200/.metadata", "ckpt/step-200/__2_0.distcp", "ckpt/step-200/__3_0.distcp"),
        "no .metadata",
    ),
    "an empty shard": ({**WHOLE["DCP"], "ckpt/step-200/__1_0.distcp": b""}, "empty: __1_0.distcp"),
    "a short shard": ({**WHOLE["DCP"], "ckpt/step-200/__1_0.distcp": weights(BIG // 2)}, "__1_0.distcp has 50%"),
    "a pipeline stage": (
        without(WHOLE["Megatron"], "iter_0000200/mp_rank_01_001/model_optim_rng.pt"),
        "1 of 4 mp_rank folders",
    ),
    "a tracker left behind": ({**WHOLE["Megatron"], "latest_checkpointed_iteration.txt": b"100"}, "still names 100"),
    "a common.pt": (without(WHOLE["Megatron dist"], "iter_0000200/common.pt"), "common.pt"),
    "an optimizer partition": (
        without(WHOLE["DeepSpeed"], "global_step200/bf16_zero_pp_rank_2_mp_rank_00_optim_states.pt"),
        "data-parallel ranks 2",
    ),
    "a tag left behind": ({**WHOLE["DeepSpeed"], "latest": b"global_step100"}, "latest still names global_step100"),
    "a shard of n": (without(WHOLE["Trainer"], "checkpoint-200/model-00002-of-00002.safetensors"), "1 of 2 shards"),
    "the trainer's state": (without(WHOLE["Trainer"], "checkpoint-200/trainer_state.json"), "no trainer_state.json"),
    "half of the trainer's state": (
        {**WHOLE["Trainer"], "checkpoint-200/trainer_state.json": b'{"global_step": 2'},
        "no valid JSON",
    ),
    "a random state": (without(WHOLE["Trainer"], "checkpoint-200/rng_state_1.pth"), "rng_state of ranks 1"),
    "the end of a safetensors file": (
        {**WHOLE["Trainer"], "checkpoint-200/model-00001-of-00002.safetensors": safetensors()[:-10]},
        "so it was cut off",
    ),
    "the end of a torch file": ({**WHOLE["one file"], "step_000200.pt": torch_zip()[:-30]}, "without its directory"),
    "a staging folder": (
        {**trainer("checkpoint-100", 100), **trainer("tmp-checkpoint-200", 200)},
        "temporary name tmp-checkpoint-200",
    ),
    "an unfinished marker": ({**WHOLE["Lightning"], "epoch=2-step=200-unfinished": b""}, "unfinished"),
    "an unfinished marker of NeMo": (
        {**WHOLE["NeMo"], "gpt--val_loss=2.1-step=200-consumed_samples=9.0-unfinished": b""},
        "unfinished",
    ),
    "a dirty local file": (
        {
            **without(WHOLE["NVRx local"], "local/1/iter_0000200_1_local.pt"),
            "local/1/iter_0000200_1_local.dirty.pt": torch_zip(),
        },
        "temporary files are left",
    ),
    "a wrong sum": (
        {**WHOLE["DCP"], "ckpt/step-200/SHA256SUMS": f"{hashlib.sha256(b'x').hexdigest()}  __1_0.distcp\n".encode()},
        "does not have the sha256",
    ),
}


@pytest.mark.parametrize("what", BROKEN)
def test_what_is_missing_is_named(tmp_path: Path, what: str) -> None:
    files, reason = BROKEN[what]
    found, _ = look(tmp_path, files)
    assert [(p.step, p.complete) for p in found] == [(100, True), (200, False)]
    assert reason in "; ".join(found[1].faults)


def test_a_smaller_world_that_finished_is_only_a_doubt(tmp_path: Path) -> None:
    found, _ = look(tmp_path, {**dcp("step-100", range(8)), **dcp("step-200", range(4))})
    assert [p.complete for p in found] == [True, True]
    assert any("world size" in doubt for doubt in found[1].doubts)


def test_the_sums_of_whole_files_are_told(tmp_path: Path) -> None:
    files = dcp("step-100", range(2))
    sums = "".join(f"{hashlib.sha256(data).hexdigest()}  {name.rpartition('/')[2]}\n" for name, data in files.items())
    (point,), _ = look(tmp_path, {**files, "step-100/SHA256SUMS": sums.encode()})
    assert point.complete
    assert "the sums of 3 files are right" in point.doubts


def test_times_of_an_archive_are_content_and_those_of_a_copy_are_not(tmp_path: Path) -> None:
    files = dcp("run/step-100", range(2))
    (tmp_path / "a").mkdir()
    with tarfile.open(tmp_path / "a" / "case.tar", "w") as archive:
        for name, data in {"train.log": LOG, **files}.items():
            member = tarfile.TarInfo(name)
            member.size, member.mtime = len(data), 1_781_148_904
            archive.addfile(member, io.BytesIO(data))
    with open_case([tmp_path / "a"], Settings(cache_dir=default_cache_dir())) as case:
        (point,) = case.checkpoints
    assert (point.timed_by, iso(point.saved_at)) == ("archive", "2026-06-11T03:35:04Z")
    (point,), _ = look(tmp_path / "b", files)
    assert point.timed_by == "copy"


def test_a_log_below_a_checkpoint_folder_stays_evidence(tmp_path: Path) -> None:
    _, case = look(
        tmp_path, {**dcp("step-100", range(2)), "step-100/rank7.pt": b"2026-06-11 09:00:01,000 ERROR CUDA error\n"}
    )
    assert "step-100/rank7.pt" in {source.name for source in case.sources}


def test_nothing_is_unpickled(tmp_path: Path) -> None:
    class Bomb:
        def __reduce__(self) -> tuple[object, tuple[str]]:
            return os.mkdir, (str(tmp_path / "exploded"),)

    bomb = pickle.dumps(Bomb())
    look(
        tmp_path,
        {"step-100/.metadata": bomb, "step-100/__0_0.distcp": bomb + bytes(100), "iter_0000001_0_local.pt": bomb},
    )
    assert not (tmp_path / "exploded").exists()
