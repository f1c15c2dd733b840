import numpy as np
import pytest
from scipy.stats import chi2, kstest, norm

pytest.importorskip("numba")

from attnlaw.simulation._matrix_free.compiled.kernels import (
    chi,
    fill_normal,
    fill_sign_tokens,
    fill_tokens,
)
from attnlaw.simulation._matrix_free.stream import seeded_state


@pytest.fixture
def state():
    return seeded_state(np.random.default_rng(0))


def test_xoshiro_gives_its_published_numbers():
    # xoshiro256++ from the state (1, 2, 3, 4): the first words of the authors' C code.
    from attnlaw.simulation._matrix_free.compiled.kernels import _next

    words, state = [], [np.uint64(k) for k in (1, 2, 3, 4)]
    for _ in range(3):
        word, *state = _next(*state)
        words.append(int(word))
    assert words == [41943041, 58720359, 3588806011781223]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_normals_are_normal(state, dtype):
    x = np.empty((1000, 1000), dtype=dtype)
    fill_normal(state, x)
    x = x.ravel().astype(np.float64)
    n = len(x)
    for power, moment, variance in ((1, 0, 1), (2, 1, 2), (3, 0, 15), (4, 3, 96), (6, 15, 10170)):
        assert abs(np.mean(x**power) - moment) < 5 * np.sqrt(variance / n)
    assert kstest(x, "norm").pvalue > 1e-4
    for edge in (1, 2, 3, 3.6541528853610088, 4, 4.4):  # where layers meet, and in the tail
        expected = 2 * n * norm.sf(edge)
        assert abs(np.sum(np.abs(x) > edge) - expected) < 5 * np.sqrt(expected)
    for lag in (1, 2, 3):
        assert abs(np.sum(x[:-lag] * x[lag:])) < 5 * np.sqrt(n)


@pytest.mark.parametrize("freedom", [1, 2, 3, 10, 1000])
def test_lengths_of_gaussian_vectors_are_chi(state, freedom):
    lengths = np.array([chi(state, freedom) for _ in range(20_000)])
    assert kstest(lengths**2, chi2(freedom).cdf).pvalue > 1e-4


def test_tokens_are_uniform_in_the_class_of_their_sign(state):
    signs = np.where(np.random.default_rng(1).random((20_000, 5)) < 0.3, -1, 1).astype(np.int8)
    tokens = np.empty(signs.shape, dtype=np.uint16)
    fill_tokens(state, signs, 7, tokens)
    np.testing.assert_array_equal(tokens >= 7, signs < 0)
    for half in (tokens[signs > 0], tokens[signs < 0] - 7):
        counts = np.bincount(half, minlength=7)
        assert chi2(6).sf(np.sum((counts - counts.mean()) ** 2) / counts.mean()) > 1e-4


def test_signs_are_fair_and_shared(state):
    members, polarity = np.array([0, 1, 0, 2, 63]), np.array([1, 1, -1, 1, 1], dtype=np.int8)
    tokens = np.empty((40_000, 5), dtype=np.uint32)
    fill_sign_tokens(state, members, polarity, 50, tokens)
    assert tokens.max() == 99
    signs = np.where(tokens < 50, 1.0, -1.0)
    np.testing.assert_array_equal(signs[:, 0], -signs[:, 2])
    others = signs[:, [0, 1, 3, 4]]
    covariance = others.T @ others / len(others)
    assert np.abs(covariance - np.eye(4)).max() < 5 / np.sqrt(len(others))
    assert np.abs(others.mean(axis=0)).max() < 5 / np.sqrt(len(others))
