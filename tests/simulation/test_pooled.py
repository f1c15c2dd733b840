from dataclasses import replace
from itertools import product

import numpy as np
import pytest

import attnlaw as al
from attnlaw.simulation.pooled import (
    bulk_noise,
    class_means,
    covariance,
    eigenvalues,
    leading_eigenpairs,
    pool,
    population_covariance,
    sample_pooled,
    sample_table,
    sample_tokens,
    split_classes,
    squared_overlap,
    token_classes,
)
from attnlaw.simulation.signs import sample_signs

WEIGHTS = np.array([0.5, 0.3, -0.2])
R = np.array([[1, 1, 0], [1, 1, 0], [0, 0, 1.0]])
MODEL = al.PooledSequences(
    vocab_ratio=0.5,
    sample_ratio=0.4,
    signal_norm=1.5,
    correlation=R,
    weights=WEIGHTS,
)


def enumerated_moments(table, signal_norm):
    """Mean and second moment of x over every sequence of tokens, each with its probability."""
    V = len(table)
    c = token_classes(V)
    E = table + signal_norm * np.outer(c, np.eye(table.shape[1])[0])
    sequences = np.array([t for t in product(range(V), repeat=3) if c[t[0]] == c[t[1]]])
    X = pool(E, sequences, WEIGHTS)
    return X.mean(axis=0), X.T @ X / len(X)  # all admissible sequences are equally likely


def test_population_covariance_is_that_of_all_sequences_of_the_table():
    table = sample_table(6, 4, rng=0)
    mean, second_moment = enumerated_moments(table, 1.5)
    uncentred = replace(MODEL, centred=False)
    np.testing.assert_allclose(
        population_covariance(uncentred, table, 1.5), second_moment, rtol=1e-12, atol=1e-14
    )
    np.testing.assert_allclose(
        population_covariance(MODEL, table, 1.5),
        second_moment - np.outer(mean, mean),
        rtol=1e-12,
        atol=1e-14,
    )
    idealised = population_covariance(replace(MODEL, sampling="gaussian"), table, 1.5)
    assert np.abs(idealised - second_moment).max() > 0.1


@pytest.mark.parametrize("sampling", ["token", "gaussian"])
@pytest.mark.parametrize("vocab_ratio", [0.0, 0.5])
def test_many_samples_have_the_population_covariance(sampling, vocab_ratio):
    model = replace(MODEL, sampling=sampling, vocab_ratio=vocab_ratio, sample_ratio=1e-4)
    sample = sample_pooled(model, 4, rng=0)
    X = sample.pooled(1.5)
    X = X - X.mean(axis=0)
    seen = X.T @ X / len(X)
    spread = np.sqrt(((X**2).T @ (X**2) / len(X) - seen**2) / len(X))
    z = (seen - population_covariance(model, sample.table, 1.5)) / spread
    assert np.abs(z).max() < 5


def test_tokens_have_the_class_of_their_sign_and_are_uniform_in_it():
    signs = sample_signs(R, 2000, rng=0)
    tokens = sample_tokens(signs, 8, rng=1)
    np.testing.assert_array_equal(token_classes(8)[tokens], signs)
    counts = np.bincount(tokens.ravel(), minlength=8)
    assert (np.abs(counts - 750) < 5 * np.sqrt(750)).all()


def test_pooling_is_the_weighted_sum_of_the_tokens():
    table, tokens = sample_table(8, 3, rng=0), sample_tokens(sample_signs(R, 5, rng=0), 8, rng=0)
    for weights in (WEIGHTS, np.array([0.0, 1.0, 0.0]), np.array([0.0, 0.5, 0.5])):
        np.testing.assert_allclose(
            pool(table, tokens, weights), np.einsum("l,nld->nd", weights, table[tokens])
        )


def test_noise_and_gains_make_up_the_pooled_tokens():
    sample = sample_pooled(MODEL, 6, rng=0)
    E = sample.table + 1.5 * np.outer(token_classes(len(sample.table)), np.eye(6)[0])
    np.testing.assert_allclose(sample.pooled(1.5), pool(E, sample.tokens, WEIGHTS))


def test_class_split_adds_up_and_leaves_nothing_in_the_class_means():
    table = sample_table(8, 3, rng=0)
    within, mean, difference = split_classes(table)
    np.testing.assert_allclose(within + mean + np.outer(token_classes(8), difference), table)
    np.testing.assert_allclose(within[:4].sum(axis=0), 0, atol=1e-14)
    np.testing.assert_allclose(within[4:].sum(axis=0), 0, atol=1e-14)
    np.testing.assert_array_equal(class_means(table), [mean, difference])


def test_bulk_noise_is_the_pooled_noise_of_a_table_without_class_means():
    sample = sample_pooled(MODEL, 6, rng=0)
    within = split_classes(sample.table).within
    np.testing.assert_allclose(
        bulk_noise(MODEL, sample), pool(within, sample.tokens, WEIGHTS), atol=1e-14
    )


def test_infinite_vocabulary_has_no_table():
    sample = sample_pooled(replace(MODEL, vocab_ratio=0.0), 6, rng=0)
    assert sample.table.shape == (0, 6)
    assert sample.tokens.size == 0


def test_spectrum_agrees_with_the_textbook():
    X = np.random.default_rng(0).standard_normal((9, 5)) + 3
    S = covariance(X, centred=True)
    np.testing.assert_allclose(S, np.cov(X.T, bias=True))
    np.testing.assert_allclose(covariance(X, centred=False), X.T @ X / 9)
    values, vectors = leading_eigenpairs(S, 2)
    np.testing.assert_allclose(values, eigenvalues(S)[::-1][:2])
    np.testing.assert_allclose(vectors @ S, values[:, None] * vectors)
    np.testing.assert_allclose(squared_overlap(vectors[:, None], vectors), np.eye(2), atol=1e-14)
