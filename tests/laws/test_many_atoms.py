"""A population spectrum of a thousand eigenvalues: exact edges, moments and speed."""

import math
import time
from collections import Counter

import numpy as np
import pytest
from numpy.testing import assert_allclose

from attnlaw.laws import Discrete, MarchenkoPastur
from attnlaw.laws._engine.support import intervals


def partitions(n, largest=None):
    """All partitions of n into positive parts, as lists."""
    largest = largest or n
    if n == 0:
        yield []
        return
    for part in range(min(n, largest), 0, -1):
        for rest in partitions(n - part, part):
            yield [part, *rest]


def moments_from_free_cumulants(cumulants):
    """mₙ = Σ over non-crossing partitions; n!/((n−b+1)! Π mᵢ!) have the given block sizes."""
    moments = []
    for n in range(1, len(cumulants) + 1):
        total = 0.0
        for blocks in partitions(n):
            same = math.prod(math.factorial(m) for m in Counter(blocks).values())
            number = math.factorial(n) / (math.factorial(n - len(blocks) + 1) * same)
            total += number * math.prod(cumulants[b - 1] for b in blocks)
        moments.append(total)
    return moments


@pytest.fixture(scope="module")
def population():
    return Discrete(np.random.default_rng(3).exponential(size=1000))


@pytest.mark.parametrize("ratio", [0.02, 0.5, 3.0])
def test_moments_agree_with_free_cumulants_and_a_contour_integral(population, ratio):
    law = population @ MarchenkoPastur(ratio)
    # The n × n companion matrix is compound free Poisson: κₖ = c mₖ(H); its moments are c mₖ.
    spectrum = population.atom.location
    cumulants = [ratio * np.mean(spectrum**k) for k in range(1, 9)]
    expected = [1, *(np.array(moments_from_free_cumulants(cumulants)) / ratio)]
    assert_allclose([law.moment(k) for k in range(9)], expected, rtol=1e-12)
    radius = 1.2 * law.edges[-1]
    z = radius * np.exp(2j * np.pi * (np.arange(256) + 0.5) / 256)
    contour = [-np.mean(z ** (k + 1) * law.stieltjes(z)).real for k in range(9)]
    assert_allclose(contour, expected, rtol=1e-11)


def test_moments_agree_with_the_density(population, expect):
    law = population @ MarchenkoPastur(3.0)
    powers = expect(law, lambda x: x ** np.arange(9)[:, None], n=100)
    assert_allclose(powers, [law.moment(k) for k in range(9)], rtol=1e-8)


def test_thousand_points_take_less_than_a_second(population):
    law = population @ MarchenkoPastur(0.5)
    x = np.linspace(0.01, 9, 1000)
    start = time.process_time()
    density = law.density(x)  # with the edges and everything else that the first call needs
    assert time.process_time() - start < 1.0
    bulk = (x > 0.5) & (x < 4)
    mass = np.trapezoid(density[bulk], x[bulk])
    assert_allclose(mass, np.diff(law.cdf(x[bulk][[0, -1]]))[0], rtol=1e-4)


def test_every_gap_between_eigenvalues_is_found(population):
    # H ⊠ MP_c with small c: a gap over every pair of neighbours that is wide enough, none over
    # the others. z' = 1 − c Σ h t²/(u−t)² is concave between two atoms; bisect for its peak.
    ratio = 1e-3
    t = population.atom.location
    low, high = t[:-1] + 0.0, t[1:] + 0.0
    for _ in range(80):
        u = 0.5 * (low + high)
        slope = (2 * ratio * 1e-3) * (t**2 / (u[:, None] - t) ** 3).sum(axis=1)
        low, high = np.where(slope > 0, u, low), np.where(slope > 0, high, u)
    u = 0.5 * (low + high)
    peak = 1 - ratio * 1e-3 * (t**2 / (u[:, None] - t) ** 2).sum(axis=1)
    law = population @ MarchenkoPastur(ratio)
    assert len(law.support) == 1 + np.sum(peak > 0)
    assert 100 < len(law.support) < 900
    masses = np.diff([0, *law.cdf(law.support[:, 1])]) * 1000
    assert_allclose(masses, np.round(masses), atol=1e-8)  # whole numbers of eigenvalues
    assert np.all(np.round(masses) >= 1)


def test_edges_are_stationary_points(population):
    law = population @ MarchenkoPastur(0.5)
    t = population.atom.location
    bounds = intervals(law._expression)
    # From the edge back to u: just outside, u = −1/m̃ with m̃ the companion transform.
    size = np.diff(bounds, axis=1).min()
    for sign, edge in ((-1, bounds[:, 0]), (1, bounds[:, 1])):
        x = edge + sign * 1e-9 * size
        companion = 0.5 * law.stieltjes(x + 0j).real - 0.5 / x
        u = -1 / companion
        slope = 1 - 0.5e-3 * (t**2 / (u[:, None] - t) ** 2).sum(axis=1)
        assert np.all(slope > 0)
        assert np.all(slope < 3e-2)


def test_two_spectra_of_many_atoms():
    rng = np.random.default_rng(5)
    left, right = Discrete(rng.exponential(size=100)), Discrete(1 + rng.random(20))
    law = left @ right
    assert_allclose(law.moment(1), left.moment(1) * right.moment(1), rtol=1e-12)
    q = np.linspace(0.0237, 0.9837, 25)  # no multiple of 1/100, where there may be a gap
    x = law.quantile(q)
    assert_allclose(law.cdf(x), q, atol=1e-12)
    assert np.all(law.density(x) > 0)


@pytest.mark.parametrize("shift", [0.0, 0.1, -1.0])
@pytest.mark.parametrize("sign", [1, -1])
@pytest.mark.parametrize("a", [0.01, 0.5, 1.37, 10.0, 300.0])
@pytest.mark.parametrize(("p", "q"), [(0.3, 0.4), (0.3, 0.5), (0.7, 0.4), (0.2, 0.1)])
def test_sums_of_two_projections_have_the_edges_of_their_angles(p, q, a, sign, shift):
    """Next to atoms at zero of both, gaps were lost or refused.

    P + aQ has the eigenvalues λ = (1 + a)/2 ± √((1 + a)²/4 − a(1 − c)) for the squared cosine c
    of each angle between them, c between p + q − 2pq ± √(4pq(1 − p)(1 − q)).
    """
    c = p + q - 2 * p * q + np.array([1, -1]) * np.sqrt(4 * p * q * (1 - p) * (1 - q))
    large = (1 + a) / 2 + np.sqrt((1 + a) ** 2 / 4 - a * (1 - c))
    edges = np.sort(np.concatenate([large, a * (1 - c) / large]))
    law = sign * (Discrete([0, 1], [1 - p, p]) + Discrete([shift, shift + a], [1 - q, q]))
    expected = np.sort(sign * (edges + shift))
    np.testing.assert_allclose(law.edges, expected, rtol=0, atol=1e-11 * (1 + a + abs(shift)))
    assert law.atom.mass.sum() == pytest.approx(1 - 2 * min(p, q, 1 - p, 1 - q))


def test_sums_of_sums_next_to_atoms_at_zero():
    """Gaps of a sum on other branches than those of its parts: a shift moves all of them."""
    four = Discrete([0, 1, 4, 30], [0.7, 0.1, 0.1, 0.1])
    two = Discrete([0, 2], [0.8, 0.2])
    parts = two + Discrete([0, 0.7], [0.9, 0.1]), four + Discrete([0, 11], [0.85, 0.15])
    law, moved = sum(parts, Discrete([0])), (parts[0] + 0.3) + (parts[1] - 0.1)
    assert len(law.support) > 2
    np.testing.assert_allclose(law.edges + 0.2, moved.edges, rtol=1e-9)
    np.testing.assert_allclose(law._interval_masses, moved._interval_masses, atol=1e-9)
    assert law.atom.mass.sum() == pytest.approx(moved.atom.mass.sum())


def edges_of_two_projections(low, high, p, q):
    """Edges of Discrete([0, low], [1 − p, p]) + Discrete([0, high], [1 − q, q])."""
    c = p + q - 2 * p * q + np.array([1, -1]) * np.sqrt(4 * p * q * (1 - p) * (1 - q))
    whole = low + high
    large = whole / 2 + np.sqrt((high - low) ** 2 / 4 + low * high * c)
    return np.sort(np.concatenate([large, low * high * (1 - c) / large]))


@pytest.mark.parametrize("swapped", [False, True])
@pytest.mark.parametrize("p", [0.5, 0.003, 0.9])
@pytest.mark.parametrize("size", [1e-2, 1e-4, 1e-5, 3e-6])
def test_sums_of_laws_of_different_sizes_have_all_edges(size, p, swapped):
    """Two of four edges were lost, or off by 4e-6, next to the atom of the large law at 1."""
    small, large = Discrete([0.1, 0.1 + size], [1 - p, p]), Discrete([0, 1], [0.7, 0.3])
    law = small + large if swapped else large + small
    expected = 0.1 + edges_of_two_projections(size, 1.0, p, 0.3)
    np.testing.assert_allclose(law.edges, expected, rtol=0, atol=1e-15 + 1e-9 * size)
    assert law.atom.mass.sum() == pytest.approx(1 - 2 * min(p, 1 - p, 0.3))


def test_cdfs_next_to_an_atom_of_the_larger_law_rise():
    """Points inside intervals were taken for points of gaps: the cdf fell by a hundredth."""
    large = Discrete([64.11948030299183, 403.4488994216564], [0.987, 0.013])
    law = large + Discrete([2.577, 2.579], [0.9637, 0.0363])
    for low, high in law.support:
        cdf = law.cdf(np.linspace(low, high, 80))
        assert np.diff(cdf).min() > -1e-10


@pytest.mark.parametrize(
    "join",
    [
        lambda: Discrete([0, 1]) + Discrete([0, 1e-9]),
        lambda: Discrete([3e-6, 4e-6], [0.57, 0.43]) @ Discrete([418798.2295, 418798.2297]),
        lambda: Discrete([1, 2.77], [0.999, 1e-3]) @ Discrete([1, 1 + 1.65e-6], [0.997, 3e-3]),
    ],
)
def test_laws_that_rounding_hides_beside_others_are_refused(join):
    """Their edges, or their masses, were wrong."""
    with pytest.raises(ArithmeticError, match="1e-07"):
        _ = join().support
