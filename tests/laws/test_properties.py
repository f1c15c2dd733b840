"""What holds for every law, whatever it is made of."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose

from attnlaw.laws import Discrete, MarchenkoPastur, Semicircle

ratios = st.sampled_from([0.0, 1e-6, 1.0]) | st.floats(0.01, 8.0)
scales = st.floats(0.1, 5.0)


@st.composite
def discrete(draw, smallest=0.0):
    atoms = draw(st.lists(st.floats(smallest, 5.0), min_size=1, max_size=4))
    weights = draw(st.lists(st.floats(0.05, 1.0), min_size=len(atoms), max_size=len(atoms)))
    return Discrete(np.round(atoms, 3), np.round(weights, 3))


positive = st.one_of(
    ratios.map(MarchenkoPastur),
    discrete(),
    st.tuples(scales, ratios).map(lambda v: v[0] * MarchenkoPastur(v[1])),
    st.tuples(ratios, ratios).map(lambda v: MarchenkoPastur(v[0]) @ MarchenkoPastur(v[1])),
    st.tuples(discrete(), ratios).map(lambda v: v[0] @ MarchenkoPastur(v[1])),
    st.tuples(discrete(), ratios).map(lambda v: v[0] + MarchenkoPastur(v[1])),
)
signed = st.one_of(
    positive,
    scales.map(Semicircle),
    discrete(smallest=-5.0),
    st.tuples(discrete(smallest=-5.0), scales).map(lambda v: v[0] + Semicircle(v[1])),
)


@given(signed, positive)
@settings(max_examples=60)
def test_moments_of_free_multiplicative_convolutions(a, b):
    law = a @ b
    m, n = ([v.moment(k) for k in range(4)] for v in (a, b))
    assert_allclose(law.moment(1), m[1] * n[1], rtol=1e-10, atol=1e-10)
    # Mixed moments of free elements: tr(abab), tr(ababab)
    second = m[2] * n[1] ** 2 + m[1] ** 2 * n[2] - m[1] ** 2 * n[1] ** 2
    assert_allclose(law.moment(2), second, rtol=1e-10, atol=1e-10)
    k2, k3 = n[2] - n[1] ** 2, n[3] - 3 * n[1] * n[2] + 2 * n[1] ** 3
    third = m[3] * n[1] ** 3 + 3 * m[1] * m[2] * k2 * n[1] + m[1] ** 3 * k3
    size = abs(m[3] * n[1] ** 3) + abs(3 * m[1] * m[2] * k2 * n[1]) + abs(m[1] ** 3 * k3)
    assert_allclose(law.moment(3), third, rtol=1e-9, atol=1e-9 * size + 1e-12)


@given(signed, signed)
@settings(max_examples=60)
def test_free_cumulants_add(a, b):
    law = a + b
    for cumulant in (
        lambda v: v.moment(1),
        lambda v: v.moment(2) - v.moment(1) ** 2,
        lambda v: v.moment(3) - 3 * v.moment(1) * v.moment(2) + 2 * v.moment(1) ** 3,
    ):
        size = 1 + abs(law.moment(1)) ** 3 + abs(law.moment(3))
        assert_allclose(cumulant(law), cumulant(a) + cumulant(b), rtol=1e-9, atol=1e-10 * size)


@given(signed, scales, st.floats(-3, 3))
@settings(max_examples=25)
def test_scale_and_shift_move_everything_along(law, scale, shift):
    moved = scale * law + shift
    bounds = scale * law.support + shift
    size = np.abs(bounds).max(initial=1.0)
    assert_allclose(moved.support, bounds, atol=1e-9 * size)
    x = np.concatenate([np.linspace(a, b, 7)[1:-1] for a, b in law.support] or [np.zeros(0)])
    y = scale * x + shift
    assert_allclose(moved.density(y), law.density(x) / scale, rtol=1e-6, atol=1e-9)
    assert_allclose(moved.cdf(y), law.cdf(x), atol=1e-9)
    z = np.array([0.3 + 0.4j, -1 + 2j])
    assert_allclose(moved.stieltjes(scale * z + shift), law.stieltjes(z) / scale, rtol=1e-8)
    mirrored = -1 * law
    assert_allclose(mirrored.support, -law.support[::-1, ::-1], atol=1e-9 * size)
    assert_allclose(mirrored.density(-x), law.density(x), rtol=1e-6, atol=1e-9)
    assert_allclose(mirrored.cdf(-x), 1 - law.cdf(x), atol=1e-9)


@given(positive, positive)
@settings(max_examples=12)
def test_sums_and_products_commute(a, b):
    for one, other in ((a @ b, b @ a), (a + b, b + a)):
        assert_allclose(one.support, other.support, atol=1e-6 * (1 + one.moment(1)))
        x = np.array([v @ [0.4, 0.6] for v in one.support])
        assert_allclose(one.density(x), other.density(x), rtol=1e-6, atol=1e-9)
        assert_allclose(one.cdf(x), other.cdf(x), atol=1e-9)
        for k in range(5):
            assert_allclose(one.moment(k), other.moment(k), rtol=1e-9)


@given(signed, positive, st.booleans())
@settings(max_examples=25)
def test_density_cdf_quantile_and_transform_agree(a, b, multiply):
    law = a @ b if multiply else a + b
    masses = law.atom.mass.sum()
    for low, high in law.support:
        x = low + (high - low) * np.linspace(0.1, 0.9, 7)
        x = x[(np.abs(x[:, None] - law.atom.location) > 0.01 * (high - low)).all(axis=1)]
        density = law.density(x)
        assert np.all(density > 0)
        step = 1e-5 * (high - low)
        slope = (law.cdf(x + step) - law.cdf(x - step)) / (2 * step)
        assert_allclose(slope, density, rtol=1e-4, atol=1e-9 / step)
        assert_allclose(law.quantile(law.cdf(x)), x, atol=1e-8 * (high - low))
        transform = law.stieltjes(x + 1e-9j * (high - low))
        assert_allclose(transform.imag / np.pi, density, rtol=1e-5, atol=1e-5)
    assert_allclose(masses + law._interval_masses.sum(), 1, rtol=1e-12)
    q = np.linspace(0, 1, 9)
    x = law.quantile(q)
    assert np.all(np.diff(x) >= 0)
    assert np.all(law.cdf(x) >= q - 1e-12)
