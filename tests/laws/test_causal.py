"""The law of causal matrices against 40-digit arithmetic, its own moments, and matrices."""

import math
from itertools import permutations

import mpmath as mp
import numpy as np
import pytest
from numpy.testing import assert_allclose

from attnlaw.laws import CausalLaw, MarchenkoPastur

POINTS = [5e-324, 1e-300, 1e-30, 1e-8, 0.01, 0.3, 0.38, 1.0, 3.0, 9.0, 20.0, 39.9, 40.1, 300.0]
PLACES = [1e-6 + 1e-9j, 0.3 + 0.01j, 2 + 1e-12j, 5 + 0.5j, 39 + 0.1j, 41 + 2j, -20 + 30j, 1e5j]


def exact_cdf(x):
    return mp.atan2(mp.pi, -mp.ei(mp.mpf(x))) / mp.pi


def exact_density(x):
    x = mp.mpf(x)
    return mp.exp(x) / (x * (mp.ei(x) ** 2 + mp.pi**2))


@pytest.fixture(autouse=True)
def _forty_digits():
    with mp.workdps(40):
        yield


@pytest.mark.parametrize("x", POINTS)
def test_cdf_and_density_have_their_digits(x):
    law = CausalLaw()
    assert_allclose(law.cdf(x), float(exact_cdf(x)), rtol=1e-14)
    if x > 1e-305:
        assert_allclose(law.density(x), float(exact_density(x)), rtol=1e-14)


@pytest.mark.parametrize("x", [1e-30, 1e-8, 0.3, 1.0, 3.0, 9.0])
def test_quantile_inverts_the_cdf(x):
    assert_allclose(CausalLaw().quantile(float(exact_cdf(x))), x, rtol=1e-12)


def test_cdf_is_the_integral_of_the_density():
    a, b = mp.mpf("0.05"), mp.mpf(4)
    expected = mp.quad(exact_density, [a, mp.mpf("0.3725"), 1, b])
    law = CausalLaw()
    assert_allclose(law.cdf(4.0) - law.cdf(0.05), float(expected), rtol=1e-13)


@pytest.mark.parametrize("z", [*PLACES, -0.5, -30.0, -50.0])
def test_stieltjes_transform_has_its_digits(z):
    exact = -1 - mp.exp(z) / (z * mp.e1(-mp.mpc(z)))
    assert_allclose(
        CausalLaw().stieltjes(z), complex(exact) if z.imag else float(exact.real), 1e-12
    )


def test_stieltjes_transform_is_that_of_the_density():
    z = mp.mpc(1, 2)
    # x = e^t spreads the mass near zero, and what is below e^-400 sits at 0
    inner = mp.quad(
        lambda t: exact_density(mp.exp(t)) * mp.exp(t) / (mp.exp(t) - z), [-400, -20, -3, 0, 2, 5]
    )
    exact = inner - exact_cdf(mp.exp(-400)) / z
    assert_allclose(CausalLaw().stieltjes(1 + 2j), complex(exact), rtol=1e-12)


def test_moments_count_indecomposable_permutations():
    def splits(p):
        return any(set(p[:k]) == set(range(k)) for k in range(1, len(p)))

    for k in range(7):
        counted = sum(not splits(p) for p in permutations(range(k + 1)))
        assert CausalLaw().moment(k) == counted
        assert_allclose(CausalLaw(2.5).moment(k), counted * 2.5**k)
    assert math.isfinite(CausalLaw().moment(168))
    with pytest.raises(ValueError, match="k must be at most 168, got 169"):
        CausalLaw().moment(169)


def test_scales_multiply():
    law = 3.0 * CausalLaw()
    assert law == CausalLaw(3.0)
    assert repr(law) == "3 * CausalLaw()"
    assert_allclose(law.cdf(6.0), CausalLaw().cdf(2.0), rtol=1e-15)
    assert_allclose(law.stieltjes(-3.0), CausalLaw().stieltjes(-1.0) / 3, rtol=1e-14)
    assert_allclose((law @ MarchenkoPastur(0.5)).moment(1), 3.0, rtol=0.02)


def test_every_quantile_is_possible():
    q = np.r_[0.0, np.geomspace(1e-300, 0.5, 200), 1 - np.geomspace(0.5, 1e-16, 200)]
    x = CausalLaw().quantile(q)
    assert (np.diff(x) >= 0).all()
    assert x[0] == 0
    assert x[1] > 0
    assert CausalLaw().quantile(1.0) == np.inf
    assert np.isfinite(x).all()


@pytest.mark.parametrize("scale", [0.0, -1.0, np.nan, [1.0, 2.0]])
def test_invalid_scale_is_rejected(scale):
    with pytest.raises(ValueError, match="scale must be"):
        CausalLaw(scale)


def triangle(n, rng):
    return np.tril(rng.standard_normal((n, n))) / np.sqrt(np.arange(1.0, n + 1))[:, None]


def distance_above_rounding(values, law):
    """Kolmogorov–Smirnov distance above 1e-20, where singular values have digits."""
    x = np.sort(np.ravel(values))
    upper = np.arange(1, x.size + 1) / x.size
    seen = x > 1e-20
    lower = upper - 1 / x.size
    return np.maximum(abs(upper - law.cdf(x)), abs(lower - law.cdf(x)))[seen].max()


def test_gaussian_triangles_converge_like_one_over_n():
    rng = np.random.default_rng(0)
    products = []
    for n, n_draws in (100, 40), (200, 20), (400, 10):
        values = [np.linalg.svd(triangle(n, rng), compute_uv=False) ** 2 for _ in range(n_draws)]
        products.append(n * distance_above_rounding(values, CausalLaw()))
        assert n * distance_above_rounding(values, CausalLaw(1.05)) > 2 * products[-1]
    assert max(products) < 2  # over other seeds 0.3 to 1.2, for the law scaled by 1.05 1.2 to 5


@pytest.mark.parametrize("n", [100, 300])
def test_largest_value_is_near_the_expected_one(n):
    rng = np.random.default_rng(n)
    top = np.array([np.linalg.norm(triangle(n, rng), 2) ** 2 for _ in range(40)])
    error = top.std() / top.size**0.5
    assert abs(top.mean() - CausalLaw().largest(n)) < 0.05 * top.mean() + 3 * error
