"""The store: identical after any interruption, one writer, no mixing of sweeps or versions."""

import json
import os
import shutil
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest

import attnlaw as al
from attnlaw._machine import MissingExtra
from attnlaw._store import exclusive, source_files
from attnlaw.simulation.trials import trial_memory
from attnlaw.sweeps import StoreError, Sweep, open_sweep, run_sweep
from attnlaw.sweeps import run as run_module
from attnlaw.sweeps import store as store_module
from attnlaw.sweeps.cells import cell
from attnlaw.sweeps.store import SOURCES, journal_size, open_journal, read_journal, software
from attnlaw.theory import predict

from .conftest import CHEAP


@pytest.fixture(scope="module")
def reference(tmp_path_factory):
    """The store of an uninterrupted run."""
    path = tmp_path_factory.mktemp("reference") / "store"
    run_sweep(Sweep(**CHEAP), path)
    return path


def same_files(a, b):
    names = ["manifest.json", "results.nc", "results.sha256"]
    return all((a / name).read_bytes() == (b / name).read_bytes() for name in names)


class Stop(Exception):
    pass


def stop_after(n):
    def progress(done, total):
        if done == n:
            raise Stop

    return progress


def test_the_dataset_is_labelled_and_holds_predictions_and_observations(reference, cheap):
    data = open_sweep(reference)
    assert data.observed_squared_overlap.dims == (*cheap.axes, "trial")
    assert "dimension" not in data.predicted_squared_overlap.dims
    assert data.weights.values.tolist() == ["mean", "optimal"]
    assert data.observed_is_detectable.dtype == bool
    assert data.attrs["n_cells_missing"] == 0
    assert Sweep(**json.loads(data.attrs["sweep"])) == cheap
    assert not any(data[name].isnull().any() for name in data.data_vars)


@pytest.mark.filterwarnings("ignore::attnlaw.RegimeWarning")
def test_values_are_at_their_coordinates(reference, cheap):
    data = open_sweep(reference)
    point = {"weights": "optimal", "sample_ratio": 0.5, "dimension": 8}
    model = cheap.model({**cheap.parameters, **point})
    for k in range(cheap.n_cells):
        work = cell(cheap, k)
        if work.model == model and work.dimension == 8:
            break
    seen = al.simulate(model, 8, 4, np.random.default_rng(work.stream))
    found = data.observed_top_eigenvalue.sel(point).transpose("trial", "signal_norm")
    np.testing.assert_array_equal(found, seen.top_eigenvalue)
    predicted = predict(model)
    found = data.predicted_squared_overlap.sel(weights="optimal", sample_ratio=0.5)
    np.testing.assert_array_equal(found, predicted.squared_overlap)


def test_with_a_ridge_classification_is_swept(tmp_path):
    sweep = Sweep(**{**CHEAP, "ridge": [0.1, 1.0], "sample_ratio": 0.5, "dimension": 60})
    data = run_sweep(sweep, tmp_path / "store")
    assert data.observed_accuracy.dims == ("weights", "ridge", "signal_norm", "trial")
    assert data.predicted_accuracy.dims == ("weights", "ridge", "signal_norm")
    point = {"weights": "mean", "ridge": 1.0}
    work = cell(sweep, 0)
    model = sweep.model({**sweep.parameters, **point})
    seen = al.simulate_accuracy(model, 60, 4, np.random.default_rng(work.stream), ridge=1.0)
    found = data.observed_accuracy.sel(point).transpose("trial", "signal_norm")
    np.testing.assert_array_equal(found, seen.accuracy)
    gap = data.observed_accuracy.mean("trial") - data.predicted_accuracy
    assert float(abs(gap).max()) < 0.1


def test_what_theory_refuses_is_refused_before_any_work(tmp_path):
    loose = {"kind": "prefix", "length": 3, "prefix": 2, "within": 0.5}
    with pytest.raises(ValueError, match="correlation must be"):
        run_sweep(Sweep(**{**CHEAP, "ridge": 1.0, "correlation": loose}), tmp_path / "store")
    assert not (tmp_path / "store").exists()


def test_nothing_is_left_but_manifest_results_and_lock(reference):
    names = ["lock", "manifest.json", "results.nc", "results.sha256"]
    assert sorted(p.name for p in reference.iterdir()) == names


@pytest.mark.parametrize("n_done", [0, 1, 13, 24])
def test_an_interrupted_sweep_goes_on_and_ends_the_same(cheap, tmp_path, reference, n_done):
    path = tmp_path / "store"
    with pytest.raises(Stop):
        run_sweep(cheap, path, progress=stop_after(n_done))
    half = open_sweep(path)
    assert half.attrs["n_cells_missing"] == 24 - n_done
    assert int(half.observed_top_eigenvalue.notnull().sum()) == n_done * 2 * 2
    calls = []
    run_sweep(cheap, path, progress=lambda *args: calls.append(args))
    assert calls == [(k, 24) for k in range(n_done, 25)]
    assert same_files(path, reference)


def test_a_finished_sweep_is_not_run_again(cheap, reference, monkeypatch):
    monkeypatch.setattr(run_module, "compute", None)
    calls = []
    data = run_sweep(cheap, reference, progress=lambda *args: calls.append(args))
    assert calls == [(24, 24)]
    assert data.identical(open_sweep(reference))


def test_a_journal_torn_anywhere_costs_one_cell(cheap, tmp_path):
    path = tmp_path / "journal"
    values = np.random.default_rng(0).random((24, 8, 2, 2))
    with open_journal(path, cheap) as journal:
        for k in range(3):
            journal.append(k, values[k])
    whole = path.read_bytes()
    size = len(whole) // 3
    for n_bytes in range(2 * size, 3 * size, 7):
        path.write_bytes(whole[:n_bytes])
        done, _ = read_journal(path, cheap)
        assert np.flatnonzero(done).tolist() == [0, 1]
        with open_journal(path, cheap) as journal:
            journal.append(5, values[5])
        done, found = read_journal(path, cheap)
        assert np.flatnonzero(done).tolist() == [0, 1, 5]
        np.testing.assert_array_equal(found[done], values[[0, 1, 5]])


@pytest.mark.parametrize("offset", [0, 8, 100])  # in the index, the checksum, the values
def test_a_damaged_record_is_noticed_and_its_cell_computed_again(
    cheap, tmp_path, reference, offset
):
    path = tmp_path / "store"
    with pytest.raises(Stop):
        run_sweep(cheap, path, progress=stop_after(10))
    journal = path / "cells.journal"
    data = bytearray(journal.read_bytes())
    data[len(data) // 2 + offset] ^= 2
    journal.write_bytes(data)
    assert open_sweep(path).attrs["n_cells_missing"] == 15
    run_sweep(cheap, path)
    assert same_files(path, reference)


def test_a_kill_between_results_and_journal_is_mended(cheap, tmp_path, reference, monkeypatch):
    path = tmp_path / "store"
    with pytest.raises(Stop):
        run_sweep(cheap, path, progress=stop_after(24))
    journal = (path / "cells.journal").read_bytes()
    (path / ".partial-results.nc").write_bytes(b"torn")
    run_sweep(cheap, path)
    assert same_files(path, reference)
    (path / "cells.journal").write_bytes(journal)
    run_sweep(cheap, path)
    assert not (path / "cells.journal").exists()
    assert same_files(path, reference)


@pytest.mark.parametrize("seed", range(25))
def test_one_flipped_bit_in_the_results_is_noticed(cheap, tmp_path, reference, seed):
    path = tmp_path / "store"
    shutil.copytree(reference, path)
    data = bytearray((path / "results.nc").read_bytes())
    place = int(np.random.default_rng(seed).integers(len(data)))
    data[place] ^= 1 << seed % 8
    (path / "results.nc").write_bytes(data)
    words = r"results.nc must be as it was written, got a damaged file: its SHA-256 is"
    with pytest.raises(StoreError, match=words):
        open_sweep(path)
    with pytest.raises(StoreError, match=words):
        run_sweep(cheap, path)


def test_the_journal_rebuilds_damaged_results(cheap, tmp_path, reference):
    path = tmp_path / "store"
    with pytest.raises(Stop):
        run_sweep(cheap, path, progress=stop_after(24))
    for name in ("results.nc", "results.sha256"):
        shutil.copy(reference / name, path / name)
    with (path / "results.nc").open("r+b") as file:
        file.seek(-100, os.SEEK_END)
        file.write(b"\xff")
    with pytest.warns(UserWarning, match=r"results.nc is damaged: these numbers come from"):
        data = open_sweep(path)
    assert data.identical(open_sweep(reference))
    run_sweep(cheap, path)
    assert same_files(path, reference)


def test_results_without_their_digest_are_refused(cheap, tmp_path, reference):
    shutil.copytree(reference, tmp_path / "store")
    (tmp_path / "store" / "results.sha256").unlink()
    with pytest.raises(StoreError, match=r"must hold a readable results.nc and results.sha256"):
        open_sweep(tmp_path / "store")


@pytest.mark.parametrize(
    ("change", "name"),
    [
        ({"seed": 1}, "seed: 0 there, 1 here"),
        ({"sample_ratio": [0.25, 0.5]}, r"sample_ratio: \[0.25, 0.5, 1.0\] there"),
        ({"weights": ["optimal", "mean"]}, "weights"),
        ({"method": "reference"}, "method"),
        ({"n_trials": 6}, "n_trials"),
        ({"correlation": {"kind": "prefix", "length": 3, "prefix": 3}}, "correlation"),
    ],
)
def test_another_sweep_is_refused(reference, change, name):
    with pytest.raises(StoreError, match=f"store of this very sweep, got another {name}"):
        run_sweep(Sweep(**{**CHEAP, **change}), reference)


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("attnlaw", "attnlaw 0.0.1 there"),
        ("numpy", "numpy 0.0.1 there"),
        ("source", "its source has been edited"),
    ],
)
def test_another_version_is_refused(cheap, tmp_path, monkeypatch, name, words):
    older = {**software(), name: "0.0.1"}
    with monkeypatch.context() as patch:
        patch.setattr(store_module, "software", lambda: older)
        with pytest.raises(Stop):
            run_sweep(cheap, tmp_path / "store", progress=stop_after(0))
    with pytest.raises(StoreError, match=f"continued by the code that began it, got .*{words}"):
        run_sweep(cheap, tmp_path / "store")
    assert open_sweep(tmp_path / "store").attrs[f"software_{name}"] == "0.0.1"


def test_every_module_that_a_cell_uses_is_in_the_fingerprint():
    script = (
        "import sys\n"
        "from attnlaw.sweeps.cells import compute; from attnlaw.sweeps.grid import Sweep\n"
        f"compute(Sweep(**{CHEAP!r}), 0)\n"
        "print(*(m.__file__ for n, m in sys.modules.items() if n.startswith('attnlaw.')))"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=60
    )
    root = Path(al.__file__).parent
    used = {Path(name).relative_to(root) for name in done.stdout.split()}
    counted = {file.relative_to(root) for file in source_files(SOURCES)}
    rest = {file for file in used - counted if file.parts[0] != "sweeps"}
    assert not rest
    assert {Path("sweeps", f"{name}.py") for name in ("cells", "grid", "parameters")} <= counted


def test_an_edited_manifest_is_refused(cheap, tmp_path):
    with pytest.raises(Stop):
        run_sweep(cheap, tmp_path / "store", progress=stop_after(0))
    manifest = tmp_path / "store" / "manifest.json"
    manifest.write_text(manifest.read_text().replace('"seed": 0', '"seed": 1'))
    with pytest.raises(StoreError, match="checksum that does not match"):
        run_sweep(Sweep(**{**CHEAP, "seed": 1}), tmp_path / "store")
    manifest.write_text("{")
    with pytest.raises(StoreError, match="must be a manifest in the format"):
        open_sweep(tmp_path / "store")


def test_a_directory_of_other_things_is_left_alone(cheap, tmp_path):
    (tmp_path / "thesis.tex").write_text("")
    with pytest.raises(StoreError, match=r"holds 'thesis.tex' and no manifest.json"):
        run_sweep(cheap, tmp_path)
    assert [p.name for p in tmp_path.iterdir()] == ["thesis.tex"]
    with pytest.raises(StoreError, match=r"must be the store of a sweep, got no manifest.json"):
        open_sweep(tmp_path / "nowhere")


def test_two_writers_are_refused(cheap, tmp_path, reference):
    path = tmp_path / "store"

    def second(done, total):
        if done == 3:
            with pytest.raises(StoreError, match=rf"got one that process {os.getpid()} on"):
                run_sweep(cheap, path)

    run_sweep(cheap, path, progress=second)
    assert same_files(path, reference)


@contextmanager
def largest_file(n_bytes):
    """Let the system refuse longer files, as a full disk does."""
    resource = pytest.importorskip("resource")
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (n_bytes, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_a_disk_that_fills_up_costs_nothing_that_is_done(cheap, tmp_path, reference):
    path = tmp_path / "store"
    record = journal_size(cheap) // 24
    room = 10 * record + 5
    words = r"cells.journal must be writable, got 'File too large'; what is done is kept, and the"
    with largest_file(room), pytest.raises(StoreError, match=words):
        run_sweep(cheap, path)
    assert (path / "cells.journal").stat().st_size == room
    assert open_sweep(path).attrs["n_cells_missing"] == 14
    assert not (path / "lock").read_text(), "a lock that is free names nobody"
    with largest_file(journal_size(cheap)), pytest.raises(StoreError, match=r"results.nc must be"):
        run_sweep(cheap, path)  # the results are longer than the journal
    assert sorted(p.name for p in path.iterdir()) == ["cells.journal", "lock", "manifest.json"]
    run_sweep(cheap, path)
    assert same_files(path, reference)


def test_the_lock_holds_where_there_is_no_room_for_a_name(tmp_path):
    lock = tmp_path / "lock"
    with largest_file(0), exclusive(lock):
        taken = pytest.raises(StoreError, match="got one that another process is writing")
        with taken, exclusive(lock):
            pass
        assert not lock.read_text()


def test_a_full_disk_is_reported_before_any_work(cheap, tmp_path, monkeypatch):
    usage = shutil.disk_usage(tmp_path)._replace(free=10_000)
    monkeypatch.setattr("attnlaw._store.shutil.disk_usage", lambda path: usage)
    monkeypatch.setattr(run_module, "compute", None)
    with pytest.raises(StoreError, match=r"with 0.0 MB of room for the results, got 0.0 MB"):
        run_sweep(cheap, tmp_path / "store")


def test_a_finished_store_is_read_where_nothing_may_be_written(cheap, reference, monkeypatch):
    def refuse(*args):
        raise AssertionError("nothing may be written")

    monkeypatch.setattr(run_module, "writing", refuse)
    assert run_sweep(cheap, reference).identical(open_sweep(reference))
    with pytest.raises(StoreError, match="got another seed"):
        run_sweep(Sweep(**{**CHEAP, "seed": 3}), reference)


def test_a_file_in_place_of_a_store_is_rejected(cheap, tmp_path):
    file = tmp_path / "file"
    file.write_text("")
    with pytest.raises(StoreError, match="file must be a directory, got a file"):
        run_sweep(cheap, file)
    with pytest.raises(StoreError, match=r"file.inside must be writable, got 'Not a directory'"):
        run_sweep(cheap, file / "inside")
    with pytest.raises(StoreError, match="file must be the store of a sweep"):
        open_sweep(file)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"n_trials": 10**12}, r"the grid must be small enough for .* got '6,000,000,000,000 cel"),
        ({"dimension": [6, 10**7], "method": "reference"}, "dimension must be small enough for"),
        ({"sample_ratio": [1.0, 1e-300]}, r"such that d/δ and d/γ are at most 1e\+12"),
        ({"sample_ratio": [1.0, 1e-11]}, "dimension must be small enough for"),
        ({"vocab_ratio": [0.0, 1e-11]}, "dimension must be small enough for"),
        (
            {"correlation": np.full((3, 3), -0.45) + 1.45 * np.eye(3), "weights": "mean"},
            "correlation must be one that signs of Gaussians can have",
        ),
    ],
)
def test_what_is_bound_to_fail_is_refused_at_once(tmp_path, change, words):
    with pytest.raises(ValueError, match=words):
        run_sweep(Sweep(**{**CHEAP, **change}), tmp_path / "store")
    assert not (tmp_path / "store").exists()


def test_more_workers_than_the_memory_holds_are_refused(cheap, tmp_path, monkeypatch):
    largest = {"dimension": 8, "sample_ratio": 0.25, "weights": "mean"}
    one = trial_memory(cheap.model({**cheap.parameters, **largest}), 8)
    monkeypatch.setattr("attnlaw.sweeps.cells.available_memory", lambda: 5.5 * one)
    monkeypatch.setattr("attnlaw.sweeps.cells._check_results", lambda sweep: None)
    with pytest.raises(ValueError, match=r"n_jobs must be at most 5, since a cell .* got 50"):
        run_sweep(cheap, tmp_path / "store", n_jobs=50)
    assert not (tmp_path / "store").exists()


def test_the_lock_of_a_killed_writer_is_free(tmp_path):
    script = (
        "import sys, time, pathlib; from attnlaw._store import exclusive\n"
        "with exclusive(pathlib.Path(sys.argv[1])):\n    print(flush=True); time.sleep(60)"
    )
    lock = tmp_path / "lock"
    with subprocess.Popen([sys.executable, "-c", script, lock], stdout=subprocess.PIPE) as owner:
        owner.stdout.readline()
        with pytest.raises(StoreError, match=f"process {owner.pid} on"), exclusive(lock):
            pass
        owner.kill()
    with exclusive(lock):
        pass


def test_a_missing_extra_is_named_before_any_work(cheap, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "netCDF4", None)
    with pytest.raises(MissingExtra, match=r"pip install 'attnlaw\[sweeps\]'"):
        run_sweep(cheap, tmp_path / "store")
    assert not (tmp_path / "store").exists()
