"""Worker processes with one task each in flight, so that a dead worker names the bundle that killed it.

`concurrent.futures.ProcessPoolExecutor` fails every pending task when one worker dies and cannot tell which task it
was; here each worker has its own pipe. Workers are spawned, not forked: the caller may have threads.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
import time
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from multiprocessing.context import SpawnProcess

from aiops.triage.task import Outcome, Task, run_task


@dataclass(slots=True)
class _Worker:
    process: SpawnProcess
    pipe: Connection
    task: Task | None = None
    since: float = 0.0


Work = Callable[[Task], Outcome]
"""What a worker does with a task; a function of a module, since it is sent to another process by name."""


def run_pool(tasks: Iterable[Task], jobs: int, timeout: float, work: Work = run_task) -> Generator[Outcome, None, None]:
    """Outcomes in order of completion; every task gives exactly one.

    A worker that is killed, or that needs more than ``timeout`` seconds for a bundle, fails that bundle and is
    replaced. Closing the iterator ends all workers.
    """
    waiting = deque(tasks)
    workers: list[_Worker] = []
    try:
        while waiting or any(worker.task for worker in workers):
            while waiting and len(workers) < jobs:
                workers.append(_start(work))
            for worker in workers:
                if worker.task is None and waiting and _give(worker, waiting[0]):
                    waiting.popleft()
            yield from _collect(workers, timeout)
            workers = [worker for worker in workers if not worker.pipe.closed]
    finally:
        for worker in workers:
            _stop(worker)


def _start(work: Work) -> _Worker:
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    process = context.Process(target=_serve, args=(theirs, work), name="aiops-triage", daemon=True)
    process.start()
    theirs.close()
    return _Worker(process=process, pipe=ours)


def _give(worker: _Worker, task: Task) -> bool:
    """False if the worker died while it was idle; the task is then for another one."""
    try:
        worker.pipe.send(task)
    except OSError:
        _stop(worker)
        return False
    worker.task, worker.since = task, time.monotonic()
    return True


def _collect(workers: list[_Worker], timeout: float) -> Iterator[Outcome]:
    """Wait for the next answers, deaths or time-outs. A worker that is of no more use has its pipe closed."""
    busy = {worker.pipe: worker for worker in workers if worker.task is not None}
    if not busy:
        return
    first = min(worker.since for worker in busy.values())
    ready = set(wait(list(busy), max(0.0, first + timeout - time.monotonic())))
    for pipe, worker in busy.items():
        task, used = worker.task, time.monotonic() - worker.since
        assert task is not None
        if pipe in ready:
            try:
                answer: Outcome | None = pipe.recv()
            except (EOFError, OSError):
                answer = Outcome(task.id, used, _cause_of_death(worker))
                _stop(worker)
            if answer is None:  # it has started; its own start does not count as time for the bundle
                worker.since = time.monotonic()
                continue
            outcome = answer
        elif used >= timeout:
            outcome = Outcome(task.id, used, f"gave no answer within {timeout:g} s")
            _stop(worker)
        else:
            continue
        worker.task = None
        yield outcome


def _cause_of_death(worker: _Worker) -> str:
    worker.process.join(10)
    code = worker.process.exitcode
    if code is not None and code < 0:
        return f"the worker was killed by {signal.Signals(-code).name} (out of memory?)"
    return f"the worker ended with exit code {code}"


def _stop(worker: _Worker) -> None:
    worker.pipe.close()
    if worker.task is not None:
        worker.process.kill()
    worker.process.join(10)
    if worker.process.is_alive():
        worker.process.kill()
        worker.process.join()


def _serve(pipe: Connection, work: Work) -> None:
    """Body of a worker: tasks in, outcomes out, until the pipe closes."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent decides what an interrupt means
    threading.Thread(target=_end_with_parent, daemon=True).start()
    try:
        pipe.send(None)
        while True:
            task: Task = pipe.recv()
            pipe.send(work(task))
    except (EOFError, OSError):
        return


def _end_with_parent() -> None:
    """A killed parent must not leave workers behind that nobody waits for."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        wait([parent.sentinel])
        os._exit(1)
