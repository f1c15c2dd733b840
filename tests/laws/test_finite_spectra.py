"""The distance of samples to laws, both in bins, and how the largest value fluctuates."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.stats import kstest

import attnlaw as al
from attnlaw.laws.finite_spectra import (
    TRACY_WIDOM_MEAN,
    TRACY_WIDOM_STD,
    bin_spectrum,
    logarithmic_bins,
    tracy_widom_quantile,
    tracy_widom_survival,
)


def test_without_atoms_it_is_what_scipy_says():
    law = al.MarchenkoPastur(0.3) @ al.MarchenkoPastur(0.5)
    sample = law.sample(200, rng=0) * 1.1
    assert al.ks_distance(sample, law) == pytest.approx(
        kstest(sample, law.cdf).statistic, abs=1e-12
    )


def test_an_atom_that_the_sample_has_in_full_costs_nothing():
    law = al.MarchenkoPastur(2.0)
    sample = np.concatenate([np.zeros(500), law.quantile(0.5 + (np.arange(500) + 0.5) / 1000)])
    assert al.ks_distance(sample, law) == pytest.approx(0.0005, abs=1e-9)


def test_rounding_beside_an_atom_does_not_matter():
    law = al.MarchenkoPastur(2.0)
    exact = np.concatenate([np.zeros(50), law.quantile(0.5 + (np.arange(50) + 0.5) / 100)])
    noise = np.where(exact == 0, 1e-15 * np.resize([1, -1], 100), 0)
    assert al.ks_distance(exact + noise, law) == al.ks_distance(exact, law)


@pytest.mark.parametrize("scale", [1e-90, 1e-13, 1.0, 1e90])
def test_distances_do_not_depend_on_the_unit(scale):
    """A sample of sizes below 1e-12 was taken for an atom at zero, at a distance of 0."""
    law = al.MarchenkoPastur(2.0)
    sample = 1.3 * np.concatenate([np.zeros(50), law.quantile(0.5 + (np.arange(50) + 0.5) / 100)])
    expected = al.ks_distance(sample, law)
    assert expected > 0.05
    assert al.ks_distance(scale * sample, scale * law) == pytest.approx(expected, rel=1e-6)


def test_mass_of_the_law_that_rounding_joins_to_its_atom_is_no_distance():
    # 4 % of a causal head's spectrum lie below 1e-12: F falls as 1/|log x| beside an atom of 1/n.
    head = al.SelfAttention(n_tokens=50, head_dimension=64, inverse_temperature=0.7, causal=True)
    law, n = al.law(head), 200
    sample = law.quantile((np.arange(n) + 0.5) / n)
    assert np.mean(sample < 1e-12) > 0.03
    assert al.ks_distance(sample, law) <= 0.5 / n + 1e-6


def test_a_missing_atom_is_seen():
    assert al.ks_distance([5.0], al.Discrete([1.0, 5.0], [0.3, 0.7])) == pytest.approx(0.3)


def test_no_numbers_is_an_error():
    with pytest.raises(ValueError, match="sample must be at least one number"):
        al.ks_distance([], al.MarchenkoPastur(1.0))


def test_masses_of_bins_are_those_of_a_sample():
    # A rigid sample of n values has every bin's share right to 1/n.
    law, n = 2.0 * (al.MarchenkoPastur(0.3) @ al.MarchenkoPastur(0.5)), 4000
    values = law.quantile((np.arange(n) + 0.5) / n)
    for logarithmic in (True, False):
        edges = logarithmic_bins(values) if logarithmic else np.linspace(0, law.edges[-1], 41)
        binned = bin_spectrum(values, edges, laws={"": law}, logarithmic=logarithmic, n_points=81)
        width = np.diff(np.log(edges) if logarithmic else edges)
        assert_allclose(binned.heights * width, np.diff(law.cdf(edges)), atol=1.5 / n)
        if not logarithmic:  # 81 points over 40 bins: every second is the middle of a bin
            assert_allclose(binned.laws[""][1::2] * width, np.diff(law.cdf(edges)), atol=1e-12)
    other = bin_spectrum(1.05 * values, edges, logarithmic=False).heights
    assert (np.abs(binned.heights - other) * width).max() > 10 / n


def test_values_beyond_the_bins_count_as_part_of_the_whole():
    binned = bin_spectrum([0.1, 0.2, 0.3, 7.0], np.array([0.0, 0.25, 0.5]), logarithmic=False)
    assert binned.heights.tolist() == [2.0, 1.0]


def test_a_change_of_variable_is_a_function():
    law = al.MarchenkoPastur(1.0)
    edges = np.linspace(0, 2, 21)
    binned = bin_spectrum(
        np.ones(3), edges, laws={"quarter circle": lambda s: law.cdf(s**2)}, logarithmic=False
    )
    inner = (binned.x > 0.1) & (binned.x < 1.8)
    expected = np.sqrt(4 - binned.x[inner] ** 2) / np.pi  # singular values of a square matrix
    assert_allclose(binned.laws["quarter circle"][inner], expected, atol=2e-3)


@pytest.mark.parametrize(
    ("values", "bins", "sentence"),
    [
        ([0.0, 0.0], None, "values must be positive, at least one of them"),
        (
            [1.0],
            np.array([0.0, 1.0]),
            "bins must be at least two numbers, positive",
        ),
        (
            [1.0],
            np.array([1.0, 1.0]),
            "bins must be at least two numbers, positive",
        ),
        ([np.nan], None, "values must be finite"),
    ],
)
def test_invalid_bins_are_rejected(values, bins, sentence):
    with pytest.raises(ValueError, match=sentence):
        bin_spectrum(values, bins)


def test_published_quantiles():
    # Bornemann (2010), and Table 2 of Johnstone (2001) to its four digits.
    assert_allclose(
        tracy_widom_quantile([0.05, 0.5, 0.95, 0.99]),
        [-3.1804, -1.2686, 0.9793, 2.0234],
        atol=6e-5,
    )


def test_mean_and_variance():
    # E X = ∫ P(X>x) dx − ∫ P(X<x) dx, E X² likewise, by Gauss–Legendre on [−10, 10].
    nodes, weights = np.polynomial.legendre.leggauss(60)
    x, w = 10 * nodes, 10 * weights
    above = tracy_widom_survival(x)
    mean = -10 + w @ above
    square = 100 + 2 * w @ (x * above)
    assert mean == pytest.approx(TRACY_WIDOM_MEAN, abs=1e-9)
    assert np.sqrt(square - mean**2) == pytest.approx(TRACY_WIDOM_STD, abs=1e-9)


def test_right_tail_keeps_its_relative_accuracy():
    # To first order in the tail P(X > x) is the trace ∫ Ai(2s+x) ds = ½ ∫_x^∞ Ai. mpmath:
    # quad(airyai, [x, x + 1/4, …, x + 10])/2 at x = 10, 20, 40
    golden = [1.70821586953e-11, 1.87590609948e-28, 5.01778451024e-76]
    assert_allclose(tracy_widom_survival([10.0, 20.0, 40.0]), golden, rtol=1e-9)


def test_extremes_and_shape():
    assert_allclose(tracy_widom_survival(np.array([[-50.0], [1e6]])), [[1.0], [0.0]])
    with pytest.raises(ValueError, match="q must be between 0 and 1"):
        tracy_widom_quantile(1.0)
