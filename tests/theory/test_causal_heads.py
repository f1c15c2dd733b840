"""Causal heads: exact means of rows, limits of the law, and every inverse temperature."""

import time

import numpy as np
import pytest
from numpy.testing import assert_allclose

import attnlaw as al
from attnlaw.laws import CausalLaw
from attnlaw.theory.attention.causal import causal_energies, causal_head
from attnlaw.theory.attention.kernel import Kernel
from attnlaw.theory.attention.rows import decayed_energies, row_energies, row_means


def gaussian_grid(n_points=801):
    x = np.linspace(-8.5, 8.5, n_points)
    weights = np.exp(-(x**2) / 2)
    return x, weights / weights.sum()


def causal(n, d, beta, **rest):
    return al.SelfAttention(
        n_tokens=n, head_dimension=d, inverse_temperature=beta, causal=True, **rest
    )


@pytest.mark.parametrize("beta", [0.01, 0.5, 2.0, 8.0])
def test_two_entries_are_a_hyperbolic_tangent(beta):
    # A = (1 ± tanh(βΔ/2))/2 with Δ ~ N(0, 2): 2ΣA² − 1 = tanh²
    x, weights = gaussian_grid()
    energy, _ = row_means(beta * x, weights, x[None], np.array([2.0]))
    gap = np.sqrt(2) * x
    tanh = np.tanh(beta * gap / 2)
    assert_allclose(energy[0], weights @ tanh**2, rtol=1e-7)


@pytest.mark.parametrize("n", [3, 40])
def test_row_energy_is_that_of_drawn_rows(n):
    rng = np.random.default_rng(n)
    scores = 1.3 * rng.standard_normal((40_000, n))
    A = np.exp(scores)
    A /= A.sum(axis=1, keepdims=True)
    seen = n * (A**2).sum(axis=1) - 1
    x, weights = gaussian_grid()
    energy, squares = row_means(1.3 * x, weights, x[None], np.array([float(n)]))
    assert abs(seen.mean() - energy[0]) < 4 * seen.std() / seen.size**0.5
    first = A * scores / 1.3
    others = 1 / np.exp(scores[:, 1:]).sum(axis=1)
    single = first.sum(axis=1).mean() ** 2 * (others**2).mean() / others.mean() ** 2
    single *= n / (n - 1)  # the row is centred
    pairs = (first.sum(axis=1) ** 2 - (first**2).sum(axis=1)).mean()
    assert_allclose(squares[0, 0], np.sqrt(single * pairs), rtol=0.05)


def test_first_moment_is_the_exact_energy():
    model = causal(400, 64, 1.2)
    energies, term = causal_energies(model)
    assert energies[0] == pytest.approx(0, abs=1e-9)
    law = al.law(model)
    lengths = causal_head(model).profile.places
    assert lengths.size < 300  # in bins; energies are smooth in i
    assert_allclose(law.moment(1) + term, energies.mean(), rtol=1e-6)


def test_large_heads_tend_to_the_closed_form():
    model = causal(20_000, 10**7, 0.05)
    law = al.law(model)
    x = 0.05**2 * np.array([1e-4, 0.01, 0.3, 1.0, 4.0])
    assert_allclose(law.cdf(x), al.law(model, "first").cdf(x), atol=3e-3)
    assert al.law(model, "first") == CausalLaw(np.expm1(0.05**2))


def test_equal_heads_share_a_law_and_it_is_fast():
    first = al.law(causal(777, 64, 0.9))
    first.cdf(1.0)
    start = time.process_time()
    again = al.law(causal(777, 64, 0.9))
    assert again.cdf(1.0) == first.cdf(1.0)  # its table is not solved again
    assert time.process_time() - start < 0.01
    start = time.process_time()
    al.law(causal(1000, 64, 1.0)).cdf(np.linspace(0.01, 20, 1000))
    assert time.process_time() - start < 2.0  # 0.23 s on an idle core


@pytest.mark.parametrize("beta", [1e-300, 1e-100, 1e-9, 1e-3, 0.1])
def test_small_inverse_temperatures_scale(beta):
    law = al.law(causal(60, 16, beta))
    x = np.geomspace(1e-12, 1e3, 200) * max(beta**2, 1e-290)
    cdf = law.cdf(x)
    assert (np.diff(cdf) >= 0).all()
    assert ((cdf >= 0) & (cdf <= 1)).all()
    if 1e-100 < beta < 0.01:
        reference = al.law(causal(60, 16, 1e-3))
        assert_allclose(law.quantile(0.7) / beta**2, reference.quantile(0.7) / 1e-6, rtol=1e-12)


@pytest.mark.filterwarnings("ignore::attnlaw.RegimeWarning")
@pytest.mark.parametrize(
    ("n", "beta", "more"),
    [
        (2, 0.1, {}),
        (2, 3.0, {}),
        (3, 1.0, {"sink": 0.5}),
        (3, 8.0, {}),
        (40, 2.5, {}),
        (40, 10.0, {}),
        (40, 1e8, {}),
        pytest.param(40, 10.0, {"sink": 0.999}, marks=pytest.mark.slow),
        (40, 5.0, {"alibi_slope": 2.0}),
        (40, 5.0, {"window": 2}),
        (40, 0.5, {"window": 1}),
        (40, 0.5, {"alibi_slope": 50.0}),
        (2, 0.5, {"sink": 0.5}),
    ],
)
def test_extreme_heads_have_a_possible_law(n, beta, more):
    law = al.law(causal(n, 16, beta, **more))
    x = np.r_[0.0, np.geomspace(1e-300, 1e6, 300)]
    cdf = law.cdf(x)
    assert (np.diff(cdf) >= 0).all()
    assert ((cdf >= 0) & (cdf <= 1)).all()
    assert (law.density(x[1:]) >= 0).all()
    assert 0 <= law.moment(1) <= n
    assert law.moment(2) >= 0.999 * law.moment(1) ** 2


def test_values_multiply_by_marchenko_pastur():
    with_values = al.law(causal(100, 32, 0.8, value_dimension=50))
    alone = al.law(causal(100, 32, 0.8))
    assert_allclose(with_values.moment(1), alone.moment(1), rtol=0.02)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"order": "powers"}, "order must be 'first', 'tokens' or 'cavity' for a causal head"),
        ({"order": "frozen"}, "order must be 'first', 'tokens' or 'cavity' for a causal head"),
        ({"input_spectrum": [1.0, 2.0]}, "input_spectrum must be None for the law of a causal"),
        ({"order": "first", "window": 9}, "order must be 'tokens' for a head with a window or a"),
        ({"order": "first", "sink": 0.5}, "order must be 'tokens' or 'cavity' for a head with a"),
        ({"inputs": np.eye(50)}, "inputs must be None for the law of a causal head"),
    ],
)
def test_an_order_without_a_law_is_rejected(change, message):
    order = change.pop("order", "auto")
    with pytest.raises(ValueError, match=message):
        al.law(causal(50, 16, 0.5, **change), order)


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"window": 20, "causal": False}, "causal must be True when there is a mean pattern"),
        ({"sink": 1.0}, "sink must be below 1, got 1.0"),
        ({"alibi_slope": -0.1}, "alibi_slope must be at least 0"),
        ({"window": 0}, "window must be a whole number of at least 1"),
        ({"rotary_base": 1.0}, "rotary_base must be above 1"),
        ({"rotary_base": 1e4, "head_dimension": 5}, "head_dimension must be even for RoPE, got 5"),
        ({"inputs": np.zeros((50, 3))}, "inputs must be not all 0"),
    ],
)
def test_invalid_patterns_are_rejected(more, message):
    fields = {"n_tokens": 50, "head_dimension": 16, "inverse_temperature": 0.5, "causal": True}
    with pytest.raises(ValueError, match=message):
        al.SelfAttention(**{**fields, **more})


@pytest.mark.parametrize(
    ("more", "same"),
    [
        ({"window": 200}, {}),
        ({"window": 5000}, {}),
        ({"alibi_slope": 1e-7}, {}),
        ({"rotary_base": 1e4}, {}),
    ],
)
def test_patterns_that_leave_everything_leave_the_law(more, same):
    x = np.array([1e-3, 0.05, 0.4, 1.5, 4.0])
    law, plain = al.law(causal(200, 64, 0.8, **more)), al.law(causal(200, 64, 0.8, **same))
    assert_allclose(law.cdf(x), plain.cdf(x), atol=3e-3)


def test_energy_of_a_decaying_row_is_that_of_drawn_rows():
    kernel = Kernel(causal(200, 64, 1.0))
    energies = decayed_energies(kernel, 0.1, np.array([1.0, 6.0, 40.0, 400.0]))
    assert_allclose(energies[0], 0, atol=1e-9)
    rng = np.random.default_rng(0)
    for line, n in ((1, 6), (2, 40)):
        v = np.exp(-0.1 * np.arange(n))
        pattern = v / v.sum()
        A = v * np.exp(kernel.norms[2] * rng.standard_normal((30_000, n)))
        A /= A.sum(axis=1, keepdims=True)
        seen = ((A - pattern) ** 2).sum(axis=1) / (pattern**2).sum()
        z = (seen.mean() - energies[line, 2]) / (seen.std() / seen.size**0.5)
        assert abs(z) < 5
        # a row of as many equal entries, in effect, has more
        equal = row_energies(kernel, np.array([1 / (pattern**2).sum()]))[0, 2]
        assert n == 6 or equal > 1.02 * seen.mean()


def test_long_sequences_under_short_patterns_repeat_themselves():
    x = np.array([1e-3, 0.05, 0.4, 1.5, 4.0])
    long, short = (al.law(causal(n, 64, 0.7, window=60)).cdf(x) for n in (6000, 1500))
    assert_allclose(long, short, atol=0.02)


def test_short_patterns_are_outside_the_regime():
    with pytest.warns(al.RegimeWarning, match="sees 8 tokens in effect"):
        al.law(causal(200, 64, 0.7, window=8))


def test_grouped_queries_need_a_divisor():
    with pytest.raises(ValueError, match="n_key_heads must be a divisor of 4, got 3"):
        causal(50, 16, 0.5, n_heads=4, n_key_heads=3)
    assert causal(50, 16, 0.5, n_heads=4).n_key_heads == 4
