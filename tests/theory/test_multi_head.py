"""Several heads: limits, the generalised eigenproblem, shapes, sentences."""

import re

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.linalg import eigh

import attnlaw as al

PREFIX = al.prefix_correlation(20, prefix=5)
SUFFIX = np.r_[np.zeros(5), np.full(15, 1 / 15)]
COMMON = {"vocab_ratio": 0.5, "sample_ratio": 0.2, "signal_norm": 1.5, "correlation": PREFIX}
THREE = np.stack([al.mean_weights(20), al.causal_weights(20), SUFFIX])


def heads(weights=THREE, **changes):
    return al.MultiHeadPooling(weights=weights, **COMMON | changes)


@pytest.mark.filterwarnings("ignore::attnlaw.RegimeWarning")
@pytest.mark.parametrize("sampling", ["token", "gaussian"])
def test_one_head_is_pooled_sequences(sampling):
    grid = {
        "vocab_ratio": np.array([[[0.0]], [[0.5]], [[2.0]]]),
        "sample_ratio": np.array([[0.0], [0.4], [3.0]]),
        "signal_norm": np.linspace(0, 3, 7),
        "sampling": sampling,
    }
    alone = al.predict(heads(THREE[1:2], **grid))
    spike = al.predict(al.PooledSequences(weights=THREE[1], **COMMON | grid))
    for many, one in {
        "top_eigenvalues": "top_eigenvalue",
        "squared_overlaps": "squared_overlap",
        "population_eigenvalues": "population_eigenvalue",
        "population_overlaps": "population_overlap",
        "sample_overlaps": "sample_overlap",
    }.items():
        got, expected = getattr(alone, many)[..., 0], getattr(spike, one)
        assert_allclose(got, expected, rtol=1e-6, atol=1e-7, err_msg=many)
    assert_allclose(alone.bulk_edge, spike.bulk_edge, rtol=1e-10)


@pytest.mark.parametrize("sampling", ["token", "gaussian"])
def test_orthonormal_heads_have_closed_forms_with_as_many_times_the_ratio(sampling):
    W = np.linalg.svd(THREE, full_matrices=False)[2]
    spikes = al.predict(heads(W, sampling=sampling))
    snr = np.linalg.eigvalsh(W @ PREFIX @ W.T)[::-1]
    expected = al.squared_overlap(
        signal_norm=1.5, vocab_ratio=0.5, sample_ratio=3 * 0.2, snr=snr, sampling=sampling
    )
    assert_allclose(spikes.squared_overlaps, expected, rtol=1e-9)
    assert_allclose(spikes.bulk_edge, al.theory.bulk_edge(0.5, 0.6), rtol=1e-10)


def test_a_turn_of_the_heads_changes_nothing():
    turn = np.linalg.qr(np.random.default_rng(0).standard_normal((3, 3)))[0]
    one, other = al.predict(heads()), al.predict(heads(turn @ THREE))
    for field in vars(one):
        assert_allclose(getattr(one, field), getattr(other, field), rtol=1e-7, atol=1e-10)


def test_a_repeated_head_doubles_eigenvalues_and_counts_no_samples():
    """[x x]/√2 is x and zeros: the second copy costs nothing."""
    once = al.predict(heads(THREE[1:2]))
    twice = al.predict(heads(THREE[[1, 1]]))
    assert_allclose(twice.top_eigenvalues[0], 2 * once.top_eigenvalues[0], rtol=1e-9)
    assert_allclose(twice.squared_overlaps, [once.squared_overlaps[0], 0.0], atol=1e-9)
    assert_allclose(twice.bulk_edge, 2 * once.bulk_edge, rtol=1e-9)


def test_best_combination_is_the_generalised_eigenvector():
    A, K = THREE @ PREFIX @ THREE.T, THREE @ THREE.T
    values, vectors = eigh(A, K)
    best = al.theory.combine_heads(THREE, PREFIX)
    assert_allclose(best.snr, values[-1], rtol=1e-12)
    b = vectors[:, -1] / np.linalg.norm(vectors[:, -1] @ THREE)
    assert_allclose(best.coefficients, b * np.sign(b @ best.coefficients), rtol=1e-9, atol=1e-12)
    assert_allclose(best.coefficients @ THREE, best.weights, atol=1e-12)
    w = best.weights
    assert_allclose(w @ PREFIX @ w / (w @ w), best.snr, rtol=1e-12)


def test_best_combination_beats_every_head_and_the_concatenation():
    best = al.theory.combine_heads(THREE, PREFIX)
    alone = al.predict(al.PooledSequences(weights=best.weights, **COMMON)).squared_overlap
    for w in THREE:
        assert alone > al.predict(al.PooledSequences(weights=w, **COMMON)).squared_overlap
    assert alone > al.predict(heads()).squared_overlaps.max()


def test_dependent_heads_can_be_combined():
    best = al.theory.combine_heads(np.vstack([THREE, THREE[0] - THREE[2]]), PREFIX)
    assert_allclose(best.snr, al.theory.combine_heads(THREE, PREFIX).snr, rtol=1e-10)


def test_predictions_broadcast():
    grid = al.predict(heads(vocab_ratio=[[0.1], [0.5]], signal_norm=[0.0, 1.0, 2.0]))
    assert grid.top_eigenvalues.shape == (2, 3, 3)
    assert grid.bulk_edge.shape == (2, 3)
    alone = al.predict(heads(vocab_ratio=0.1, signal_norm=2.0))
    for field in vars(alone):
        assert_allclose(getattr(grid, field)[0, 2], getattr(alone, field), rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"weights": np.ones((2, 3))}, "weights must be of shape (n_heads, 20), like the"),
        ({"weights": np.ones(20)}, "weights must be an array with 2 axes"),
        ({"weights": np.zeros((1, 20))}, "weights must be different from zero in every head"),
        ({"signal_norm": -1.0}, "signal_norm must be at least 0, got -1.0."),
    ],
)
def test_bad_input_gets_the_sentence(changes, sentence):
    with pytest.raises(ValueError, match=f"^{re.escape(sentence)}"):
        al.MultiHeadPooling(**COMMON | {"weights": THREE} | changes)


def test_heads_to_combine_must_fit_the_correlation():
    with pytest.raises(ValueError, match=r"^weights must be of shape \(n_heads, 20\) and not"):
        al.theory.combine_heads(np.ones((2, 3)), PREFIX)
