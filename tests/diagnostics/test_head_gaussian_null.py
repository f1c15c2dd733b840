"""What is read off a saved map: temperature, width, singular values beside their law."""

import numpy as np
import pytest
from drawn_heads import queries_and_keys, scores, softmax

from attnlaw.diagnostics.heads.gaussian_null import (
    centred_spectrum,
    compare_spectrum,
    score_rank,
    score_spread,
)
from attnlaw.models import SelfAttention
from attnlaw.simulation import simulate_spectrum


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("beta", [0.1, 1.0, 4.0])
def test_inverse_temperature_is_found(causal, beta):
    rng = np.random.default_rng(0)
    found = [
        score_spread(A, causal=causal).inverse_temperature
        for A in softmax(scores(*queries_and_keys(40, 60, 24, rng), beta), causal)
    ]
    error = np.std(found, ddof=1) / 40**0.5
    assert abs(np.sqrt(np.mean(np.square(found))) - beta) < 5 * error
    # the nearest wrong formula counts rows as if they had lost no degree of freedom
    wrong = np.mean(found) * (1 - 1 / (30 if causal else 60)) ** 0.5
    assert abs(wrong - beta) > 0.5 * error


def test_inverse_temperature_survives_lost_digits():
    A = softmax(scores(*queries_and_keys(20, 80, 32, np.random.default_rng(1)), 40.0))
    short = A.astype(np.float32)
    short[short < 1e-38] = 0
    short /= short.sum(axis=-1, keepdims=True)
    seen = [score_spread(np.float64(a), causal=False) for a in short]
    assert min(s.zero_share for s in seen) > 0.01
    assert np.mean([s.inverse_temperature for s in seen]) == pytest.approx(40, rel=0.05)


def test_one_hot_rows_have_no_temperature():
    assert score_spread(np.eye(9), causal=False).inverse_temperature == np.inf


@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.float16])
@pytest.mark.parametrize("causal", [False, True])
def test_width_is_the_rank_of_the_scores(dtype, causal):
    A = softmax(scores(*queries_and_keys(1, 90, 17, np.random.default_rng(2))), causal)[0]
    assert score_rank(A.astype(dtype).astype(np.float64), causal=causal).rank == 17


def test_width_beyond_the_number_of_tokens_is_in_the_fourth_moment():
    heads = softmax(scores(*queries_and_keys(30, 40, 80, np.random.default_rng(3))))
    found = [score_rank(A, causal=False) for A in heads]
    assert all(f.rank is None for f in found)
    assert np.median([f.moment for f in found]) == pytest.approx(80, rel=0.1)


def test_spectrum_is_that_of_the_simulation():
    model = SelfAttention(n_tokens=30, head_dimension=8, inverse_temperature=1.0)
    drawn = simulate_spectrum(model, rng=0)[0]
    stream = np.random.default_rng(0).spawn(1)[0]
    Q, K = stream.standard_normal((30, 8)), stream.standard_normal((30, 8))
    A = softmax(Q @ K.T / 8**0.5)
    np.testing.assert_allclose(centred_spectrum(A, causal=False), drawn, atol=1e-10)


def test_causal_rows_have_equal_energy():
    A = softmax(scores(*queries_and_keys(400, 40, 20, np.random.default_rng(4)), 0.3), True)
    support = np.arange(1, 41)[:, None]
    rows = np.sum((A - np.tri(40) / support) ** 2, axis=2) * support[:, 0]
    energy = np.expm1(0.09) * (1 - 1 / support[10:, 0])  # rows sum to one: one degree less
    error = rows.std(axis=0, ddof=1)[10:] / 20
    assert (np.abs(rows.mean(axis=0)[10:] - energy) < 5 * error + 0.05 * energy).all()
    traces = [centred_spectrum(a, causal=True).sum() for a in A]
    np.testing.assert_allclose(traces, rows.sum(axis=1), rtol=1e-9)


@pytest.mark.parametrize("causal", [False, True])
def test_random_heads_have_the_spectrum_of_the_law(causal):
    """Few random heads are far from the law, and heads with another width are."""
    rng = np.random.default_rng(8)
    heads = softmax(scores(*queries_and_keys(60, 48, 16, rng)), causal)
    p = np.array([compare_spectrum(A, 16, 1.0, causal=causal).p_value for A in heads])
    assert compare_spectrum(heads[0], 16, 1.0, causal=causal).law_from == "theory"
    assert np.sum(p < 0.05) <= 11  # binomial: 3 on average, above 11 once in 10,000
    wrong = [compare_spectrum(A, 4, 1.0, causal=causal).p_value for A in heads]
    assert np.sum(np.array(wrong) < 0.05) > 40  # the law of another width would be noticed


def test_spectrum_beyond_the_regime_of_theory_is_simulated():
    A = softmax(scores(*queries_and_keys(1, 48, 6, np.random.default_rng(9))))[0]
    found = compare_spectrum(A, 6, 1.0, causal=False)
    assert found.law_from == "simulation"
    assert found.p_value > 1e-3
    assert found.predicted.sum() == pytest.approx(found.squared_singular_values.sum())
