"""Buttons that run trials in the background, with progress and cancel, for any page."""

from collections.abc import Callable
from typing import Any

import dash_mantine_components as dmc
from dash import Dash, Input, Output, State, ctx, dcc, html, no_update

from attnlaw.explorer.controls import Control, Values
from attnlaw.explorer.frame import LIVE, notice
from attnlaw.explorer.jobs import Job, Jobs

__all__ = ["JOBS", "Trials", "finished_job", "register_simulation", "simulation_panel"]

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
                mt="md",
            ),
            dmc.Progress(
                id=f"{page}-progress", value=0, mt="xs",
                attributes={"section": {"aria-label": "Trials done"}},
            ),
            html.Div(id=f"{page}-status", className="status", **LIVE),
            dcc.Interval(id=f"{page}-poll", interval=250, disabled=True),
        ]
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
        if ctx.triggered_id == f"{page}-run":
            try:
                values = {c.name: c.check(v) for c, v in zip(controls, given, strict=True)}
                n_trials, trial = trials(values)
                JOBS.cancel(key)
                job = JOBS.start(values, n_trials, trial)
            except ValueError as error:
                return no_update, 0, notice(str(error), "red"), True, True
        else:
            if ctx.triggered_id == f"{page}-cancel":
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
