"""`attnlaw sweep` as people meet it."""

import os
import pty
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from interruptible import heed_interrupts

from attnlaw.cli.output import RunBar
from attnlaw.sweeps import load_sweep, open_sweep

GRID = """
dimension = 6
vocab_ratio = 0.5
sample_ratio = [0.25, 0.5]
signal_norm = [0.5, 2.0]
weights = ["mean", "optimal"]
n_trials = 2
trials_per_cell = {trials_per_cell}
correlation = {{ kind = "prefix", length = 3, prefix = 2 }}
"""
EXAMPLES = Path(__file__).parents[2] / "examples"
COMMAND = [sys.executable, "-c", "from attnlaw.cli import main; main()", "sweep"]


@pytest.fixture
def grid(tmp_path):
    path = tmp_path / "grid.toml"
    path.write_text(GRID.format(trials_per_cell=2))
    return path


def test_the_summary_says_where_the_results_are(run, grid, tmp_path):
    code, out, err = run("sweep", str(grid), "--out", str(tmp_path / "store"), "--jobs", "1")
    assert (code, err) == (0, "")
    assert str(tmp_path / "store" / "results.nc") in out
    assert "squared overlap observed − predicted" in out
    assert "16 in 4 cells" in out


def test_json_is_one_document(run_json, grid, tmp_path):
    document = run_json("sweep", str(grid), "--out", str(tmp_path / "store"), "--jobs", "2")
    assert document["axes"] == {"weights": 2, "sample_ratio": 2, "signal_norm": 2, "trial": 2}
    assert document["n_cells"] == 4
    data = open_sweep(tmp_path / "store")
    assert document["values_sha256"] == data.attrs["values_sha256"]
    gap = data.observed_squared_overlap.mean("trial") - data.predicted_squared_overlap
    assert document["root_mean_square_gap"] == pytest.approx(float((gap**2).mean() ** 0.5))


def test_a_log_gets_a_line_now_and_then(run, grid, tmp_path, monkeypatch):
    monkeypatch.setattr("attnlaw.cli.output.LINE_SECONDS", 0)
    code, _, err = run("sweep", str(grid), "--out", str(tmp_path / "store"), "--jobs", "1")
    assert code == 0
    lines = err.splitlines()
    assert len(lines) == 4
    assert lines[0].startswith("attnlaw: 1 of 4 cells done, 0:00:0")
    assert lines[-1] == "attnlaw: 4 of 4 cells done, 0:00:00 left"


def test_the_time_left_is_that_of_cells_and_not_of_the_start():
    """A run that goes on jumps to what is done, and its workers take seconds to start."""
    bar = RunBar(1000)
    bar.show(500, 1000)
    time.sleep(0.5)
    for done in range(501, 504):
        time.sleep(0.01)
        bar.show(done, 1000)
    (task,) = bar._progress.tasks
    assert 4 < task.time_remaining < 30  # 497 cells of 10 ms; with the start it would be 90 s


def test_another_grid_is_refused_in_one_line(run, grid, tmp_path):
    command = ["sweep", str(grid), "--out", str(tmp_path / "store"), "--jobs", "1"]
    assert run(*command)[0] == 0
    grid.write_text(grid.read_text().replace("n_trials = 2", "n_trials = 4"))
    code, _, err = run(*command)
    assert (code, err.count("\n")) == (2, 1)
    assert "got another n_trials: 2 there, 4 here" in err


@pytest.mark.parametrize(
    ("old", "new", "sentence"),
    [
        ("n_trials", "n_trails", "got 'n_trails'"),
        ("= 6", "= ", "must be a TOML file"),
        ('"optimal"', '"best"', "weights must be one of 'mean'"),
    ],
)
def test_what_is_wrong_in_the_file_is_one_line(run, grid, tmp_path, old, new, sentence):
    grid.write_text(grid.read_text().replace(old, new))
    code, _, err = run("sweep", str(grid), "--out", str(tmp_path / "store"), "--jobs", "1")
    assert (code, err.count("\n")) == (2, 1)
    assert sentence in err
    assert not (tmp_path / "store").exists()


@pytest.mark.parametrize(
    ("missing", "options", "extra"),
    [("netCDF4", ["--jobs", "1"], "sweeps"), ("distributed", ["--scheduler", "x"], "cluster")],
)
def test_a_missing_extra_is_reported_with_its_install_hint(
    run, grid, tmp_path, monkeypatch, missing, options, extra
):
    monkeypatch.setitem(sys.modules, missing, None)
    code, _, err = run("sweep", str(grid), "--out", str(tmp_path / "store"), *options)
    assert (code, err.count("\n")) == (2, 1)
    assert f" needs {missing}, which is not installed: pip install 'attnlaw[{extra}]'" in err


def test_jobs_and_scheduler_exclude_each_other(run, grid, tmp_path):
    both = ["--jobs", "2", "--scheduler", "tcp://x:1"]
    code, _, err = run("sweep", str(grid), "--out", str(tmp_path / "store"), *both)
    assert code == 2
    assert "exclude each other" in err


def test_what_every_cell_would_reject_is_reported_before_a_store_is_made(run, grid, tmp_path):
    opposed = (
        '{ kind = "matrix", matrix = [[1, -0.45, -0.45], [-0.45, 1, -0.45], [-0.45, -0.45, 1]] }'
    )
    text = grid.read_text().replace('{ kind = "prefix", length = 3, prefix = 2 }', opposed)
    grid.write_text(text.replace('["mean", "optimal"]', '"mean"'))
    code, _, err = run("sweep", str(grid), "--out", str(tmp_path / "store"), "--jobs", "1")
    assert (code, err.count("\n")) == (2, 1)
    assert "correlation must be one that signs" in err
    assert not (tmp_path / "store").exists()


def test_the_examples_of_the_help_run(run, tmp_path, monkeypatch):
    """As printed, on a smaller grid, but for those that need a cluster."""
    text = (EXAMPLES / "phase_transition.toml").read_text()
    assert load_sweep(EXAMPLES / "phase_transition.toml").n_cells == 3 * 3 * 4
    small = text.replace("[100, 200, 400]", "[20, 30, 40]").replace(
        "n_trials = 20", "n_trials = 2"
    )
    (tmp_path / "examples").mkdir()
    (tmp_path / "examples" / "phase_transition.toml").write_text(small)
    monkeypatch.chdir(tmp_path)
    _, out, _ = run("sweep", "--help")
    lines = out.split("Examples:")[1].strip().splitlines()
    assert len(lines) == 4
    for line in lines[:2]:
        code, answer, err = run(*line.split()[1:])
        assert code == 0, err
        assert "phase/results.nc" in answer
    assert open_sweep("phase").sizes["signal_norm"] == 21


def test_ctrl_c_says_how_to_go_on(tmp_path):
    """At a terminal, where the bar is: 130, what is done, and the time left before that."""
    grid = tmp_path / "grid.toml"
    text = GRID.format(trials_per_cell=1).replace("n_trials = 2", "n_trials = 1000")
    grid.write_text(text)
    ours, theirs = pty.openpty()
    command = [*COMMAND, grid, "--out", tmp_path / "store", "--jobs", "2"]
    environment = {**os.environ, "TERM": "xterm", "COLUMNS": "100"}
    with subprocess.Popen(
        command, stdout=theirs, stderr=theirs, env=environment, preexec_fn=heed_interrupts
    ) as process:
        os.close(theirs)
        journal = tmp_path / "store" / "cells.journal"
        end = time.monotonic() + 60
        while not journal.exists() or journal.stat().st_size < 20_000:
            assert time.monotonic() < end
            time.sleep(0.01)
        process.send_signal(signal.SIGINT)
        seen = b""
        while True:
            try:
                seen += os.read(ours, 4096)
            except OSError:  # the terminal is closed
                break
    os.close(ours)
    assert process.returncode == 130
    assert b"of 4,000 cells done; the same command goes on from there" in seen
    assert b"left" in seen
    assert b"Traceback" not in seen
