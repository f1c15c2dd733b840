from dataclasses import fields, replace

import numpy as np
import pytest
from threadpoolctl import threadpool_limits

import attnlaw as al
from attnlaw import _machine
from attnlaw.simulation._matrix_free import plan as memory
from attnlaw.simulation.trials import simulate_trial
from attnlaw.simulation.verbs import run_trials

R = al.prefix_correlation(6, prefix=3)
MODEL = al.PooledSequences(
    vocab_ratio=0.5,
    sample_ratio=0.4,
    signal_norm=2.0,
    correlation=R,
    weights=al.causal_weights(6),
)


def assert_same(first, second, **tolerance):
    for f in fields(al.results.Spike):
        a, b = getattr(first, f.name), getattr(second, f.name)
        np.testing.assert_allclose(a, b, err_msg=f.name, **tolerance)


@pytest.mark.parametrize("sampling", ["token", "gaussian"])
@pytest.mark.parametrize("centred", [True, False])
def test_results_do_not_depend_on_the_number_of_workers(sampling, centred):
    model = replace(MODEL, sampling=sampling, centred=centred)
    alone = al.simulate(model, 30, n_trials=4, rng=3)
    shared = al.simulate(model, 30, n_trials=4, rng=3, n_jobs=2)
    assert_same(alone, shared, rtol=1e-12)


def test_fewer_trials_are_the_first_of_more():
    assert_same(al.simulate(MODEL, 30, 2, rng=3), al.simulate(MODEL, 30, 4, rng=3)[:2], rtol=0)


def test_one_generator_gives_new_trials_at_each_call():
    rng = np.random.default_rng(0)
    first, second = (al.simulate(MODEL, 30, rng=rng).top_eigenvalue for _ in range(2))
    assert first != second


def test_norms_of_one_call_share_the_noise_of_a_trial():
    norms = np.array([[0.0, 1.0, 2.0]])
    seen = al.simulate(replace(MODEL, signal_norm=norms), 30, 2, rng=3)
    assert seen.top_eigenvalue.shape == (2, 1, 3)
    assert seen.is_detectable.dtype == bool
    assert_same(seen[:, 0, 2], al.simulate(MODEL, 30, 2, rng=3), rtol=0)


def test_largest_eigenvalues_of_the_spectrum_are_the_observed_ones():
    spectrum = al.simulation.simulate_spectrum(MODEL, 30, 3, rng=3)
    assert spectrum.shape == (3, 30)
    np.testing.assert_allclose(spectrum[:, -1], al.simulate(MODEL, 30, 3, rng=3).top_eigenvalue)
    assert (np.diff(spectrum) >= 0).all()


def test_signal_and_table_mean_are_distinguished_whichever_is_larger():
    model = replace(MODEL, centred=False, signal_norm=np.array([0.5, 6.0]), weights=np.ones(6))
    seen = al.simulate(model, 60, 10, rng=0)
    assert (seen.mean_eigenvalue[:, 0] > seen.top_eigenvalue[:, 0]).all()
    assert (seen.mean_eigenvalue[:, 1] < seen.top_eigenvalue[:, 1]).all()
    assert (seen.squared_overlap[:, 1] > 0.8).all()


@pytest.mark.parametrize("change", [{"centred": True}, {"sampling": "gaussian"}])
def test_without_a_spike_along_the_mean_its_eigenvalue_is_the_edge(change):
    seen = al.simulate(replace(MODEL, **{"centred": False} | change), 30, 2, rng=0)
    np.testing.assert_array_equal(seen.mean_eigenvalue, seen.bulk_edge)


def test_progress_is_reported_after_each_trial():
    told = []
    al.simulate(MODEL, 10, 3, rng=0, progress=told.append)
    assert told == [1, 2, 3]


def test_more_memory_than_there_is_is_refused_before_anything_is_allocated():
    with pytest.raises(ValueError, match=r"dimension must be small enough for .* GiB"):
        al.simulate(MODEL, 10_000_000)
    with pytest.raises(ValueError, match=r"dimension must be small enough for .* GiB"):
        al.simulation.simulate_spectrum(MODEL, 10_000_000)


@pytest.mark.parametrize(
    "change",
    [{}, {"sampling": "gaussian"}, {"vocab_ratio": 0.05, "sample_ratio": 2.0}, {"vocab_ratio": 0}],
)
def test_memory_estimate_covers_what_is_used(change):
    import tracemalloc

    model = replace(MODEL, **change)
    al.simulate(model, 10, rng=0)  # imports are not counted
    tracemalloc.start()
    al.simulate(model, 200, rng=0)
    used = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert 0.4 < used / memory.reference_memory(model, 200) < 1.05


def test_memory_is_checked_for_every_worker(monkeypatch):
    one = memory.reference_memory(MODEL, 30)
    monkeypatch.setattr(_machine, "available_memory", lambda: 1.5 * one)
    monkeypatch.setattr(_machine, "ALWAYS_THERE", 0)
    al.simulate(MODEL, 30)
    with pytest.raises(ValueError, match="dimension must be small enough"):
        al.simulate(MODEL, 30, 2, n_jobs=2)


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ({"dimension": 1}, "dimension must be a whole number of at least 2, got 1"),
        ({"dimension": 10.5}, "dimension must be"),
        ({"n_trials": 0}, "n_trials must be a whole number of at least 1, got 0"),
        ({"n_jobs": 0}, "n_jobs must be"),
        ({"method": "quick"}, "method must be one of 'auto', "),
        ({"rng": -3}, "rng must be"),
        ({"model": replace(MODEL, sample_ratio=0.0)}, "sample_ratio must be above 0"),
        ({"model": replace(MODEL, vocab_ratio=np.ones(2))}, "vocab_ratio and sample_ratio must"),
    ],
)
def test_bad_input_is_refused_in_one_sentence(arguments, sentence):
    with pytest.raises(ValueError, match=sentence):
        al.simulate(**{"model": MODEL, "dimension": 10} | arguments)


def test_infinite_vocabulary_has_the_exact_population_spike():
    seen = simulate_trial(replace(MODEL, vocab_ratio=0.0), 20, np.random.default_rng(0))
    np.testing.assert_allclose(
        seen.population_eigenvalue, MODEL.noise_gain + 4 * MODEL.signal_gain
    )
    np.testing.assert_allclose(seen.population_overlap, 1)


@pytest.mark.parametrize("n_jobs", [1, 2])
def test_workers_hold_linear_algebra_to_one_thread(n_jobs, monkeypatch):
    """Whatever the caller's own limit is: here two threads, and no word in the environment."""
    for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
        monkeypatch.delenv(name, raising=False)

    def threads(rng):
        import numpy  # noqa: F401  a fresh worker has no BLAS yet
        from threadpoolctl import threadpool_info

        return [pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"]

    with threadpool_limits(2, user_api="blas"):
        found = run_trials(threads, 4, n_jobs=n_jobs)
    assert all(counts and set(counts) == {1} for counts in found)
