"""The law of unequal rows and columns, against the algebra of laws and finite matrices."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from attnlaw.laws import Discrete, Law, MarchenkoPastur, SeparableLaw, ks_distance

COLUMNS, ROWS = np.array([0.5, 1.0, 2.5]), np.array([0.4, 0.9, 1.7])


def by_algebra(columns, rows, ratio):
    """H ⊠ ⊞_k q_k r_k MP_{δ/q_k}, from laws that know nothing of this solver."""
    q = 1 / len(rows)
    row_law = q * rows[0] * MarchenkoPastur(ratio / q)
    for r in rows[1:]:
        row_law = row_law + q * r * MarchenkoPastur(ratio / q)
    return Discrete(columns) @ row_law


@pytest.mark.parametrize("ratio", [0.1, 0.6, 3.0])
def test_agrees_with_the_algebra_of_laws(ratio):
    x = np.array([0.1, 0.4, 1.0, 2.0, 3.5])
    law, other = SeparableLaw(COLUMNS, rows=ROWS, ratio=ratio), by_algebra(COLUMNS, ROWS, ratio)
    np.testing.assert_allclose(law.density(x), other.density(x), rtol=1e-6, atol=1e-8)
    np.testing.assert_allclose(law.cdf(x), other.cdf(x), rtol=1e-6, atol=1e-8)
    np.testing.assert_allclose(law.right_edge, other.edges[-1], rtol=1e-8)
    equal = SeparableLaw(COLUMNS, ratio=ratio)
    assert np.abs(equal.cdf(x) - other.cdf(x)).max() > 0.003  # rows do matter


def test_one_scale_is_silverstein_and_one_variance_is_marchenko_pastur():
    x = np.linspace(0.2, 6, 9)
    silverstein = Discrete(COLUMNS) @ MarchenkoPastur(0.3)
    np.testing.assert_allclose(
        SeparableLaw(COLUMNS, ratio=0.3).cdf(x), silverstein.cdf(x), atol=1e-8
    )
    plain = SeparableLaw([1.0], ratio=2.0)
    np.testing.assert_allclose(plain.cdf(x), MarchenkoPastur(2.0).cdf(x), atol=1e-8)
    np.testing.assert_allclose(plain.right_edge, (1 + np.sqrt(2)) ** 2, rtol=1e-12)


@settings(max_examples=25, deadline=None)
@given(
    columns=st.lists(st.floats(0.01, 30), min_size=1, max_size=8),
    rows=st.lists(st.floats(0.05, 10), min_size=1, max_size=5),
    ratio=st.floats(0.01, 4),
)
def test_cdf_increases_to_one_at_the_edge_and_integrates_the_density(columns, rows, ratio):
    law = SeparableLaw(columns, rows=rows, ratio=ratio)
    x = np.geomspace(1e-3 * law.mean, law.right_edge, 300)
    F = law.cdf(x)
    assert np.diff(F).min() > -1e-6
    assert abs(F[-1] - 1) < 1e-4
    assert law.cdf([1.01 * law.right_edge])[0] > 1 - 1e-6


@pytest.mark.parametrize("ratio", [1.03, 1.125, 1.21, 1.5])
def test_gap_beside_the_atom_holds_no_other_root(ratio):
    """There e has several real roots, and plain Newton steps end at any of them."""
    law, x = SeparableLaw([1.0], ratio=ratio), np.geomspace(1e-3, 1, 500)
    np.testing.assert_allclose(law.cdf(x), MarchenkoPastur(ratio).cdf(x), atol=1e-6)


def test_derivative_of_the_cdf_is_the_density():
    law = SeparableLaw(COLUMNS, rows=ROWS, ratio=0.5)
    x, h = np.linspace(0.3, 3, 7), 1e-4
    slope = (law.cdf(x + h) - law.cdf(x - h)) / (2 * h)
    np.testing.assert_allclose(slope, law.density(x), rtol=1e-4)


def test_finite_matrix_follows_the_law_and_not_that_of_equal_rows():
    rng = np.random.default_rng(0)
    d, V = 300, 600
    columns, rows = np.linspace(0.5, 2, 30), np.array([0.2, 0.6, 1.0, 2.2])
    Z = rng.standard_normal((V, d)) * np.sqrt(np.repeat(columns, 10))
    Z *= np.sqrt(np.repeat(rows, V // 4))[:, None]
    seen = np.linalg.eigvalsh(Z.T @ Z / V)
    ranks = (np.arange(d) + 0.5) / d
    distance = np.abs(SeparableLaw(columns, rows=rows, ratio=d / V).cdf(seen) - ranks).max()
    equal = np.abs(SeparableLaw(columns, ratio=d / V).cdf(seen) - ranks).max()
    assert distance < 4 / d  # eigenvalues are rigid: distances shrink like 1/d
    assert equal > 10 / d


def test_outlier_is_seen_where_the_law_says_and_back():
    law = SeparableLaw(COLUMNS, rows=ROWS, ratio=0.5)
    assert law.outlier(2.6) == law.right_edge  # below threshold
    seen = law.outlier(9.0)
    assert seen > law.right_edge
    np.testing.assert_allclose(law.population([seen]), [9.0], rtol=1e-8)
    # One more direction of variance 9 in a finite matrix:
    rng = np.random.default_rng(1)
    d, V = 300, 600
    scales = np.append(np.repeat(COLUMNS, d // 3), 9.0)
    tops = []
    for _ in range(12):
        Z = rng.standard_normal((V, d + 1)) * np.sqrt(scales)
        Z *= np.sqrt(np.repeat(ROWS, V // 3))[:, None]
        tops.append(np.linalg.eigvalsh(Z.T @ Z / V)[-1])
    z = (np.mean(tops) - seen) / (np.std(tops, ddof=1) / np.sqrt(len(tops)))
    assert abs(z) < 5
    equal = SeparableLaw(COLUMNS, ratio=0.5).outlier(9.0)
    assert abs(equal - seen) > 0.05


@pytest.mark.parametrize("ratio", [0.2, 2.5])
def test_it_answers_what_every_law_does(ratio):
    law, other = SeparableLaw(COLUMNS, rows=ROWS, ratio=ratio), by_algebra(COLUMNS, ROWS, ratio)
    assert isinstance(law, Law)
    assert law == other
    np.testing.assert_allclose(law.edges, other.edges, rtol=1e-10)
    np.testing.assert_allclose(law.atom.mass, other.atom.mass, rtol=1e-14)
    for k in range(4):
        assert law.moment(k) == pytest.approx(other.moment(k), rel=1e-13)
    z = np.array([-1.0, 30.0]), np.array([0.5 + 0.1j, 2 - 1j])
    for points in z:
        np.testing.assert_allclose(law.stieltjes(points), other.stieltjes(points), rtol=1e-10)
    q = np.array([0.0, 0.1, 0.65, 0.99, 1.0])
    np.testing.assert_allclose(law.quantile(q), other.quantile(q), atol=1e-6)
    np.testing.assert_allclose(law.cdf(law.quantile(q[2:4])), q[2:4], atol=1e-8)
    drawn = law.sample(2000, rng=3)
    assert ks_distance(drawn, law) < 1.95 / np.sqrt(2000)  # exceeded once in a thousand seeds
    assert ks_distance(drawn, SeparableLaw(2 * COLUMNS, rows=ROWS, ratio=ratio)) > 0.05


def test_density_and_cdf_are_those_of_a_law_also_at_and_below_zero():
    law = SeparableLaw(COLUMNS, ratio=2.0)  # half of the eigenvalues are 0
    np.testing.assert_allclose(law.cdf([-1.0, 0.0]), [0.0, 0.5], rtol=1e-14)
    np.testing.assert_array_equal(law.density([-1.0, 0.0]), 0.0)
    np.testing.assert_allclose(law.cdf([1e-15, 1e-11, 1e-9, 1e-4]), 0.5, rtol=1e-14)  # no fall
    assert law.density(1.0).shape == ()


def test_outliers_of_arrays_and_the_edge_of_hundreds_of_atoms_are_those_of_the_engine():
    rng = np.random.default_rng(0)
    columns, rows = rng.gamma(2.0, 0.5, 200), rng.gamma(3.0, 0.3, 9)
    law = SeparableLaw(columns, rows=rows, ratio=0.4)
    np.testing.assert_allclose(law.right_edge, law.edges[-1], rtol=1e-12)
    variances = columns.max() * np.array([1.01, 2.0, 9.0])
    seen = law.outlier(variances)
    assert seen[0] == law.right_edge
    # y = zG − 1 of the law at the outlier is y of the columns at the variance.
    y = np.mean(columns / (variances[1:, None] - columns), axis=1)
    np.testing.assert_allclose(-seen[1:] * law.stieltjes(seen[1:]) - 1, y, rtol=1e-9)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"columns": [-1.0, 1.0]}, "columns must be at least 0"),
        ({"columns": [0.0]}, "columns must be at least 0 and not all 0"),
        ({"columns": []}, "columns must be a list of atoms"),
        ({"columns": [1.0], "rows": [0.0]}, "rows must be above 0"),
        ({"columns": [1.0], "column_weights": [0.5]}, "masses that sum to one"),
        ({"columns": [1.0], "ratio": 0.0}, "ratio must be above 0"),
    ],
)
def test_bad_atoms_are_named(settings, words):
    with pytest.raises(ValueError, match=words):
        SeparableLaw(**({"ratio": 0.5} | settings))
