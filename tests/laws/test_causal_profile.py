"""Equations of causal profiles: the smoother against dense inverses, Newton, limits."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from attnlaw.laws import CausalLaw, CausalProfile, CausalProfileLaw
from attnlaw.laws.causal_profile import CausalEquations, token_bins


def profile(bins, latent=(7.0, np.inf), repeats=1, seed=0):
    rng = np.random.default_rng(seed)
    B, K = len(bins), len(latent)
    alpha, gamma = rng.uniform(0.5, 2.0, (2, K, B, 3))
    return CausalProfile(
        bins=np.asarray(bins, float),
        row_weights=np.array([0.2, 0.5, 0.3]),
        column_weights=np.array([0.4, 0.4, 0.2]),
        row_variances=alpha,
        column_variances=gamma,
        row_means=alpha,
        column_means=gamma,
        latent_dimensions=np.array(latent),
        repeats=repeats,
    )


def noise(n, scale=1.0):
    bins = token_bins(n)
    ones = np.ones((1, bins.size, 1))
    return CausalProfile(
        bins=bins,
        row_weights=np.ones(1),
        column_weights=np.ones(1),
        row_variances=scale * ones,
        column_variances=ones,
        row_means=scale * ones,
        column_means=ones,
        latent_dimensions=np.array([np.inf]),
    )


def test_smoother_is_the_diagonal_of_the_dense_inverse():
    n, N = 9, 7.0
    equations = CausalEquations(profile(np.ones(n), (N,)))
    rng = np.random.default_rng(1)
    R, C = rng.normal(size=(2, n)) + 1j * rng.uniform(0.1, 1, (2, n))
    ladders = equations._ladders(np.stack([R, C])[:, :, None, None])
    T, D = np.tri(n), np.diag(1 / np.arange(1.0, n + 1))
    walk = T @ np.diag(C) @ T.T
    rows = np.linalg.solve(np.eye(n) - walk @ D @ np.diag(R) / N, walk)
    assert_allclose(ladders.rows[:, 0, 0], np.diag(rows) * np.diag(D), rtol=1e-12)
    back = T.T @ D @ np.diag(R) @ T
    columns = np.linalg.solve(np.eye(n) - back @ np.diag(C) / N, back)
    assert_allclose(ladders.columns[:, 0, 0], np.diag(columns), rtol=1e-12)


def test_newton_step_solves_the_linearised_equations():
    equations = CausalEquations(profile([1, 1, 2, 3, 1], (5.0, np.inf)))
    w = np.array([0.7 + 0.2j, 0.1 + 0.4j])
    v = equations.start(w)
    step, residual = equations.newton(v, w)
    h = 1e-6
    forward = equations.iterate(v + h * step, w) - (v + h * step)
    backward = equations.iterate(v - h * step, w) - (v - h * step)
    assert_allclose((forward - backward) / (2 * h), -residual, rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("repeats", [1, 3])
def test_solution_is_the_fixed_point_in_the_upper_half_plane(repeats):
    equations = CausalEquations(profile(token_bins(20), (11.0, np.inf), repeats))
    w = np.array([0.01 + 0.001j, 0.5 + 0.01j, 1.5 + 0.3j, 2j, 40 + 0.1j, -0.3 + 0.2j])
    v = equations.solve(w)
    assert_allclose(equations.iterate(v, w), v, rtol=1e-7, atol=1e-12)
    assert (v.imag > 0).all()
    plain = -1 / w[None, :, None] * np.ones_like(v)
    for _ in range(1500):
        plain = 0.5 * (plain + equations.iterate(plain, w))
    assert_allclose(v, plain, rtol=1e-6)


def test_first_moment_is_the_mean_energy():
    law = CausalProfileLaw(profile(token_bins(50), (11.0, np.inf), repeats=2), 0.5)
    z = 1e4 * law.moment(1)
    slope = (1 - z * law.stieltjes(-z)) * z  # m(−z) = 1/z − m₁/z² + …
    assert_allclose(slope, law.moment(1), rtol=1e-3)


def test_noise_is_the_closed_form():
    law = CausalProfileLaw(noise(10**6, 2.0))
    x = np.array([1e-12, 1e-6, 1e-4, 0.01, 0.3, 1.0, 4.0, 10.0])
    assert_allclose(law.cdf(x), CausalLaw(2.0).cdf(x), atol=1.3e-3)
    z = np.array([-3.0 + 0j, -0.1 + 0j, 0.5 + 0.5j, 4 + 0.2j])
    assert_allclose(law.stieltjes(z), CausalLaw(2.0).stieltjes(z), rtol=2e-3)
    assert_allclose(law.moment(2), CausalLaw(2.0).moment(2), rtol=0.03)


def test_quantiles_invert_the_cdf():
    law = CausalProfileLaw(profile(token_bins(80)))
    q = np.array([0.01, 0.05, 0.2, 0.5, 0.9, 0.999])
    assert_allclose(law.cdf(law.quantile(q)), q, atol=1e-9)
    x = np.r_[0.0, np.geomspace(1e-300, 1e4, 2000)]
    assert (np.diff(law.cdf(x)) >= 0).all()
    assert (law.density(x) >= 0).all()
    assert law.cdf(1e9) == 1


def test_bins_hold_every_token():
    for n in (2, 3, 10, 137, 1000, 12345):
        assert token_bins(n).sum() == n
    assert token_bins(1000).max() == 25
