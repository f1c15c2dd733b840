"""MP⊠MP in closed form, against 40-digit arithmetic and other derivations of its edges."""

import itertools

import mpmath
import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from attnlaw.laws import Discrete, MarchenkoPastur
from attnlaw.laws._engine.free import FreeLaw
from attnlaw.laws._engine.support import intervals
from attnlaw.laws.classical import critical_points

RATIOS = [1e-6, 1e-3, 0.2, 0.5, 1.0, 1.5, 10.0]
PAIRS = list(itertools.combinations_with_replacement(RATIOS, 2))


def product(delta, gamma):
    return MarchenkoPastur(delta) @ MarchenkoPastur(gamma)


def test_golden_numbers_of_density_and_edges():
    # 40-digit arithmetic: mpmath.polyroots of the cubic, and z(t*)
    law = product(0.5, 0.4)
    expected = [0.5416954005070845, 0.3046501435455319, 0.1473338916254338]
    assert_allclose(law.density([0.5, 1, 2]), expected, rtol=1e-15)
    assert_allclose(law.edges[0], 0.0389081946389, rtol=1e-11)
    rows = [
        (0.5, 0.4, 1.197508593128857, 4.155549781792287),
        (0.4, 0.2, 0.9236974064147288, 3.353632019183849),
        (1.5, 0.5, 1.883217741926352, 6.554959921103536),
    ]
    for delta, gamma, t, right in rows:
        assert_allclose(float(critical_points(delta, gamma)[0]), t, rtol=1e-15)
        assert_allclose(product(delta, gamma).edges[-1], right, rtol=1e-15)
    assert product(1, 1).edges.tolist() == [0.0, 6.75]


def test_left_edge_keeps_its_digits_where_two_of_the_sizes_all_but_agree():
    # 400-digit arithmetic: the second of the sorted z(t) over mpmath.polyroots of t³ − bt − 2δγ
    rows = [
        (1 + 1e-3, 1.0, 1.4795083653201776e-10),
        (1 + 1e-9, 1.0, 1.4814818472411848e-28),
        (1 + 1e-12, 1.0, 1.4818766303056778e-37),
        (1 + 1e-9, 1 + 3e-9, 2.1126117081945595e-27),
        (0.5, 0.5 + 1e-11, 0.02835013638960813),
    ]
    for delta, gamma, left in rows:
        assert_allclose(product(delta, gamma).edges[0], left, rtol=1e-15)


@pytest.mark.parametrize(("delta", "gamma"), PAIRS)
def test_density_has_twelve_digits_up_to_the_edges(delta, gamma, product_density):
    law = product(delta, gamma)
    low, high = law.edges
    share = np.array([1e-8, 1e-6, 1e-3, 0.05, 0.3])
    near_left = low * (1 + np.array([2e-7, 2e-6, 2e-4]))
    near_right = high * (1 - np.array([2e-7, 2e-6, 2e-4]))
    x = np.concatenate([low + (high - low) * share, high - (high - low) * share])
    x = np.concatenate([x, near_left, near_right, [0.5 * (low + high)]])
    x = x[(x > low) & (x < high)]
    exact = np.array([float(product_density(delta, gamma, v)) for v in x])
    # The edges are known to 32 digits, so that not even there precision is lost.
    assert_allclose(law.density(x), exact, rtol=3e-14)


def test_density_of_a_scaled_law_keeps_its_digits(product_density):
    for scale in (0.05, 1 / 3, 7e4):
        law = scale * product(0.3, 1.7)
        low, high = law.edges
        x = np.array([low * (1 + 1e-9), low * (1 + 1e-5), 0.3 * high, high * (1 - 1e-9)])
        exact = np.array([float(product_density(0.3, 1.7, v, scale)) for v in x])
        assert_allclose(law.density(x), exact, rtol=1e-14)
        assert_allclose((-law).density(-x), exact, rtol=1e-14)


def trigonometric_edges(delta, gamma):
    """P1's closed form: Viète's solution of the discriminant cubic in x, at 40 digits."""
    with mpmath.workdps(60):
        a, b, c, d = discriminant(delta, gamma)
        p = (3 * a * c - b * b) / (3 * a * a)
        q = (2 * b**3 - 9 * a * b * c + 27 * a * a * d) / (27 * a**3)
        angle = mpmath.acos(3 * q / (2 * p) * mpmath.sqrt(-3 / p))
        third = 2 * mpmath.pi / 3
        roots = [
            2 * mpmath.sqrt(-p / 3) * mpmath.cos(angle / 3 - third * k) - b / (3 * a)
            for k in range(3)
        ]
        return np.sort([float(mpmath.re(r)) for r in roots])[1:]


def discriminant(delta, gamma):
    """Coefficients of Q, whose roots are the edges (and λ₃ ≤ 0): docs/theory/bulk.md, "Edges"."""
    d, g = mpmath.mpf(delta), mpmath.mpf(gamma)
    s, p = d + g, d * g
    linear = p**2 * s + 10 * p**2 - 4 * p * s**2 - p * s - 6 * p + s**3 + s**2
    constant = (s**2 - 4 * p) * (1 - s + p) ** 2
    return 4 * p, p**2 - 10 * p * s - 12 * p + s**2, -2 * linear, constant


def discriminant_edges(delta, gamma):
    with mpmath.workdps(60):
        roots = mpmath.polyroots(discriminant(delta, gamma), maxsteps=500, extraprec=600)
        return np.sort([float(mpmath.re(r)) for r in roots])[1:]


@pytest.mark.parametrize(("delta", "gamma"), PAIRS)
def test_edges_agree_in_four_independent_ways(delta, gamma):
    law = product(delta, gamma)
    size = law.edges[-1]
    assert_allclose(law.edges, trigonometric_edges(delta, gamma), rtol=1e-12, atol=1e-16 * size)
    assert_allclose(law.edges, discriminant_edges(delta, gamma), rtol=1e-12, atol=1e-16 * size)
    by_gaps = intervals(law._expression)[-1]
    assert_allclose(law.edges, by_gaps, rtol=1e-12, atol=1e-15 * size)


@pytest.mark.parametrize(("delta", "gamma"), PAIRS)
def test_mass_is_one_and_moments_follow(delta, gamma, expect):
    law = product(delta, gamma)
    # A hard edge x^(−2/3) or x^(−1/2) needs a quadrature that goes closer to it.
    powers = expect(law, lambda x: x ** np.arange(3)[:, None], power=9)
    assert_allclose(powers, [1, 1, 1 + delta + gamma], rtol=1e-10)
    assert_allclose([law.moment(1), law.moment(2)], [1, 1 + delta + gamma], rtol=1e-14)
    # Third free-product moment, from κ₃: 1 + 3(δ+γ) + δ² + γ² + 3δγ
    third = 1 + 3 * (delta + gamma) + delta**2 + gamma**2 + 3 * delta * gamma
    assert_allclose(law.moment(3), third, rtol=1e-13)


@pytest.mark.parametrize(("delta", "gamma"), PAIRS)
def test_cdf_is_the_integral_of_the_density(delta, gamma):
    law = product(delta, gamma)
    low, high = law.edges
    ends = np.linspace(low, high, 6)
    nodes, weights = np.polynomial.legendre.leggauss(200)
    for a, b in itertools.pairwise(ends[1:-1]):
        x = 0.5 * (a + b) + 0.5 * (b - a) * nodes
        mass = 0.5 * (b - a) * (weights @ law.density(x))
        assert_allclose(law.cdf(b) - law.cdf(a), mass, rtol=1e-12, atol=1e-12)
    assert law.cdf(high) == 1
    assert_allclose(law.cdf(low), law.atom.mass.sum(), atol=1e-15)


@pytest.mark.parametrize("other", [0.0, 1e-6, 0.4, 1.0, 3.0])
def test_a_vanishing_ratio_is_a_point_mass(other):
    # MP_0 is the point mass at 1, and 1e-9 must already agree with it to 1e-6
    limit, near = product(0.0, other), product(1e-9, other)
    assert limit == MarchenkoPastur(other)
    assert_allclose(near.moment(4), limit.moment(4), rtol=1e-6)
    if other > 1e-3:  # otherwise the law itself is as narrow as 1e-9 is wide
        assert_allclose(near.edges[-1], limit.edges[-1], rtol=1e-6)
        x = np.linspace(*limit.edges, 52)[1:-1]
        assert_allclose(near.density(x), limit.density(x), rtol=1e-6)
        assert_allclose(near.cdf(x), limit.cdf(x), rtol=1e-6)
        q = np.linspace(0.8, 0.99, 7)
        assert_allclose(near.quantile(q), limit.quantile(q), rtol=1e-6)
        assert_allclose(near.stieltjes(1 + 0.3j), limit.stieltjes(1 + 0.3j), rtol=1e-6)


def test_order_and_scale_do_not_matter():
    law = 0.05 * (MarchenkoPastur(0.5) @ MarchenkoPastur(0.4))
    for same in (
        MarchenkoPastur(0.4) @ (0.05 * MarchenkoPastur(0.5)),
        (0.5 * MarchenkoPastur(0.4)) @ (0.1 * MarchenkoPastur(0.5)),
        Discrete([0.05]) @ MarchenkoPastur(0.5) @ MarchenkoPastur(0.4),
    ):
        assert same == law
        assert type(same) is type(law)
        assert hash(same) == hash(law)


@pytest.mark.parametrize(("delta", "gamma"), [(0.5, 0.4), (1e-6, 0.3), (1, 1), (2, 2), (3, 0.5)])
def test_closed_form_agrees_with_the_general_engine(delta, gamma):
    law = product(delta, gamma)
    general = FreeLaw(law._expression)
    low, high = law.edges
    x = low + (high - low) * np.linspace(0, 1, 103)[1:-1]
    assert_allclose(general.density(x), law.density(x), rtol=1e-11)
    assert_allclose(general.cdf(x), law.cdf(x), atol=1e-12)
    assert_allclose(general.support, law.support, rtol=1e-13, atol=1e-15)


def test_left_edge_is_hard_when_the_two_smallest_dimensions_agree():
    # Of d, V and N, that is: the largest of 1, δ, γ is attained twice. Otherwise the bulk is
    # bounded away from 0, also above an atom (Q(0) = (δ−γ)²(1−δ)²(1−γ)² in docs/theory/bulk.md,
    # "Edges").
    for delta, gamma in ((1, 0.3), (2, 2), (1, 1), (5, 5)):
        assert product(delta, gamma).edges[0] == 0
    assert product(1.5, 0.5).edges[0] > 0.03
    assert product(3, 2).edges[0] > 0.06
    assert product(1, 4).edges[0] > 0.5
    assert product(0.7, 0.7).edges[0] > 0
    assert_array_equal(product(2, 2).atom, ([0.0], [0.5]))


@pytest.mark.parametrize(("delta", "gamma"), [(1, 1), (1, 0.3), (2, 2), (1, 1e-3)])
def test_density_at_a_hard_edge_keeps_its_digits(delta, gamma, product_density):
    x = 10.0 ** -np.array([3.0, 6, 7, 9, 15, 20, 25])
    exact = [float(product_density(delta, gamma, v)) for v in x]
    assert_allclose(product(delta, gamma).density(x), exact, rtol=1e-13)
