from dataclasses import fields, replace

import numpy as np
import pytest

import attnlaw as al

MODEL = al.PooledSequences(
    vocab_ratio=0.5,
    sample_ratio=0.4,
    signal_norm=np.array([0.0, 0.4, 1.0, 2.5]),
    correlation=al.prefix_correlation(6, prefix=3),
    weights=al.causal_weights(6),
)


@pytest.mark.parametrize("vocab_ratio", [0.0, 0.5, 2.0])
@pytest.mark.parametrize("sampling", ["token", "gaussian"])
@pytest.mark.parametrize("centred", [True, False])
def test_it_finds_the_numbers_of_the_reference(vocab_ratio, sampling, centred):
    model = replace(MODEL, vocab_ratio=vocab_ratio, sampling=sampling, centred=centred)
    reference = al.simulate(model, 60, n_trials=3, rng=0, method="reference")
    found = al.simulate(model, 60, n_trials=3, rng=0, method="rank-two")
    for f in fields(al.results.Spike):
        a, b = getattr(reference, f.name), getattr(found, f.name)
        np.testing.assert_allclose(b, a, rtol=1e-10, atol=1e-10, err_msg=f.name)
        assert a.shape == b.shape == (3, 4)


@pytest.mark.parametrize("dimension", [2, 3, 5])
@pytest.mark.parametrize("centred", [True, False])
def test_smallest_sizes_agree_with_the_reference(dimension, centred):
    model = replace(MODEL, signal_norm=0.7, centred=centred, sample_ratio=0.1)
    reference = al.simulate(model, dimension, n_trials=5, rng=1, method="reference")
    found = al.simulate(model, dimension, n_trials=5, rng=1, method="rank-two")
    for f in fields(al.results.Spike):
        a, b = getattr(reference, f.name), getattr(found, f.name)
        np.testing.assert_allclose(b, a, rtol=1e-8, atol=1e-8, err_msg=f.name)


def test_without_a_coupling_between_signal_and_noise_the_test_would_fail(monkeypatch):
    from attnlaw.simulation._matrix_free import krylov

    def uncoupled(matrix, coupling, *rest):
        return sweep(matrix, 0 * coupling, *rest)

    sweep = krylov.sweep_eigenpairs
    monkeypatch.setattr(krylov, "sweep_eigenpairs", uncoupled)
    reference = al.simulate(MODEL, 60, rng=0, method="reference")
    found = al.simulate(MODEL, 60, rng=0, method="rank-two")
    assert np.abs(found.top_eigenvalue - reference.top_eigenvalue)[:, 1:].min() > 1e-3


@pytest.mark.parametrize("tolerance", [1e-4, 1e-6, 1e-9])
def test_the_tolerance_of_the_krylov_space_bounds_the_error(tolerance, monkeypatch):
    from attnlaw.simulation._matrix_free import trial

    model = replace(MODEL, signal_norm=np.linspace(0, 2, 10))
    exact = al.simulate(model, 200, 3, rng=0, method="rank-two")
    monkeypatch.setattr(trial, "RANK_TWO_TOLERANCE", tolerance)
    found = al.simulate(model, 200, 3, rng=0, method="rank-two")
    for f in fields(al.results.Spike):
        error = np.abs(getattr(found, f.name) * 1.0 - getattr(exact, f.name)).max()
        bound = np.sqrt(tolerance) if f.name == "sample_overlap" else 10 * tolerance
        assert error < bound, f.name
    assert np.abs(found.squared_overlap - exact.squared_overlap).max() > 1e-4 * tolerance
