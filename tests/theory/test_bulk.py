"""The edge of the bulk by its closed form, by 50-digit arithmetic and by the discriminant."""

import re

import mpmath
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose

import attnlaw as al

# from mpmath import mp, mpf, findroot; mp.dps = 50; d, g = mpf(delta), mpf(gamma)
# t = findroot(lambda t: t**3 - (d + g + d*g)*t - 2*d*g, 2*sqrt(d + g + d*g))
# edge = (t + 1)*(t + d)*(t + g)/t**2
GOLDEN = [
    # δ, γ, t*, λ₊/κ
    (0.5, 0.4, 1.1975085931288573718, 4.1555497817922870527),
    (0.4, 0.2, 0.92369740641472882287, 3.3536320191838487471),
    (1.5, 0.5, 1.8832177419263523927, 6.554959921103535725),
    (1e-9, 1e-9, 0.0000447218595527908789, 1.000089445219116762),
    (1e-6, 10.0, 3.1622803994190397916, 17.324560798839812035),
    (100.0, 0.01, 10.060258547757669157, 121.12063653196980412),
    (1.0, 1.0, 2.0, 27 / 4),
]

ratios = st.floats(-12, 4).map(lambda exponent: 10.0**exponent)


@pytest.mark.parametrize(("delta", "gamma", "t", "edge"), GOLDEN)
def test_edge_has_its_golden_value(delta, gamma, t, edge):
    assert_allclose(al.theory.edge_parameter(delta, gamma), t, rtol=1e-15)
    assert_allclose(al.theory.bulk_edge(delta, gamma), edge, rtol=1e-15)
    assert_allclose(al.theory.bulk_edge(delta, gamma, noise_gain=0.05), 0.05 * edge, rtol=1e-15)


@given(ratios, ratios)
def test_edge_parameter_is_exact_to_two_units_in_the_last_place(delta, gamma):
    with mpmath.workdps(50):
        d, g = mpmath.mpf(delta), mpmath.mpf(gamma)
        t = mpmath.findroot(
            lambda t: t**3 - (d + g + d * g) * t - 2 * d * g, 2 * mpmath.sqrt(d + g + d * g)
        )
        error = abs(mpmath.mpf(al.theory.edge_parameter(delta, gamma)) / t - 1)
    assert error < 2 * np.finfo(float).eps


@given(ratios, ratios)
def test_edge_is_a_root_of_the_discriminant_cubic(delta, gamma):
    """A Newton step on P1's cubic from our edge, in 50 digits, does not move it."""
    with mpmath.workdps(50):
        s, p = mpmath.mpf(delta) + gamma, mpmath.mpf(delta) * gamma
        a = 4 * p
        b = p**2 - 10 * p * s - 12 * p + s**2
        c = -2 * (p**2 * s + 10 * p**2 - 4 * p * s**2 - p * s - 6 * p + s**3 + s**2)
        d = (s**2 - 4 * p) * (1 - s + p) ** 2
        x = mpmath.mpf(al.theory.bulk_edge(delta, gamma))
        step = (((a * x + b) * x + c) * x + d) / ((3 * a * x + 2 * b) * x + c)
    assert abs(step / x) < 1e-12


@given(ratios, ratios)
def test_edge_does_not_care_which_ratio_is_which(delta, gamma):
    assert_allclose(
        al.theory.bulk_edge(delta, gamma), al.theory.bulk_edge(gamma, delta), rtol=4e-16
    )


@given(ratios)
def test_infinite_vocabulary_is_marchenko_pastur(gamma):
    assert_allclose(al.theory.bulk_edge(0.0, gamma), (1 + np.sqrt(gamma)) ** 2, rtol=1e-15)
    assert_allclose(al.theory.bulk_edge(gamma, 0.0), (1 + np.sqrt(gamma)) ** 2, rtol=1e-15)


def test_infinite_everything_has_no_width():
    assert al.theory.edge_parameter(0.0, 0.0) == 0
    assert al.theory.bulk_edge(0.0, 0.0) == 1


def test_ratios_at_the_end_of_the_number_line_stay_exact():
    assert_allclose(al.theory.bulk_edge(1e-300, 1e-300), 1, rtol=1e-15)
    assert_allclose(al.theory.edge_parameter(1e-300, 0.0), 1e-150, rtol=1e-15)


@given(ratios, ratios, st.floats(1.001, 3))
def test_edge_grows_with_either_ratio(delta, gamma, factor):
    edge = al.theory.bulk_edge(delta, gamma)
    assert al.theory.bulk_edge(delta * factor, gamma) >= edge
    assert al.theory.bulk_edge(delta, gamma * factor) >= edge


def test_edge_broadcasts():
    delta, gamma = np.array([[0.1], [0.5]]), np.array([0.2, 0.4, 3.0])
    grid = al.theory.bulk_edge(delta, gamma, np.array([2.0, 1.0, 1.0]))
    assert grid.shape == (2, 3)
    assert grid[1, 1] == al.theory.bulk_edge(0.5, 0.4)
    assert isinstance(al.theory.bulk_edge(0.5, 0.4), float)


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ((-0.1, 0.4), "vocab_ratio must be at least 0, got -0.1."),
        ((0.5, float("nan")), "sample_ratio must be finite, got nan."),
        ((0.5, 0.4, 0.0), "noise_gain must be above 0, got 0.0."),
        (("a", 0.4), "vocab_ratio must be made of real numbers, got 'a'."),
    ],
)
def test_bad_input_gets_the_sentence(arguments, sentence):
    with pytest.raises(ValueError, match=f"^{re.escape(sentence)}$"):
        al.theory.bulk_edge(*arguments)


def model(delta, gamma):
    return al.PooledSequences(
        vocab_ratio=delta,
        sample_ratio=gamma,
        signal_norm=1.0,
        correlation=al.prefix_correlation(20, prefix=5),
        weights=al.causal_weights(20),
        sampling="gaussian",
    )


@given(ratios, ratios)
def test_law_and_closed_form_have_the_same_edge(delta, gamma):
    """The law engine finds its edges in its own way."""
    studied = model(delta, gamma)
    edge = al.theory.bulk_edge(delta, gamma, studied.noise_gain)
    assert_allclose(al.law(studied).edges[-1], edge, rtol=1e-12)


def test_law_of_noise_has_trace_kappa():
    studied = model(0.5, 0.4)
    assert_allclose(al.law(studied).moment(1), studied.noise_gain, rtol=1e-13)


def test_law_of_a_grid_is_refused():
    with pytest.raises(ValueError, match=r"^vocab_ratio and sample_ratio must be single numbers"):
        al.law(model(np.array([0.1, 0.2]), 0.4))
