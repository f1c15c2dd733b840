"""What the library asks of the machine."""

import os
import subprocess
import sys

import numpy as np
import pytest
from threadpoolctl import threadpool_info, threadpool_limits

from attnlaw import _machine
from attnlaw._machine import (
    MissingExtra,
    available_memory,
    n_cores,
    one_blas_thread,
    one_thread_in_children,
    require,
    require_memory,
)


def test_memory_is_known_here_and_infinite_where_the_system_has_no_say(monkeypatch):
    class Missing:
        def read_text(self):
            raise FileNotFoundError

    assert 1e6 < available_memory() < np.inf
    monkeypatch.setattr(_machine, "Path", lambda _: Missing())
    assert 1e6 < available_memory() < np.inf
    monkeypatch.delattr(_machine.os, "sysconf")
    assert available_memory() == np.inf


def test_cores_are_those_that_the_process_may_use(monkeypatch):
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {3, 5, 7}, raising=False)
    assert n_cores() == 3
    monkeypatch.delattr(os, "sched_getaffinity")
    monkeypatch.setattr(os, "cpu_count", lambda: None)
    assert n_cores() == 1


def test_what_does_not_fit_in_memory_is_rejected_in_one_sentence(monkeypatch):
    monkeypatch.setattr(_machine, "available_memory", lambda: 2.0**30)
    require_memory(2.0**30, "dimension", 7, "matrices")
    sentence = (
        r"^dimension must be small enough for 3 GiB of matrices to fit in the 1 GiB of memory "
        r"available, got 7\.$"
    )
    with pytest.raises(ValueError, match=sentence):
        require_memory(3 * 2.0**30, "dimension", 7, "matrices")


def test_small_arrays_do_not_ask_the_system(monkeypatch):
    monkeypatch.setattr(_machine, "available_memory", None)
    require_memory(2.0**20, "dimension", 7, "matrices")


def test_blas_has_one_thread_in_the_block_and_its_own_number_after_it():
    def threads():
        return {pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"}

    with threadpool_limits(2, user_api="blas"):
        with one_blas_thread():
            assert threads() == {1}
        assert threads() == {2}


def test_the_environment_is_restored_after_children_were_started(monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    monkeypatch.delenv("MKL_NUM_THREADS", raising=False)
    with one_thread_in_children():
        assert os.environ["OMP_NUM_THREADS"] == os.environ["MKL_NUM_THREADS"] == "1"
    assert os.environ["OMP_NUM_THREADS"] == "3"
    assert "MKL_NUM_THREADS" not in os.environ


KILLED_PARENT = """
import os, subprocess, sys, time
child = "import os, time; from attnlaw._machine import end_with_parent; end_with_parent();"
subprocess.Popen([sys.executable, "-c", child + "print(os.getpid(), flush=True); time.sleep(60)"])
time.sleep(60)
"""


def test_children_of_a_killed_parent_end(tmp_path):
    """They share its output, which ends with the last of them."""
    script = tmp_path / "parent.py"
    script.write_text(KILLED_PARENT)
    parent = subprocess.Popen([sys.executable, script], stdout=subprocess.PIPE, text=True)
    assert int(parent.stdout.readline()) != parent.pid
    parent.kill()
    parent.communicate(timeout=20)


def test_a_missing_package_gives_its_install_hint(monkeypatch):
    monkeypatch.setitem(sys.modules, "tokenizers", None)
    hint = r"^Reading needs tokenizers, which is not installed: pip install 'attnlaw\[data\]'\.$"
    with pytest.raises(MissingExtra, match=hint) as raised:
        require("tokenizers", extra="data", purpose="Reading")
    assert (raised.value.name, raised.value.extra) == ("tokenizers", "data")
    assert isinstance(raised.value, ModuleNotFoundError)


def test_a_missing_submodule_counts_as_its_package():
    with pytest.raises(MissingExtra, match="This needs json, which"):
        require("json.no_such_part", extra="data")


def test_a_package_that_misses_another_is_not_blamed_on_the_extra(tmp_path, monkeypatch):
    (tmp_path / "incomplete_package.py").write_text("import no_such_module")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ModuleNotFoundError, match="no_such_module") as raised:
        require("incomplete_package", extra="data")
    assert not isinstance(raised.value, MissingExtra)
