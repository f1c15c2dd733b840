"""P1 Lemma 1: an actual causal softmax tends to the causal weights, at the rate d^(−1/2)."""

from dataclasses import replace

import numpy as np
import pytest

import attnlaw as al

LENGTH = 6
MODEL = al.PooledSequences(
    vocab_ratio=0.5,
    sample_ratio=1.0,
    signal_norm=1.0,
    correlation=al.prefix_correlation(LENGTH, prefix=3),
    weights=al.causal_weights(LENGTH),
)


def squared_error(model, dimension, n_sequences=2000):
    seen = al.simulation.simulate_causal_weights(model, dimension, n_sequences, rng=0)
    return np.sum((seen - al.causal_weights(LENGTH)) ** 2, axis=-1)


@pytest.mark.parametrize("vocab_ratio", [0.0, 0.5])
def test_error_falls_as_the_square_root_of_the_dimension(vocab_ratio):
    model = replace(MODEL, vocab_ratio=vocab_ratio)
    small, large = squared_error(model, 50), squared_error(model, 800)
    ratio = small.mean() / large.mean()
    spread = ratio * np.hypot(
        *(x.std(ddof=1) / x.mean() / np.sqrt(len(x)) for x in (small, large))
    )
    assert abs(ratio - 16) < 5 * spread
    for wrong_exponent in (-0.25, -0.75, -1.0):  # of the error; twice that of its square
        assert abs(ratio - 16 ** (-2 * wrong_exponent)) > 5 * spread


def test_error_has_the_constant_of_independent_scores(z_score):
    """Row i + 1 has k = i scores of variance τ²/d: d E‖w − w_c‖² → (τ/L)² Σ_k (1 − 1/k)/k."""
    k = np.arange(1, LENGTH)
    constant = np.sum((1 - 1 / k) / k) / LENGTH**2
    d = 800
    seen = d * squared_error(replace(MODEL, vocab_ratio=0.0), d)
    assert abs(z_score(seen, constant)) < 5
    assert abs(z_score(seen, np.sum(1 / k) / LENGTH**2)) > 5  # the softmax not normalised
