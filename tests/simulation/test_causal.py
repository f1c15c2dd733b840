from dataclasses import replace

import numpy as np
import pytest

import attnlaw as al

MODEL = al.PooledSequences(
    vocab_ratio=0.5,
    sample_ratio=1.0,
    signal_norm=1.5,
    correlation=al.prefix_correlation(6, prefix=3),
    weights=al.causal_weights(6),
)


@pytest.mark.parametrize("sampling", ["token", "gaussian"])
def test_weights_are_positive_and_sum_to_one(sampling):
    seen = al.simulation.simulate_causal_weights(replace(MODEL, sampling=sampling), 20, 7, rng=0)
    assert seen.shape == (7, 6)
    np.testing.assert_allclose(seen.sum(axis=-1), 1)
    np.testing.assert_array_equal(seen[:, -1], 0)


def test_repeated_tokens_attend_to_each_other():
    """Two tokens in all: a token of the same class is the same token, e·e/d ≈ 1."""
    model = replace(MODEL, vocab_ratio=10_000.0, signal_norm=0.0)
    alike = al.simulation.simulate_causal_weights(model, 20_000, 1, rng=0, inverse_temperature=3.0)
    apart = al.simulation.simulate_causal_weights(
        replace(model, vocab_ratio=0.0), 20_000, 1, rng=0, inverse_temperature=3.0
    )
    assert np.abs(apart - al.causal_weights(6)).max() < 0.05
    assert np.abs(alike - al.causal_weights(6)).max() > 0.05


def test_signal_draws_attention_to_its_own_class():
    """At ‖μ‖² = d the scores are ±τ, and the limit weights hold no more."""
    d = 2000
    loud = replace(MODEL, vocab_ratio=0.0, signal_norm=d**0.5, correlation=np.eye(6))
    silent = replace(loud, signal_norm=0.0)
    errors = [
        np.abs(
            al.simulation.simulate_causal_weights(model, d, 20, rng=0) - al.causal_weights(6)
        ).max()
        for model in (loud, silent)
    ]
    assert errors[0] > 0.1
    assert errors[1] < 0.03


def test_bad_input_is_refused():
    with pytest.raises(ValueError, match="signal_norm must be a single number"):
        al.simulation.simulate_causal_weights(replace(MODEL, signal_norm=np.ones(2)), 10)
    with pytest.raises(ValueError, match="n_sequences must be"):
        al.simulation.simulate_causal_weights(MODEL, 10, 0)
    with pytest.raises(ValueError, match="dimension must be small enough"):
        al.simulation.simulate_causal_weights(MODEL, 10**9, 100)
