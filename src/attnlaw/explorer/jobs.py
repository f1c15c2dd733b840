"""Simulations in the background: trial by trial, with progress, cancelling and limits.

`simulation_panel` gives any page the buttons for them.
"""

import queue
import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any
from uuid import uuid4

import dash_mantine_components as dmc
from dash import Dash, Input, Output, State, ctx, dcc, html, no_update

from attnlaw._machine import available_memory
from attnlaw.data.readers import limited_memory
from attnlaw.explorer.controls import Control, Values
from attnlaw.explorer.frame import LIVE, notice

__all__ = [
    "JOBS",
    "Job",
    "Jobs",
    "Trials",
    "finished_job",
    "register_simulation",
    "simulation_panel",
]

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
    except Exception as error:  # shown by the page; the thread has to go on
        job.error = str(error) or type(error).__name__
    finally:
        job.is_finished = True


JOBS = Jobs()

Trials = Callable[[Values], tuple[int, Callable[[], Any]]]
"""Returns the number of trials and the function that computes the next, or raises a ValueError."""


def simulation_panel(page: str, words: str = "Run the simulation") -> Any:
    """Return the buttons, the bar and the clock that asks how far the trials are."""
    return html.Div(
        [
            dmc.Group(
                [
                    dmc.Button(words, id=f"{page}-run", size="xs", n_clicks=0),
                    dmc.Button(
                        "Cancel", id=f"{page}-cancel", size="xs", variant="default", n_clicks=0,
                        disabled=True,
                    ),
                ],
                gap="xs",
                wrap="nowrap",
            ),
            dmc.Progress(
                id=f"{page}-progress", value=0, mt="xs",
                attributes={"section": {"aria-label": "Trials done"}},
            ),
            html.Div(id=f"{page}-status", className="status", **LIVE),
            dcc.Interval(id=f"{page}-poll", interval=250, disabled=True),
        ],
        className="runbar",
    )  # fmt: skip


def register_simulation(
    app: Dash, page: str, controls: tuple[Control, ...], trials: Trials, unit: str = "trials"
) -> None:
    """Connect the buttons of a page to the trials that its values describe."""

    @app.callback(
        Output(f"{page}-extra", "data"),
        Output(f"{page}-progress", "value"),
        Output(f"{page}-status", "children"),
        Output(f"{page}-poll", "disabled"),
        Output(f"{page}-cancel", "disabled"),
        Input(f"{page}-run", "n_clicks"),
        Input(f"{page}-cancel", "n_clicks"),
        Input(f"{page}-poll", "n_intervals"),
        State(f"{page}-extra", "data"),
        *(State(control.identifier(page), control.property) for control in controls),
        prevent_initial_call=True,
    )
    def _drive(_run: Any, _cancel: Any, _poll: Any, extra: Any, *given: Any) -> Any:
        key = extra.get("job") if isinstance(extra, dict) else None
        # A slow answer joins what is pressed meanwhile to the clock's next question.
        pressed = set(ctx.triggered_prop_ids.values())
        if f"{page}-run" in pressed:
            try:
                values = {c.name: c.check(v) for c, v in zip(controls, given, strict=True)}
                n_trials, trial = trials(values)
                JOBS.cancel(key)
                job = JOBS.start(values, n_trials, trial)
            except ValueError as error:
                return no_update, 0, notice(str(error), "red"), True, True
        else:
            if f"{page}-cancel" in pressed:
                JOBS.cancel(key)
            found = JOBS.find(key)
            if found is None:
                return no_update, 0, "", True, True
            job = found
        return _told(job, extra, unit)


def finished_job(extra: Any, values: Values) -> Job | None:
    """Return the job whose trials belong to these very values, if it has any."""
    job = JOBS.find(extra.get("job")) if isinstance(extra, dict) else None
    return job if job is not None and job.results and job.setting == values else None


def _told(job: Job, extra: Any, unit: str) -> Any:
    done = len(job.results)
    now = {"job": job.key, "done": done, "running": job.is_running}
    status: Any = f"{done} of {job.n_trials} {unit}"
    if not unit:
        status = "Done" if done else "Working …"
    if job.error:
        status = notice(job.error, "red")
    elif job.is_cancelled:
        status = f"Cancelled after {done} of {job.n_trials} {unit}".strip()
    data = now if now != extra else no_update
    return data, 100 * done / job.n_trials, status, not job.is_running, not job.is_running
