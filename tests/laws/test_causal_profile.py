"""Equations of causal profiles: the smoother against dense inverses, Newton, limits."""

from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.special import jn_zeros

from attnlaw.laws import CausalLaw, CausalProfile, CausalProfileLaw
from attnlaw.laws._engine.token_chain import TokenChain
from attnlaw.laws.causal_equations import CausalEquations, WindowEquations
from attnlaw.laws.causal_profile import token_bins


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


@pytest.mark.parametrize("slope", [0.0, 0.3])
def test_smoother_is_the_diagonal_of_the_dense_inverse(slope):
    n, N = 9, 7.0
    equations = CausalEquations(replace(profile(np.ones(n), (N,)), slope=slope))
    rng = np.random.default_rng(1)
    R, C = rng.normal(size=(2, n)) + 1j * rng.uniform(0.1, 1, (2, n))
    ladders = equations._ladders(np.stack([R, C])[:, :, None, None])
    lags = np.arange(n)[:, None] - np.arange(n)
    T = np.where(lags >= 0, np.exp(-slope * lags), 0.0)
    D = np.diag(1 / (T**2).sum(axis=1))
    walk = T @ np.diag(C) @ T.T
    rows = np.linalg.solve(np.eye(n) - walk @ D @ np.diag(R) / N, walk)
    assert_allclose(ladders.rows[:, 0, 0], np.diag(rows) * np.diag(D), rtol=1e-12)
    back = T.T @ D @ np.diag(R) @ T
    columns = np.linalg.solve(np.eye(n) - back @ np.diag(C) / N, back)
    assert_allclose(ladders.columns[:, 0, 0], np.diag(columns), rtol=1e-12)


@pytest.mark.parametrize("slope", [0.0, 1e-3, 0.3])
@pytest.mark.parametrize("size", [1e-6, 0.1, 1.0, 30.0])
def test_walk_through_a_bin_observes_each_of_its_tokens(slope, size):
    bins, N = [5, 1, 2, 30, 3], 3.0
    p = replace(profile(bins, (N,)), slope=slope)
    equations = CausalEquations(p)
    assert isinstance(equations.chain, TokenChain)
    rng = np.random.default_rng(1)
    R, C = size * (rng.normal(size=(2, 5)) + 1j * rng.uniform(0.1, 1, (2, 5)))
    ladders = equations._ladders(np.stack([R, C])[:, :, None, None])
    lags = np.arange(41)[:, None] - np.arange(41)
    T = np.where(lags >= 0, np.exp(-slope * lags), 0.0)
    D = np.diag(np.repeat(1 / p.sizes, bins))
    row, column = (np.diag(np.repeat(x, bins)) for x in (R, C))
    walk, back = T @ column @ T.T, T.T @ D @ row @ T
    starts = np.cumsum(bins) - bins
    for inverse, found in (
        (np.linalg.solve(np.eye(41) - walk @ D @ row / N, walk) @ D, ladders.rows),
        (np.linalg.solve(np.eye(41) - back @ column / N, back), ladders.columns),
    ):
        means = np.add.reduceat(np.diag(inverse), starts) / bins
        assert_allclose(found[:, 0, 0], means, rtol=1e-11)


@pytest.mark.parametrize("n_blocks", [2, 6, 7, 10])  # bins joined up to 6, eliminated from 7 on
@pytest.mark.parametrize("slope", [0.0, 0.3])
@pytest.mark.parametrize("least", [1.5, 8.0])  # dimensions, fewer than tokens in a bin or more
def test_newton_step_solves_the_linearised_equations(slope, n_blocks, least):
    dimensions = (*(least + np.arange(n_blocks - 1)), np.inf)
    equations = CausalEquations(replace(profile([1, 1, 2, 3, 1], dimensions), slope=slope))
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
    plain = -1 / w * np.ones_like(v)
    for _ in range(1500):
        plain = 0.5 * (plain + equations.iterate(plain, w))
    assert_allclose(v, plain, rtol=1e-6)


def test_first_order_below_is_the_derivative():
    equations = CausalEquations(profile(token_bins(20), (11.0, np.inf)))
    w = np.array([0.05 + 0.01j, 1.0 + 0.1j, 2.5 + 0.02j])
    v = equations.solve(w, tolerance=1e-9)
    step = 1e-4 * w
    rows = [
        equations.mean_rows(equations.solve(w + s, tolerance=1e-9), w + s) for s in (step, -step)
    ]
    changes = equations.mean_rows(v, w) - equations.mean_rows_below(v, w, step)
    assert_allclose(changes, 0.5 * (rows[0] - rows[1]), rtol=1e-3)
    # a wrong start is made up for, to the square of its error
    below = equations.mean_rows_below(1.001 * v, w, step)
    assert_allclose(below, rows[1], rtol=2e-5)
    assert np.abs(equations.mean_rows(1.001 * v, w - step) / rows[1] - 1).max() > 2e-4


def test_first_moment_is_the_mean_energy():
    law = CausalProfileLaw(profile(token_bins(50), (11.0, np.inf), repeats=2), 0.5)
    z = 1e4 * law.moment(1)
    slope = (1 - z * law.stieltjes(-z)) * z  # m(−z) = 1/z − m₁/z² + …
    assert_allclose(slope, law.moment(1), rtol=1e-3)


def exact_second_moment(p):
    """(1/n) E tr (YYᵀ)², by the three non-crossing pairings, for bins of one token each."""
    n = len(p.bins)
    i = np.arange(n)
    lags = i[:, None] - i
    M = np.where((lags >= 0) & (lags < p.window), np.exp(-p.slope * lags.clip(0)), 0.0)
    M /= np.sqrt((M**2).sum(axis=1, keepdims=True))
    alpha, gamma = p.row_variances @ p.row_weights, p.column_variances @ p.column_weights
    V = M**2 * np.einsum("ki,kj->ij", alpha, gamma)
    pairs = np.einsum("kia,lia,a->kli", p.row_variances, p.row_variances, p.row_weights)
    others = np.einsum("kja,lja,a->klj", p.column_variances, p.column_variances, p.column_weights)
    seen_rows, seen_columns = gamma @ (M**2).T, alpha @ M**2
    total = np.einsum("kli,ki,li->", pairs, seen_rows, seen_rows)
    total += np.einsum("klj,kj,lj->", others, seen_columns, seen_columns)
    for k, N in enumerate(p.latent_dimensions):
        S = (M * gamma[k]) @ M.T * alpha[k]
        total += np.trace(S @ S) / N
    return total / n, V.sum() / n


def test_pair_means_are_means_over_pairs():
    p = replace(profile([1, 1, 2, 3, 1]), slope=0.2, window=3.0)
    lags = np.arange(8)[:, None] - np.arange(8)
    f = np.where((lags >= 0) & (lags < 3), np.exp(-0.2 * lags), 0.0)
    ends = np.cumsum(p.bins).astype(int)
    parts = [slice(a, b) for a, b in zip(ends - p.bins.astype(int), ends, strict=True)]
    for power in (1, 2):
        exact = [[(f[a, b] ** power).mean() for b in parts] for a in parts]
        assert_allclose(p.pair_means(power), exact, atol=1e-14)


def test_dense_inverses_agree_with_the_smoother():
    p = profile(np.ones(25), (7.0, np.inf))
    w = np.array([0.05 + 0.001j, 0.5 + 0.01j, 1.5 + 0.1j, 3 + 0.01j])
    smoother, dense = CausalEquations(p), WindowEquations(p)
    v = smoother.solve(w, tolerance=1e-9)
    assert_allclose(dense.solve(w, tolerance=1e-7), v, rtol=1e-8, atol=1e-12)
    steps = [equations.newton(1.1 * v, w)[0] for equations in (smoother, dense)]
    assert_allclose(steps[0], steps[1], atol=5e-3 * np.abs(steps[0]).max())
    binned = profile(token_bins(300), (40.0, np.inf))
    laws = CausalProfileLaw(binned), CausalProfileLaw(binned)
    laws[1].__dict__["_equations"] = WindowEquations(binned)
    x = np.array([1e-3, 0.01, 0.1, 1.0, 5.0, 20.0])
    assert_allclose(laws[0].cdf(x), laws[1].cdf(x), atol=1e-3)


@pytest.mark.parametrize("more", [{}, {"slope": 0.15}, {"window": 6.0}])
def test_second_moment_is_exact(more):
    p = replace(profile(np.ones(30), (7.0, np.inf)), **more)
    second, first = exact_second_moment(p)
    law = CausalProfileLaw(p)
    assert_allclose(law.moment(1), first, rtol=1e-12)
    assert_allclose(law.moment(2), second, rtol=1e-6)
    # the table has it too, to what its points allow
    x = law.quantile((np.arange(20_000) + 0.5) / 20_000)
    assert_allclose(np.mean(x**2), second, rtol=0.01)


def test_noise_is_the_closed_form():
    law = CausalProfileLaw(noise(10**6, 2.0))
    x = np.array([1e-12, 1e-6, 1e-4, 0.01, 0.3, 1.0, 4.0, 10.0])
    assert_allclose(law.cdf(x), CausalLaw(2.0).cdf(x), atol=1.3e-3)
    z = np.array([-3.0 + 0j, -0.1 + 0j, 0.5 + 0.5j, 4 + 0.2j])
    assert_allclose(law.stieltjes(z), CausalLaw(2.0).stieltjes(z), rtol=2e-3)
    assert_allclose(law.moment(2), CausalLaw(2.0).moment(2), rtol=2e-3)


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
    assert token_bins(1000).max() == 20


def test_groups_of_singular_values_above_the_bulk_are_found():
    """A block of three dimensions over 900 tokens: three values far above all others."""
    n, N, noise = 900, 3, 0.05
    bins = token_bins(n)
    variances = np.array([1.0, noise])[:, None, None] * np.ones((1, bins.size, 1))
    ones = np.ones((2, bins.size, 1))
    law = CausalProfileLaw(
        CausalProfile(
            bins=bins,
            row_weights=np.ones(1),
            column_weights=np.ones(1),
            row_variances=variances,
            column_variances=ones,
            row_means=variances,
            column_means=ones,
            latent_dimensions=np.array([N, np.inf]),
        )
    )
    rng = np.random.default_rng(0)
    mask = np.tri(n) / np.sqrt(np.arange(1, n + 1))[:, None]
    drawn = []
    for _ in range(12):
        G, H = rng.standard_normal((2, n, N))
        Y = mask * (G @ H.T / N**0.5 + noise**0.5 * rng.standard_normal((n, n)))
        drawn.append(np.linalg.eigvalsh(Y @ Y.T)[::-1])
    x = np.array(drawn)
    u = (np.arange(300) + 0.5) / 300
    zeros = jn_zeros(0, 2)  # 4n/Nj² without noise, which is 5 % here
    for first, zero in zip((0, N), zeros, strict=True):  # the uppermost group and the next
        means = x[:, first : first + N].mean(axis=1)
        predicted = law.quantile(1 - (first + N * u) / n).mean()
        assert abs(predicted - means.mean()) < 4 * means.std(ddof=1) / len(x) ** 0.5
        assert 0 < predicted / (4 * n / N / zero**2) - 1 < noise
    assert x[:, N - 1].min() > 2 * x[:, N].max()
    squares = (x**2).mean(axis=1)
    assert abs(law.moment(2) - squares.mean()) < 4 * squares.std(ddof=1) / len(x) ** 0.5


def test_weak_blocks_are_noise():
    whole = profile(token_bins(200), (5.0, 40.0, 90.0, np.inf))
    scales = np.array([1.0, 1e-5, 1e-3, 1.0])[:, None, None]  # 1e-3 is felt, 1e-5 is not
    whole = replace(
        whole,
        row_variances=scales * whole.row_variances,
        row_means=scales * whole.row_means,
    )
    simple = whole.simplified
    assert simple.latent_dimensions.tolist() == [5.0, 90.0, np.inf]
    first, weak, second, noise = whole.energies
    assert_allclose(simple.energies, [first, second, noise + weak])
    exact, approximate = (
        CausalProfileLaw(replace(whole, counts=whole.bins)),
        CausalProfileLaw(whole),
    )
    exact.__dict__["_equations"] = CausalEquations(whole)
    assert approximate._equations.K == 3
    x = np.geomspace(0.01, 30, 40)
    assert np.abs(exact.cdf(x) - approximate.cdf(x)).max() < 1e-6
    assert_allclose(approximate.moment(2), exact.moment(2), rtol=1e-5)
