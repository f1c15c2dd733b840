"""Marchenko–Pastur, semicircle and discrete laws, and what every law must answer."""

import math

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import attnlaw as al
from attnlaw.laws import Discrete, MarchenkoPastur, Semicircle


@pytest.mark.parametrize("ratio", [1e-6, 0.3, 1.0, 1.01, 4.0, 100.0])
def test_marchenko_pastur_is_its_textbook_formula(ratio, expect):
    law = MarchenkoPastur(ratio)
    low, high = (1 - ratio**0.5) ** 2, (1 + ratio**0.5) ** 2
    assert_allclose(law.edges, [low, high], rtol=1e-14, atol=1e-17)
    x = low + (high - low) * np.linspace(0.01, 0.99, 9)
    expected = np.sqrt((high - x) * (x - low)) / (2 * np.pi * ratio * x)
    assert_allclose(law.density(x), expected, rtol=1e-11)
    assert_allclose(expect(law, np.ones_like, power=4), 1, rtol=1e-11)
    expected_atom = ([0.0], [1 - 1 / ratio]) if ratio > 1 else ([], [])
    assert_array_equal(law.atom, expected_atom)


@pytest.mark.parametrize("ratio", [1e-6, 0.3, 1.0, 4.0])
def test_marchenko_pastur_moments_are_narayana_polynomials(ratio):
    # mₙ = Σ N(n, k) c^(k−1), with N(n, k) = C(n, k) C(n, k−1)/n
    for n in range(1, 9):
        narayana = [math.comb(n, k) * math.comb(n, k - 1) / n for k in range(1, n + 1)]
        expected = sum(value * ratio**k for k, value in enumerate(narayana))
        assert_allclose(MarchenkoPastur(ratio).moment(n), expected, rtol=1e-13)


def test_ratio_zero_is_the_point_mass_at_one():
    law = MarchenkoPastur(0)
    assert law == Discrete([1])
    assert_array_equal(law.atom, ([1.0], [1.0]))
    assert law.edges.size == 0
    assert law.density(1.0) == 0
    assert law.cdf([0.9, 1.0]).tolist() == [0, 1]
    assert law.stieltjes(3.0) == -0.5
    assert_allclose(law.quantile([0, 0.3, 1]), 1)
    near = MarchenkoPastur(1e-9)
    assert_allclose(near.quantile([0.01, 0.99]), 1, atol=1e-4)
    assert_allclose(near.stieltjes([0.5, 1 + 1j]), law.stieltjes([0.5, 1 + 1j]), rtol=1e-6)


@pytest.mark.parametrize("variance", [1e-4, 1.0, 9.0])
def test_semicircle_is_its_textbook_formula(variance):
    law = Semicircle(variance) + 2.0
    sigma = variance**0.5
    x = 2 + sigma * np.linspace(-1.9, 1.9, 7)
    assert_allclose(law.edges, [2 - 2 * sigma, 2 + 2 * sigma], rtol=1e-15)
    expected = np.sqrt(4 * variance - (x - 2) ** 2) / (2 * np.pi * variance)
    assert_allclose(law.density(x), expected, rtol=1e-12)
    step = 1e-5 * sigma
    assert_allclose((law.cdf(x + step) - law.cdf(x - step)) / (2 * step), expected, rtol=1e-8)
    catalan = [1, 0, variance, 0, 2 * variance**2, 0, 5 * variance**3]
    assert_allclose([Semicircle(variance).moment(k) for k in range(7)], catalan, rtol=1e-14)


def test_discrete_law_joins_equal_atoms_and_normalises_weights():
    law = Discrete([3, 1, 3, 7], [1, 2, 1, 0])
    assert_array_equal(law.atom, ([1, 3], [0.5, 0.5]))
    assert_allclose(law.cdf([0, 1, 2, 3, 4]), [0, 0.5, 0.5, 1, 1])
    assert_allclose(law.quantile([0, 0.5, 0.500001, 1]), [1, 1, 3, 3])
    assert law.support.shape == (0, 2)
    assert law.moment(3) == 14
    assert_allclose(law.stieltjes(2.0 + 1j), 0.5 / (-1 - 1j) + 0.5 / (1 - 1j))


LAWS = [
    MarchenkoPastur(0.3),
    2 * MarchenkoPastur(5.0),
    Semicircle(2.0) - 1,
    Discrete([1, 2, 4]),
    MarchenkoPastur(0.5) @ MarchenkoPastur(2.0),
    Discrete([1, 10]) @ MarchenkoPastur(0.05),
    Semicircle() @ Discrete([1, 2]),
]


@pytest.mark.parametrize("law", LAWS, ids=repr)
def test_answers_have_the_shape_of_the_question(law):
    for shape in ((), (0,), (3,), (2, 1, 4)):
        x = np.full(shape, 1.3)
        assert np.shape(law.density(x)) == shape
        assert np.shape(law.cdf(x)) == shape
        assert np.shape(law.quantile(x / 2)) == shape
        assert np.shape(law.stieltjes(x + 1j)) == shape
    assert isinstance(law.density(1), float)
    assert isinstance(law.cdf(1), float)
    assert isinstance(law.moment(2), float)


@pytest.mark.parametrize("law", LAWS, ids=repr)
def test_stieltjes_transform_is_conjugate_and_real_outside(law):
    z = np.array([0.3 + 0.2j, -1 + 1e-3j, 5 + 4j])
    assert_allclose(law.stieltjes(z.conj()), law.stieltjes(z).conj(), rtol=1e-14)
    far = np.array([-1e3, 1e3])
    moments = [law.moment(k) for k in range(6)]
    series = -sum(m / far ** (k + 1) for k, m in enumerate(moments))
    assert_allclose(law.stieltjes(far), series, rtol=1e-7)
    assert law.stieltjes(1e3).dtype == float


@pytest.mark.parametrize("law", LAWS, ids=repr)
def test_samples_are_reproducible_and_have_the_moments(law):
    sample = law.sample(4000, rng=7)
    assert np.array_equal(sample, law.sample(4000, rng=np.random.default_rng(7)))
    for k in (1, 2, 3):
        error = np.std(sample**k) / np.sqrt(len(sample))
        assert abs(np.mean(sample**k) - law.moment(k)) < 5 * error


def test_laws_cannot_be_changed():
    law = MarchenkoPastur(0.5)
    with pytest.raises(AttributeError, match="cannot be changed"):
        law.ratio = 0.4
    with pytest.raises(ValueError, match="read-only"):
        law.edges[0] = 0
    with pytest.raises(ValueError, match="read-only"):
        (law + Discrete([0, 3])).support[0, 0] = 0


BAD = [
    (lambda: MarchenkoPastur(-0.1), "ratio must be at least 0, got -0.1."),
    (lambda: MarchenkoPastur(np.nan), "ratio must be finite, got nan."),
    (lambda: MarchenkoPastur([0.1, 0.2]), "ratio must be a single number"),
    (lambda: Semicircle(0), "variance must be above 0, got 0."),
    (lambda: Discrete([]), "atoms must be a list of at least one number"),
    (lambda: Discrete([1, np.inf]), "atoms must be finite"),
    (lambda: Discrete([1, 2], [1]), "weights must be of length 2, like the atoms"),
    (lambda: Discrete([1, 2], [1, -1]), "weights must be at least 0, and not all 0"),
    (lambda: Discrete([1, 2], [0, 0]), "weights must be at least 0, and not all 0"),
    (lambda: MarchenkoPastur(1) + np.inf, "shift must be finite, got inf."),
    (lambda: MarchenkoPastur(1) * np.nan, "scale must be finite, got nan."),
    (lambda: MarchenkoPastur(1) / 0, "scale must be different from zero, got 0.0."),
    (lambda: MarchenkoPastur(1).quantile(1.2), "q must be between 0 and 1, got 1.2."),
    (lambda: MarchenkoPastur(1).density(np.nan), "x must be finite, got nan."),
    (lambda: MarchenkoPastur(1).moment(-1), "k must be a whole number of at least 0, got -1."),
    (lambda: MarchenkoPastur(1).moment(1.5), "k must be a whole number of at least 0, got 1.5."),
    (lambda: MarchenkoPastur(1).sample(0), "n must be a whole number of at least 1, got 0."),
    (lambda: MarchenkoPastur(1).stieltjes(2.0), "z must be outside the support when real, got 2."),
    (lambda: MarchenkoPastur(4).stieltjes(0.0), "z must be outside the support when real, got 0."),
    (lambda: MarchenkoPastur(1).stieltjes("a"), "z must be made of numbers"),
    (
        lambda: Semicircle() @ Semicircle(),
        "one factor of a free multiplicative convolution",
    ),
]


@pytest.mark.parametrize(("call", "sentence"), BAD, ids=[sentence for _, sentence in BAD])
def test_bad_input_gets_the_one_sentence(call, sentence):
    with pytest.raises(ValueError, match=sentence.replace("(", r"\(").replace(".", r"\.")):
        call()


def test_operators_refuse_what_is_no_law():
    for operation in (
        lambda law: law @ 2,
        lambda law: law * law,
        lambda law: law + "a",
        lambda law: law * [1, 2],
        lambda law: law / law,
    ):
        with pytest.raises(TypeError):
            operation(MarchenkoPastur(0.5))


def test_laws_are_public():
    assert al.MarchenkoPastur is MarchenkoPastur
    assert al.Semicircle is Semicircle
    assert al.Discrete is Discrete


def test_the_cdf_does_not_fall_next_to_a_hard_edge():
    """At 5e-324 it was 1: the width of the bulk underflowed."""
    assert np.all((20 * MarchenkoPastur(1)).cdf([5e-324, 1e-300]) < 1e-12)
