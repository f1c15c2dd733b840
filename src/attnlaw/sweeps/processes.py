"""Cells on local processes, each with one thread of linear algebra.

Workers are plain child processes that import attnlaw and nothing of the caller, so a script
needs no ``if __name__ == "__main__"``. A worker that dies (out of memory, say) is replaced and
its cell computed again; when the caller dies the workers end by themselves.

A worker reads the sweep as JSON in its first line of input and the place of a cell in every
further line. Its answer is a header (the length, negative for an error in JSON) and that many
bytes.
"""

import json
import os
import queue
import struct
import subprocess
import sys
import threading
import traceback
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import numpy as np

from attnlaw._checks import Floats
from attnlaw._machine import ONE_THREAD, end_with_parent
from attnlaw.sweeps.cells import Results, Work, cell_shape, compute, described_work, label

__all__ = ["on_processes", "work"]

COMMAND = "from attnlaw.sweeps.processes import work; work()"
HEADER = struct.Struct("<q")
ATTEMPTS = 3  # of a cell whose worker dies

# Ctrl-C at the terminal is for the caller alone, who then ends the workers.
APART: dict[str, Any] = {"creationflags": 0x200} if os.name == "nt" else {"process_group": 0}


def on_processes(sweep: Work, cells: Sequence[int], n_jobs: int) -> Results:
    """Compute cells on `n_jobs` processes; yield their places and values as they come."""
    workers = _Workers(sweep, cells)
    threads = [threading.Thread(target=workers.drive) for _ in range(min(n_jobs, len(cells)))]
    for thread in threads:
        thread.start()
    try:
        for _ in cells:
            answer = workers.answers.get()
            if isinstance(answer, Exception):
                raise answer
            yield answer
    finally:
        workers.stop()
        for thread in threads:
            thread.join()
        workers.close()


def work() -> None:
    """Compute cells in a worker process until its input ends."""
    end_with_parent()
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # whatever prints must not get between the answers
    sweep = described_work(json.loads(sys.stdin.readline()))
    for line in sys.stdin:
        try:
            payload = compute(sweep, int(line)).astype("<f8").tobytes()
            header = HEADER.pack(len(payload))
        except Exception as error:
            text = str(error) if isinstance(error, ValueError) else traceback.format_exc()
            notes = getattr(error, "__notes__", [])
            payload = json.dumps([type(error).__name__, text, notes]).encode()
            header = HEADER.pack(-len(payload))
        try:
            answers.write(header + payload)
            answers.flush()
        except BrokenPipeError:  # nobody listens any more, and so there is nobody to tell
            os._exit(1)


class _WorkerDied(Exception):
    """A worker ended in the middle of a cell."""


class _Worker:
    """A child process that computes cells."""

    def __init__(self, sweep: Work) -> None:
        self._sweep = sweep
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-c", COMMAND],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=_environment(),
            **APART,
        )
        self._preface = json.dumps(sweep.plain) + "\n"  # before the first question

    def _ask(self, index: int) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(f"{self._preface}{index}\n".encode())
        self._process.stdin.flush()
        self._preface = ""

    def _hear(self, n_bytes: int) -> bytes:
        assert self._process.stdout is not None
        data: bytes = self._process.stdout.read(n_bytes)
        if len(data) < n_bytes:
            raise _WorkerDied
        return data

    def compute(self, index: int) -> Floats:
        """Return what a cell observes, or raise what it raised."""
        try:
            self._ask(index)
            (length,) = HEADER.unpack(self._hear(HEADER.size))
            payload = self._hear(abs(length))
        except BrokenPipeError:
            raise _WorkerDied from None
        if length < 0:
            raise _error(*json.loads(payload))
        return np.frombuffer(payload, "<f8").reshape(cell_shape(self._sweep))

    def kill(self) -> None:
        """End the process at once; whoever waits for its answer hears that it died."""
        self._process.kill()

    def close(self) -> int:
        """Free what is left of the process, and return what it ended with."""
        self._process.kill()
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                with suppress(OSError):
                    pipe.close()
        return self._process.wait()


class _Workers:
    """Workers, the cells they still have to compute, and the answers they have given."""

    def __init__(self, sweep: Work, cells: Sequence[int]) -> None:
        self._sweep = sweep
        self._cells = iter(cells)
        self._workers: set[_Worker] = set()
        self._is_stopped = False
        self._lock = threading.Lock()
        self.answers: queue.SimpleQueue[tuple[int, Floats] | Exception] = queue.SimpleQueue()

    def drive(self) -> None:
        """Keep one worker busy until no cell is left."""
        worker: _Worker | None = None
        try:
            while (index := self._next()) is not None:
                worker, values = self._compute(worker, index)
                self.answers.put((index, values))
        except Exception as error:
            self.answers.put(error)

    def stop(self) -> None:
        """End all workers at once."""
        with self._lock:
            self._is_stopped = True
            for worker in self._workers:
                worker.kill()

    def close(self) -> None:
        """Free what is left of the workers, once nobody talks to them any more."""
        for worker in self._workers:
            worker.close()

    def _next(self) -> int | None:
        with self._lock:
            return None if self._is_stopped else next(self._cells, None)

    def _compute(self, worker: _Worker | None, index: int) -> tuple[_Worker, Floats]:
        """Compute a cell, on another worker if this one dies of it."""
        status = 0
        for _ in range(ATTEMPTS):
            worker = worker or self._spawn()
            try:
                return worker, worker.compute(index)
            except _WorkerDied:
                with self._lock:
                    self._workers.discard(worker)
                status, worker = worker.close(), None
        raise RuntimeError(
            f"A worker process died {ATTEMPTS} times, the last time with status {status} "
            f"({'killed: out of memory?' if status == -9 else 'see its messages above'}), in "
            f"{label(self._sweep, index)}."
        )

    def _spawn(self) -> _Worker:
        with self._lock:
            if self._is_stopped:
                raise RuntimeError("The sweep has been stopped.")
            worker = _Worker(self._sweep)
            self._workers.add(worker)
            return worker


def _environment() -> dict[str, str]:
    """Return the environment of a worker: one thread, and the same modules as here."""
    path = os.pathsep.join(entry for entry in sys.path if entry)
    return {**os.environ, **ONE_THREAD, "PYTHONPATH": path}


def _error(kind: str, text: str, notes: list[str]) -> Exception:
    """Return the error of a worker as one of this process."""
    error = ValueError(text) if kind == "ValueError" else RuntimeError(text)
    for note in notes:
        error.add_note(note)
    return error
