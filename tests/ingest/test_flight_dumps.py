"""Flight-recorder dumps: plain values come out, nothing is executed, damage is told of, and each dump gets its rank."""

from __future__ import annotations

import collections
import datetime
import gzip
import json
import os
import pickle
import pickletools
import random
from pathlib import Path
from typing import Any

import pytest
from flight_dumps import Job, hung, rounds
from hypothesis import given, settings
from hypothesis import strategies as st

from aiops.config import Settings, default_cache_dir
from aiops.ingest import open_case
from aiops.ingest.pickle_values import MAX_DEPTH, Refused, load_values


def read(*paths: Path):
    return open_case(paths, Settings(cache_dir=default_cache_dir()))


plain = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**200), 2**200) | st.floats(allow_nan=False) | st.text() | st.binary(),
    lambda inner: (
        st.lists(inner, max_size=5)
        | st.lists(inner, max_size=4).map(tuple)
        | st.dictionaries(st.text() | st.integers(), inner, max_size=5)
    ),
    max_leaves=30,
)


@given(plain, st.sampled_from([2, 3, 4, 5]))
@settings(deadline=None)
def test_plain_values_come_out_as_pickle_would_give_them(value: Any, protocol: int) -> None:
    if protocol == 2:
        value = _without_bytes(value)
    loaded = load_values(pickle.dumps(value, protocol))
    assert loaded.complete
    assert loaded.value == value


def _without_bytes(value: Any) -> Any:
    """Protocol 2 writes bytes as a call to a codec, which is refused."""
    if isinstance(value, bytes):
        return None
    if isinstance(value, (list, tuple)):
        return type(value)(_without_bytes(item) for item in value)
    return {k: _without_bytes(v) for k, v in value.items()} if isinstance(value, dict) else value


class Executes:
    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Any, ...]:
        return (os.mkdir, (str(self.path),))


class Stateful:
    def __setstate__(self, state: Any) -> None:
        raise AssertionError("was called")

    def __getstate__(self) -> dict[str, int]:
        return {"a": 1}


@pytest.mark.parametrize("protocol", [2, 3, 4, 5])
@pytest.mark.parametrize(
    "value",
    [
        collections.OrderedDict(a=1),
        datetime.date(2026, 1, 2),
        {1, 2},
        frozenset({1}),
        print,
        Stateful(),
        bytearray(b"x"),
        complex(1, 2),
    ],
    ids=lambda value: type(value).__name__,
)
def test_whatever_is_no_plain_value_is_refused_with_its_byte(value: object, protocol: int) -> None:
    data = pickle.dumps({"entries": [value]}, protocol)
    with pytest.raises(Refused, match=r"^byte \d+: refused: opcode \w+") as refused:
        load_values(data)
    at = refused.value.offset
    found = next(code.name for code, _, position in pickletools.genops(data) if position == at)
    assert f"opcode {found} " in str(refused.value)


def test_each_opcode_that_could_run_code_is_refused() -> None:
    dangerous = (
        "GLOBAL",
        "STACK_GLOBAL",
        "REDUCE",
        "BUILD",
        "INST",
        "OBJ",
        "NEWOBJ",
        "NEWOBJ_EX",
        "EXT1",
        "EXT2",
        "EXT4",
    )
    dangerous += ("PERSID", "BINPERSID")
    codes = {code.name: code.code.encode("latin-1") for code in pickletools.opcodes}
    for name in dangerous:
        with pytest.raises(Refused, match=f"opcode {name} "):
            load_values(b"\x80\x02}(" + codes[name] + b"os\nsystem\n\x00\x00\x00\x00.")


def test_a_dump_that_would_execute_is_named_and_nothing_happens(aiops, tmp_path: Path) -> None:
    target = tmp_path / "executed"
    folder = hung().write(tmp_path / "dumps")
    content = {**hung().dump(2), "extra": Executes(target)}
    for protocol in (2, 4):
        (folder / "nccl_trace_rank_2").write_bytes(pickle.dumps(content, protocol))
        done = aiops("analyze", folder, "--format", "json")
        assert done.returncode == 10, done.stderr.decode()
        assert not target.exists()
        report = json.loads(done.stdout)
        problems = {item["source"]: item["reason"] for item in report["coverage"]["problems"]}
        assert "refused: opcode" in problems["nccl_trace_rank_2"]
        assert "byte " in problems["nccl_trace_rank_2"]
        # the rank wrote a dump, so it is not the one that is missing
        assert [culprit["rank"] for culprit in report["incidents"][0]["culprits"]] == [3]


def test_any_other_pickle_is_skipped(tmp_path: Path) -> None:
    target = tmp_path / "executed"
    folder = hung().write(tmp_path / "dumps")
    (folder / "model.pt").write_bytes(pickle.dumps(Executes(target)))
    with read(folder) as case:
        assert ("model.pt", "skipped: binary content, a pickle that is no flight-recorder dump") in {
            (p.source, p.reason) for p in case.coverage.problems
        }
    assert not target.exists()


@pytest.mark.parametrize(
    "data",
    [
        b"\x80\x02" + b"(" * (MAX_DEPTH + 1),
        b"\x80\x02" + b"]" * 5_000_000,
        b"\x80\x02" + b"N" * 5_000_000,
        b"\x80\x02}(X\xff\xff\xff\xff",
        b"\x80\x04\x8d\xff\xff\xff\xff\xff\xff\xff\xffx.",
        b"\x80\x02\x8b\xff\xff\xff\x7f" + b"\x01" * 1000,
        b"\x80\x02}(" + b"N\x85" * 1000 + b"Nu.",
        b"\x80\x02h\x07.",
        b"\x80\x02]N.",
        b"\x80\x02e.",
        b"\x80\x02}Nu.",
        b"\x80\x02.",
    ],
    ids=["marks", "lists", "nones", "string", "string8", "long", "key", "memo", "two", "end", "pairs", "nothing"],
)
def test_bombs_and_damage_end_in_a_sentence(data: bytes) -> None:
    try:
        loaded = load_values(data)
    except Refused as refused:
        assert str(refused).startswith("byte ")
    else:
        assert not loaded.complete


@given(st.integers(0, 10**9))
@settings(deadline=None, max_examples=200)
def test_mutations_never_raise_anything_else(seed: int) -> None:
    rng = random.Random(seed)
    data = bytearray(pickle.dumps(hung().dump(1), rng.choice([2, 4])))
    for _ in range(rng.randrange(1, 6)):
        data[rng.randrange(len(data))] = rng.randrange(256)
    try:
        load_values(bytes(data[: rng.randrange(3, len(data) + 1)]))
    except Refused as refused:
        assert refused.offset <= len(data)


def test_of_a_dump_without_end_all_before_it_is_kept(tmp_path: Path) -> None:
    folder = rounds(Job(2, 2), 8).write(tmp_path / "dumps")
    path = folder / "nccl_trace_rank_1"
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) * 3 // 4])
    with read(folder) as case:
        dump = next(d for d in case.flight.dumps if d.rank == 1)
        assert not dump.complete
        assert 4 < len(dump) < 16
        assert list(dump.record) == list(range(len(dump)))
        problem = next(p for p in case.coverage.problems if p.source == "nccl_trace_rank_1")
        assert f"ends in the middle, at byte {len(whole) * 3 // 4}" in problem.reason


def test_json_and_pickle_say_the_same(tmp_path: Path) -> None:
    rows = {}
    for form in ("json", "pickle"):
        with read(hung().write(tmp_path / form, form=form)) as case:
            records = case.flight
            rows[form] = sorted(
                (
                    d.rank,
                    d.record[i],
                    d.seq[i],
                    d.state[i],
                    records.ops[d.op[i]],
                    records.signatures[d.signature[i]],
                    records.stacks[d.stack[i]],
                    records.groups[d.group[i]],
                )
                for d in records.dumps
                for i in range(len(d))
            )
            for d in records.dumps:
                data = case.sources[d.source].path.read_bytes()
                for row, number in enumerate(d.record):
                    part = data[d.offset[row] : d.offset[row] + 40]
                    if form == "json":
                        assert part.startswith(b'"record_id": %d,' % number)
                    else:
                        assert part[:1] == b"}", "a record of a pickle begins with its dict"
            assert case.topology.world_size == 4
    assert rows["json"] == rows["pickle"]
    assert len(rows["json"]) == 4 * 16 + 5


def test_counters_that_json_writes_as_strings(tmp_path: Path) -> None:
    job = hung()
    content = job.dump(3)
    del content["entries"]  # the JSON writer leaves the key out if nothing is pending
    content["pg_status"] = {
        str(n): {
            "last_enqueued_collective": "8",
            "last_started_collective": "8",
            "last_completed_collective": "8",
        }
        for n in range(3)
    }
    (tmp_path / "a").write_text(json.dumps(content))
    with read(tmp_path) as case:
        dump = case.flight.dumps[0]
        assert dump.rank == 3
        assert [status.enqueued for status in dump.groups.values() if status] == [8, 8, 8]


@pytest.mark.parametrize("version", ["list", "1.0", "1.2", "1.5", "2.0", "2.9", "2.10"])
def test_all_versions(tmp_path: Path, version: str) -> None:
    job = rounds(Job(1, 2), 3)
    for rank in range(2):
        content = job.dump(rank, version)
        for entry in content["entries"]:
            if version < "2":
                entry["seq_id"] = entry.pop("collective_seq_id")
                for name in ("p2p_seq_id", "op_id", "retired", "timeout_ms", "is_p2p", "input_dtypes", "output_dtypes"):
                    del entry[name]
            if version in ("list", "1.0", "1.2"):
                del entry["process_group"]
            elif version == "1.5":
                entry["pg_name"] = entry.pop("process_group")[0]
        if version == "1.2":
            content["pg_config"] = dict(enumerate(job.groups[name] for name in job.of(rank)))
        elif version in ("list", "1.0"):
            del content["pg_config"]
        (tmp_path / f"trace_{rank}").write_bytes(pickle.dumps(content["entries"] if version == "list" else content, 2))
    with read(tmp_path) as case:
        assert [len(dump) for dump in case.flight.dumps] == [6, 6]
        assert {dump.rank for dump in case.flight.dumps} == {0, 1}
        assert all(list(dump.seq) == [1, 1, 2, 2, 3, 3] for dump in case.flight.dumps)


class TestRank:
    def test_groups_tell_it_whatever_the_file_is_called(self, tmp_path: Path) -> None:
        job = hung()
        for rank in range(4):
            (tmp_path / f"{'dcab'[rank]}_9{3 - rank}").write_bytes(pickle.dumps(job.dump(rank), 2))
        with read(tmp_path) as case:
            found = {case.sources[d.source].name: (d.rank, d.sure) for d in case.flight.dumps}
        assert {name: rank for name, (rank, _) in found.items()} == {"d_93": 0, "c_92": 1, "a_91": 2, "b_90": 3}
        assert {sure for _, sure in found.values()} == {"the only common member of its process groups"}

    def test_point_to_point_records_tell_it(self, tmp_path: Path) -> None:
        job = Job(1, 3, plain=True)
        job.call(1, "0", 1, "send 1->2")
        (tmp_path / "x").write_bytes(pickle.dumps(job.dump(1), 2))
        with read(tmp_path) as case:
            assert case.flight.dumps[0].rank == 1

    def test_the_name_decides_what_is_left_open(self, tmp_path: Path) -> None:
        job = Job(1, 12, plain=True)
        job.all_call("0", 1)
        for rank, name in ((7, "nccl_trace_rank_7"), (11, "comm_lib_trace_rank_11.json.gz"), (3, "dump"), (5, "x_99")):
            data = json.dumps(job.dump(rank)).encode() if ".json" in name else pickle.dumps(job.dump(rank), 2)
            (tmp_path / name).write_bytes(gzip.compress(data) if name.endswith(".gz") else data)
        with read(tmp_path) as case:
            found = {case.sources[d.source].name: d.rank for d in case.flight.dumps}
            problems = " ".join(p.source + p.reason for p in case.coverage.problems)
        assert found == {"nccl_trace_rank_7": 7, "comm_lib_trace_rank_11.json": 11, "dump": None, "x_99": None}
        assert "dumpwhich rank wrote this" in problems
        assert "x_99which rank wrote this" in problems

    def test_the_newer_of_two_attempts_is_used(self, tmp_path: Path) -> None:
        old, new = rounds(Job(2, 2), 3), rounds(Job(2, 2), 8)
        old.write(tmp_path / "attempt_0")
        new.write(tmp_path / "attempt_1")
        with read(tmp_path) as case:
            assert {case.sources[d.source].name.split("/")[-2] for d in case.flight.dumps} == {"attempt_1"}
            told = [p for p in case.coverage.problems if "another flight-recorder dump of rank" in p.reason]
            assert len(told) == 4

    def test_equal_dumps_of_ranks_that_recorded_nothing_are_two_dumps(self, tmp_path: Path) -> None:
        job = Job(1, 4, plain=True)
        for rank in range(2):
            job.call(rank, "0", 1, state="scheduled")
        with read(job.write(tmp_path / "d")) as case:
            assert sorted(d.rank for d in case.flight.dumps if d.rank is not None) == [0, 1, 2, 3]

    def test_an_attempt_counts_as_a_whole(self, tmp_path: Path) -> None:
        """In the newer attempt rank 3 recorded nothing: its older dump says nothing about the newer one."""
        rounds(Job(2, 2), 3).write(tmp_path / "attempt_0")
        new = rounds(Job(2, 2), 8)
        new.entries[3].clear()
        new.write(tmp_path / "attempt_1")
        with read(tmp_path) as case:
            assert {case.sources[d.source].name.split("/")[-2] for d in case.flight.dumps} == {"attempt_1"}
            assert len(case.flight.dumps) == 4
