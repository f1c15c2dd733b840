"""Spike → outlier → overlap: each formula against a second derivation.

The second ways: the laws' own edges and Stieltjes transforms (made by free convolution, they know
nothing of outliers), the general bisection against the closed forms of white noise, derivatives
by complex steps, and the papers' formulas as printed.
"""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose

from attnlaw.laws import Discrete, MarchenkoPastur
from attnlaw.laws.outliers import (
    Poles,
    SpikedCovariance,
    falling_root,
    white_edge_parameter,
    white_eigenvalue,
    white_overlap,
    white_population_overlap,
)

ratio = st.floats(0.01, 5)
SPECTRUM, WEIGHTS = [0.5, 1.0, 3.0], [0.2, 0.5, 0.3]
NOISE = Poles.of_spectrum(SPECTRUM, WEIGHTS)
SCALES, SHARES = np.array([0.3, 0.8, 2.0]), np.array([0.5, 0.3, 0.2])


def compound_law(c):
    """⊞_k q_k s_k MP_{c/q_k}, by the algebra of laws."""
    parts = [q * s * MarchenkoPastur(c / q) for s, q in zip(SCALES, SHARES, strict=True)]
    return parts[0] + parts[1] + parts[2]


@given(delta=ratio, gamma=ratio)
def test_edge_of_white_noise_is_that_of_the_general_search(delta, gamma):
    white = Poles.of_spectrum([1.0])
    low, high = np.array(1e-6), np.array(100.0)
    searched = white.edge_between(low, high, delta, gamma)
    t = white_edge_parameter(np.array(delta), np.array(gamma))
    assert_allclose(searched, t, rtol=1e-7)  # a minimum is known to half the digits
    assert_allclose(t**3 - (delta + gamma + delta * gamma) * t, 2 * delta * gamma, rtol=1e-12)
    assert_allclose(white.edge_offset(delta, gamma), t, rtol=1e-14)
    assert_allclose(
        white.eigenvalue(searched, delta, gamma), white_eigenvalue(t, delta, gamma), rtol=1e-13
    )


@given(delta=ratio, gamma=ratio, excess=st.floats(1e-3, 50))
def test_overlaps_of_white_noise_are_slopes_of_the_curve(delta, gamma, excess):
    white = Poles.of_spectrum([1.0])
    t = white.edge_offset(delta, gamma) * (1 + excess)
    # ℓ' is the overlap of an additive spike, (log λ)'/(log ℓ)' that of sample and population.
    slope = white.log_slope(t, delta)
    population = white.eigenvalue(t, delta) * slope
    sample = white.log_slope(t, delta, gamma) / slope
    assert_allclose(white_population_overlap(t, np.array(delta)), population, rtol=1e-10)
    t_star = white_edge_parameter(np.array(delta), np.array(gamma))
    zeta = white_overlap(t, t_star, np.array(delta), np.array(gamma))
    assert_allclose(zeta, population * sample, rtol=1e-8, atol=1e-12)
    printed = 1 - gamma * (t + 1) * (t + delta) / ((t + gamma) * (t**2 - delta))
    assert_allclose(sample, printed, rtol=1e-8, atol=1e-10)


@pytest.mark.parametrize("ratios", [(0.3,), (0.5, 0.4), (2.0, 0.7), (0.2, 0.3, 0.4)])
def test_edge_of_a_spectrum_is_that_of_the_law(ratios):
    law = Discrete(SPECTRUM, WEIGHTS)
    for c in ratios:
        law = law @ MarchenkoPastur(c)
    edge = NOISE.edge_offset(*ratios)
    assert_allclose(NOISE.eigenvalue(edge, *ratios), law.edges[-1], rtol=1e-12)


@pytest.mark.parametrize(("c", "other"), [(0.1, 0.4), (0.6, 0.0), (3.0, 0.5)])
def test_compound_poisson_is_its_law_right_of_the_bulk(c, other):
    curve = Poles.compound_poisson(SCALES, SHARES, c)
    law = compound_law(c) @ MarchenkoPastur(other)
    edge = curve.edge_offset(1.0, other)
    assert_allclose(curve.eigenvalue(edge, 1.0, other), law.edges[-1], rtol=1e-10)
    offset = edge * np.array([1.5, 3.0, 40.0])
    # Without the other factor the Cauchy transform is 1/u, so that 1 = ρ G(ℓ) at u = ρ.
    ell = curve.eigenvalue(offset, 1.0)
    assert_allclose(-compound_law(c).stieltjes(ell), 1 / curve.u(offset), rtol=1e-10)
    # y = zG − 1 is the same before and after a multiplicative factor.
    lam = curve.eigenvalue(offset, 1.0, other)
    assert_allclose(-lam * law.stieltjes(lam) - 1, curve.y(offset), rtol=1e-8)


def test_overlap_with_an_additive_spike_is_the_slope_of_the_population_curve():
    c, curve = 0.6, Poles.compound_poisson(SCALES, SHARES, 0.6)
    offset = curve.edge_offset(1.0) * np.array([1.5, 4.0])
    ell = curve.eigenvalue(offset, 1.0)
    g = -compound_law(c).stieltjes(ell + 0j)
    slope = -compound_law(c).stieltjes(ell + 1e-7j).imag / 1e-7  # G'(ℓ), up to O(1e-14)
    overlap = curve.eigenvalue(offset, 1.0) * curve.log_slope(offset, 1.0)
    assert_allclose(g.real**2 / -slope, overlap, rtol=1e-6)


def test_log_slope_and_edge_scale_are_derivatives():
    ratios, h = (0.5, 0.4), 1e-4
    edge = NOISE.edge_offset(*ratios)
    offset = 3 * edge
    up, down = (np.log(NOISE.eigenvalue(offset + s * h, *ratios)) for s in (1, -1))
    assert_allclose(NOISE.log_slope(offset, *ratios), (up - down) / (2 * h), rtol=1e-7)
    lam = [NOISE.eigenvalue(edge + s * h, *ratios) for s in (-1, 0, 1)]
    bend = (lam[0] - 2 * lam[1] + lam[2]) / h**2 / NOISE.y_slope(edge) ** 2  # λ''(y*)
    wanted = (bend * lam[1] ** 2 / 2) ** (1 / 3)
    assert_allclose(NOISE.edge_scale(edge, *ratios), wanted, rtol=1e-5)
    law = Discrete(SPECTRUM, WEIGHTS) @ MarchenkoPastur(0.5) @ MarchenkoPastur(0.4)
    step = 1e-6 * law.edges[-1]  # density (1/π) ϖ^{3/2} √(λ₊−x), and the scale is 1/ϖ
    varpi = (np.pi * law.density(law.edges[-1] - step) / np.sqrt(step)) ** (2 / 3)
    assert_allclose(NOISE.edge_scale(edge, *ratios), 1 / varpi, rtol=1e-4)


def test_equal_eigenvalues_are_joined():
    spectrum = Poles.of_spectrum([2.0, 1.0, 2.0, 2.0])
    assert spectrum.poles.tolist() == [1.0, 2.0]
    assert spectrum.residues.tolist() == [0.25, 1.5]


def test_falling_root_without_a_change_of_sign_is_the_nearer_end():
    low, high = np.ones(3), np.full(3, 8.0)
    found = falling_root(lambda x: np.array([2.0, -1.0, 99.0]) - x, low, high)
    assert_allclose(found, [2.0, 1.0, 8.0], rtol=1e-15)


def test_spiked_covariance_is_solved_exactly():
    rng = np.random.default_rng(4)
    A = rng.standard_normal((30, 30))
    sigma, u = A @ A.T / 30, np.eye(30)[0]
    values, vectors = np.linalg.eigh(sigma)
    spiked = SpikedCovariance(variances=values, shares=(vectors.T @ u) ** 2)
    for strength in (3.0, 0.4, 0.0, -0.4):
        top = np.linalg.eigh(sigma + strength * np.outer(u, u))[1][:, -1]
        assert_allclose(spiked.squared_overlap(strength, np.inf), top[0] ** 2, rtol=1e-6)
