"""Accuracy of K classes: limits, symmetries, and two classes as another formula has them."""

import re
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from scipy.special import ndtr
from scipy.stats import multivariate_normal, qmc

import attnlaw as al
from attnlaw.theory.class_accuracy import CLASSIFIERS, largest_score_probability

PREFIX = al.prefix_correlation(20, prefix=5)
OPTIMAL = al.optimal_weights(PREFIX)
MEANS = np.random.default_rng(0).standard_normal((4, 6)) * 0.3
MODEL = al.PooledClasses(
    vocab_ratio=0.25,
    sample_ratio=0.4,
    class_means=MEANS,
    class_shares=[0.1, 0.2, 0.3, 0.4],
    correlation=PREFIX,
    weights=al.causal_weights(20),
)
ratios = st.floats(-2, 1).map(lambda exponent: 10.0**exponent)


@settings(max_examples=25)
@given(ratios, ratios, st.floats(0.05, 2), ratios, st.sampled_from(["token", "gaussian"]))
def test_two_classes_alike_are_those_of_pooled_sequences(delta, gamma, norm, ridge, sampling):
    shared = {
        "vocab_ratio": delta, "sample_ratio": gamma, "correlation": PREFIX, "sampling": sampling
    }  # fmt: skip
    for weights, tolerance in ((OPTIMAL, 1e-10), (al.causal_weights(20), 1e-5)):
        classes = al.PooledClasses(class_means=[[norm], [-norm]], weights=weights, **shared)
        signs = al.PooledSequences(signal_norm=norm, weights=weights, **shared)
        for classifier in ("ridge", "centroid"):
            found = al.predict_accuracy(classes, ridge, classifier=classifier)
            expected = al.predict_accuracy(signs, ridge, classifier=classifier).accuracy
            assert_allclose(found.accuracy, expected, atol=tolerance)
            assert_allclose(found.class_accuracies, expected, atol=tolerance)


@pytest.mark.parametrize("classifier", CLASSIFIERS)
def test_order_of_classes_and_rotation_of_white_noise_do_not_matter(classifier):
    found = al.predict_accuracy(MODEL, 0.05, classifier=classifier)
    order = [2, 0, 3, 1]
    turn = np.linalg.qr(np.random.default_rng(1).standard_normal((6, 6)))[0]
    other = replace(MODEL, class_means=MEANS[order] @ turn, class_shares=MODEL.shares[order])
    again = al.predict_accuracy(other, 0.05, classifier=classifier)
    assert_allclose(again.class_accuracies, found.class_accuracies[order], atol=1e-3)
    assert_allclose(again.accuracy, found.accuracy, atol=5e-4)


@pytest.mark.parametrize("classifier", CLASSIFIERS)
def test_accuracy_of_equal_classes_without_signal_is_that_of_chance(classifier):
    model = replace(MODEL, signal_scale=0.0, vocab_ratio=0.0, class_shares=np.ones(4))
    found = al.predict_accuracy(model, 0.05, classifier=classifier)
    assert_allclose(found.class_accuracies, 0.25, atol=1e-4)


def test_infinite_data_give_the_best_rule():
    """Regularised discriminants with λ → 0 know the classes: Bayes' rule for Gaussian classes."""
    scale, pi = 3.0, np.array([0.3, 0.7])
    model = al.PooledClasses(
        vocab_ratio=0.0, sample_ratio=0.0, class_means=scale * np.array([[0.4], [-0.4]]),
        class_shares=pi, correlation=[[1.0]], weights=[1.0],
    )  # fmt: skip
    distance, offset = 2 * scale * 0.4, np.log(pi[0] / pi[1])
    rule = [ndtr((distance**2 / 2 + s * offset) / distance) for s in (1, -1)]
    found = al.predict_accuracy(model, 1e-9, classifier="discriminant")
    assert_allclose(found.class_accuracies, rule, rtol=1e-7)
    # and the nearest centroid ignores the shares
    found = al.predict_accuracy(model, classifier="centroid")
    assert_allclose(found.class_accuracies, ndtr(distance / 2), rtol=1e-10)


def test_arrays_broadcast():
    model = replace(MODEL, sample_ratio=np.array([0.2, 0.8]))
    found = al.predict_accuracy(model, np.array([[0.05], [0.5], [5.0]]))
    assert found.accuracy.shape == (3, 2)
    assert found.class_accuracies.shape == (3, 2, 4)
    one = al.predict_accuracy(replace(MODEL, sample_ratio=0.8), 0.5)
    assert_allclose(found.accuracy[1, 1], one.accuracy, rtol=1e-12)
    assert np.all(found.accuracy[:2, 0] > found.accuracy[:2, 1])  # more data


def test_fewer_samples_and_tokens_than_dimensions_have_a_prediction():
    for delta, gamma in ((3.0, 0.5), (0.5, 3.0), (4.0, 5.0)):
        model = replace(MODEL, vocab_ratio=delta, sample_ratio=gamma)
        found = [al.predict_accuracy(model, ridge).accuracy for ridge in (1e-6, 1e-3, 1.0)]
        assert np.all((np.array(found) > 0.25) & (np.array(found) <= 1))


def test_probability_of_the_largest_agrees_with_the_normal_orthant():
    rng = np.random.default_rng(2)
    root = rng.standard_normal((4, 4))
    C, m = root @ root.T, rng.standard_normal(4)
    u = qmc.Sobol(2, seed=0).random_base2(12)
    total = 0.0
    for k in range(4):
        T = np.delete(-np.eye(4), k, axis=0)
        T[:, k] = 1  # differences s_k − s_j
        exact = multivariate_normal(mean=-T @ m, cov=T @ C @ T.T, seed=0).cdf(np.zeros(3))
        found = largest_score_probability(k, np.tile(m, (len(u), 1)), C[None], u)
        assert_allclose(found, exact, atol=2e-4)
        total += found
    assert_allclose(total, 1, atol=2e-4)


def test_invalid_arguments_are_reported():
    with pytest.raises(ValueError, match="correlation must be made of 0 and 1"):
        al.predict_accuracy(replace(MODEL, correlation=np.full((20, 20), 0.5) + np.eye(20) / 2), 1)
    with pytest.raises(ValueError, match="ridge must be given for classifier='ridge', got None"):
        al.predict_accuracy(MODEL)
    with pytest.raises(ValueError, match=re.escape("classifier must be one of 'ridge'")):
        al.predict_accuracy(MODEL, 0.1, classifier="forest")
