"""Archives made to escape, to explode or to lie: what can be read is read, the rest is said, nothing lands outside."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import struct
import tarfile
import tracemalloc
import warnings
import zipfile
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest
import zstandard

from aiops.config import Limits
from aiops.ingest.spool import Spool

LOG = b"Aug  1 08:00:01 gx-n7 kernel: NVRM: Xid (PCI:0000:3b:00): 79, pid=4242, GPU has fallen off the bus.\n"
LIMITS = Limits(max_files=500, max_unpacked_bytes=48 << 20, max_ratio=50, ratio_floor=4 << 20)


class Opened:
    """What came out of a directory with one archive."""

    def __init__(self, base: Path, name: str, data: bytes) -> None:
        case, spool = base / "case", base / "spool"
        case.mkdir()
        spool.mkdir()
        (case / name).write_bytes(data)
        found = Spool(spool, LIMITS)
        self.files = {inner: path.read_bytes() for inner, path in found.find([str(case)])}
        self.said = "\n".join(f"{p.source}: {p.reason}" for p in found.problems)
        self.bytes = sum(path.stat().st_blocks * 512 for path in spool.rglob("*"))
        assert sorted(path.name for path in base.iterdir()) == ["case", "spool"]
        assert not any(path.is_symlink() for path in base.rglob("*"))


def zipped(*members: tuple[str, bytes]) -> bytes:
    out = io.BytesIO()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # zipfile warns of names that stand twice
        with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
            for name, data in members:
                archive.writestr(name, data)
    return out.getvalue()


def tarred(*members: tuple[tarfile.TarInfo, bytes], form: int = tarfile.PAX_FORMAT) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=form) as archive:
        for info, data in members:
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))
    return out.getvalue()


def member(name: str, **fields: object) -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    for field, value in fields.items():
        setattr(info, field, value)
    return info


def test_two_members_of_one_name_are_both_read(tmp_path: Path) -> None:
    case, spool = tmp_path / "case", tmp_path / "spool"
    case.mkdir()
    spool.mkdir()
    other = LOG.replace(b"n7", b"n8")
    (case / "a.zip").write_bytes(zipped(("k.log", LOG), ("k.log", other)))
    read = [path.read_bytes() for _, path in Spool(spool, LIMITS).find([str(case)])]
    assert read == [LOG, other]


@pytest.mark.parametrize(
    ("at", "value"), [(24, 5), (20, 0xFFFFFFF0), (42, 0x7FFFFFFF)], ids=["size", "packed", "offset"]
)
def test_a_directory_that_lies_spoils_its_own_member_only(tmp_path: Path, at: int, value: int) -> None:
    data = bytearray(zipped(("good.log", LOG * 3), ("bad.log", LOG)))
    entry = data.rfind(b"PK\x01\x02")
    data[entry + at : entry + at + 4] = struct.pack("<I", value)
    found = Opened(tmp_path, "a.zip", bytes(data))
    assert found.files["a.zip!good.log"] == LOG * 3
    assert "a.zip!bad.log" in found.said or found.files["a.zip!bad.log"] == LOG


def test_zip64_is_read(tmp_path: Path) -> None:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive, archive.open("k.log", "w", force_zip64=True) as stream:
        stream.write(LOG)
    assert Opened(tmp_path, "a.zip", out.getvalue()).files == {"a.zip!k.log": LOG}


@pytest.mark.parametrize("pack", [gzip.compress, lambda data: zipped(("inner", data))], ids=["gzip", "zip"])
def test_twenty_archives_in_each_other_are_given_up(tmp_path: Path, pack: Callable[[bytes], bytes]) -> None:
    data = LOG
    for _ in range(20):
        data = pack(data)
    found = Opened(tmp_path, "deep", data)
    assert found.files == {} and "nested deeper than 4" in found.said


def test_archives_that_multiply_end_with_the_budget(tmp_path: Path) -> None:
    data = zipped(*((f"{i}.log", LOG) for i in range(40)))
    for _ in range(2):
        data = zipped(*((f"{i}.zip", data) for i in range(40)))  # 64,000 files if it were followed
    found = Opened(tmp_path, "a.zip", data)
    assert len(found.files) <= LIMITS.max_files and found.bytes < LIMITS.max_unpacked_bytes


PACKERS: dict[str, Callable[[bytes], bytes]] = {
    "gzip": gzip.compress,
    "bzip2": bz2.compress,
    "xz": lzma.compress,
    "zstd": zstandard.compress,
    "zip": lambda data: zipped(("k.log", data)),
    "tar.gz": lambda data: gzip.compress(tarred((member("k.log"), data))),
}


@pytest.mark.parametrize("kind", PACKERS)
def test_bombs_are_stopped_and_what_came_before_is_kept(tmp_path: Path, kind: str) -> None:
    found = Opened(tmp_path, "bomb", PACKERS[kind](LOG + b" " * (64 << 20)))
    assert found.bytes <= LIMITS.max_unpacked_bytes
    assert "unpacks to more than is allowed" in found.said
    if kind != "tar.gz":  # its member is cut off with the tar
        assert [data[: len(LOG)] for data in found.files.values()] == [LOG]


def lying_zip(size: int) -> bytes:
    """A bomb whose directory calls its member as large as ``size`` when packed."""
    data = bytearray(zipped(("k.log", LOG + b" " * (64 << 20))))
    at = data.rfind(b"PK\x01\x02")
    data[at + 20 : at + 24] = struct.pack("<I", size)
    return bytes(data)


def sparse_tar(size: int) -> bytes:
    """A member of GNU tar that consists of a hole of ``size`` bytes and one block."""
    info = member("k.log", type=tarfile.GNUTYPE_SPARSE)
    info.size = 512
    head = bytearray(info.tobuf(tarfile.GNU_FORMAT))
    head[386:410] = b"%011o\0%011o\0" % (size - 512, 512)
    head[483:495] = b"%011o\0" % size
    head[148:156] = b" " * 8
    head[148:156] = b"%06o\0 " % sum(head)
    return bytes(head) + b"x" * 512 + b"\0" * 1024


@pytest.mark.parametrize("bomb", [lying_zip(0x7FFFFFFF), sparse_tar(40 << 20)], ids=["zip", "tar"])
def test_a_size_that_the_archive_only_states_allows_nothing(tmp_path: Path, bomb: bytes) -> None:
    found = Opened(tmp_path, "bomb", bomb)
    assert found.said and found.bytes <= LIMITS.ratio_floor + (1 << 20)


@pytest.mark.parametrize("layers", [1, 2])
def test_many_small_bombs_count_together(tmp_path: Path, layers: int) -> None:
    """Each stays below the floor of the ratio, in one archive or in archives in it."""
    data = zipped(*((f"{i}.log", bytes(500 << 10)) for i in range(90)))
    for _ in range(layers - 1):
        data = zipped(*((f"{i}.zip", data) for i in range(3)))
    found = Opened(tmp_path, "a.zip", data)
    assert "unpacks to more than is allowed" in found.said
    assert found.bytes < LIMITS.ratio_floor + (2 << 20)


class Trickle:
    """A pipe that is never full; whoever asks for a full chunk waits for ever."""

    def __init__(self, chunks: int) -> None:
        self.left = chunks

    def read1(self, size: int) -> bytes:
        self.left -= 1
        return LOG if self.left >= 0 else b""


def test_a_slow_pipe_is_read_as_it_comes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", SimpleNamespace(buffer=Trickle(3)))
    assert [path.read_bytes() for _, path in Spool(tmp_path, LIMITS).find(["-"])] == [LOG * 3]


def test_a_pipe_without_an_end_is_cut_at_the_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", SimpleNamespace(buffer=Trickle(1 << 40)))
    spool = Spool(tmp_path, Limits(max_unpacked_bytes=10_000))
    assert [path.stat().st_size for _, path in spool.find(["-"])] == [10_000]
    assert "longer than is allowed" in spool.problems[0].reason


@pytest.mark.parametrize("tail", [b"GARBAGE" * 40, b"\x00" * 4000, b"\x1f\x8b", b"\x1f\x8b\x08\x00" + b"\xff" * 40])
def test_what_stands_behind_a_gzip_does_not_spoil_it(tmp_path: Path, tail: bytes) -> None:
    found = Opened(tmp_path, "k.log.gz", gzip.compress(LOG * 30) + tail)
    assert list(found.files.values()) == [LOG * 30]


@pytest.mark.parametrize("form", [tarfile.GNU_FORMAT, tarfile.PAX_FORMAT])
def test_long_names_are_names_only(tmp_path: Path, form: int) -> None:
    found = Opened(tmp_path, "a.tar", tarred((member("d/" * 600 + "k.log"), LOG), (member("x" * 3000), LOG), form=form))
    assert list(found.files.values()) == [LOG, LOG]


def test_a_path_in_an_extended_header_does_not_escape(tmp_path: Path) -> None:
    evil = member("k.log", pax_headers={"path": "../../evil.log"})
    found = Opened(tmp_path, "a.tar", tarred((evil, LOG), (member("good.log"), LOG)))
    assert list(found.files) == ["a.tar!good.log"] and "leads out of the archive" in found.said


@pytest.mark.parametrize("kind", [tarfile.LNKTYPE, tarfile.SYMTYPE, tarfile.CHRTYPE, tarfile.FIFOTYPE])
def test_links_and_devices_in_a_tar_are_not_made(tmp_path: Path, kind: bytes) -> None:
    odd = member("s", type=kind, linkname="/etc")
    found = Opened(tmp_path, "a.tar", tarred((odd, b""), (member("s/passwd"), LOG)))
    assert list(found.files) == ["a.tar!s/passwd"] and "a link or device" in found.said


def test_a_gzip_that_holds_itself_ends(tmp_path: Path) -> None:
    """As a quine does: each layer is an archive again."""
    data = b"x"
    for _ in range(60):
        data = zipped(("r.zip", data), ("k.log", LOG))
    found = Opened(tmp_path, "r.zip", data)
    assert len(found.files) == LIMITS.max_archive_depth and set(found.files.values()) == {LOG}


def test_a_member_without_a_name_does_not_hide_the_others(tmp_path: Path) -> None:
    data = zipped(("a.log", LOG), ("x", LOG), ("b.log", LOG))
    # the name and its length, in the member's head and in the directory, which then has a comment of one byte in its place
    start = data.index(b"PK\x01\x02", data.index(b"PK\x01\x02") + 1)
    nameless = bytearray(data)
    nameless[start + 28 : start + 34] = struct.pack("<HHH", 0, 0, 1)
    local = data.index(b"PK\x03\x04", 1)
    nameless[local + 26 : local + 30] = struct.pack("<HH", 0, 1)
    opened = Opened(tmp_path, "case.zip", bytes(nameless))
    assert [name for name in opened.files if name.endswith(".log")] == ["case.zip!a.log", "case.zip!b.log"]
    assert all(data == LOG for data in opened.files.values())


@pytest.mark.parametrize("kind", [tarfile.GNUTYPE_LONGNAME, tarfile.GNUTYPE_LONGLINK, tarfile.XHDTYPE, tarfile.XGLTYPE])
@pytest.mark.parametrize("first", [True, False], ids=["first", "second"])
def test_a_header_without_an_end_is_not_read(tmp_path: Path, kind: bytes, first: bool) -> None:
    size = 32 << 20
    header = tarfile.TarInfo("long")
    header.type, header.size = kind, size
    log = tarfile.TarInfo("kern.log")
    body = b"Aug  1 08:00:01 gx-n7 kernel: x\n"
    log.size = len(body)
    packed = log.tobuf(tarfile.GNU_FORMAT) + body.ljust(512, b"\0")
    path = tmp_path / "a.tar"
    with open(path, "wb") as out:
        out.write((b"" if first else packed) + header.tobuf(tarfile.GNU_FORMAT))
        out.write((b"%d x=" % size).ljust(size, b"a") + packed)
    (tmp_path / "spool").mkdir()
    spool = Spool(tmp_path / "spool", Limits())
    tracemalloc.start()
    names = [name for name, _ in spool.find([str(path)])]
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert names == ([] if first else ["a.tar!kern.log"])
    assert f"a header of {size} bytes" in spool.problems[0].reason
    assert peak < size // 2


def test_members_that_were_seen_are_forgotten(tmp_path: Path) -> None:
    folder = tarfile.TarInfo("d/")
    folder.type = tarfile.DIRTYPE
    (tmp_path / "a.tar").write_bytes(folder.tobuf(tarfile.GNU_FORMAT) * 20_000 + b"\0" * 1024)
    (tmp_path / "spool").mkdir()
    tracemalloc.start()
    assert not list(Spool(tmp_path / "spool", Limits()).find([str(tmp_path / "a.tar")]))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 5 << 20
