"""The parts of the finite-head laws: harmonics, quadrature, sums, modes, energies."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from scipy.special import chdtr

import attnlaw as al
from attnlaw.theory.attention.energies import energies, sum_of_copies
from attnlaw.theory.attention.kernel import (
    Kernel,
    gauss_rule,
    harmonic_coefficient,
    harmonic_dimension,
    norm_rule,
    zonal_polynomials,
)
from attnlaw.theory.attention.profiles import norms_profile, tokens_profile
from attnlaw.theory.attention.rows import finite_rows


def head(n=1000, d=64, beta=1.0, **more):
    return al.SelfAttention(n_tokens=n, head_dimension=d, inverse_temperature=beta, **more)


@given(st.integers(3, 300), st.floats(0.01, 2.0), st.floats(-1.0, 1.0))
def test_harmonics_add_up_to_the_exponential(d, beta, u):
    kappa = beta * d**0.5
    degree = 140
    P = zonal_polynomials(degree, d, np.array(u))
    terms = [
        harmonic_coefficient(k, np.array(kappa), d) * harmonic_dimension(d, k) * P[k]
        for k in range(degree + 1)
    ]
    scale = sum(abs(t) for t in terms)
    assert abs(sum(terms) - np.exp(kappa * u)) < 1e-11 * scale


@pytest.mark.parametrize("d", [3, 8, 64])
def test_zonal_polynomials_are_orthogonal_on_the_sphere(d):
    # Under the density (1−u²)^((d−3)/2), E P_k P_l = δ_kl/N_k.
    u, w = np.polynomial.legendre.leggauss(2000)
    w = w * (1 - u * u) ** ((d - 3) / 2)
    P = np.array(zonal_polynomials(5, d, u))
    gram = (P * w) @ P.T / w.sum()
    assert_allclose(gram, np.diag([1 / harmonic_dimension(d, k) for k in range(6)]), atol=1e-9)


@given(st.integers(1, 6), st.integers(0, 2**32 - 1))
def test_gauss_rule_matches_moments(n_nodes, seed):
    rng = np.random.default_rng(seed)
    x, w = rng.standard_normal(40), rng.random(40)
    nodes, weights = gauss_rule(x, w, n_nodes)
    for k in range(2 * n_nodes):
        assert_allclose(weights @ nodes**k, w @ x**k / w.sum(), rtol=1e-9, atol=1e-9)


def test_gauss_rule_of_few_points_is_exact():
    nodes, weights = gauss_rule(np.array([1.0, 2.0, 2.0]), np.array([1.0, 1.0, 2.0]), 5)
    assert_allclose(nodes, [1, 2])
    assert_allclose(weights, [0.25, 0.75])


@pytest.mark.parametrize("d", [3, 16, 5000])
def test_norms_have_the_moments_of_chi(d):
    r, w = norm_rule(d, 7)
    for k in (1, 2, 3):  # E r^{2k} = Π (1 + 2j/d)
        assert_allclose(w @ r ** (2 * k), np.prod(1 + 2 * np.arange(k) / d), rtol=1e-9)


def test_sum_of_squares_is_chi_squared():
    x = np.linspace(-7, 7, 2001)
    w = np.exp(-x * x / 2)
    n = 37
    sums = sum_of_copies((x**2)[None], w / w.sum(), np.abs(x)[None], n)
    F = np.cumsum(sums.masses[0])
    middle = 0.5 * (sums.values[1:] + sums.values[:-1])
    assert np.abs(F[:-1] - chdtr(n, middle)).max() < 0.03  # of a grid of 3 %
    assert_allclose(sums.masses[0] @ sums.values, n, rtol=1e-9)
    assert_allclose(sums.masses[0] @ sums.values**2, n**2 + 2 * n, rtol=0.005)
    assert_allclose(sums.marks.sum(), n * (w @ np.abs(x)) / w.sum(), rtol=1e-9)


@pytest.mark.parametrize("d", [8, 64, 500])
def test_modes_carry_all_of_the_energy(d):
    # E f² = E e^{β²r²}: all modes, the rest, degree 0 and the constant 1.
    kernel = Kernel(head(1000, d, 0.8))
    modes, rest = kernel.modes(0.004)
    w, r = kernel.weights, kernel.norms
    _, _, zero = kernel.key_norm_term()
    total = sum(mode.strength**2 for mode in modes) + w @ rest @ w + zero
    constant = w @ (kernel.coefficient(0, np.outer(r, r)) @ w / kernel.normaliser(r)) ** 2
    # The nodes stand for norms cut at 1/2n: compare under their own distribution.
    energy = w @ np.exp(0.64 * np.outer(r**2, 2 * np.ones(1)) / 2).ravel()
    assert_allclose(total + constant, energy, rtol=0.03 if d == 8 else 2e-3)


def test_mode_functions_extend_their_nodes():
    kernel = Kernel(head(1000, 32, 1.0))
    modes, _ = kernel.modes(0.004)
    assert [mode.degree for mode in modes][:2] == [1, 1]
    for mode in modes[:4]:
        root = mode.strength**0.5
        assert_allclose(kernel.left(mode, kernel.norms), root * mode.left, atol=1e-6)
        assert_allclose(kernel.right(mode, kernel.norms), root * mode.right, atol=1e-6)
        assert_allclose(kernel.weights @ mode.left**2, 1, rtol=1e-9)


def test_row_energies_are_those_of_drawn_rows():
    # A row given its query's norm is n independent entries: draw many, compare quantiles of
    # noise energy, in standard errors of the empirical distribution function.
    n, d, beta = 300, 64, 1.2
    kernel = Kernel(head(n, d, beta))
    modes, _ = kernel.modes(0.004)
    structure = [mode for mode in modes if mode.degree == 1]
    values, weights = energies(kernel, structure).rows[3]
    rng = np.random.default_rng(2)
    r = kernel.norms[3]
    m = 1500
    keys = rng.standard_normal((m, n))
    s = np.sqrt((keys**2 + rng.chisquare(d - 1, (m, n))) / d)
    u = keys / (s * d**0.5)
    e = np.exp(beta * r * keys - 0.5 * (beta * r) ** 2)
    known = kernel.coefficient(0, r * s) / kernel.normaliser(np.array(r))
    for mode in structure:
        left = kernel.left(mode, np.array([r]))[0]
        known += left * np.stack([kernel.right(mode, row) for row in s]) * u * d**0.5
    drawn = np.mean((e - known) ** 2, axis=1) / e.mean(axis=1) ** 2
    error = drawn.std(ddof=1) / m**0.5
    assert abs(drawn.mean() - weights @ values) < 5 * error
    inverse = 1 / drawn
    assert abs(inverse.mean() - weights @ (1 / values)) < 0.02 * inverse.mean()
    assert abs(inverse.mean() - 1 / (weights @ values)) > 0.1 * inverse.mean()  # the mean alone


def test_energy_of_tokens_is_less_than_that_of_norms():
    # Normalisers and the largest entry of a row limit each other.
    for n in (100, 1000):
        model = head(n, 64, 1.5)
        assert tokens_profile(model).profile.mean < norms_profile(model).profile.mean


@pytest.mark.parametrize("combination", ["concatenate", "mean"])
def test_heads_share_out_their_energy(combination):
    one = norms_profile(head(500, 64, 1.0)).profile.mean
    five = norms_profile(head(500, 64, 1.0, n_heads=5, combination=combination)).profile.mean
    assert_allclose(five, one * 5 if combination == "concatenate" else one / 5, rtol=0.01)
    heavy = tokens_profile(head(500, 64, 1.0, n_heads=5, combination=combination)).profile.mean
    assert_allclose(heavy, five, rtol=0.05)


@pytest.mark.parametrize("beta", [0.01, 0.03, 0.1])
def test_rows_of_a_cool_head_are_linear_and_quadratic(beta):
    # To lowest order a row is β(x_j − mean): its energy is β²(1 − 1/n), all of it linear, and what
    # is left is β⁴/2. Without the factor i/(i − 1) of a centred row, β²/n was taken for noise.
    n = 300
    kernel = Kernel(head(n, 64, beta))
    modes, rest = kernel.modes(0.004)
    blocks, noise, _ = finite_rows(kernel, modes, rest @ kernel.weights, np.array([float(n)]))
    energies = np.array([m.strength for m in modes]) * (blocks[:, 0] @ kernel.weights)
    linear = sum(e for e, m in zip(energies, modes, strict=True) if m.degree == 1)
    quadratic = sum(e for e, m in zip(energies, modes, strict=True) if m.degree == 2)
    assert_allclose(linear, beta**2 * (1 - 1 / n), rtol=beta**2)
    assert_allclose(quadratic, beta**4 / 2, rtol=0.01)
    assert float(noise[0] @ kernel.weights) < 0.01 * quadratic
