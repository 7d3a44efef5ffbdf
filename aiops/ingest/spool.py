"""From what a user names to plain files: directories walked, archives and pipes unpacked within bounds."""

from __future__ import annotations

import bz2
import contextlib
import glob
import io
import lzma
import os
import stat
import struct
import sys
import tarfile
import zipfile
import zlib
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

from aiops.config import Limits
from aiops.errors import InputError
from aiops.ingest.checkpoint_layout import is_weights
from aiops.ingest.gzipped import GzipStream
from aiops.model.case import Problem

_CHUNK = 1 << 20
_BROKEN: tuple[type[BaseException], ...] = (
    OSError,
    EOFError,
    zlib.error,
    lzma.LZMAError,
    zipfile.BadZipFile,
    tarfile.TarError,
    ValueError,
    NotImplementedError,
    RuntimeError,
    OverflowError,
    LookupError,
    struct.error,
)
"""Readers of archives index, unpack and seek by what a header says, and let the errors of that pass."""


class Budget:
    """How much may still be unpacked."""

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self.left = limits.max_unpacked_bytes
        self.files = 0


class Origin:
    """A file on the disk and what has come out of it, archives in archives included.

    Only its size is known for certain: sizes that an archive states of its members may be lies.
    """

    def __init__(self, size: int, limits: Limits) -> None:
        self.size = size
        self._most = max(limits.ratio_floor, size * limits.max_ratio)
        self._written: Counter[int] = Counter()

    def exceeded(self, depth: int, size: int) -> bool:
        """Count ``size`` more bytes; true if the archives at this depth have given more than the file can honestly hold.

        Each depth counts for itself: what is unpacked from a `.tar.gz` is written once as a tar and once as its members.
        """
        self._written[depth] += size
        return self._written[depth] > self._most


class Spool:
    """Finds the plain files of a case; unpacked ones lie in a private directory until the case is closed.

    Nothing is ever written outside that directory, links are not followed, devices and pipes are not opened.
    """

    def __init__(self, directory: Path, limits: Limits) -> None:
        self.directory = directory
        self._budget = Budget(limits)
        self._next = 0
        self.problems: list[Problem] = []
        self.skipped = 0
        self.stated: dict[str, tuple[int, int, str]] = {}
        """Name of an archive's member -> (size, time of its last change in UTC ns, ``archive``), as the archive states them."""

    def find(self, paths: list[str]) -> Iterator[tuple[str, Path]]:
        """(name in the case, plain file) of everything below the given paths, in the order of the names.

        Raises:
            InputError: a named path is missing or cannot be read at all.
        """
        paths = _expand(paths)
        names = _names(paths)
        for text in paths:
            if text == "-":
                yield from self._open("stdin", self._pipe(sys.stdin.buffer), 0)
                continue
            path = Path(text)
            try:
                mode = path.stat().st_mode
            except FileNotFoundError:
                raise InputError("no such file or directory", path=text) from None
            except OSError as error:
                raise InputError(error.strerror or "cannot be read", path=text) from None
            if stat.S_ISDIR(mode):
                if not os.access(path, os.R_OK | os.X_OK):
                    raise InputError("the directory cannot be read (permission denied)", path=text)
                prefix = "" if len(paths) == 1 else f"{names[text]}/"
                for name, file in self._walk(path):
                    yield from self._open(prefix + name, file, 0)
            elif stat.S_ISREG(mode):
                if not os.access(path, os.R_OK):
                    raise InputError("the file cannot be read (permission denied)", path=text)
                yield from self._open(names[text], path, 0)
            elif stat.S_ISFIFO(mode):
                with open(path, "rb") as pipe:
                    spooled = self._pipe(pipe)
                yield from self._open(path.name, spooled, 0)
            else:
                raise InputError("is neither a file, a directory nor a pipe", path=text)

    def _walk(self, root: Path) -> Iterator[tuple[str, Path]]:
        pending = [(root, "")]
        found: list[tuple[str, Path]] = []
        while pending:
            directory, above = pending.pop()
            try:
                entries = sorted(os.scandir(directory), key=lambda e: e.name)
            except OSError as error:
                self._problem(_relative(directory, root), f"directory not read: {error.strerror}")
                continue
            for entry in entries:
                path = Path(entry.path)
                name = above + entry.name
                try:
                    if entry.is_symlink():
                        self._link(path, root, name, found)
                    elif entry.is_dir():
                        pending.append((path, f"{name}/"))
                    elif entry.is_file():
                        found.append((name, path))
                    else:
                        self._problem(name, "skipped: a pipe, socket or device, not a file")
                except OSError as error:
                    self._problem(name, f"not read: {error.strerror}")
            if len(found) > self._budget.limits.max_files:
                self.skipped += len(found) - self._budget.limits.max_files
                del found[self._budget.limits.max_files :]
                self._problem(str(root.name), f"more than {self._budget.limits.max_files} files: the rest was not read")
                break
        yield from sorted(found)

    def _link(self, path: Path, root: Path, name: str, found: list[tuple[str, Path]]) -> None:
        """A link to a file inside the case is the same file again; any other link is not followed."""
        try:
            target = path.resolve(strict=True)
        except (OSError, RuntimeError):
            self._problem(name, "skipped: a link that leads nowhere or in a circle")
            return
        if not target.is_relative_to(root.resolve()):
            self._problem(name, "skipped: a link that leads out of the directory")
        elif target.is_dir():
            self._problem(name, "skipped: a link to a directory")

    def _open(self, name: str, path: Path, depth: int, origin: Origin | None = None) -> Iterator[tuple[str, Path]]:
        """The file itself, or what it unpacks to; ``origin`` is the file on the disk that it came out of."""
        try:
            with open(path, "rb") as handle:
                head = handle.read(512)
        except OSError as error:
            self._problem(name, f"not read: {error.strerror}")
            return
        kind = _archive_kind(head, path)
        if kind is None:
            self._budget.files += 1
            yield name, path
            return
        if depth >= self._budget.limits.max_archive_depth:
            self._problem(name, f"archives nested deeper than {depth} were not opened")
            return
        try:
            origin = origin or Origin(path.stat().st_size, self._budget.limits)
            if kind == "tar":
                yield from self._tar(name, path, depth, origin)
            elif kind == "zip":
                yield from self._zip(name, path, depth, origin)
            else:
                inner = self._decompress(name, path, kind, depth, origin)
                if inner is not None:
                    yield from self._open(_without_suffix(name), inner, depth + 1, origin)
        except _archive_errors() as error:
            self._problem(name, f"archive broken: {_reason(error)}; what came before was read")

    def _tar(self, name: str, path: Path, depth: int, origin: Origin) -> Iterator[tuple[str, Path]]:
        whole = path.stat().st_size
        with tarfile.open(path, "r:", tarinfo=_Member) as archive:
            while True:
                try:
                    # what was seen is kept otherwise: 512 bytes of a file would cost a thousand
                    archive.members.clear()  # type: ignore[attr-defined]
                    member = archive.next()
                except (tarfile.TarError, OSError, EOFError) as error:
                    self._problem(name, f"archive broken: {_reason(error)}; what came before was read")
                    return
                if member is None:
                    return
                inner = f"{name}!{member.name}"
                if member.isdir():
                    continue
                if not member.isreg():
                    self._problem(inner, "skipped: a link or device in an archive")
                    continue
                if not self._member_allowed(inner, member.name, depth, origin):
                    continue
                stream = archive.extractfile(member)
                if stream is not None:
                    self.stated[inner] = (member.size, int(member.mtime * 1e9), "archive")
                    if is_weights(member.name) and member.size > _BEGINNING:
                        stream = _beginning(stream)
                    yield from self._member(inner, stream, min(member.size, whole), depth, origin)

    def _zip(self, name: str, path: Path, depth: int, origin: Origin) -> Iterator[tuple[str, Path]]:
        whole = path.stat().st_size
        with zipfile.ZipFile(path) as archive:
            for info in archive.infolist():
                inner = f"{name}!{info.filename}"
                if info.filename.endswith("/") or not self._member_allowed(inner, info.filename, depth, origin):
                    continue
                if stat.S_ISLNK(info.external_attr >> 16):
                    self._problem(inner, "skipped: a link or device in an archive")
                    continue
                if info.flag_bits & 1:
                    self._problem(inner, "skipped: encrypted")
                    continue
                try:
                    with archive.open(info) as stream:
                        packed = min(max(1, info.compress_size), whole)
                        yield from self._member(inner, stream, packed, depth, origin)
                except _archive_errors() as error:
                    self._problem(inner, f"member broken: {_reason(error)}")

    def _member_allowed(self, inner: str, name: str, depth: int, origin: Origin) -> bool:
        # the member at which an origin was found to exceed has been named; the ones behind it are only counted
        if self._budget.files >= self._budget.limits.max_files or origin.exceeded(depth, 0):
            self.skipped += 1
            return False
        if name.startswith(("/", "\\")) or ".." in name.replace("\\", "/").split("/"):
            self._problem(inner, "skipped: the member's path leads out of the archive")
            return False
        return True

    def _member(
        self, inner: str, stream: IO[bytes], packed: int, depth: int, origin: Origin
    ) -> Iterator[tuple[str, Path]]:
        target = self.new_file()
        self._copy(inner, stream, target, packed, depth, origin)
        yield from self._open(inner, target, depth + 1, origin)

    def _decompress(self, name: str, path: Path, kind: str, depth: int, origin: Origin) -> Path | None:
        target = self.new_file()
        packed = path.stat().st_size
        with _open_compressed(path, kind) as stream:
            whole = self._copy(name, stream, target, packed, depth, origin)
        return target if whole or target.stat().st_size else None

    def _copy(self, name: str, stream: Any, target: Path, packed: int, depth: int, origin: Origin) -> bool:
        """Unpack into ``target``; keeps what came before an error or a limit. Returns False if it is cut."""
        limits = self._budget.limits
        written = 0
        with open(target, "wb") as out:
            while True:
                try:
                    chunk = stream.read(_CHUNK)
                except _archive_errors() as error:
                    self._problem(
                        name,
                        f"truncated or damaged after {written} unpacked bytes ({_reason(error)}); "
                        "the part before was read",
                    )
                    return False
                if not chunk:
                    return True
                written += len(chunk)
                self._budget.left -= len(chunk)
                swollen = written > limits.ratio_floor and written > min(packed, origin.size) * limits.max_ratio
                if origin.exceeded(depth, len(chunk)) or swollen or self._budget.left < 0:
                    self._problem(
                        name,
                        f"unpacks to more than is allowed (stopped after {written} bytes, "
                        f"{written // max(1, min(packed, origin.size))} times its size); the part before was read",
                    )
                    return False
                out.write(chunk)

    def _pipe(self, stream: Any) -> Path:
        target = self.new_file()
        with open(target, "wb") as out:
            # `read` would wait for a full chunk, for as long as a slow writer likes
            while chunk := stream.read1(_CHUNK):
                out.write(chunk[: max(0, self._budget.left)])
                self._budget.left -= len(chunk)
                if self._budget.left < 0:
                    self._problem("stdin", "longer than is allowed; the part before was read")
                    break
        return target

    def new_file(self) -> Path:
        """A name in the private directory that is not in use."""
        self._next += 1
        return self.directory / f"{self._next:06d}"

    def reserve(self, size: int) -> bool:
        """True if ``size`` more bytes may be written to the private directory; they then count as used."""
        if size > self._budget.left:
            return False
        self._budget.left -= size
        return True

    def _problem(self, source: str, reason: str) -> None:
        self.problems.append(Problem(source, reason))


_LONGEST_HEADER = 1 << 20
"""Bytes of a tar's header of names and attributes, which is read into the memory as a whole; paths end at 4096."""


class _Member(tarfile.TarInfo):
    """A member whose extended headers are not read if no program writes such."""

    def _proc_member(self, archive: tarfile.TarFile) -> tarfile.TarInfo:
        """What `tarfile` calls for the header of each member, its extended headers among them."""
        if self.type in _EXTENDED and self.size > _LONGEST_HEADER:
            raise tarfile.ReadError(f"a header of {self.size} bytes")
        member: tarfile.TarInfo = super()._proc_member(archive)  # type: ignore[misc]
        return member


_EXTENDED = (
    tarfile.GNUTYPE_LONGNAME,
    tarfile.GNUTYPE_LONGLINK,
    tarfile.XHDTYPE,
    tarfile.XGLTYPE,
    tarfile.SOLARIS_XHDTYPE,
)
_BEGINNING = 4 << 20
"""So much is unpacked of a checkpoint's weights: names, sizes and headers are looked at, never the tensors."""


def _beginning(stream: IO[bytes]) -> IO[bytes]:
    """The beginning of a large binary file; all of it if it is text after all."""
    head = stream.read(_BEGINNING)
    if b"\x00" in head[:8192]:
        return io.BytesIO(head)
    stream.seek(0)
    return stream


def _expand(paths: list[str]) -> list[str]:
    """A pattern that the shell has left alone stands for the files it fits; each path counts once."""
    found: list[str] = []
    for text in paths:
        if text != "-" and any(c in text for c in "*?[") and not os.path.lexists(text):
            fits = sorted(glob.glob(text, recursive=True))
            if not fits:
                raise InputError("no file fits this pattern", path=text)
            found += fits
        else:
            found.append(text)
    return list(dict.fromkeys(found))


def _names(paths: list[str]) -> dict[str, str]:
    """Names in the case: the last part of each path, or as much of it as keeps them apart."""
    short = {text: Path(text).name or Path(text).resolve().name for text in paths}
    if len(set(short.values())) == len(short):
        return short
    full = {text: str(Path(text).absolute()) for text in paths if text != "-"}
    common = os.path.commonpath([os.path.dirname(name) for name in full.values()])
    return {text: os.path.relpath(name, common) for text, name in full.items()}


def _archive_errors() -> tuple[type[BaseException], ...]:
    """What a broken archive can raise; Zstandard's own error exists only once its module is loaded."""
    module = sys.modules.get("zstandard")
    return (*_BROKEN, *((module.ZstdError,) if module is not None else ()))


def _relative(path: Path, root: Path) -> str:
    return os.path.relpath(path, root)


def _reason(error: BaseException) -> str:
    return str(error).strip().split("\n")[0][:160] or type(error).__name__


def _without_suffix(name: str) -> str:
    for suffix in (".gz", ".zst", ".xz", ".bz2", ".tgz"):
        if name.lower().endswith(suffix):
            return name[: -len(suffix)] + (".tar" if suffix == ".tgz" else "")
    return name


def _is_torch(head: bytes) -> bool:
    """What `torch.save` writes is a zip whose first member is ``<name>/data.pkl``: weights, nothing to read."""
    length = int.from_bytes(head[26:28], "little")
    return head[30 : 30 + length].endswith((b"/data.pkl", b"/.format_version"))


def _archive_kind(head: bytes, path: Path) -> str | None:
    if head.startswith(b"\x1f\x8b"):
        return "gzip"
    if head.startswith(b"\x28\xb5\x2f\xfd"):
        return "zstd"
    if head.startswith(b"BZh"):
        return "bzip2"
    if head.startswith(b"\xfd7zXZ\x00"):
        return "xz"
    if head.startswith((b"PK\x03\x04", b"PK\x05\x06")):
        return None if _is_torch(head) else "zip"
    if head[257:262] == b"ustar":
        return "tar"
    return None


@contextlib.contextmanager
def _open_compressed(path: Path, kind: str) -> Iterator[Any]:
    if kind == "gzip":
        with open(path, "rb") as packed:
            yield GzipStream(packed)
    elif kind == "bzip2":
        with bz2.open(path, "rb") as stream:
            yield stream
    elif kind == "xz":
        with lzma.open(path, "rb") as stream:
            yield stream
    else:
        import zstandard

        with (
            open(path, "rb") as raw,
            zstandard.ZstdDecompressor(max_window_size=1 << 27).stream_reader(raw, read_across_frames=True) as stream,
        ):
            yield stream
