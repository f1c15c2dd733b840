"""Laws without closed form: every answer in a second way."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from attnlaw.laws import Discrete, MarchenkoPastur, Semicircle
from attnlaw.laws._engine.expression import Expression, Pair
from attnlaw.laws._engine.free import FreeLaw, law_of

MP, SC = MarchenkoPastur, Semicircle
TWO, THREE = Discrete([1, 10], [0.6, 0.4]), Discrete([1, 2, 4], [0.45, 0.3, 0.25])

# (law, quadrature power: larger where an edge is hard)
LAWS = {
    "silverstein": (Discrete([1, 10]) @ MP(0.05), 3),
    "silverstein, rank deficient": (Discrete([0, 1, 10], [0.3, 0.3, 0.4]) @ MP(3), 3),
    "zeros that win over the rank": (Discrete([0, 1, 10], [0.8, 0.1, 0.1]) @ MP(3), 3),
    "fuss–catalan": (MP(1) @ MP(1) @ MP(1), 16),
    "attention": ((0.7 + MP(1)) @ MP(1), 8),
    "twelve terms": (
        sum((0.5**k * MP(0.3 * k) for k in range(1, 12)), Discrete([0])) @ MP(0.5),
        5,
    ),
    "deformed wigner": (Discrete([1, 10]) + SC(1), 3),
    "deformed wishart": (Discrete([1, 2, 9]) + 0.5 * MP(4), 3),
    "difference": (MP(0.5) - 0.7 * MP(0.2), 3),
    "signed product": (SC(1) @ MP(0.5), 3),
    "atom inside the bulk": (Discrete([-1, 1]) @ MP(4), 3),
    "sum of discrete": (TWO + THREE, 3),
    "product of discrete": (TWO @ THREE, 3),
    "signed times discrete": (SC(1) @ THREE, 3),
    "sum times sum": ((SC(1) + Discrete([4, 10])) @ (MP(0.5) + 2 * MP(0.3)), 3),
    "product plus product": (TWO @ MP(0.3) + 3 * (MP(0.2) @ MP(0.4)), 3),
    "three discrete factors": (TWO @ THREE @ Discrete([1, 3]), 3),
    "pair, then stages": ((TWO + THREE) @ MP(0.1) + SC(0.2), 3),
}
NAMES = pytest.mark.parametrize("name", LAWS)


@NAMES
def test_mass_moments_and_stieltjes_transform_by_quadrature(name, expect):
    law, power = LAWS[name]
    width = law.edges[-1] - law.edges[0]
    z = law.edges.mean() + width * np.array([0.3 + 0.5j, -0.2 + 0.2j, 1.1 + 0j, -2 - 1j])
    orders = np.array([0, 1, 2, 3, 5])

    def functions(x):
        powers = x ** orders[:, None]
        return np.concatenate([powers, np.abs(powers), 1 / (x - z[:, None])])

    values = expect(law, functions, power=power)
    moments, sizes, transforms = values[:5].real, values[5:10].real, values[10:]
    assert_allclose(moments / sizes, [law.moment(k) for k in orders] / sizes, atol=1e-10)
    assert_allclose(law.stieltjes(z), transforms, rtol=1e-9)


@NAMES
def test_density_is_the_slope_of_the_cdf_and_quantile_inverts_it(name):
    law, _ = LAWS[name]
    for low, high in law.support:
        x = low + (high - low) * np.linspace(0.05, 0.95, 21)
        step = 1e-4 * (high - low)
        near_atom = (np.abs(x[:, None] - law.atom.location) < 2 * step).any(axis=1)
        x = x[~near_atom]
        rise = law.cdf(x + step) - law.cdf(x - step)
        rise2 = law.cdf(x + 2 * step) - law.cdf(x - 2 * step)
        slope = (8 * rise - rise2) / (12 * step)
        assert_allclose(slope, law.density(x), rtol=2e-5)
        assert_allclose(law.quantile(law.cdf(x)), x, rtol=1e-9)
    q = np.linspace(0, 1, 41)
    x = law.quantile(q)
    assert np.all(np.diff(x) >= 0)
    continuous = ~np.isin(x, law.atom.location)
    assert_allclose(law.cdf(x)[continuous], q[continuous], atol=1e-13)
    assert np.all(law.cdf(x) >= q - 1e-13)


@NAMES
def test_edges_separate_zero_density_from_positive(name):
    law, _ = LAWS[name]
    assert np.all(np.diff(law.edges) > 0)
    inside = law.support @ [[0.999999, 0.5, 1e-6], [1e-6, 0.5, 0.999999]]
    assert np.all(law.density(inside) > 0)
    assert np.all(law.density(law.edges) == 0)
    # Just outside the transform is real and increasing, as on the complement of a support.
    gaps = np.diff(law.edges)[1::2]
    size = min([law.edges[-1] - law.edges[0], *gaps]) if len(gaps) else np.ptp(law.edges)
    outside = np.append(law.support[:, 0] - 1e-7 * size, law.support[:, 1] + 1e-7 * size)
    if law.edges[0] > 0:
        assert np.all(np.abs(law.stieltjes(outside + 1e-12j * size).imag) < 1e-3)


@NAMES
def test_density_is_the_boundary_value_of_the_stieltjes_transform(name):
    law, _ = LAWS[name]
    low, high = law.support[-1]
    x = low + (high - low) * np.linspace(0.1, 0.9, 8)
    height = 1e-7 * (high - low)
    # Richardson: the error of Im m(x+iη)/π is linear in η
    near = law.stieltjes(x + 1j * height).imag / np.pi
    far = law.stieltjes(x + 2j * height).imag / np.pi
    assert_allclose(2 * near - far, law.density(x), rtol=1e-7)


def test_two_intervals_open_and_close():
    # Each population eigenvalue keeps its own interval while the ratio is small.
    law = Discrete([1, 10]) @ MP(0.05)
    expected = [[0.6858258960450987, 1.3084415580091833], [7.11609221084759, 13.43964033509813]]
    # mpmath: z(u) = u (1 + c y(u)) at the four real roots of z'(u) = 0
    assert_allclose(law.support, expected, rtol=1e-13)
    assert_allclose(law.cdf([1.4, 7.0]), 0.5, rtol=1e-12)
    # z'(u) = 1 − c Σ h t²/(u−t)² stays below 0 between the atoms from this ratio on:
    t, h = np.array([1.0, 10.0]), 0.5
    a, b = (h * t**2) ** (1 / 3)
    critical = (t[1] - t[0]) ** 2 / (a + b) ** 3
    assert len((Discrete(t) @ MP(critical * (1 - 1e-6))).support) == 2
    assert len((Discrete(t) @ MP(critical * (1 + 1e-6))).support) == 1


def pair(left, right, kind):
    """The same law with subordination forced upon it."""
    return FreeLaw(Expression(Pair(left._expression, right._expression, kind)))


@pytest.mark.parametrize(
    ("left", "right", "kind"),
    [
        (THREE, MP(0.3), "multiplicative"),
        (THREE, MP(2.5), "multiplicative"),
        (SC(1) + 1, MP(0.7), "multiplicative"),
        (THREE, MP(0.3) @ MP(0.6), "multiplicative"),
        (THREE, MP(0.3), "additive"),
        (TWO, SC(0.5), "additive"),
        (THREE @ MP(0.2), 3 * MP(4), "additive"),
        (MP(0.5), MP(0.25), "multiplicative"),
    ],
    ids=str,
)
def test_subordination_agrees_with_the_parametric_form(left, right, kind):
    chained = left @ right if kind == "multiplicative" else left + right
    paired = pair(left, right, kind)
    assert_allclose(paired.support, chained.support, rtol=1e-9, atol=1e-10)
    x = np.concatenate([np.linspace(a, b, 23)[1:-1] for a, b in chained.support])
    assert_allclose(paired.density(x), chained.density(x), rtol=1e-8)
    assert_allclose(paired.cdf(x), chained.cdf(x), atol=1e-11)
    assert_array_equal(paired.atom, chained.atom)
    for k in range(1, 8):
        assert_allclose(paired.moment(k), chained.moment(k), rtol=1e-11)
    z = np.array([0.2 + 0.1j, 3 + 1j])
    assert_allclose(paired.stieltjes(z), chained.stieltjes(z), rtol=1e-11)


@pytest.mark.parametrize("kind", ["additive", "multiplicative"])
def test_pairs_commute(kind):
    left, right = TWO @ MP(0.1), Discrete([0.5, 2], [0.3, 0.7]) + 0.1
    one, other = pair(left, right, kind), pair(right, left, kind)
    assert_allclose(one.support, other.support, rtol=1e-9)
    x = one.support @ [0.3, 0.7]
    assert_allclose(one.density(x), other.density(x), rtol=1e-10)
    assert_allclose(one.cdf(x), other.cdf(x), rtol=1e-10)


def test_gap_masses_are_those_of_the_factors():
    # Each gap of a product lies over one gap of either factor: its mass is a sum of weights.
    law = TWO @ Discrete([1, 1.1, 1.3], [0.5, 0.3, 0.2])
    assert_allclose(law.cdf([5.0]), 0.6, atol=1e-12)
    law = Discrete([1, 5, 30], [0.2, 0.3, 0.5]) @ (MP(0.01) + 0.1 * MP(0.02))
    assert_allclose(law.cdf(law.support[:, 1]), [0.2, 0.5, 1.0], atol=1e-12)


ATOMS = [
    (Discrete([0, 2], [0.7, 0.3]) @ MP(2), {0.0: 0.7}),
    (Discrete([0, 2], [0.3, 0.7]) @ MP(2), {0.0: 0.5}),
    (Discrete([1, 5], [0.8, 0.2]) + MP(4), {1.0: 0.55}),
    (Discrete([1, 5], [0.8, 0.2]) + 2 * MP(4) + 3 * MP(5), {1.0: 0.35}),
    (Discrete([1, 5], [0.8, 0.2]) + MP(1.1), {}),
    (Discrete([1, 5], [0.8, 0.2]) + Discrete([2, 3], [0.9, 0.1]), {3.0: 0.7, 7.0: 0.1}),
    (Discrete([1, 5], [0.8, 0.2]) @ Discrete([2, 3], [0.9, 0.1]), {2.0: 0.7, 10.0: 0.1}),
    (Discrete([0, 5], [0.8, 0.2]) @ Discrete([0, 3], [0.6, 0.4]), {0.0: 0.8}),
    (Discrete([1, 5], [0.8, 0.2]) + SC(0.1), {}),
]


@pytest.mark.parametrize(("law", "expected"), ATOMS, ids=lambda v: repr(v)[:60])
def test_atoms_follow_bercovici_and_voiculescu(law, expected, expect):
    assert_allclose(law.atom.location, list(expected), rtol=1e-15)
    assert_allclose(law.atom.mass, list(expected.values()), rtol=1e-12)
    assert_allclose(expect(law, np.ones_like, power=6), 1, rtol=1e-10)
    for location, mass in expected.items():  # the cdf jumps there, and m has a pole
        x = np.array([location - 1e-9, location])
        assert_allclose(np.diff(law.cdf(x)), mass, rtol=1e-6)
        z = location + 1e-6j
        assert_allclose(-1e-6j * law.stieltjes(z), mass, rtol=1e-4)
        q = law.cdf(location) - mass / 2
        assert law.quantile(q) == location


def test_products_of_equal_weights_have_infinite_density_at_an_edge():
    # p + q = 1: no atom, but the density grows without bound (arcsine law, for projections).
    law = Discrete([0, 1]) + Discrete([0, 1])
    assert law.atom.mass.size == 0
    assert_allclose(law.support, [[0, 2]], atol=1e-12)
    x = np.array([1e-6, 0.1, 1.0, 1.7])
    assert_allclose(law.density(x), 1 / (np.pi * np.sqrt(x * (2 - x))), rtol=1e-7)
    assert_allclose(law.cdf(x), np.arccos(1 - x) / np.pi, rtol=1e-9)


def test_projections_have_their_known_law():
    # Free compression: P Q P for projections of traces α, β has density
    # √((r₊−x)(x−r₋))/(2πx(1−x)) and atoms at 0 and 1 (Voiculescu 1987).
    a, b = 0.6, 0.7
    law = Discrete([0, 1], [1 - a, a]) @ Discrete([0, 1], [1 - b, b])
    root = np.sqrt(4 * a * b * (1 - a) * (1 - b))
    low, high = a + b - 2 * a * b - root, a + b - 2 * a * b + root
    assert_allclose(law.support, [[low, high]], rtol=1e-10)
    x = np.linspace(low, high, 9)[1:-1]
    expected = np.sqrt((high - x) * (x - low)) / (2 * np.pi * x * (1 - x))
    assert_allclose(law.density(x), expected, rtol=1e-9)
    assert_allclose(law.atom, ([0, 1], [0.4, 0.3]), atol=1e-12)


def test_fuss_catalan_moments_and_edge():
    # MP_1^{⊠s}: mₙ = C((s+1)n, n)/(sn+1), right edge (s+1)^(s+1)/s^s
    law = MP(1)
    for s in (2, 3, 4):
        law = law @ MP(1)
        assert_allclose(law.edges, [0, (s + 1) ** (s + 1) / s**s], rtol=1e-13)
        for n in range(1, 7):
            expected = np.prod([((s + 1) * n - k) / (n - k) for k in range(n)]) / (s * n + 1)
            assert_allclose(law.moment(n), expected, rtol=1e-12)


@pytest.mark.parametrize("theta", [(0.2840254167, 0.25), (1.718281828459045, 1.0)])
def test_attention_bulk_has_the_golden_edges(theta):
    # docs/theory/attention.md, "The limit law": H = θ₁ − θ₂ + θ₂ MP_1, then ⊠ MP_1; the table
    # there has the right edges 1.790588 and 9.009543
    total, linear = theta
    law = (total - linear + linear * MP(1)) @ MP(1)
    expected = {0.25: 1.790588, 1.0: 9.009543}[linear]
    assert_allclose(law.edges, [0, expected], rtol=5e-7)
    assert_allclose(law.moment(2), 2 * total**2 + linear**2, rtol=1e-12)


def test_law_of_restores_every_kind():
    for law, _ in LAWS.values():
        assert law_of(law._expression) == law


@pytest.mark.parametrize(
    "law",
    [
        MarchenkoPastur(20.0) + MarchenkoPastur(2.0),
        MarchenkoPastur(2.0) @ MarchenkoPastur(3.0),
        Semicircle(1.0) @ MarchenkoPastur(3.0),  # its atom lies inside the continuous part
    ],
)
def test_next_to_an_atom_the_transform_is_that_of_the_atom(law):
    """−z m(z) → the mass; it fell to 1e-40 on the way, and took minutes at z = 1e-310."""
    z = 1j * np.array([1e-9, 1e-12, 1e-18, 1e-30, 1e-200, 1e-300])
    np.testing.assert_allclose(-z * law.stieltjes(z), law.atom.mass[0] + 0 * z, atol=1e-7)
    if not law.density(0.01):
        np.testing.assert_allclose(-z.imag * law.stieltjes(z.imag), law.atom.mass[0], atol=1e-7)
    with pytest.raises(ValueError, match="z must be farther from the atoms"):
        law.stieltjes(1e-310j)


def test_around_an_atom_the_transform_is_smooth():
    """G − p/z is analytic there; where the ways to evaluate it meet, values and slopes agree."""
    law = MarchenkoPastur(20.0) + MarchenkoPastur(2.0)
    border = 1e-5 * law.edges[0]
    z = border * np.array([0.999, 1.001, -0.999, -1.001])
    rest = law.stieltjes(z) + law.atom.mass[0] / z
    np.testing.assert_allclose(rest, rest[0], rtol=1e-4)
    np.testing.assert_allclose(rest[:2], rest[1], rtol=1e-6)


def test_points_too_close_to_a_hard_edge_are_refused():
    """(−z)^(1/3) m → 1; at −1e-30 a quarter was missing, at −1e-200 all but 1e-108."""
    law = MarchenkoPastur(1.0) @ MarchenkoPastur(1.0)
    z = -np.array([1e-15, 1e-18, 1e-21])
    np.testing.assert_allclose(law.stieltjes(z) * (-z) ** (2 / 3), 1, rtol=1e-4)
    with pytest.raises(ValueError, match=r"z must be at least .* away from the edge at 0"):
        law.stieltjes(-1e-30)


def test_next_to_a_soft_edge_the_cdf_is_that_of_the_edge(monkeypatch):
    """A few ulps from it Newton's method may end in the gap, and the cdf was 0 for 29/30.

    It depends on the last bits of an expression, so that here every point ends there.
    """
    law = Discrete([1.0, 20.0], [0.3, 0.7]) @ MarchenkoPastur(0.1) + MarchenkoPastur(0.2)
    masses = [0.0, *np.cumsum(law._interval_masses)]
    assert len(law.support) == 2
    monkeypatch.setattr(FreeLaw, "_below", lambda self, u: np.zeros(u.shape[1]))
    for k, (low, high) in enumerate(law.support):
        near = np.array([1, 2, 3, 20])
        assert_allclose(law.cdf(high - np.spacing(high) * near), masses[k + 1], rtol=1e-13)
        assert_allclose(law.cdf(low + np.spacing(low) * near), masses[k], rtol=1e-13)
        assert_allclose(law.cdf(0.5 * (low + high)), masses[k], rtol=1e-13)


def test_hard_edges_lie_at_zero():
    """Rounding put this one at 6e-15 of the largest point, with a step of 2e-7 of the cdf."""
    left = 0.1 * MarchenkoPastur(2.8) + Discrete([1.0, 2.0]) + MarchenkoPastur(0.3) + 0.5
    law = left @ MarchenkoPastur(0.5) @ MarchenkoPastur(1) @ Discrete([1.0, 3.0])
    assert law.edges[0] == 0
    x = law.edges[-1] * np.array([1e-16, 1e-14, 1e-12])
    assert_allclose(law.cdf(x) / np.sqrt(x), law.cdf(x[2]) / np.sqrt(x[2]), rtol=1e-4)


def test_the_cdf_does_not_fall_beside_an_atom_at_an_edge():
    """From the mass of the atom, 1e-9, it fell to half of it."""
    law = (MarchenkoPastur(0.3) + Discrete([1.0, 2.0])) @ MarchenkoPastur(1 + 1e-9)
    law = law @ Discrete([1.0, 3.0])
    assert (np.diff(law.cdf(np.array([0.0, 1e-30, 1e-20, 1e-12]))) >= 0).all()
