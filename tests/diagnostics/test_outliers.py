"""Gaps that stand for outliers: calibration at a regular edge, and real outliers."""

import numpy as np
import pytest
from scipy.linalg import eigh_tridiagonal

from attnlaw.diagnostics import find_outliers
from attnlaw.diagnostics.outliers import gap_p_value
from attnlaw.estimators import outlier_test


def edge_gaps(rng, n_positions=50, n_gaps=10, n=4000, corner=1000):
    """Largest scaled gap at the edge of the Gaussian orthogonal ensemble.

    Dumitriu and Edelman's tridiagonal matrix; edge eigenvectors live in its first rows.
    """
    diagonal = np.sqrt(2) * rng.standard_normal(corner)
    off = np.sqrt(rng.chisquare(n - 1 - np.arange(corner - 1)))
    last = n_positions + n_gaps + 1
    values = eigh_tridiagonal(
        diagonal, off, select="i", select_range=(corner - last, corner - 1), eigvals_only=True
    )[::-1]
    gaps = values[:-1] - values[1:]
    scale = np.convolve(gaps[1:], np.full(n_gaps, 1 / n_gaps), "valid")[:n_positions]
    return (gaps[:n_positions] / scale).max()


def assert_calibrated(n):
    rng = np.random.default_rng(12)
    p = gap_p_value([edge_gaps(rng) for _ in range(n)])
    for level in (0.5, 0.2, 0.1, 0.05):
        error = np.sqrt(level * (1 - level) / n)
        assert abs(np.mean(p < level) - level) < 5 * error, level


def test_p_values_are_uniform_at_a_regular_edge():
    assert_calibrated(80)


@pytest.mark.slow
def test_p_values_are_uniform_at_a_regular_edge_closely():
    assert_calibrated(4000)


@pytest.mark.parametrize("shape", ["flat", "geometric"])
@pytest.mark.parametrize("ratio", [0.1, 0.5])
def test_pure_noise_of_unknown_shape_seldom_shows_outliers(shape, ratio):
    rng = np.random.default_rng(3)
    d, n = 100, 60
    V = int(d / ratio)
    variances = np.ones(d) if shape == "flat" else np.geomspace(0.1, 5, d)
    alarms = 0
    for _ in range(n):
        X = rng.standard_normal((V, d)) * np.sqrt(variances)
        alarms += find_outliers(np.linalg.eigvalsh(X.T @ X / V), level=0.05).n_outliers > 0
    assert alarms / n < 0.05 + 5 * np.sqrt(0.05 * 0.95 / n)


def test_planted_directions_are_counted_close_pairs_included():
    rng = np.random.default_rng(4)
    d, V = 200, 2000
    scales = np.append(np.linspace(0.5, 1.5, d - 4), [4.0, 4.02, 9.0, 40.0])
    X = rng.standard_normal((V, d)) * np.sqrt(scales)
    found = find_outliers(np.linalg.eigvalsh(X.T @ X / V))
    assert found.n_outliers == 4
    assert (np.diff(found.p_values) >= 0).all()
    assert found.p_values.max() < 0.01


def test_too_few_eigenvalues_are_refused():
    with pytest.raises(ValueError, match="at least 24 positive numbers"):
        find_outliers(np.ones(10))


def test_agrees_with_the_sequential_test_of_spacings():
    """`outlier_test` asks the same with other statistics, one eigenvalue after the other."""
    rng = np.random.default_rng(5)
    for variances in (np.ones(96), np.linspace(0.5, 1.5, 96)):
        for spikes in ([], [6.0], [5.0, 9.0, 9.2, 30.0]):
            scales = np.sqrt(np.append(variances, spikes))
            X = rng.standard_normal((1500, len(scales))) * scales
            values = np.linalg.eigvalsh(X.T @ X / 1500)
            other = outlier_test(values, n_samples=1500, noise="general", level=0.01)
            assert find_outliers(values).n_outliers == len(spikes) == other.n_signals
