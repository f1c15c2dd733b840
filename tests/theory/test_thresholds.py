"""Critical signal norms: golden numbers, and the predictions on either side of them."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from numpy.testing import assert_allclose

import attnlaw as al

PREFIX = al.prefix_correlation(20, prefix=5)
MODEL = al.PooledSequences(
    vocab_ratio=0.5,
    sample_ratio=0.4,
    signal_norm=1.0,
    correlation=PREFIX,
    weights=al.optimal_weights(PREFIX),
    sampling="gaussian",
)
SAMPLINGS = st.sampled_from(["token", "gaussian"])
ratios = st.floats(-3, 1).map(lambda exponent: 10.0**exponent)


def test_thresholds_have_their_golden_values():
    """mp.dps = 50: sqrt((d + sqrt(d))/5) and sqrt((d + t)/5), d = .5, t = t*(.5, .4)."""
    critical = al.thresholds(MODEL)
    assert_allclose(critical.population_signal, 0.49134647270262305698, rtol=1e-13)
    assert_allclose(critical.sample_signal, 0.58266776007066966804, rtol=1e-13)


def test_tokens_of_a_large_snr_need_no_signal_at_all():
    critical = al.thresholds(replace(MODEL, sampling="token"))
    assert critical.population_signal == critical.sample_signal == 0


@given(ratios, ratios, SAMPLINGS, st.sampled_from(["mean", "causal", "optimal"]))
def test_predictions_turn_on_exactly_at_the_thresholds(delta, gamma, sampling, pooling):
    weights = {
        "mean": al.mean_weights(20),
        "causal": al.causal_weights(20),
        "optimal": al.optimal_weights(PREFIX),
    }[pooling]
    studied = replace(
        MODEL, vocab_ratio=delta, sample_ratio=gamma, sampling=sampling, weights=weights
    )
    critical = al.thresholds(studied)
    assert critical.sample_signal >= critical.population_signal
    for norm, field in (
        (critical.population_signal, "population_overlap"),
        (critical.sample_signal, "squared_overlap"),
    ):
        assume(norm > 1e-3)
        around = al.predict(replace(studied, signal_norm=norm * np.array([1 - 1e-7, 1 + 1e-7])))
        below, above = getattr(around, field)
        assert below == 0
        assert above > 0


def test_thresholds_broadcast_over_ratios_and_ignore_the_norm():
    grid = replace(MODEL, vocab_ratio=np.array([[0.1], [0.5]]), sample_ratio=[0.2, 0.4, 0.8])
    critical = al.thresholds(replace(grid, signal_norm=7.0))
    assert critical.sample_signal.shape == (2, 3)
    assert critical.population_signal.shape == (2, 3)
    assert_allclose(critical.sample_signal[1, 1], al.thresholds(MODEL).sample_signal)


@pytest.mark.parametrize("sampling", ["token", "gaussian"])
def test_optimal_weights_have_the_lowest_threshold(sampling):
    def critical(weights):
        studied = replace(MODEL, weights=weights, sampling=sampling, vocab_ratio=0.1)
        return al.thresholds(studied).sample_signal

    best = critical(al.optimal_weights(PREFIX))
    assert best < critical(al.causal_weights(20)) < critical(al.mean_weights(20))
