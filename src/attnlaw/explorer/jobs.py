"""Simulations in the background: trial by trial, with progress, cancelling and limits."""

import queue
import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any
from uuid import uuid4

from attnlaw._machine import available_memory
from attnlaw.data.readers import limited_memory

__all__ = ["Job", "Jobs"]

ALL_MEMORY = 2 * 2**30
"""Bytes for the files that all jobs together analyse, or half of what is at hand, if that is less.
"""

Trial = Callable[[], Any]
"""Computes the next trial."""


@dataclass(eq=False)
class Job:
    """Trials that run, have run or were stopped."""

    setting: Any  # what is simulated: the values of the page's controls
    n_trials: int
    results: list[Any] = field(default_factory=list)
    error: str = ""
    is_cancelled: bool = False
    is_finished: bool = False
    key: str = field(default_factory=lambda: uuid4().hex)
    started: float = field(default_factory=time.monotonic)

    @property
    def is_running(self) -> bool:
        """Whether trials may still be added."""
        return not (self.is_finished or self.is_cancelled)


class Jobs:
    """At most so many jobs at once, and so many remembered; the oldest are forgotten.

    Threads end with the process, in the middle of a trial: there is nothing of it to save.

    Examples
    --------
    >>> jobs = Jobs(n_at_once=1)
    >>> job = jobs.start({"d": 2}, 3, lambda: 1.0)
    >>> while job.is_running:
    ...     time.sleep(0.01)
    >>> jobs.find(job.key).results
    [1.0, 1.0, 1.0]
    """

    def __init__(self, n_at_once: int = 2, n_waiting: int = 8, n_kept: int = 64) -> None:
        self._queue: queue.SimpleQueue[tuple[Job, Trial]] = queue.SimpleQueue()
        self._n_at_once, self._threads = n_at_once, 0
        self._jobs: OrderedDict[str, Job] = OrderedDict()
        self._lock = threading.Lock()
        self._n_open, self._n_kept = n_at_once + n_waiting, n_kept

    def start(self, setting: Any, n_trials: int, trial: Trial) -> Job:
        """Queue a job; a ValueError says when too many are under way."""
        job = Job(setting, n_trials)
        with self._lock:
            if sum(other.is_running for other in self._jobs.values()) >= self._n_open:
                raise ValueError("Too many simulations are under way; try again in a moment.")
            self._jobs[job.key] = job
            while len(self._jobs) > self._n_kept:
                _, oldest = self._jobs.popitem(last=False)
                oldest.is_cancelled = True
            if self._threads < self._n_at_once:
                self._threads += 1
                threading.Thread(target=self._work, name="attnlaw-trials", daemon=True).start()
        self._queue.put((job, trial))
        return job

    def _work(self) -> None:
        while True:
            job, trial = self._queue.get()
            with limited_memory(min(ALL_MEMORY, available_memory() / 2) / self._n_at_once):
                _run(job, trial)

    def find(self, key: Any) -> Job | None:
        """Return a job by its key, unless it was forgotten."""
        return self._jobs.get(key) if isinstance(key, str) else None

    def cancel(self, key: Any) -> None:
        """Stop a job after the trial that it is in; what it has found remains."""
        if (job := self.find(key)) is not None:
            job.is_cancelled = True


def _run(job: Job, trial: Trial) -> None:
    try:
        while job.is_running and len(job.results) < job.n_trials:
            result = trial()
            if not job.is_cancelled:
                job.results.append(result)
    except Exception as error:  # told to whoever asks; the thread must live on
        job.error = str(error) or type(error).__name__
    finally:
        job.is_finished = True
