"""Positional correlations: closed spectra, validity, and what is refused."""

import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose

import attnlaw as al
from attnlaw import _machine
from attnlaw.correlations import check_correlation

lengths = st.integers(1, 40)


def largest(R):
    return np.linalg.eigvalsh(R)[-1]


@given(lengths, st.data(), st.floats(0, 1))
def test_prefix_has_its_closed_largest_eigenvalue(L, data, within):
    p = data.draw(st.integers(0, L))
    R = check_correlation(al.prefix_correlation(L, p, within))
    assert_allclose(largest(R), 1 + max(p - 1, 0) * within, rtol=1e-12)
    assert_allclose(R[p:, p:], np.eye(L - p))
    assert not R[:p, p:].any()


@given(lengths, st.floats(-1, 1))
def test_autoregression_decays_with_distance(L, a):
    R = check_correlation(al.autoregressive_correlation(L, a))
    for distance in range(L):
        assert_allclose(np.diag(R, distance), a**distance, rtol=1e-13)


@given(
    st.lists(st.floats(-3, 3).filter(lambda q: abs(q) > 1e-3), min_size=1, max_size=12),
    st.floats(0, 100),
)
def test_spiked_correlation_is_the_rescaled_spike(q, eta):
    R = check_correlation(al.spiked_correlation(eta, q))
    unit = np.array(q) / np.linalg.norm(q)
    C = np.eye(len(q)) + eta * np.outer(unit, unit)
    assert_allclose(R, C / np.sqrt(np.outer(np.diag(C), np.diag(C))), atol=1e-12)


def test_flat_spike_has_its_closed_largest_eigenvalue():
    """All |q_l| equal: R = (I + ηqqᵀ)/(1 + η/L), so λ_max = (1+η)/(1+η/L)."""
    R = al.spiked_correlation(6.0, [1, -1, 1, -1])
    assert_allclose(largest(R), 7 / (1 + 6 / 4), rtol=1e-13)


def test_spike_leaves_positions_outside_its_support_alone():
    R = al.spiked_correlation(5.0, [1, 0, 1])
    assert_allclose(R[1], [0, 1, 0])


def test_a_users_matrix_with_rounding_is_accepted():
    R = al.autoregressive_correlation(30, 0.9)
    check_correlation(R + 1e-12 * np.triu(np.ones_like(R), 1))


def test_lengths_beyond_memory_are_refused_before_they_are_allocated(monkeypatch):
    monkeypatch.setattr(_machine, "available_memory", lambda: 32 * 100**2)
    monkeypatch.setattr(_machine, "ALWAYS_THERE", 0)
    al.prefix_correlation(100, 5)
    for make in (al.prefix_correlation, al.autoregressive_correlation):
        with pytest.raises(ValueError, match=r"^length must be small enough .* got 101\.$"):
            make(101, 1)


INDEFINITE = np.array([[1, 0.9, -0.9], [0.9, 1, 0.9], [-0.9, 0.9, 1]])


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (
            lambda: al.prefix_correlation(4, 5),
            "prefix must be at most the length 4, got 5.",
        ),
        (
            lambda: al.prefix_correlation(4, -1),
            "prefix must be a whole number of at least 0, got -1.",
        ),
        (
            lambda: al.prefix_correlation(0, 0),
            "length must be a whole number of at least 1, got 0.",
        ),
        (
            lambda: al.prefix_correlation(4, 2, within=1.5),
            "within must be between 0 and 1, got 1.5.",
        ),
        (
            lambda: al.prefix_correlation(4, 2, within=np.nan),
            "within must be finite, got nan.",
        ),
        (
            lambda: al.autoregressive_correlation(4, -1.2),
            "coefficient must be between -1 and 1, got -1.2.",
        ),
        (lambda: al.spiked_correlation(-1.0, [1, 1]), "strength must be at least 0, got -1.0."),
        (
            lambda: al.spiked_correlation(1.0, [0, 0]),
            "direction must be different from zero, got [0, 0].",
        ),
        (
            lambda: check_correlation(np.ones((2, 3))),
            "correlation must be a square matrix, got an array of shape (2, 3).",
        ),
        (
            lambda: check_correlation(np.ones(3)),
            "correlation must be an array with 2 axes, got an array of shape (3,).",
        ),
        (
            lambda: check_correlation(2 * np.eye(2)),
            "correlation must be a matrix with a unit diagonal, got [2.0, 2.0].",
        ),
        (
            lambda: check_correlation([[1, 0.5], [0.2, 1]]),
            "correlation must be symmetric to 1e-10, got",
        ),
        (lambda: check_correlation(INDEFINITE), "correlation must be positive semi-definite, got"),
        (lambda: check_correlation([[1, np.nan], [np.nan, 1]]), "correlation must be finite, got"),
        (lambda: check_correlation([[1, 2], [3]]), "correlation must be an array of real numbers"),
        (lambda: check_correlation([["a"]]), "correlation must be made of real numbers, got"),
    ],
)
def test_bad_input_gets_the_sentence(call, sentence):
    with pytest.raises(ValueError, match=f"^{re.escape(sentence)}"):
        call()
