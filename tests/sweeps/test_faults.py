"""A fault at any write, a full disk, a torn write or a kill, loses nothing that was finished.

Neither of a sweep nor of a pass over a corpus.
"""

import errno
import json
import os
import shutil
import signal
import stat
from pathlib import Path

import numpy as np
import pytest

from attnlaw._store import StoreError, checksum
from attnlaw.data import corpora
from attnlaw.sweeps import Sweep, corpus_statistics, open_sweep, run_sweep
from attnlaw.sweeps import run as run_module
from attnlaw.sweeps.store import JOURNAL, read_journal, read_manifest

from .conftest import CHEAP
from .test_store import reference, same_files  # noqa: F401  a fixture

FAULTS = ("full disk", "torn write", "kill")
CALLS = ("write", "fsync", "replace", "ftruncate")  # through which all files of a store go


class Fault:
    """Counts the system calls that write, and fails in one of them."""

    def __init__(self, monkeypatch, place=None, kind=""):
        self.n_calls, self.place, self.kind = 0, place, kind
        for name in CALLS:
            monkeypatch.setattr(os, name, self._wrapped(name, getattr(os, name)))

    def _wrapped(self, name, call):
        def wrapped(*arguments, **options):
            self.n_calls += 1
            if self.n_calls == self.place:
                if self.kind == "kill":
                    os.kill(os.getpid(), signal.SIGKILL)
                if self.kind == "torn write" and name == "write":
                    call(arguments[0], bytes(arguments[1])[: len(arguments[1]) // 2])
                if self.kind == "torn write" and name == "fsync":
                    tear(arguments[0])
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            return call(*arguments, **options)

        return wrapped


def tear(handle):
    """Cut off the second half of a file that is being written; folders have none."""
    status = os.fstat(handle)
    if stat.S_ISREG(status.st_mode):
        os.truncate(f"/proc/self/fd/{handle}", status.st_size // 2)


def sweep_into(path, progress=None):
    return run_sweep(Sweep(**CHEAP), path, progress=progress)


def pass_into(path, progress=None):
    rng = np.random.default_rng(1)
    table, file = rng.standard_normal((50, 6)), path.parent / "ids.npy"
    if not file.exists():
        np.save(file, rng.integers(50, size=(600, 8)))
    return corpus_statistics(file, table, store=path, progress=progress)


def n_writes(work, path, monkeypatch):
    with monkeypatch.context() as patch:
        fault = Fault(patch)
        work(path)
    return fault.n_calls


def run_into(fault, place, work, path, monkeypatch):
    """Work in a child that meets a fault; return "ended" or "survived", if it did as it should."""
    child = os.fork()
    if child == 0:
        code = 1
        try:
            Fault(monkeypatch, place, fault)
            work(path)
            code = 3  # the fault was survived: in a name that only people read
        except StoreError:
            code = 2
        except OSError:
            code = 4
        finally:
            os._exit(code)
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    if fault == "kill":
        return "ended" if status == -signal.SIGKILL else ""
    return {2: "ended", 3: "survived"}.get(status, "")


@pytest.mark.skipif(not hasattr(os, "fork"), reason="children are forked")
@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize(
    "stride", [13, pytest.param(1, marks=pytest.mark.slow)], ids=["some", "every"]
)
def test_no_fault_loses_a_finished_cell(tmp_path, monkeypatch, reference, fault, stride):  # noqa: F811
    total = n_writes(sweep_into, tmp_path / "counted", monkeypatch)
    assert total > 24
    sweep = Sweep(**CHEAP)
    for place in range(1, total + 1, stride):
        path = tmp_path / f"store-{place}"
        assert run_into(fault, place, sweep_into, path, monkeypatch), place
        done, _ = read_journal(path / JOURNAL, sweep)
        started = []
        run_sweep(sweep, path, progress=lambda n, _, first=started: first.append(n))
        assert started[0] == 24 or started[0] == done.sum()
        assert same_files(path, reference)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="children are forked")
@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize(
    "stride", [5, pytest.param(1, marks=pytest.mark.slow)], ids=["some", "every"]
)
def test_no_fault_loses_a_saved_part_of_a_pass(tmp_path, monkeypatch, fault, stride):
    monkeypatch.setattr(corpora, "CHUNK_ROWS", 128)
    monkeypatch.setattr("attnlaw.sweeps.corpus_run.SAVE_SECONDS", -1.0)  # after every chunk
    total = n_writes(pass_into, tmp_path / "counted", monkeypatch)
    assert total > 10
    whole = pass_into(tmp_path / "whole")
    saved = []
    for place in range(1, total + 1, stride):
        path = tmp_path / f"store-{place}"
        end = run_into(fault, place, pass_into, path, monkeypatch)
        assert end, place
        first = []
        found = pass_into(path, progress=lambda done, _, first=first: first.append(done))
        if end == "ended":
            saved.append(first[0] if first else 5)
        assert found.covariance.tobytes() == whole.covariance.tobytes()
        assert found.frequencies.tobytes() == whole.frequencies.tobytes()
    assert saved == sorted(saved)  # what was saved before the fault is not computed again
    assert saved[-1] > 0


def test_results_that_do_not_read_back_leave_the_journal(tmp_path, monkeypatch):
    """A disk that tears a file in silence is noticed while the cells are still in the journal."""
    path = tmp_path / "store"
    write = run_module._write

    def torn(data, partial):
        write(data, partial)
        os.truncate(partial, Path(partial).stat().st_size // 2)

    monkeypatch.setattr(run_module, "_write", torn)
    with pytest.raises(StoreError, match=r"results.nc must be writable, got .*read back"):
        run_sweep(Sweep(**CHEAP), path)
    monkeypatch.setattr(run_module, "_write", write)
    calls = []
    run_sweep(Sweep(**CHEAP), path, progress=lambda *numbers: calls.append(numbers))
    assert calls == [(24, 24)]


@pytest.mark.skipif(os.name != "posix", reason="pipes are those of POSIX")
@pytest.mark.parametrize("name", ["manifest.json", "results.nc", "results.sha256"])
def test_a_pipe_in_a_store_is_not_waited_for(tmp_path, reference, name):  # noqa: F811
    path = tmp_path / "store"
    shutil.copytree(reference, path)
    (path / name).unlink()
    os.mkfifo(path / name)
    with pytest.raises(StoreError, match=f"{name} must be a regular file"):
        open_sweep(path)


@pytest.mark.parametrize("name", ["manifest.json", "cells.journal", "results.nc"])
def test_holes_in_a_store_are_not_read(tmp_path, reference, name):  # noqa: F811
    path = tmp_path / "store"
    shutil.copytree(reference, path)
    with (path / name).open("wb") as stream:
        stream.truncate(200 * 2**30)
    if (path / name).stat().st_blocks * 512 > 2**20:
        pytest.skip("this file system stores holes")
    with pytest.raises(ValueError, match=f"{name} must be stored in full"):
        open_sweep(path)


@pytest.mark.parametrize("manifest", ["[" * 100_000, "{}", "sweepless", "misspelt"])
def test_manifests_that_describe_no_sweep_get_a_sentence(tmp_path, reference, manifest):  # noqa: F811
    path = tmp_path / "store"
    shutil.copytree(reference, path)
    known = json.loads((path / "manifest.json").read_text())
    if manifest in ("sweepless", "misspelt"):
        known.pop("checksum")
        known["sweep"] = {"trials": 3} if manifest == "misspelt" else None
        manifest = json.dumps({**known, "checksum": checksum([json.dumps(known)])})
    (path / "manifest.json").write_text(manifest)
    with pytest.raises(StoreError, match=r"manifest.json must (be a manifest|describe a sweep)"):
        read_manifest(path)
