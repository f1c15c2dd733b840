"""Sequences of several kinds: limits, identities, shapes, sentences."""

import re

import numpy as np
import pytest
from numpy.testing import assert_allclose

import attnlaw as al

LENGTHS = (5, 40)
COMMON = {"vocab_ratio": 0.5, "sample_ratio": 0.8, "signal_norm": 1.5}


def lengths(**changes):
    settings = COMMON | {
        "correlations": [al.prefix_correlation(n, prefix=5) for n in LENGTHS],
        "weights": [al.mean_weights(n) for n in LENGTHS],
        "shares": [0.3, 0.7],
    }
    return al.SequenceMixture(**settings | changes)


@pytest.mark.filterwarnings("ignore::attnlaw.RegimeWarning")
@pytest.mark.parametrize("sampling", ["token", "gaussian"])
def test_with_fixed_weights_only_the_mean_correlation_matters(sampling):
    both = [al.prefix_correlation(20, prefix=2), al.autoregressive_correlation(20, 0.9)]
    w = al.causal_weights(20)
    grid = {
        "vocab_ratio": np.array([[[0.0]], [[0.5]], [[2.0]]]),
        "sample_ratio": np.array([[0.0], [0.4], [3.0]]),
        "signal_norm": np.linspace(0, 3, 7),
        "sampling": sampling,
    }
    mixed = al.predict(al.SequenceMixture(correlations=both, weights=w, shares=[1, 3], **grid))
    mean = al.predict(
        al.PooledSequences(correlation=both[0] / 4 + 3 * both[1] / 4, weights=w, **grid)
    )
    for field in vars(mean):
        assert_allclose(
            getattr(mixed, field), getattr(mean, field), rtol=1e-7, atol=1e-7, err_msg=field
        )


def test_infinitely_many_samples_see_the_population():
    """γ → 0: every kind counts in full."""
    spike = al.predict(lengths(sample_ratio=0.0))
    assert_allclose(spike.top_eigenvalue, spike.population_eigenvalue, rtol=1e-10)
    assert_allclose(spike.squared_overlap, spike.population_overlap, rtol=1e-8)


@pytest.mark.parametrize(("delta", "gamma"), [(0.5, 0.8), (2.0, 0.3), (0.1, 2.0)])
def test_edge_is_that_of_the_free_convolution(delta, gamma):
    mixture = lengths(vocab_ratio=delta, sample_ratio=gamma)
    law = al.law(mixture)
    assert_allclose(al.predict(mixture).bulk_edge, law.edges[-1], rtol=1e-9)
    assert_allclose(law.moment(1), mixture.noise_gain, rtol=1e-12)


def test_kinds_of_equal_noise_are_joined_in_the_law():
    w = al.mean_weights(20)
    mixture = al.SequenceMixture(
        correlations=[np.eye(20), al.prefix_correlation(20, 5)], weights=w, **COMMON
    )
    expected = (1 / 20) * (al.MarchenkoPastur(0.5) @ al.MarchenkoPastur(0.8))
    assert_allclose(al.law(mixture).edges, expected.edges, rtol=1e-12)


def test_outlier_solves_the_equations_of_a_separable_resolvent():
    """A second way: e and φ of Paul and Silverstein by iteration at the predicted eigenvalue."""
    mixture = lengths()
    spike = al.predict(mixture)
    q, alpha, kappa = mixture.kind_shares, mixture.signal_gains, mixture.noise_gains
    x, delta, gamma, theta = spike.top_eigenvalue, 0.5, 0.8, 1.5**2 + 0.5
    law = al.MarchenkoPastur(delta)
    e = 0.0
    for _ in range(5000):
        phi = q @ (kappa / (1 + gamma * kappa * e))
        z = x / phi
        e = -(z * -law.stieltjes(z) - 1) / phi  # (1/d) tr C₀ (S − x)⁻¹
    gain = q @ (alpha / (1 + gamma * kappa * e))
    assert gain * theta * -law.stieltjes(z) / phi == pytest.approx(1, abs=1e-9)


def test_overlap_vanishes_at_the_edge_and_nowhere_above():
    norms = np.linspace(0.0, 3.0, 400)
    spike = al.predict(lengths(signal_norm=norms, sampling="gaussian"))
    assert (spike.squared_overlap[~spike.is_detectable] == 0).all()
    seen = spike.squared_overlap[spike.is_detectable]
    assert (np.diff(seen) > 0).all()
    assert 0 < seen[0] < 0.1
    assert seen[-1] < 1
    assert (spike.sample_overlap <= 1).all()


def test_scalars_come_back_as_plain_numbers():
    kinds = {type(value) for value in vars(al.predict(lengths())).values()}
    assert kinds == {float, bool}


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"correlations": []}, "correlations must be at least one matrix, got []."),
        ({"weights": [al.mean_weights(5)]}, "weights must be 2 arrays, one for each correlation"),
        (
            {"weights": [al.mean_weights(5), np.ones(40)]},
            "weights must be of the same sum for every kind",
        ),
        (
            {"weights": [al.mean_weights(40), al.mean_weights(40)]},
            "weights must be of length 5, like the correlation",
        ),
        ({"shares": [1.0]}, "shares must be of length 2, one for each correlation"),
        ({"shares": [1.0, -1.0]}, "shares must be above 0, got [1.0, -1.0]."),
        (
            {"sampling": "tokens"},
            "sampling must be one of 'token', 'gaussian', got 'tokens' (did you mean 'token'?).",
        ),
    ],
)
def test_bad_input_gets_the_sentence(changes, sentence):
    with pytest.raises(ValueError, match=f"^{re.escape(sentence)}"):
        lengths(**changes)
