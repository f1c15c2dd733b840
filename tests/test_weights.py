"""Pooling weights: the optimum, and closed forms.

docs/theory/weights.md, "Optimal weights"; docs/theory/weights.md, "Causal self-attention".
"""

import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose

import attnlaw as al

lengths = st.integers(2, 300)


def harmonic(n):
    return sum(1 / k for k in range(1, n + 1))


def snr(w, R):
    return w @ R @ w / (w @ w)


@pytest.mark.parametrize(
    "weights",
    [al.mean_weights, al.causal_weights, al.last_token_weights],
    ids=lambda f: f.__name__,
)
@given(length=lengths)
def test_weights_sum_to_one_and_none_is_negative(weights, length):
    w = weights(length)
    assert w.shape == (length,)
    assert_allclose(w.sum(), 1, rtol=1e-13)
    assert (w >= 0).all()


@given(lengths)
def test_causal_weights_are_the_column_means_of_uniform_causal_rows(L):
    A = np.tril(np.ones((L, L)), k=-1)
    A[0, 0] = 1
    A /= A.sum(axis=1, keepdims=True)
    assert_allclose(al.causal_weights(L), A.mean(axis=0), atol=1e-14)
    assert al.causal_weights(L)[-1] == 0


@given(lengths)
def test_causal_noise_gain_has_its_closed_form(L):
    w = al.causal_weights(L)
    assert_allclose(w @ w, (2 * L - 1 + harmonic(L - 1)) / L**2, rtol=1e-12)


@given(lengths, st.data())
def test_causal_prefix_mass_and_suffix_squares_have_their_closed_forms(L, data):
    p = data.draw(st.integers(1, L - 1))
    w, H = al.causal_weights(L), harmonic
    mass = p / L * (1 + H(L - 1) - H(p - 1))
    D = H(L - 1) - H(p)
    squares = (2 * (L - 1 - p) - (2 * p + 1) * D - p * D**2) / L**2
    assert_allclose(w[:p].sum(), mass, rtol=1e-12)
    assert_allclose(np.sum(w[p:] ** 2), squares, rtol=1e-9, atol=1e-14)
    alpha = w @ al.prefix_correlation(L, p) @ w
    assert_allclose(alpha, mass**2 + squares, rtol=1e-11)


@given(lengths, st.data())
def test_mean_pooling_of_a_prefix_has_its_closed_snr(L, data):
    p = data.draw(st.integers(1, L))
    ratio = snr(al.mean_weights(L), al.prefix_correlation(L, p))
    assert_allclose(ratio, 1 + p * (p - 1) / L, rtol=1e-12)


@given(st.integers(2, 60), st.data(), st.floats(0.01, 1))
def test_optimum_of_a_prefix_is_the_prefix(L, data, within):
    p = data.draw(st.integers(2, L))
    R = al.prefix_correlation(L, p, within)
    w = al.optimal_weights(R)
    assert_allclose(snr(w, R), 1 + (p - 1) * within, rtol=1e-11)
    assert_allclose(w, np.where(np.arange(L) < p, 1 / p, 0), atol=1e-9)


def random_correlation(seed, length):
    X = np.random.default_rng(seed).standard_normal((length + 2, length))
    R = X.T @ X
    R /= np.sqrt(np.outer(np.diag(R), np.diag(R)))
    np.fill_diagonal(R, 1)
    return (R + R.T) / 2


@given(st.integers(0, 1000), st.integers(3, 12))
def test_no_weights_beat_the_optimum(seed, length):
    R = random_correlation(seed, length)
    w = al.optimal_weights(R)
    best = np.linalg.eigvalsh(R)[-1]
    assert_allclose(w.sum(), 1, rtol=1e-9)
    assert_allclose(snr(w, R), best, rtol=1e-9)
    others = np.random.default_rng(seed).standard_normal((200, length))
    assert max(snr(v, R) for v in others) <= best * (1 + 1e-12)


def test_independent_positions_are_best_pooled_by_their_mean():
    """Every direction is optimal; the projector picks the one closest to uniform."""
    assert_allclose(al.optimal_weights(np.eye(5)), al.mean_weights(5))


def test_optimum_orthogonal_to_ones_is_refused_and_the_direction_offered():
    R = al.spiked_correlation(3.0, [1, -1, 1, -1])
    with pytest.raises(ValueError, match=r"^correlation must be .* orthogonal .*_direction"):
        al.optimal_weights(R)
    direction = al.optimal_direction(R)
    assert_allclose(snr(direction, R), np.linalg.eigvalsh(R)[-1], rtol=1e-12)
    assert_allclose(direction, [0.5, -0.5, 0.5, -0.5])


@given(st.integers(0, 1000), st.integers(3, 12))
def test_direction_is_a_multiple_of_the_weights(seed, length):
    R = random_correlation(seed, length)
    w = al.optimal_weights(R)
    assert_allclose(al.optimal_direction(R) * np.linalg.norm(w), w, rtol=1e-7, atol=1e-9)


@pytest.mark.parametrize("temperature", [1.0, 5.0])
def test_softmax_of_real_tokens_tends_to_the_causal_weights_like_one_over_root_d(temperature):
    """P1 Lemma 1: scores are O(d^(−1/2)), so quadrupling d halves the distance."""
    rng, L = np.random.default_rng(0), 12
    distances = []
    for d in (400, 1600, 6400):
        tokens = rng.standard_normal((60, L, d))
        gaps = al.weights.softmax_causal_weights(tokens, temperature) - al.causal_weights(L)
        distances.append(np.linalg.norm(gaps, axis=-1).mean())
    ratios = np.array(distances[:-1]) / distances[1:]
    assert_allclose(ratios, 2, rtol=0.15)


def test_softmax_prefers_tokens_that_are_alike():
    tokens = 6 * np.array([[1.0, 0], [0, 1], [1, 0]])
    w = al.weights.softmax_causal_weights(tokens, inverse_temperature=4.0)
    assert w[0] > w[1]
    assert w[2] == 0


def test_softmax_of_huge_scores_does_not_overflow():
    tokens = 1e8 * np.random.default_rng(0).standard_normal((4, 3))
    w = al.weights.softmax_causal_weights(tokens, 1e8)
    assert_allclose(w.sum(), 1)


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda: al.mean_weights(0), "length must be a whole number of at least 1, got 0."),
        (lambda: al.mean_weights(2.5), "length must be a whole number of at least 1, got 2.5."),
        (lambda: al.mean_weights(True), "length must be a whole number of at least 1, got True."),
        (lambda: al.causal_weights(1), "length must be a whole number of at least 2, got 1."),
        (lambda: al.causal_weights("9"), "length must be a whole number of at least 2, got '9'."),
        (
            lambda: al.weights.softmax_causal_weights(np.ones(3)),
            "embeddings must be of shape (..., length ≥ 2, dimension ≥ 1), got an array of shape",
        ),
        (
            lambda: al.weights.softmax_causal_weights([[1.0, np.nan], [0, 1]]),
            "embeddings must be finite, got",
        ),
        (
            lambda: al.optimal_weights([[1.0, 0.5], [0.4, 1.0]]),
            "correlation must be symmetric to 1e-10, got",
        ),
    ],
)
def test_bad_input_gets_the_sentence(call, sentence):
    with pytest.raises(ValueError, match=f"^{re.escape(sentence)}"):
        call()
