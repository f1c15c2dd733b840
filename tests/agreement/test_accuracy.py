"""Ridge accuracy in closed form against fits and fresh test sets.

The closed form is that of docs/theory/classification.md, "Derivation".
"""

from dataclasses import fields, replace

import numpy as np
import pytest

import attnlaw as al
from attnlaw.simulation import pool, sample_pooled, sample_signs, sample_tokens
from attnlaw.simulation.pooled import token_classes

PREFIX = al.prefix_correlation(20, prefix=5)
WEIGHTS = {
    "mean": al.mean_weights(20),
    "causal": al.causal_weights(20),
    "optimal": al.optimal_weights(PREFIX),
}
RIDGE = 0.05
FIELDS = [f.name for f in fields(al.results.Accuracy)]


def model(weights, **changes):
    return al.PooledSequences(
        **{"vocab_ratio": 0.4, "sample_ratio": 0.25, "signal_norm": 0.4} | changes,
        correlation=PREFIX,
        weights=weights,
    )


@pytest.mark.parametrize("sampling", ["token", "gaussian"])
@pytest.mark.parametrize("name", WEIGHTS)
def test_accuracy_agrees_and_that_of_the_other_sampling_does_not(
    name, sampling, z_score, other_sampling
):
    right = model(WEIGHTS[name], sampling=sampling)
    seen = al.simulate_accuracy(right, 120, 40, rng=0, ridge=RIDGE)
    predicted = al.predict_accuracy(right, RIDGE)
    wrong = al.predict_accuracy(other_sampling(right), RIDGE)
    for field in FIELDS:
        assert abs(z_score(getattr(seen, field), getattr(predicted, field))) < 5, field
    for field in ("accuracy", "mean_squared_error", "signal_gain"):
        assert abs(z_score(getattr(seen, field), getattr(wrong, field))) > 5, field


@pytest.mark.parametrize("sampling", ["token", "gaussian"])
def test_fewer_samples_than_dimensions_agree(sampling, z_score, other_sampling):
    right = model(WEIGHTS["mean"], sampling=sampling, sample_ratio=2.0, signal_norm=1.0)
    seen = al.simulate_accuracy(right, 120, 100, rng=0, ridge=RIDGE)
    predicted = al.predict_accuracy(right, RIDGE)
    wrong = al.predict_accuracy(other_sampling(right), RIDGE)
    for field in FIELDS:
        assert abs(z_score(getattr(seen, field), getattr(predicted, field))) < 5, field
    assert abs(z_score(seen.accuracy, wrong.accuracy)) > 5


def test_centring_does_not_matter_in_the_limit(z_score):
    right = model(WEIGHTS["causal"], centred=False)
    seen = al.simulate_accuracy(right, 120, 40, rng=0, ridge=RIDGE)
    predicted = al.predict_accuracy(right, RIDGE)
    for field in FIELDS:
        assert abs(z_score(getattr(seen, field), getattr(predicted, field))) < 5, field


def learned_trial(right, rng):
    """Learn weights from one draw, then test them on fresh sequences of the same table."""
    d = 60
    sample = sample_pooled(right, d, rng)
    V = len(sample.table)
    table = sample.table + right.signal_norm * np.outer(token_classes(V), np.eye(d)[0])
    y = sample.signs[:, 0].astype(float)
    learned = al.simulation.learn_weights(sample.tokens, y, table=table, ridge=RIDGE, n_restarts=1)
    signs = sample_signs(PREFIX, 20_000, rng)
    scores = pool(table @ learned.coefficients, sample_tokens(signs, V, rng), learned.weights)
    return learned.weights, np.mean(np.sign(scores) == signs[:, 0])


def test_accuracy_of_learned_weights_is_that_of_the_same_weights_fixed(z_score, other_sampling):
    """L − 1 numbers are learned from N ≫ L sequences: their own overfitting is O(L/N)."""
    right = model(WEIGHTS["mean"], sample_ratio=0.1)
    trials = [learned_trial(right, rng) for rng in np.random.default_rng(0).spawn(12)]
    models = [replace(right, weights=weights) for weights, _ in trials]
    seen = np.array([accuracy for _, accuracy in trials])
    predicted = np.array([al.predict_accuracy(m, RIDGE).accuracy for m in models])
    wrong = np.array([al.predict_accuracy(other_sampling(m), RIDGE).accuracy for m in models])
    assert abs(z_score(seen - predicted, 0)) < 5
    assert abs(z_score(seen - wrong, 0)) > 5
    # they come close to the best weights there are, and far from mean pooling
    best, mean = (
        al.predict_accuracy(model(WEIGHTS[name], sample_ratio=0.1), RIDGE).accuracy
        for name in ("optimal", "mean")
    )
    assert (best - predicted.mean()) < 0.2 * (best - mean)


@pytest.mark.parametrize("sampling", ["token", "gaussian"])
@pytest.mark.parametrize("classifier", ["centroid", "component"])
def test_classifiers_without_a_ridge_agree(classifier, sampling, z_score, other_sampling):
    """The difference of centroids, and without labels the leading component."""
    right = model(WEIGHTS["causal"], sampling=sampling, signal_norm=0.8, sample_ratio=0.4)
    seen = al.simulate_accuracy(right, 120, 40, rng=0, classifier=classifier)
    predicted = al.predict_accuracy(right, classifier=classifier)
    wrong = al.predict_accuracy(other_sampling(right), classifier=classifier)
    for field in FIELDS:
        assert abs(z_score(getattr(seen, field), getattr(predicted, field))) < 5, field
        assert abs(z_score(getattr(seen, field), getattr(wrong, field))) > 5, field
    # as if the eigenvector, or the centroids, were known exactly
    known = al.predict_accuracy(replace(right, sample_ratio=0.0), classifier=classifier)
    field = "noise_variance" if classifier == "centroid" else "signal_gain"
    assert abs(z_score(getattr(seen, field), getattr(known, field))) > 5
