"""Attention to a query: theory against simulation, and mean pooling's formula beside it.

The formulas are those of docs/theory/query-attention.md, "The outlier".
"""

import warnings
from dataclasses import replace

import numpy as np
import pytest

import attnlaw as al

MODEL = al.QueryAttention(
    n_tokens=4000,
    informative_tokens=600,
    dimension=80,
    n_samples=480,
    length=20,
    informative_share=0.15,
    signal_norm=1.5,
    marker_norm=2.0,
)


@pytest.mark.parametrize(
    ("scoring", "beta"),
    [("exponential", 0.25), ("softmax", 0.25), ("softmax", 0.5), ("sigmoid", 2.0)],
)
def test_attention_is_predicted_and_mean_pooling_does_not_fit(scoring, beta, z_score):
    right = replace(MODEL, scoring=scoring, inverse_temperature=beta)
    seen = al.simulate(right, n_trials=60, rng=0)
    predicted, other = al.predict(right), al.predict(MODEL)
    assert abs(z_score(seen.squared_overlap, predicted.squared_overlap)) < 5
    assert abs(z_score(seen.top_eigenvalue, predicted.top_eigenvalue)) < 5
    assert z_score(seen.squared_overlap, other.squared_overlap) > 5
    assert z_score(seen.top_eigenvalue, other.top_eigenvalue) > 5


def test_attention_does_not_pay_where_the_vocabulary_limits(z_score):
    """Few informative tokens, many samples: unequal weights cost more than they gain."""
    limited = replace(MODEL, n_tokens=1000, informative_tokens=150, n_samples=2000)
    limited = replace(limited, signal_norm=2.0)
    attentive = replace(limited, inverse_temperature=0.75)
    mean = al.predict(limited).squared_overlap
    with pytest.warns(al.RegimeWarning, match="token with the largest weight"):
        with_query = al.predict(attentive).squared_overlap
    assert with_query < mean
    for model, predicted in ((limited, mean), (attentive, with_query)):
        seen = al.simulate(model, n_trials=30, rng=1).squared_overlap
        assert abs(z_score(seen, predicted)) < 5


def test_query_that_misses_the_marker_helps_less(z_score):
    worse = replace(MODEL, query_overlap=0.6, inverse_temperature=0.5)
    seen = al.simulate(worse, n_trials=60, rng=2).squared_overlap
    predicted = al.predict(worse).squared_overlap
    assert predicted < al.predict(replace(MODEL, inverse_temperature=0.5)).squared_overlap
    assert abs(z_score(seen, predicted)) < 5


@pytest.mark.parametrize("causal", [False, True])
def test_random_softmax_has_the_gains_of_its_draws(causal):
    """Weights drawn from i.i.d. scores, 20,000 of them, beside their expected gains."""
    R, rng, L, tau = al.prefix_correlation(8, prefix=3), np.random.default_rng(0), 8, 1.5
    scores = np.exp(tau * rng.standard_normal((20_000, L, L)))
    mask = np.tril(np.ones((L, L)), -1) if causal else np.ones((L, L))
    mask[0, 0] = 1
    A = scores * mask
    w = (A / A.sum(axis=2, keepdims=True)).mean(axis=1)
    alpha, kappa = al.theory.random_attention_gains(R, tau, causal=causal)
    drawn = np.einsum("ni,ij,nj->n", w, R, w), np.sum(w**2, axis=1)
    for values, expected in zip(drawn, (alpha, kappa), strict=True):
        error = values.std() / np.sqrt(len(values))
        assert abs(values.mean() - expected) < 5 * error
    equal = al.theory.random_attention_gains(R, 0.0, causal=causal)
    assert alpha / kappa < equal[0] / equal[1]


@pytest.mark.filterwarnings("ignore:the token with the largest weight")  # and yet it agrees
@pytest.mark.parametrize(
    "changes",
    [{"inverse_temperature": 0.5}, {"marker_norm": 1.5, "informative_tokens": 1200}],
    ids=["strong marker", "weak marker"],
)
def test_learned_query_is_a_given_one_with_the_overlap_of_the_spike(changes, z_score):
    settings = {"inverse_temperature": 0.75, "dimension": 150, "n_samples": 900} | changes
    right = replace(MODEL, signal_norm=1.0, query="learned", **settings)
    seen, predicted = al.simulate(right, n_trials=40, rng=3), al.predict(right)
    perfect = al.predict(replace(right, query="given"))
    assert abs(z_score(seen.squared_overlap, predicted.squared_overlap)) < 5
    assert abs(z_score(seen.top_eigenvalue, predicted.top_eigenvalue)) < 5
    assert abs(z_score(seen.top_eigenvalue, perfect.top_eigenvalue)) > 5


def test_scores_of_the_tokens_that_were_learned_from_are_spread_out_too_much():
    """Variance (1 + δ/θ)² and distance ρ‖ν‖(1 + δ/θ): the leave-one-out correction."""
    model = replace(MODEL, dimension=300, query="learned")
    rho, share, n = al.theory.learned_query_overlap(model), 0.15, 600
    stretch = 1 + 300 / 4000 / (share * (1 - share) * 4)
    drawn = []
    for seed in range(20):
        E = np.random.default_rng(seed).standard_normal((4000, 300))
        E[:300, 0] += 1.5
        E[300:n, 0] -= 1.5
        E[:n, 1] += 2.0
        _, _, (q, *_) = np.linalg.svd(E - E.mean(axis=0), full_matrices=False)
        h = E @ (q * np.sign(q[1]))
        drawn.append((q[1] ** 2, h[n:].std(), h[:n].mean() - h[n:].mean()))
    means, errors = np.mean(drawn, axis=0), np.std(drawn, axis=0, ddof=1) / np.sqrt(20)
    expected = np.array([rho**2, stretch, 2 * rho * stretch])
    assert np.all(np.abs(means - expected) < 5 * errors)
    assert abs(means[1] - 1) > 20 * errors[1]


def random_setting(rng):
    """Return a setting at random, mild or sharp."""
    V = int(rng.choice([1000, 3000, 10_000]))
    return al.QueryAttention(
        n_tokens=V,
        informative_tokens=int(V * rng.choice([0.05, 0.15, 0.3])),
        dimension=int(rng.choice([60, 120])),
        n_samples=int(rng.choice([300, 900])),
        length=int(rng.choice([8, 20, 60])),
        informative_share=float(rng.choice([0.05, 0.15, 0.3])),
        signal_norm=rng.uniform(1, 4),
        marker_norm=rng.uniform(0.5, 3),
        inverse_temperature=rng.uniform(0.1, 1.5),
        scoring=str(rng.choice(["exponential", "sigmoid", "softmax"])),
    )


@pytest.mark.slow
def test_a_warning_tells_where_single_tokens_take_over():
    rng, errors = np.random.default_rng(11), {True: [], False: []}
    for seed in range(60):
        model = random_setting(rng)
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always", al.RegimeWarning)
            predicted = al.predict(model).squared_overlap
        seen = np.asarray(al.simulate(model, n_trials=30, rng=seed).squared_overlap)
        if max(predicted, seen.mean()) < 0.3:
            continue  # near its threshold a transition is smeared at any finite size
        noise = seen.std(ddof=1) / np.sqrt(len(seen))
        errors[bool(told)].append(max(abs(seen.mean() - predicted) - 3 * noise, 0.0))
    assert min(map(len, errors.values())) >= 8
    assert max(errors[False]) < 1 / 60  # d⁻¹ of the smaller dimension
    assert np.mean(errors[True]) > 3 / 60
