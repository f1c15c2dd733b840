"""Laws of variance profiles against laws in closed form, and what every law must keep."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose

import attnlaw as al
from attnlaw.laws import FreeProfile, ProfileLaw, VarianceProfile
from attnlaw.laws.profile import Descent, Equations


def profile(*blocks, **more):
    """Rows and columns of one kind each; blocks are (variance, ratio)."""
    one = np.ones(1)
    variances, ratios = np.array(blocks, dtype=float).T
    return VarianceProfile(
        row_weights=one,
        column_weights=one,
        row_variances=variances[:, None],
        column_variances=np.ones((len(ratios), 1)),
        ratios=ratios,
        **more,
    )


def chain(*blocks, heads=1, factors=()):
    """Return the same by free convolutions: h (⊞ v MP_{ρ/h}) ⊠ MP_{1/h} ⊠ MP_c …"""
    law = sum(v * al.MarchenkoPastur(rho / heads) for v, rho in blocks) @ al.MarchenkoPastur(
        1 / heads
    )
    for c in factors:
        law = law @ al.MarchenkoPastur(c)
    return heads * law


CASES = [
    ([(1.0, 0.0)], 1, ()),
    ([(1.0, 0.5)], 1, ()),
    ([(1.0, 2.0)], 1, ()),  # an atom at 0
    ([(1.0, 1.0), (0.7, 0.0)], 1, ()),
    ([(1.0, 40.0), (0.7, 0.0)], 1, ()),  # a gap
    ([(1.0, 15.0), (0.5, 0.5), (0.2, 0.02)], 1, ()),
    ([(1.0, 2.0), (0.7, 0.0)], 3, ()),
    ([(1.0, 1.0), (0.7, 0.0)], 1, (2.0,)),
    ([(1.0, 1.0), (0.7, 0.0)], 4, (0.5, 1.7)),
]


@pytest.mark.parametrize(("blocks", "heads", "factors"), CASES)
def test_profile_of_equal_rows_is_a_free_convolution(blocks, heads, factors):
    law = ProfileLaw(profile(*blocks, repeats=heads, factors=factors))
    exact = chain(*blocks, heads=heads, factors=factors)
    assert_allclose(law.edges, exact.edges, rtol=2e-7, atol=1e-12 * exact.edges[-1])
    assert_allclose(law.atom.mass, exact.atom.mass, rtol=1e-12)
    x = np.linspace(0.0, 1.05, 101)[1:] * exact.edges[-1]
    assert_allclose(law.cdf(x), exact.cdf(x), atol=1e-6)
    inside = x[exact.density(x) > 1e-3]
    assert_allclose(law.density(inside), exact.density(inside), rtol=2e-4)
    z = np.array([-0.5, -2.0 + 1.0j, 0.3 + 0.1j, 3.0 - 0.2j])
    assert_allclose(law.stieltjes(z), exact.stieltjes(z), rtol=1e-9)
    for k in (0, 1, 2, 3):
        assert_allclose(law.moment(k), exact.moment(k), rtol=1e-6)


def random_profile(rng, n_kinds=4, n_blocks=3, **more):
    weights = rng.dirichlet(np.ones(n_kinds), size=2)
    return VarianceProfile(
        row_weights=weights[0],
        column_weights=weights[1],
        row_variances=rng.uniform(0.2, 2.0, (n_blocks, n_kinds)),
        column_variances=rng.uniform(0.2, 2.0, (n_blocks, n_kinds)),
        ratios=np.array([*rng.uniform(0.1, 5.0, n_blocks - 1), 0.0]),
        **more,
    )


@settings(max_examples=15)
@given(st.integers(0, 2**32 - 1), st.sampled_from([1, 3]))
def test_rows_and_columns_know_the_same_law(seed, heads):
    equations = Equations(random_profile(np.random.default_rng(seed), repeats=heads))
    v, _ = Descent(equations).solve(np.array([0.3 + 0.1j, 1.0 + 0.01j, 3.0 + 0.0j]))
    R, _ = equations.resolvents(v)
    by_rows = -1 - v[:, -1] * (R @ equations.wr)
    assert_allclose(equations.moment_function(v), by_rows, rtol=1e-9)


@settings(max_examples=5)
@given(st.integers(0, 2**32 - 1))
def test_mass_moments_and_quantiles_agree(seed):
    law = ProfileLaw(random_profile(np.random.default_rng(seed)))
    assert_allclose(sum(piece.mass for piece in law._pieces), 1.0, atol=1e-6)
    q = np.linspace(0.05, 0.95, 7)
    assert_allclose(law.cdf(law.quantile(q)), q, atol=1e-9)
    grid = law.quantile((np.arange(4000) + 0.5) / 4000)
    assert_allclose(grid.mean(), law.moment(1), rtol=2e-3)
    z = -0.7
    assert_allclose(np.mean(1 / (grid - z)), law.stieltjes(z), rtol=2e-3)


def two_kinds(values, ratio, **more):
    """One block, or noise for ratio 0, with two kinds of rows and of columns."""
    return VarianceProfile(
        row_weights=np.array([0.3, 0.7]),
        column_weights=np.array([0.3, 0.7]),
        row_variances=np.array([values]),
        column_variances=np.array([values]),
        ratios=np.array([ratio]),
        **more,
    )


@pytest.mark.parametrize("heads", [1, 3])
def test_additive_convolution_with_equal_rows_is_a_profile(heads):
    second = profile((0.7, 0.0), repeats=heads)
    law = ProfileLaw(FreeProfile(two_kinds([0.5, 1.2], 2.0, repeats=heads), second, (0.5,)))
    both = VarianceProfile(
        row_weights=np.array([0.3, 0.7]),
        column_weights=np.array([0.3, 0.7]),
        row_variances=np.array([[0.5, 1.2], [0.7, 0.7]]),
        column_variances=np.array([[0.5, 1.2], [1.0, 1.0]]),
        ratios=np.array([2.0, 0.0]),
        repeats=heads,
        factors=(0.5,),
    )
    exact = ProfileLaw(both)
    z = np.array([-0.5, -2.0 + 1.0j, 0.3 + 0.1j, 3.0 - 0.2j])
    assert_allclose(law.stieltjes(z), exact.stieltjes(z), rtol=1e-9)
    assert_allclose(law.edges, exact.edges, rtol=1e-7, atol=1e-10)
    x = np.linspace(0.1, 0.9, 7) * exact.edges[-1]
    assert_allclose(law.cdf(x), exact.cdf(x), atol=1e-6)


def test_additive_convolution_of_drawn_matrices_has_the_predicted_moments():
    # Noise with unequal rows and columns in one basis and in another, turned at random. If the
    # bases were the same, the third moment would be off by far.
    n, draws = 300, 12
    rng = np.random.default_rng(0)
    values = np.array([0.2, 2.0])
    sizes = np.repeat(values, [90, 210])
    noise = two_kinds([0.2, 2.0], 0.0)
    law = ProfileLaw(FreeProfile(noise, noise))
    found = []
    for _ in range(draws):
        first, last = (np.linalg.qr(rng.standard_normal((n, n)))[0] for _ in range(2))
        parts = [np.sqrt(np.outer(sizes, sizes) / n) * rng.standard_normal((n, n)) for _ in "12"]
        Y = parts[0] + first @ parts[1] @ last.T
        gram = Y @ Y.T
        found.append([np.trace(gram), np.sum(gram**2), np.sum((gram @ gram) * gram)])
    found = np.array(found) / n
    error = found.std(axis=0, ddof=1) / draws**0.5
    predicted = np.array([law.moment(k) for k in (1, 2, 3)])
    # moments of order k have a bias of order k²/n at finite n besides
    assert (np.abs(found.mean(axis=0) - predicted) < 5 * error + predicted / n * [0, 2, 6]).all()
    together = ProfileLaw(
        VarianceProfile(
            row_weights=noise.row_weights,
            column_weights=noise.column_weights,
            row_variances=np.repeat(noise.row_variances, 2, axis=0),
            column_variances=np.repeat(noise.column_variances, 2, axis=0),
            ratios=np.zeros(2),
        )
    )
    assert abs(found[:, 2].mean() - together.moment(3)) > 20 * error[2]


def test_law_of_a_drawn_matrix_has_the_predicted_moments():
    # z of the second and third moments of YYᵀ over draws; leaving out one block fails by far.
    rng = np.random.default_rng(5)
    law = ProfileLaw(random_profile(np.random.default_rng(1)))
    p, n = law.profile, 400
    kinds_r = np.repeat(
        np.arange(4), np.diff(np.rint(np.cumsum([0, *p.row_weights]) * n).astype(int))
    )
    kinds_c = np.repeat(
        np.arange(4), np.diff(np.rint(np.cumsum([0, *p.column_weights]) * n).astype(int))
    )
    found = []
    for _ in range(12):
        Y = np.zeros((n, n))
        for alpha, gamma, rho in zip(p.row_variances, p.column_variances, p.ratios, strict=True):
            if rho:
                N = round(n / rho)
                block = rng.standard_normal((n, N)) @ rng.standard_normal((N, n)) / N**0.5
            else:
                block = rng.standard_normal((n, n))
            Y += np.sqrt(alpha[kinds_r])[:, None] * block * np.sqrt(gamma[kinds_c]) / n**0.5
        gram = Y @ Y.T
        found.append([np.trace(gram), np.sum(gram**2), np.sum((gram @ gram) * gram)])
    found = np.array(found) / n
    z = (found.mean(axis=0) - [law.moment(k) for k in (1, 2, 3)]) / (
        found.std(axis=0, ddof=1) / 12**0.5
    )
    assert np.abs(z).max() < 5, z
    without = random_profile(np.random.default_rng(1))
    without = VarianceProfile(**{**vars(without), "ratios": np.zeros(3)})  # all of it noise
    wrong = (found[:, 1].mean() - ProfileLaw(without).moment(2)) / (
        found[:, 1].std(ddof=1) / 12**0.5
    )
    assert abs(wrong) > 20


def test_algebra_goes_through_quantiles():
    law = ProfileLaw(profile((1.0, 1.0), (0.7, 0.0)))
    exact = chain((1.0, 1.0), (0.7, 0.0))
    x = np.array([0.5, 2.0, 6.0])
    assert_allclose((3 * law).cdf(3 * x), law.cdf(x), rtol=1e-12)
    assert_allclose((law * np.float64(0.5)).edges, 0.5 * law.edges, rtol=1e-12)
    product, wanted = law @ al.MarchenkoPastur(0.5), exact @ al.MarchenkoPastur(0.5)
    assert_allclose(product.cdf(x), wanted.cdf(x), atol=3e-3)


def test_smoothing_keeps_the_law_and_has_no_gaps():
    blocks = [(1.0, 40.0), (0.7, 0.0)]
    sharp, smooth = ProfileLaw(profile(*blocks)), ProfileLaw(profile(*blocks), smoothing=0.01)
    x = np.linspace(0.1, 60, 50)
    assert_allclose(smooth.cdf(x), sharp.cdf(x), atol=2e-3)
    assert len(smooth.support) == 1
    assert len(sharp.support) == 2
    assert smooth.density(np.array([10.0]))[0] < 1e-4  # the gap


def test_representation_says_what_it_is():
    law = 0.5 * ProfileLaw(profile((1.0, 1.0), (0.7, 0.0)))
    assert repr(law) == "0.5 * ProfileLaw(1 × 1, 2 blocks)"
    assert law == law * 1.0
    assert hash(law) == hash(law * 1.0)
    assert law != al.MarchenkoPastur(1.0)


@pytest.mark.parametrize("ratio", [40.0, 700.0, 3000.0, 50_000.0])
def test_groups_of_a_block_with_few_dimensions_are_found(ratio):
    """N = n/ρ values at ρ times the energy, narrow and far above the noise."""
    one, noise = np.ones(1), 1e-3
    law = ProfileLaw(
        VarianceProfile(
            row_weights=one,
            column_weights=one,
            row_variances=np.array([[1.0], [noise]]),
            column_variances=np.ones((2, 1)),
            ratios=np.array([ratio, 0.0]),
        ),
        smoothing=0.01,
    )
    tail = (np.arange(500) + 0.5) / 500 / ratio
    group = law.quantile(1 - 0.999 * tail)
    assert_allclose(group.mean(), ratio, rtol=0.02)
    assert group.std() < 3 * ratio * (2 / ratio) ** 0.5 + 0.05 * ratio  # of G Hᵀ, and smoothed
    assert law.quantile(1 - 1.1 / ratio) < 10 * noise
    # by three pairings, without noise; a table may miss 3 % of the energy
    assert_allclose(law.moment(2), ratio + 2, rtol=0.03)
