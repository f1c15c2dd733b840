"""A fault at any write of a sweep, a full disk, a torn write or a kill, loses no finished cell."""

import errno
import os
import signal
from pathlib import Path

import pytest

from attnlaw._store import StoreError
from attnlaw.sweeps import Sweep, dataset, run_sweep
from attnlaw.sweeps.store import JOURNAL, read_journal

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
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            return call(*arguments, **options)

        return wrapped


def n_writes(path, monkeypatch):
    with monkeypatch.context() as patch:
        fault = Fault(patch)
        run_sweep(Sweep(**CHEAP), path)
    return fault.n_calls


def run_into(fault, place, path, monkeypatch):
    """Run a sweep in a child that meets a fault; return whether it ended as it should."""
    child = os.fork()
    if child == 0:
        code = 1
        try:
            Fault(monkeypatch, place, fault)
            run_sweep(Sweep(**CHEAP), path)
            code = 3  # the fault was survived: in a name that only people read
        except StoreError:
            code = 2
        except OSError:
            code = 4
        finally:
            os._exit(code)
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    return status == -signal.SIGKILL if fault == "kill" else status in (2, 3)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="children are forked")
@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize(
    "stride", [13, pytest.param(1, marks=pytest.mark.slow)], ids=["some", "every"]
)
def test_no_fault_loses_a_finished_cell(tmp_path, monkeypatch, reference, fault, stride):  # noqa: F811
    total = n_writes(tmp_path / "counted", monkeypatch)
    assert total > 24
    sweep = Sweep(**CHEAP)
    for place in range(1, total + 1, stride):
        path = tmp_path / f"store-{place}"
        assert run_into(fault, place, path, monkeypatch), place
        done, _ = read_journal(path / JOURNAL, sweep)
        started = []
        run_sweep(sweep, path, progress=lambda n, _, first=started: first.append(n))
        assert started[0] == 24 or started[0] == done.sum()
        assert same_files(path, reference)


def test_results_that_do_not_read_back_leave_the_journal(tmp_path, monkeypatch):
    """A disk that tears a file in silence is noticed while the cells are still in the journal."""
    path = tmp_path / "store"
    write = dataset._write

    def torn(data, partial):
        write(data, partial)
        os.truncate(partial, Path(partial).stat().st_size // 2)

    monkeypatch.setattr(dataset, "_write", torn)
    with pytest.raises(StoreError, match=r"results.nc must be writable, got .*read back"):
        run_sweep(Sweep(**CHEAP), path)
    monkeypatch.setattr(dataset, "_write", write)
    calls = []
    run_sweep(Sweep(**CHEAP), path, progress=lambda *numbers: calls.append(numbers))
    assert calls == [(24, 24)]
