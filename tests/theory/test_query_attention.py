"""Attention to a query: gains in closed form, limits, and checks."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose

import attnlaw as al
from attnlaw.theory import best_inverse_temperature, exponential_gain, posterior_gain

MODEL = al.QueryAttention(
    n_tokens=2000,
    informative_tokens=300,
    dimension=100,
    n_samples=500,
    length=12,
    informative_share=0.15,
    signal_norm=1.5,
    marker_norm=2.0,
)


@given(f=st.floats(0.01, 0.9), n=st.floats(0.1, 3.0))
def test_no_temperature_beats_the_best_and_no_weights_the_posterior(f, n):
    best = best_inverse_temperature(f, n)
    gain = exponential_gain(best, f, n)
    assert np.all(exponential_gain(np.linspace(0, 4, 200), f, n) <= gain * (1 + 1e-9))
    assert gain <= posterior_gain(f, n) * (1 + 1e-9) <= 1 / f * (1 + 1e-6)


def test_gain_is_that_of_long_sequences_from_large_tables():
    """SNR (E₁g)²/(f E₁g² + (1−f) E₀g²) by quadrature, g = e^{βh}."""
    x, w = np.polynomial.hermite_e.hermegauss(60)
    w = w / w.sum()
    f, n, beta = 0.2, 1.3, 0.6
    g0, g1 = np.exp(beta * x), np.exp(beta * (x + n))
    snr = (w @ g1) ** 2 / (f * (w @ g1**2) + (1 - f) * (w @ g0**2))
    assert_allclose(exponential_gain(beta, f, n), snr, rtol=1e-10)


def test_all_scorings_are_mean_pooling_at_zero():
    predictions = [
        al.predict(replace(MODEL, scoring=s)) for s in ("softmax", "exponential", "sigmoid")
    ]
    for p in predictions[1:]:
        assert_allclose(p.squared_overlap, predictions[0].squared_overlap, rtol=1e-4)
        assert_allclose(p.top_eigenvalue, predictions[0].top_eigenvalue, rtol=1e-4)


def test_softmax_of_long_sequences_is_not_normalised():
    """The sum over a long sequence is its mean: softmax and exponential weights agree."""
    long = replace(MODEL, length=3000, inverse_temperature=0.4, signal_norm=0.5)
    both = [
        al.predict(replace(long, scoring=s)).squared_overlap for s in ("softmax", "exponential")
    ]
    assert_allclose(both[0], both[1], rtol=5e-3)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"informative_tokens": 301}, "informative_tokens must be"),
        ({"informative_share": 0.0}, "informative_share must be"),
        ({"query_overlap": 1.5}, "query_overlap must be"),
        ({"scoring": "cosine"}, "scoring must be"),
    ],
)
def test_invalid_models_are_rejected(changes, message):
    with pytest.raises(ValueError, match=message):
        replace(MODEL, **changes)


def test_dimension_is_not_an_argument_where_the_model_has_it():
    with pytest.raises(ValueError, match="dimension must be 100"):
        al.simulate(MODEL, 50)


@pytest.mark.parametrize(("scoring", "beta"), [("exponential", 0.75), ("softmax", 1.0)])
def test_single_tokens_that_dominate_the_weights_warn(scoring, beta):
    sharp = replace(MODEL, scoring=scoring, inverse_temperature=beta, n_tokens=4000)
    sharp = replace(sharp, informative_tokens=600, dimension=80, length=20, signal_norm=1.25)
    with pytest.warns(al.RegimeWarning, match="token with the largest weight"):
        al.predict(sharp)
    al.predict(replace(sharp, inverse_temperature=0.25))  # warnings are errors
