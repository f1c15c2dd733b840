"""Accuracy of K classes against classifiers fitted to finite samples and tested on fresh ones.

The closed form is that of docs/theory/classification.md, "K classes".
"""

from dataclasses import replace

import numpy as np
import pytest

import attnlaw as al
from attnlaw.theory import class_accuracy as theory

RIDGE = 0.05
LENGTH, PREFIX = 20, 5
R = al.prefix_correlation(LENGTH, PREFIX)


def model(n_classes, weights, seed=5, **changes):
    shares = {3: [0.2, 0.3, 0.5], 5: [0.1, 0.1, 0.2, 0.2, 0.4], 10: np.full(10, 0.1)}[n_classes]
    norm = {3: 0.4, 5: 0.5, 10: 0.6}[n_classes]
    means = np.random.default_rng(seed).standard_normal((n_classes, 20)) * 1.4 * norm / 20**0.5
    spectrum = np.geomspace(0.3, 3, 20) if n_classes == 5 else None
    parameters = {
        "vocab_ratio": 0.25, "sample_ratio": 0.4, "class_means": means, "class_shares": shares,
        "noise_spectrum": spectrum, "correlation": R, "weights": weights,
    }  # fmt: skip
    return al.PooledClasses(**parameters | changes)


def common_covariance(model, classifier):
    """The nearest wrong formula: the same noise for sequences of every class."""
    scores = theory._scores(model, classifier, model.vocab_ratio, model.sample_ratio, 1.0, RIDGE)
    mean = np.tensordot(model.shares, scores.each, axes=1)
    common = replace(scores, base=scores.base + mean, each=np.zeros_like(scores.each))
    return theory._Points.of(model).accuracies(common) @ model.shares


@pytest.mark.parametrize("n_classes", [3, 5, 10])
@pytest.mark.parametrize("classifier", theory.CLASSIFIERS)
def test_accuracy_agrees_and_that_of_the_other_sampling_does_not(
    classifier, n_classes, z_score, other_sampling
):
    right = model(n_classes, al.mean_weights(LENGTH))
    seen = al.simulate_accuracy(
        right, 400, 6, rng=0, ridge=RIDGE, classifier=classifier, n_test=8000
    )
    predicted, wrong = (
        al.predict_accuracy(m, RIDGE, classifier=classifier)
        for m in (right, other_sampling(right))
    )
    assert abs(z_score(seen.accuracy, predicted.accuracy)) < 5
    assert abs(z_score(seen.accuracy, wrong.accuracy)) > 5
    assert abs(seen.accuracy.mean() - predicted.accuracy) < 0.01
    for k in range(n_classes):
        assert abs(z_score(seen.class_accuracies[:, k], predicted.class_accuracies[k])) < 6


@pytest.mark.parametrize("classifier", ["ridge", "centroid"])
def test_noise_depends_on_the_class(classifier, z_score):
    """Tokens of a class are met again in its sequences; five tokens a sequence show it best."""
    right = model(10, al.optimal_weights(R))
    seen = al.simulate_accuracy(
        right, 400, 8, rng=0, ridge=RIDGE, classifier=classifier, n_test=8000
    ).accuracy
    predicted = al.predict_accuracy(right, RIDGE, classifier=classifier).accuracy
    assert abs(z_score(seen, predicted)) < 5
    assert z_score(seen, common_covariance(right, classifier)) < -5


@pytest.mark.parametrize("classifier", theory.CLASSIFIERS)
def test_gaussian_sampling_agrees(classifier, z_score):
    right = model(5, al.causal_weights(LENGTH), sampling="gaussian", sample_ratio=0.8)
    seen = al.simulate_accuracy(
        right, 300, 8, rng=0, ridge=RIDGE, classifier=classifier, n_test=8000
    ).accuracy
    predicted = al.predict_accuracy(right, RIDGE, classifier=classifier).accuracy
    many = al.predict_accuracy(replace(right, sample_ratio=0.2), RIDGE, classifier=classifier)
    assert abs(z_score(seen, predicted)) < 5
    assert abs(z_score(seen, many.accuracy)) > 5
