"""Sweeps on processes and clusters: the same bytes whoever computes them and whoever is killed."""

import itertools
import json
import os
import shutil
import signal
import subprocess
import sys
import textwrap
import time
from concurrent.futures import CancelledError
from contextlib import contextmanager, suppress

import numpy as np
import psutil
import pytest
from click.testing import CliRunner
from interruptible import heed_interrupts
from threadpoolctl import threadpool_info, threadpool_limits

import attnlaw as al
from attnlaw.sweeps import Sweep, open_sweep, run_sweep
from attnlaw.sweeps.cluster import (
    _check_versions,
    _compute,
    _limit_threads,
    _result,
    _room,
    connected,
)
from attnlaw.sweeps.processes import COMMAND
from attnlaw.sweeps.store import read_journal, software

from .conftest import CHEAP

pytestmark = pytest.mark.filterwarnings("ignore:.* sequences stand for")  # cells are tiny

THOUSAND = {
    "dimension": 4,
    "vocab_ratio": 0.0,
    "sample_ratio": np.linspace(0.5, 2.0, 100).tolist(),
    "signal_norm": 1.0,
    "weights": ["mean", "optimal"],
    "n_trials": 5,
    "trials_per_cell": 1,
    "correlation": {"kind": "prefix", "length": 3, "prefix": 2},
}
RUN = """
    import json, sys
    from attnlaw.sweeps import Sweep, run_sweep
    run_sweep(Sweep(**json.loads(sys.argv[1])), sys.argv[2], n_jobs=int(sys.argv[3]))
"""


@contextmanager
def running(sweep, path, n_jobs):
    """A sweep in a process of its own."""
    command = [sys.executable, "-c", textwrap.dedent(RUN), json.dumps(sweep.as_mapping()), path]
    process = subprocess.Popen(
        [*command, str(n_jobs)],
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=heed_interrupts,
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def wait_until(condition, seconds=60.0):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "waited too long"
        time.sleep(0.001)


def size(path):
    return path.stat().st_size if path.exists() else 0


def test_a_thousand_cells_killed_five_times_end_as_if_nothing_had_happened(tmp_path):
    sweep = Sweep(**THOUSAND)
    assert sweep.n_cells == 1000
    whole, torn = tmp_path / "whole", tmp_path / "torn"
    run_sweep(sweep, whole)
    rng = np.random.default_rng(7)
    journal = torn / "cells.journal"
    for kill, n_jobs in enumerate([1, 2, 1, 2, 2]):
        begun = size(journal)
        with running(sweep, torn, n_jobs) as process:
            wait_until(lambda begun=begun: size(journal) > begun)  # it goes on from its place
            time.sleep(rng.uniform(0, 0.25))
            process.send_signal(signal.SIGKILL)
            process.wait()
        assert not (torn / "results.nc").exists(), f"kill {kill} came too late to test anything"
        done, _ = read_journal(journal, sweep)
        assert 0 < done.sum() < 1000
    seen = []
    run_sweep(sweep, torn, n_jobs=2, progress=lambda *args: seen.append(args))
    assert seen[0] == (done.sum(), 1000), "cells were lost or repeated"
    assert len(seen) == 1001 - done.sum()
    for name in ("manifest.json", "results.nc"):
        assert (whole / name).read_bytes() == (torn / name).read_bytes()


def test_workers_end_quietly_with_the_process_that_started_them(tmp_path):
    slow = Sweep(**{**THOUSAND, "dimension": 300})
    path = tmp_path / "store"
    with running(slow, path, n_jobs=2) as process:
        wait_until(lambda: size(path / "cells.journal"))  # they are in the middle of cells
        workers = psutil.Process(process.pid).children()
        assert len(workers) == 2
        process.kill()
        _, errors = process.communicate(timeout=30)
        _, alive = psutil.wait_procs(workers, timeout=20)
    assert not alive
    assert not errors


@pytest.mark.parametrize(("n_jobs", "method"), [(2, "auto"), (3, "rank-two"), (2, "matrix-free")])
def test_the_number_of_processes_changes_nothing(tmp_path, n_jobs, method):
    sweep = Sweep(**{**CHEAP, "method": method})
    here = run_sweep(sweep, tmp_path / "here")
    there = run_sweep(sweep, tmp_path / "there", n_jobs=n_jobs)
    assert here.identical(there)


def test_worker_processes_have_one_thread_of_linear_algebra(tmp_path, monkeypatch):
    for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
        monkeypatch.setenv(name, "2")
    look = (
        "import json, os, pathlib, threadpoolctl, attnlaw.simulation\n"
        "pools = [pool['num_threads'] for pool in threadpoolctl.threadpool_info()]\n"
        f"pathlib.Path({str(tmp_path)!r}, f'{{os.getpid()}}.json').write_text(json.dumps(pools))\n"
    )
    monkeypatch.setattr("attnlaw.sweeps.processes.COMMAND", look + COMMAND)
    run_sweep(Sweep(**CHEAP), tmp_path / "store", n_jobs=2)
    seen = [json.loads(path.read_text()) for path in tmp_path.glob("*.json")]
    assert len(seen) == 2
    assert all(pools and set(pools) == {1} for pools in seen)


def test_a_killed_worker_process_is_replaced(tmp_path):
    here = run_sweep(Sweep(**CHEAP), tmp_path / "here")

    def kill_one(done, total):
        if done in (2, 11):
            children = psutil.Process().children()
            assert children
            with suppress(psutil.NoSuchProcess):
                children[0].kill()

    there = run_sweep(Sweep(**CHEAP), tmp_path / "there", n_jobs=2, progress=kill_one)
    assert here.identical(there)


def test_a_cell_that_kills_its_worker_is_named(tmp_path, monkeypatch):
    monkeypatch.setattr(
        "attnlaw.sweeps.processes.COMMAND",
        "import os, signal; os.kill(os.getpid(), signal.SIGKILL)",
    )
    with pytest.raises(RuntimeError, match=r"died 3 times.*out of memory\?.* in cell \d+ \(weig"):
        run_sweep(Sweep(**CHEAP), tmp_path / "store", n_jobs=2)


@pytest.mark.parametrize("n_jobs", [1, 2])
def test_an_error_in_a_cell_says_which(tmp_path, n_jobs, monkeypatch):
    monkeypatch.setattr("attnlaw.sweeps.run.rehearse", lambda *args, **kwargs: None)
    opposed = np.full((3, 3), -0.45) + 1.45 * np.eye(3)  # more than signs can be
    sweep = Sweep(**{**CHEAP, "correlation": opposed, "weights": "mean"})
    with pytest.raises(ValueError, match="correlation must be one that signs") as caught:
        run_sweep(sweep, tmp_path / "store", n_jobs=n_jobs)
    assert "This happened in cell" in caught.value.__notes__[0]


def test_ctrl_c_keeps_what_is_done(tmp_path):
    path = tmp_path / "store"
    with running(Sweep(**THOUSAND), path, n_jobs=2) as process:
        wait_until(lambda: size(path / "cells.journal") > 0)
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=30)
    assert process.returncode == -signal.SIGINT or process.returncode == 1
    assert "KeyboardInterrupt" in errors
    assert errors.count("Traceback") == 1, errors  # the workers keep quiet
    done, _ = read_journal(path / "cells.journal", Sweep(**THOUSAND))
    assert done.any()


@pytest.fixture(scope="module")
def cluster():
    """A Dask cluster of two worker processes."""
    distributed = pytest.importorskip("distributed")
    with distributed.LocalCluster(
        n_workers=2, threads_per_worker=1, dashboard_address="127.0.0.1:0", memory_limit=None
    ) as cluster:
        yield cluster


def test_a_cluster_gives_the_same(cluster, tmp_path):
    here = run_sweep(Sweep(**CHEAP), tmp_path / "here")
    there = run_sweep(Sweep(**CHEAP), tmp_path / "there", scheduler=cluster.scheduler_address)
    assert here.identical(there)


def test_a_killed_worker_of_the_cluster_changes_nothing(cluster, tmp_path):
    sweep = Sweep(**{**THOUSAND, "n_trials": 1})
    here = run_sweep(sweep, tmp_path / "here")
    killed = []

    def kill_one(done, total):
        if done == 50:
            killed.append(cluster.workers[0].process.pid)
            os.kill(killed[0], signal.SIGKILL)

    there = run_sweep(
        sweep, tmp_path / "there", scheduler=cluster.scheduler_address, progress=kill_one
    )
    assert killed
    assert here.identical(there)


def test_workers_of_a_cluster_have_one_thread_of_linear_algebra(cheap):
    with threadpool_limits(2, user_api="blas"):
        _limit_threads.cache_clear()  # as in a worker that has just begun
        _compute(json.dumps(cheap.plain), software(), [0])
        pools = [pool for pool in threadpool_info() if pool["user_api"] == "blas"]
        assert {pool["num_threads"] for pool in pools} == {1}
    _limit_threads.cache_clear()


def test_quick_cells_travel_together(cluster, tmp_path):
    """Cells of a millisecond must not wait for a message each."""
    distributed = pytest.importorskip("distributed")
    sweep = Sweep(**THOUSAND)
    here = run_sweep(sweep, tmp_path / "here")
    with distributed.Client(cluster) as client:
        tasks = []
        submit = client.submit

        def counted(function, description, software, cells, **options):
            tasks.append(cells)
            return submit(function, description, software, cells, **options)

        client.submit = counted
        there = run_sweep(sweep, tmp_path / "there", scheduler=client)
    assert here.identical(there)
    assert sorted(itertools.chain(*tasks)) == list(range(1000))
    assert len(tasks) < 300
    assert len(tasks[0]) == 1, "nobody knows yet how long a cell takes"


class Deserted:
    """A client of a cluster whose first worker comes at the third question."""

    questions = 0

    def nthreads(self):
        self.questions += 1
        return {"tcp://10.0.0.2": 1} if self.questions > 2 else {}

    def get_versions(self, packages):
        return {"workers": {"tcp://10.0.0.2": {"packages": {"attnlaw": self.version}}}}

    def run(self, function, workers, on_error):
        return dict.fromkeys(workers, self.answer)

    version, answer = al.__version__, {}


def test_a_cluster_without_workers_is_waited_for_and_said(monkeypatch):
    """No cell is sent before its first worker is known: one that cannot read it would end."""
    monkeypatch.setattr("attnlaw.sweeps.cluster.WAIT_SECONDS", 0.0)
    with pytest.warns(UserWarning, match="The cluster has no workers; the sweep waits") as told:
        assert _room(client := Deserted(), set()) == 6
    assert len(told) == 1
    assert client.questions == 3
    monkeypatch.setattr(Deserted, "version", "0.0.9")
    with (
        pytest.warns(UserWarning, match="no workers"),
        pytest.raises(ValueError, match=r"got attnlaw 0\.0\.9 at tcp://10\.0\.0\.2"),
    ):
        _room(Deserted(), set())


def test_workers_without_a_package_get_no_cell(monkeypatch):
    """A worker that cannot read a task ends, and the sweep waited for another."""
    monkeypatch.setattr(Deserted, "questions", 2)
    found = Exception("ModuleNotFoundError(\"No module named 'scipy'\")")  # as Dask hands it on
    monkeypatch.setattr(Deserted, "answer", found)
    words = r"every worker must have attnlaw .* and the packages .*No module named 'scipy'.* at"
    with pytest.raises(ValueError, match=words):
        _room(Deserted(), set())


def test_workers_with_other_software_are_rejected(cluster, tmp_path, monkeypatch):
    other = {**software(), "numpy": "0.1"}
    monkeypatch.setattr("attnlaw.sweeps.cluster.software", lambda: other)
    with pytest.raises(ValueError, match=r"software of every worker must be .*numpy 0.1 there"):
        run_sweep(Sweep(**CHEAP), tmp_path / "store", scheduler=cluster.scheduler_address)


def test_workers_with_another_attnlaw_get_no_cell(cluster, tmp_path, monkeypatch):
    monkeypatch.setattr("attnlaw.sweeps.cluster.__version__", "9.9")
    monkeypatch.setattr("attnlaw.sweeps.cluster._compute", None)
    words = rf"every worker must be 9\.9, as here, got attnlaw {al.__version__} at tcp://"
    with pytest.raises(ValueError, match=words):
        run_sweep(Sweep(**CHEAP), tmp_path / "store", scheduler=cluster.scheduler_address)
    with pytest.raises(ValueError, match=r"must be 9\.9, as here, got none at tcp://10.0.0.2"):
        _check_versions({"tcp://10.0.0.2": {"attnlaw": None}})


def test_a_cluster_is_known_by_itself_or_by_its_file(cluster, tmp_path):
    here = run_sweep(Sweep(**CHEAP), tmp_path / "here")
    assert here.identical(run_sweep(Sweep(**CHEAP), tmp_path / "there", scheduler=cluster))
    file = tmp_path / "scheduler.json"
    file.write_text(json.dumps({"address": cluster.scheduler_address}))
    assert here.identical(run_sweep(Sweep(**CHEAP), tmp_path / "filed", scheduler=file))
    for text in ("{", "[]", '{"address": 7}'):
        file.write_text(text)
        with pytest.raises(ValueError, match="scheduler must be the scheduler file of a running"):
            run_sweep(Sweep(**CHEAP), tmp_path / "no", scheduler=file)
    with pytest.raises(ValueError, match="scheduler must be the address of a running Dask"):
        run_sweep(Sweep(**CHEAP), tmp_path / "no", scheduler=object())


@pytest.fixture(scope="module")
def certificates(tmp_path_factory):
    """A certificate that signs itself, and its key."""
    if shutil.which("openssl") is None:
        pytest.skip("openssl makes the certificates")
    folder = tmp_path_factory.mktemp("certificates")
    line = "openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=127.0.0.1"
    files = ["-keyout", folder / "key.pem", "-out", folder / "certificate.pem"]
    subprocess.run([*line.split(), *files], check=True, capture_output=True)
    return folder / "certificate.pem", folder / "key.pem"


def test_a_cluster_behind_certificates(certificates, tmp_path, monkeypatch):
    distributed = pytest.importorskip("distributed")
    certificate, key = map(str, certificates)
    roles = ("client", "scheduler", "worker")
    pairs = {f"tls_{role}_cert": certificate for role in roles}
    pairs |= {f"tls_{role}_key": key for role in roles}
    security = distributed.Security(tls_ca_file=certificate, require_encryption=True, **pairs)
    monkeypatch.setattr("attnlaw.sweeps.cluster.CONNECT_SECONDS", 3)
    here = run_sweep(Sweep(**CHEAP), tmp_path / "here")
    with distributed.LocalCluster(
        n_workers=1, threads_per_worker=1, processes=False, dashboard_address="127.0.0.1:0",
        security=security, protocol="tls://", host="127.0.0.1",
    ) as cluster:  # fmt: skip
        address = cluster.scheduler_address
        assert address.startswith("tls://")
        there = run_sweep(Sweep(**CHEAP), tmp_path / "there", scheduler=address, security=security)
        assert here.identical(there)
        assert here.identical(run_sweep(Sweep(**CHEAP), tmp_path / "own", scheduler=cluster))
        with pytest.raises(ValueError, match="that accepts our certificates"):
            run_sweep(Sweep(**CHEAP), tmp_path / "no", scheduler=address)
        file = tmp_path / "scheduler.json"
        file.write_text(json.dumps({"address": address}))
        tls = ["--tls-ca-file", certificate, "--tls-cert", certificate, "--tls-key", key]
        for way in (["--scheduler", address], ["--scheduler-file", str(file)]):
            found = swept_by_command(tmp_path / way[0], *way, *tls)
            assert found.identical(swept_by_command(tmp_path / f"{way[0]} here", "--jobs", "1"))
            assert swept_by_command(tmp_path / "no", *way) == "that accepts our certificates"
    assert not (tmp_path / "no").exists()


def swept_by_command(path, *options):
    """Run a grid from the command line; return its results, or the words of the refusal."""
    from attnlaw.cli import main

    grid = path.parent / "grid.toml"
    grid.write_text(
        "dimension = 6\nvocab_ratio = 0.5\nsample_ratio = [0.25, 0.5]\nsignal_norm = 1.0\n"
        'weights = ["mean"]\nn_trials = 2\n'
        'correlation = {kind = "prefix", length = 3, prefix = 2}\n'
    )
    done = CliRunner().invoke(main, ["sweep", str(grid), "--out", str(path), *options])
    if done.exit_code:
        assert done.exit_code == 2
        words = "that accepts our certificates"
        return words if words in done.stderr else done.stderr
    return open_sweep(path)


def test_a_scheduler_that_has_died_gets_a_sentence(tmp_path):
    distributed = pytest.importorskip("distributed")
    with distributed.LocalCluster(
        n_workers=1,
        processes=False,
        dashboard_address="127.0.0.1:0",
        host="127.0.0.1",
        protocol="tcp://",
    ) as cluster:
        client = distributed.Client(cluster, set_as_default=False)
    with pytest.raises(RuntimeError, match="scheduler of the cluster does not answer"):
        run_sweep(Sweep(**CHEAP), tmp_path / "store", scheduler=client)
    client.close()


class Unlucky:
    """A future that ends badly."""

    def __init__(self, error):
        self.error = error

    def result(self):
        raise self.error


def test_what_happened_to_a_cell_on_the_cluster_is_said(cheap):
    distributed = pytest.importorskip("distributed")
    killed = distributed.KilledWorker("task", "worker", 3)
    with pytest.raises(RuntimeError, match=r"died 4 times \(out of memory\?\) in cell 5 \("):
        _result(cheap, 5, Unlucky(killed))
    with pytest.raises(RuntimeError, match=r"connection to the cluster was lost in cell 5 \("):
        _result(cheap, 5, Unlucky(CancelledError()))
    with pytest.raises(RuntimeError, match=r"lacks attnlaw, where attnlaw .* is needed"):
        _result(cheap, 5, Unlucky(ModuleNotFoundError("no", name="attnlaw")))


def test_an_address_without_a_scheduler_is_named(tmp_path, monkeypatch):
    pytest.importorskip("distributed")
    monkeypatch.setattr("attnlaw.sweeps.cluster.CONNECT_SECONDS", 0.5)
    with pytest.raises(ValueError, match="scheduler must be the address of a running Dask"):
        run_sweep(Sweep(**CHEAP), tmp_path / "store", scheduler="tcp://127.0.0.1:1")
    assert not (tmp_path / "store").exists()
    with pytest.raises(ValueError, match="n_jobs must be left out when a scheduler is given"):
        run_sweep(Sweep(**CHEAP), tmp_path / "store", scheduler="x", n_jobs=2)


@pytest.mark.parametrize("content", ["[" * 10**5, "5", '{"address": 5}', None])
def test_other_files_than_those_of_a_scheduler_get_a_sentence(tmp_path, content):
    """A pipe was waited for, and deep brackets ended in a RecursionError."""
    pytest.importorskip("distributed")
    file = tmp_path / "scheduler.json"
    os.mkfifo(file) if content is None else file.write_text(content)
    words = "scheduler must be the scheduler file of a running Dask scheduler, got"
    with pytest.raises(ValueError, match=words), connected(file):
        pass
