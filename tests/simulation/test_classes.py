"""Drawing classes: their shares, how they copy each other, and the exact covariance."""

from dataclasses import replace

import numpy as np
import pytest

import attnlaw as al
from attnlaw.simulation import sample_classes
from attnlaw.simulation.classes import sample_class_sequences

SHARES = np.array([0.2, 0.3, 0.5])

CORRELATIONS = {
    "one class for a prefix": al.prefix_correlation(6, prefix=3),
    "a soft prefix": al.prefix_correlation(6, prefix=4, within=0.6),
    "a spike of one sign": al.spiked_correlation(4.0, [1, 2, 3, 0, 1]),
    "a chain": al.autoregressive_correlation(6, 0.7),
    "two links": np.kron(np.eye(2), [[1.0, 0.4], [0.4, 1.0]]),
    "independent": np.eye(4),
}


@pytest.mark.parametrize("name", CORRELATIONS)
def test_classes_copy_each_other_as_often_as_the_correlation_says(name):
    R, n = CORRELATIONS[name], 40_000
    classes = sample_classes(R, SHARES, n, rng=0)
    one_hot = np.eye(3)[classes]  # (n, L, K)
    joint = np.einsum("nlk,nmj->lmkj", one_hot, one_hot) / n
    independent = np.outer(SHARES, SHARES)
    expected = R[:, :, None, None] * (np.diag(SHARES) - independent) + independent
    error = np.sqrt(np.maximum(expected * (1 - expected), 1e-4) / n)
    assert np.abs((joint - expected) / error).max() < 5


def test_correlation_that_copying_cannot_have_is_refused():
    R = al.autoregressive_correlation(4, 0.5)
    R[0, 3] = R[3, 0] = 0.4
    with pytest.raises(ValueError, match=r"^correlation must be one that copying can have"):
        sample_classes(R, SHARES, 10, rng=0)


def model(**changes):
    settings = {
        "vocab_ratio": 0.5,
        "sample_ratio": 0.001,
        "class_means": [[2.0, 0.0], [0.0, 1.0], [-1.0, -1.0]],
        "class_shares": SHARES,
        "correlation": al.prefix_correlation(6, prefix=3),
        "weights": al.causal_weights(6),
        "noise_spectrum": [0.5, 2.0],
    }
    return al.PooledClasses(**settings | changes)


@pytest.mark.parametrize("vocab_ratio", [0.4, 0.0])
@pytest.mark.parametrize("sampling", ["token", "gaussian"])
def test_covariance_of_a_table_is_exact(sampling, vocab_ratio):
    """Many samples of one small table: every entry of S within its error of C."""
    drawn = sample_class_sequences(model(sampling=sampling, vocab_ratio=vocab_ratio), 8, rng=1)
    X = drawn.pooled - drawn.pooled.mean(axis=0)
    products = X[:, :, None] * X[:, None, :]
    error = products.std(axis=0) / np.sqrt(len(X))
    assert np.abs((products.mean(axis=0) - drawn.covariance) / error).max() < 5


def test_covariance_of_a_table_is_exact_when_shares_do_not_divide_it():
    """19 tokens in three classes of unequal frequency."""
    drawn = sample_class_sequences(model(vocab_ratio=8 / 19), 8, rng=2)
    X = drawn.pooled - drawn.pooled.mean(axis=0)
    products = X[:, :, None] * X[:, None, :]
    error = products.std(axis=0) / np.sqrt(len(X))
    assert np.abs((products.mean(axis=0) - drawn.covariance) / error).max() < 5


def test_every_class_has_a_token():
    rare = model(class_shares=[0.001, 0.001, 0.998])
    assert rare.class_sizes(10).tolist() == [1, 1, 8]
    assert rare.sizes(2).n_vocab == 4


def test_trials_do_not_depend_on_the_workers():
    pooled = model(sample_ratio=0.4)
    one = al.simulate(pooled, 20, 3, rng=5)
    two = al.simulate(pooled, 20, 3, rng=5, n_jobs=2)
    for field in vars(one):
        assert np.array_equal(getattr(one, field), getattr(two, field))


def test_dimension_must_hold_the_coordinates():
    with pytest.raises(ValueError, match=r"^dimension must be at least 5, the coordinates of"):
        al.simulate(model(class_means=np.eye(5), class_shares=None, noise_spectrum=None), 4, rng=0)
    with pytest.raises(ValueError, match=r"^signal_scale must be a single number when classes"):
        al.simulate(replace(model(), signal_scale=np.array([1.0, 2.0])), 8, rng=0)
