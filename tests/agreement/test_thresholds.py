"""Where the signal appears: thresholds against counts of detections.

The thresholds are those of docs/theory/thresholds.md, "Statement".
"""

from dataclasses import replace

import numpy as np
import pytest

import attnlaw as al

MODEL = al.PooledSequences(
    vocab_ratio=0.5,
    sample_ratio=0.4,
    signal_norm=1.0,
    correlation=al.prefix_correlation(20, prefix=5),
    weights=al.mean_weights(20),
)
DIMENSION, TRIALS = 300, 20


@pytest.mark.parametrize("sampling", ["token", "gaussian"])
def test_signal_appears_where_the_threshold_says(sampling):
    model = replace(MODEL, sampling=sampling)
    critical = al.thresholds(model).sample_signal
    below, above = 0.5 * critical, 1.8 * critical
    seen = al.simulate(replace(model, signal_norm=np.array([below, above])), DIMENSION, TRIALS, 0)
    assert seen.is_detectable[:, 0].mean() < 0.2
    assert seen.is_detectable[:, 1].mean() > 0.9


def test_between_the_two_thresholds_only_tokens_show_the_signal(other_sampling):
    """The token threshold is lower: a norm between them tells the two formulas apart."""
    model = replace(MODEL, vocab_ratio=1.0)
    low = al.thresholds(model).sample_signal
    high = al.thresholds(other_sampling(model)).sample_signal
    between = replace(model, signal_norm=low + 0.6 * (high - low))
    tokens = al.simulate(between, DIMENSION, TRIALS, rng=0)
    gaussian = al.simulate(other_sampling(between), DIMENSION, TRIALS, rng=0)
    assert tokens.is_detectable.mean() > 0.8
    assert gaussian.is_detectable.mean() < 0.4


@pytest.mark.parametrize("sampling", ["token", "gaussian"])
def test_population_overlap_vanishes_at_its_own_threshold(sampling):
    """Samples take away from the population: its threshold comes first."""
    model = replace(MODEL, sampling=sampling)
    limits = al.thresholds(model)
    critical = limits.population_signal
    assert critical < limits.sample_signal
    around = replace(model, signal_norm=np.array([0.5, 2.0]) * critical)
    seen = al.simulate(around, DIMENSION, TRIALS, rng=0).population_overlap.mean(axis=0)
    below, above = al.predict(around).population_overlap
    assert below == 0
    assert seen[0] < 0.05
    assert abs(seen[1] / above - 1) < 0.1


@pytest.mark.parametrize("sampling", ["token", "gaussian"])
def test_below_threshold_the_top_eigenvalue_is_the_edge_and_the_overlap_is_lost(sampling):
    model = replace(MODEL, sampling=sampling)
    weak = replace(model, signal_norm=0.4 * al.thresholds(model).sample_signal)
    seen, predicted = al.simulate(weak, DIMENSION, TRIALS, rng=0), al.predict(weak)
    assert predicted.top_eigenvalue == predicted.bulk_edge
    error = abs(seen.top_eigenvalue.mean() / predicted.bulk_edge - 1)
    assert error < 3 * DIMENSION ** (-2 / 3)
    assert predicted.squared_overlap == 0
    assert seen.squared_overlap.mean() < 0.05
