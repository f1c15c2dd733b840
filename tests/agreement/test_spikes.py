"""Outliers and overlaps in both readings, and the wrong reading beside each.

The formulas are those of docs/theory/alignment.md, "The spike".
Sizes are small and trials many. Finite sizes move a mean by O(1/d) while trials scatter by
O(d^(−1/2)): with T trials that is a bias of O(√(T/d)) standard errors. Over 20 seeds the mean of z
was below 1 for every field and the largest |z| 4.3; the other reading's formula gave at least 8.
"""

from dataclasses import replace

import numpy as np
import pytest

import attnlaw as al

DIMENSION, TRIALS = 120, 100
FIELDS = (
    "top_eigenvalue",
    "squared_overlap",
    "population_eigenvalue",
    "population_overlap",
    "sample_overlap",
)

PREFIX = al.prefix_correlation(20, prefix=5)
SOFT_PREFIX = al.prefix_correlation(12, prefix=8, within=0.5)
ALTERNATING = al.autoregressive_correlation(8, -0.7)
STRONG_SPIKE = al.spiked_correlation(40.0, [3, -3, 3, -3, 3, 1, -1, 1, 1, 1])


def model(correlation, weights, vocab_ratio=0.5, sample_ratio=0.4, signal_norm=1.0):
    return al.PooledSequences(
        vocab_ratio=vocab_ratio,
        sample_ratio=sample_ratio,
        signal_norm=signal_norm,
        correlation=correlation,
        weights=weights,
    )


MODELS = {
    "mean pooling": model(PREFIX, al.mean_weights(20), signal_norm=1.5),
    "causal attention": model(PREFIX, al.causal_weights(20)),
    "optimal weights": model(PREFIX, al.optimal_weights(PREFIX), signal_norm=0.8),
    "weights of any scale": model(PREFIX, 3 * al.causal_weights(20)),
    "fewer tokens than dimensions": model(PREFIX, al.mean_weights(20), 2.0, 0.5, 2.5),
    "fewer samples than dimensions": model(PREFIX, al.mean_weights(20), 2.0, 2.0, 2.5),
    "signs of a copula": model(SOFT_PREFIX, al.optimal_weights(SOFT_PREFIX)),
    "alternating signs": model(ALTERNATING, al.optimal_direction(ALTERNATING)),
    "signs of a hidden Rademacher variable": model(
        STRONG_SPIKE, al.optimal_direction(STRONG_SPIKE)
    ),
}


def assert_only_the_right_formula_fits(right, wrong, seed, z_score):
    seen = al.simulate(right, DIMENSION, TRIALS, rng=seed)
    fitting, other = al.predict(right), al.predict(wrong)
    for field in FIELDS:
        values = getattr(seen, field)
        assert abs(z_score(values, getattr(fitting, field))) < 5, field
        assert abs(z_score(values, getattr(other, field))) > 5, field
    assert fitting.is_detectable
    assert seen.is_detectable.mean() > 0.95


@pytest.mark.parametrize("sampling", ["token", "gaussian"])
@pytest.mark.parametrize("name", MODELS)
def test_outliers_and_overlaps_agree_and_those_of_the_other_sampling_do_not(
    name, sampling, z_score, other_sampling
):
    right = replace(MODELS[name], sampling=sampling)
    assert_only_the_right_formula_fits(right, other_sampling(right), 0, z_score)


@pytest.mark.slow
@pytest.mark.parametrize("sampling", ["token", "gaussian"])
@pytest.mark.parametrize("name", MODELS)
def test_agreement_is_not_the_luck_of_a_seed(name, sampling, z_score, other_sampling):
    right = replace(MODELS[name], sampling=sampling)
    for seed in range(1, 21):
        assert_only_the_right_formula_fits(right, other_sampling(right), seed, z_score)


@pytest.mark.parametrize("sampling", ["token", "gaussian"])
def test_infinite_vocabulary_agrees_in_either_sampling(sampling, z_score):
    fresh = replace(MODELS["causal attention"], vocab_ratio=0.0, sampling=sampling)
    seen, predicted = al.simulate(fresh, DIMENSION, TRIALS, rng=0), al.predict(fresh)
    for field in ("top_eigenvalue", "squared_overlap", "sample_overlap"):
        assert abs(z_score(getattr(seen, field), getattr(predicted, field))) < 5, field
    np.testing.assert_allclose(seen.population_eigenvalue, predicted.population_eigenvalue)
    np.testing.assert_allclose(seen.population_overlap, predicted.population_overlap)
    finite = al.predict(replace(fresh, vocab_ratio=0.1))
    assert abs(z_score(seen.squared_overlap, finite.squared_overlap)) > 5


UNCENTRED = {
    "mean above signal": replace(MODELS["mean pooling"], signal_norm=1.2, centred=False),
    "signal above mean": replace(MODELS["mean pooling"], signal_norm=4.0, centred=False),
    "mean of causal attention": replace(
        MODELS["causal attention"], vocab_ratio=1.0, signal_norm=2.0, centred=False
    ),
}


@pytest.mark.parametrize("name", UNCENTRED)
def test_table_mean_is_an_outlier_when_not_centred(name, z_score, other_sampling):
    """The two spikes lean on each other by O(1/d), more than one alone: fewer trials, larger d."""
    raw = UNCENTRED[name]
    seen, predicted = al.simulate(raw, 300, 20, rng=0), al.predict(raw)
    for field in (*FIELDS, "mean_eigenvalue"):
        assert abs(z_score(getattr(seen, field), getattr(predicted, field))) < 5, field
    for wrong in (al.predict(replace(raw, centred=True)), al.predict(other_sampling(raw))):
        assert abs(z_score(seen.mean_eigenvalue, wrong.mean_eigenvalue)) > 5


def test_class_means_of_the_table_leave_the_bulk_without_any_signal(z_score, other_sampling):
    """‖μ‖ = 0 and a large SNR: an outlier along m, of no use for μ."""
    silent = replace(MODELS["optimal weights"], vocab_ratio=1.0, signal_norm=0.0)
    seen, predicted = al.simulate(silent, DIMENSION, TRIALS, rng=0), al.predict(silent)
    assert predicted.is_detectable
    assert seen.is_detectable.all()
    for field in ("top_eigenvalue", "population_eigenvalue", "sample_overlap"):
        assert abs(z_score(getattr(seen, field), getattr(predicted, field))) < 5, field
    wrong = al.predict(other_sampling(silent))
    assert abs(z_score(seen.top_eigenvalue, wrong.top_eigenvalue)) > 5
    assert predicted.squared_overlap == 0
    # any fixed direction has mean 1/d, and a chi-squared spread about √2 times that
    assert abs(z_score(seen.squared_overlap, 1 / DIMENSION)) < 5
