"""Gaussian classes with any covariance, and one spike in it: limits and direct computation."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

import attnlaw as al
from attnlaw.theory.general_covariance import SpikedCovariance, gaussian_accuracy


def test_prediction_agrees_with_the_theory_of_the_model():
    """The general formula on MP_δ noise is `predict_accuracy`, up to 1/d."""
    rng = np.random.default_rng(1)
    d, delta, gamma, ridge = 400, 0.4, 0.5, 0.05
    model = al.PooledSequences(
        vocab_ratio=delta, sample_ratio=gamma, signal_norm=0.3,
        correlation=al.prefix_correlation(2, prefix=2), weights=al.mean_weights(2),
    )  # fmt: skip
    Z = rng.standard_normal((int(d / delta), d))
    t, Q = np.linalg.eigh(Z.T @ Z / len(Z) / 2)
    a = rng.standard_normal(d)
    a *= np.sqrt(0.3**2 + delta) / np.linalg.norm(a)
    predicted = gaussian_accuracy(t, (Q.T @ a) ** 2, d / gamma, 0.0, ridge)
    theory = al.predict_accuracy(model, ridge).accuracy
    assert abs(predicted - theory) < 0.003
    wrong = gaussian_accuracy(t, (Q.T @ a) ** 2, np.inf, 0.0, ridge)  # as if N were infinite
    assert abs(wrong - theory) > 0.01


@pytest.mark.parametrize("share", [0.5, 0.8])
def test_prediction_agrees_with_ridge_on_gaussian_classes(share):
    rng = np.random.default_rng(2)
    d, n, ridge = 100, 250, 0.3
    t = np.geomspace(0.2, 4, d)
    m = rng.standard_normal(d) * 0.12
    right = []
    for _ in range(30):
        y = np.where(rng.random(2 * n) < share, 1.0, -1.0)
        X = rng.standard_normal((2 * n, d)) * np.sqrt(t) + y[:, None] * m
        Xc, mean = X[:n] - X[:n].mean(axis=0), y[:n].mean()
        b = np.linalg.solve(Xc.T @ Xc / n + ridge * np.eye(d), Xc.T @ (y[:n] - mean) / n)
        answers = mean + (X[n:] - X[:n].mean(axis=0)) @ b
        right.append(np.mean(np.sign(answers) == y[n:]))
    predicted = gaussian_accuracy(t, m**2, n, 2 * share - 1, ridge)
    z = (np.mean(right) - predicted) / (np.std(right, ddof=1) / np.sqrt(len(right)))
    assert abs(z) < 5
    many = gaussian_accuracy(t, m**2, np.inf, 2 * share - 1, ridge)
    assert abs(np.mean(right) - many) > 10 * np.std(right, ddof=1) / np.sqrt(len(right))


def test_spiked_covariance_is_solved_exactly():
    rng = np.random.default_rng(4)
    A = rng.standard_normal((30, 30))
    sigma, u = A @ A.T / 30, np.eye(30)[0]
    values, vectors = np.linalg.eigh(sigma)
    spiked = SpikedCovariance(variances=values, shares=(vectors.T @ u) ** 2)
    for strength in (3.0, 0.4, 0.0, -0.4):
        top = np.linalg.eigh(sigma + strength * np.outer(u, u))[1][:, -1]
        np.testing.assert_allclose(
            spiked.squared_overlap(strength, np.inf), top[0] ** 2, rtol=1e-6
        )


@pytest.mark.parametrize("n_samples", [60, 250, 1e9])
def test_two_gaussian_classes_are_pooled_classes_of_one_token(n_samples):
    rng = np.random.default_rng(1)
    d, ridge, share = 40, 0.3, 0.7
    t, m = np.geomspace(0.2, 4, d), rng.standard_normal(d) * 0.15
    model = al.PooledClasses(
        vocab_ratio=0.0, sample_ratio=d / n_samples, class_means=np.stack([m, -m]),
        class_shares=[share, 1 - share], noise_spectrum=t, correlation=[[1.0]], weights=[1.0],
    )  # fmt: skip
    found = gaussian_accuracy(t, m**2, n_samples, 2 * share - 1, ridge)
    assert_allclose(found, al.predict_accuracy(model, ridge).accuracy, rtol=1e-10)
