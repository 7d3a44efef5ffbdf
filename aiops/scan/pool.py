"""Scan many files with all cores: ranges of files go to worker processes, hit lines come back in order.

The result does not depend on the number of workers. Small inputs stay in this process. A worker that dies takes
nothing with it: its range is scanned here. Workers are started anew, not forked: the caller may have threads.
"""

from __future__ import annotations

import gc
import os
import signal
import subprocess
import sys
from collections import deque
from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from multiprocessing.connection import Connection, Pipe, wait
from pathlib import Path
from typing import Any

from aiops.scan.engine import make_engine
from aiops.scan.ranges import Range, ranges_of
from aiops.scan.rules import Program
from aiops.scan.scanner import HitLine, Scanner
from aiops.scan.storm import ORDINARY
from aiops.scan.tail import with_tail

WORTHWHILE = 48 << 20
"""Bytes from which on worker processes pay for their start."""
_SHARED = 4 * ORDINARY
"""Ordinary lines kept one by one for each rule in all files together, if there is much to read: the ranks of a job print
the same progress lines, and detail is worth less the more of them do."""
_BATCH = 16 << 20
"""Bytes of small files that travel together."""
_SMALL = 16 << 10
"""Bytes of a file that may be scanned together with others."""
_FEW_LINES = 32
"""The storm guard hands out so many hits of each rule in any case."""
_MOST = 256
"""Pieces of a batch: its message must fit into a pipe whose other end is busy sending an answer."""
_AHEAD = 2
"""Tasks in flight for each worker; more would only pile up results."""


@dataclass(frozen=True, slots=True)
class Piece:
    """A range of a file, by the file's number in the caller's list."""

    file: int
    path: Path
    range: Range
    last: bool
    """No more pieces of this file follow."""


@dataclass(frozen=True, slots=True)
class Found:
    """Hit lines of a piece, lines numbered from the beginning of the file."""

    file: int
    hits: list[HitLine]
    lines: int
    """Lines of the piece."""
    last: bool
    """No more pieces of this file follow."""


Answer = list[tuple[list[HitLine], int]]


@dataclass(slots=True)
class _Worker:
    process: subprocess.Popen[bytes]
    pipe: Connection
    tasks: deque[int] = field(default_factory=deque)


def scan_files(scanner: Scanner, paths: Sequence[Path], jobs: int | None = None) -> Generator[Found, None, None]:
    """Hit lines of some files, in the order of the files and of their lines.

    ``jobs`` processes; by default all cores if there is enough to do. Closing the generator ends all but this one.

    Raises:
        OSError: a file cannot be read.
    """
    total = sum(path.stat().st_size for path in paths)
    few = min(ORDINARY, _SHARED // len(paths)) if total >= WORTHWHILE else ORDINARY
    if jobs is None:
        jobs = min(len(os.sched_getaffinity(0)), total // (WORTHWHILE // 2)) if total >= WORTHWHILE else 1
    pieces = _pieces(paths)
    answers: Iterator[tuple[Piece, tuple[list[HitLine], int]]]
    if jobs < 2:
        answers = (
            pair for batch in _batches(pieces) for pair in zip(batch, scan_pieces(scanner, batch, few), strict=True)
        )
    else:
        answers = _from_workers(scanner, pieces, jobs, few)
    file, lines = -1, 0
    waiting: Found | None = None
    for piece, (hits, count) in answers:
        if waiting is not None:
            yield _closed(waiting) if piece.file != waiting.file else waiting
        lines = lines if piece.file == file else 0
        file = piece.file
        if lines:
            hits = [hit._replace(line=hit.line + lines) for hit in hits]
        lines += count
        waiting = Found(file, hits, count, last=False)
    if waiting is not None:
        yield _closed(waiting)


def scan_pieces(scanner: Scanner, pieces: Sequence[Piece], few: int) -> Answer:
    """The task of a worker: for each piece its hit lines, numbered from its own beginning, and its number of lines."""
    answer: Answer = []
    small: list[bytes] = []
    for piece in pieces:
        text = _small(piece)
        if text is not None:
            small.append(text)
            continue
        answer += _scan_together(_all_of(scanner), small)
        small = []
        hits = list(scanner.scan_range(piece.path, piece.range, few))
        if piece.last:
            hits = with_tail(scanner, piece.path, piece.range, hits)
        answer.append((hits, scanner.lines))
    return answer + _scan_together(_all_of(scanner), small)


def _small(piece: Piece) -> bytes | None:
    """The whole file, if it is so small that nothing of it would be thinned out: then many are scanned as one."""
    if piece.range.start or not piece.last or piece.range.stop > _SMALL:
        return None
    text = piece.path.read_bytes()[: piece.range.stop]
    return text if text.count(b"\n") < _FEW_LINES else None


@lru_cache(maxsize=2)
def _all_of(scanner: Scanner) -> Scanner:
    """A scanner with the same rules that hands out every hit."""
    return Scanner(scanner.program, scanner.engine, keep=None)


def _scan_together(scanner: Scanner, texts: list[bytes]) -> Answer:
    answer: Answer = []
    parts: list[bytes] = []
    offsets, lines = [0], [0]
    for text in texts:
        part = text if text.endswith(b"\n") or not text else text + b"\n"
        parts.append(part)
        answer.append(([], part.count(b"\n")))
        offsets.append(offsets[-1] + len(part))
        lines.append(lines[-1] + answer[-1][1])
    if parts:
        number = 0
        for hit in scanner.scan_bytes(b"".join(parts)):
            while hit.offset >= offsets[number + 1]:
                number += 1
            answer[number][0].append(hit._replace(offset=hit.offset - offsets[number], line=hit.line - lines[number]))
    return answer


def _closed(found: Found) -> Found:
    return Found(found.file, found.hits, found.lines, last=True)


def _pieces(paths: Sequence[Path]) -> Iterator[Piece]:
    for number, path in enumerate(paths):
        parts = list(ranges_of(path))
        for part in parts:
            yield Piece(number, path, part, part is parts[-1])


def _batches(pieces: Iterator[Piece]) -> Iterator[list[Piece]]:
    batch: list[Piece] = []
    size = 0
    for piece in pieces:
        batch.append(piece)
        size += piece.range.stop - piece.range.start
        if size >= _BATCH or len(batch) >= _MOST:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch


def _from_workers(
    scanner: Scanner, pieces: Iterator[Piece], jobs: int, few: int
) -> Iterator[tuple[Piece, tuple[list[HitLine], int]]]:
    """``jobs`` processes, this one among them: it scans as well instead of waiting."""
    batches = _batches(pieces)
    tasks: dict[int, list[Piece]] = {}
    answers: dict[int, Answer] = {}
    workers: list[_Worker] = []
    given = turn = 0

    def next_batch() -> list[Piece] | None:
        nonlocal given
        batch = next(batches, None)
        if batch is not None:
            tasks[given] = batch
            given += 1
        return batch

    try:
        workers += (_start() for _ in range(jobs - 1))
        setup = (scanner.program, scanner.engine.name, scanner.engine.dump(), scanner.keep, few)
        for worker in workers:
            _send(worker, setup)
        while True:
            workers = [worker for worker in workers if not worker.pipe.closed]
            for worker in workers:
                while len(worker.tasks) < _AHEAD and (batch := next_batch()) is not None and _send(worker, batch):
                    worker.tasks.append(given - 1)
            if turn in answers:
                yield from zip(tasks.pop(turn), answers.pop(turn), strict=True)
                turn += 1
                _collect(workers, answers, 0.0)
                continue
            here: int | None = None
            if turn in tasks and not any(turn in worker.tasks for worker in workers):
                here = turn  # its worker died
            elif len(tasks) < jobs * _AHEAD and next_batch() is not None:
                here = given - 1
            if here is not None:
                answers[here] = scan_pieces(scanner, tasks[here], few)
            elif not tasks:
                return
            _collect(workers, answers, None if here is None else 0.0)
    finally:
        for worker in workers:
            _stop(worker)


def _start() -> _Worker:
    """A fresh interpreter that imports nothing but the scanner: `multiprocessing` would load the caller's program again."""
    ours, theirs = Pipe()
    path = os.pathsep.join(os.path.abspath(entry) for entry in sys.path)
    process = subprocess.Popen(
        [sys.executable, "-P", "-c", f"from aiops.scan.pool import serve; serve({theirs.fileno()})"],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        pass_fds=(theirs.fileno(),),
        env={**os.environ, "PYTHONPATH": path, "OPENBLAS_NUM_THREADS": "1"},
    )
    theirs.close()
    return _Worker(process, ours)


def _send(worker: _Worker, message: object) -> bool:
    """False if the worker has died; what it had is done here."""
    try:
        worker.pipe.send(message)
    except OSError:
        _stop(worker)
        worker.tasks.clear()
        return False
    return True


def _collect(workers: list[_Worker], answers: dict[int, Answer], seconds: float | None) -> None:
    """Take the answers that are there; wait so long for the next one or a death, without end if ``seconds`` is ``None``."""
    by_pipe = {worker.pipe: worker for worker in workers if worker.tasks and not worker.pipe.closed}
    for pipe in wait(list(by_pipe), seconds):
        assert isinstance(pipe, Connection)
        worker = by_pipe[pipe]
        try:
            answer: Answer | Exception = pipe.recv()
        except (EOFError, OSError):
            _stop(worker)
            worker.tasks.clear()
            continue
        if isinstance(answer, Exception):
            raise answer
        answers[worker.tasks.popleft()] = answer


def _stop(worker: _Worker) -> None:
    worker.pipe.close()
    worker.process.kill()
    worker.process.wait()


def serve(descriptor: int) -> None:
    """Body of a worker process: batches in, answers out, until the pipe closes or its other end is gone."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent decides what an interrupt means
    gc.set_threshold(100_000, 50, 1000)  # hits are tuples of numbers: no cycles
    pipe: Connection[object, Any] = Connection(descriptor)
    try:
        setup: tuple[Program, str, bytes, int | None, int] = pipe.recv()
        program, engine, compiled, keep, few = setup
        scanner = Scanner(program, make_engine(program, None, engine, compiled), keep=keep)
        while True:
            batch: list[Piece] = pipe.recv()
            try:
                answer: Answer | OSError = scan_pieces(scanner, batch, few)
            except OSError as error:
                answer = error
            pipe.send(answer)
    except (EOFError, OSError):
        return
