import logging
from dataclasses import replace

import numpy as np
import pytest

import attnlaw as al
from attnlaw.simulation._matrix_free import plan

MODEL = al.PooledSequences(
    vocab_ratio=0.5,
    sample_ratio=0.4,
    signal_norm=1.5,
    correlation=al.prefix_correlation(20, prefix=5),
    weights=al.causal_weights(20),
)


@pytest.fixture(autouse=True)
def fresh(monkeypatch):
    """A process that has done no work, on a machine where nothing is compiled."""
    monkeypatch.setattr(plan, "_seconds", 0.0)
    monkeypatch.setattr(plan, "_is_on_disk", lambda: False)
    monkeypatch.setattr(plan, "has_numba", lambda: True)
    plan._announce.cache_clear()
    yield
    plan._announce.cache_clear()


def test_small_sizes_are_direct_and_large_ones_matrix_free():
    assert plan.choose_method("auto", MODEL, 100) == "reference"
    assert plan.choose_method("auto", MODEL, 1000) == "matrix-free"
    assert plan.choose_method("rank-two", MODEL, 1000) == "rank-two"


def test_tokens_are_tiled_where_there_are_many_of_a_large_vocabulary():
    assert plan.is_tiled(1_000_000, 20, 500_000)
    assert not plan.is_tiled(1_000_000, 20, 5_000)
    assert not plan.is_tiled(1_000, 20, 500_000)


def test_little_work_is_not_compiled_and_much_is():
    assert not plan.use_compiled(MODEL, 400, 20)
    assert plan.use_compiled(MODEL, 400, 1000)


def test_many_small_calls_are_compiled_in_the_end(caplog):
    caplog.set_level(logging.INFO, logger="attnlaw")
    answers = [plan.use_compiled(MODEL, 400, 20) for _ in range(20)]
    assert not answers[0]
    assert answers[-1]
    assert sorted(answers) == answers
    assert [record.message for record in caplog.records] == ["compiling once, about 15 s"]


def test_what_is_compiled_already_is_used_sooner(monkeypatch, caplog):
    monkeypatch.setattr(plan, "_is_on_disk", lambda: True)
    caplog.set_level(logging.INFO, logger="attnlaw")
    assert not plan.use_compiled(MODEL, 400, 2)
    assert plan.use_compiled(MODEL, 400, 20)
    assert not caplog.records


def test_a_process_may_prefer_compiled_loops():
    plan.prefer_compiled()
    assert plan.use_compiled(MODEL, 400, 1)


def test_without_numba_nothing_is_compiled(monkeypatch):
    monkeypatch.setattr(plan, "has_numba", lambda: False)
    plan.prefer_compiled()
    assert not plan.use_compiled(MODEL, 400, 1000)


def test_where_rounding_decides_the_way_does_not_depend_on_the_work():
    assert plan.use_compiled(replace(MODEL, centred=False), 400, 1)
    assert not plan.use_compiled(replace(MODEL, centred=False), 400, 1, n_matrices=1)


def test_an_infinite_vocabulary_has_no_loops_to_compile():
    assert not plan.use_compiled(replace(MODEL, vocab_ratio=0.0), 400, 10**6)


def test_memory_grows_with_the_vocabulary_and_not_with_its_square():
    direct, free = (
        [plan.trial_memory(MODEL, d, method) for d in (10_000, 20_000)]
        for method in ("reference", "matrix-free")
    )
    np.testing.assert_allclose(direct[1] / direct[0], 4, rtol=0.02)
    assert 2 < free[1] / free[0] < 2.6
