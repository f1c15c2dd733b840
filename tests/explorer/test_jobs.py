import threading
import time

import pytest
from dash import Dash, dcc, html

from attnlaw.explorer.jobs import JOBS, Jobs, register_simulation, simulation_panel


def wait_for(condition):
    end = time.monotonic() + 10
    while not condition():
        assert time.monotonic() < end, "waited in vain"
        time.sleep(0.005)


def test_trials_come_one_by_one_and_stop_when_cancelled():
    gate, jobs = threading.Semaphore(0), Jobs(n_at_once=1)

    def trial():
        gate.acquire()
        return 1

    job = jobs.start("setting", 5, trial)
    gate.release()
    wait_for(lambda: len(job.results) == 1)
    assert job.is_running
    jobs.cancel(job.key)
    gate.release()
    wait_for(lambda: job.is_finished)
    assert job.results == [1]
    assert not job.is_running


def test_a_failure_is_reported_and_the_next_job_runs():
    jobs = Jobs(n_at_once=1)

    def fails():
        raise RuntimeError("no luck")

    job = jobs.start("setting", 1, fails)
    wait_for(lambda: job.is_finished)
    assert job.error == "no luck"
    after = jobs.start("setting", 1, lambda: 2)
    wait_for(lambda: after.is_finished)
    assert after.results == [2]


def test_there_is_a_limit_and_the_oldest_are_forgotten():
    gate = threading.Event()
    jobs = Jobs(n_at_once=1, n_waiting=1, n_kept=2)
    first, second = (jobs.start("setting", 1, gate.wait) for _ in range(2))
    with pytest.raises(ValueError, match="Too many simulations"):
        jobs.start("setting", 1, gate.wait)
    gate.set()
    wait_for(lambda: first.is_finished and second.is_finished)
    third = jobs.start("setting", 1, lambda: 3)
    wait_for(lambda: third.is_finished)
    assert jobs.find(first.key) is None
    assert jobs.find(third.key) is third
    assert jobs.find(["not", "a", "key"]) is None


def test_a_cancellation_that_comes_with_the_clock_is_heard():
    gate = threading.Event()
    app = Dash(__name__)
    app.layout = html.Div([dcc.Store(id="page-extra"), simulation_panel("page")])
    register_simulation(app, "page", (), lambda _: (9, gate.wait))
    ask = app.server.test_client()
    outputs = (
        "extra.data",
        "progress.value",
        "status.children",
        "poll.disabled",
        "cancel.disabled",
    )

    def press(*names, extra=None):
        parts = (("run", "n_clicks"), ("cancel", "n_clicks"), ("poll", "n_intervals"))
        body = {
            "output": f"..{'...'.join(f'page-{name}' for name in outputs)}..",
            "outputs": [
                {"id": f"page-{name.split('.')[0]}", "property": name.split(".")[1]}
                for name in outputs
            ],
            "inputs": [{"id": f"page-{i}", "property": name, "value": 1} for i, name in parts],
            "state": [{"id": "page-extra", "property": "data", "value": extra}],
            "changedPropIds": [f"page-{i}.{name}" for i, name in parts[::-1] if i in names],
        }
        return ask.post("/_dash-update-component", json=body).get_json()["response"]

    extra = press("run")["page-extra"]["data"]
    said = press("poll", "cancel", extra=extra)  # the clock first, as the browser lists them
    gate.set()
    assert JOBS.find(extra["job"]).is_cancelled
    assert said["page-status"]["children"] == "Cancelled after 0 of 9 trials"
