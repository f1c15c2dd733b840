"""What is promised of sweeps, in full: minutes of kills at random moments, and the same bytes."""

import json
import os
import random
import signal
import subprocess
import sys
import time
from contextlib import suppress

import numpy as np
import psutil
import pytest

from attnlaw.sweeps import Sweep, open_sweep, run_sweep
from attnlaw.sweeps.store import journal_size

pytestmark = pytest.mark.slow

THOUSAND = {  # cells of 3 to 30 ms: reference, matrix-free and both samplings among them
    "dimension": [20, 150, 400],
    "vocab_ratio": [0.0, 0.5],
    "sample_ratio": [0.25, 0.5, 0.75, 1.0],
    "signal_norm": [0.5, 1.0, 2.0],
    "weights": ["mean", "optimal", "causal"],
    "sampling": ["token", "gaussian"],
    "n_trials": 7,
    "trials_per_cell": 1,
    "correlation": {"kind": "prefix", "length": 6, "prefix": 3},
}
RUN = """
import json, sys
from attnlaw.sweeps import Sweep, run_sweep
run_sweep(Sweep(**json.loads(sys.argv[1])), sys.argv[2], n_jobs=int(sys.argv[3]))
"""


@pytest.fixture(scope="module")
def sweep():
    sweep = Sweep(**THOUSAND)
    assert sweep.n_cells == 1008
    return sweep


@pytest.fixture(scope="module")
def whole(sweep, tmp_path_factory):
    """The store of an uninterrupted run."""
    path = tmp_path_factory.mktemp("whole") / "store"
    run_sweep(sweep, path)
    return path


def assert_same(path, whole):
    """Byte for byte, with nothing left over."""
    names = ["lock", "manifest.json", "results.nc", "results.sha256"]
    assert sorted(p.name for p in path.iterdir()) == names
    for name in names:
        assert (path / name).read_bytes() == (whole / name).read_bytes()


def kill_all(process):
    """SIGKILL to a process and all that it has started, in any order."""
    family = [process, *psutil.Process(process.pid).children(recursive=True)]
    random.shuffle(family)
    for member in family:
        with suppress(psutil.NoSuchProcess, ProcessLookupError):
            member.kill()
    process.wait()


def n_bytes(path):
    return path.stat().st_size if path.exists() else 0


def wait_for_bytes(path, n):
    end = time.monotonic() + 120
    while n_bytes(path) < n:
        assert time.monotonic() < end, "waited too long"
        time.sleep(0.001)


@pytest.mark.parametrize("seed", range(3))
def test_a_thousand_cells_killed_five_times_at_random_moments(sweep, whole, tmp_path, seed):
    """While it starts, and with random numbers of cells done; with 1, 2 or 3 workers."""
    rng = np.random.default_rng(seed)
    path = tmp_path / "store"
    command = [sys.executable, "-c", RUN, json.dumps(sweep.as_mapping()), str(path)]
    n_missing = [sweep.n_cells]
    record = journal_size(sweep) // sweep.n_cells
    for target in [0, *sorted(rng.integers(900, size=4))]:
        begun = n_bytes(path / "cells.journal")
        with subprocess.Popen([*command, str(rng.integers(1, 4))]) as process:
            if target:
                wait_for_bytes(path / "cells.journal", max(begun + 1, target * record))
                time.sleep(rng.uniform(0, 0.05))
            else:
                time.sleep(rng.uniform(0.1, 2.0))
            kill_all(process)
        if (path / "manifest.json").exists():
            n_missing.append(open_sweep(path).attrs["n_cells_missing"])
    assert n_missing == sorted(n_missing, reverse=True), "cells were lost"
    assert n_missing[-1] > 0, "the kills came too late to test anything"
    seen = []
    run_sweep(sweep, path, n_jobs=2, progress=lambda *args: seen.append(args))
    assert len(seen) == n_missing[-1] + 1, "cells were repeated"
    assert_same(path, whole)


def test_a_kill_while_the_results_are_written(sweep, whole, tmp_path):
    """From the last cell on, a kill every few milliseconds later than the one before."""
    path = tmp_path / "store"
    run_sweep(sweep, tmp_path / "once", n_jobs=2, progress=_copy_at_end(sweep, tmp_path, path))
    journal = (path / "cells.journal").read_bytes()
    command = [sys.executable, "-c", RUN, json.dumps(sweep.as_mapping()), str(path), "1"]
    for delay in np.linspace(0.5, 2.0, 12):
        with subprocess.Popen(command) as process:
            time.sleep(delay)
            kill_all(process)
        assert open_sweep(path).attrs["n_cells_missing"] == 0
        if not (path / "cells.journal").exists():
            assert_same(path, whole)
            (path / "results.nc").unlink()  # once more, from the journal
            (path / "cells.journal").write_bytes(journal)
    run_sweep(sweep, path)
    assert_same(path, whole)


def _copy_at_end(sweep, folder, path):
    """Copy the store when all cells are in its journal and the results are not yet written."""

    def progress(done, total):
        if done == total:
            path.mkdir()
            for name in ("manifest.json", "cells.journal"):
                (path / name).write_bytes((folder / "once" / name).read_bytes())

    return progress


def worker_processes():
    """Our children but for the one that looks after semaphores, which later tests need."""
    children = psutil.Process().children()
    return [child for child in children if "resource_tracker" not in " ".join(child.cmdline())]


@pytest.mark.parametrize("n_jobs", [2, 3])
def test_workers_killed_at_random_are_replaced(sweep, whole, tmp_path, n_jobs):
    rng = np.random.default_rng(n_jobs)
    moments = set(range(100, 900, 150) + rng.integers(100, size=6))
    killed = []

    def kill_one(done, total):
        if done in moments:
            worker = rng.choice(worker_processes())
            with suppress(psutil.NoSuchProcess):
                worker.kill()
                killed.append(worker.pid)

    run_sweep(sweep, tmp_path / "store", n_jobs=n_jobs, progress=kill_one)
    assert len(killed) == 6
    assert_same(tmp_path / "store", whole)


def test_a_cluster_that_goes_away_is_one_line_and_costs_nothing(sweep, whole, tmp_path):
    """Its scheduler and all its workers killed; the sweep then goes on without a cluster."""
    pytest.importorskip("distributed")
    start = (
        "import time; from distributed import LocalCluster\n"
        "if __name__ == '__main__':\n"
        "    cluster = LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None)\n"
        "    print(cluster.scheduler_address, flush=True)\n"
        "    time.sleep(600)\n"
    )
    (tmp_path / "cluster.py").write_text(start)
    grid = tmp_path / "grid.toml"
    lines = [f"{name} = {json.dumps(v)}" for name, v in THOUSAND.items() if name != "correlation"]
    grid.write_text("\n".join([*lines, 'correlation = {kind="prefix", length=6, prefix=3}']))
    path = tmp_path / "store"
    program = [sys.executable, "-c", "from attnlaw.cli import main; main()", "sweep", str(grid)]
    command = [sys.executable, str(tmp_path / "cluster.py")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as cluster:
        address = cluster.stdout.readline().strip()
        options = ["--out", str(path), "--scheduler", address]
        with subprocess.Popen([*program, *options], stderr=subprocess.PIPE, text=True) as process:
            wait_for_bytes(path / "cells.journal", 1)
            kill_all(cluster)
            _, errors = process.communicate(timeout=120)
    assert process.returncode == 2
    assert errors.count("\n") == 1, errors
    assert "The connection to the cluster was lost in cell" in errors
    n_missing = open_sweep(path).attrs["n_cells_missing"]
    assert 0 < n_missing < sweep.n_cells
    run_sweep(sweep, path, n_jobs=2)
    assert_same(path, whole)


@pytest.mark.parametrize("n_threads", [1, 2])
def test_workers_of_a_cluster_killed_in_the_middle(sweep, whole, tmp_path, n_threads):
    distributed = pytest.importorskip("distributed")
    settings = {"n_workers": 2, "threads_per_worker": n_threads, "memory_limit": None}
    with distributed.LocalCluster(**settings, dashboard_address=None) as cluster:
        killed = []

        def kill_one(done, total):
            if done in (100, 500, 900):
                worker = cluster.workers[len(killed) % 2]
                killed.append(worker.process.pid)
                os.kill(worker.process.pid, signal.SIGKILL)

        run_sweep(
            sweep, tmp_path / "store", scheduler=cluster.scheduler_address, progress=kill_one
        )
    assert len(killed) == 3
    assert_same(tmp_path / "store", whole)
