import numpy as np
import pytest

import attnlaw as al
from attnlaw.simulation.signs import attainable_correlation, sample_signs

N = 40_000


def correlation_errors(correlation, signs):
    """z-scores of the empirical E[s sᵀ]; an entry has variance (1 − R²)/n."""
    R = np.asarray(correlation)
    seen = signs.T.astype(float) @ signs / len(signs)
    spread = np.sqrt((1 - R**2) / len(signs))
    exact = np.abs(R) > 1 - 1e-9
    np.testing.assert_array_equal(seen[exact], np.sign(R[exact]))
    return np.abs(seen - R)[~exact] / spread[~exact]


FACTOR = np.array([0.97, 0.97, 0.97, 0.95, 0.9, 0.6, 0.5, 0.5, -0.5, 0.5])
CORRELATIONS = {
    "independent": np.eye(6),
    "prefix": al.prefix_correlation(8, prefix=5),
    "weak prefix": al.prefix_correlation(8, prefix=5, within=0.4),
    "opposed pair": np.array([[1, -1, 0.3], [-1, 1, -0.3], [0.3, -0.3, 1]]),
    "autoregressive": al.autoregressive_correlation(10, 0.9),
    "alternating": al.autoregressive_correlation(6, -0.7),
    "perfect chain": al.autoregressive_correlation(4, -1.0),
    "singular": np.full((3, 3), -1 / 3) + 4 / 3 * np.eye(3),
    "mild spike": al.spiked_correlation(2.0, [1, -1, 2, 0, 1]),
    "hidden sign": np.outer(FACTOR, FACTOR) + np.diag(1 - FACTOR**2),
    "one position": np.eye(1),
}


@pytest.mark.parametrize("name", CORRELATIONS)
def test_signs_have_exactly_the_given_correlation(name):
    R = CORRELATIONS[name]
    signs = sample_signs(R, N, rng=1)
    assert signs.shape == (N, len(R))
    assert set(np.unique(signs)) == {-1, 1}
    assert np.abs(signs.mean(axis=0)).max() < 5 / np.sqrt(N)
    assert correlation_errors(R, signs).max(initial=0) < 5


def test_correlation_without_the_sine_would_fail():
    R = al.prefix_correlation(4, prefix=4, within=0.5)
    g = np.random.default_rng(0).multivariate_normal(np.zeros(4), R, size=N)
    assert correlation_errors(R, np.where(g > 0, 1, -1)).max() > 5


def test_strong_spike_is_beyond_gaussians_but_within_a_hidden_sign():
    R = CORRELATIONS["hidden sign"]
    assert np.linalg.eigvalsh(np.sin(np.pi / 2 * R))[0] < -1e-3
    np.testing.assert_array_equal(attainable_correlation(R), R)


def unattainable(length):
    return np.full((length, length), -0.9 / (length - 1)) + (1 + 0.9 / (length - 1)) * np.eye(
        length
    )


def test_unattainable_correlation_is_refused_with_what_would_be_attained():
    R = unattainable(4)
    with pytest.raises(ValueError, match=r"correlation must be .* got a smallest eigenvalue of -"):
        sample_signs(R, 10, rng=0)
    near = attainable_correlation(R)
    assert correlation_errors(near, sample_signs(near, N, rng=0)).max() < 5
    np.testing.assert_allclose(near[0, 1], -2 / np.pi * np.arcsin(1 / 3))


def test_groups_survive_in_the_attainable_correlation():
    R = np.kron(unattainable(4), [[1, -1], [-1, 1]])
    near = attainable_correlation(R)
    np.testing.assert_array_equal(near[::2, 1::2], -near[::2, ::2])


@pytest.mark.parametrize("n", [-1, 1.5, "many"])
def test_bad_count_is_refused(n):
    with pytest.raises(ValueError, match="n must be a whole number of at least 0"):
        sample_signs(np.eye(2), n)


@pytest.mark.parametrize("rng", [-1, 0.5, "seed"])
def test_bad_seed_is_refused(rng):
    with pytest.raises(ValueError, match="rng must be a Generator, a seed of at least 0 or None"):
        sample_signs(np.eye(2), 3, rng=rng)
